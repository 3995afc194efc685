// Table of records; a row opens to its whole key, value and headers.

import { html, useEffect, useState } from "../core/view.js";
import { ask, path } from "../core/request.js";
import { useRoute } from "../core/route.js";
import { Facts, Problem, Time } from "../core/parts.js";
import { Table } from "../core/table.js";
import { bytesOf, describeBytes, FullValue, Preview, visible } from "../core/values.js";
import { bytes, number, utcTime } from "../core/format.js";

// Fetch a record whole, as bytes.
async function wholeRecord(topic, partition, offset) {
  const records = await ask(path(["topics", topic, "partitions", String(partition), "records"], { offset, max_bytes: 1 }), { accept: "application/vnd.kafka.binary.v2+json" });
  const record = records.find((row) => row.offset === offset);
  if (!record) throw new Error(`The broker returned no record at offset ${offset}: it was deleted or compacted meanwhile.`);
  return record;
}

function RecordDetail({ topic, partition, record }) {
  const [whole, setWhole] = useState({});
  const [error, setError] = useState(null);
  const load = (field) => async () => {
    try {
      const stored = await wholeRecord(topic, partition, record.offset);
      setError(null);
      setWhole((old) => ({ ...old, [field]: describeBytes(bytesOf(stored[field])) }));
    } catch (failure) {
      setError(failure);
      throw failure;
    }
  };
  const shown = (label, field, none) => {
    const text = whole[field] ?? record[field];
    return html`<${FullValue} label=${label} text=${text} none=${none} load=${text?.is_truncated ? () => load(field)().catch(() => undefined) : null} />`;
  };
  return html`<div class="record">
    <${Facts} rows=${[
      ["Partition, offset", html`<code>${partition} / ${record.offset}</code>`],
      ["Time", html`<${Time} ms=${record.timestamp_ms} withMs=${true} />`],
      ["UTC", utcTime(record.timestamp_ms)],
      ["Size", bytes(record.size)],
    ]} />
    <${Problem} error=${error} retries=${false} />
    ${shown("Key", "key", "no key")}
    ${shown("Value", "value", "no value: a tombstone, which deletes its key from a compacted topic")}
    <h3>Headers</h3>
    ${record.headers.length === 0 ? html`<p class="muted">none</p>` : html`<dl class="facts stacked">${record.headers.map((header) =>
      html`<div><dt class="name">${visible(header.name)}</dt><dd><${Preview} text=${header.value} />${header.value?.size > 300 && html` <span class="muted">${bytes(header.value.size)}</span>`}</dd></div>`)}</dl>`}
    ${record.headers_left_out > 0 && html`<p class="muted">${number(record.headers_left_out)} more headers are not shown.</p>`}
  </div>`;
}

export function RecordTable({ topic, partition, records, empty }) {
  const { params } = useRoute();
  const linked = params.get("open"); // offset of the record that a link shows open
  const [opened, setOpened] = useState(() => new Set());
  useEffect(() => {
    if (linked !== null) setOpened((old) => new Set(old).add(Number(linked)));
  }, [linked]);
  const toggle = (offset) => setOpened((old) => {
    const next = new Set(old);
    if (!next.delete(offset)) next.add(offset);
    return next;
  });
  return html`<${Table} caption="Records" rows=${records} rowKey=${(row) => row.offset} empty=${empty}
    detail=${(row) => (opened.has(row.offset) ? html`<${RecordDetail} topic=${topic} partition=${partition} record=${row} />` : null)}
    columns=${[
      { title: "Offset", isHeader: true, cell: (row) => html`<button type="button" class="link" aria-expanded=${opened.has(row.offset) ? "true" : "false"} onClick=${() => toggle(row.offset)}>
        <span aria-hidden="true">${opened.has(row.offset) ? "▾" : "▸"} </span>${row.offset}</button>` },
      { title: "Time", cell: (row) => html`<${Time} ms=${row.timestamp_ms} withMs=${true} />` },
      { title: "Key", cell: (row) => html`<${Preview} text=${row.key} none="none" />` },
      { title: "Value", cell: (row) => html`<${Preview} text=${row.value} none="tombstone" />` },
      { title: "Headers", isNumber: true, cell: (row) => number(row.headers.length + (row.headers_left_out ?? 0)) },
      { title: "Size", isNumber: true, cell: (row) => bytes(row.size) },
    ]} />`;
}
