// Reset of a group's committed offsets: first a preview by the broker (dry run), then the change itself.

import { html, useState } from "../core/view.js";
import { api, ask, path } from "../core/request.js";
import { ChangeDialog, Choice, Dialog, Field } from "../core/dialogs.js";
import { Problem } from "../core/parts.js";
import { Table } from "../core/table.js";
import { localTime, number, plural } from "../core/format.js";

const TARGETS = [
  ["earliest", "the beginning"], ["latest", "the end"], ["timestamp", "a time"], ["shift", "some records back or forth"], ["offset", "an offset"],
];

// Return [target of a change, the same as the parameter of a preview].
function targetOf(kind, value) {
  if (kind === "earliest" || kind === "latest") return [kind, kind];
  const amount = kind === "timestamp" ? new Date(value).getTime() : Number(value);
  if (value.trim() === "" || !Number.isInteger(amount)) throw new Error(kind === "timestamp" ? "Enter a date and a time." : "Enter a whole number.");
  return [{ [kind]: amount }, `${kind}:${amount}`];
}

export function ResetDialog({ group, lags, mayWrite, close, onDone }) {
  const topics = [...new Set(lags.map((row) => row.topic))];
  const [topic, setTopic] = useState("");
  const [kind, setKind] = useState("earliest");
  const [value, setValue] = useState("");
  const [preview, setPreview] = useState(null); // {body, offsets}: the confirmed change is the previewed one
  const [error, setError] = useState(null);
  const show = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      const [to, asParameter] = targetOf(kind, value);
      const { offsets } = await ask(api(["groups", group, "reset"], { to: asParameter, topic }));
      setPreview({ body: { to, ...(topic ? { topics: [topic] } : {}) }, offsets });
    } catch (failure) {
      setError(failure);
    }
  };
  const choose = (set) => (text) => {
    setPreview(null);
    set(text);
  };
  const table = preview && html`<${Table} caption="Preview of the reset" rows=${preview.offsets} rowKey=${(row) => `${row.topic}/${row.partition}`} empty="No committed offset would change." columns=${[
    { title: "Partition", isHeader: true, cell: (row) => html`<span class="name">${row.topic}/${row.partition}</span>` },
    { title: "Now", isNumber: true, cell: (row) => (row.before === null ? "none" : number(row.before)) },
    { title: "After", isNumber: true, cell: (row) => html`<b>${number(row.after)}</b>${row.clamped && html` <span class="tag">moved into the log</span>`}` },
    { title: "Change", isNumber: true, cell: (row) => (row.before === null ? "–" : `${row.after > row.before ? "+" : ""}${number(row.after - row.before)}`) },
  ]} />`;
  if (preview && mayWrite) {
    return html`<${ChangeDialog} key="confirm" title=${`Reset offsets of ${group}`} label="Reset the offsets" name=${group} run=${() => ask(path(["groups", group, "offsets", "reset"]), { method: "POST", body: { ...preview.body, dry_run: false } })} onClose=${close} onDone=${onDone}>
      <p>${plural(preview.offsets.length, "committed offset")} will change. Consumers read from there when they start.</p>${table}
      <button type="button" onClick=${() => setPreview(null)}>Choose another target</button><//>`;
  }
  return html`<${Dialog} key="choose" title=${`Reset offsets of ${group}`} onClose=${close}><form onSubmit=${show}>
    <${Choice} label="Topic" value=${topic} set=${choose(setTopic)} options=${[["", "all topics with committed offsets"], ...topics.map((name) => [name, name])]} />
    <${Choice} label="To" value=${kind} set=${choose((next) => {
      setKind(next);
      setValue(next === "timestamp" ? localTime(Date.now() - 3600000).replace(" ", "T") : next === "shift" ? "-100" : "0");
    })} options=${TARGETS} />
    ${kind === "timestamp" && html`<${Field} label="Time (this browser's zone)" type="datetime-local" step="1" value=${value} set=${choose(setValue)} hint="the first record at or after it" />`}
    ${(kind === "shift" || kind === "offset") && html`<${Field} label=${kind === "shift" ? "Records (negative: back)" : "Offset"} type="number" value=${value} set=${choose(setValue)} />`}
    <p class="muted">The group must have no members: stop its consumers first.</p>
    <${Problem} error=${error} retries=${false} />
    ${table}${preview && html`<p class="muted">Only a preview: this console is read-only.</p>`}
    <div class="dialog-actions"><button type="button" onClick=${close}>${preview ? "Close" : "Cancel"}</button><button type="submit" class="primary">Preview</button></div>
  </form><//>`;
}
