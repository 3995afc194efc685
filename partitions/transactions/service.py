"""Transactions of the cluster through any broker.

    the coordinator of a transactional id is the leader of partition murmur2(id) mod n of `__transaction_state`

Every broker accepts every call and forwards it there by one hop; `without_forwarding` is for clients that find the
coordinator. All calls have a deadline and raise from `raftlog.errors`; all of them can be repeated. A changing or
loading coordinator is waited for until the deadline. `broker.transactions` is the one object of a process. Called by
every API, and for partitions led here by `leader.appends`."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from typing import Final, NamedTuple, Self
from uuid import UUID

import msgspec

from raftlog.errors import (
    InvalidArgument,
    InvalidProducerMapping,
    InvalidTopic,
    NotLeader,
    OutcomeUnknown,
    RaftlogError,
    RequestError,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
    UnknownTransaction,
)
from raftlog.partitions.coordinator.coordinators import Coordinators
from raftlog.partitions.coordinator.operation import A, CoordinatorOperation, Q, operations_of
from raftlog.partitions.coordinator.router import ClusterParts, CoordinatorRouter, InternalTopic
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.names import check_group
from raftlog.partitions.groups.places import TopicPlaces
from raftlog.partitions.groups.results import GroupMarker, TransactionalProducer
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.produce import ProducerId, Producers
from raftlog.partitions.results import ConfirmedTransaction
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.reads import Reader
from raftlog.partitions.transactions import operations
from raftlog.partitions.transactions.coordinator import TransactionCoordinator
from raftlog.partitions.transactions.environment import TransactionCounters, TransactionEnvironment
from raftlog.partitions.transactions.names import check_transactional_id
from raftlog.partitions.transactions.records import TransactionPlace, TransactionState
from raftlog.partitions.transactions.results import (
    AddToTransaction,
    EndTransaction,
    InitializeProducer,
    TransactionDetails,
    TransactionListing,
    VerifyTransaction,
)
from raftlog.partitions.transactions.settings import TransactionSettings
from raftlog.records import TransactionMarker
from raftlog.types import FEATURE_LEVEL_TRANSACTIONS, NodeId, TopicPartition

TRANSACTIONS_TOPIC: Final = "__transaction_state"
TRANSACTIONS_CONFIG: Final[Mapping[str, str]] = {
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(1 << 20),
    "max.message.bytes": str(8 << 20),
}

_SLICE: Final = 500
"""Transactional ids examined in one turn of the loop."""


class DescribedTransaction(NamedTuple):
    """Transactional id with the partitions and groups of its transaction, without those of deleted topics."""

    details: TransactionDetails
    partitions: Sequence[TopicPartition]
    groups: Sequence[str]


class TransactionFigures(NamedTuple):
    """Values for the metrics of the transactions that are coordinated here."""

    by_state: Mapping[str, int]
    """Number of transactional ids in each state, by Kafka's names."""
    oldest_age_s: float
    """Age of the oldest transaction that has not ended; 0 without one."""


