"""Reason, in words, why a reassignment waits. Pure; called by `Moves`."""

from collections.abc import Collection, Iterable, Sequence

from raftlog.partitions.placement.moves.plan import has_majority
from raftlog.raft import Configuration, ReplicaId


def wait_reason(
    configuration: Configuration,
    wanted: Sequence[ReplicaId],
    *,
    is_committed: bool,
    is_fresh: bool,
    may_begin: bool,
    reachable: Collection[ReplicaId],
    refused: str | None,
) -> str | None:
    """Return the reason why a reassignment waits; None while it proceeds.

    `is_committed`: whether the configuration is. `is_fresh`: whether the controller's leader was heard recently.
    `may_begin`: whether another learner can be added now. `refused`: error of the last failed change."""
    if not is_fresh:
        return "it waits for the controller's leader, which has not been heard here lately"
    if not is_committed or configuration.is_joint:
        away = [voter for voter in configuration.all_voters() if voter not in reachable]
        return f"a change of its voters is not committed yet: {_node_list(away)} away" if away else None
    filling = [learner for learner in configuration.learners if learner in wanted]
    missing = [replica for replica in wanted if not configuration.has_member(replica)]
    away = [replica for replica in (*filling, *missing) if replica not in reachable]
    if away and len(away) == len(filling) + len(missing):
        return f"{_node_list(away)} to get a replica and {'does' if len(away) == 1 else 'do'} not answer"
    if missing and not filling and not may_begin:
        return "it waits its turn: others that this broker leads are being filled"
    gone = [replica for replica in wanted if replica not in reachable]
    if not missing and not filling and len(configuration.voters) > len(wanted) and not has_majority(wanted, reachable):
        return f"the others that vote stay until enough of its replicas are there: {_node_list(gone)} away"
    return refused


def _node_list(replicas: Iterable[ReplicaId]) -> str:
    """Return the nodes of replicas with the verb for a sentence: `node 1 is`, or `the nodes 1, 2 are`."""
    nodes = sorted({replica.node_id for replica in replicas})
    return f"node {nodes[0]} is" if len(nodes) == 1 else f"the nodes {', '.join(map(str, nodes))} are"
