// List of topics, and the creation of one.

import { html, useState, useWrites } from "../core/view.js";
import { api, ask, path } from "../core/request.js";
import { href, navigate, setParams, useRoute } from "../core/route.js";
import { Page, Records, Status, TopicLink } from "../core/parts.js";
import { PagedList } from "../core/table.js";
import { Area, ChangeDialog, DialogButton, Field } from "../core/dialogs.js";
import { bytes, number, UNKNOWN } from "../core/format.js";

// Return the state of a topic's row as status.
export function TopicStatus({ row }) {
  if (row.problem) return html`<${Status} kind="bad">${row.problem}<//>`;
  if (row.leaderless > 0) return html`<${Status} kind="bad">${number(row.leaderless)} without leader<//>`;
  if (row.under_replicated > 0) return html`<${Status} kind="warn">${number(row.under_replicated)} under-replicated<//>`;
  if (row.leaderless === null) return html`<${Status} kind="idle">unknown<//>`;
  return html`<${Status} kind="ok">ok<//>`;
}

// Return settings from lines `name=value`.
function parseSettings(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const mark = line.indexOf("=");
    if (mark < 1) throw new Error(`The line "${line}" is not a setting: write name=value.`);
    return { name: line.slice(0, mark).trim(), value: line.slice(mark + 1).trim() };
  });
}

function CreateTopic({ close }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [replicas, setReplicas] = useState("");
  const [settings, setSettings] = useState("");
  const run = () => ask(path(["v3", "clusters", "-", "topics"]), {
    method: "POST",
    body: {
      topic_name: name,
      ...(partitions ? { partitions_count: Number(partitions) } : {}),
      ...(replicas ? { replication_factor: Number(replicas) } : {}),
      ...(settings.trim() ? { configs: parseSettings(settings) } : {}),
    },
  });
  return html`<${ChangeDialog} title="Create a topic" label="Create" run=${run} isReady=${name !== ""} onClose=${close} onDone=${() => navigate(href(["topics", name]))}>
    <${Field} label="Name" value=${name} set=${setName} required />
    <${Field} label="Partitions" hint="default 1" value=${partitions} set=${setPartitions} type="number" min="1" />
    <${Field} label="Replicas" hint="default 3, or the number of hosts if lower" value=${replicas} set=${setReplicas} type="number" min="1" />
    <${Area} label="Settings" hint="a line each: retention.ms=86400000" value=${settings} set=${setSettings} />
  <//>`;
}

export function TopicsPage() {
  const { params } = useRoute();
  const mayCreate = useWrites("create_topics");
  const isInternal = params.get("internal") === "true";
  return html`<${Page} title="Topics" actions=${mayCreate && html`<${DialogButton} label="Create a topic">${(close) => html`<${CreateTopic} close=${close} />`}<//>`}>
    <${PagedList} request=${(list) => api(["topics"], { ...list, internal: isInternal })} field="topics" caption="Topics" defaultSort="name" rowKey=${(row) => row.name}
      empty="There is no topic yet. Create one with raftlog topic create NAME."
      fields=${html`<label class="check"><input type="checkbox" checked=${isInternal} onChange=${(event) =>
        setParams({ internal: event.currentTarget.checked ? "true" : null, after: null })} /> <span>with internal topics</span></label>`}
      columns=${[
        { title: "Topic", isHeader: true, sort: "name", cell: (row) => html`<${TopicLink} topic=${row.name} />${row.is_internal && html` <span class="tag">internal</span>`}` },
        { title: "State", cell: (row) => html`<${TopicStatus} row=${row} />` },
        { title: "Partitions", isNumber: true, sort: "partitions", cell: (row) => number(row.partitions) },
        { title: "Replicas", isNumber: true, cell: (row) => number(row.replication_factor) },
        { title: "Records", isNumber: true, cell: (row) => html`<${Records} count=${row.records} isExact=${row.is_records_exact} />` },
        { title: "Size of one copy", isNumber: true, cell: (row) => (row.bytes === null ? UNKNOWN : bytes(row.bytes)) },
        { title: "Records of it", cell: (row) => html`<a href=${href(["topics", row.name, "records"])}>look at<span class="hidden"> records of ${row.name}</span></a>` },
      ]} />
  <//>`;
}
