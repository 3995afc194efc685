// Requests to the broker that served this page.
//
// Reads are repeated by `useAnswer` (answers.js); a change is sent once, because a lost answer may hide a success.

const TIMEOUT_MS = 20000;
const CONSOLE_HEADER = { "X-Raftlog-Console": "1" };

// An error that the broker returned; `message` is the broker's own text.
export class BrokerError extends Error {
  constructor(status, body) {
    super(body?.message || `The broker returned status ${status} without an explanation.`);
    this.name = "BrokerError";
    this.status = status;
    this.code = body?.error_code ?? null;
    this.outcome = body?.outcome ?? null;
    this.body = body;
  }
}

// No response: the broker is stopped, unreachable, or slower than the timeout.
export class NoAnswer extends Error {
  constructor(isChange, reason) {
    super(`No answer from the broker (${reason}).`);
    this.name = "NoAnswer";
    this.status = 0;
    this.outcome = isChange ? "unknown" : "failed";
  }
}

let connection = { lostSince: null, lastAnswer: Date.now() };
const listeners = new Set();

export const currentConnection = () => connection;

export function onConnection(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function reportConnection(isAnswered) {
  const wasLost = connection.lostSince !== null;
  if (isAnswered) connection = { lostSince: null, lastAnswer: Date.now() };
  else if (!wasLost) connection = { ...connection, lostSince: connection.lastAnswer };
  if (wasLost === isAnswered) for (const listener of listeners) listener(connection);
}

// Parse JSON; whole numbers that a JavaScript number cannot hold exactly become strings of their digits.
function parseExactly(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) =>
    Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? context.source : value);
}

// Return the response of a request, or raise BrokerError, NoAnswer, or the AbortError of `signal`; `bodyText` is JSON.
export async function send(path, { method = "GET", body, bodyText = body === undefined ? undefined : JSON.stringify(body), signal, accept = "application/json", isEndless = false } = {}) {
  const signals = [signal, isEndless ? null : AbortSignal.timeout(TIMEOUT_MS)].filter(Boolean);
  const headers = { ...CONSOLE_HEADER, Accept: accept };
  if (bodyText !== undefined) headers["Content-Type"] = "application/json";
  const isChange = method !== "GET";
  let response;
  try {
    response = await fetch(path, {
      method, headers, signal: AbortSignal.any(signals), cache: "no-store", body: bodyText,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    reportConnection(false);
    throw new NoAnswer(isChange, error.name === "TimeoutError" ? `${TIMEOUT_MS / 1000} s passed` : "the connection failed");
  }
  reportConnection(true);
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let parsed = null;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = { message: text.slice(0, 1000) }; // of a proxy between browser and broker
  }
  throw new BrokerError(response.status, parsed);
}

// Return the parsed body of a response, null for an empty one.
export async function ask(path, options = {}) {
  const response = await send(path, options);
  try {
    const text = await response.text();
    return text === "" ? null : parseExactly(text);
  } catch (error) {
    if (options.signal?.aborted || error instanceof SyntaxError) throw error;
    reportConnection(false);
    throw new NoAnswer((options.method ?? "GET") !== "GET", "the connection broke in the answer");
  }
}

// Return a path below the console's endpoints; null, undefined and "" parameters are left out.
export function api(segments, params = {}) {
  return path(["console", "api", ...segments], params);
}

export function path(segments, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return `/${segments.map((segment) => encodeURIComponent(segment)).join("/")}${text ? `?${text}` : ""}`;
}

// Advice for an error, beside the broker's own text.
export function advice(error) {
  if (error instanceof NoAnswer) return "The page tries again by itself. If the broker stays away, open the console of another broker.";
  switch (error.status) {
    case 401: return "Log in: reload the page and enter a user and password.";
    case 403: return error.code === 40307
      ? "Start the broker with --console-writes to allow changes from this page, or use the raftlog command."
      : "Ask an operator with ALTER on the cluster for the permission, or log in as another user.";
    case 404: return "Check the name; it may have been deleted. The lists show what exists.";
    case 409: return "The state has changed meanwhile: look at the current values and try again.";
    case 429: return "The broker limits this user or is busy; the page tries again more slowly.";
    case 503: return "Reads are repeated until the broker can answer. Without a majority of brokers start the missing ones first.";
    case 504: return "The broker cannot tell whether it was done: look at the current state before you repeat it.";
    default: return error.outcome === "unknown" ? "It may have been done: look at the current state before you repeat it." : null;
  }
}