class Transactions:
    """Operations on the transactions of the cluster, sent to each transactional id's coordinator."""

    def __init__(
        self,
        parts: ClusterParts,
        reader: Reader,
        groups: Groups,
        producers: Producers,
        places: TopicPlaces,
        settings: TransactionSettings,
        wall_ms: Callable[[], int],
        partitions: int,
    ) -> None:
        """Create the transactions of this broker.

        `partitions` is the number of partitions of a new transactions topic."""
        self._metadata, self._topics, self._places, self._reader = parts.metadata, parts.topics, places, reader
        self._groups, self._producers, self._node_id = groups, producers, parts.node.identity.node_id
        self._check_ready, self._finder = parts.check_ready, parts.finder
        self.settings = settings
        self.counters = TransactionCounters()
        """Totals of the transactions that ended at coordinators of this process."""
        environment = TransactionEnvironment(
            settings,
            wall_ms,
            self.counters,
            feature_level=lambda: self._metadata.state.feature_level,
            new_producer_id=self._new_producer_id,
            end_partition=self._end_partition,
            end_group=lambda group, marker, deadline: groups.end_transaction(group, marker, deadline=deadline),
        )
        self.coordinators = Coordinators(
            parts.node, lambda replica, failed: TransactionCoordinator(replica, environment, failed)
        )
        topic = InternalTopic(
            TRANSACTIONS_TOPIC, partitions, TRANSACTIONS_CONFIG, check_transactional_id, _unknown_transaction
        )
        self._router = CoordinatorRouter(parts, topic, self.coordinators)
        self._router.register(operations_of(operations))

    def state_changed(self) -> None:
        """Update the coordinators after the controller's state and `topics` changed."""
        self.coordinators.watch(self._router.partitions())

    def without_forwarding(self) -> Self:
        """Return an instance for clients that find coordinators themselves: calls are never forwarded.

        Where another node coordinates, calls raise `NotLeader` at once."""
        transactions = copy(self)
        transactions._router = self._router.without_forwarding()
        return transactions

    def close(self) -> None:
        """Stop the coordinators because the broker stops; waiting clients retry at other brokers."""
        self.coordinators.close()

    # ---- producers

    async def initialize(
        self, transactional_id: str, timeout_ms: int, *, expected: ProducerId | None = None, deadline: Deadline
    ) -> ProducerId:
        """Return an identity for a producer, and fence all older ones; their open transaction is aborted first.

        `expected` is the producer's present identity, if it has one: only its owner gets the next one (KIP-360).
        Raises `ProducerFenced` for another identity, `InvalidArgument` for the timeout, and `ConcurrentTransactions`
        while the last transaction is ending."""
        check_transactional_id(transactional_id)
        self._check_level()
        if not self.allows_timeout(timeout_ms):
            raise InvalidArgument(
                f"a transaction timeout of {timeout_ms} ms is out of range: at least 1, and at most "
                f"{self.settings.max_timeout_ms} ms (transaction.max.timeout.ms)"
            )
        asked = InitializeProducer(transactional_id, timeout_ms, *(expected or ()))
        found = await self._router.call(operations.INITIALIZE, transactional_id, asked, deadline, creates=True)
        return ProducerId(found.producer_id, found.epoch)

    def allows_timeout(self, timeout_ms: int) -> bool:
        """Return whether a producer may have a transaction timeout."""
        return 1 <= timeout_ms <= self.settings.max_timeout_ms

    async def find_partitions(
        self, partitions: Sequence[TopicPartition], *, deadline: Deadline
    ) -> dict[TopicPartition, TransactionPlace | RequestError]:
        """Return topic uuid and number of each partition, or its error (`UnknownTopic`, `UnknownPartition`)."""
        self._check_ready()
        return await self._places.find_each(partitions, deadline)

    async def add_partitions(
        self, producer: TransactionalProducer, partitions: Sequence[TransactionPlace], *, deadline: Deadline
    ) -> None:
        """Add partitions to the producer's transaction, which begins with the first one.

        Raises `InvalidProducerMapping`, `ProducerFenced`, and `ConcurrentTransactions` while the last transaction is
        ending."""
        await self._add(producer, tuple(partitions), (), deadline)

    async def add_group(self, producer: TransactionalProducer, group: str, *, deadline: Deadline) -> None:
        """Add a consumer group to the producer's transaction. Raises as `add_partitions`."""
        check_group(group)
        await self._add(producer, (), (group,), deadline)

    async def _add(
        self,
        producer: TransactionalProducer,
        partitions: tuple[TransactionPlace, ...],
        groups: tuple[str, ...],
        deadline: Deadline,
    ) -> None:
        """Add partitions or groups to the producer's transaction at its coordinator."""
        asked = AddToTransaction(*producer, partitions, groups)
        await self._call(operations.ADD, producer, asked, deadline)

    async def commit(self, producer: TransactionalProducer, *, deadline: Deadline) -> None:
        """Commit the producer's transaction; on return nothing can abort it any more.

        Readers see its records once its markers are written, some milliseconds later. Raises `InvalidTransactionState`
        without an open transaction, and as `add_partitions`."""
        await self._call(operations.END, producer, EndTransaction(*producer, is_commit=True), deadline)

    async def abort(self, producer: TransactionalProducer, *, deadline: Deadline) -> None:
        """Abort the producer's transaction. Raises as `commit`."""
        await self._call(operations.END, producer, EndTransaction(*producer, is_commit=False), deadline)

    async def finish(self, producer: TransactionalProducer, *, is_commit: bool, deadline: Deadline) -> ProducerId:
        """Commit or abort the producer's transaction; return the producer's identity for the next one (KIP-890).

        Its epoch is raised, so that late requests of this transaction are fenced; a retry returns the same. Without an
        open transaction an abort raises the epoch too. Raises as `commit`. A producer with epoch 32767 has to be
        initialized again."""
        asked = EndTransaction(*producer, is_commit=is_commit)
        return ProducerId(*await self._call(operations.FINISH, producer, asked, deadline))

    async def _call(
        self, operation: CoordinatorOperation[Q, A], producer: TransactionalProducer, argument: Q, deadline: Deadline
    ) -> A:
        """Call an operation for an initialized producer."""
        self._check_level()
        try:
            return await self._router.call(operation, producer.transactional_id, argument, deadline)
        except UnknownTransaction as error:  # no transactional id was ever initialized
            raise InvalidProducerMapping(str(error)) from None

    # ---- checks by the owners of partitions and groups

    async def verify_partition(
        self, producer: TransactionalProducer, topic_id: UUID, number: int, *, deadline: Deadline
    ) -> ConfirmedTransaction:
        """Return the coordinator's term, without a number, if the partition is in the producer's open transaction.

        Raises `InvalidProducerMapping`, `ProducerFenced`, `InvalidTransactionState` and `ConcurrentTransactions`."""
        asked = VerifyTransaction(*producer, (topic_id, number), None, is_confirmed=False)
        return ConfirmedTransaction(await self._call(operations.VERIFY, producer, asked, deadline))

    async def join_partition(
        self, producer: TransactionalProducer, topic_id: UUID, number: int, *, deadline: Deadline
    ) -> ConfirmedTransaction:
        """Add a partition to the producer's transaction, for its leader, after the end of the last transaction.

        Raises as `add_partitions`."""
        asked = AddToTransaction(*producer, ((topic_id, number),), ())
        return await self._call(operations.JOIN, producer, asked, deadline)

    async def verify_group(self, producer: TransactionalProducer, group: str, deadline: Deadline) -> None:
        """Raise as `verify_partition` unless the group is in the producer's open transaction."""
        await self._call(
            operations.VERIFY, producer, VerifyTransaction(*producer, None, group, is_confirmed=True), deadline
        )

    async def join_group(self, producer: TransactionalProducer, group: str, deadline: Deadline) -> int:
        """Add a consumer group to the producer's transaction, for its coordinator; return the transaction's number.

        Raises as `add_group`."""
        asked = AddToTransaction(*producer, (), (group,))
        return (await self._call(operations.JOIN, producer, asked, deadline)).number

    # ---- operators

    async def fence(self, transactional_id: str, *, deadline: Deadline) -> None:
        """Abort the open transaction of a transactional id, if it has one, and fence its producer.

        Returns when the markers are written. Raises `UnknownTransaction`."""
        self._check_ready()
        await self._router.call(operations.FENCE, transactional_id, transactional_id, deadline)

    async def listings(self, *, deadline: Deadline) -> list[TransactionListing]:
        """Return all transactional ids with their states, sorted."""
        if not await self._router.has_topic(deadline):
            return []
        partitions = self._router.partitions()
        parts = await asyncio.gather(*(self._list_partition(partition, deadline) for partition in partitions))
        return sorted((row for part in parts for row in part), key=lambda row: row.transactional_id)

    async def local_listings(self, *, deadline: Deadline) -> list[TransactionListing]:
        """Return the transactional ids coordinated here, sorted."""
        if not await self._router.has_topic(deadline):
            return []
        rows: list[TransactionListing] = []
        for partition in self._router.partitions():
            if self._router.coordinator_id(partition) == self._node_id:
                with suppress(NotLeader):  # another node coordinates these now, and lists them
                    rows += await self._list_partition(partition, deadline)
        return sorted(rows, key=lambda row: row.transactional_id)

    async def _list_partition(self, partition: Partition, deadline: Deadline) -> list[TransactionListing]:
        """Return the transactional ids in one partition of the internal topic, with their coordinator."""
        rows = await self._router.call_at(operations.LIST, partition, "", None, deadline)
        coordinator = self._router.coordinator_id(partition)
        return [msgspec.structs.replace(row, coordinator=coordinator) for row in rows]

    async def describe(self, transactional_id: str, *, deadline: Deadline) -> DescribedTransaction:
        """Describe a transactional id. Raises `UnknownTransaction`."""
        self._check_ready()
        found: TransactionDetails | None = await self._router.call(
            operations.DESCRIBE, transactional_id, transactional_id, deadline
        )
        if found is None:
            raise _unknown_transaction(transactional_id)
        coordinator = self._router.coordinator_id(self._router.partition_of(transactional_id))
        named = map(self._places.name_partition, found.partitions)
        return DescribedTransaction(
            msgspec.structs.replace(found, coordinator=coordinator),
            sorted(name for name in named if name is not None),
            sorted(found.groups),
        )

    async def local_figures(self) -> TransactionFigures:
        """Return metric values of the transactions coordinated here; yield to the event loop between slices."""
        by_state = {state.kafka_name: 0 for state in TransactionState}
        oldest_ms = 0
        for coordinator in self.coordinators:
            now_ms = coordinator.wall_ms()
            for number, record in enumerate(list(coordinator.folded.records.values()), 1):
                by_state[record.state.kafka_name] += 1
                if record.started_ms:
                    oldest_ms = max(oldest_ms, now_ms - record.started_ms)
                if number % _SLICE == 0:
                    await asyncio.sleep(0)
        return TransactionFigures(by_state, oldest_ms / 1000)

    # ---- coordinators

    async def coordinator(self, transactional_id: str, *, deadline: Deadline) -> NodeId:
        """Return the node that coordinates a transactional id; create the internal topic if it is missing."""
        self._check_level()
        return await self._router.find_coordinator(transactional_id, deadline)

    def is_coordinator_of(self, transactional_id: str) -> bool:
        """Return whether this node coordinates a transactional id, as known here."""
        return self._router.leader_of(transactional_id) == self._node_id

    def leader_of(self, transactional_id: str) -> NodeId | None:
        """Return the node that coordinates a transactional id, as known here; None if it is unknown."""
        return self._router.leader_of(transactional_id)

    def taken_over_at(self, transactional_id: str) -> float:
        """Return the loop time at which this node took the ongoing transaction over from another coordinator.

        0 if it was begun here, and where another node coordinates. The time of the begin of a loading coordinator."""
        if self._router.partitions():
            with suppress(NotLeader):
                coordinator = self.coordinators.find(self._router.partition_of(transactional_id))
                return coordinator.taken_over_at(transactional_id)
        return 0.0

    async def write_marker(self, topic: str, number: int, marker: TransactionMarker, *, deadline: Deadline) -> None:
        """Write a marker to a partition that this node leads, for an operator.

        Raises `NotLeader`, `UnknownTopic`, `UnknownPartition`, `InvalidTopic` for an internal topic, and as
        `Participant.end_hanging_transaction`."""
        self._check_level()
        found = await self._finder.topic(topic, deadline)
        if found.is_internal:
            raise InvalidTopic(f"topic {topic} is internal: it has no transactions")
        partition = await self._finder.partition_of(found, number, deadline)
        if partition.replica is None or not partition.replica.is_leader:
            raise NotLeader(f"{partition.name}: this broker does not lead it")
        await partition.replica.transactions.end_hanging_transaction(marker, deadline)

    # ---- functions of coordinators here

    async def _new_producer_id(self, deadline: Deadline) -> int:
        """Return a new producer id. Raises `Unavailable`."""
        try:
            return (await self._producers.allocate(deadline)).producer_id
        except (NotLeader, OutcomeUnknown) as error:  # of the controller; at most a block of ids is lost
            raise Unavailable(f"the controller gives no producer ids now: {error}; retry") from None

    async def _end_partition(self, place: TransactionPlace, marker: GroupMarker, deadline: Deadline) -> None:
        """Write a marker to a partition. Raises `UnknownTopic` and `UnknownPartition` if it was deleted."""
        topic_id, number = place
        topic = self._topics.by_id(topic_id)
        if topic is None or number >= len(topic.partitions):  # perhaps unknown here yet: another broker added it
            await self._metadata.barrier(deadline)
            topic = self._topics.by_id(topic_id)
        if topic is None:
            raise UnknownTopic(f"the topic {topic_id} was deleted")
        if number >= len(topic.partitions):
            raise UnknownPartition(f"the topic {topic.name!r} has no partition {number}")
        await self._reader.end_transaction(topic.partitions[number], TransactionMarker(*marker), deadline)

    def _check_level(self) -> None:
        """Raise `InvalidArgument` while the feature level of the cluster has no transactions."""
        self._check_ready()
        level = self._metadata.state.feature_level
        if level < FEATURE_LEVEL_TRANSACTIONS:
            raise InvalidArgument(
                f"transactions need feature level {FEATURE_LEVEL_TRANSACTIONS}; the cluster runs at {level}: finish "
                "its upgrade"
            )


def _unknown_transaction(transactional_id: str) -> RaftlogError:
    """Return the error for an unknown transactional id."""
    return UnknownTransaction(f"the transactional id {transactional_id!r} does not exist, or has expired")
