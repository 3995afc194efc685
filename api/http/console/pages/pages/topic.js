// One topic: partitions with leaders, replicas and counts; settings; changes.

import { ConsoleContext, html, useContext, useState, useWrites } from "../core/view.js";
import { api, ask, path } from "../core/request.js";
import { href, navigate, useRoute } from "../core/route.js";
import { useAnswer } from "../core/answers.js";
import { Answer, Facts, Page, Problem, Records, Section, Status, Tabs, Time } from "../core/parts.js";
import { ChoiceField, PagedList, Table } from "../core/table.js";
import { ChangeDialog, DialogButton, Field } from "../core/dialogs.js";
import { bytes, number, plural, UNKNOWN } from "../core/format.js";
import { TopicStatus } from "./topics.js";

export const topicTabs = (topic, current) => html`<${Tabs} label=${`Topic ${topic}`} items=${[
  ["Partitions", href(["topics", topic]), current === "partitions"],
  ["Records", href(["topics", topic, "records"]), current === "records"],
  ["Settings", href(["topics", topic, "settings"]), current === "settings"],
]} />`;

function Replicas({ row }) {
  return html`<ul class="inline replicas">${row.replicas.map((replica) => {
    const behind = replica.entries_behind > 0 ? `, ${number(replica.entries_behind)} entries${replica.bytes_behind ? ` (${bytes(replica.bytes_behind)})` : ""} behind` : "";
    const state = replica.problem ?? (replica.in_sync ? `in sync${behind}` : `not in sync${behind}`);
    return html`<li><${Status} kind=${replica.problem ? "bad" : replica.in_sync ? "ok" : "warn"}>${replica.node_id}${replica.node_id === row.leader_id && " (leader)"}<span class=${replica.in_sync && !replica.problem && !behind ? "hidden" : null}>: ${state}</span><//></li>`;
  })}</ul>`;
}

// Explanation of a partition without a leader: the brokers with its replicas that are down, if the health names any.
function NoLeader({ row }) {
  const { health } = useContext(ConsoleContext);
  const down = row.replicas.map((replica) => replica.node_id).filter((id) => health.data?.health.nodes_down.includes(id));
  if (row.leader_id >= 0 || down.length === 0) return null;
  return html`<p class="message"><${Status} kind="bad">${`${down.length} of its ${plural(row.replicas.length, "replica")} ${down.length === 1 ? "is" : "are"} on ${down.length === 1 ? "broker" : "brokers"} ${down.join(", ")}, which ${down.length === 1 ? "does" : "do"} not answer.`}<//></p>
    ${2 * down.length >= row.replicas.length && html`<p class="todo"><b>What to do:</b> Start ${down.length === 1 ? "this broker" : "these brokers"}: the partition needs a majority of its replicas. <a href="#/brokers">Brokers</a></p>`}`;
}

// Number of records by count of the batch headers at the broker, which answers in steps of bounded work.
function Count({ topic, partition }) {
  const [state, setState] = useState(null);
  const count = async () => {
    let offset = null;
    let records = 0;
    setState({ isBusy: true });
    try {
      for (;;) {
        const answer = await ask(api(["topics", topic, "partitions", String(partition), "count"], { offset }));
        records += answer.records;
        if (answer.is_complete) break;
        offset = answer.next_offset;
        setState({ isBusy: true, records });
      }
      setState({ records });
    } catch (error) {
      setState({ error });
    }
  };
  if (state?.error) return html`<${Problem} error=${state.error} retries=${false} />`;
  if (state && !state.isBusy) return html`<span role="status">${number(state.records)} <span class="muted">counted</span></span>`;
  return html`<button type="button" class="small" disabled=${state !== null} onClick=${count}>${state ? `counting… ${number(state.records ?? 0)}` : "count"}<span class="hidden"> records of partition ${partition}</span></button>`;
}

function MoveLeader({ topic, row, close, reload }) {
  const others = row.replicas.filter((replica) => replica.node_id !== row.leader_id);
  const [target, setTarget] = useState(String(others[0]?.node_id ?? ""));
  const run = () => ask(path(["v1", "partitions", "kafka", topic, String(row.partition), "transfer_leadership"], { target }), { method: "POST" });
  return html`<${ChangeDialog} title=${`Leader of ${topic}/${row.partition}`} label="Transfer leadership" run=${run} onClose=${close} onDone=${reload}>
    <label class="field"><span>New leader</span><select onChange=${(event) => setTarget(event.currentTarget.value)}>${others.map((replica) =>
      html`<option value=${String(replica.node_id)}>broker ${replica.node_id}${replica.in_sync ? "" : " (not in sync)"}</option>`)}</select></label>
    <p class="muted">It is the preferred leader from then on.</p><//>`;
}

