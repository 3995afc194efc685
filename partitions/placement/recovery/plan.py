"""Plan of a recovery: whether a partition needs it, from which replica, and with which loss. Pure.

    refused unless every replica that ever may have voted sets its copy aside, has none and will never create its
    first one, or is on a retired disk

Otherwise an absent replica could return with acknowledged records, or elect a leader of another history. The
replicas that may have voted are known from the creation as long as none was moved; afterwards, and when no
remaining replica can name members, every broker of the cluster has to answer. A group that can still elect a leader
is left alone."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from raftlog.partitions.placement.recovery.replica_status import AbsentReplica, ReplicaStatus
from raftlog.raft import ReplicaId
from raftlog.types import NodeId


class KnownPlaces(NamedTuple):
    """Placement of a partition in the controller's state: first and assigned replicas, brokers, and retired disks."""

    created: tuple[ReplicaId, ...]
    assigned: tuple[ReplicaId, ...]
    brokers: tuple[ReplicaId, ...]
    retired: Collection[UUID]

    @property
    def named(self) -> tuple[ReplicaId, ...]:
        """First and assigned replicas."""
        return (*self.created, *self.assigned)


class Plan(NamedTuple):
    """Plan of a recovery; a plan with a `refusal` cannot be executed.

    `survivor` continues alone, `giving_up` set their copies aside, `renouncing` never make a first replica."""

    survivor: ReplicaStatus | None
    giving_up: tuple[ReplicaStatus, ...]
    renouncing: tuple[ReplicaId, ...]
    gone: tuple[ReplicaId, ...]
    """Replicas on retired disks."""
    refusal: str | None
    loss: tuple[str, ...]
    """Possible losses, in words."""


def involved_replicas(statuses: Mapping[NodeId, ReplicaStatus | AbsentReplica], places: KnownPlaces) -> list[ReplicaId]:
    """Return the replicas that may have data of the partition, or may get some, by the answers so far."""
    non_empty = _non_empty(statuses)
    found = {*places.named, *(voter for each in non_empty for voter in (*each.voters, *each.outgoing))}
    if not non_empty or set(places.created) != set(places.assigned):
        found |= set(places.brokers)
    return sorted(found)


def make_plan(
    statuses: Mapping[NodeId, ReplicaStatus | AbsentReplica], places: KnownPlaces, survivor: NodeId | None = None
) -> Plan:
    """Return the plan of a recovery. `statuses` has the reports by node; `survivor` is an operator's choice."""
    held = sorted(
        (each for each in statuses.values() if isinstance(each, ReplicaStatus)), key=lambda each: each.replica
    )
    non_empty = _non_empty(statuses)
    involved = involved_replicas(statuses, places)
    gone = tuple(replica for replica in involved if replica.disk_uuid in places.retired)
    refusal = _obstacle(non_empty, involved, statuses, places)
    if refusal is not None:
        return Plan(None, (), (), gone, refusal, ())
    best = _choose_survivor(non_empty or held, survivor)
    if isinstance(best, str):
        return Plan(None, (), (), gone, best, ())
    others = tuple(each for each in held if each.replica != best.replica)
    absent = {each.replica for each in statuses.values() if isinstance(each, AbsentReplica) and not each.is_renounced}
    members = {*places.created, *(voter for each in non_empty for voter in (*each.voters, *each.outgoing))}
    renouncing = tuple(sorted(absent & members))
    return Plan(best, others, renouncing, gone, None, _describe_loss(best, non_empty, gone))


def _non_empty(statuses: Mapping[NodeId, ReplicaStatus | AbsentReplica]) -> list[ReplicaStatus]:
    """Return the replicas that are not empty, in order."""
    found = (each for each in statuses.values() if isinstance(each, ReplicaStatus) and not each.is_empty)
    return sorted(found, key=lambda each: each.replica)


