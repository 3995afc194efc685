// Form for one record.

import { html, useState } from "../core/view.js";
import { ask, path } from "../core/request.js";
import { Area, ChangeDialog, Choice, Field } from "../core/dialogs.js";

const base64 = (text) => btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));

// Return the JSON text of a key or value. JSON input is sent digit by digit, not through JavaScript numbers.
function encoded(label, text, encoding) {
  if (encoding === "none") return "null";
  if (encoding !== "json") return JSON.stringify(text);
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Error(`The ${label} is not JSON: ${error.message}. Correct it, or choose "text".`);
  }
  return text;
}

// Return headers from lines `name: value`.
function parseHeaders(text) {
  return text.split("\n").filter((line) => line.trim() !== "").map((line) => {
    const mark = line.indexOf(":");
    if (mark < 1) throw new Error(`The line "${line}" is not a header: write name: value.`);
    return { name: line.slice(0, mark).trim(), value: base64(line.slice(mark + 1).trim()) };
  });
}

export function ProduceDialog({ topic, partitions, close, onStored }) {
  const [partition, setPartition] = useState("");
  const [key, setKey] = useState("");
  const [keyEncoding, setKeyEncoding] = useState("none");
  const [value, setValue] = useState("");
  const [valueEncoding, setValueEncoding] = useState("json");
  const [headers, setHeaders] = useState("");
  const run = async () => {
    const encodings = {};
    if (keyEncoding !== "none") encodings.key = keyEncoding;
    if (valueEncoding !== "none") encodings.value = valueEncoding;
    const fields = [
      `"key":${encoded("key", key, keyEncoding)}`, `"value":${encoded("value", value, valueEncoding)}`,
      `"headers":${JSON.stringify(parseHeaders(headers))}`, `"encoding":${JSON.stringify(encodings)}`,
      ...(partition === "" ? [] : [`"partition":${Number(partition)}`]),
    ];
    const { offsets } = await ask(path(["topics", topic]), { method: "POST", bodyText: `{"records":[{${fields.join(",")}}]}` });
    return offsets[0];
  };
  return html`<${ChangeDialog} title=${`Produce a record to ${topic}`} label="Produce" run=${run} onClose=${close} onDone=${onStored}>
    <${Choice} label="Partition" value=${partition} set=${setPartition} options=${[["", "chosen by the key"], ...Array.from({ length: partitions }, (_, index) => [String(index), String(index)])]} />
    <${Choice} label="Key is" value=${keyEncoding} set=${setKeyEncoding} options=${[["none", "absent"], ["text", "text"], ["json", "JSON"], ["base64", "base64 of bytes"]]} />
    ${keyEncoding !== "none" && html`<${Field} label="Key" value=${key} set=${setKey} />`}
    <${Choice} label="Value is" value=${valueEncoding} set=${setValueEncoding} options=${[["json", "JSON"], ["text", "text"], ["base64", "base64 of bytes"], ["none", "absent (tombstone)"]]} />
    ${valueEncoding !== "none" && html`<${Area} label="Value" value=${value} set=${setValue} rows=${6} />`}
    <${Area} label="Headers" hint="a line each: name: value" value=${headers} set=${setHeaders} rows=${2} />
  <//>`;
}
