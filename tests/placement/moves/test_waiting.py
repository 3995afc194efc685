"""Reported reasons for which a move waits."""

import uuid
from typing import Any

from raftlog.partitions.placement.moves.wait_reason import wait_reason
from raftlog.raft import Configuration, ReplicaId
from raftlog.types import Index, NodeId

A, B, C, D, E = (ReplicaId(NodeId(number), uuid.UUID(int=number)) for number in range(1, 6))


def reason_of(configuration: Configuration, *wanted: ReplicaId, **changes: Any) -> str | None:
    """Return why a reconfiguration to the wanted replicas waits; all its conditions hold except the given ones."""
    everything = {
        "is_committed": True,
        "is_fresh": True,
        "may_begin": True,
        "reachable": (A, B, C, D, E),
        "refused": None,
        **changes,
    }
    return wait_reason(configuration, wanted, **everything)


def make_configuration(*voters: ReplicaId, learners: tuple[ReplicaId, ...] = ()) -> Configuration:
    return Configuration(Index(9), voters, learners)


def test_a_move_with_a_next_step_has_no_reason() -> None:
    assert reason_of(make_configuration(A, B, C), A, B, D) is None
    assert reason_of(make_configuration(A, B, C, learners=(D,)), A, B, D) is None
    assert reason_of(Configuration(Index(9), (A, B, D), (), (A, B, C)), A, B, D) is None
    assert reason_of(make_configuration(A, B, C), A, B, D, is_committed=False) is None


def test_a_stopped_broker_is_reported() -> None:
    assert (
        reason_of(make_configuration(A, B, C), A, B, D, reachable=(A, B, C))
        == "node 4 is to get a replica and does not answer"
    )
    filling = make_configuration(A, B, C, learners=(D,))
    assert reason_of(filling, A, B, D, reachable=(A, B)) == "node 4 is to get a replica and does not answer"
    assert reason_of(filling, A, D, E, reachable=(A, B)) == "the nodes 4, 5 are to get a replica and do not answer"
    assert reason_of(filling, A, D, E, reachable=(A, B, E)) is None, "the other one goes on"
    joint = Configuration(Index(9), (A, B, D), (), (A, B, C))
    assert (
        reason_of(joint, A, B, D, reachable=(A, C))
        == "a change of its voters is not committed yet: the nodes 2, 4 are away"
    )


def test_a_move_waits_for_its_turn_or_reports_a_refusal() -> None:
    assert "waits its turn" in (reason_of(make_configuration(A, B, C), A, B, D, may_begin=False) or "")
    assert reason_of(make_configuration(A, B, C, learners=(D,)), A, B, D, may_begin=False) is None
    assert "controller's leader" in (reason_of(make_configuration(A, B, C), A, B, D, is_fresh=False) or "")
    assert reason_of(make_configuration(A, B, C), A, B, D, refused="not now") == "not now"


def test_a_quorum_of_the_remaining_replicas_is_awaited() -> None:
    assert reason_of(make_configuration(A, B, C), A, B) is None
    waits = "the others that vote stay until enough of its replicas are there: node 2 is away"
    assert reason_of(make_configuration(A, B, C), A, B, reachable=(A, C)) == waits
    assert reason_of(make_configuration(A, B, C, D), A, B, C, reachable=(A, C, D)) is None
