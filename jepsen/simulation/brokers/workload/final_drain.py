"""Final drain: reads every partition from its log start to its end, and every group's committed offsets.

Each is read through a random broker. All faults have ended, so every read must succeed and return all acknowledged
records and offsets.
"""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from random import Random
from typing import Any, Final

from jepsen.checkers import Assign, GroupOffsets, ListOffsets, OffsetRange, Poll
from jepsen.checkers.history import ASSIGN, COMMITTED, LIST, POLL
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.workload.clients import KnownTopic
from jepsen.simulation.brokers.workload.committers import GROUPS, GROUPS_WITH_MEMBERS, Commits
from jepsen.simulation.brokers.workload.readers import decode
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.leader.fetch import NO_EPOCH, PartitionFetch
from raftlog.records import drop_hidden
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Isolation

DRAIN_BYTES: Final = 1 << 16
TIMEOUT_MS: Final = 5_000
WITHIN_S: Final = 60.0
TRANSACTIONS_TOPIC: Final = "kafka-topic"
"""Topic in which clients of Kafka's protocol write in transactions."""


class Drain:
    """Final read of all partitions and groups; `partitions` are named by topic and number."""

    def __init__(
        self, cluster: BrokerCluster, partitions: Mapping[GroupKey, tuple[str, int]], commits: Commits
    ) -> None:
        self.cluster, self.partitions, self.commits = cluster, partitions, commits
        self._left: dict[str, None] = {}
        """Partitions and groups still to be read."""

    def read_all(self) -> None:
        """Read all partitions and groups. Raises `PropertyBroken` when this takes too long."""
        random = self.cluster.random("drain")
        for key, (name, number) in self.partitions.items():
            if self.cluster.options.transactions and name == TRANSACTIONS_TOPIC:
                self._begin_at_leader(key, name, number)
            else:
                self._begin(random, f"{name}/{number}", partial(self._read_partition, name, number))
        for group in (*GROUPS, *GROUPS_WITH_MEMBERS):
            self._begin(random, group, partial(self._read_commits, group))
        if not self.cluster.loop.run_until(lambda: not self._left, within_s=WITHIN_S):
            raise PropertyBroken("unreadable", {"not_read": ", ".join(self._left), "within_s": WITHIN_S})

    def _begin(
        self, random: Random, description: str, operation: Callable[[Broker], Coroutine[Any, Any, None]]
    ) -> None:
        """Start a read at a random broker; `description` names the partition or group."""
        self._left[description] = None
        machine = random.choice(self.cluster.members())
        machine.spawn(partial(self._read, description, operation), "drain")

    def _begin_at_leader(self, key: GroupKey, name: str, number: int) -> None:
        """Read the committed records of a partition at its leader."""
        leading = self.cluster.leader(key)
        if leading is None:
            raise PropertyBroken("unreadable", {"partition": f"{name}/{number}", "why": "no leader"})
        description = f"{name}/{number}"
        self._left[description] = None
        operation = partial(self._read_committed, name, number)
        leading[0].spawn(partial(self._read, description, operation), "drain")

    async def _read_committed(self, name: str, number: int, broker: Broker) -> None:
        """Read up to the high watermark. No transaction is open any more, so all these records must be readable."""
        recorder, process = self.cluster.recorder, self.cluster.new_process()
        topic = broker.metadata.state.topic(name)
        partition = KnownTopic(name, topic.topic_id, topic.partition_count).partition(number)
        deadline = deadline_in(TIMEOUT_MS)
        offset = (await broker.leader.offsets.first_offset(name, number, NO_EPOCH, deadline)).offset
        end = (await broker.leader.offsets.end_offset(name, number, NO_EPOCH, deadline)).offset
        recorder.ok(recorder.invoke(process, ASSIGN, Assign(((partition, offset),))))
        while offset < end:
            op = recorder.invoke(process, POLL, Poll())
            [found] = await broker.leader.fetches.fetch(
                [PartitionFetch(name, number, NO_EPOCH, offset, DRAIN_BYTES)],
                max_bytes=DRAIN_BYTES,
                min_bytes=1,
                deadline=deadline_in(TIMEOUT_MS),
                isolation=Isolation.READ_COMMITTED,
            )
            if found.error is not None:
                raise found.error
            fetched, after = decode(partition, drop_hidden(list(found.batches), found.aborted), offset)
            recorder.ok(op, Poll((fetched,) if fetched.offsets else ()))
            if after <= offset:
                numbers = {"partition": f"{name}/{number}", "offset": offset, "end": end, "node": broker.node_id}
                raise PropertyBroken("stuck-transaction", numbers | {"stable": found.last_stable_offset})
            offset = after

    async def _read(
        self, description: str, operation: Callable[[Broker], Coroutine[Any, Any, None]], broker: Broker
    ) -> None:
        """Run the read in the broker's process, and remove its description from the open reads.

        Raises `PropertyBroken` if the read fails."""
        try:
            await operation(broker)
        except RaftlogError as error:
            numbers = {"what": description, "node": broker.node_id, "error": repr(error)}
            raise PropertyBroken("unreadable", numbers) from error
        del self._left[description]

    async def _read_commits(self, group: str, broker: Broker) -> None:
        """Read and record the committed offsets of a group."""
        recorder = self.cluster.recorder
        asked = recorder.invoke(self.cluster.new_process(), COMMITTED, GroupOffsets(group))
        found = await broker.groups.committed(group, deadline=deadline_in(TIMEOUT_MS))
        recorder.ok(asked, self.commits.record_read(group, broker, found))

    async def _read_partition(self, name: str, number: int, broker: Broker) -> None:
        """List the offsets of a partition, and read and record all records between them."""
        recorder, process = self.cluster.recorder, self.cluster.new_process()
        topic = broker.metadata.state.topic(name)
        partition = KnownTopic(name, topic.topic_id, topic.partition_count).partition(number)
        asked = recorder.invoke(process, LIST, ListOffsets(linearizable=True))
        beginning, end = await broker.offsets(name, number, linearizable=True, deadline=deadline_in(TIMEOUT_MS))
        recorder.ok(asked, ListOffsets((OffsetRange(partition, beginning, end),), linearizable=True))
        recorder.ok(recorder.invoke(process, ASSIGN, Assign(((partition, beginning),))))
        offset = beginning
        while offset < end:
            op = recorder.invoke(process, POLL, Poll())
            found = await broker.fetch(
                name, number, offset, max_bytes=DRAIN_BYTES, min_bytes=1, deadline=deadline_in(TIMEOUT_MS)
            )
            fetched, after = decode(partition, found.batches, offset)
            recorder.ok(op, Poll((fetched,) if fetched.offsets else ()))
            if after <= offset:
                numbers = {"partition": f"{name}/{number}", "offset": offset, "end": end, "node": broker.node_id}
                raise PropertyBroken("unreadable", numbers)
            offset = after
