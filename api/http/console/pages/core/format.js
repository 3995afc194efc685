// Numbers, sizes, durations and times as text. A value that is not known is an en dash.

export const UNKNOWN = "–";
const isKnown = (value) => value !== null && value !== undefined && value !== "";

export function number(value, digits = 0) {
  if (!isKnown(value)) return UNKNOWN;
  if (typeof value === "string") return value;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

// Return a rate or latency with two or three significant digits.
export function short(value) {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  return number(value, size >= 100 || value === 0 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function bytes(value) {
  if (!isKnown(value)) return UNKNOWN;
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${number(size, unit === 0 || size >= 100 ? 0 : 1)} ${UNITS[unit]}`;
}

export function duration(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  if (seconds < 1) return `${number(seconds * 1000)} ms`;
  if (seconds < 120) return `${number(seconds)} s`;
  if (seconds < 7200) return `${number(seconds / 60)} min`;
  if (seconds < 172800) return `${number(seconds / 3600)} h`;
  return `${number(seconds / 86400)} days`;
}

const pad = (value, width = 2) => String(value).padStart(width, "0");

// Return `2026-11-25 14:03:07.120` in the browser's zone.
export function localTime(ms, { withDate = true, withMs = false } = {}) {
  const date = new Date(ms);
  if (!isKnown(ms) || ms < 0 || Number.isNaN(date.getTime())) return UNKNOWN;
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} `;
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return `${withDate ? day : ""}${time}${withMs ? `.${pad(date.getMilliseconds(), 3)}` : ""}`;
}

export function utcTime(ms) {
  const date = new Date(ms);
  return !isKnown(ms) || ms < 0 || Number.isNaN(date.getTime()) ? UNKNOWN : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;
