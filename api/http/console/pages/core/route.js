// The page's address: `#/topics/orders/records?partition=0&offset=5`. Filter, sort order and page of every list are
// part of it, so that a reload, the back button and a link sent to a colleague show the same rows.

import { useEffect, useState } from "./view.js";

const listeners = new Set();

const decoded = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a hand-written address with a stray percent sign
  }
};

// Return {segments, path, params} of a location hash.
function parseRoute(hash) {
  const raw = hash.replace(/^#/, "");
  const mark = raw.indexOf("?");
  const path = mark < 0 ? raw : raw.slice(0, mark);
  return {
    segments: path.split("/").filter(Boolean).map(decoded),
    path,
    params: new URLSearchParams(mark < 0 ? "" : raw.slice(mark + 1)),
  };
}

// Return the hash for path segments and parameters; null, undefined and "" are left out, lists repeat the name.
export function href(segments, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== "") query.append(name, item);
    }
  }
  const text = query.toString();
  return `#/${segments.map((segment) => encodeURIComponent(segment)).join("/")}${text ? `?${text}` : ""}`;
}

// Return the address of a page in the console of the broker at `address` (HOST:PORT).
export const consoleAt = (address, hash = "#/") => `${location.protocol}//${address}/console/${hash}`;

export function navigate(hash, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  for (const listener of listeners) listener();
}

// Change some parameters of the current address; null removes one.
export function setParams(changes, { replace = true } = {}) {
  const { segments, params } = parseRoute(location.hash);
  const merged = {};
  for (const name of new Set(params.keys())) merged[name] = params.getAll(name);
  navigate(href(segments, { ...merged, ...changes }), { replace });
}

export function useRoute() {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const update = () => setRoute(parseRoute(location.hash));
    listeners.add(update);
    addEventListener("hashchange", update);
    addEventListener("popstate", update);
    return () => {
      listeners.delete(update);
      removeEventListener("hashchange", update);
      removeEventListener("popstate", update);
    };
  }, []);
  return route;
}
