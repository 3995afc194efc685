"""Core that emits every state transition as one line, for checks against a formal model.

    TracedCore(me, settings, random, log, restart, emit=lines.append)

Lines are plain JSON-able dictionaries. Actions have the names of the Raft TLA+ specification (Ongaro), `Timeout`,
`RequestVote`, `BecomeLeader`, `ClientRequest`, `AppendEntries`, `AdvanceCommitIndex`, `UpdateTerm`, `Restart` and
`Handle…` with the names of its messages; actions that it lacks are `StepDown` (CheckQuorum, a lost pre-vote, a stall),
`Install`, `Persist` and `Synced` (a Ready was given out, and reported as durable), and `Send` (other messages). A
pre-candidate is a follower there, as it has changed nothing.

Each line has `node`, `action`, and the state *after* it: `term`, `vote`, `role`, `last` ([index, term]), `commit`.
One call of the core can be several transitions; they are emitted one by one, in order. Lines that send have `awaits`,
the number of the Ready that must be `Synced` before the message leaves, or null.

Not here: any check. Called by tests and simulators in the place of `RaftCore`; servers do not use it."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from raftlog.raft.configuration import Configuration, ConfigurationChange, ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import ControlPayloads, Entry, EntryId, Proposal
from raftlog.raft.log_view import LogView
from raftlog.raft.messages import AppendRequest, Message
from raftlog.raft.ready import Accepted, Installed, Ready, RefusedProposal, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.raft.supply import SupplyRefusal, SupplyRequest
from raftlog.types import Index

Line = dict[str, Any]

_NAMES = {
    "AppendRequest": "AppendEntriesRequest",
    "AppendResponse": "AppendEntriesResponse",
    "VoteRequest": "RequestVoteRequest",
    "VoteResponse": "RequestVoteResponse",
}
_SENDS = {"AppendEntriesRequest": "AppendEntries", "RequestVoteRequest": "RequestVote"}


class _State(NamedTuple):
    """State of a core as shown by a line."""

    term: int
    vote: ReplicaId | None
    role: Role
    last: EntryId
    commit: int
    configuration: Configuration


class TracedCore(RaftCore):
    """A `RaftCore` whose transitions go to `emit`, one line each."""

    __slots__ = ("_emit", "_me", "_seen", "_synced")

    def __init__(
        self,
        me: ReplicaId,
        settings: RaftSettings,
        random: Random,
        log: LogView,
        restart: Restart,
        payloads: ControlPayloads | None = None,
        *,
        emit: Callable[[Line], None],
    ) -> None:
        super().__init__(me, settings, random, log, restart, payloads)
        self._me, self._emit = me, emit
        self._seen = self._state()
        self._synced = 0
        self._emit_line("Restart", **_contents(log, restart.configurations))

    def propose(self, proposals: Sequence[Proposal]) -> Accepted | RefusedProposal:
        outcome = super().propose(proposals)
        self._observe()
        return outcome

    def propose_configuration(self, change: ConfigurationChange) -> Accepted | RefusedProposal:
        outcome = super().propose_configuration(change)
        self._observe()
        return outcome

    def campaign(self) -> bool:
        is_begun = super().campaign()
        self._observe()
        return is_begun

    def step_down(self, why: str) -> bool:
        is_ended = super().step_down(why)
        self._observe()
        return is_ended

    def install(self, installed: Installed) -> None:
        super().install(installed)
        self._seen = self._state()
        self._emit_line("Install", **_contents(self._replica.log.view, installed.configurations))

    def step(self, message: Message) -> None:
        refused = self.messages_refused
        super().step(message)
        if self.messages_refused > refused:
            return
        now = self._state()
        if self._seen.term < message.term <= now.term:
            # The specification first takes the later term, as a step of its own, and then looks at the message.
            self._seen = self._seen._replace(term=message.term, vote=None, role=Role.FOLLOWER)
            self._emit_line("UpdateTerm", message=message_to_json(message))
        is_campaign = now.role is Role.CANDIDATE and now.term > self._seen.term
        if not is_campaign:
            self._seen = now
        self._emit_line(f"Handle{_specification_name(message)}", message=message_to_json(message))
        self._observe()

    def supply(self, wanted: SupplyRequest) -> AppendRequest | SupplyRefusal:
        supplied = super().supply(wanted)
        if not isinstance(supplied, SupplyRefusal):
            self._emit_line(_SENDS[_specification_name(supplied)], message=message_to_json(supplied), awaits=None)
        return supplied

    def tick(self) -> bool:
        is_ready = super().tick()
        self._observe()
        return is_ready

    def ready(self) -> Ready | None:
        ready = super().ready()
        self._observe()
        if ready is None:
            return None
        if ready.must_sync:
            self._emit_line("Persist", number=ready.number)
        for messages, awaits in ((ready.messages_now, None), (ready.messages_once_durable, ready.number)):
            for message in messages:
                self._emit_line(
                    _SENDS.get(_specification_name(message), "Send"), message=message_to_json(message), awaits=awaits
                )
        return ready

    def advance(self, *, durable: int = 0, applied: Index | None = None) -> None:
        super().advance(durable=durable, applied=applied)
        if durable > self._synced:
            self._synced = durable
            self._emit_line("Synced", number=durable)
        self._observe()

    def _state(self) -> _State:
        replica = self._replica
        return _State(
            replica.term, replica.vote, self.role, replica.log.last_id, replica.committed, replica.configuration
        )

    def _observe(self) -> None:
        """Emit the core's own transitions since the last call, in their only possible order."""
        now = self._state()
        if now.role is Role.CANDIDATE and now.term > self._seen.term:
            self._emit_change("Timeout", term=now.term, vote=now.vote, role=Role.CANDIDATE)
        if now.role is Role.LEADER and self._seen.role is not Role.LEADER:
            self._emit_change("BecomeLeader", role=Role.LEADER)
            self._client_request(now)
        if now.commit > self._seen.commit:
            self._emit_change("AdvanceCommitIndex", commit=now.commit)
        self._client_request(now)
        if _specification_role(now.role) != _specification_role(self._seen.role):
            self._emit_change("StepDown", role=now.role)
        assert _is_same(now, self._seen), f"{self._me} went from {self._seen} to {now} in a way that has no name"
        self._seen = now

    def _client_request(self, now: _State) -> None:
        """Emit an append by the leader; a configuration among its entries is the last of them."""
        count = now.last.index - self._seen.last.index
        if count <= 0:
            return
        is_changed = now.configuration != self._seen.configuration
        configuration = to_json(now.configuration) if is_changed else None
        self._seen = self._seen._replace(last=now.last, configuration=now.configuration)
        self._emit_line("ClientRequest", count=count, configuration=configuration)

    def _emit_change(self, action: str, **changes: Any) -> None:
        self._seen = self._seen._replace(**changes)
        self._emit_line(action)

    def _emit_line(self, action: str, **details: Any) -> None:
        seen = self._seen
        self._emit(
            {
                "node": str(self._me),
                "action": action,
                "term": seen.term,
                "vote": to_json(seen.vote),
                "role": _specification_role(seen.role),
                "last": to_json(seen.last),
                "commit": seen.commit,
                **details,
            }
        )


