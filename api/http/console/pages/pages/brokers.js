// Brokers: disks, load, maintenance, decommission; the balancer; moves of replicas with progress and what they wait for.

import { html, useState, useWrites } from "../core/view.js";
import { api, ask, path } from "../core/request.js";
import { consoleAt } from "../core/route.js";
import { useAnswer } from "../core/answers.js";
import { Answer, Facts, Meter, Page, PartitionLink, Section, Status } from "../core/parts.js";
import { PagedList, Table } from "../core/table.js";
import { ChangeDialog, DialogButton } from "../core/dialogs.js";
import { bytes, duration, number, plural } from "../core/format.js";
import { DiskUse, fillingUp } from "./disks.js";

const GOSSIP = { suspect: "suspected to be down", dead: "dead", left: "left" };

function BrokerState({ row }) {
  const gossip = row.gossip && GOSSIP[row.gossip.state];
  return html`${row.is_alive ? html`<${Status} kind="ok">up<//>` : html`<${Status} kind="bad">down<//>`}
    ${gossip && html` <span class="muted">${gossip} for ${duration(row.gossip.state_s)}</span>`}
    ${row.membership_status === "draining" && html` <${Status} kind="busy">being decommissioned<//>`}
    ${row.is_controller && html` <span class="tag">controller leader</span>`}
    ${row.problem && html`<p class="message"><${Status} kind="bad">${row.problem}<//></p>`}`;
}

function Maintenance({ status }) {
  if (!status || !(status.draining || status.finished)) return html`<span class="muted">no</span>`;
  return html`<${Status} kind=${status.errors ? "bad" : status.finished ? "ok" : "busy"}>${status.finished ? "leads nothing: ready for work on it" : "gives its leaderships away"}<//>
    <span class="muted">${plural(status.partitions ?? 0, "partition")}, ${number(status.transferring ?? 0)} in transfer, ${number(status.failed ?? 0)} failed</span>
    ${(status.reasons ?? []).map((reason) => html`<p class="message">${reason}</p>`)}`;
}

// Progress of a broker that is being decommissioned.
function Decommission({ id }) {
  const answer = useAnswer(path(["v1", "brokers", String(id), "decommission"]));
  return html`<${Section} title=${`Decommission of broker ${id}`}><${Answer} answer=${answer}>${(found) => html`
    <p role="status" aria-live="polite">${found.finished ? html`<${Status} kind="ok">finished: the broker holds no replica and can be stopped<//>`
      : html`<${Status} kind="busy">${plural(found.replicas_left, "replica")} left${found.bytes_left === null ? "" : `, ${bytes(found.bytes_left)} to move`}<//>`}</p>
    ${found.reason && html`<p class="todo"><b>It waits:</b> ${found.reason}</p>`}
    ${found.allocation_failures.length > 0 && html`<h3>No other broker can take</h3><ul>${found.allocation_failures.map((each) =>
      html`<li class="message">${typeof each === "string" ? each : JSON.stringify(each)}</li>`)}</ul>`}`}<//><//>`;
}

const change = (id, verb, method = "PUT") => () => ask(path(["v1", "brokers", String(id), verb]), { method });

