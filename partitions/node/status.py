"""Problems of the replicas of one process, as text for operators."""

from collections.abc import Iterable, Iterator
from typing import Final

from raftlog.runtime.replica.partition_replica import PartitionReplica

_SHOWN_MAX: Final = 3


def problems_of(groups: Iterable[PartitionReplica]) -> Iterator[str]:
    """Yield the problems of all groups: damaged, stopped, unreadable by this release, or without room."""
    groups = list(groups)
    damaged = [text for group in groups if (text := describe_damage(group)) is not None]
    if damaged:
        yield f"{len(damaged)} damaged replicas: {'; '.join(damaged[:_SHOWN_MAX])}"
    stopped = [f"{group.name}: {group.stopped}" for group in groups if group.stopped is not None]
    if stopped:
        shown = "; ".join(stopped[:_SHOWN_MAX])
        yield f"{len(stopped)} stopped replicas, until this broker is restarted: {shown}"
    unreadable = [f"{group.name}: {'; '.join(group.unreadable.values())}" for group in groups if group.unreadable]
    if unreadable:
        yield f"{len(unreadable)} replicas are not applied: {'; '.join(unreadable[:_SHOWN_MAX])}"
    full = sum(group.is_disk_full for group in groups)
    if full:
        yield f"{full} replicas wait for room on the disk"


def describe_damage(group: PartitionReplica) -> str | None:
    """Return the damage of a group and the progress of its repair; None if it is sound."""
    if group.damage is None:
        return None
    return f"{group.damage}; it is being repaired ({group.repair_note or 'just begun'})"
