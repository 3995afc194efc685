// Time series as a chart (uPlot) and, for keyboards and screen readers, as a table.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./view.js";
import uPlot from "../vendor/uPlot.mjs";
import { localTime, short } from "./format.js";
import { Table } from "./table.js";

const DASHES = [undefined, [6, 3], [2, 3], [8, 3, 2, 3]]; // lines differ without their colour too
const HEIGHT = 150;
const TABLE_ROWS_MAX = 30;

const cssValue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function useScheme() {
  const [scheme, setScheme] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const update = () => setScheme((value) => value + 1);
    query.addEventListener("change", update);
    return () => query.removeEventListener("change", update);
  }, []);
  return scheme;
}

const lastKnown = (values) => {
  for (let index = values.length - 1; index >= 0; index -= 1) if (values[index] !== null) return values[index];
  return null;
};

export const WHOLE_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
export const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);

// Chart of `lines` [{label, values}] over `times` (seconds since 1970); `format` turns a value into text, `steps` are
// the distances that its grid may have.
export function Chart({ title, times, lines, format = short, steps = null }) {
  const frame = useRef(null);
  const plot = useRef(null);
  const [cursor, setCursor] = useState(null);
  const scheme = useScheme();
  const data = [times, ...lines.map((line) => line.values)];
  const labels = lines.map((line) => line.label).join("\n");
  const formatter = useRef(format);
  formatter.current = format;
  useLayoutEffect(() => {
    const grid = { stroke: cssValue("--line"), width: 1 };
    const axis = { stroke: cssValue("--muted"), grid, ticks: grid, font: "11px system-ui, sans-serif" };
    const options = {
      width: frame.current.clientWidth || 300,
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      scales: { y: { range: (_, low, high) => (high === null || high <= 0 ? [0, 1] : [Math.min(0, low), high * 1.1]) } },
      axes: [
        { ...axis, size: 30, space: 70, values: (_, ticks) => ticks.map((tick) => localTime(tick * 1000, { withDate: false }).slice(0, 5)) },
        { ...axis, size: 70, space: 28, ...(steps ? { incrs: steps } : {}), values: (_, ticks) => ticks.map((tick) => formatter.current(tick)) },
      ],
      series: [{}, ...lines.map((line, index) => ({
        label: line.label, stroke: cssValue(`--line-${(index % 4) + 1}`), width: 1.6, dash: DASHES[index % 4], points: { show: false }, spanGaps: false,
      }))],
      hooks: { setCursor: [(chart) => setCursor(chart.cursor.idx ?? null)] },
    };
    plot.current = new uPlot(options, data, frame.current);
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: frame.current.clientWidth, height: HEIGHT }));
    observer.observe(frame.current);
    return () => {
      observer.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [labels, scheme]);
  useEffect(() => plot.current?.setData(data), [times, ...lines.map((line) => line.values)]);
  const isEmpty = lines.every((line) => line.values.every((value) => value === null));
  const step = Math.max(1, Math.ceil(times.length / TABLE_ROWS_MAX));
  const rows = times.map((_, index) => index).filter((index) => (times.length - 1 - index) % step === 0).reverse();
  const summary = lines.map((line) => `${line.label} ${format(lastKnown(line.values))}`).join(", ");
  return html`<figure class="chart">
    <figcaption><strong>${title}</strong> ${cursor !== null && times[cursor] !== undefined && html`<span class="muted">at ${localTime(times[cursor] * 1000, { withDate: false })}</span>`}
      <span class="legend">${lines.map((line, index) => html`<span><span class=${`key key-${(index % 4) + 1}`} aria-hidden="true"></span>${line.label} <b>${
        format(cursor !== null && line.values[cursor] !== undefined ? line.values[cursor] : lastKnown(line.values))}</b></span>`)}</span></figcaption>
    <div class="plot" ref=${frame} role="img" aria-label=${`${title}, latest: ${summary}`}></div>
    ${isEmpty && html`<p class="muted empty">No samples in this time.</p>`}
    <details><summary>Values as a table<span class="hidden">: ${title}</span></summary>
      <${Table} caption=${title} rows=${rows} columns=${[
        { title: "Time", cell: (index) => localTime(times[index] * 1000, { withDate: false }), isHeader: true },
        ...lines.map((line) => ({ title: line.label, isNumber: true, cell: (index) => format(line.values[index]) })),
      ]} /></details>
  </figure>`;
}
