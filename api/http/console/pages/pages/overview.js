// Overview: health with reasons and actions, what needs attention, and the last hour of this broker.

import { ConsoleContext, html, useContext } from "../core/view.js";
import { api } from "../core/request.js";
import { useAnswer } from "../core/answers.js";
import { useRoute } from "../core/route.js";
import { Answer, Facts, Page, PartitionLink, Section, Status, Time } from "../core/parts.js";
import { ChoiceField, Table } from "../core/table.js";
import { BINARY_STEPS, Chart, WHOLE_STEPS } from "../core/chart.js";
import { bytes, duration, number, plural, short } from "../core/format.js";
import { GroupLink } from "./lag.js";
import { DiskUse, fillingUp } from "./disks.js";

const LISTED_MAX = 20;

const partitionOf = (text) => {
  const mark = text.lastIndexOf("/");
  const name = text.slice(0, mark).replace(/^kafka\//, "");
  return { topic: name, partition: text.slice(mark + 1) };
};

function PartitionList({ title, partitions, count }) {
  if (!count) return null;
  return html`<div class="partition-list"><h3>${title} (${number(count)})</h3><ul class="inline">${partitions.slice(0, LISTED_MAX).map((text) =>
    html`<li><${PartitionLink} ...${partitionOf(text)} /></li>`)}${count > LISTED_MAX && html`<li class="muted">and ${number(count - Math.min(LISTED_MAX, partitions.length))} more</li>`}</ul></div>`;
}

function Health({ answer }) {
  return html`<${Section} title="Health" note=${answer.data && html`found <${Time} ms=${answer.data.time_ms} withDate=${false} />`}>
    <${Answer} answer=${answer}>${({ health, reasons }) => html`
      <div role="status" aria-live="polite"><p class="verdict">${health.is_healthy
        ? html`<${Status} kind="ok">The cluster is healthy<//>`
        : html`<${Status} kind="bad">The cluster is not healthy: ${plural(reasons.length, "reason")}<//>`}</p></div>
      ${reasons.length > 0 && html`<ol class="reasons">${reasons.map(({ reason, action }) => html`<li><p class="message">${reason}</p><p class="todo"><b>What to do:</b> ${action}</p></li>`)}</ol>`}
      <${PartitionList} title="Partitions without a leader" partitions=${health.leaderless_partitions} count=${health.leaderless_count} />
      <${PartitionList} title="Under-replicated partitions" partitions=${health.under_replicated_partitions} count=${health.under_replicated_count} />
      ${health.electing_partitions.some((name) => !health.leaderless_partitions.includes(name)) && html`<${PartitionList} title="Partitions that elect a leader" partitions=${health.electing_partitions} count=${health.electing_count} />`}
      ${health.notes.length > 0 && html`<h3>Remarks</h3><ul>${health.notes.map((note) => html`<li>${note}</li>`)}</ul>`}
      <${Facts} rows=${[
        ["Brokers", `${health.all_nodes.length - health.nodes_down.length} of ${health.all_nodes.length} up`],
        ["Brokers down", health.nodes_down.length ? html`<a href="#/brokers">${health.nodes_down.join(", ")}</a>` : "none"],
        ["Controller leader", health.controller_id >= 0 ? `broker ${health.controller_id}` : "none"],
        ["In maintenance", health.nodes_in_maintenance.join(", ") || "none"],
        ["Pending moves", html`<a href="#/brokers">${number(health.reconfigurations_count)}</a>`],
      ]} />`}<//><//>`;
}

function Disks({ answer }) {
  return html`<${Section} title="Brokers" actions=${html`<a href="#/brokers">All about brokers</a>`}><${Answer} answer=${answer}>${({ brokers }) => html`<${Table} caption="Disks of brokers" rows=${brokers} rowKey=${(row) => row.node_id}
    columns=${[
      { title: "Broker", isHeader: true, cell: (row) => html`<span class="whole">${row.node_id} ${row.is_alive ? html`<${Status} kind="ok">up<//>` : html`<${Status} kind="bad">down<//>`}</span>` },
      { title: "Disk", cell: (row) => html`<${DiskUse} row=${row} />` },
      { title: "Full in, at this rate", cell: fillingUp },
    ]} />`}<//><//>`;
}

function Lags({ answer }) {
  return html`<${Section} title="Groups with the greatest lag" actions=${html`<a href="#/groups">All groups</a>`}><${Answer} answer=${answer}>${({ groups, total }) => html`
    <${Table} caption="Groups with the greatest lag" rowKey=${(row) => row.group} empty=${groups.some((row) => row.lag === null) ? "No lag is known." : "No group lags."}
      rows=${groups.filter((row) => row.lag > 0).sort((one, other) => other.lag - one.lag).slice(0, 5)}
      columns=${[
        { title: "Group", isHeader: true, cell: (row) => html`<${GroupLink} group=${row.group} />` },
        { title: "Lag", isNumber: true, cell: (row) => number(row.lag) },
        { title: "Members", isNumber: true, cell: (row) => number(row.members) },
      ]} />
    ${groups.some((row) => row.lag === null) && html`<p class="muted">The lag of ${plural(groups.filter((row) => row.lag === null).length, "group")} is not known now: brokers do not answer, or answer late.</p>`}
    ${total > groups.length && html`<p class="muted">Of the first ${number(groups.length)} of ${number(total)} groups.</p>`}`}<//><//>`;
}

function History({ seconds }) {
  const answer = useAnswer(api(["history"], { seconds }), { every: 10000 });
  return html`<${Section} title="This broker over time" note=${answer.data && `a sample each ${duration(answer.data.interval_ms / 1000)}, kept by broker ${answer.data.node_id} itself`}
      actions=${html`<${ChoiceField} label="Time shown" name="seconds" options=${[["3600", "last hour"], ["900", "last 15 minutes"], ["300", "last 5 minutes"]]} />`}>
    <${Answer} answer=${answer}>${({ times_ms, series, groups }) => {
      const times = times_ms.map((ms) => ms / 1000);
      const steps = (format) => (format === bytes ? BINARY_STEPS : format === number ? WHOLE_STEPS : null);
      const chart = (title, lines, format) => html`<${Chart} title=${title} times=${times} format=${format} steps=${steps(format)} lines=${lines.map(([label, values]) => ({ label, values }))} />`;
      const latency = (value) => (value === null ? short(null) : `${short(value)} ms`);
      const percent = (value) => (value === null ? short(null) : `${short(value)} %`);
      return html`<div class="charts">
        ${chart("Records per second", [["in", series.records_in_per_s]])}
        ${chart("Bytes per second", [["in", series.bytes_in_per_s], ["out", series.bytes_out_per_s]], bytes)}
        ${chart("Requests per second", [["HTTP", series.http_requests_per_s], ["Kafka", series.kafka_requests_per_s], ["failed", series.failures_per_s]])}
        ${chart("Latency of produce", [["p50", series.produce_p50_ms], ["p99", series.produce_p99_ms]], latency)}
        ${chart("Latency of commits and syncs, p99", [["commit", series.commit_p99_ms], ["sync", series.sync_p99_ms], ["event loop", series.loop_lag_p99_ms]], latency)}
        ${chart("Lag of groups coordinated here, records", groups.length > 0 ? groups.slice(0, 4).map((row) => [row.group, row.lag]) : [["total", series.group_lag_total]], number)}
        ${chart("Disk", [["free", series.disk_free_bytes], ["logs", series.log_bytes]], bytes)}
        ${chart("CPU", [["of one core", series.cpu_percent]], percent)}
        ${chart("Partitions", [["led", series.partitions_led], ["under-replicated", series.under_replicated], ["leaderless", series.leaderless]], number)}
      </div>`;
    }}<//><//>`;
}

export function OverviewPage() {
  const { health, session } = useContext(ConsoleContext);
  const { params } = useRoute();
  const groups = useAnswer(api(["groups"], { limit: 200 }), { every: 10000 });
  const isOperator = session.data?.may?.describe_cluster ?? true;
  const brokers = useAnswer(isOperator ? api(["brokers"]) : null, { every: 10000 });
  return html`<${Page} title="Overview">
    ${isOperator ? html`<${Health} answer=${health} />` : html`<p class="notice">Health, brokers and rates need DESCRIBE on the cluster, which user <b class="name">${session.data.user}</b> does not have.</p>`}
    <div class="columns">${isOperator && html`<${Disks} answer=${brokers} />`}<${Lags} answer=${groups} /></div>
    ${isOperator && html`<${History} seconds=${params.get("seconds") ?? "3600"} />`}
  <//>`;
}
