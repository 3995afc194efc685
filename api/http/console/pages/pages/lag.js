// Reasons for the lag of a consumer group, derived from its members, positions and recent lag.

import { html } from "../core/view.js";
import { href } from "../core/route.js";
import { duration, number, plural } from "../core/format.js";

const SHARE_OF_ONE = 0.8;
const RATE_MIN = 0.1;
const HOT_SHARE = 0.5;
const STUCK_SECONDS = 20;

export const GroupLink = ({ group }) => html`<a class="name" href=${href(["groups", group])}>${group}</a>`;

export const STATES = {
  Stable: ["ok", "stable"], Empty: ["idle", "empty: no members"], PreparingRebalance: ["busy", "rebalancing: members join"],
  CompletingRebalance: ["busy", "rebalancing: waits for assignments"], Dead: ["bad", "dead"],
};

// Return the change of a group's lag in records per second over the last samples, or null.
export function lagTrend(times, lag, seconds = 300) {
  const known = times.map((ms, index) => [ms, lag[index]]).filter(([, value]) => value !== null && value !== undefined);
  const last = known.at(-1);
  const first = known.find(([ms]) => last && ms >= last[0] - seconds * 1000);
  if (!last || !first || last[0] - first[0] < 20000) return null;
  return (1000 * (last[1] - first[1])) / (last[0] - first[0]);
}

// Return the share of a topic's records, 0 to 1, that go to the partition of a row: of those written now, if any, else of all.
function shareOf(row, lags, rates) {
  const topic = lags.filter((other) => other.topic === row.topic);
  const measures = [(each) => rates?.of(each)?.written ?? 0, (each) => Math.max(0, each.log_end_offset - Math.max(0, each.log_start_offset))];
  for (const measure of measures) {
    const whole = topic.reduce((sum, each) => sum + measure(each), 0);
    if (whole > 0) return measure(row) / whole;
  }
  return 0;
}

// Return a finding for each member that read nothing for a while although its partitions lag.
function stuckMembers(members, behind, rates) {
  if (rates === null || rates.seconds < STUCK_SECONDS) return [];
  return members.flatMap((member) => {
    const own = behind.filter((row) => row.member_id === member.member_id);
    if (own.length === 0 || own.some((row) => !rates.of(row) || rates.of(row).read > 0)) return [];
    return [["bad", `${member.client_id || member.member_id} at ${member.client_host} has committed nothing in the last ${duration(rates.seconds)}, and ${plural(own.length, "partition")} of it ${own.length === 1 ? "lags" : "lag"}, for example ${own[0].topic}/${own[0].partition}.`,
      "Look at its log: it works long on a record, fails on it again and again, or does not commit."]];
  });
}

// Return [kind, finding, action] for everything that explains the lag; `trend` is in records per second, or null, and
// `rates` are those of useLagRates, or null.
export function lagReasons({ group, members, member_count: memberCount, is_simple: isSimple }, lags, trend, rates) {
  const found = [];
  const behind = lags.filter((row) => row.lag > 0);
  const total = behind.reduce((sum, row) => sum + row.lag, 0);
  const unknown = lags.filter((row) => row.lag < 0);
  if (unknown.length > 0) {
    const row = unknown[0];
    found.push(["bad", `The end of ${plural(unknown.length, "partition")} is not known, for example ${row.topic}/${row.partition}: it has no leader, or its broker does not answer.`,
      "See the health on the overview: these partitions cannot be consumed either."]);
  }
  if (total === 0) return unknown.length > 0 ? found : [["ok", "The group has read everything.", null]];
  if (memberCount === 0) {
    found.push(["bad", `The group has no members: nothing reads ${plural(behind.length, "partition")} with lag.`,
      isSimple ? "Its offsets are committed without membership; look at the program that commits them." : "Start its consumers. If they run, look in their log for errors of login, permission or connection."]);
  }
  if (group.state === "PreparingRebalance" || group.state === "CompletingRebalance") {
    found.push(["warn", "The group is rebalancing, and members read nothing meanwhile.",
      "If this lasts for minutes, a member joins and leaves again: compare its processing time with max.poll.interval and the session timeout."]);
  }
  const orphans = behind.filter((row) => !row.member_id);
  if (memberCount > 0 && orphans.length > 0) {
    found.push(["warn", `${plural(orphans.length, "partition")} with lag, for example ${orphans[0].topic}/${orphans[0].partition}, ${orphans.length === 1 ? "is" : "are"} assigned to no member.`,
      "Members subscribe to other topics now, or the assignment is not finished."]);
  }
  const lost = behind.filter((row) => row.current_offset >= 0 && row.current_offset < row.log_start_offset);
  if (lost.length > 0) {
    found.push(["bad", `Records of ${plural(lost.length, "partition")} were deleted before the group read them, for example of ${lost[0].topic}/${lost[0].partition}: committed ${number(lost[0].current_offset)}, log start ${number(lost[0].log_start_offset)}.`,
      "Raise retention.ms or retention.bytes of the topic; the consumers continue by their auto.offset.reset."]);
  }
  const fresh = behind.filter((row) => row.current_offset < 0);
  if (fresh.length > 0) {
    found.push(["warn", `${plural(fresh.length, "partition")} ${fresh.length === 1 ? "has" : "have"} no committed offset, so all records count as lag.`, "Normal for a new group; otherwise the consumers do not commit."]);
  }
  const worst = behind.reduce((one, row) => (row.lag > one.lag ? row : one));
  found.push(...stuckMembers(members, behind, rates));
  if (lags.length > 1 && worst.lag > SHARE_OF_ONE * total && worst.member_id) {
    const reader = members.find((member) => member.member_id === worst.member_id);
    const share = shareOf(worst, lags, rates);
    const isHot = share > Math.max(HOT_SHARE, 1.5 / lags.filter((row) => row.topic === worst.topic).length);
    found.push(["warn", `${Math.round((100 * worst.lag) / total)} % of the lag is in ${worst.topic}/${worst.partition}, read by ${reader?.client_id || worst.client_id || worst.member_id}${reader?.client_host ? ` at ${reader.client_host}` : ""}.`,
      isHot ? `${Math.round(100 * share)} % of the records of ${worst.topic} go to this partition, so more members do not help. Choose keys that spread the records, or make the processing faster.`
        : "The partition gets no more records than others: look at this consumer."]);
  }
  if (memberCount > 0 && memberCount < lags.length && found.length === 0) {
    found.push(["warn", `${plural(memberCount, "member")} share${memberCount === 1 ? "s" : ""} ${plural(lags.length, "partition")} and ${memberCount === 1 ? "is" : "are"} slower than the producers, or ${memberCount === 1 ? "was" : "were"} away.`,
      `If the lag grows, add members (up to ${number(lags.length)} can work), or make the processing faster.`]);
  } else if (found.length === 0) {
    found.push(["warn", "Every partition has a member; the members are slower than the producers, or were away.", "If the lag grows, make the processing faster, or add partitions and members."]);
  }
  if (trend !== null) {
    if (trend > RATE_MIN) found.push(["bad", `The lag grows by ${number(trend, 1)} records per second.`, null]);
    else if (trend < -RATE_MIN) found.push(["ok", `The lag falls by ${number(-trend, 1)} records per second: nothing is left in about ${duration(total / -trend)}.`, null]);
    else if (rates === null || rates.written + rates.read === 0) found.push(["idle", "The lag has not changed in the last minutes: nothing is written, and nothing is read.", null]);
    else found.push(["idle", "The lag has not changed in the last minutes: the members read as fast as records are written.", null]);
  }
  return found;
}
