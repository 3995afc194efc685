// Keys, values and headers of records: text, indented JSON, or a hex dump; never markup.

import { html, useState } from "./view.js";
import { bytes } from "./format.js";

const SHOWN_CHARACTERS = 8192;
const SHOWN_BYTES = 2048;

// Indent JSON text without parsing its numbers, so that no digit changes. The input must be valid JSON.
function indentJson(text) {
  const tokens = text.match(/"(?:\\.|[^"\\])*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let depth = 0;
  let out = "";
  for (let index = 0; index < tokens.length; index += 1) {
    const token = tokens[index];
    const isOpening = token === "{" || token === "[";
    if (isOpening && (tokens[index + 1] === "}" || tokens[index + 1] === "]")) {
      out += token + tokens[index + 1];
      index += 1;
    } else if (isOpening) {
      depth += 1;
      out += `${token}\n${"  ".repeat(depth)}`;
    } else if (token === "}" || token === "]") {
      depth -= 1;
      out += `\n${"  ".repeat(depth)}${token}`;
    } else if (token === ",") out += `,\n${"  ".repeat(depth)}`;
    else if (token === ":") out += ": ";
    else out += token;
  }
  return out;
}

export const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

// Return lines `00000010  48 65 6c …  |Hel…|` of 16 bytes.
function hexDump(data) {
  const lines = [];
  for (let begin = 0; begin < data.length; begin += 16) {
    const row = data.subarray(begin, begin + 16);
    const hex = [...row].map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const characters = [...row].map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${begin.toString(16).padStart(8, "0")}  ${hex}  |${characters}|`);
  }
  return lines.join("\n");
}

const isJson = (text) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

// Return the shape of the console's answers for the bytes of a whole value.
export function describeBytes(data) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    return { encoding: isJson(text) ? "json" : "text", data: text, size: data.length, is_truncated: false };
  } catch {
    return { encoding: "bytes", bytes: data, size: data.length, is_truncated: false };
  }
}

// Show control and bidirectional characters of a text as escapes, so that a value cannot rearrange the line around it.
export const visible = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

// One line for a table cell.
export function Preview({ text, none = "null" }) {
  if (text === null || text === undefined) return html`<i class="muted">${none}</i>`;
  if (text.size === 0) return html`<i class="muted">empty</i>`;
  if (text.encoding === "base64") {
    const data = bytesOf(text.data.slice(0, 32));
    return html`<span class="value"><span class="tag">bytes</span> ${[...data].map((byte) => byte.toString(16).padStart(2, "0")).join(" ")}${text.size > data.length ? " …" : ""}</span>`;
  }
  const line = text.data.slice(0, 300);
  return html`<span class="value">${visible(line.replace(/[\n\r\t]+/g, " "))}${text.data.length > line.length || text.is_truncated ? "…" : ""}</span>`;
}

const KINDS = { json: "JSON", text: "text", base64: "not UTF-8: bytes", bytes: "not UTF-8: bytes" };

// Whole value in a block: cut at some KiB with "show all"; `load` fetches what the answer left out.
export function FullValue({ label, text, load = null, none = "null" }) {
  const [isAll, setAll] = useState(false);
  const [isRaw, setRaw] = useState(false);
  if (text === null || text === undefined) return html`<div class="full-value"><h3>${label}</h3><p class="muted">${none}</p></div>`;
  const isBinary = text.encoding === "base64" || text.encoding === "bytes";
  let content;
  let isCut;
  if (isBinary) {
    const data = text.bytes ?? bytesOf(text.data);
    isCut = !isAll && data.length > SHOWN_BYTES;
    content = hexDump(isCut ? data.subarray(0, SHOWN_BYTES) : data);
  } else {
    const whole = text.encoding === "json" && !isRaw ? indentJson(text.data) : text.data;
    isCut = !isAll && whole.length > SHOWN_CHARACTERS;
    content = visible(isCut ? whole.slice(0, SHOWN_CHARACTERS) : whole);
  }
  return html`<div class="full-value"><h3>${label} <span class="muted">${KINDS[text.encoding]}, ${bytes(text.size)}</span>
      ${text.encoding === "json" && html`<button type="button" class="small" aria-pressed=${isRaw ? "true" : "false"} onClick=${() => setRaw(!isRaw)}>as stored</button>`}</h3>
    ${text.size === 0 ? html`<p class="muted">empty</p>` : html`<pre tabindex="0" aria-label=${label}>${content}</pre>`}
    ${(isCut || (text.is_truncated && !load)) && html`<p class="muted">Cut for display.</p>`}
    ${isCut && !text.is_truncated && html`<button type="button" onClick=${() => setAll(true)}>Show all of the ${label.toLowerCase()} (${bytes(text.size)})</button>`}
    ${text.is_truncated && load && html`<button type="button" onClick=${() => load().then(() => setAll(true))}>Load all of the ${label.toLowerCase()} (${bytes(text.size)})</button>`}</div>`;
}
