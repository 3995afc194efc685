// Forecast for the disks of brokers.

import { html } from "../core/view.js";
import { Status } from "../core/parts.js";
import { duration } from "../core/format.js";

const WARN_SECONDS = 7 * 86400;
const BAD_SECONDS = 86400;

// Return when a broker's disk is full if it writes on at its present rate and deletes nothing.
export function fillingUp({ load, disk_space: disks }) {
  const free = disks?.[0]?.free ?? load?.disk_free;
  if (free === null || free === undefined || !load) return html`<span class="muted">–</span>`;
  if (!load.bytes_in_per_s) return html`<span class="muted">no writes now</span>`;
  const seconds = free / load.bytes_in_per_s;
  const text = duration(seconds);
  if (seconds < BAD_SECONDS) return html`<${Status} kind="bad">${text}<//>`;
  return seconds < WARN_SECONDS ? html`<${Status} kind="warn">${text}<//>` : html`<span class="muted">${seconds > 365 * 86400 ? "over a year" : text}</span>`;
}
