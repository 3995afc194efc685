"""Invariants under arbitrary members, a log that loses records, and changing coordinators.

one owner of a partition in each generation;   generations only rise;   one answer to each request, and none is
forgotten;   only a member of the stored generation commits"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from raftlog.assignors import ASSIGNORS, decode_assignment, decode_subscription, encode_assignment
from raftlog.errors import NotLeader, OutcomeUnknown, Overloaded, RaftlogError
from raftlog.partitions.groups.effects import Token
from raftlog.partitions.groups.results import JoinedGeneration, MemberToLeave, SyncedGeneration
from raftlog.types import TopicPartition
from tests.groups.desk import REBALANCE_S, SESSION_S, Desk, G, protocols

INSTANCES = st.sampled_from([None, None, "s0", "s1"])
TOPICS = st.sampled_from([("t",), ("t", "u")])
MEMBERS = st.integers(0, 9)
LOSSES = st.sampled_from([Overloaded("full"), OutcomeUnknown("lost"), NotLeader("another leads")])


class Members(RuleBasedStateMachine):
    """Members with any behaviour; `joined` has the answer of each join, by token, however old."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(partitions={"t": 4, "u": 2})
        self.desk.stores_at_once = False
        self.joins: dict[Token, str | None] = {}
        self.joined: list[tuple[JoinedGeneration, str | None]] = []
        self.seen: set[Token] = set()
        self.generation = 0
        self.owners: dict[tuple[int, TopicPartition], str] = {}
        self.syncs: dict[Token, str] = {}

    def one(self, number: int) -> tuple[JoinedGeneration, str | None]:
        return self.joined[-1 - number % len(self.joined)]

    # what members do

    @rule(instance=INSTANCES, topics=TOPICS, can_lead=st.booleans())
    def comes(self, instance: str | None, topics: tuple[str, ...], can_lead: bool) -> None:
        token = self.desk.join(instance_id=instance, can_lead=can_lead, protocols=protocols(*topics))
        self.joins[token] = instance

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS, topics=TOPICS, can_lead=st.booleans())
    def joins_again(self, number: int, topics: tuple[str, ...], can_lead: bool) -> None:
        joined, instance = self.one(number)
        token = self.desk.join(joined.member_id, instance_id=instance, can_lead=can_lead, protocols=protocols(*topics))
        self.joins[token] = instance

    @rule(topics=TOPICS, can_lead=st.booleans(), steps=st.integers(1, 5))
    def a_round(self, topics: tuple[str, ...], can_lead: bool, steps: int) -> None:
        """Run a correct round of all members, up to some step."""
        rounds = (
            lambda: self.all_join(topics, can_lead),
            self.desk.store,
            lambda: self.desk.after(1),
            self.desk.store,
            self.all_sync,
        )
        for step in rounds[:steps]:
            step()
            self.answers_are_of_stored_generations()

    def all_join(self, topics: tuple[str, ...], can_lead: bool) -> None:
        found = self.desk.machine.group(G)
        for each in list(found.members.values()) if found is not None else ():
            token = self.desk.join(
                each.member_id, instance_id=each.instance_id, can_lead=can_lead, protocols=protocols(*topics)
            )
            self.joins[token] = each.instance_id

    def all_sync(self) -> None:
        for joined, _ in self.joined:
            if joined.generation == self.generation:
                given = self.assignments(joined)
                self.syncs[self.desk.sync(joined.member_id, joined.generation, given)] = joined.member_id
        self.desk.store()

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS, lies=st.booleans())
    def syncs_it(self, number: int, lies: bool) -> None:
        joined, _ = self.one(number)
        given = self.assignments(joined) if joined.members or lies else {}
        self.syncs[self.desk.sync(joined.member_id, joined.generation, given)] = joined.member_id

    def assignments(self, joined: JoinedGeneration) -> dict[str, bytes]:
        told = {each.member_id: decode_subscription(each.metadata) for each in joined.members}
        return {
            member_id: encode_assignment(partitions)
            for member_id, partitions in ASSIGNORS["range"](told, self.desk.partitions).items()
        }

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS, wait_ms=st.sampled_from([0, 3000]))
    def beats(self, number: int, wait_ms: int) -> None:
        joined, instance = self.one(number)
        self.desk.heartbeat(joined.member_id, joined.generation, instance_id=instance, wait_ms=wait_ms)

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS)
    def commits(self, number: int) -> None:
        joined, instance = self.one(number)
        try:
            self.desk.commit(joined.member_id, joined.generation, instance)
        except RaftlogError:
            return
        found = self.desk.machine.group(G)
        assert found is not None
        assert joined.generation == found.generation
        assert joined.member_id in self.desk.members()
        assert self.desk.log[G].generation == joined.generation, "a member of a generation that was not stored"

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS)
    def leaves(self, number: int) -> None:
        joined, instance = self.one(number)
        self.desk.leave(MemberToLeave(joined.member_id, instance))

    @precondition(lambda self: len(self.desk.answers) < self.desk.tokens)
    @rule()
    def gives_up(self) -> None:
        for token in range(1, self.desk.tokens + 1):
            if token not in self.desk.answers and token not in self.desk.cancelled:
                self.desk.cancel(token)
                return

    # what happens to them

    @rule(seconds=st.sampled_from([0.1, 1.0, SESSION_S, REBALANCE_S + SESSION_S]))
    def time_passes(self, seconds: float) -> None:
        self.desk.after(seconds)

    @rule(count=st.integers(1, 3))
    def is_stored(self, count: int) -> None:
        self.desk.store(count=count)

    @rule(error=LOSSES)
    def is_lost(self, error: RaftlogError) -> None:
        self.desk.store(error, count=1)

    @rule(count=st.integers(0, 2))
    def fails_over(self, count: int) -> None:
        """Fail over with some unacknowledged records in the log."""
        for store in self.desk.unstored[:count]:
            if store.record is not None:
                self.desk.log[G] = store.record
        self.desk.fail_over()

    @rule(count=st.integers(1, 6))
    def topics_change(self, count: int) -> None:
        self.desk.partitions["u"] = count
        self.desk.machine.topics_changed(self.desk.now)
        self.desk.effects()

    # what holds

    @invariant()
    def answers_are_of_stored_generations(self) -> None:
        for token in self.desk.answers.keys() - self.seen:
            self.seen.add(token)
            outcome = self.desk.answers[token]
            if isinstance(outcome, JoinedGeneration):
                self.joined.append((outcome, self.joins[token]))
                assert outcome.generation == self.desk.log[G].generation
                assert outcome.generation >= self.generation, "a generation came back"
                self.generation = outcome.generation
            elif isinstance(outcome, SyncedGeneration):
                record = self.desk.log[G]
                assert record.is_assigned
                assert outcome.generation == record.generation
                self.own(outcome, self.syncs[token])

    def own(self, synced: SyncedGeneration, member_id: str) -> None:
        """Check that a partition has one owner per generation.

        A static member that returns owns the partitions of its older process, which is fenced."""
        instance = next(instance for joined, instance in self.joined if joined.member_id == member_id)
        for partition in decode_assignment(synced.assignment).partitions:
            owner = self.owners.setdefault((synced.generation, partition), instance or member_id)
            assert owner == (instance or member_id), f"{partition} has two owners in generation {synced.generation}"

    @invariant()
    def nobody_waits_without_end(self) -> None:
        """Check that waiting requests wait for a timer or for the log."""
        waiting = set(range(1, self.desk.tokens + 1)) - self.desk.answers.keys() - self.desk.cancelled
        assert not waiting or self.desk.unstored or self.desk.machine.next_timer() is not None

    def teardown(self) -> None:
        """Check that every request is answered once the log works again and members are quiet."""
        self.desk.stores_at_once = True
        self.desk.store()
        self.desk.after(4 * (REBALANCE_S + SESSION_S))
        waiting = set(range(1, self.desk.tokens + 1)) - self.desk.answers.keys() - self.desk.cancelled
        assert not waiting
        assert self.desk.state in ("", "Empty")
        assert self.desk.machine.next_timer() is None


Members.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMembers = Members.TestCase
