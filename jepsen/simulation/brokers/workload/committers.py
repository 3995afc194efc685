"""Committers: commit offsets of groups through any broker, read them, and list the groups.

Commits carry no generation, so a group's offset in a partition never goes back, and later reads return acknowledged
offsets. A topic that was created again under the same name begins without committed offsets.

A broker resolves a topic's name when it appends. If the topic may have been recreated during a commit, the commit
counts for the newer topic too (`_UncertainCommit`).
"""

from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from jepsen.checkers import GroupOffsets
from jepsen.checkers.history import COMMIT, COMMITTED
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.workload.clients import RETRY_NS, Attempt, Client, KnownTopic, known_topic
from jepsen.simulation.network.links import MILLISECOND_NS
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.groups.results import Committed, OffsetCommit
from raftlog.types import Offset, TopicPartition

GROUPS: Final = ("group-a", "group-b", "group-c")
GROUPS_WITH_MEMBERS: Final = ("members-a", "members-b")
"""Consumer groups with members; the coordinator computes the assignment of the second one."""
PAUSE_NS: Final = 400 * MILLISECOND_NS


class _UncertainCommit(NamedTuple):
    """Commit that may belong to any of several successive topics of this name."""

    group: str
    name: str
    number: int
    offset: Offset


class Commits:
    """Offsets that all committers of a run have committed, for checks of later reads."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster
        self.acknowledged: dict[tuple[str, UUID], None] = {}
        """Groups with an acknowledged commit in a topic."""
        self._doubts: dict[_UncertainCommit, UUID] = {}

    def record_begin(self, group: str, topic: KnownTopic, offsets: dict[int, Offset]) -> None:
        """Record a commit that has begun, whose topic is uncertain until `record_certain`."""
        for number, offset in offsets.items():
            self._doubts[_UncertainCommit(group, topic.name, number, offset)] = topic.topic_id

    def record_certain(self, group: str, topic: KnownTopic, offsets: dict[int, Offset]) -> None:
        """Record a commit that belongs to this topic: the called broker had no other topic of its name meanwhile."""
        for number, offset in offsets.items():
            self._doubts.pop(_UncertainCommit(group, topic.name, number, offset), None)

    def groups_to_list(self) -> list[tuple[str, UUID]]:
        """Return the groups with an acknowledged commit, each with the id of the commit's topic."""
        return list(self.acknowledged)

    def record_read(self, group: str, broker: Broker, found: Committed) -> GroupOffsets:
        """Return the read offsets of existing topics, in the form of the history."""
        offsets: list[tuple[TopicPartition, Offset | None]] = []
        for name in self._cluster.names:
            topic = known_topic(broker, name)
            if topic is None or self._cluster.watch.is_deleted(topic.topic_id):
                continue  # a restatement drops what was committed in a topic that is deleted
            for number in range(topic.partitions):
                committed = found.get(TopicPartition(name, number))
                offset = None if committed is None else committed.offset
                offsets.append((topic.partition(number), offset))
                if offset is not None:
                    self._resolve_uncertain(_UncertainCommit(group, name, number, offset), topic)
        return GroupOffsets(group, tuple(offsets))

    def _resolve_uncertain(self, commit: _UncertainCommit, topic: KnownTopic) -> None:
        """Record an uncertain commit as one of this topic if the topic of the name changed meanwhile."""
        if self._doubts.get(commit, topic.topic_id) != topic.topic_id:
            recorder = self._cluster.recorder
            payload = GroupOffsets(commit.group, ((topic.partition(commit.number), commit.offset),))
            recorder.info(recorder.invoke(self._cluster.new_process(), COMMIT, payload), "under another topic's name")


class Committer(Client):
    """Simulated client that commits offsets without being a member, one request at a time, for any group."""

    def __init__(self, cluster: BrokerCluster, random: Random, commits: Commits) -> None:
        super().__init__(cluster, random)
        self._commits = commits
        self._name = ""
        self._group = ""

    def step(self) -> None:
        """Commit offsets of a random group, read them, or list all groups."""
        self._name = self.random.choice(self.cluster.names)
        self._group = self.random.choice(GROUPS)
        if self.cluster.options.uses.members and self.random.random() < 0.3:
            self._group = self.random.choice(GROUPS_WITH_MEMBERS)
            self.ask(self._read)
            return
        self.ask(self.random.choices((self._commit, self._read, self._list), (5, 4, 1))[0])

    async def _commit(self, attempt: Attempt, broker: Broker) -> None:
        """Commit offsets in some partitions of the topic, as a client that is not a member."""
        topic, group = known_topic(broker, self._name), self._group
        if topic is None:
            self.finish(attempt, RETRY_NS)
            return
        numbers = sorted(self.random.sample(range(topic.partitions), self.random.randint(1, topic.partitions)))
        offsets = {number: self._offset() for number in numbers}
        payload = GroupOffsets(group, tuple((topic.partition(number), offset) for number, offset in offsets.items()))
        attempt.op = self.recorder.invoke(self.process, COMMIT, payload)
        self._commits.record_begin(group, topic, offsets)
        wanted = {TopicPartition(topic.name, number): OffsetCommit(offset) for number, offset in offsets.items()}
        error: RaftlogError | None = None
        try:
            await broker.groups.commit(group, wanted, deadline=attempt.deadline())
        except RaftlogError as refused:
            error = refused
        if known_topic(broker, topic.name) == topic:
            self._commits.record_certain(group, topic, offsets)
        if self.is_answer_received(attempt):
            self._on_commit_end(attempt, group, topic, error)

    def _on_commit_end(self, attempt: Attempt, group: str, topic: KnownTopic, error: RaftlogError | None) -> None:
        """Record the outcome of a commit, and end the request."""
        if error is not None:
            self.record_failure(attempt, error)
            return
        if attempt.op is not None:
            self.recorder.ok(attempt.op)
            self._commits.acknowledged[group, topic.topic_id] = None
        self.finish(attempt, PAUSE_NS)

    def _offset(self) -> Offset:
        """Draw an offset, mostly higher than the ones before."""
        return Offset(max(0, self.loop.now_ns // MILLISECOND_NS - self.random.choice((0, 0, 0, 3_000))))

    async def _read(self, attempt: Attempt, broker: Broker) -> None:
        """Read the committed offsets of the group, and record them."""
        group = self._group
        attempt.op = self.recorder.invoke(self.process, COMMITTED, GroupOffsets(group))
        try:
            found = await broker.groups.committed(group, deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self.record_failure(attempt, error)
            return
        read = self._commits.record_read(group, broker, found)
        if self.is_answer_received(attempt):
            self.recorder.ok(attempt.op, read)
            self.finish(attempt, PAUSE_NS)

    async def _list(self, attempt: Attempt, broker: Broker) -> None:
        """List the groups; check that all groups with an acknowledged commit are there."""
        expected = self._commits.groups_to_list()
        try:
            found = await broker.groups.names(deadline=attempt.deadline())
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self.record_failure(attempt, error)
            return
        for group, topic_id in expected:
            if group not in found and not self.watch.is_deleted(topic_id):
                raise PropertyBroken("group-gone", {"group": group, "found": found, "broker": attempt.machine.name})
        if self.is_answer_received(attempt):
            self.finish(attempt, PAUSE_NS)
