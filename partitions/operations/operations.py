"""What operators can order, on any node: maintenance, decommission, moves, settings of the cluster, its feature level.

    broker.operations                     one for each broker
    every order is idempotent             the same one again finds it done; nothing is counted twice
    done = committed by the controller    what follows (replicas that move) goes on by itself, and can be watched

Orders are decided by the controller's leader, wherever they are given; what is watched comes from the copy of its state
here, brought up to date first, and from what the leaders of the partitions answer in time.

Every call raises `Unavailable` (mostly `NoLeader`) when the controller cannot be reached until the deadline,
`DeadlineExceeded` when it is not known whether an order was taken, `UnknownBroker`, `UnknownTopic`, `UnknownPartition`,
`InvalidArgument` for what cannot be, `VersionConflict` when `expected_version` is not the version any more, and
`ChangeRefused` for what cannot be now. Orders that the cluster's feature level does not know are `InvalidArgument`.
"""

from collections.abc import Mapping, Sequence

from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.node import Node
from raftlog.partitions.operations.balancing import BalancingOrders
from raftlog.partitions.operations.broker_reports import Telling
from raftlog.partitions.operations.brokers import BrokerOrders
from raftlog.partitions.operations.cluster import Brokers, ClusterOrders
from raftlog.partitions.operations.cluster_settings import ClusterConfig, current
from raftlog.partitions.operations.leadership import LeadershipOrders
from raftlog.partitions.operations.local import local_replicas, local_summary
from raftlog.partitions.operations.move_reports import Watching, bounded
from raftlog.partitions.operations.partitions import PartitionOrders
from raftlog.partitions.placement.balancing.balancer import Balancer
from raftlog.partitions.placement.moves import Moves
from raftlog.partitions.routing.router import PartitionRouter
from raftlog.partitions.routing.topics import Topics
from raftlog.values.brokers import Decommission, Features, Maintenance
from raftlog.values.cluster import ClusterSettingsStatus
from raftlog.values.placement import BalancerStatus, Cancelled, LocalReplica, LocalSummary, Reconfiguration


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
        self._metadata, self._topics = metadata, topics
        self._balancing = BalancingOrders(balancer)
        self._watching = Watching(node, metadata, moves)
        telling = Telling(node, metadata)
        self._brokers = BrokerOrders(metadata, telling, self._watching, balancer)
        self._partitions = PartitionOrders(metadata, self._watching)
        self._leading = LeadershipOrders(node, metadata, router)
        self._cluster = ClusterOrders(metadata, telling, brokers)
        node.leaders.gives_back = lambda: current(metadata.state).leaders_balance

    # brokers

    async def set_maintenance(
        self, node_id: int, is_on: bool, *, expected_version: int | None = None, deadline: Deadline
    ) -> int:
        """A broker in maintenance leads nothing and gets nothing new. The version of its maintenance is the result.

        Refused in a cluster of one broker (`InvalidArgument`), and (`ChangeRefused`) for a second one at a time when
        some partition would not have a majority of its replicas outside.
        """
        return await self._brokers.set_maintenance(node_id, is_on, expected_version, deadline)

    async def maintenance(self, node_id: int, *, deadline: Deadline) -> Maintenance:
        """How far it is."""
        return await self._brokers.maintenance(node_id, deadline)

    async def decommission(self, node_id: int, *, deadline: Deadline) -> None:
        """The broker's replicas move to others, and once it holds nothing it is removed from the cluster for good.

        A broker that was removed by it already is done. `InvalidArgument` for the last broker that is not draining.
        """
        await self._brokers.decommission(node_id, deadline)

    async def recommission(self, node_id: int, *, deadline: Deadline) -> None:
        """The broker stays after all; what has moved away stays where it is. A broker that was removed is unknown."""
        await self._brokers.recommission(node_id, deadline)

    async def decommission_status(self, node_id: int, *, deadline: Deadline) -> Decommission:
        """How far it is. `InvalidArgument` for a broker that is not being decommissioned."""
        return await self._brokers.decommission_status(node_id, deadline)

    # partitions

    async def set_replicas(
        self,
        topic: str,
        partition: int,
        node_ids: Sequence[int],
        *,
        expected_version: int | None = None,
        deadline: Deadline,
    ) -> int:
        """Where the replicas of a partition shall be, the preferred leader first; the assignment's version.

        On 1 to 15 brokers on distinct hosts, none of them draining or in maintenance unless it has a replica already.
        Another order for the same partition replaces it.
        """
        return await self._partitions.set_replicas(topic, partition, node_ids, expected_version, deadline)

    async def cancel_reconfiguration(self, topic: str, partition: int, *, deadline: Deadline) -> int:
        """The partition shall be where its voters are now; the assignment's version. Nothing to do: its version."""
        return await self._partitions.cancel(topic, partition, deadline)

    async def cancel_moves(self, node_id: int | None = None, *, deadline: Deadline) -> list[Cancelled]:
        """The same for all that move, or that move from or to this broker; the partitions whose moves are cancelled."""
        return await self._partitions.cancel_all(node_id, deadline)

    async def transfer_leadership(
        self, topic: str, partition: int, target: int | None = None, *, deadline: Deadline
    ) -> int:
        """Let another voter lead, for good: it becomes the preferred one. The node id that leads now.

        None: any other one that is fit. `InvalidArgument` for who is no voter; `ChangeRefused` when the target did not
        take over in time: then the one that led goes on.
        """
        await self._metadata.barrier(deadline)
        found = self._topics.find(topic).partition(partition)
        return await self._leading.transfer(found, target, deadline)

    async def reconfigurations(self, *, deadline: Deadline) -> list[Reconfiguration]:
        """All partitions whose members are not what they shall be, by topic and number; at most `MOVES_MAX`."""
        await self._metadata.barrier(deadline)
        return bounded((await self._watching.settled(deadline)).moves)

    async def local_replicas(self, *, deadline: Deadline) -> list[LocalReplica]:
        """The replicas on this broker, by topic and number."""
        return await local_replicas(self._topics)

    async def local_summary(self, *, deadline: Deadline) -> LocalSummary:
        """The same in three numbers."""
        return await local_summary(self._topics)

    # the balancer

    async def balancer_status(self, *, deadline: Deadline) -> BalancerStatus:
        """What the balancer does, asked of the controller's leader."""
        return await self._balancing.status(deadline)

    async def rebalance(self, *, deadline: Deadline) -> int:
        """Look at once, also in mode off; how many partitions will move."""
        return await self._balancing.rebalance(deadline)

    # the cluster's settings

    async def cluster_config(self, *, deadline: Deadline) -> ClusterConfig:
        """All settings, those that were never set with their defaults."""
        return await self._cluster.config(deadline)

    async def alter_cluster_config(
        self,
        upsert: Mapping[str, object],
        remove: Sequence[str] = (),
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        deadline: Deadline,
    ) -> int:
        """Set some settings, and let others have their default again; all or nothing. The version afterwards.

        `dry_run`: only look whether it could be done. Brokers apply it as they hear of it, without a restart.
        """
        return await self._cluster.alter_config(upsert, remove, expected_version, deadline, dry_run=dry_run)

    async def cluster_config_status(self, *, deadline: Deadline) -> list[ClusterSettingsStatus]:
        """Which version each broker has applied."""
        return await self._cluster.config_status(deadline)

    # upgrades

    async def levels(self, *, deadline: Deadline) -> Features:
        """The cluster's feature level, and which levels the brokers know."""
        return await self._cluster.levels(deadline)

    async def finish_upgrade(self, *, deadline: Deadline) -> int:
        """Raise the feature level to the highest that all registered brokers know; the level afterwards.

        There is no way back to a release that does not know it.
        """
        return await self._cluster.finish_upgrade(deadline)
