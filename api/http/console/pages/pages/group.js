// One consumer group: lag and its reasons, members, positions, reset of offsets with a preview.

import { html, useState, useWrites } from "../core/view.js";
import { api, ask, path } from "../core/request.js";
import { consoleAt, href, navigate } from "../core/route.js";
import { useAnswer } from "../core/answers.js";
import { Answer, Facts, Page, PartitionLink, Problem, Section, Status } from "../core/parts.js";
import { PagedList, Table } from "../core/table.js";
import { Chart, WHOLE_STEPS } from "../core/chart.js";
import { ChangeDialog, DialogButton } from "../core/dialogs.js";
import { duration, number, plural } from "../core/format.js";
import { GroupState } from "./groups.js";
import { lagReasons, lagTrend } from "./lag.js";
import { useLagRates } from "./lag_rates.js";
import { ResetDialog } from "./reset_dialog.js";

function Reasons({ described, lags, trend, rates }) {
  return html`<${Section} title="Why it lags, or not"><ul class="reasons">${lagReasons(described, lags, trend, rates).map(([kind, finding, action]) =>
    html`<li><p class="message"><${Status} kind=${kind}>${finding}<//></p>${action && html`<p class="todo"><b>What to do:</b> ${action}</p>`}</li>`)}</ul>
    <p class="muted">${rates ? `In the last ${duration(rates.seconds)}: ${number(rates.written, 1)} records per second written, ${number(rates.read, 1)} read and committed.`
      : "Rates are measured while this page is open; the first ones are there after 10 s."}</p><//>`;
}

// Text that names the broker with the history of a group's lag, with a link to its console if its address is known.
function Elsewhere({ group, coordinator, asked }) {
  const brokers = useAnswer(coordinator >= 0 && coordinator !== asked ? api(["brokers"]) : null, { every: 0 });
  const address = brokers.data?.brokers.find((row) => row.node_id === coordinator)?.http_address;
  if (coordinator < 0 || coordinator === asked) return html`<p class="muted">Broker ${asked} has no history of this lag yet: the group is new.</p>`;
  const text = `the console of broker ${coordinator}`;
  return html`<p class="muted">Broker ${coordinator} coordinates the group and has the history of its lag: see ${address ? html`<a href=${consoleAt(address, href(["groups", group]))}>${text}</a>` : text}.</p>`;
}

function Trend({ answer, group, coordinator }) {
  if (answer.error) return html`<${Problem} error=${answer.error} />`;
  const own = answer.data?.groups.find((row) => row.group === group);
  if (!own) {
    return answer.data ? html`<${Elsewhere} group=${group} coordinator=${coordinator} asked=${answer.data.node_id} />` : html`<p class="muted">Loading…</p>`;
  }
  return html`<${Chart} title="Lag over the last hour, records" times=${answer.data.times_ms.map((ms) => ms / 1000)} lines=${[{ label: group, values: own.lag }]} format=${number} steps=${WHOLE_STEPS} />`;
}

function Members({ described }) {
  const { members, member_count: count, leader } = described;
  return html`<${Section} title=${`Members (${number(count)})`}>
    <${Table} caption="Members" rows=${members} rowKey=${(row) => row.member_id} empty="The group has no members." columns=${[
      { title: "Client", isHeader: true, cell: (row) => html`<span class="name">${row.client_id || "–"}</span>${row.member_id === leader && html` <span class="tag">group leader</span>`}` },
      { title: "Host", cell: (row) => row.client_host || "–" },
      { title: "Partitions", isNumber: true, cell: (row) => number(row.partition_count) },
      { title: "Assignment", cell: (row) => (row.partitions.length === 0 ? html`<${Status} kind="idle">none: there are more members than partitions<//>`
        : html`<ul class="inline">${row.partitions.map(({ topic, partition }) => html`<li><${PartitionLink} topic=${topic} partition=${partition} /></li>`)}${
          row.partition_count > row.partitions.length && html`<li class="muted">and ${number(row.partition_count - row.partitions.length)} more</li>`}</ul>`) },
      { title: "Member id", cell: (row) => html`<code class="small">${row.member_id}</code>${row.instance_id && html` <span class="tag">static: ${row.instance_id}</span>`}` },
    ]} />
    ${count > members.length && html`<p class="muted">${number(count - members.length)} more members are not shown.</p>`}<//>`;
}

