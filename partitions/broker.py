"""Broker: the façade that every API calls, on any node of a cluster, which may be a cluster of one.

    open      everything on this disk is recovered, nothing is sent
    start     listens and connects, founds or joins its cluster, registers; from then on `is_ready`
    close     leaderships are transferred, acknowledged records are durable, the directory is unlocked

Every broker accepts every request; it forwards a request for a partition to the node that leads it (`routing`). One
event loop owns the broker. Methods raise errors of `raftlog.errors`; the outcome of an error is `unknown` if the call
may have succeeded."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Self

from raftlog.errors import NotServing, RaftlogError, UnknownTopic
from raftlog.partitions.addresses import join_host_port
from raftlog.partitions.caller import Caller
from raftlog.partitions.composition import BrokerParts
from raftlog.partitions.consumers.service import Consumers
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import Addresses
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.gossip.cluster_map import RenderedMap
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.kafka_addresses import KafkaAddress, kafka_addresses
from raftlog.partitions.leader.parts import LeaderParts
from raftlog.partitions.metric_sources import MetricSources
from raftlog.partitions.node import Node
from raftlog.partitions.node.environment import NodeEnvironment, real_environment
from raftlog.partitions.operations import Operations
from raftlog.partitions.placement.recovery import RecoveryResult
from raftlog.partitions.produce import Producers
from raftlog.partitions.produce.large_calls import produce_large
from raftlog.partitions.produce.shares import PartitionChoice
from raftlog.partitions.produce.spreading import produce_records, produce_sequenced, try_queue_record
from raftlog.partitions.produce.streams import ProduceStream
from raftlog.partitions.results import (
    ALL,
    Acks,
    Fetched,
    Produced,
    ProducerSequence,
    RecordResult,
    TopicState,
)
from raftlog.partitions.routing.isolation import COMMITTED
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic
from raftlog.partitions.security.service import Security
from raftlog.partitions.settings import BrokerSettings
from raftlog.partitions.transactions.service import Transactions
from raftlog.records import NewRecord
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.types import Buffer, Isolation, NodeId, Offset, OffsetRange
from raftlog.values.brokers import BrokerDescription, ClusterHealth, ClusterMember


class Broker:
    """Broker of a cluster in this process: `open` recovers its data, `start` joins the cluster.

    API servers use its public names; the components for them are declared here."""

    groups: Groups
    """Consumer groups."""
    transactions: Transactions
    """Transactions of producers."""
    consumers: Consumers
    """Consumer instances of the HTTP API."""
    operations: Operations
    """Operations for administrators."""
    producers: Producers
    """Ids of idempotent producers."""
    measuring: MetricSources
    """Sources of metrics."""
    leader: LeaderParts
    """Requests that only a partition's leader serves, for Kafka's clients, which find the leader themselves."""
    security: Security
    """Users, permissions and quotas."""
    opener: BatchOpener
    """Decompressor of batches whose records are counted or become JSON."""

    def __init__(
        self, settings: BrokerSettings, node: Node, metadata: ControllerHost, environment: NodeEnvironment
    ) -> None:
        self.settings, self.node, self.metadata = settings, node, metadata
        self.is_ready = False
        parts = self.parts = BrokerParts(settings, node, metadata, environment, self)
        """All components; public, like `node` and `metadata`, for tests and the simulation."""
        self.groups, self.consumers, self.operations = parts.groups, parts.consumers, parts.operations
        self.producers, self.measuring, self.opener = parts.producers, parts.measuring, parts.opener
        self.transactions = parts.transactions
        self.leader, self.security = parts.leader, parts.security
        self._finder, self._reader, self._topics, self._view = parts.finder, parts.reader, parts.topics, parts.view
        self._wall_ms = environment.wall_ms

    @classmethod
    async def open(cls, settings: BrokerSettings, environment: NodeEnvironment | None = None) -> Self:
        """Open the data directory and recover everything in it; a damaged partition does not stop the broker.

        `environment` replaces the real clock, disk and network. Raises `DirectoryLocked`, `FormatError`,
        `InvalidArgument` and `StorageError`."""
        node_settings = settings.node_settings()
        environment = environment or real_environment(node_settings)
        node = await Node.open(node_settings, environment)
        try:
            metadata = ControllerHost.open(node, settings.metadata_settings())
            return cls(settings, node, metadata, environment)
        except BaseException:
            await node.stop()
            raise

    async def start(
        self, http: str = "", kafka: Mapping[str, str] | None = None, first_user: str | None = None
    ) -> None:
        """Found or join the cluster; return once this broker is registered.

        `http` is the address for clients, `kafka` has those for Kafka's clients by the name of the listener.
        `first_user` (`NAME:PASSWORD`) becomes the first user, a superuser, of a cluster that never had one. Raises
        `InvalidArgument` for invalid addresses and seeds, and the error with which the cluster refuses the broker."""
        await self.parts.start(http, kafka or {}, first_user)
        self.is_ready = True

    async def close(self) -> None:
        """Stop all components in reverse order of their start, in bounded time."""
        self.is_ready = False
        await self.parts.stop()

    def fail(self, error: RaftlogError) -> None:
        """Stop all work because of an error, which becomes the result of `ended`."""
        self.node.fail(error)

    @property
    def ended(self) -> "asyncio.Future[RaftlogError | None]":
        """Future that completes when the broker ends: with None after a stop, with the error after a failure."""
        return self.node.ended

    def wake_fetches(self) -> None:
        """Answer every waiting fetch with the available records; from now on, none waits. Called before a stop."""
        self.parts.wake_fetches()

    # ---- identity

    @property
    def node_id(self) -> NodeId:
        return self.node.identity.node_id

    @property
    def cluster_id(self) -> str:
        """Id of the cluster; empty until the cluster is founded or joined."""
        return self.metadata.cluster_id or ""

    @property
    def controller_id(self) -> NodeId | None:
        """Node id of the controller's leader, as known here; None if it is unknown."""
        return self.metadata.freshness().leader

    @property
    def rpc_address(self) -> str | None:
        """Address at which this process listens for other brokers; None if it does not listen."""
        address = self.node.transport.address
        return None if address is None else join_host_port(*address)

    @property
    def gossip_address(self) -> str | None:
        """Advertised address of gossip; None without gossip."""
        return self.parts.gossip.address or None

    @property
    def receive_budget(self) -> MemoryBudget:
        """Memory budget for frames that arrive from other brokers."""
        return self.node.transport.receive_budget

    @property
    def descriptor_shortage(self) -> str | None:
        """Reason why no more files can be opened; None if they can."""
        return self.node.driver.descriptors.shortage

    @property
    def sync_method(self) -> str:
        """Mechanism by which commits are synced to disk: `aio` or `threads`."""
        return self.node.driver.disk.sync_method

    def broker_ids(self) -> list[NodeId]:
        """Return the node ids of all brokers of the cluster, sorted."""
        self.check_ready()
        return [broker.node_id for broker in self.metadata.state.all_brokers()]

    def check_ready(self) -> None:
        """Raise `NotServing` while the broker starts or stops."""
        if not self.is_ready:
            raise NotServing(f"node {self.node_id} is starting or stopping; retry, or use another broker")

    async def _topic(self, name: str, deadline: Deadline) -> Topic:
        """Return the topic; ask the controller if it is unknown here. Raises `UnknownTopic`."""
        self.check_ready()
        return await self._finder.topic(name, deadline)

    async def _partition(self, topic: str, number: int, deadline: Deadline) -> Partition:
        self.check_ready()
        return await self._finder.partition(topic, number, deadline)

    def leader_of(self, topic: str, partition: int) -> NodeId | None:
        """Return the node id of a partition's leader as known here, or None; API servers look up its address."""
        return self._finder.leader_of(topic, partition)

    def addresses_of(self, node: NodeId) -> Addresses | None:
        """Return the addresses that a broker advertises; None if it is not registered."""
        row = self.metadata.state.brokers.get(node)
        return None if row is None else row.addresses

    def kafka_addresses(self, listener: str) -> list[KafkaAddress]:
        """Return the addresses of all registered brokers, running or not, for clients of a Kafka listener."""
        racks = self.parts.gossip.racks() | {self.node_id: self.settings.rack}
        return kafka_addresses(self.metadata.state.all_brokers(), listener, racks)

    # ---- records

    async def produce_records(
        self,
        topic: str,
        partition: PartitionChoice,
        records: Sequence[NewRecord],
        *,
        acks: Acks = ALL,
        deadline: Deadline,
        producer: ProducerSequence | None = None,
        is_large: bool = False,
    ) -> list[RecordResult]:
        """Append records and return one result each, in their order. A large call (`is_large`) is processed in slices.

        `partition` is a number for all records, or a list with one choice for each record. None chooses by the key, and
        in turn for records without a key. Records of an idempotent `producer` go to one named partition, as one batch.
        Errors of the whole call (`UnknownTopic`) are raised; errors of a record or a partition are in the results."""
        target = self._topics.get(topic)
        if target is None or target.is_internal or not self.is_ready:
            target = await self._writable_topic(topic, deadline)
        if partition is not None and (type(partition) is not int or partition >= len(target.partitions)):
            await self._finder.look_up(target, partition, deadline)  # a coroutine: not in the usual case
        if producer is not None:
            results = await produce_sequenced(target, partition, records, producer, acks, deadline)
        elif is_large:
            results = await produce_large(target, partition, records, acks, deadline, self._wall_ms())
        elif len(records) == 1 and (queued := try_queue_record(target, partition, records, acks, deadline)):
            number, future, error = queued
            base = None
            if future is not None:
                try:
                    base = await future
                except RaftlogError as failed:
                    error = failed
            results = [RecordResult(number, base, error)]
        else:
            results = await produce_records(target, partition, records, acks, deadline)
        if target.is_deleted:
            results = await self._finder.refresh_errors(results, target, deadline)
        return results

    async def produce_batches(
        self, topic: str, partition: int, body: Buffer, *, acks: Acks = ALL, deadline: Deadline
    ) -> Produced:
        """Append record batches of a client unchanged, all or nothing.

        Raises `InvalidBatch`, `RecordTooLarge`, and the errors that `produce_records` has in its results."""
        found = await self._writable_topic(topic, deadline)
        target = await self._finder.partition_of(found, partition, deadline)
        try:
            produced = await target.produce_batches(body, acks, deadline)
        except UnknownTopic as error:
            raise await self._finder.deletion_error(found, deadline) from error
        return produced._replace(topic_id=target.topic_id)

    async def open_stream(self, topic: str, partition: int | None, *, deadline: Deadline) -> ProduceStream:
        """Open a stream of records to append. Raises `UnknownTopic`, `UnknownPartition` and `InvalidArgument`."""
        found = await self._writable_topic(topic, deadline)
        await self._finder.look_up(found, partition, deadline)
        return ProduceStream(found, partition, self._wall_ms, self._finder.refresh_errors, self._finder.look_up)

    async def _writable_topic(self, name: str, deadline: Deadline) -> Topic:
        self.check_ready()
        return await self._finder.writable_topic(name, deadline)

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_bytes: int,
        min_bytes: int = 1,
        deadline: Deadline,
        isolation: Isolation = COMMITTED,
    ) -> Fetched:
        """Return stored batches from the one that contains `offset` on, once there are `min_bytes` or at the deadline.

        Batches without records replace those that `isolation` hides. Raises `OffsetOutOfRange`, `OffsetNotAvailable`,
        `NoLeader` and `CorruptBatch`."""
        target = await self._partition(topic, partition, deadline)
        max_bytes = max(1, min(max_bytes, self.settings.fetch_bytes_max))
        min_bytes = min(min_bytes, max_bytes)
        fetched = await self._reader.fetch(target, offset, max_bytes, min_bytes, deadline, isolation)
        return fetched._replace(topic_id=target.topic_id)

    async def offsets(
        self,
        topic: str,
        partition: int,
        *,
        linearizable: bool = False,
        deadline: Deadline,
        isolation: Isolation = COMMITTED,
    ) -> OffsetRange:
        """Return log start offset, and the end of the records that `isolation` shows; `linearizable`: by ReadIndex."""
        target = await self._partition(topic, partition, deadline)
        return await self._reader.offsets(target, linearizable, deadline, isolation)

    async def offset_for_timestamp(
        self, topic: str, partition: int, timestamp_ms: int, *, deadline: Deadline, isolation: Isolation = COMMITTED
    ) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first record at or after `timestamp_ms`; None without such a record."""
        target = await self._partition(topic, partition, deadline)
        return await self._reader.offset_for_timestamp(target, timestamp_ms, deadline, isolation)

    async def delete_records(self, topic: str, partition: int, before_offset: int, *, deadline: Deadline) -> Offset:
        """Delete the records below an offset, on every replica; return the new log start offset. Idempotent.

        Raises `OffsetOutOfRange` above the last stable offset, and `InvalidArgument` for an internal topic."""
        target = await self._finder.partition_of(await self._writable_topic(topic, deadline), partition, deadline)
        return await self._reader.delete_before(target, before_offset, deadline)

    # ---- topics

    async def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        deadline: Deadline,
        validate_only: bool = False,
    ) -> TopicState:
        """Create a topic; return it once a majority of the controller's voters has stored it.

        Normally its partitions have leaders by then. `None` means the default of this broker's settings. `assignments`
        has the node ids of each partition's replicas. With `validate_only` the topic is not created. Raises
        `TopicExists` and `InvalidArgument`."""
        self.check_ready()
        created = await self.parts.changes.create(
            name, partitions, replication_factor, config or {}, deadline, assignments, validate_only=validate_only
        )
        topic = None if validate_only else self._topics.by_id(created.topic_id)
        if topic is None:  # not created, or deleted already
            return self._view.describe_planned(created, self.settings.topic_config.override(config or {}))
        await self.parts.assignments.wait_for_leaders(topic.partitions, deadline)
        return self._view.outline(topic)

    async def create_partitions(
        self,
        topic: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        deadline: Deadline,
        validate_only: bool = False,
    ) -> TopicState:
        """Add partitions to a topic, so that it has `total`; return the topic, as `create_topic` does.

        Keys can belong to other partitions afterwards. `assignments` has the node ids of each new partition's replicas.
        Raises `UnknownTopic`, and `InvalidArgument` unless `total` is above the present number."""
        self.check_ready()
        new = await self.parts.changes.add_partitions(topic, total, assignments, deadline, validate_only=validate_only)
        found = self._topics.by_id(new.topic_id)
        if found is None:
            raise UnknownTopic(f"topic {topic!r} was deleted after its partitions were added")
        if len(found.partitions) == new.partition_count:  # not added, or not here: it may have no controller replica
            return self._view.describe_grown(found, new)
        await self.parts.assignments.wait_for_leaders(found.partitions[new.partition_count :], deadline)
        return self._view.outline(found)

    async def delete_topic(self, name: str, *, deadline: Deadline) -> None:
        """Delete a topic with its records and the offsets that consumer groups committed for it."""
        self.check_ready()
        await self.parts.changes.delete(name, deadline)

    async def alter_topic_config(
        self, name: str, changes: Mapping[str, str | None], *, deadline: Deadline, validate_only: bool = False
    ) -> None:
        """Change settings of a topic, all or nothing; `None` restores the broker's default."""
        self.check_ready()
        await self.parts.changes.alter(name, changes, deadline, validate_only=validate_only)

    def topics(self) -> list[str]:
        """Return the names of the topics that are not internal, sorted."""
        self.check_ready()
        return sorted(topic.name for topic in self._topics if not topic.row.creation.is_internal)

    def outline_topics(self) -> list[TopicState]:
        """Return all topics that are not internal, by name, with the state of their partitions as known here."""
        return [self._view.outline(self._topics.find(name)) for name in self.topics()]

    async def outline_topic(self, name: str, *, deadline: Deadline) -> TopicState:
        """Return the topic with the state of its partitions as known here. Raises `UnknownTopic`."""
        return self._view.outline(await self._topic(name, deadline))

    async def describe_topic(self, name: str, *, deadline: Deadline) -> TopicState:
        """Return the topic with the state that its partitions' leaders report. Raises `UnknownTopic`."""
        return (await self._view.describe([await self._topic(name, deadline)], deadline))[0]

    async def describe_topics(self, *, deadline: Deadline) -> list[TopicState]:
        """Describe all topics that are not internal, by name, as `describe_topic` does."""
        return await self._view.describe([self._topics.find(name) for name in self.topics()], deadline)

    # ---- state

    async def brokers(self, *, deadline: Deadline) -> list[BrokerDescription]:
        """Return all brokers of the cluster, with the status of those that answer."""
        self.check_ready()
        return await self._view.brokers(deadline)

    def members(self) -> list[ClusterMember]:
        """Return all brokers that are registered or known by gossip, with their gossip state as known here."""
        self.check_ready()
        return self.parts.gossip.members()

    async def cluster_view(self) -> RenderedMap:
        """Return the map of brokers and partitions as known here (`gossip.cluster_map`)."""
        self.check_ready()
        return await self.parts.map.render()

    async def health(self, *, deadline: Deadline) -> ClusterHealth:
        """Return the health of the whole cluster, with reasons."""
        return await self._view.health(deadline)

    async def recover_partition(
        self,
        topic: str,
        partition: int,
        caller: Caller,
        *,
        accept_loss: bool,
        survivor: int | None,
        deadline: Deadline,
    ) -> RecoveryResult:
        """Report the remaining replicas of a partition and the loss by a recovery; with `accept_loss`, recover it."""
        found = await self._partition(topic, partition, deadline)
        node = None if survivor is None else NodeId(survivor)
        recovering = self.parts.recovering
        return await recovering.recover(found, caller, accept_loss=accept_loss, survivor=node, deadline=deadline)
