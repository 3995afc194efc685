"""What operators can order, on any node: maintenance, decommission, moves, settings of the cluster, its feature level.

    broker.operations                     one for each broker; each kind of order in a part of it
    every order is idempotent             the same one again finds it done; nothing is counted twice
    done = committed by the controller    what follows (replicas that move) goes on by itself, and can be watched

Orders are decided by the controller's leader, wherever they are given; what is watched comes from the copy of its state
here, brought up to date first, and from what the leaders of the partitions answer in time.

Every call raises `Unavailable` (mostly `NoLeader`) when the controller cannot be reached until the deadline,
`DeadlineExceeded` when it is not known whether an order was taken, `UnknownBroker`, `UnknownTopic`, `UnknownPartition`,
`InvalidArgument` for what cannot be, `VersionConflict` when `expected_version` is not the version any more, and
`ChangeRefused` for what cannot be now. Orders that the cluster's feature level does not know are `InvalidArgument`.
"""

from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.node import Node
from raftlog.partitions.operations.balancing import BalancingOrders
from raftlog.partitions.operations.broker_reports import Telling
from raftlog.partitions.operations.brokers import BrokerOrders
from raftlog.partitions.operations.cluster import Brokers, ClusterOrders
from raftlog.partitions.operations.cluster_settings import current
from raftlog.partitions.operations.leadership import LeadershipOrders
from raftlog.partitions.operations.local import LocalReplicas
from raftlog.partitions.operations.move_reports import Watching
from raftlog.partitions.operations.partitions import PartitionOrders
from raftlog.partitions.placement.balancing.balancer import Balancer
from raftlog.partitions.placement.moves import Moves
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topics


class Operations:
    """See the module."""

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
        watching, telling = Watching(node, metadata, moves), Telling(node, metadata)
        self.brokers = BrokerOrders(metadata, telling, watching, balancer)
        self.partitions = PartitionOrders(metadata, watching)
        self.leadership = LeadershipOrders(node, metadata, topics, router)
        self.replicas = LocalReplicas(topics)
        self.balancing = BalancingOrders(balancer)
        self.cluster = ClusterOrders(metadata, telling, brokers)
        node.leaders.gives_back = lambda: current(metadata.state).leaders_balance
