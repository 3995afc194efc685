"""Composition of a broker: makes all parts, and orders their start, their updates and their stop.

    start     network, then moves and balancing of replicas, then the controller, then maintenance
    observe   `observers`, in this order after each batch of applied controller commands; later ones use earlier ones
    stop      the reverse of the start

Called by the façade (`broker`)."""

from collections.abc import Callable, Mapping
from typing import Protocol

from raftlog.partitions.addresses import join_host_port
from raftlog.partitions.cluster_view import ClusterObserver
from raftlog.partitions.consumers.poll import RecordReader
from raftlog.partitions.consumers.service import Consumers
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import Addresses
from raftlog.partitions.coordinator.maintenance import CoordinatorMaintenance
from raftlog.partitions.coordinator.router import ClusterParts
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.gossip.cluster_map import ClusterMap
from raftlog.partitions.gossip.load import LoadMeter
from raftlog.partitions.gossip.service import Gossip
from raftlog.partitions.groups.environment import GroupEnvironment
from raftlog.partitions.groups.places import TopicPlaces
from raftlog.partitions.groups.results import TransactionalProducer
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.leader.appends import LeaderAppends
from raftlog.partitions.leader.offsets import LeaderOffsets
from raftlog.partitions.leader.parts import LeaderFetches, LeaderParts
from raftlog.partitions.leader.topic_leaders import TopicLeaders
from raftlog.partitions.leader.transaction_appends import TransactionAppends
from raftlog.partitions.maintenance_loop import MaintenanceLoop
from raftlog.partitions.metric_sources import MetricSources
from raftlog.partitions.node import Node
from raftlog.partitions.node.environment import NodeEnvironment
from raftlog.partitions.operations import Operations
from raftlog.partitions.operations.applied_settings import apply_throttle, balancer_settings
from raftlog.partitions.placement.assignments.assignments import LEADERS_MS, Assignments
from raftlog.partitions.placement.balancing import Balancer
from raftlog.partitions.placement.moves import Moves, ReplicaRemoval
from raftlog.partitions.placement.recovery import RecoveryExecution
from raftlog.partitions.produce import AllocatedIds, Producers
from raftlog.partitions.routing.data_requests import DataRequests
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.partition import Shared
from raftlog.partitions.routing.reads import Reader
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topics
from raftlog.partitions.security.audit import Denials
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.partitions.security.service import Security
from raftlog.partitions.settings import AUTHORIZATION_ACL, BrokerSettings
from raftlog.partitions.topic_changes import TopicChanges
from raftlog.partitions.transactions.service import Transactions
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.runtime.tracing.setup import make_tracer


class BrokerGate(RecordReader, Protocol):
    """Methods of the `Broker` that its components call."""

    def check_ready(self) -> None:
        """Raise `Unavailable` while the broker starts or stops."""


