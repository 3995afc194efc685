// Disks of brokers: used part, and forecast.

import { html } from "../core/view.js";
import { Meter, Status } from "../core/parts.js";
import { bytes, duration } from "../core/format.js";

const WARN_SECONDS = 7 * 86400;
const BAD_SECONDS = 86400;
const FAR_SECONDS = 365 * 86400;

// Return {free, total, reserve, filling_per_s} of a broker's disk: what it answered, or what it gossiped, or null.
function diskOf({ disk_space: disks, load }) {
  const [disk] = disks ?? [];
  if (disk && disk.total > 0) return disk;
  return load && load.disk_total > 0 ? { free: load.disk_free, total: load.disk_total, reserve: 0, filling_per_s: null } : null;
}

// Used part of a broker's disk, as bar and text; from 80 % on it is a warning, from 90 % or in the reserve an error.
export function DiskUse({ row }) {
  const disk = diskOf(row);
  if (disk === null) return html`<span class="muted">–</span>`;
  const used = Math.round(100 * (1 - disk.free / disk.total));
  const kind = used >= 90 || disk.free < disk.reserve ? "bad" : used >= 80 ? "warn" : "ok";
  return html`<span class="disk"><${Meter} percent=${used} kind=${kind} />
    <${Status} kind=${kind}>${used} % used<//> <span class="muted">${bytes(disk.free)} of ${bytes(disk.total)} free</span></span>`;
}

// Return when a broker's disk is down to its reserve if it fills at the rate of the last minutes.
export function fillingUp(row) {
  const disk = row.is_alive ? diskOf(row) : null;
  if (disk === null) return html`<span class="muted">–</span>`;
  if (disk.free < disk.reserve) return html`<${Status} kind="bad">full: less than the reserve of ${bytes(disk.reserve)} is free<//>`;
  const { filling_per_s: rate } = disk;
  if (rate === null || rate === undefined) return html`<span class="muted">not measured yet</span>`;
  const seconds = rate > 0 ? (disk.free - disk.reserve) / rate : Infinity;
  if (seconds > FAR_SECONDS) return html`<span class="muted">${rate > 0 ? "over a year" : "it does not fill"}</span>`;
  const text = html`${duration(seconds)} <span class="muted">by ${bytes(rate)}/s</span>`;
  if (seconds < BAD_SECONDS) return html`<${Status} kind="bad">${text}<//>`;
  return seconds < WARN_SECONDS ? html`<${Status} kind="warn">${text}<//>` : text;
}