function BrokerActions({ row, reload }) {
  const id = row.node_id;
  const isInMaintenance = row.maintenance_status?.draining || row.maintenance_status?.finished;
  const isDraining = row.membership_status === "draining";
  return html`<span class="actions">
    <${DialogButton} label=${isInMaintenance ? "End maintenance" : "Maintenance"} name=${`of broker ${id}`}>${(close) => html`<${ChangeDialog}
      title=${isInMaintenance ? `End the maintenance of broker ${id}` : `Maintenance of broker ${id}`} label=${isInMaintenance ? "End" : "Begin"} onClose=${close} onDone=${reload}
      run=${change(id, "maintenance", isInMaintenance ? "DELETE" : "PUT")}>
      <p>${isInMaintenance ? "The broker may lead partitions again." : "The broker gives all leaderships away and takes none until the maintenance ends. It keeps its replicas."}</p><//>`}<//>
    ${isDraining
      ? html`<${DialogButton} label="Keep" name=${`broker ${id}`}>${(close) => html`<${ChangeDialog} title=${`Keep broker ${id}`} label="Stop the decommission" onClose=${close} onDone=${reload}
          run=${change(id, "recommission")}><p>Replicas that were moved stay where they are.</p><//>`}<//>`
      : html`<${DialogButton} label="Decommission" name=${`broker ${id}`} isDangerous=${true}>${(close) => html`<${ChangeDialog} title=${`Decommission broker ${id}`} label="Decommission"
          name=${String(id)} onClose=${close} onDone=${reload} run=${change(id, "decommission")}><p>All its replicas move to other brokers. Then it can be stopped for good.</p><//>`}<//>`}</span>`;
}

function Balancer({ balancer, mayWrite }) {
  if (!balancer) return null;
  const { unavailable_nodes: unavailable = [], over_disk_limit_nodes: full = [] } = balancer.violations ?? {};
  return html`<${Section} title="Balancer" actions=${mayWrite && html`<${DialogButton} label="Balance now">${(close) => html`<${ChangeDialog} title="Balance now" label="Balance" onClose=${close}
      run=${() => ask(path(["v1", "partitions", "rebalance"]), { method: "POST" })}><p>The balancer looks at once for replicas to move, within its limits.</p><//>`}<//>`}>
    <${Facts} rows=${[
      ["State", balancer.status], ["Mode", balancer.mode],
      ["Brokers away too long", unavailable.length ? html`<${Status} kind="bad">${unavailable.join(", ")}<//>` : "none"],
      ["Brokers over the disk limit", full.length ? html`<${Status} kind="bad">${full.join(", ")}<//>` : "none"],
      ["Moves now", number(balancer.current_reassignments_count)],
      ["Last looked", balancer.seconds_since_last_tick < 0 ? "–" : `${duration(balancer.seconds_since_last_tick)} ago`],
    ]} />
    ${(balancer.reasons ?? []).length > 0 && html`<ul>${balancer.reasons.map((reason) => html`<li class="message">${reason}</li>`)}</ul>`}<//>`;
}

const nodes = (replicas) => replicas.map((replica) => replica.node_id).join(", ") || "–";

function Progress({ row }) {
  if (row.partition_size === null || row.bytes_moved === null) return html`<span class="muted">size not known</span>`;
  const whole = row.bytes_moved + (row.bytes_left_to_move ?? 0);
  const percent = whole === 0 ? 0 : Math.floor((100 * row.bytes_moved) / whole);
  return html`<span class="disk"><${Meter} percent=${percent} kind="busy" /> ${percent} % <span class="muted">${bytes(row.bytes_left_to_move)} left</span></span>`;
}

function Moves({ mayWrite }) {
  const [reloads, setReloads] = useState(0);
  const reload = () => setReloads((value) => value + 1);
  return html`<${Section} title="Moves of replicas" actions=${mayWrite && html`<${DialogButton} label="Cancel all moves" isDangerous=${true}>${(close) => html`<${ChangeDialog}
      title="Cancel all moves" label="Cancel them all" name="all moves" onClose=${close} onDone=${reload} run=${() => ask(path(["v1", "cluster", "cancel_reconfigurations"]), { method: "POST" })}>
      <p>Replicas go back to the brokers they came from.</p><//>`}<//>`}>
    <${PagedList} request=${(list) => api(["moves"], { filter: list.filter, after: list.after })} field="moves" caption="Moves of replicas" filterLabel="Filter by topic" reloadKey=${reloads}
      rowKey=${(row) => `${row.topic}/${row.partition}`} empty="No replica moves." columns=${[
        { title: "Partition", isHeader: true, cell: (row) => html`<${PartitionLink} topic=${row.topic} partition=${row.partition} />` },
        { title: "From brokers", cell: (row) => nodes(row.previous_replicas) },
        { title: "To brokers", cell: (row) => nodes(row.current_replicas) },
        { title: "Progress", cell: (row) => html`<${Progress} row=${row} />` },
        { title: "Rate", isNumber: true, cell: (row) => (row.bytes_per_s === null || row.bytes_per_s === undefined ? "–" : `${bytes(row.bytes_per_s)}/s`) },
        { title: "Time left", isNumber: true, cell: (row) => (row.bytes_per_s > 0 && row.bytes_left_to_move !== null ? duration(row.bytes_left_to_move / row.bytes_per_s) : "–") },
        { title: "Waits for", cell: (row) => (row.reason ? html`<span class="message">${row.reason}</span>` : html`<span class="muted">nothing</span>`) },
        ...(mayWrite ? [{ title: "Actions", cell: (row) => html`<${DialogButton} label="Cancel" name=${`the move of ${row.topic}/${row.partition}`}>${(close) => html`<${ChangeDialog}
          title=${`Cancel the move of ${row.topic}/${row.partition}`} label="Cancel the move" onClose=${close} onDone=${reload}
          run=${() => ask(path(["v1", "partitions", "kafka", row.topic, String(row.partition), "cancel_reconfiguration"]), { method: "POST" })}><p>Its replicas go back to the brokers they came from.</p><//>`}<//>` }] : []),
      ]} /><//>`;
}

export function BrokersPage() {
  const answer = useAnswer(api(["brokers"]));
  const mayWrite = useWrites("alter_cluster");
  return html`<${Page} title="Brokers"><${Answer} answer=${answer}>${({ brokers, balancer }) => html`
    <${Section} title=${`Brokers (${number(brokers.length)})`}><${Table} caption="Brokers" rows=${brokers} rowKey=${(row) => row.node_id} columns=${[
      { title: "Broker", isHeader: true, cell: (row) => html`<b>${row.node_id}</b>${row.http_address && html` <a href=${consoleAt(row.http_address, location.hash)}>console<span class="hidden"> of broker ${row.node_id}</span></a>`}` },
      { title: "State", cell: (row) => html`<${BrokerState} row=${row} />` },
      { title: "Disk", cell: (row) => html`<${DiskUse} row=${row} />` },
      { title: "Full in, at this rate", cell: fillingUp },
      { title: "Replicas", isNumber: true, cell: (row) => number(row.load?.replicas) },
      { title: "Leaders", isNumber: true, cell: (row) => number(row.load?.leaders) },
      { title: "Written as leader", isNumber: true, cell: (row) => (row.load ? `${bytes(row.load.bytes_in_per_s)}/s` : "–") },
      { title: "Maintenance", cell: (row) => html`<${Maintenance} status=${row.maintenance_status} />` },
      { title: "Host, rack", cell: (row) => html`<span class="name">${row.host}</span>${row.rack && html` <span class="tag">${row.rack}</span>`}` },
      { title: "Version", cell: (row) => row.version || "–" },
      { title: "Up for", isNumber: true, cell: (row) => (row.is_alive ? duration(row.uptime_s) : "–") },
      ...(mayWrite ? [{ title: "Actions", cell: (row) => html`<${BrokerActions} row=${row} reload=${answer.reload} />` }] : []),
    ]} /><//>
    ${brokers.filter((row) => row.membership_status === "draining").map((row) => html`<${Decommission} key=${row.node_id} id=${row.node_id} />`)}
    <${Balancer} balancer=${balancer} mayWrite=${mayWrite} />`}<//>
    <${Moves} mayWrite=${mayWrite} />
  <//>`;
}
