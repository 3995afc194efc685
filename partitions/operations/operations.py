"""Operations of operators, from any node: maintenance, decommission, moves, cluster settings, feature level.

    broker.operations                     one for each broker, with a part for each kind
    every request is idempotent           a repeated request finds it done; nothing is counted twice
    done = committed by the controller    effects (replicas that move) continue by themselves, and have reports

Requests to any broker are decided by the controller's leader; reports come from the copy of its state here, brought up
to date first, and from the answers of the partitions' leaders that arrive in time.

Every call raises `Unavailable` (mostly `NoLeader`) when the controller cannot be reached until the deadline,
`DeadlineExceeded` when the outcome of a change is unknown, `UnknownBroker`, `UnknownTopic`, `UnknownPartition`,
`InvalidArgument` for impossible requests, `VersionConflict` when `expected_version` is not the current version, and
`ChangeRefused` for requests that are impossible now. Requests above the cluster's feature level are
`InvalidArgument`."""

from collections.abc import Callable

from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.node import Node
from raftlog.partitions.operations.applied_changes import AppliedChanges
from raftlog.partitions.operations.balancer_operations import BalancerOperations
from raftlog.partitions.operations.broker_reports import BrokerReporter
from raftlog.partitions.operations.brokers import BrokerOperations
from raftlog.partitions.operations.cluster import Brokers, ClusterOperations
from raftlog.partitions.operations.cluster_settings import current_settings
from raftlog.partitions.operations.leadership import LeadershipOperations
from raftlog.partitions.operations.local import LocalReplicas
from raftlog.partitions.operations.move_reports import MoveReporter
from raftlog.partitions.operations.partitions import PartitionOperations
from raftlog.partitions.operations.restoring import RestoringOperations
from raftlog.partitions.operations.topic_listing import LeaderReports, TopicListing
from raftlog.partitions.placement.balancing.balancer import Balancer
from raftlog.partitions.placement.moves import Moves
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topics


class Operations:
    """All operations for operators, grouped by their subject."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        topics: Topics,
        finder: Finder,
        router: PartitionRouter,
        moves: Moves,
        balancer: Balancer,
        brokers: Brokers,
        reports: LeaderReports,
        check_ready: Callable[[], None],
    ) -> None:
        """Create the operations for administrators from the broker's components."""
        move_reporter, broker_reporter = MoveReporter(node, metadata, moves), BrokerReporter(node, metadata)
        self.applied = AppliedChanges(node, metadata)
        self.brokers = BrokerOperations(metadata, broker_reporter, move_reporter, balancer)
        self.partitions = PartitionOperations(metadata, topics, reports, move_reporter)
        self.leadership = LeadershipOperations(node, metadata, topics, router)
        self.replicas = LocalReplicas(topics)
        self.restoring = RestoringOperations(node, finder, router)
        self.balancing = BalancerOperations(balancer)
        self.cluster = ClusterOperations(metadata, broker_reporter, brokers)
        self.topics = TopicListing(topics, finder, reports, check_ready)
        node.leaders.balances_leaders = lambda: current_settings(metadata.state).leaders_balance
