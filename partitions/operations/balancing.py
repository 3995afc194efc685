"""What operators are told of the balancer, and what they can order it. Called by the operations."""

from typing import cast

from raftlog.partitions.deadline import Deadline
from raftlog.partitions.operations import results
from raftlog.partitions.placement.balancing import Balancer


class BalancingOrders:
    """On any broker; the controller's leader answers."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer = balancer

    async def status(self, deadline: Deadline) -> results.BalancerStatus:
        """Raises `NoLeader`."""
        report = await self._balancer.report(deadline)
        return results.BalancerStatus(
            cast(results.BalancerMode, report.mode),
            cast(results.BalancerState, report.status),
            report.unavailable_nodes,
            report.full_nodes,
            report.looked_s_ago,
            report.moving,
            report.reasons,
        )

    async def rebalance(self, deadline: Deadline) -> int:
        """How many partitions are to move."""
        return await self._balancer.rebalance(deadline)