const rate = (value) => (value === undefined ? "–" : `${number(value, 1)}/s`);

const lagColumns = (rates) => [
  { title: "Partition", isHeader: true, cell: (row) => html`<${PartitionLink} topic=${row.topic} partition=${row.partition} />` },
  { title: "Committed", isNumber: true, cell: (row) => (row.current_offset < 0 ? "none" : number(row.current_offset)) },
  { title: "Log start", isNumber: true, cell: (row) => (row.log_start_offset < 0 ? "–" : number(row.log_start_offset)) },
  { title: "End", isNumber: true, cell: (row) => (row.log_end_offset < 0 ? "–" : number(row.log_end_offset)) },
  { title: "Lag", isNumber: true, cell: (row) => (row.lag < 0 ? html`<${Status} kind="bad">unknown<//>` : html`<b>${number(row.lag)}</b>`) },
  { title: "Written", isNumber: true, cell: (row) => rate(rates?.of(row)?.written) },
  { title: "Read", isNumber: true, cell: (row) => rate(rates?.of(row)?.read) },
  { title: "Read by", cell: (row) => (row.member_id ? html`<span class="name">${row.client_id || row.member_id}</span>` : html`<span class="muted">no member</span>`) },
];

const DeleteGroup = ({ group, close }) => html`<${ChangeDialog} title=${`Delete group ${group}`} label="Delete the group" name=${group} onClose=${close}
  run=${() => ask(path(["v3", "clusters", "-", "consumer-groups", group]), { method: "DELETE" })} onDone=${() => navigate("#/groups")}>
  <p>The group and all its committed offsets are deleted. Consumers that start again begin by their auto.offset.reset.</p><//>`;

export function GroupPage({ group }) {
  const answer = useAnswer(api(["groups", group]));
  const all = useAnswer(api(["groups", group, "lags"], { limit: 200 }));
  const history = useAnswer(api(["history"], { group }), { every: 10000 });
  const mayWrite = useWrites();
  const [reloads, setReloads] = useState(0);
  const reset = () => {
    setReloads((value) => value + 1);
    all.reload();
  };
  const own = history.data?.groups.find((row) => row.group === group);
  const rates = useLagRates(all);
  const trend = (own && lagTrend(history.data.times_ms, own.lag)) ?? (rates && rates.written - rates.read);
  return html`<${Page} title=${`Group ${group}`} trail=${[["Consumer groups", "#/groups"]]} actions=${html`
      <${DialogButton} label=${mayWrite ? "Reset offsets" : "Preview a reset"}>${(close) => html`<${ResetDialog} group=${group} lags=${all.data?.lags ?? []} mayWrite=${mayWrite} close=${close} onDone=${reset} />`}<//>
      ${mayWrite && html`<${DialogButton} label="Delete" name=${group} isDangerous=${true}>${(close) => html`<${DeleteGroup} group=${group} close=${close} />`}<//>`}`}>
    <${Answer} answer=${answer}>${(described) => html`
      <${Facts} rows=${[
        ["State", html`<${GroupState} state=${described.group.state} />`],
        ["Lag", html`<b>${number(all.data?.lag ?? described.group.lag)}</b>${all.data ? ` in ${plural(all.data.total, "partition")}` : ""}`],
        ["Members", number(described.member_count)],
        ["Assignor", described.group.protocol || "–"],
        ["Generation", number(described.group.generation)],
        ["Coordinator", described.group.coordinator_id >= 0 ? `broker ${described.group.coordinator_id}` : "–"],
      ]} />
      ${all.data && html`<${Reasons} described=${described} lags=${all.data.lags} trend=${trend} rates=${rates} />`}
      <${Section} title="Lag by partition">
        <${PagedList} request=${(list) => api(["groups", group, "lags"], { filter: list.filter, after: list.after })} field="lags" caption="Lag by partition" filterLabel="Filter by topic"
          rowKey=${(row) => `${row.topic}/${row.partition}`} empty="The group has neither committed offsets nor assigned partitions." columns=${lagColumns(rates)} reloadKey=${reloads} />
        <${Trend} answer=${history} group=${group} coordinator=${described.group.coordinator_id} /><//>
      <${Members} described=${described} />`}<//>
  <//>`;
}