class BrokerParts:
    """Components of one broker; later ones are made from earlier ones."""

    transactions: Transactions
    """Transactions of producers; declared here, because callbacks of components that are made earlier use it."""

    def __init__(
        self,
        settings: BrokerSettings,
        node: Node,
        metadata: ControllerHost,
        environment: NodeEnvironment,
        gate: BrokerGate,
    ) -> None:
        """Create all components of a broker and connect them; `gate` refuses requests while the broker is not ready."""
        random, wall_ms = environment.random, environment.wall_ms
        lag_ticks_max = settings.replica_lag_time_max_ms // settings.driver.tick_ms
        self.settings, self.node, self.metadata = settings, node, metadata
        self.counters = Counters(tracer=make_tracer(settings.trace_ratio, settings.node_id, random))
        authorizer = Authorizer(
            is_on=settings.authorization == AUTHORIZATION_ACL,
            superusers=settings.superusers,
            on_denied=Denials().note,
            check_ready=gate.check_ready,
        )
        self.security = Security(metadata, wall_ms, gate.check_ready, authorizer)
        # topics and their leaders
        self.router = PartitionRouter(node)
        self.reader = Reader(node, self.router)
        allocated_ids = AllocatedIds(metadata)
        self.shared = Shared(settings, self.router, self.counters, wall_ms, allocated_ids.check)
        self.topics = Topics(self.shared)
        self.finder = Finder(self.topics, metadata, self.router)
        # replicas and their placement
        self.assignments = Assignments(
            node, metadata, self.topics, self.counters, settings.producers_max, lag_ticks_max
        )
        self.moves = Moves(node, metadata)
        self.leaving = ReplicaRemoval(node, metadata, self.assignments.remove)
        self.assignments.on_step = self.moves.on_step
        self.assignments.on_made = self.leaving.run_soon
        self.balancer = Balancer(
            node,
            metadata,
            self.moves,
            lambda: balancer_settings(metadata.state),
            random,
            lambda: self.assignments.is_settled,
        )
        self.recovering = RecoveryExecution(node, metadata, self.assignments)
        # the cluster
        load = LoadMeter(node, self.counters, lambda: self.assignments.replicas)
        self.gossip = Gossip(node, metadata, settings.gossip, settings.rack, load)
        self.changes = TopicChanges(settings, node, metadata, self.topics, random, wall_ms, self.gossip.free_bytes)
        self.measuring = MetricSources(
            node,
            self.router,
            self.moves,
            self.assignments.replicas,
            self.shared.budget,
            lag_ticks_max,
            metadata,
            self.gossip,
            self.counters,
        )
        self.map = ClusterMap(node, metadata, self.topics, self.router, self.gossip)
        self.view = ClusterObserver(
            node,
            metadata,
            self.topics,
            self.measuring.disk_space,
            self.moves,
            self.gossip,
            self.security.listeners,
        )
        appends = LeaderAppends(
            self.topics,
            self.shared,
            allocated_ids,
            lambda *asked, deadline: self.transactions.verify_partition(*asked, deadline=deadline),
            lambda *asked, deadline: self.transactions.join_partition(*asked, deadline=deadline),
        )
        self.leader = LeaderParts(
            appends,
            LeaderFetches(self.topics, self.counters, settings.fetch_bytes_max),
            LeaderOffsets(self.topics),
            TransactionAppends(node, self.topics, self.finder, self.router, appends, gate.check_ready),
            TopicLeaders(node, metadata, self.topics, self.router, self.view, lag_ticks_max),
        )
        self.operations = Operations(
            node,
            metadata,
            self.topics,
            self.finder,
            self.router,
            self.moves,
            self.balancer,
            self.view.brokers,
            self.view,
            gate.check_ready,
        )
        # consumer groups and instances, producers and their transactions
        topics, places = self.topics, TopicPlaces(self.finder, self.topics)
        around = GroupEnvironment(
            settings.group_settings(),
            random,
            wall_ms,
            self.counters,
            partitions_of=lambda name: len(topics.find(name).partitions) if name in topics else None,
            places=places,
            is_deleted=lambda topic_id: topic_id in metadata.state.deleted,
            offsets_retention_ms=settings.offsets_retention_ms,
            feature_level=lambda: metadata.state.feature_level,
            verify_transaction=self._verify_group,
            join_transaction=self._join_group,
        )
        cluster = ClusterParts(node, metadata, self.topics, self.finder, self.router, self.changes, gate.check_ready)
        self.groups = Groups(cluster, self.reader, around, settings.offsets_partitions)
        self.producers = Producers(node, metadata)
        self.transactions = Transactions(
            cluster,
            self.reader,
            self.groups,
            self.producers,
            places,
            settings.transaction_settings(),
            wall_ms,
            settings.transaction_partitions,
        )
        self.opener = BatchOpener(settings.opened_bytes_max)
        self.consumers = Consumers(settings, self.groups, gate, self.topics, self.finder, self.opener, authorizer)
        # maintenance and requests of other nodes
        coordinators = CoordinatorMaintenance(
            lambda: [*self.groups.coordinators, *self.transactions.coordinators], settings.metadata_growth_bytes_max
        )
        self.housekeeping = MaintenanceLoop(
            node, self.assignments, coordinators, settings.retention_interval_s, wall_ms
        )
        DataRequests(node, self.finder.replica, settings.fetch_bytes_max, self.counters.tracer)
        self.security.state_changed()  # clients log in by this copy before a further command is applied
        self.refresh_topics()
        metadata.observers += self.observers()

    async def _verify_group(self, producer: TransactionalProducer, group: str, deadline: Deadline) -> None:
        """Call `Transactions.verify_group`; for the group coordinators, which are made before the transactions."""
        await self.transactions.verify_group(producer, group, deadline)

    async def _join_group(self, producer: TransactionalProducer, group: str, deadline: Deadline) -> int:
        """Call `Transactions.join_group`; for the group coordinators, which are made before the transactions."""
        return await self.transactions.join_group(producer, group, deadline)

    def observers(self) -> list[Callable[[], None]]:
        """Return the observers of the controller's state, in the order of their calls."""
        return [
            self.security.state_changed,
            self.finder.state_changed,
            self.refresh_topics,
            self.assignments.state_changed,
            self.groups.state_changed,
            self.transactions.state_changed,
            self.consumers.state_changed,
            self.moves.state_changed,
            self.leaving.state_changed,
            self.balancer.state_changed,
            lambda: apply_throttle(self.node, self.metadata.state),
            self.gossip.state_changed,
        ]

    def refresh_topics(self) -> None:
        """Update the topics to the controller's state."""
        self.topics.refresh(self.metadata.state)

    async def start(self, http: str, kafka: Mapping[str, str], first_user: str | None) -> None:
        """Start all components in order, and create the first user if `first_user` is given; see `Broker.start`."""
        await self.node.start()
        addresses = self._addresses(http, await self.gossip.bind(), kafka)
        self.gossip.start(addresses)
        for part in (self.assignments, self.moves, self.leaving, self.balancer):
            part.start()
        await self.metadata.start(addresses)
        if first_user is not None:
            await self.security.create_first_user(first_user)
        self.gossip.start(addresses)
        if await self.assignments.wait_until_settled(deadline_in(LEADERS_MS)):
            self.assignments.set_aside_unknown()
        self.housekeeping.start()

    def _addresses(self, http: str, gossip: str, kafka: Mapping[str, str]) -> Addresses:
        """Return the addresses that this broker registers; `http` is the advertised one, with its scheme."""
        rpc = self.settings.advertise_rpc or (self.settings.rpc and self.node.transport.address)
        return Addresses(
            http or self.settings.advertise_http,
            "" if rpc is None else join_host_port(*rpc),
            gossip,
            tuple(sorted(kafka.items())),
        )

    async def stop(self) -> None:
        """Stop all components, in reverse order and in bounded time."""
        self.gossip.leave()
        self.security.close()
        for part in (self.housekeeping, self.balancer, self.leaving, self.moves, self.assignments):
            await part.stop()
        self.transactions.close()
        self.groups.close()
        self.consumers.close()
        self.leader.appends.close()
        self.topics.close()
        await self.metadata.stop()
        try:
            await self.node.stop()
        finally:
            await self.gossip.close()

    def wake_fetches(self) -> None:
        """Answer every waiting fetch with the available records; from now on, none waits. Called before a stop."""
        self.reader.allows_waits = False
        self.consumers.stop_waiting()
        for replica in self.assignments.replicas.values():
            replica.stop_waiting()