function Partitions({ topic }) {
  const { params } = useRoute();
  const mayAlter = useWrites("alter_cluster");
  const [reloads, setReloads] = useState(0);
  const marked = params.get("partition");
  return html`<${Section} title="Partitions">
    <${PagedList} request=${(list) => api(["topics", topic, "partitions"], { after: list.after, only: params.get("only") })} field="partitions" caption=${`Partitions of ${topic}`}
      filterLabel=${null} rowKey=${(row) => row.partition} empty="Every partition is well." reloadKey=${reloads}
      fields=${html`<${ChoiceField} label="Show" name="only" options=${[["all", "all partitions"], ["problems", "only those with problems"]]} />`}
      columns=${[
        { title: "Partition", isHeader: true, cell: (row) => html`<a href=${href(["topics", topic, "records"], { partition: row.partition })} aria-label=${`Records of partition ${row.partition}`}>${row.partition}</a>${String(row.partition) === marked && html` <span class="tag">linked</span>`}` },
        { title: "Leader", cell: (row) => (row.leader_id >= 0 ? `broker ${row.leader_id}` : html`<${Status} kind="bad">none<//>`) },
        { title: "Replicas", cell: (row) => html`<${Replicas} row=${row} />${row.problem && html`<p class="message"><${Status} kind="bad">${row.problem}<//></p>`}<${NoLeader} row=${row} />` },
        { title: "Log start", isNumber: true, cell: (row) => number(row.log_start_offset) },
        { title: "High watermark", isNumber: true, cell: (row) => number(row.high_watermark) },
        { title: "Records", isNumber: true, cell: (row) => html`<${Records} count=${row.records} isExact=${row.is_records_exact} />${row.is_records_exact ? "" : html` <${Count} topic=${topic} partition=${row.partition} />`}` },
        { title: "Size", isNumber: true, cell: (row) => (row.bytes === null ? UNKNOWN : bytes(row.bytes)) },
        ...(mayAlter ? [{ title: "Actions", cell: (row) => row.replicas.length > 1 && html`<${DialogButton} label="Move leader" name=${`of partition ${row.partition}`}>${(close) =>
          html`<${MoveLeader} topic=${topic} row=${row} close=${close} reload=${() => setReloads((value) => value + 1)} />`}<//>` }] : []),
      ]} /><//>`;
}

function ChangeSetting({ topic, row, close, reload }) {
  const [value, setValue] = useState(row.value ?? "");
  const run = () => ask(path(["v3", "clusters", "-", "topics", topic, "configs:alter"]).replace("%3A", ":"), {
    method: "POST", body: { data: [value === "" ? { name: row.name, operation: "DELETE" } : { name: row.name, value }] },
  });
  return html`<${ChangeDialog} title=${`Setting of ${topic}`} label="Change" run=${run} onClose=${close} onDone=${reload}>
    <${Field} label=${row.name} value=${value} set=${setValue} hint="empty: the broker's default" /><//>`;
}

function Settings({ topic, configs, reload }) {
  const mayWrite = useWrites();
  if (configs === null) return html`<p class="notice">The settings need DESCRIBE_CONFIGS on the topic.</p>`;
  return html`<${Section} title="Settings"><${Table} caption=${`Settings of ${topic}`} rows=${configs} rowKey=${(row) => row.name} columns=${[
    { title: "Setting", isHeader: true, cell: (row) => html`<code>${row.name}</code>` },
    { title: "Value", isNumber: true, cell: (row) => html`<span class="message">${row.value}</span>` },
    { title: "Origin", cell: (row) => (row.is_default ? html`<span class="muted">default</span>` : "set for this topic") },
    ...(mayWrite ? [{ title: "Actions", cell: (row) => html`<${DialogButton} label="Change" name=${row.name}>${(close) => html`<${ChangeSetting} topic=${topic} row=${row} close=${close} reload=${reload} />`}<//>` }] : []),
  ]} /><//>`;
}

function AddPartitions({ topic, now, close, reload }) {
  const [count, setCount] = useState(String(now + 1));
  const run = () => ask(path(["v3", "clusters", "-", "topics", topic]), { method: "PATCH", body: { partitions_count: Number(count) } });
  return html`<${ChangeDialog} title=${`Add partitions to ${topic}`} label="Add" run=${run} onClose=${close} onDone=${reload}>
    <${Field} label="Partitions" type="number" min=${now + 1} value=${count} set=${setCount} hint=${`now ${now}; it cannot be lowered, and keys can change their partition`} /><//>`;
}

const DeleteTopic = ({ topic, close }) => html`<${ChangeDialog} title=${`Delete topic ${topic}`} label="Delete the topic" name=${topic} onClose=${close}
  run=${() => ask(path(["v3", "clusters", "-", "topics", topic]), { method: "DELETE" })} onDone=${() => navigate("#/topics")}>
  <p>All records and all committed offsets of this topic are deleted on every broker. This cannot be undone.</p><//>`;

export function TopicPage({ topic, tab }) {
  const answer = useAnswer(api(["topics", topic]));
  const mayWrite = useWrites();
  const row = answer.data?.topic;
  return html`<${Page} title=${`Topic ${topic}`} trail=${[["Topics", "#/topics"]]} focusKey=${`${topic} ${tab}`}
    actions=${mayWrite && row && !row.is_internal && html`
      <${DialogButton} label="Add partitions">${(close) => html`<${AddPartitions} topic=${topic} now=${row.partitions} close=${close} reload=${answer.reload} />`}<//>
      <${DialogButton} label="Delete" name=${topic} isDangerous=${true}>${(close) => html`<${DeleteTopic} topic=${topic} close=${close} />`}<//>`}>
    ${topicTabs(topic, tab)}
    <${Answer} answer=${answer}>${({ configs }) => html`
      <${Facts} rows=${[
        ["State", html`<${TopicStatus} row=${row} />`],
        ["Partitions", number(row.partitions)],
        ["Replicas", number(row.replication_factor)],
        ["Records", html`<${Records} count=${row.records} isExact=${row.is_records_exact} />`],
        ["Size of one copy", bytes(row.bytes)],
        ["Created", html`<${Time} ms=${row.created_ms} />`],
        ["Id", html`<code>${row.topic_id}</code>`],
      ]} />
      ${tab === "settings" ? html`<${Settings} topic=${topic} configs=${configs} reload=${answer.reload} />` : html`<${Partitions} topic=${topic} />`}`}<//>
  <//>`;
}
