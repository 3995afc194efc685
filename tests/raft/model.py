"""Raft's rules as a naive executable model: it reads a trace line by line and refuses illegal steps.

The thesis's figure 3.1, with durability as a separate state (unsynced entries do not count and are not announced),
joint consensus, and files in place of appends. It ignores how a core works: no progress, windows, timers, probes or
quiescence. A core may be more careful than the model (refuse a vote, wait with a commit), never less. Format of the
lines: `tests.raft.trace`."""

import json
import re
from collections.abc import Callable

from tests.raft.model_node import NOT_GIVEN, ModelNode
from tests.raft.trace import Line


class TraceRefused(Exception):
    """Error for a line of the trace that is not a legal step of Raft."""


class Model:
    """All replicas, all messages ever sent, and the committed entries."""

    def __init__(self) -> None:
        self.nodes: dict[str, ModelNode] = {}
        self.sent: set[str] = set()
        self.leaders: dict[int, str] = {}
        self.committed: dict[int, int] = {}
        """By index: the term of the entry that is committed there."""
        self._before: dict[tuple[int, int], int] = {}
        """By entry: the term of the one before it."""
        self.actions: dict[str, int] = {}
        """Number of lines per action."""

    def apply_line(self, line: Line) -> None:
        """Apply the next line; raise `TraceRefused` if the model does not allow it."""
        action, name = line["action"], line["node"]
        self.actions[action] = self.actions.get(action, 0) + 1
        if action == "Restart":
            self._restart(line)
        else:
            self._require(name in self.nodes, line, "a node that never started")
            if action.startswith("Handle"):
                self._require(line["message"]["to"] == name, line, "a message for somebody else")
                self._require(_key(line["message"]) in self.sent, line, "a message that nobody sent")
            handle: Callable[[ModelNode, Line], None] | None = getattr(self, f"_{_snake(action)}", None)
            if handle is not None:
                handle(self.nodes[name], line)
            else:
                self._require(action.startswith("Handle"), line, "an action that does not exist")
        self._compare(self.nodes[name], line)

    # starting

    def _restart(self, line: Line) -> None:
        """Check that the restarted node has everything that was durable."""
        before = self.nodes.get(line["node"])
        node = self.nodes[line["node"]] = ModelNode(line)
        self._check_log(node, line)
        if before is None:
            return
        term, vote = before.durable_hard_state
        self._require(node.term >= term, line, f"the durable term was {term}")
        self._require(node.term > term or vote in (None, node.vote), line, f"the durable vote was for {vote}")
        for index in range(max(node.boundary, before.boundary), before.durable + 1):
            self._require(node.term_at(index) == before.term_at(index), line, f"entry {index} was durable")
        self._require(node.last >= before.durable, line, f"entries up to {before.durable} were durable")

    def _install(self, node: ModelNode, line: Line) -> None:
        """Replace the node's log by that of the installed files."""
        self._require(node.role != "leader", line, "a leader takes no files")
        self._require(line["boundary"][0] > node.commit, line, "nothing committed may be replaced")
        self._require(line["term"] >= node.term, line, "the term falls")
        fresh = self.nodes[line["node"]] = ModelNode(line)
        if fresh.term == node.term:
            self._require(fresh.vote == node.vote, line, "the vote of the term is changed")
            fresh.hard_states, fresh.synced, fresh.waiting = node.hard_states, node.synced, node.waiting
        else:
            # Not synced as a hard state, but the synced log says it.
            fresh.hard_states = [*node.hard_states, (node.synced, fresh.term, None)]
            fresh.synced, fresh.waiting = node.synced, node.waiting
        self._check_log(fresh, line)
        for index in range(fresh.boundary, fresh.commit + 1):
            self._require(self.committed.get(index) == fresh.term_at(index), line, f"entry {index} is not committed")

    # durability

    def _persist(self, node: ModelNode, line: Line) -> None:
        number = line["number"]
        node.numbers = [number if before == NOT_GIVEN else before for before in node.numbers]
        node.hard_states.append((number, node.term, node.vote))

    def _synced(self, node: ModelNode, line: Line) -> None:
        """Mark writes durable, and send the messages that waited for them."""
        node.synced = max(node.synced, line["number"])
        node.hard_states = [
            hard for hard in node.hard_states if hard[0] > node.synced or hard == node.hard_states[0]
        ] + [(node.synced, *node.durable_hard_state)]
        node.hard_states.sort(key=lambda hard: hard[0])
        ready = [message for number, message in node.waiting if number <= node.synced]
        node.waiting = [(number, message) for number, message in node.waiting if number > node.synced]
        for message in ready:
            self._release(node, json.loads(message), line)

    # elections

    def _update_term(self, node: ModelNode, line: Line) -> None:
        message = line["message"]
        self._require(_key(message) in self.sent, line, "a message that nobody sent")
        self._require(message["term"] == line["term"] > node.term, line, "the term is not the message's, or not later")
        node.new_term(line["term"], None, "follower")

    def _timeout(self, node: ModelNode, line: Line) -> None:
        self._require(node.role != "leader", line, "a leader does not campaign")
        known = [each for each in node.configurations if self._may_hold(node, each)]
        is_voter = any(line["node"] in (*each["voters"], *each["outgoing"]) for each in known)
        self._require(is_voter, line, "not a voter in any configuration that can hold")
        node.new_term(node.term + 1, line["node"], "candidate")

    def _handle_request_vote_request(self, node: ModelNode, line: Line) -> None:
        message = line["message"]
        if line["vote"] == node.vote:
            return
        self._require(message["term"] == node.term, line, "a vote for another term")
        self._require(node.vote is None, line, f"the vote of the term is given to {node.vote}")
        self._require(line["vote"] == message["sender"], line, "a vote for one that did not ask")
        mine = (node.terms[-1], node.last)
        self._require((message["last"][1], message["last"][0]) >= mine, line, f"its log ends before {mine}")
        node.vote, node.role = line["vote"], "follower"

    def _handle_request_vote_response(self, node: ModelNode, line: Line) -> None:
        message = line["message"]
        if node.role == "candidate" and message["term"] == node.term and message["is_granted"]:
            node.votes.add(message["sender"])

    def _become_leader(self, node: ModelNode, line: Line) -> None:
        name = line["node"]
        self._require(node.role == "candidate", line, "only candidates become leaders")
        votes = node.votes | ({name} if node.durable_hard_state == (node.term, name) else set())
        self._require(_is_quorum(node.configuration, votes), line, f"the votes of {sorted(votes)} are no quorum")
        first = self.leaders.setdefault(node.term, name)
        self._require(first == name, line, f"{first} leads the term already")
        for index, term in self.committed.items():
            if index >= node.boundary:
                self._require(node.term_at(index) == term, line, f"the leader lacks committed entry {index}")
        node.role, node.first_own = "leader", node.last + 1

    def _step_down(self, node: ModelNode, line: Line) -> None:
        node.role, node.verified = "follower", node.commit

    # the log

    def _client_request(self, node: ModelNode, line: Line) -> None:
        self._require(node.role == "leader", line, "only leaders append by themselves")
        configuration = line["configuration"]
        if configuration is not None:
            self._check_change(node, configuration, line)
        for _ in range(line["count"] - 1):
            node.append(node.term, None)
        node.append(node.term, configuration)
        self._check_log(node, line)

    def _check_change(self, node: ModelNode, new: Line, line: Line) -> None:
        """Check the rules of membership changes for a new configuration."""
        old = node.configuration
        self._require(new["index"] == node.last + line["count"], line, "a configuration that is not its entry's")
        self._require(old["index"] <= node.commit, line, "another change is not committed")
        self._require(node.commit >= node.first_own, line, "nothing of the own term is committed")
        if old["outgoing"]:
            is_exit = (new["voters"], new["outgoing"]) == (old["voters"], [])
            self._require(is_exit, line, "out of a joint configuration there is one way")
        elif new["voters"] != old["voters"]:
            self._require(new["outgoing"] == old["voters"], line, "voters change without a joint configuration")

    def _handle_append_entries_request(self, node: ModelNode, line: Line) -> None:
        message = line["message"]
        if message["term"] < node.term:
            return
        self._follow(node, line)
        previous, entries = message["previous"], message["entries"]
        if previous[0] >= node.commit and node.term_at(previous[0]) != previous[1]:
            return
        for index, term, configuration in entries:
            if index <= node.boundary or node.term_at(index) == term:
                continue
            if index <= node.last:
                self._require(index > node.commit, line, f"committed entry {index} would be cut")
                node.cut_to(index - 1)
            node.append(term, configuration)
        node.verified = max(node.verified, previous[0] + len(entries))
        self._check_log(node, line)
        self._follow_commit(node, line)

    def _handle_heartbeat(self, node: ModelNode, line: Line) -> None:
        if line["message"]["term"] == node.term:
            self._follow(node, line)
            self._follow_commit(node, line)

    def _handle_install_offer(self, node: ModelNode, line: Line) -> None:
        message = line["message"]
        if message["term"] == node.term:
            self._follow(node, line)
            boundary = message["boundary"]
            if boundary[0] <= node.commit or node.term_at(boundary[0]) == boundary[1]:
                node.verified = max(node.verified, boundary[0])

    def _follow(self, node: ModelNode, line: Line) -> None:
        self._require(node.role != "leader", line, "two leaders in one term")
        self._require(
            self.leaders.get(node.term) == line["message"]["sender"], line, "its sender does not lead the term"
        )
        node.role = "follower"

    def _follow_commit(self, node: ModelNode, line: Line) -> None:
        """Check that a follower commits only entries that agree with the leader's log."""
        most = min(line["message"]["committed"], node.verified)
        self._require(node.commit <= line["commit"] <= max(node.commit, most), line, f"commit may rise to {most}")
        self._commit(node, line)

    # commit

    def _handle_append_entries_response(self, node: ModelNode, line: Line) -> None:
        self._acknowledge(node, line["message"], line["message"]["durable"])

    def _handle_heartbeat_response(self, node: ModelNode, line: Line) -> None:
        self._acknowledge(node, line["message"], line["message"]["durable"])

    def _handle_install_response(self, node: ModelNode, line: Line) -> None:
        if line["message"]["is_reached"]:
            self._acknowledge(node, line["message"], line["message"]["boundary"][0])

    def _acknowledge(self, node: ModelNode, message: Line, durable: int) -> None:
        if node.role == "leader" and message["term"] == node.term:
            sender = message["sender"]
            node.match[sender] = max(node.match.get(sender, 0), durable)

    def _advance_commit_index(self, node: ModelNode, line: Line) -> None:
        index = line["commit"]
        self._require(node.role == "leader", line, "only leaders commit by counting")
        self._require(node.commit < index <= node.last, line, "beyond the log, or not forward")
        self._require(node.term_at(index) == node.term, line, "an entry of an earlier term is committed by counting")
        holders = {name for name, match in node.match.items() if match >= index}
        if node.durable >= index:
            holders.add(line["node"])
        self._require(_is_quorum(node.configuration, holders), line, f"only {sorted(holders)} hold entry {index}")
        self._commit(node, line)

    def _commit(self, node: ModelNode, line: Line) -> None:
        for index in range(node.commit + 1, line["commit"] + 1):
            term = node.term_at(index)
            assert term is not None, f"{line} commits what the log does not have"
            first = self.committed.setdefault(index, term)
            self._require(first == term, line, f"entry {index} is committed with term {first}")
        node.commit = line["commit"]

    # sending

    def _request_vote(self, node: ModelNode, line: Line) -> None:
        self._require(node.vote == line["node"], line, "only candidates ask for votes")
        self._require(line["message"]["last"] == [node.last, node.terms[-1]], line, "not where its log ends")
        self._post(node, line)

    def _append_entries(self, node: ModelNode, line: Line) -> None:
        message = line["message"]
        self._require(self.leaders.get(message["term"]) == line["node"], line, "only leaders send entries")
        if message["term"] < node.term:
            self._post(node, line)
            return
        index, term = message["previous"]
        self._require(node.term_at(index) == term, line, "the entry before is another one")
        for at, entry in enumerate(message["entries"], index + 1):
            self._require(entry[:2] == [at, node.term_at(at)], line, f"entry {at} is not what the leader has")
        self._require(message["committed"] <= node.commit, line, "it tells more than it committed")
        self._post(node, line)

    def _send(self, node: ModelNode, line: Line) -> None:
        message = line["message"]
        if message["kind"] in ("Heartbeat", "InstallOffer"):
            self._require(self.leaders.get(message["term"]) == line["node"], line, "only leaders send these")
            self._require(message["committed"] <= node.commit, line, "it tells more than it committed")
        elif "durable" in message and message["term"] == node.term:
            self._check_claim(node, message, line)
        self._post(node, line)

    def _check_claim(self, node: ModelNode, message: Line, line: Line) -> None:
        """Check an acknowledgement: its entries agree with the leader's log, and its durable entries are durable."""
        verified = message["verified"]
        self._require(message["durable"] <= verified, line, "more is durable than agrees")
        if verified <= node.commit:
            return
        self._require(message["durable"] <= node.durable, line, f"durable is {node.durable}")
        leader = self.nodes[message["to"]]
        if leader.role == "leader" and leader.term == node.term and verified >= leader.boundary:
            self._require(leader.term_at(verified) == node.term_at(verified), line, "it does not agree with the leader")

    def _post(self, node: ModelNode, line: Line) -> None:
        """Send a message, once the write that it awaits is durable."""
        message, awaits = line["message"], line["awaits"]
        self._require(message["sender"] == line["node"], line, "the sender is another node")
        self._require(message["term"] <= node.term, line, f"the term is {node.term}")
        if message["term"] == node.term and _is_vote(message):
            self._require(node.vote == message["to"], line, f"the vote is {node.vote}'s")
        if awaits is None or awaits <= node.synced:
            self._release(node, message, line)
        else:
            node.waiting.append((awaits, _key(message)))

    def _release(self, node: ModelNode, message: Line, line: Line) -> None:
        """Release a message to the network: its contents must be durable by now."""
        term, vote = node.durable_hard_state
        self._require(term >= message["term"], line, f"term {message['term']} is told, and {term} is durable")
        if term == message["term"] and _is_vote(message):
            self._require(vote == message["to"], line, f"a vote is told, and one for {vote} is durable")
        if term == message["term"] and message["kind"] == "RequestVoteRequest":
            self._require(vote == message["sender"], line, f"a candidate asks, and a vote for {vote} is durable")
        self.sent.add(_key(message))

    # always

    def _check_log(self, node: ModelNode, line: Line) -> None:
        """Check log matching: an entry identifies its prefix; and terms never fall along a log."""
        for at in range(len(node.terms) - 1, 0, -1):
            index, term, before = node.boundary + at, node.terms[at], node.terms[at - 1]
            self._require(before <= term, line, f"the term falls at {index}")
            is_known = (index, term) in self._before
            fact = self._before.setdefault((index, term), before)
            self._require(fact == before, line, f"before {index}@{term} stood {fact}, and now {before}")
            if is_known:
                return

    def _may_hold(self, node: ModelNode, configuration: Line) -> bool:
        """Return whether the configuration is the last committed one or a later one."""
        later = [each for each in node.configurations if configuration["index"] < each["index"] <= node.commit]
        return not later

    def _compare(self, node: ModelNode, line: Line) -> None:
        """Check that the node's state in the line equals that of the model."""
        mine = {
            "term": node.term,
            "vote": node.vote,
            "role": node.role,
            "last": [node.last, node.terms[-1]],
            "commit": node.commit,
        }
        for name, value in mine.items():
            self._require(line[name] == value, line, f"by the rules {name} is {value}")

    def _require(self, condition: bool, line: Line, why: str) -> None:
        if not condition:
            raise TraceRefused(f"{line['action']} of {line['node']}: {why}: {line}")


def _snake(action: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower()


def _key(message: Line) -> str:
    return json.dumps(message, sort_keys=True)


def _is_vote(message: Line) -> bool:
    return message["kind"] == "RequestVoteResponse" and message["is_granted"]


def _is_quorum(configuration: Line, members: set[str]) -> bool:
    halves = [half for half in (configuration["voters"], configuration["outgoing"]) if half]
    return bool(configuration["voters"]) and all(2 * len(members & set(half)) > len(half) for half in halves)
