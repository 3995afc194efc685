"""Traces of real schedules pass the model of Raft's rules; planted wrong traces are refused with their reason."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.raft.cluster import Cluster
from tests.raft.model import Model, TraceRefused
from tests.raft.schedule import Schedule
from tests.raft.trace import Line

_ONE, _TWO, _THREE, _FOUR = (f"{number}/00000000" for number in (1, 2, 3, 4))
_SPECIFIED = {
    "Restart",
    "Timeout",
    "RequestVote",
    "BecomeLeader",
    "ClientRequest",
    "AppendEntries",
    "AdvanceCommitIndex",
    "UpdateTerm",
    "HandleRequestVoteRequest",
    "HandleRequestVoteResponse",
    "HandleAppendEntriesRequest",
    "HandleAppendEntriesResponse",
}
"""Actions of the specification of Raft in TLA+."""


def _check(lines: list[Line]) -> Model:
    model = Model()
    for line in lines:
        model.apply_line(line)
    return model


@pytest.mark.parametrize("seed", range(16))
def test_traces_of_schedules_pass_the_model(seed: int) -> None:
    """Every action of the specification occurs, and lines survive JSON."""
    lines: list[str] = []
    schedule = Schedule(seed, lambda line: lines.append(json.dumps(line)))
    # A lost last entry is a fault outside of the specification.
    schedule.actions[schedule.damage] = 0
    schedule.run(800)
    model = _check([json.loads(line) for line in lines])
    assert model.actions.keys() >= _SPECIFIED


def _record_trace() -> list[Line]:
    """Record a run with two leaders, a configuration change and a restart.

    Node 1 leads term 1, takes "a", is cut off with "b" and "c"; node 2 leads term 4, takes "d", changes the voters
    to 1, 2 and 4; node 3 restarts."""
    lines: list[Line] = []
    cluster = Cluster([1, 2, 3], [4], record=lambda line: lines.append(json.loads(json.dumps(line))))
    cluster.elect(1)
    cluster.propose(1, "a")
    cluster.settle()
    cluster.isolate(1)
    cluster.propose(1, "b", "c")
    cluster.settle()
    cluster.elect(2)
    cluster.propose(2, "d")
    cluster.settle()
    cluster.isolate()
    cluster.tick(8)
    cluster.change(2, [1, 2, 4], [3])
    cluster.settle()
    cluster[3].crash()
    cluster[3].start()
    cluster.tick(4)
    return lines


Edit = Callable[[list[Line]], None]


def _find(lines: list[Line], action: str, node: str, nth: int, /, **wanted: Any) -> Line:
    """Return the nth line of that action of that node with these fields, in its message or in itself."""
    found = [
        line
        for line in lines
        if (line["action"], line["node"]) == (action, node)
        and all(line.get("message", line).get(name, line.get(name)) == value for name, value in wanted.items())
    ]
    return found[nth]


def _change_state(action: str, node: str, nth: int = 0, /, *, of: dict[str, Any] | None = None, **changes: Any) -> Edit:
    """Return an edit that changes the state in that line."""

    def edit(lines: list[Line]) -> None:
        _find(lines, action, node, nth, **(of or {})).update(changes)

    return edit


def _change_message(
    action: str, node: str, nth: int = 0, /, *, of: dict[str, Any] | None = None, **changes: Any
) -> Edit:
    """Return an edit that changes the message in that line."""

    def edit(lines: list[Line]) -> None:
        _find(lines, action, node, nth, **(of or {}))["message"].update(changes)

    return edit


def _remove_lines(action: str, node: str, /, **wanted: Any) -> Edit:
    """Return an edit that removes all of these lines."""

    def edit(lines: list[Line]) -> None:
        gone = [line for line in lines if (line["action"], line["node"]) == (action, node)]
        gone = [
            line
            for line in gone
            if all(line.get("message", line).get(name, line.get(name)) == value for name, value in wanted.items())
        ]
        assert gone
        lines[:] = [line for line in lines if not any(line is each for each in gone)]

    return edit


def _remove_syncs(action: str, node: str, /) -> Edit:
    """Return an edit that removes all syncs of that node after that line."""

    def edit(lines: list[Line]) -> None:
        first = _find(lines, action, node, 0)
        since = next(at for at, line in enumerate(lines) if line is first)
        lines[since:] = [line for line in lines[since:] if (line["action"], line["node"]) != ("Synced", node)]

    return edit


def _combine(*edits: Edit) -> Edit:
    def edit(lines: list[Line]) -> None:
        for each in edits:
            each(lines)

    return edit


def _repeat_line(action: str, node: str, nth: int = 0, /, **changes: Any) -> Edit:
    """Return an edit that repeats that line at once, with changes."""

    def edit(lines: list[Line]) -> None:
        line = _find(lines, action, node, nth)
        at = next(at for at, other in enumerate(lines) if other is line)
        lines.insert(at + 1, {**line, **changes})

    return edit


_JOINT = {"index": 5, "voters": [_ONE, _TWO, _FOUR], "learners": [_THREE], "outgoing": [_ONE, _TWO, _THREE]}
_LEFT = {**_JOINT, "index": 6, "outgoing": []}
_PLANTED: dict[str, tuple[Edit, str]] = {
    "a vote for another one": (_change_state("HandleRequestVoteRequest", _TWO, vote=_THREE), "did not ask"),
    "a second vote in the term": (_repeat_line("HandleRequestVoteRequest", _TWO, vote=_THREE), "is given to"),
    "a vote for a shorter log": (
        _combine(
            _change_message("RequestVote", _TWO, of={"to": _THREE}, last=[1, 1]),
            _change_message("HandleRequestVoteRequest", _THREE, 1, last=[1, 1]),
        ),
        "not where its log ends",
    ),
    "a vote that is told before it is durable": (
        _change_state("Send", _TWO, of={"kind": "RequestVoteResponse"}, awaits=None),
        "is durable",
    ),
    "a candidate that asks before its own vote is durable": (
        _change_state("RequestVote", _ONE, awaits=None),
        "is durable",
    ),
    "a leader without votes": (_remove_lines("HandleRequestVoteResponse", _ONE), "no quorum"),
    "a leader that was no candidate": (_remove_lines("Timeout", _ONE), "term"),
    "a leader that campaigns": (_repeat_line("BecomeLeader", _ONE, action="Timeout"), "does not campaign"),
    "a term out of nowhere": (_change_message("UpdateTerm", _TWO, term=7), "nobody sent"),
    "a term that falls": (_change_state("HandleHeartbeat", _TWO, term=0), "by the rules term"),
    "an action that does not exist": (_change_state("StepDown", _ONE, action="Abdicate"), "does not exist"),
    "a follower that appends by itself": (
        _repeat_line("Synced", _TWO, action="ClientRequest", count=1),
        "only leaders append",
    ),
    "entries that the leader does not have": (
        _change_message("AppendEntries", _ONE, of={"entries": [[2, 1, None]]}, entries=[[2, 1, None], [3, 1, None]]),
        "not what the leader has",
    ),
    "a predecessor that the leader does not have": (
        _change_message("AppendEntries", _ONE, previous=[0, 1]),
        "is another one",
    ),
    "a message with another sender": (
        _change_message("AppendEntries", _ONE, sender=_TWO),
        "the sender is another node",
    ),
    "a message that nobody sent": (_remove_lines("AppendEntries", _ONE), "nobody sent"),
    "a message for somebody else": (
        _change_message("HandleAppendEntriesRequest", _TWO, to=_THREE),
        "for somebody else",
    ),
    "entries that are not taken": (_change_state("HandleAppendEntriesRequest", _TWO, last=[0, 0]), "by the rules last"),
    "matching entries that are cut": (_change_state("HandleHeartbeat", _TWO, last=[0, 0]), "by the rules last"),
    "a commit without acknowledgements": (_remove_lines("HandleAppendEntriesResponse", _ONE), "hold entry 1"),
    "a commit that counts the leader before its sync": (
        _combine(
            _remove_lines("HandleAppendEntriesResponse", _ONE, sender=_THREE), _remove_syncs("BecomeLeader", _ONE)
        ),
        "hold entry 1",
    ),
    "a commit beyond what a quorum holds": (_change_state("AdvanceCommitIndex", _ONE, commit=2), "beyond the log"),
    "a commit that goes back": (_change_state("AdvanceCommitIndex", _ONE, 1, commit=0), "not forward"),
    "a follower that believes too much": (_change_state("HandleHeartbeat", _TWO, commit=2), "commit may rise to"),
    "a leader that tells more than it committed": (
        _change_message("Send", _ONE, of={"kind": "Heartbeat"}, committed=9),
        "more than it committed",
    ),
    "an acknowledgement of what is not durable": (_remove_syncs("HandleAppendEntriesRequest", _TWO), "durable is 0"),
    "an acknowledgement of what is not there": (
        _change_message("Send", _TWO, of={"kind": "AppendEntriesResponse", "durable": 1}, durable=2, verified=2),
        "durable is 1",
    ),
    "more durable than verified": (
        _change_message("Send", _TWO, of={"kind": "AppendEntriesResponse", "durable": 1}, verified=0),
        "more is durable than agrees",
    ),
    "a change without a joint configuration": (
        _change_state("ClientRequest", _TWO, of={"configuration": _JOINT}, configuration={**_JOINT, "outgoing": []}),
        "without a joint",
    ),
    "a way back out of a joint configuration": (
        _change_state(
            "ClientRequest", _TWO, of={"configuration": _LEFT}, configuration={**_LEFT, "voters": [_ONE, _TWO, _THREE]}
        ),
        "there is one way",
    ),
    "a joint configuration that is left before it is committed": (
        _combine(
            _remove_lines("AdvanceCommitIndex", _TWO, commit=5), _change_state("ClientRequest", _TWO, 3, commit=4)
        ),
        "another change is not committed",
    ),
    "a change before anything of the own term is committed": (
        _change_state("ClientRequest", _TWO, configuration={**_JOINT, "index": 3}),
        "nothing of the own term",
    ),
    "a vote that is forgotten over a restart": (_change_state("Restart", _THREE, 1, vote=None), "the durable vote"),
    "a term that is forgotten over a restart": (
        _change_state("Restart", _THREE, 1, term=1, vote=None),
        "the durable term",
    ),
    "an entry that is forgotten over a restart": (
        _change_state("Restart", _THREE, 1, terms=[1, 1, 4, 4, 4], last=[5, 4]),
        "entry 6 was durable",
    ),
    "an entry that is another one after a restart": (
        _change_state("Restart", _THREE, 1, terms=[1, 2, 4, 4, 4, 4]),
        "entry 2 was durable",
    ),
}


def test_the_recorded_trace_passes() -> None:
    lines = _record_trace()
    model = _check(lines)
    assert model.leaders == {1: _ONE, 4: _TWO}
    changes = [line["configuration"] for line in lines if line["action"] == "ClientRequest" and line["configuration"]]
    assert changes[0] == _JOINT
    assert len(changes) == 2


@pytest.mark.parametrize("name", _PLANTED)
def test_planted_wrong_traces_are_refused(name: str) -> None:
    edit, why = _PLANTED[name]
    lines = _record_trace()
    edit(lines)
    with pytest.raises(TraceRefused, match=why):
        _check(lines)
