// The console: header, navigation, connection and clock notices, and the page of the current route.

import { ConsoleContext, html, render, useEffect, useRef, useState } from "./core/view.js";
import { useRoute } from "./core/route.js";
import { api } from "./core/request.js";
import { setPaused, useAnswer, useConnection, usePaused } from "./core/answers.js";
import { Page, Problem, Status, Time } from "./core/parts.js";
import { duration, plural } from "./core/format.js";
import { OverviewPage } from "./pages/overview.js";
import { TopicsPage } from "./pages/topics.js";
import { TopicPage } from "./pages/topic.js";
import { RecordsPage } from "./pages/records.js";
import { GroupsPage } from "./pages/groups.js";
import { GroupPage } from "./pages/group.js";
import { BrokersPage } from "./pages/brokers.js";
import { SecurityPage } from "./pages/security.js";
import { TransactionPage, TransactionsPage } from "./pages/transactions.js";

const CLOCK_OFFSET_SHOWN_MS = 5000;
const NAVIGATION = [
  ["", "Overview"], ["topics", "Topics"], ["groups", "Groups"], ["brokers", "Brokers"], ["security", "Users & ACLs"], ["transactions", "Transactions"],
];

function currentPage({ segments }) {
  const [first, name, detail] = segments;
  if (first === undefined) return html`<${OverviewPage} />`;
  if (first === "topics" && name === undefined) return html`<${TopicsPage} />`;
  if (first === "topics" && detail === "records") return html`<${RecordsPage} key=${name} topic=${name} />`;
  if (first === "topics") return html`<${TopicPage} key=${name} topic=${name} tab=${detail ?? "partitions"} />`;
  if (first === "groups" && name === undefined) return html`<${GroupsPage} />`;
  if (first === "groups") return html`<${GroupPage} key=${name} group=${name} />`;
  if (first === "brokers") return html`<${BrokersPage} />`;
  if (first === "security") return html`<${SecurityPage} tab=${name ?? "users"} />`;
  if (first === "transactions" && name === undefined) return html`<${TransactionsPage} />`;
  if (first === "transactions") return html`<${TransactionPage} key=${name} id=${name} />`;
  return html`<${Page} title="No such page"><p>The console has no page <code>${segments.join("/")}</code>. Choose one in the navigation.</p><//>`;
}

function HealthLink({ health }) {
  const { data, error } = health;
  const { lostSince } = useConnection();
  if (lostSince !== null) return html`<a href="#/"><${Status} kind="bad">no answer<//></a>`;
  if (data === null) return error && error.status === 403 ? null : html`<a href="#/"><${Status} kind="idle">health unknown<//></a>`;
  return html`<a href="#/"><${Status} kind=${data.health.is_healthy ? "ok" : "bad"}>${
    data.health.is_healthy ? "healthy" : plural(data.health.unhealthy_reasons.length, "problem")}<//></a>`;
}

// Notice that the broker does not answer, with the time since; it goes away with the next answer.
function ConnectionNotice() {
  const { lostSince } = useConnection();
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (lostSince === null) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [lostSince]);
  return html`<div role="status" aria-live="assertive">${lostSince !== null && html`<p class="notice bad"><${Status} kind="bad">No answer since <${Time} ms=${lostSince} withDate=${false} /><//>${" "}
    <span aria-hidden="true">(${duration(Math.max(0, Math.round((now - lostSince) / 1000)))})</span> The page shows the last known state and tries again by itself.</p>`}</div>`;
}

function ClockNotice({ session }) {
  const { data, at, tookMs } = session;
  if (data === null) return null;
  const offset = data.time_ms - (at - tookMs / 2); // positive: the broker is ahead
  if (Math.abs(offset) <= CLOCK_OFFSET_SHOWN_MS) return null;
  return html`<p class="notice warn" role="status"><${Status} kind="warn">Clocks differ<//> The broker's clock is ${duration(Math.round(Math.abs(offset) / 1000))}
    ${offset > 0 ? " ahead of" : " behind"} this browser's. Times on these pages are the broker's; check the time synchronization of both machines.</p>`;
}

function Header({ session, health }) {
  const { data } = session;
  const isPaused = usePaused();
  return html`<header class="top">
    <a class="brand" href="#/"><img src="icon.svg" alt="" width="22" height="22" /> raftlog</a>
    <${HealthLink} health=${health} />
    <span class="spacer"></span>
    ${data && html`<span class="muted identity">broker ${data.node_id} · ${data.version}${data.user ? html` · user <b class="name">${data.user}</b>` : ""}</span>
      ${!data.writes_allowed && html`<span class="tag" title="Start the broker with --console-writes to allow changes from this page">read-only</span>`}`}
    <button type="button" class="small" aria-pressed=${isPaused ? "true" : "false"} onClick=${() => setPaused(!isPaused)}>${isPaused ? "Updates paused" : "Pause updates"}</button>
  </header>`;
}

function Navigation({ segments }) {
  return html`<nav class="main-nav" aria-label="Console"><ul>${NAVIGATION.map(([segment, label]) => html`<li><a href=${`#/${segment}`}
    aria-current=${(segments[0] ?? "") === segment ? (segments.length <= 1 ? "page" : "true") : null}>${label}</a></li>`)}</ul></nav>`;
}

function Console() {
  const route = useRoute();
  const session = useAnswer(api(["session"]));
  const health = useAnswer(session.data === null || session.data.may?.describe_cluster ? api(["health"]) : null);
  const main = useRef(null);
  const skip = (event) => {
    event.preventDefault(); // the hash is the route
    main.current.focus();
  };
  return html`<${ConsoleContext.Provider} value=${{ session, health }}>
    <a class="skip" href=${location.hash || "#/"} onClick=${skip}>Skip to the content</a>
    <${Header} session=${session} health=${health} />
    <${Navigation} segments=${route.segments} />
    <main tabindex="-1" ref=${main}>
      <${ConnectionNotice} />
      <${ClockNotice} session=${session} />
      ${session.error && session.error.status !== 0 && html`<${Problem} error=${session.error} />`}
      ${session.data && !session.data.is_ready && html`<p class="notice warn" role="status"><${Status} kind="busy">Broker ${session.data.node_id} is starting or stopping<//> Some answers are missing until it is ready.</p>`}
      <div key=${route.segments.join("/")}>${currentPage(route)}</div>
    </main>
  <//>`;
}

if (!location.hash) history.replaceState(null, "", "#/");
render(html`<${Console} />`, document.getElementById("console"));