def to_json(value: Any) -> Any:
    """Convert a value to JSON: members as text, entries as [index, term, configuration], others unchanged."""
    if isinstance(value, ReplicaId):
        return str(value)
    if isinstance(value, Configuration):
        return {name: to_json(part) for name, part in value._asdict().items()}
    if isinstance(value, Entry):
        return [value.index, value.term, to_json(value.configuration)]
    return [to_json(part) for part in value] if isinstance(value, tuple) else value


def message_to_json(message: Message) -> Line:
    """Convert a message, under its name in the specification if there is one."""
    return {"kind": _specification_name(message), **{name: to_json(value) for name, value in message._asdict().items()}}


def _specification_name(message: Message) -> str:
    kind = type(message).__name__
    return _NAMES.get(kind, kind)


def _specification_role(role: Role) -> str:
    return Role.FOLLOWER.value if role is Role.PRE_CANDIDATE else role.value


def _is_same(one: _State, other: _State) -> bool:
    return one._replace(role=Role.FOLLOWER) == other._replace(role=Role.FOLLOWER)


def _contents(log: LogView, configurations: Sequence[Configuration]) -> Line:
    """Return the log: its boundary, the terms of its entries, and its configurations."""
    boundary = log.boundary
    terms = [log.term_at(Index(index)) for index in range(boundary.index + 1, log.last_index + 1)]
    return {"boundary": to_json(boundary), "terms": terms, "configurations": [to_json(each) for each in configurations]}
