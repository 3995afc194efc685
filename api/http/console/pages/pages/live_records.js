// Records as they arrive, over one HTTP stream of lines.
//
// Bounds: the newest SHOWN_MAX records are kept. While paused, or while the tab is hidden, the stream is closed; it
// continues at the offset after the last record, so that none is left out.

import { html, useEffect, useRef, useState } from "../core/view.js";
import { api, BrokerError, send } from "../core/request.js";
import { Problem, Section, Status } from "../core/parts.js";
import { number, plural } from "../core/format.js";
import { RecordTable } from "./record_table.js";

const SHOWN_MAX = 200;
const RETRY_MS_MAX = 8000;

// Call `take(objects)` for the lines of each part of a stream until it ends.
async function readLines(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    take(lines.filter((line) => line !== "").map((line) => JSON.parse(line)));
  }
}

export function LiveRecords({ topic, partition, query }) {
  const [records, setRecords] = useState([]);
  const [state, setState] = useState({ kind: "busy", text: "connecting" });
  const [error, setError] = useState(null);
  const [isPaused, setPaused] = useState(false);
  const position = useRef("end");
  const count = useRef(0);
  useEffect(() => {
    let controller = null;
    let timer = null;
    let failures = 0;
    const take = (objects) => {
      const arrived = [];
      for (const object of objects) {
        if (object.heartbeat) position.current = object.heartbeat.next_offset;
        else if (object.error_code !== undefined && object.offset === undefined) {
          position.current = object.next_offset ?? position.current;
          throw new BrokerError(200, object);
        } else {
          position.current = object.offset + 1;
          arrived.push(object);
        }
      }
      failures = 0;
      setError(null);
      if (arrived.length > 0) {
        count.current += arrived.length;
        setRecords((old) => [...arrived.reverse(), ...old].slice(0, SHOWN_MAX));
      }
    };
    const run = async () => {
      controller = new AbortController();
      const { signal } = controller;
      try {
        const response = await send(api(["topics", topic, "partitions", partition, "records"], { ...query, follow: "true", offset: position.current }),
          { signal, accept: "application/x-ndjson", isEndless: true });
        setState({ kind: "ok", text: "live" });
        await readLines(response, take);
        if (signal.aborted) return;
      } catch (failure) {
        if (signal.aborted) return;
        setError(failure instanceof TypeError ? null : failure);
      }
      controller.abort(); // releases a stream that `take` ended
      failures += 1;
      setState({ kind: "warn", text: "the stream ended; it is opened again where it stopped" });
      timer = setTimeout(run, Math.min(1000 * 2 ** (failures - 1), RETRY_MS_MAX));
    };
    const stop = () => {
      controller?.abort();
      clearTimeout(timer);
    };
    const onVisibility = () => {
      stop();
      if (document.hidden) setState({ kind: "idle", text: "paused in the background" });
      else run();
    };
    if (isPaused) {
      setState({ kind: "idle", text: "paused" });
      return undefined;
    }
    document.addEventListener("visibilitychange", onVisibility);
    if (!document.hidden) run();
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      stop();
    };
  }, [isPaused]);
  return html`<${Section} title="Records as they arrive" actions=${html`
      <button type="button" onClick=${() => setPaused(!isPaused)}>${isPaused ? "Continue" : "Pause"}</button>
      <button type="button" onClick=${() => setRecords([])}>Clear</button>`}>
    <p role="status"><${Status} kind=${state.kind}>${state.text}<//> <span class="muted">${plural(count.current, "record")} arrived${
      count.current > SHOWN_MAX ? `, the newest ${number(SHOWN_MAX)} are shown` : ""}; the newest is first</span></p>
    <${Problem} error=${error} />
    <${RecordTable} topic=${topic} partition=${partition} records=${records} empty="No record has arrived yet." />
  <//>`;
}
