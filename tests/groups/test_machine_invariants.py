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
from tests.groups.group_harness import REBALANCE_S, SESSION_S, G, GroupHarness, make_protocols

INSTANCES = st.sampled_from([None, None, "s0", "s1"])
TOPICS = st.sampled_from([("t",), ("t", "u")])
MEMBERS = st.integers(0, 9)
LOSSES = st.sampled_from([Overloaded("full"), OutcomeUnknown("lost"), NotLeader("another leads")])


class MembersMachine(RuleBasedStateMachine):
    """Members with arbitrary behaviour; `joined` has the answers of all joins."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = GroupHarness(partitions={"t": 4, "u": 2})
        self.harness.stores_at_once = False
        self.joins: dict[Token, str | None] = {}
        self.joined: list[tuple[JoinedGeneration, str | None]] = []
        self.seen: set[Token] = set()
        self.generation = 0
        self.owners: dict[tuple[int, TopicPartition], str] = {}
        self.syncs: dict[Token, str] = {}

    def joined_member(self, number: int) -> tuple[JoinedGeneration, str | None]:
        return self.joined[-1 - number % len(self.joined)]

    # what members do

    @rule(instance=INSTANCES, topics=TOPICS, can_lead=st.booleans())
    def join_new_member(self, instance: str | None, topics: tuple[str, ...], can_lead: bool) -> None:
        token = self.harness.join(instance_id=instance, can_lead=can_lead, protocols=make_protocols(*topics))
        self.joins[token] = instance

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS, topics=TOPICS, can_lead=st.booleans())
    def join_again(self, number: int, topics: tuple[str, ...], can_lead: bool) -> None:
        joined, instance = self.joined_member(number)
        token = self.harness.join(
            joined.member_id, instance_id=instance, can_lead=can_lead, protocols=make_protocols(*topics)
        )
        self.joins[token] = instance

    @rule(topics=TOPICS, can_lead=st.booleans(), steps=st.integers(1, 5))
    def run_round(self, topics: tuple[str, ...], can_lead: bool, steps: int) -> None:
        """Run the first `steps` steps of a correct round of all members."""
        rounds = (
            lambda: self.join_all(topics, can_lead),
            self.harness.store,
            lambda: self.harness.advance(1),
            self.harness.store,
            self.all_sync,
        )
        for step in rounds[:steps]:
            step()
            self.check_answers_are_stored()

    def join_all(self, topics: tuple[str, ...], can_lead: bool) -> None:
        found = self.harness.machine.group(G)
        for each in list(found.members.values()) if found is not None else ():
            token = self.harness.join(
                each.member_id, instance_id=each.instance_id, can_lead=can_lead, protocols=make_protocols(*topics)
            )
            self.joins[token] = each.instance_id

    def all_sync(self) -> None:
        for joined, _ in self.joined:
            if joined.generation == self.generation:
                given = self.make_assignments(joined)
                self.syncs[self.harness.sync(joined.member_id, joined.generation, given)] = joined.member_id
        self.harness.store()

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS, lies=st.booleans())
    def sync_member(self, number: int, lies: bool) -> None:
        joined, _ = self.joined_member(number)
        given = self.make_assignments(joined) if joined.members or lies else {}
        self.syncs[self.harness.sync(joined.member_id, joined.generation, given)] = joined.member_id

    def make_assignments(self, joined: JoinedGeneration) -> dict[str, bytes]:
        told = {each.member_id: decode_subscription(each.metadata) for each in joined.members}
        return {
            member_id: encode_assignment(partitions)
            for member_id, partitions in ASSIGNORS["range"](told, self.harness.partitions).items()
        }

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS, wait_ms=st.sampled_from([0, 3000]))
    def send_heartbeat(self, number: int, wait_ms: int) -> None:
        joined, instance = self.joined_member(number)
        self.harness.heartbeat(joined.member_id, joined.generation, instance_id=instance, wait_ms=wait_ms)

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS)
    def commit_offset(self, number: int) -> None:
        joined, instance = self.joined_member(number)
        try:
            self.harness.commit(joined.member_id, joined.generation, instance)
        except RaftlogError:
            return
        found = self.harness.machine.group(G)
        assert found is not None
        assert joined.generation == found.generation
        assert joined.member_id in self.harness.members()
        assert self.harness.log[G].generation == joined.generation, "a member of a generation that was not stored"

    @precondition(lambda self: self.joined)
    @rule(number=MEMBERS)
    def leave_group(self, number: int) -> None:
        joined, instance = self.joined_member(number)
        self.harness.leave(MemberToLeave(joined.member_id, instance))

    @precondition(lambda self: len(self.harness.answers) < self.harness.tokens)
    @rule()
    def cancel_request(self) -> None:
        for token in range(1, self.harness.tokens + 1):
            if token not in self.harness.answers and token not in self.harness.cancelled:
                self.harness.cancel(token)
                return

    # what happens to them

    @rule(seconds=st.sampled_from([0.1, 1.0, SESSION_S, REBALANCE_S + SESSION_S]))
    def advance_time(self, seconds: float) -> None:
        self.harness.advance(seconds)

    @rule(count=st.integers(1, 3))
    def store_records(self, count: int) -> None:
        self.harness.store(count=count)

    @rule(error=LOSSES)
    def lose_records(self, error: RaftlogError) -> None:
        self.harness.store(error, count=1)

    @rule(count=st.integers(0, 2))
    def fail_over(self, count: int) -> None:
        """Fail over with some unacknowledged records in the log."""
        for store in self.harness.unstored[:count]:
            if store.record is not None:
                self.harness.log[G] = store.record
        self.harness.fail_over()

    @rule(count=st.integers(1, 6))
    def change_topics(self, count: int) -> None:
        self.harness.partitions["u"] = count
        self.harness.machine.topics_changed(self.harness.now)
        self.harness.take_effects()

    # what holds

    @invariant()
    def check_answers_are_stored(self) -> None:
        """Check that each answer to a member describes a generation that is in the log."""
        for token in self.harness.answers.keys() - self.seen:
            self.seen.add(token)
            outcome = self.harness.answers[token]
            if isinstance(outcome, JoinedGeneration):
                self.joined.append((outcome, self.joins[token]))
                assert outcome.generation == self.harness.log[G].generation
                assert outcome.generation >= self.generation, "a generation came back"
                self.generation = outcome.generation
            elif isinstance(outcome, SyncedGeneration):
                record = self.harness.log[G]
                assert record.is_assigned
                assert outcome.generation == record.generation
                self.check_owner(outcome, self.syncs[token])

    def check_owner(self, synced: SyncedGeneration, member_id: str) -> None:
        """Check that a partition has one owner per generation.

        A static member that returns owns the partitions of its older process, which is fenced."""
        instance = next(instance for joined, instance in self.joined if joined.member_id == member_id)
        for partition in decode_assignment(synced.assignment).partitions:
            owner = self.owners.setdefault((synced.generation, partition), instance or member_id)
            assert owner == (instance or member_id), f"{partition} has two owners in generation {synced.generation}"

    @invariant()
    def check_waits_are_bounded(self) -> None:
        """Check that each waiting request waits for a timer or for the log."""
        waiting = set(range(1, self.harness.tokens + 1)) - self.harness.answers.keys() - self.harness.cancelled
        assert not waiting or self.harness.unstored or self.harness.machine.next_timer() is not None

    def teardown(self) -> None:
        """Check that every request is answered once the log works again and members send nothing more."""
        self.harness.stores_at_once = True
        self.harness.store()
        self.harness.advance(4 * (REBALANCE_S + SESSION_S))
        waiting = set(range(1, self.harness.tokens + 1)) - self.harness.answers.keys() - self.harness.cancelled
        assert not waiting
        assert self.harness.state in ("", "Empty")
        assert self.harness.machine.next_timer() is None


MembersMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=40)
TestMembers = MembersMachine.TestCase
