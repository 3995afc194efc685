"""Orders of operators, on any node: maintenance, decommission, moves, settings of the cluster, its feature level.

    broker.operations                     one for each broker; each kind of order in a part of it
    every order is idempotent             a repeated order finds it done; nothing is counted twice
    done = committed by the controller    effects (replicas that move) continue by themselves, and have reports

Orders are decided by the controller's leader, on whichever broker they are given; reports come from the copy of its
state here, brought up to date first, and from the answers of the partitions' leaders that arrive in time.

Every call raises `Unavailable` (mostly `NoLeader`) when the controller cannot be reached until the deadline,
`DeadlineExceeded` when the outcome of an order is unknown, `UnknownBroker`, `UnknownTopic`, `UnknownPartition`,
`InvalidArgument` for impossible orders, `VersionConflict` when `expected_version` is not the current version, and
`ChangeRefused` for orders that are impossible now. Orders above the cluster's feature level are `InvalidArgument`."""

from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.node import Node
from raftlog.partitions.operations.balancer_orders import BalancerOrders
from raftlog.partitions.operations.broker_reports import BrokerReporter
from raftlog.partitions.operations.brokers import BrokerOrders
from raftlog.partitions.operations.cluster import Brokers, ClusterOrders
from raftlog.partitions.operations.cluster_settings import current_settings
from raftlog.partitions.operations.leadership import LeadershipOrders
from raftlog.partitions.operations.local import LocalReplicas
from raftlog.partitions.operations.move_reports import MoveReporter
from raftlog.partitions.operations.partitions import PartitionOrders
from raftlog.partitions.placement.balancing.balancer import Balancer
from raftlog.partitions.placement.moves import Moves
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topics


class Operations:
    """Orders of operators by kind, given on this process."""

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        topics: Topics,
        router: PartitionRouter,
        moves: Moves,
        balancer: Balancer,
        brokers: Brokers,
    ) -> None:
        move_reporter, broker_reporter = MoveReporter(node, metadata, moves), BrokerReporter(node, metadata)
        self.brokers = BrokerOrders(metadata, broker_reporter, move_reporter, balancer)
        self.partitions = PartitionOrders(metadata, move_reporter)
        self.leadership = LeadershipOrders(node, metadata, topics, router)
        self.replicas = LocalReplicas(topics)
        self.balancing = BalancerOrders(balancer)
        self.cluster = ClusterOrders(metadata, broker_reporter, brokers)
        node.leaders.balances_leaders = lambda: current_settings(metadata.state).leaders_balance
