// First record at or after a time in each partition of a topic: the partition with the record is seldom known.

import { html, useEffect, useState } from "../core/view.js";
import { api, ask } from "../core/request.js";
import { href } from "../core/route.js";
import { Problem, Section, Time } from "../core/parts.js";
import { Table } from "../core/table.js";
import { Preview } from "../core/values.js";
import { plural } from "../core/format.js";

const PARTITIONS_MAX = 24;
const AT_ONCE = 4;

// Return a row {partition, record, scanned, error} for a partition; `scanned` is the number of records that were looked at
// if there are more, and the record may be among those.
async function firstOf(topic, partition, query, signal) {
  try {
    const found = await ask(api(["topics", topic, "partitions", String(partition), "records"], { ...query, limit: 1 }), { signal });
    return { partition, record: found.records[0] ?? null, scanned: found.is_end ? null : found.scanned, error: null };
  } catch (error) {
    if (signal.aborted) throw error;
    return { partition, record: null, scanned: null, error };
  }
}

const absent = ({ scanned }) => html`<span class="muted">${scanned === null ? "none" : `none among ${plural(scanned, "record")} looked at`}</span>`;
const timeOf = ({ record }) => record?.timestamp_ms ?? Infinity;

export function FirstByPartition({ topic, partitions, query }) {
  const [begin, setBegin] = useState(0);
  const [rows, setRows] = useState([]);
  const key = JSON.stringify(query);
  const end = Math.min(partitions, begin + PARTITIONS_MAX);
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let next = begin;
    setRows([]);
    const work = async () => {
      while (next < end) {
        next += 1;
        const row = await firstOf(topic, next - 1, query, signal);
        if (!signal.aborted) setRows((old) => [...old, row].sort((one, other) => timeOf(one) - timeOf(other) || one.partition - other.partition));
      }
    };
    Promise.all(Array.from({ length: AT_ONCE }, work)).catch((error) => {
      if (!signal.aborted) throw error;
    });
    return () => controller.abort();
  }, [topic, key, begin, end]);
  const link = (row) => href(["topics", topic, "records"], { partition: row.partition, from: "offset", offset: row.record.offset, open: row.record.offset });
  const shown = end < partitions || begin > 0 ? ` Partitions ${begin} to ${end - 1} of ${partitions}.` : "";
  return html`<${Section} title="First record from this time on in each partition" note=${rows.length < end - begin ? `${rows.length} of ${plural(end - begin, "partition")} read…` : shown}>
    <${Table} caption="First record in each partition" rows=${rows} rowKey=${(row) => row.partition} empty="Loading…" columns=${[
      { title: "Partition", isHeader: true, cell: (row) => row.partition },
      { title: "Time", cell: (row) => (row.record ? html`<${Time} ms=${row.record.timestamp_ms} withMs=${true} />` : row.error ? html`<${Problem} error=${row.error} retries=${false} />` : absent(row)) },
      { title: "Offset", cell: (row) => row.record && html`<a href=${link(row)}>${row.record.offset}<span class="hidden"> of partition ${row.partition}</span></a>` },
      { title: "Key", cell: (row) => row.record && html`<${Preview} text=${row.record.key} none="none" />` },
      { title: "Value", cell: (row) => row.record && html`<${Preview} text=${row.record.value} none="tombstone" />` },
    ]} />
    ${partitions > PARTITIONS_MAX && html`<div class="pager"><span></span><span>
      <button type="button" disabled=${begin === 0} onClick=${() => setBegin(begin - PARTITIONS_MAX)}>← Lower partitions</button>
      <button type="button" disabled=${end >= partitions} onClick=${() => setBegin(end)}>Higher partitions →</button></span></div>`}<//>`;
}
