// Parts that all pages are made of: page frame, status, errors, facts, loading.

import { html, useEffect, useRef } from "./view.js";
import { advice, NoAnswer } from "./request.js";
import { localTime, number, utcTime } from "./format.js";
import { href } from "./route.js";

// Page frame. The heading receives the focus on a change of route, so that a screen reader reads the new title.
export function Page({ title, trail = [], actions = null, focusKey, children }) {
  const heading = useRef(null);
  useEffect(() => {
    document.title = `${title} · raftlog console`;
  }, [title]);
  useEffect(() => {
    if (Page.isFirst) Page.isFirst = false; // a load of the document: the browser starts at the top by itself
    else heading.current?.focus({ preventScroll: false });
  }, [focusKey ?? title]);
  return html`
    ${trail.length > 0 && html`<nav class="trail" aria-label="Path"><ol>${trail.map(([label, link]) =>
      html`<li><a href=${link}>${label}</a></li>`)}</ol></nav>`}
    <div class="page-head"><h1 tabindex="-1" ref=${heading}>${title}</h1><div class="actions">${actions}</div></div>
    ${children}`;
}
Page.isFirst = true;

const SYMBOLS = { ok: "✓", warn: "▲", bad: "✕", idle: "○", busy: "◐" };

// State as colour, symbol and text; `kind`: ok, warn, bad, idle, busy.
export const Status = ({ kind, children }) =>
  html`<span class=${`status ${kind}`}><span aria-hidden="true">${SYMBOLS[kind]}</span> ${children}</span>`;

// Error of the broker, as it is, with what to do.
export function Problem({ error, since = null, retries = true }) {
  if (!error) return null;
  const hint = advice(error);
  const codes = [error.status ? `status ${error.status}` : null, error.code ? `error code ${error.code}` : null,
    error.outcome === "unknown" ? "outcome unknown" : null].filter(Boolean).join(" · ");
  return html`<div class="problem" role="alert">
    <p class="problem-text"><${Status} kind="bad">${error instanceof NoAnswer ? "No answer" : "Error"}<//> <span class="message">${error.message}</span></p>
    ${codes && html`<p class="muted">${codes}</p>`}
    ${hint && html`<p>${hint}</p>`}
    ${since ? html`<p class="muted">Below: the state of <${Time} ms=${since} withDate=${false} />.</p>`
      : retries && html`<p class="muted">The page tries again by itself.</p>`}
  </div>`;
}

// Content for an answer of `useAnswer`: error, placeholder or `children(data)`; errors of lost connections are in the banner.
export function Answer({ answer, children }) {
  const { data, error, at } = answer;
  const isCovered = error instanceof NoAnswer && data !== null;
  return html`
    ${error && !isCovered && html`<${Problem} error=${error} since=${data === null ? null : at} />`}
    ${data === null && !error && html`<p class="muted loading" role="status">Loading…</p>`}
    ${data !== null && children(data)}`;
}

export const Time = ({ ms, withDate = true, withMs = false }) =>
  ms === null || ms === undefined || ms < 0 || Number.isNaN(new Date(ms).getTime())
    ? html`<span class="muted">–</span>`
    : html`<time dateTime=${new Date(ms).toISOString()} title=${utcTime(ms)}>${localTime(ms, { withDate, withMs })}</time>`;

// Definition list of [name, value]; rows with undefined values are left out.
export const Facts = ({ rows }) => html`<dl class="facts">${rows.filter(([, value]) => value !== undefined).map(([name, value]) =>
  html`<div><dt>${name}</dt><dd>${value ?? html`<span class="muted">–</span>`}</dd></div>`)}</dl>`;

export const Section = ({ title, note = null, actions = null, children }) => html`<section class="card">
  <div class="section-head"><h2>${title}</h2>${note && html`<span class="muted">${note}</span>`}<div class="actions">${actions}</div></div>
  ${children}</section>`;

// Number of records: exact, or an upper bound where offsets have holes.
export const Records = ({ count, isExact }) => count === null || count === undefined ? html`<span class="muted">–</span>`
  : isExact ? number(count)
    : html`<span title="Upper bound: offsets have holes (compaction, transactions)"><span aria-hidden="true">≤ </span><span class="hidden">at most </span>${number(count)}</span>`;

export const Meter = ({ percent, kind = "ok" }) => html`<span class="meter" aria-hidden="true">
  <span class=${kind} style=${{ width: `${Math.max(0, Math.min(100, percent))}%` }}></span></span>`;

export const TopicLink = ({ topic }) => html`<a class="name" href=${href(["topics", topic])}>${topic}</a>`;

export const PartitionLink = ({ topic, partition }) =>
  html`<a class="name" href=${href(["topics", topic], { partition })}>${topic}/${partition}</a>`;

// Row of links that look like tabs; the current one is marked for screen readers too.
export const Tabs = ({ label, items }) => html`<nav class="tabs" aria-label=${label}><ul>${items.map(([text, link, isCurrent]) =>
  html`<li><a href=${link} aria-current=${isCurrent ? "page" : null}>${text}</a></li>`)}</ul></nav>`;
