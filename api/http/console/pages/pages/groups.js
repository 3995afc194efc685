// List of consumer groups.

import { html } from "../core/view.js";
import { api } from "../core/request.js";
import { useRoute } from "../core/route.js";
import { Page, Status } from "../core/parts.js";
import { ChoiceField, PagedList } from "../core/table.js";
import { number } from "../core/format.js";
import { GroupLink, STATES } from "./lag.js";

export const GroupState = ({ state }) => html`<${Status} kind=${STATES[state]?.[0] ?? "idle"}>${STATES[state]?.[1] ?? state}<//>`;

export function GroupsPage() {
  const { params } = useRoute();
  return html`<${Page} title="Consumer groups">
    <${PagedList} request=${(list) => api(["groups"], { ...list, state: params.get("state") })} field="groups" caption="Consumer groups" defaultSort="name" rowKey=${(row) => row.group}
      empty="There is no consumer group yet."
      fields=${html`<${ChoiceField} label="State" name="state" options=${[["", "any"], ["Stable", "stable"], ["Empty", "empty"], ["PreparingRebalance", "members join"], ["CompletingRebalance", "waits for assignments"]]} />`}
      columns=${[
        { title: "Group", isHeader: true, sort: "name", cell: (row) => html`<${GroupLink} group=${row.group} />` },
        { title: "State", cell: (row) => html`<${GroupState} state=${row.state} />` },
        { title: "Members", isNumber: true, sort: "members", cell: (row) => number(row.members) },
        { title: "Lag", isNumber: true, cell: (row) => number(row.lag) },
        { title: "Assignor", cell: (row) => row.protocol || html`<span class="muted">–</span>` },
        { title: "Generation", isNumber: true, cell: (row) => number(row.generation) },
        { title: "Coordinator", isNumber: true, cell: (row) => (row.coordinator_id >= 0 ? row.coordinator_id : "–") },
      ]} />
  <//>`;
}
