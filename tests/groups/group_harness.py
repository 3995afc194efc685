"""State machine of groups with a clock and a log that tests control: its answers and its stored records."""

from collections.abc import Iterable
from random import Random
from typing import Any, TypeVar

from raftlog.assignors import Subscription, encode_subscription
from raftlog.errors import RaftlogError
from raftlog.partitions.groups.effects import Alive, GroupAnswer, Result, Store, Token
from raftlog.partitions.groups.machine import Machine
from raftlog.partitions.groups.records import GroupRecord, Protocol
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Join,
    JoinedGeneration,
    Leave,
    LeftMember,
    MemberToLeave,
    Sync,
    SyncedGeneration,
)
from raftlog.partitions.groups.settings import GroupSettings

R = TypeVar("R", bound=Result | RaftlogError)
G = "readers"
SESSION_S = 10.0
REBALANCE_S = 60.0
HOLD_S = 0.25


def make_protocols(*topics: str, names: Iterable[str] = ("range",), **said: Any) -> tuple[Protocol, ...]:
    return tuple(Protocol(name, encode_subscription(Subscription(topics or ("t",), **said))) for name in names)


class GroupHarness:
    """Groups with `answers` by token, the last committed record of each group in `log`, and `unstored` records."""

    def __init__(self, settings: GroupSettings | None = None, partitions: dict[str, int] | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.partitions = {"t": 4} if partitions is None else partitions
        self.now = 0.0
        self.tokens = 0
        self.answers: dict[Token, Result | RaftlogError] = {}
        self.cancelled: set[Token] = set()
        self.unstored: list[Store] = []
        self.stored: list[Store] = []
        self.log: dict[str, GroupRecord] = {}
        self.stores_at_once = True
        self.random = Random(7)
        self.machine = self._new_machine()

    def _new_machine(self) -> Machine:
        return Machine(self.settings, self.random, self.partitions.get, lambda: 1_000_000 + round(self.now * 1000))

    def take_effects(self) -> None:
        """Take the machine's effects; check that each token is answered at most once."""
        for effect in self.machine.take_effects():
            match effect:
                case GroupAnswer(token, outcome):
                    assert 0 < token <= self.tokens
                    assert token not in self.answers, f"{token} answered twice"
                    assert token not in self.cancelled, f"{token} answered although cancelled"
                    self.answers[token] = outcome
                case Store():
                    self.unstored.append(effect)
        if self.stores_at_once:
            self.store()

    def store(self, error: RaftlogError | None = None, count: int = -1) -> None:
        """Report the outcome of the next `count` unstored records: stored, or failed with the error."""
        while self.unstored and count != 0:
            count -= 1
            store = self.unstored.pop(0)
            if error is None:
                self.stored.append(store)
                if store.record is None:
                    self.log.pop(store.group, None)
                else:
                    self.log[store.group] = store.record
            self.machine.on_stored(store.group, store.ticket, error, self.now)
            self.take_effects()

    def advance(self, seconds: float) -> None:
        """Advance the clock and fire each timer when it is due."""
        end = self.now + seconds
        while (due := self.machine.next_timer()) is not None and due <= end:
            self.now = max(self.now, due)
            self.machine.tick(self.now)
            self.take_effects()
        self.now = end

    def fail_over(self) -> None:
        """Load a new coordinator from the committed records; waiting requests are lost."""
        self.unstored.clear()
        self.cancelled |= set(range(1, self.tokens + 1)) - set(self.answers)
        self.machine = self._new_machine()
        for group, record in self.log.items():
            self.machine.load(group, record, self.now)
        self.machine.topics_changed(self.now)
        self.take_effects()

    # requests; each gives its token

    def next_token(self) -> Token:
        self.tokens += 1
        return self.tokens

    def join(self, member_id: str = "", group: str = G, **join: Any) -> Token:
        token = self.next_token()
        join.setdefault("protocols", make_protocols())
        self.machine.join(token, Join(group, member_id, **join), self.now)
        self.take_effects()
        return token

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **sync: Any) -> Token:
        token = self.next_token()
        given = tuple((assignments or {}).items())
        self.machine.sync(token, Sync(G, member_id, generation, assignments=given, **sync), self.now)
        self.take_effects()
        return token

    def heartbeat(self, member_id: str, generation: int, **heartbeat: Any) -> Token:
        token = self.next_token()
        self.machine.heartbeat(token, GroupHeartbeat(G, member_id, generation, **heartbeat), self.now)
        self.take_effects()
        return token

    def leave(self, *members: str | MemberToLeave) -> tuple[LeftMember, ...]:
        token = self.next_token()
        leaving = tuple(MemberToLeave(each) if isinstance(each, str) else each for each in members)
        self.machine.leave(token, Leave(G, leaving), self.now)
        self.take_effects()
        return self.answer_of(token, tuple)

    def delete(self, group: str = G) -> Token:
        token = self.next_token()
        self.machine.delete(token, group, self.now)
        self.take_effects()
        return token

    def commit(self, member_id: str = "", generation: int = -1, instance_id: str | None = None) -> None:
        self.machine.check_commit(G, member_id, generation, instance_id, self.now)

    def cancel(self, token: Token) -> None:
        self.cancelled.add(token)
        self.machine.cancel(token, self.now)
        self.take_effects()

    # what came of it

    def answer_of(self, token: Token, kind: type[R]) -> R:
        assert token in self.answers, "it still waits"
        outcome = self.answers[token]
        assert isinstance(outcome, kind), outcome
        return outcome

    def is_waiting(self, token: Token) -> bool:
        return token not in self.answers

    @property
    def state(self) -> str:
        found = self.machine.group(G)
        return "" if found is None else found.state.value

    @property
    def generation(self) -> int:
        found = self.machine.group(G)
        assert found is not None
        return found.generation

    def members(self) -> list[str]:
        found = self.machine.group(G)
        return [] if found is None else list(found.members)

    # whole rounds

    def form(self, count: int, **join: Any) -> list[JoinedGeneration]:
        """Form a consumer group of `count` members up to the end of the join phase; the leader is first."""
        return self.finish_joins([self.join(**join) for _ in range(count)])

    def finish_joins(self, tokens: Iterable[Token]) -> list[JoinedGeneration]:
        if self.state == "PreparingRebalance":
            self.advance(3 * HOLD_S)
        joined = [self.answer_of(token, JoinedGeneration) for token in tokens]
        assert len({each.generation for each in joined}) == 1
        return sorted(joined, key=lambda each: each.member_id != each.leader)

    def rejoin(self, joined: Iterable[JoinedGeneration], **join: Any) -> list[JoinedGeneration]:
        """Join once more as these members; return the new generation of each."""
        tokens = [self.join(each.member_id, **join) for each in joined]
        return self.finish_joins(tokens)

    def sync_all(self, joined: Iterable[JoinedGeneration]) -> list[SyncedGeneration]:
        """Sync all members, the leader last; each gets its own id as assignment."""
        joined = list(joined)
        given = {each.member_id: each.member_id.encode() for each in joined}
        tokens = {
            each.member_id: self.sync(each.member_id, each.generation, given if each.members else None)
            for each in reversed(joined)
        }
        return [self.answer_of(tokens[each.member_id], SyncedGeneration) for each in joined]

    def form_stable(self, count: int, **join: Any) -> list[JoinedGeneration]:
        """Form a stable consumer group of `count` members; the leader is first."""
        joined = self.form(count, **join)
        self.sync_all(joined)
        assert self.state == "Stable"
        return joined

    def check_alive(self, *members: JoinedGeneration) -> None:
        for each in members:
            self.answer_of(self.heartbeat(each.member_id, each.generation), Alive)
