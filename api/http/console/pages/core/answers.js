// Answers of the broker as state of components: loaded, polled, cancelled with the component.
//
// Policy for all reads: again after POLL_MS; after an error at 1, 2, 4 … RETRY_MS_MAX. Nothing is read while the tab is
// hidden or updates are paused; the first answer of a page is always read. The last answer stays visible under an error.

import { useEffect, useState } from "./view.js";
import { ask, currentConnection, onConnection } from "./request.js";

const POLL_MS = 5000;
const RETRY_MS_MAX = 8000;

let isPaused = false;
const pauseListeners = new Set();

export function setPaused(value) {
  isPaused = value;
  for (const listener of pauseListeners) listener(value);
}

export function usePaused() {
  const [value, setValue] = useState(isPaused);
  useEffect(() => {
    pauseListeners.add(setValue);
    return () => pauseListeners.delete(setValue);
  }, []);
  return value;
}

// Poll `path` and return {data, error, at, tookMs, isLoading, reload}; `every` 0 reads once, and again only after errors.
export function useAnswer(path, { every = POLL_MS } = {}) {
  const [state, setState] = useState({ path: null, data: null, error: null, at: 0, tookMs: 0 });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    const controller = new AbortController();
    let timer = null;
    let failures = 0;
    let isDone = false;
    const schedule = (delay) => {
      timer = setTimeout(run, delay);
    };
    const run = async () => {
      timer = null;
      if (isDone && (isPaused || document.hidden)) return; // `wake` continues
      const begin = Date.now();
      try {
        const data = await ask(path, { signal: controller.signal });
        if (controller.signal.aborted) return;
        failures = 0;
        setState({ path, data, error: null, at: Date.now(), tookMs: Date.now() - begin });
        isDone = true;
        if (every > 0) schedule(every);
      } catch (error) {
        if (controller.signal.aborted) return;
        failures += 1;
        setState((old) => ({ ...old, path, error }));
        isDone = true;
        schedule(Math.max(Math.min(1000 * 2 ** (failures - 1), RETRY_MS_MAX), error.status >= 400 && error.status < 429 ? POLL_MS : 0));
      }
    };
    const wake = () => {
      if (timer === null && isDone && !document.hidden && !isPaused && (every > 0 || failures > 0)) run();
    };
    document.addEventListener("visibilitychange", wake);
    pauseListeners.add(wake);
    run();
    return () => {
      controller.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
      pauseListeners.delete(wake);
    };
  }, [path, every, round]);
  return { ...state, isLoading: path !== null && state.path !== path, reload: () => setRound((value) => value + 1) };
}

export function useConnection() {
  const [connection, setConnection] = useState(currentConnection());
  useEffect(() => onConnection(setConnection), []);
  return connection;
}
