"""Members of consumer groups: join, get assignments, commit, stall past their session, leave, and rejoin.

After a stall a member still commits, although its session may have expired. Each sends the requests of a client of the
classic protocol, one at a time, through any broker. The history has the owners of every generation, and every commit
names its member and generation. In half of the groups the first member that may lead assigns the partitions, in the
others the coordinator.

    OUT --join--> JOINED --sync--> IN --heartbeat, commit--> IN         any --refused--> OUT, with or without its id

`stuck-group`: at the end, undisturbed members are all in one generation within a bound (`convergence`)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from random import Random
from typing import Final

from jepsen.checkers import GroupOffsets, Membership, Op
from jepsen.checkers.history import COMMIT, JOIN
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.workload.clients import RETRY_NS, TIMEOUTS_MS, Attempt, Client, known_topic
from jepsen.simulation.brokers.workload.committers import GROUPS_WITH_MEMBERS as GROUPS
from jepsen.simulation.brokers.workload.committers import Commits
from jepsen.simulation.network.links import MILLISECOND_NS
from raftlog.assignors import (
    ASSIGNORS,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from raftlog.errors import FencedInstance, RaftlogError, RebalanceInProgress, StaleGeneration, UnknownMember
from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.records import Protocol
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Join,
    JoinedGeneration,
    Leave,
    MemberIdentity,
    MemberToLeave,
    OffsetCommit,
    Sync,
    SyncedGeneration,
)
from raftlog.types import Offset, TopicPartition

REBALANCE_TIMEOUT_MS: Final = 3_000
PAUSE_NS: Final = 60 * MILLISECOND_NS
HEARTBEAT_MS: Final = 200


class JoinState(Enum):
    """State of a group member, as the member sees it."""

    OUT = "out"
    JOINED = "joined"
    IN = "in"


class Member(Client):
    """Simulated group member. `place` is its number among all members; an even one is in the first group."""

    def __init__(self, cluster: BrokerCluster, random: Random, place: int, commits: Commits) -> None:
        super().__init__(cluster, random)
        uses = cluster.options.uses
        self.group = GROUPS[place % len(GROUPS)]
        self.instance = f"static-{place}" if random.random() < uses.static_members else None
        self.join_state = JoinState.OUT
        self.member_id = ""
        self.generation = -1
        self.owned: tuple[TopicPartition, ...] = ()
        self.is_staying = False
        """Whether it no longer stalls or leaves; set by `stay_in_group`."""
        self._assignor = random.choice(sorted(ASSIGNORS))
        self._can_lead = self.group == GROUPS[0]
        self._commits = commits
        self._joined: JoinedGeneration | None = None
        self._join: Op | None = None

    def stay_in_group(self) -> None:
        """Stay in the group from now on."""
        self.is_staying, self.timeouts_ms = True, TIMEOUTS_MS[-1:]

    def is_answer_received(self, attempt: Attempt) -> bool:
        """Return whether the client receives the answer; none is lost once it stays in the group."""
        return not attempt.has_ended if self.is_staying else super().is_answer_received(attempt)

    def step(self) -> None:
        """Send the next request by the join state, or at random pause, leave, or crash."""
        uses = self.cluster.options.uses
        draw = self.random.random()
        if not self.is_staying and draw < uses.stalls:
            # What it knows may be old when it goes on.
            self.step_later(int(uses.session_timeout_ms * self.random.choice((0.6, 1.5, 1.5, 3)) * MILLISECOND_NS))
            return
        if self.join_state is JoinState.OUT:
            self.ask(self._ask_to_join)
        elif self.join_state is JoinState.JOINED:
            self.ask(self._sync)
        elif not self.is_staying and draw > 1 - 0.02 - uses.storms:
            self.ask(self._leave)
        elif not self.is_staying and draw > 1 - 0.04 - uses.storms:
            self._crash()
            self.step_later(RETRY_NS)
        else:
            self.ask(self.random.choice((self._heartbeat, self._commit)))

    # joining

    def _begin_join(self) -> Op:
        """Return the invocation of the present join; record it at the first of the join's requests."""
        if self._join is None:
            self._join = self.recorder.invoke(self.process, JOIN, Membership(self.group, self.member_id))
        return self._join

    async def _ask_to_join(self, attempt: Attempt, broker: Broker) -> None:
        """Request to join the group."""
        self._begin_join()
        uses = self.cluster.options.uses
        topics = tuple(name for name in self.cluster.names if known_topic(broker, name) is not None)
        metadata = encode_subscription(Subscription(topics, owned=self.owned, generation=self.generation))
        join = Join(
            self.group,
            self.member_id,
            (Protocol(self._assignor, metadata), Protocol("range", metadata))[: 1 + (self._assignor != "range")],
            instance_id=self.instance,
            session_timeout_ms=uses.session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            can_lead=self._can_lead,
        )
        try:
            joined = await broker.groups.join(join, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_refusal(error)
                self.finish(attempt, RETRY_NS)
            return
        if self.is_answer_received(attempt):
            assert isinstance(joined, JoinedGeneration), "no member asked for an id alone"
            self._joined, self.member_id, self.generation = joined, joined.member_id, joined.generation
            self.join_state = JoinState.JOINED
            self.finish(attempt, 0)

    async def _sync(self, attempt: Attempt, broker: Broker) -> None:
        """Send all members' assignments if this member is the group leader; receive its own."""
        joined = self._joined
        assert joined is not None, "it has joined"
        sync = Sync(
            self.group, self.member_id, self.generation, self.instance, assignments=_assignments(joined, broker)
        )
        try:
            synced = await broker.groups.sync(sync, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_refusal(error)
                self.finish(attempt, RETRY_NS)
            return
        if self.is_answer_received(attempt):
            self._complete_join(synced)
            self.finish(attempt, PAUSE_NS)

    def _complete_join(self, synced: SyncedGeneration) -> None:
        """Record the owned partitions of the new generation."""
        self.join_state = JoinState.IN
        self.owned = tuple(decode_assignment(synced.assignment).partitions)
        assert self._join is not None, "it has asked"
        member = Membership(self.group, self.member_id, synced.generation, self.owned, self.instance or "")
        self.recorder.ok(self._join, member)
        self._join = None

    def _on_refusal(self, error: RaftlogError) -> None:
        """Join again after a refusal; an unknown or fenced member as a new one."""
        if isinstance(error, RebalanceInProgress):
            self.join_state = JoinState.OUT
        elif isinstance(error, UnknownMember | FencedInstance):
            self.join_state, self.member_id, self.generation, self.owned = JoinState.OUT, "", -1, ()
        elif isinstance(error, StaleGeneration):
            self.join_state, self.generation, self.owned = JoinState.OUT, -1, ()

    def _crash(self) -> None:
        """Crash without leaving the group, and begin anew without any state."""
        self.recorder.crash(self.process)
        self._join = None
        self.join_state, self.member_id, self.generation, self.owned = JoinState.OUT, "", -1, ()

    # inside

    async def _heartbeat(self, attempt: Attempt, broker: Broker) -> None:
        """Send a heartbeat."""
        wait_ms = self.random.choice((0, min(HEARTBEAT_MS, attempt.deadline_ms)))
        heartbeat = GroupHeartbeat(self.group, self.member_id, self.generation, self.instance, wait_ms)
        try:
            await broker.groups.heartbeat(heartbeat, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_refusal(error)
                self.finish(attempt, RETRY_NS)
            return
        if self.is_answer_received(attempt):
            self.finish(attempt, PAUSE_NS)

    async def _commit(self, attempt: Attempt, broker: Broker) -> None:
        """Commit offsets of some owned partitions under the member's generation."""
        name, numbers = self._draw_owned()
        topic = known_topic(broker, name)
        numbers = [number for number in numbers if topic is not None and number < topic.partitions]
        if topic is None or not numbers:
            self.finish(attempt, PAUSE_NS)
            return
        offsets = {number: self._offset() for number in numbers}
        rows = tuple((topic.partition(number), offset) for number, offset in offsets.items())
        op = self.recorder.invoke(self.process, COMMIT, GroupOffsets(self.group, rows, self.member_id, self.generation))
        attempt.op = op
        self._commits.record_begin(self.group, topic, offsets)
        wanted = {TopicPartition(name, number): OffsetCommit(offset) for number, offset in offsets.items()}
        member = MemberIdentity(self.member_id, self.generation, self.instance)
        error: RaftlogError | None = None
        try:
            await broker.groups.commit(self.group, wanted, member=member, deadline=attempt.deadline())
        except RaftlogError as refused:
            error = refused
        if known_topic(broker, name) == topic:
            self._commits.record_certain(self.group, topic, offsets)
        if not self.is_answer_received(attempt):
            return
        if error is not None:
            self._on_refusal(error)
            self.record_failure(attempt, error)
            return
        self.recorder.ok(op)
        self._commits.acknowledged[self.group, topic.topic_id] = None
        self.finish(attempt, PAUSE_NS)

    def _draw_owned(self) -> tuple[str, list[int]]:
        """Draw some of the owned partitions of one topic."""
        if not self.owned:
            return "", []
        name = self.random.choice(self.owned).topic
        numbers = [partition.partition for partition in self.owned if partition.topic == name]
        return name, sorted(self.random.sample(numbers, self.random.randint(1, len(numbers))))

    def _offset(self) -> Offset:
        """Return a unique offset, mostly higher than the ones before."""
        number = self.loop.now_ns // MILLISECOND_NS - self.random.choice((0, 0, 0, 3_000))
        return Offset(max(0, number) * 64 + self.process % 64)

    async def _leave(self, attempt: Attempt, broker: Broker) -> None:
        """Leave the group, and forget the member's state whatever the answer is."""
        leave = Leave(self.group, (MemberToLeave(self.member_id, self.instance),))
        self.join_state, self.member_id, self.generation, self.owned = JoinState.OUT, "", -1, ()
        with suppress(RaftlogError):  # then its session ends without it
            await broker.groups.leave(leave, deadline=attempt.deadline())
        if self.is_answer_received(attempt):
            self.finish(attempt, RETRY_NS)


def _assignments(joined: JoinedGeneration, broker: Broker) -> tuple[tuple[str, bytes], ...]:
    """Return the assignments of all members if this one is the group leader; none otherwise."""
    if joined.leader != joined.member_id or joined.skip_assignment:
        return ()
    subscriptions = {member.member_id: decode_subscription(member.metadata) for member in joined.members}
    counts: dict[str, int] = {}
    for subscription in subscriptions.values():
        for name in subscription.topics:
            topic = known_topic(broker, name)
            if topic is not None:
                counts[name] = topic.partitions
    assigned: Mapping[str, list[TopicPartition]] = ASSIGNORS[joined.protocol](subscriptions, counts)
    return tuple((member, encode_assignment(partitions)) for member, partitions in assigned.items())


def describe_members_out_of_step(members: Sequence[Member]) -> list[str]:
    """Return a text for each member that is not a stable member of the newest generation of its group."""
    found = []
    for group in GROUPS:
        mine = [member for member in members if member.group == group]
        newest = max((member.generation for member in mine), default=-1)
        found += [
            f"{member.member_id or member.process} of {group} is {member.join_state.value} in generation"
            f" {member.generation} of {newest}"
            for member in mine
            if member.join_state is not JoinState.IN or member.generation != newest
        ]
    return found
