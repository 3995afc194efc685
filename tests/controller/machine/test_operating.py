"""Orders of operators: maintenance, settings, and state that a replaced disk keeps."""

from raftlog.errors import ChangeRefused, InvalidArgument, UnknownBroker, VersionConflict
from raftlog.partitions.controller.machine import (
    AlterClusterConfig,
    RemoveBroker,
    SetMaintenance,
    UpdateBroker,
)
from raftlog.types import Index, NodeId
from tests.controller.machine.fleet import Scribe, cluster, create, disk, register


def maintain(node: int, is_on: bool = True, expected: int | None = None, number: int | None = None) -> SetMaintenance:
    version = None if expected is None else Index(expected)
    return SetMaintenance(NodeId(node), disk(node if number is None else number), is_on, version)


def drain(node: int) -> UpdateBroker:
    return UpdateBroker(NodeId(node), disk(node), True)


def test_the_version_of_a_maintenance() -> None:
    scribe = cluster()
    assert scribe.tell(maintain(1, is_on=False)) == 0, "it never was in maintenance"
    version = scribe.tell(maintain(1, expected=0))
    assert (version, scribe.tell(maintain(1)), scribe.state.in_maintenance()) == (scribe.last_index - 1, version, [1])
    assert isinstance(scribe.refused(maintain(1, is_on=False, expected=0)), VersionConflict)
    assert scribe.tell(maintain(1, is_on=False, expected=version)) > version
    assert isinstance(scribe.refused(maintain(9)), UnknownBroker)
    assert isinstance(scribe.refused(maintain(1, number=2)), UnknownBroker)


def test_of_two_in_maintenance_no_partition_has_too_many() -> None:
    scribe = cluster()
    scribe.tell(create("t", 1, (1, 2, 3)))
    scribe.tell(create("u", 2, (1, 2, 3, 4, 5)))
    scribe.tell(create("alone", 3, (4,)))
    scribe.tell(maintain(1))
    refused = scribe.refused(maintain(2))
    assert isinstance(refused, ChangeRefused)
    assert "t/0 has 2 of its 3 replicas" in str(refused)
    scribe.tell(maintain(4))
    assert "it would be 3 of 5 brokers" in str(scribe.refused(maintain(5)))
    scribe.tell(maintain(1, is_on=False))
    scribe.tell(maintain(5))


def test_half_of_the_brokers_are_too_many_and_one_may_always() -> None:
    scribe = cluster(brokers=4)
    scribe.tell(maintain(1))
    assert isinstance(scribe.refused(maintain(2)), ChangeRefused)
    two = cluster(brokers=2)
    two.tell(maintain(1))
    assert isinstance(two.refused(maintain(2)), ChangeRefused)
    assert isinstance(cluster(brokers=1).refused(maintain(1)), InvalidArgument)


def test_f8_a_replaced_disk_stays_draining() -> None:
    scribe = cluster()
    scribe.tell(drain(3))
    scribe.tell(register(3, 33, replaces=3))
    assert scribe.state.broker(NodeId(3)).is_draining
    scribe.tell(register(3, 33, epoch=2))
    assert scribe.state.broker(NodeId(3)).is_draining


def test_f8_a_replaced_disk_stays_in_maintenance_and_a_new_broker_does_not() -> None:
    scribe = cluster()
    scribe.tell(maintain(3))
    scribe.tell(register(3, 33, replaces=3))
    assert scribe.state.in_maintenance() == [3]
    scribe.tell(UpdateBroker(NodeId(3), disk(33), True))
    scribe.tell(RemoveBroker(NodeId(3), disk(33)))
    assert scribe.state.in_maintenance() == []
    scribe.tell(register(3, 34))
    assert not scribe.state.is_excluded(NodeId(3))


def test_only_a_draining_broker_is_removed() -> None:
    scribe = cluster()
    assert isinstance(scribe.refused(RemoveBroker(NodeId(5), disk(5))), ChangeRefused)
    scribe.tell(drain(5))
    scribe.tell(RemoveBroker(NodeId(5), disk(5)))


def test_a_seed_that_never_came_is_removed_as_it_is() -> None:
    scribe = cluster(brokers=2)
    scribe.tell(RemoveBroker(NodeId(3), disk(3)))
    assert disk(3) in scribe.state.retired
    assert list(scribe.state.absent_seeds()) == []


def alter(scribe: Scribe, *pairs: tuple[str, str], unset: tuple[str, ...] = (), expected: int | None = None) -> int:
    return scribe.tell(AlterClusterConfig(pairs, unset, None if expected is None else Index(expected)))


def test_settings_are_set_unset_and_compared() -> None:
    scribe = cluster()
    assert alter(scribe, unset=("a",), expected=0) == 0, "nothing was ever changed"
    version = alter(scribe, ("a", "1"), ("b", "2"), expected=0)
    assert alter(scribe, ("a", "1")) == version
    late = AlterClusterConfig((("a", "3"),), (), Index(0))
    assert isinstance(scribe.refused(late), VersionConflict)
    alter(scribe, ("a", "3"), unset=("b",), expected=version)
    assert scribe.state.settings.first().configs == (("a", "3"),)
    alter(scribe, unset=("a",))
    assert scribe.state.settings.first().configs == ()
