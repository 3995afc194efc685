// Records of one partition: by offset, by time, the newest, or as they arrive; searched by the broker.

import { html, useState, useWrites } from "../core/view.js";
import { api } from "../core/request.js";
import { href, navigate, setParams, useRoute } from "../core/route.js";
import { useAnswer } from "../core/answers.js";
import { Answer, Page, Problem, Section } from "../core/parts.js";
import { ChoiceField, FilterField } from "../core/table.js";
import { DialogButton } from "../core/dialogs.js";
import { localTime, number, plural, utcTime } from "../core/format.js";
import { topicTabs } from "./topic.js";
import { RecordTable } from "./record_table.js";
import { FirstByPartition } from "./at_time.js";
import { LiveRecords } from "./live_records.js";
import { ProduceDialog } from "./produce_dialog.js";

const LIMIT = 50;
const SOURCES = [["newest", "the newest"], ["offset", "an offset"], ["time", "a time"], ["beginning", "the beginning"], ["live", "now on, live"]];

// Return the parameters of the endpoint for those of the address.
function recordQuery(params) {
  const query = { filter: params.get("filter"), in: params.get("filter") ? params.get("in") : null, isolation: params.get("isolation") };
  const from = params.get("from") ?? (params.has("offset") ? "offset" : "newest");
  if (from === "offset") return { ...query, limit: LIMIT, offset: params.get("offset") ?? "beginning" };
  if (from === "time") return { ...query, limit: LIMIT, timestamp: params.get("timestamp") ?? String(Date.now() - 3600000) };
  if (from === "beginning") return { ...query, limit: LIMIT, offset: "beginning" };
  return { ...query, limit: LIMIT, newest: LIMIT };
}

// Value of a datetime-local field in the browser's zone.
const fieldTime = (ms) => localTime(ms).replace(" ", "T");

function SeekForm({ partitions }) {
  const { params } = useRoute();
  const from = params.get("from") ?? (params.has("offset") ? "offset" : "newest");
  const [offset, setOffset] = useState(params.get("offset") ?? "0");
  const [time, setTime] = useState(fieldTime(Number(params.get("timestamp") ?? Date.now() - 3600000)));
  const ms = new Date(time).getTime();
  const choose = (value) => setParams({
    from: value, offset: value === "offset" ? offset : null, timestamp: value === "time" ? String(ms) : null, open: null,
  });
  const submit = (event) => {
    event.preventDefault();
    if (from === "offset") setParams({ from: "offset", offset: offset.trim(), open: null }, { replace: false });
    if (from === "time" && !Number.isNaN(ms)) setParams({ timestamp: String(ms), open: null }, { replace: false });
  };
  return html`<form class="toolbar" onSubmit=${submit} aria-label="Which records">
    <${ChoiceField} label="Partition" name="partition" options=${Array.from({ length: partitions }, (_, index) => [String(index), String(index)])} />
    <label class="field"><span>From</span><select value=${from} onChange=${(event) => choose(event.currentTarget.value)}>${SOURCES.map(([value, text]) =>
      html`<option value=${value} selected=${value === from}>${text}</option>`)}</select></label>
    ${from === "offset" && html`<label class="field"><span>Offset</span><input inputmode="numeric" pattern="[0-9]+" value=${offset} onInput=${(event) => setOffset(event.currentTarget.value)} /></label>
      <button type="submit">Go to the offset</button>`}
    ${from === "time" && html`<label class="field"><span>Time (this browser's zone)</span><input type="datetime-local" step="1" value=${time} onInput=${(event) => setTime(event.currentTarget.value)} />
      <small>${utcTime(ms)}</small></label><button type="submit">Go to the time</button>`}
    <${FilterField} label="Contains" placeholder="text, case-sensitive" />
    ${params.get("filter") && html`<${ChoiceField} label="In" name="in" options=${[["all", "key, value, headers"], ["key", "key"], ["value", "value"], ["headers", "headers"]]} />`}
    <${ChoiceField} label="Transactions" name="isolation" options=${[["read_committed", "committed only"], ["read_uncommitted", "with open and aborted"]]} />
  </form>`;
}

function Found({ topic, partition, data, isFiltered }) {
  const first = data.records[0]?.offset ?? data.next_offset;
  const older = Math.max(data.log_start_offset, first - LIMIT);
  const go = (offset) => setParams({ from: "offset", offset: String(offset), timestamp: null, open: null }, { replace: false });
  return html`
    <p class="muted" role="status">${plural(data.records.length, "record")}${isFiltered ? ` found among ${number(data.scanned)} looked at` : ""} · the partition holds offsets ${
      number(data.log_start_offset)} to ${number(data.high_watermark)} (exclusive)${data.is_end ? " · this is its end" : ""}</p>
    ${isFiltered && !data.is_end && html`<p><button type="button" onClick=${() => go(data.next_offset)}>Go on searching from offset ${number(data.next_offset)}</button></p>`}
    <${RecordTable} topic=${topic} partition=${partition} records=${data.records} empty=${isFiltered ? "No record matches in this part." : "No record here."} />
    <div class="pager"><span></span><span>
      <button type="button" disabled=${first <= data.log_start_offset} onClick=${() => go(older)}>← Older</button>
      <button type="button" disabled=${data.is_end} onClick=${() => go(data.next_offset)}>Newer →</button></span></div>`;
}

function Stored({ topic, partition, params }) {
  const answer = useAnswer(api(["topics", topic, "partitions", partition, "records"], recordQuery(params)), { every: 0 });
  const { error } = answer;
  const range = error?.body?.beginning_offset !== undefined;
  return html`<${Section} title=${`Records of partition ${partition}`} actions=${html`<button type="button" onClick=${answer.reload}>Read again</button>`}>
    ${range && html`<${Problem} error=${error} retries=${false} /><p><button type="button" onClick=${() => setParams({ from: "beginning", offset: null })}>Read from the beginning</button></p>`}
    ${!range && html`<div aria-busy=${answer.isLoading ? "true" : "false"}><${Answer} answer=${answer}>${(data) =>
      html`<${Found} topic=${topic} partition=${partition} data=${data} isFiltered=${Boolean(params.get("filter"))} />`}<//></div>`}<//>`;
}

export function RecordsPage({ topic }) {
  const { params } = useRoute();
  const partition = params.get("partition") ?? "0";
  const described = useAnswer(api(["topics", topic]), { every: 0 });
  const mayWrite = useWrites();
  const count = described.data?.topic.partitions ?? Number(partition) + 1;
  const stored = ({ partition: at, offset }) => navigate(href(["topics", topic, "records"], { partition: at, from: "offset", offset, open: offset }));
  return html`<${Page} title=${`Records of ${topic}`} trail=${[["Topics", "#/topics"], [topic, href(["topics", topic])]]}
    actions=${mayWrite && html`<${DialogButton} label="Produce a record">${(close) => html`<${ProduceDialog} topic=${topic} partitions=${count} close=${close} onStored=${stored} />`}<//>`}>
    ${topicTabs(topic, "records")}
    <${SeekForm} partitions=${count} />
    ${described.data && count > 1 && params.get("from") === "time" && params.has("timestamp") && html`<${FirstByPartition} topic=${topic} partitions=${count} query=${recordQuery(params)} />`}
    ${params.get("from") === "live"
      ? html`<${LiveRecords} key=${params.toString()} topic=${topic} partition=${partition} query=${{ filter: params.get("filter"), in: params.get("filter") ? params.get("in") : null, isolation: params.get("isolation") }} />`
      : html`<${Stored} topic=${topic} partition=${partition} params=${params} />`}

  <//>`;
}
