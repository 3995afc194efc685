"""Operations on the balancer: its state, and a rebalance at once. Called by listeners, as `operations.balancing`."""

from typing import cast

from raftlog.partitions.deadline import Deadline
from raftlog.partitions.placement.balancing import Balancer
from raftlog.values.placement import BalancerMode, BalancerState, BalancerStatus, BalancerViolations


class BalancerOperations:
    """Operations on the balancer, from any broker; the controller's leader answers."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer = balancer

    async def balancer_status(self, *, deadline: Deadline) -> BalancerStatus:
        """Return the state of the balancer. Raises `NoLeader`."""
        report = await self._balancer.report(deadline)
        return BalancerStatus(
            cast(BalancerState, report.status),
            cast(BalancerMode, report.mode),
            BalancerViolations(report.unavailable_nodes, report.full_nodes),
            None if report.looked_s_ago is None else round(report.looked_s_ago, 3),
            report.moving,
            report.reasons,
        )

    async def rebalance(self, *, deadline: Deadline) -> int:
        """Plan at once, also in mode off; return a lower bound of the number of partitions that will move."""
        return await self._balancer.rebalance(deadline)
