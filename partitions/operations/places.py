"""Partitions for whose replicas there are too few hosts while brokers are draining. Pure; for decommissions.

hosts of the replicas that stay + hosts of brokers that take new ones ≥ replicas
"""

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.partitions.controller.machine import ClusterState, GroupName


class Failures(NamedTuple):
    """Partitions for whose replicas there are not enough brokers.

    `names` are their names; `reasons` has one for each of the given groups, or None."""

    names: list[str]
    reasons: list[str | None]
    summary: str | None


def allocation_failures(cluster: ClusterState, groups: Sequence[GroupName]) -> Failures:
    """Return those of the groups that have too few hosts for their replicas without the draining brokers."""
    free = {candidate.host for candidate in cluster.candidates()}
    names, reasons = [], []
    for group in groups:
        reason = _no_place_reason(cluster, group, free)
        reasons.append(reason)
        if reason is not None:
            names.append(f"{cluster.topic_by_id(group.topic_id).name}/{group.partition}")
    summary = None
    if names:
        first = next(reason for reason in reasons if reason is not None)
        summary = (
            f"{len(names):,} partitions have no place for a replica ({names[0]} {first}): start brokers on other "
            "hosts, let brokers come back from maintenance, or recommission"
        )
    return Failures(names, reasons, summary)


def _no_place_reason(cluster: ClusterState, group: GroupName, free: set[str]) -> str | None:
    """Return why a partition has too few hosts without the draining brokers; None if it has enough."""
    replicas = cluster.assignment(group).replicas
    brokers = [cluster.broker_of(replica) for replica in replicas]
    staying = {broker.host for broker in brokers if broker is not None and not broker.is_draining}
    hosts = staying | free
    if len(hosts) >= len(replicas):
        return None
    return f"needs {len(replicas)} hosts, and {len(hosts)} {'is' if len(hosts) == 1 else 'are'} left"