def _obstacle(
    non_empty: Sequence[ReplicaStatus],
    involved: Sequence[ReplicaId],
    statuses: Mapping[NodeId, ReplicaStatus | AbsentReplica],
    places: KnownPlaces,
) -> str | None:
    """Return the reason not to recover the partition; None if it may be recovered."""
    leading = next((each for each in non_empty if each.leads), None)
    if leading is not None:
        return f"node {leading.replica.node_id} leads it: there is nothing to recover"
    candidate = next((each for each in non_empty if _can_win(each, non_empty)), None)
    if candidate is not None:
        return (
            f"node {candidate.replica.node_id} is sound and a majority would elect it: it will lead by itself, and "
            "there is nothing to recover"
        )
    away = [each for each in involved if each.disk_uuid not in places.retired and not _has_reported(each, statuses)]
    if not away:
        return None
    disks = ", ".join(f"disk {each.disk_uuid} of node {each.node_id}" for each in away)
    missing = sorted({each.node_id for each in away if each.node_id not in statuses})
    other = sorted({each.node_id for each in away} - set(missing))
    reasons = [f"node {node} does not answer" for node in missing]
    reasons += [f"node {node} answers with another disk that is not registered yet" for node in other]
    why = (
        "" if set(away) <= set(places.named) else "; the partition was moved, or is gone, so every broker has to answer"
    )
    return (
        f"{', '.join(reasons)}, and what others lack may be on {disks}{why}: start what is down; if such a disk is "
        "lost for good, start its node with an empty data directory"
    )


def _has_reported(replica: ReplicaId, statuses: Mapping[NodeId, ReplicaStatus | AbsentReplica]) -> bool:
    """Return whether the node has reported on exactly this disk."""
    answer = statuses.get(replica.node_id)
    return answer is not None and answer.replica == replica


def _can_win(candidate: ReplicaStatus, non_empty: Sequence[ReplicaStatus]) -> bool:
    """Return whether `candidate` may campaign, and a majority of its voters would vote for it.

    Only reported replicas that are not empty vote. In a joint configuration both majorities are needed."""
    if not candidate.may_lead:
        return False
    granting = {
        each.replica
        for each in non_empty
        if (each.vote_floor.term, each.vote_floor.index) <= (candidate.last.term, candidate.last.index)
    }
    halves = [half for half in (candidate.voters, candidate.outgoing) if half]
    return all(2 * len(granting & set(half)) > len(half) for half in halves)


def _choose_survivor(replicas: Sequence[ReplicaStatus], chosen: NodeId | None) -> ReplicaStatus | str:
    """Return the newest replica, of several the one with the least loss; or the reason why there is none.

    When no data is left on any disk, `replicas` are empty ones, and the partition begins again."""
    candidates = [each for each in replicas if chosen in (None, each.replica.node_id)]
    if not replicas:
        return "no node that can be reached has a replica of it, not even an empty one; try again in a moment"
    if not candidates:
        return f"node {chosen} has no replica of it; it could go on with " + ", ".join(
            f"node {each.replica.node_id}" for each in replicas
        )
    looking = next((each for each in candidates if each.lost is None), None)
    if looking is not None:
        return f"node {looking.replica.node_id} still looks for what is damaged; try again in a moment"
    return max(
        candidates,
        key=lambda each: (each.last.term, each.last.index, -len(each.lost or ()), -each.replica.node_id),
    )


def _describe_loss(
    best: ReplicaStatus, non_empty: Sequence[ReplicaStatus], gone: Sequence[ReplicaId]
) -> tuple[str, ...]:
    """Return the possible losses in words: of the survivor, and of records that only other replicas had."""
    if best.is_empty:
        return ("everything: all disks that held it are gone, and its offsets begin at 0 again",)
    loss = [f"offsets {each.offset} to {each.end - 1}" for each in best.lost or () if each.end > each.offset]
    lost_ids = [each for each in best.lost or () if each.end == each.offset]
    if lost_ids:
        loss.append(f"{len(lost_ids)} entries without records")
    highest = max(non_empty, key=lambda each: (each.vote_floor.term, each.vote_floor.index))
    if highest.vote_floor != best.last:
        loss.append(
            f"all records after offset {best.log_end - 1}: there was an entry {highest.vote_floor.index} of term "
            f"{highest.vote_floor.term}"
        )
    voters = {*best.voters, *best.outgoing}
    if 2 * sum(each.replica in voters for each in non_empty) <= len(voters) and gone:
        loss.append(
            f"records from offset {best.log_end} on that were acknowledged, if there were any: a majority of its "
            "disks is gone, and nobody who is left knows them"
        )
    return tuple(loss)
