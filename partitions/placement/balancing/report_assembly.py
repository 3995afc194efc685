"""Assembly of the balancer's report from its tenure, at the controller's leader."""

from raftlog.partitions.controller.machine import ControllerState
from raftlog.partitions.node import Node
from raftlog.partitions.placement.balancing.layout import BrokerMode
from raftlog.partitions.placement.balancing.plan import ChangeReason
from raftlog.partitions.placement.balancing.report import (
    BalancerReport,
    BalancerSettings,
    MisplacedReplica,
    grouped,
    nodes_in_words,
)
from raftlog.partitions.placement.balancing.tenure import Tenure, name_in


def report_on(
    node: Node, state: ControllerState, settings: BalancerSettings, tenure: Tenure, *, has_planned: bool
) -> BalancerReport:
    """Return the balancer's report for operators: status, failed moves, unavailable brokers."""
    brokers, fitness, now = state.all_brokers(), node.fitness_exchange.fitness, node.loop.time()
    misplaced = [
        MisplacedReplica(name_in(state, each.group).rpartition("/")[0], each.group.partition, each.node_id, each.reason)
        for each in tenure.failures
    ]
    return BalancerReport(
        _status(state, settings, tenure, now, has_planned=has_planned),
        settings.mode.value,
        [each.node_id for each in brokers if not tenure.availability.is_reachable(each.node_id)],
        [each.node_id for each in brokers if fitness.is_full(each.node_id, now)],
        None if tenure.looked_at is None else now - tenure.looked_at,
        len(tenure.running_moves),
        sum(change.why is not ChangeReason.LEADERS for change in tenure.queue),
        _reasons(state, tenure, misplaced, now),
        misplaced,
    )


def _status(
    state: ControllerState, settings: BalancerSettings, tenure: Tenure, now: float, *, has_planned: bool
) -> str:
    """Return the balancer's state: `starting`, `in_progress`, `stalled`, `off` or `ready`."""
    if not has_planned:
        return "starting"
    if tenure.under_way(now) or tenure.queue:
        return "in_progress"
    if tenure.failures or tenure.running_moves or tenure.problem or tenure.unanswered:
        return "stalled"
    return "off" if settings.mode is BrokerMode.OFF else "ready"


def _reasons(state: ControllerState, tenure: Tenure, misplaced: list[MisplacedReplica], now: float) -> list[str]:
    """Return the reasons why replicas are misplaced or moves wait."""
    by_reason: dict[str, list[str]] = {}
    for each in misplaced:
        why = f"node {each.node_id} cannot give up its replica: {each.reason}"
        by_reason.setdefault(why, []).append(f"{each.topic}/{each.partition}")
    reasons = grouped(by_reason) + grouped(tenure.waits(state, now))
    if tenure.unanswered:
        reasons.append(f"{nodes_in_words(tenure.unanswered)} did not report moving partitions")
    return reasons + ([] if tenure.problem is None else [tenure.problem])
