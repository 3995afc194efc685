// Rates at which the partitions of a group are written and read, measured by the page while it is open.
//
// A rate spans SPAN_MS_MIN to WINDOW_MS, so the first one is there after two polls. No broker keeps these numbers.

import { useRef } from "../core/view.js";

const WINDOW_MS = 120000;
const SPAN_MS_MIN = 9000;

export const partitionKey = ({ topic, partition }) => `${topic}/${partition}`;

// Return {written, read} in records per second between two samples of a partition; null if either is not known.
function rateBetween(before, after, seconds) {
  if (!before || before.end < 0 || after.end < 0) return null;
  const from = Math.max(0, before.committed); // -1: nothing was committed
  return { written: Math.max(0, after.end - before.end) / seconds, read: Math.max(0, Math.max(0, after.committed) - from) / seconds };
}

// Return {seconds, written, read, of(row)} for the answers of a list of lags, or null until they span long enough.
// `written` and `read` are sums; a reset of offsets begins a new measurement.
export function useLagRates({ data, at }) {
  const samples = useRef([]);
  const list = samples.current;
  if (data !== null && list.at(-1)?.at !== at) {
    const places = new Map(data.lags.map((row) => [partitionKey(row), { end: row.log_end_offset, committed: row.current_offset }]));
    const isReset = list.length > 0 && [...places].some(([key, { committed }]) => committed < (list.at(-1).places.get(key)?.committed ?? -1));
    if (isReset) list.length = 0;
    list.push({ at, places });
    while (list[0].at < at - WINDOW_MS) list.shift();
  }
  const [first, last] = [list[0], list.at(-1)];
  if (!first || last.at - first.at < SPAN_MS_MIN) return null;
  const seconds = (last.at - first.at) / 1000;
  const rates = new Map([...last.places].map(([key, place]) => [key, rateBetween(first.places.get(key), place, seconds)]));
  const sum = (name) => [...rates.values()].reduce((total, rate) => total + (rate?.[name] ?? 0), 0);
  return { seconds, written: sum("written"), read: sum("read"), of: (row) => rates.get(partitionKey(row)) ?? null };
}
