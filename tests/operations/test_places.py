"""Whether replicas of draining brokers have a place on other brokers."""

import pytest

from raftlog.partitions.controller.machine import SetMaintenance, UpdateBroker
from raftlog.partitions.operations.places import allocation_failures
from raftlog.types import NodeId
from tests.controller.machine.fleet import CommandLog, create, disk_uuid, make_cluster, register, replica


def drain(scribe: CommandLog, *nodes: int) -> None:
    for node in nodes:
        scribe.apply(UpdateBroker(NodeId(node), disk_uuid(node), True))


def failures_of(scribe: CommandLog, node: int) -> list[str]:
    return allocation_failures(scribe.state, scribe.state.groups_of(replica(node))).names


@pytest.mark.parametrize(
    ("brokers", "draining", "failed"),
    [
        (4, (1,), []),
        (3, (1,), ["t/0", "t/1"]),
        (5, (1, 2), []),
        (5, (1, 2, 3), ["t/0", "t/1"]),
        (4, (1, 4), ["t/0", "t/1"]),
    ],
)
def test_as_many_hosts_as_replicas_must_remain(brokers: int, draining: tuple[int, ...], failed: list[str]) -> None:
    scribe = make_cluster(brokers)
    scribe.apply(create("t", 1, (1, 2, 3), (2, 3, 1)))
    drain(scribe, *draining)
    assert failures_of(scribe, 1) == failed


def test_a_broker_in_maintenance_keeps_its_replicas_and_gets_no_more() -> None:
    scribe = make_cluster(4)
    scribe.apply(create("t", 1, (1, 2, 3)))
    scribe.apply(create("u", 2, (1, 2, 4)))
    scribe.apply(SetMaintenance(NodeId(4), disk_uuid(4), True))
    drain(scribe, 1)
    assert failures_of(scribe, 1) == ["t/0"], "u stays on 4, and goes from 1 to 3"


def test_the_error_names_the_missing_part_and_the_next_step() -> None:
    scribe = make_cluster(3)
    scribe.apply(create("t", 1, (1, 2, 3)))
    drain(scribe, 1)
    found = allocation_failures(scribe.state, scribe.state.groups_of(replica(1)))
    assert found.reasons == ["needs 3 hosts, and 2 are left"]
    assert found.summary is not None
    assert found.summary.startswith(
        "1 partitions have no place for a replica (t/0 needs 3 hosts, and 2 are left): start"
    )
    scribe.apply(register(4, host="host-2"))
    assert failures_of(scribe, 1) == ["t/0"], "another broker on a host that has one already is no place"
    scribe.apply(register(5, host="elsewhere"))
    assert failures_of(scribe, 1) == []
