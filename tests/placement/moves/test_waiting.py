"""Reasons for which a move waits, in words."""

import uuid
from typing import Any

from raftlog.partitions.placement.moves.wait_reason import wait_reason
from raftlog.raft import Configuration, ReplicaId
from raftlog.types import Index, NodeId

A, B, C, D, E = (ReplicaId(NodeId(number), uuid.UUID(int=number)) for number in range(1, 6))


def why(configuration: Configuration, *wanted: ReplicaId, **changes: Any) -> str | None:
    everything = {
        "is_committed": True,
        "is_fresh": True,
        "may_begin": True,
        "reachable": (A, B, C, D, E),
        "refused": None,
        **changes,
    }
    return wait_reason(configuration, wanted, **everything)


def plain(*voters: ReplicaId, learners: tuple[ReplicaId, ...] = ()) -> Configuration:
    return Configuration(Index(9), voters, learners)


def test_nothing_while_it_goes_on() -> None:
    assert why(plain(A, B, C), A, B, D) is None
    assert why(plain(A, B, C, learners=(D,)), A, B, D) is None
    assert why(Configuration(Index(9), (A, B, D), (), (A, B, C)), A, B, D) is None
    assert why(plain(A, B, C), A, B, D, is_committed=False) is None


def test_a_stopped_broker_is_named() -> None:
    assert why(plain(A, B, C), A, B, D, reachable=(A, B, C)) == "node 4 is to get a replica and does not answer"
    filling = plain(A, B, C, learners=(D,))
    assert why(filling, A, B, D, reachable=(A, B)) == "node 4 is to get a replica and does not answer"
    assert why(filling, A, D, E, reachable=(A, B)) == "the nodes 4, 5 are to get a replica and do not answer"
    assert why(filling, A, D, E, reachable=(A, B, E)) is None, "the other one goes on"
    joint = Configuration(Index(9), (A, B, D), (), (A, B, C))
    assert (
        why(joint, A, B, D, reachable=(A, C)) == "a change of its voters is not committed yet: the nodes 2, 4 are away"
    )


def test_turns_and_refusals() -> None:
    assert "waits its turn" in (why(plain(A, B, C), A, B, D, may_begin=False) or "")
    assert why(plain(A, B, C, learners=(D,)), A, B, D, may_begin=False) is None
    assert "controller's leader" in (why(plain(A, B, C), A, B, D, is_fresh=False) or "")
    assert why(plain(A, B, C), A, B, D, refused="not now") == "not now"


def test_those_that_stay_are_too_few() -> None:
    assert why(plain(A, B, C), A, B) is None
    waits = "the others that vote stay until enough of its replicas are there: node 2 is away"
    assert why(plain(A, B, C), A, B, reachable=(A, C)) == waits
    assert why(plain(A, B, C, D), A, B, C, reachable=(A, C, D)) is None
