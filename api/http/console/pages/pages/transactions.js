// Transactions: the list, and one with its partitions, groups and the command to abort it.

import { html, useWrites } from "../core/view.js";
import { api, ask, path } from "../core/request.js";
import { href, useRoute } from "../core/route.js";
import { useAnswer } from "../core/answers.js";
import { Answer, Facts, Page, PartitionLink, Section, Status, Time } from "../core/parts.js";
import { ChoiceField, PagedList } from "../core/table.js";
import { ChangeDialog, DialogButton } from "../core/dialogs.js";
import { duration, number } from "../core/format.js";
import { GroupLink } from "./lag.js";

const STATES = {
  Empty: ["idle", "none open"], Ongoing: ["busy", "open"], PrepareCommit: ["busy", "commit: writes its markers"], PrepareAbort: ["busy", "abort: writes its markers"],
  CompleteCommit: ["ok", "committed"], CompleteAbort: ["idle", "aborted"],
};
const OVERDUE = 1.5; // an open transaction is aborted by its coordinator soon after its timeout

function TransactionState({ row }) {
  const [kind, text] = STATES[row.state] ?? ["idle", row.state];
  const isOverdue = row.age_ms > OVERDUE * row.timeout_ms && kind === "busy";
  return html`<${Status} kind=${isOverdue ? "bad" : kind}>${text}${isOverdue && `, past its timeout of ${duration(row.timeout_ms / 1000)}`}<//>`;
}

const age = (row) => (row.age_ms === null || row.age_ms === undefined ? "–" : duration(row.age_ms / 1000));

export function TransactionsPage() {
  const { params } = useRoute();
  return html`<${Page} title="Transactions"><${Section} title="Transactional ids">
    <${PagedList} request=${(list) => api(["transactions"], { filter: list.filter, after: list.after, state: params.get("state") })} field="transactions" caption="Transactions"
      filterLabel="Filter by id" rowKey=${(row) => row.transactional_id} empty="No program has used transactions."
      fields=${html`<${ChoiceField} label="State" name="state" options=${[["", "any"], ...Object.entries(STATES).map(([name, [, text]]) => [name, text])]} />`}
      columns=${[
        { title: "Transactional id", isHeader: true, cell: (row) => html`<a class="name" href=${href(["transactions", row.transactional_id])}>${row.transactional_id}</a>` },
        { title: "State", cell: (row) => html`<${TransactionState} row=${row} />` },
        { title: "Begun", cell: (row) => html`<${Time} ms=${row.started_ms} />` },
        { title: "Age", isNumber: true, cell: age },
        { title: "Timeout", isNumber: true, cell: (row) => duration(row.timeout_ms / 1000) },
        { title: "Producer id", isNumber: true, cell: (row) => String(row.producer_id) },
        { title: "Epoch", isNumber: true, cell: (row) => number(row.producer_epoch) },
        { title: "Coordinator", isNumber: true, cell: (row) => (row.coordinator_id >= 0 ? row.coordinator_id : "–") },
      ]} /><//><//>`;
}

const Abort = ({ id, close, reload }) => html`<${ChangeDialog} title=${`Abort the transaction of ${id}`} label="Abort the transaction" name=${id} onClose=${close} onDone=${reload}
  run=${() => ask(path(["transactions", id, "abort"]), { method: "POST" })}>
  <p>Consumers that read committed records will not see its records. Its producer is fenced: it must begin a new session.</p><//>`;

export function TransactionPage({ id }) {
  const answer = useAnswer(path(["transactions", id]));
  const mayWrite = useWrites();
  const row = answer.data;
  return html`<${Page} title=${`Transaction ${id}`} trail=${[["Transactions", "#/transactions"]]}
    actions=${mayWrite && row?.state === "Ongoing" && html`<${DialogButton} label="Abort" name=${id} isDangerous=${true}>${(close) => html`<${Abort} id=${id} close=${close} reload=${answer.reload} />`}<//>`}>
    <${Answer} answer=${answer}>${(found) => html`
      <${Section} title="State"><${Facts} rows=${[
        ["State", html`<${TransactionState} row=${found} />`],
        ["Begun", html`<${Time} ms=${found.started_ms} />`],
        ["Age", age(found)],
        ["Timeout", duration(found.timeout_ms / 1000)],
        ["Producer id", String(found.producer_id)],
        ["Epoch", number(found.producer_epoch)],
        ["Coordinator", found.coordinator_id >= 0 ? `broker ${found.coordinator_id}` : "–"],
      ]} /><//>
      <${Section} title=${`Partitions (${number(found.partitions.length)})`}>${found.partitions.length === 0 ? html`<p class="muted">It has no partitions now.</p>`
        : html`<ul class="inline">${found.partitions.map((each) => html`<li><${PartitionLink} topic=${each.topic} partition=${each.partition} /></li>`)}</ul>`}<//>
      <${Section} title=${`Groups whose offsets it commits (${number(found.groups.length)})`}>${found.groups.length === 0 ? html`<p class="muted">none</p>`
        : html`<ul class="inline">${found.groups.map((group) => html`<li><${GroupLink} group=${group} /></li>`)}</ul>`}<//>`}<//>
  <//>`;
}
