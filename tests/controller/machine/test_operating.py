"""Operators' requests: maintenance, settings, and state that a replaced disk keeps."""

from raftlog.errors import ChangeRefused, InvalidArgument, UnknownBroker, VersionConflict
from raftlog.partitions.controller.machine import (
    AlterClusterConfig,
    RemoveBroker,
    SetMaintenance,
    UpdateBroker,
)
from raftlog.types import Index, NodeId
from tests.controller.machine.fleet import CommandLog, create, disk_uuid, make_cluster, register


def set_maintenance(
    node: int, is_on: bool = True, expected: int | None = None, number: int | None = None
) -> SetMaintenance:
    version = None if expected is None else Index(expected)
    return SetMaintenance(NodeId(node), disk_uuid(node if number is None else number), is_on, version)


def drain(node: int) -> UpdateBroker:
    return UpdateBroker(NodeId(node), disk_uuid(node), True)


def test_a_maintenance_has_a_version_for_compare_and_set() -> None:
    scribe = make_cluster()
    assert scribe.apply(set_maintenance(1, is_on=False)) == 0, "it never was in maintenance"
    version = scribe.apply(set_maintenance(1, expected=0))
    assert (version, scribe.apply(set_maintenance(1)), scribe.state.in_maintenance()) == (
        scribe.last_index - 1,
        version,
        [1],
    )
    assert isinstance(scribe.apply_refused(set_maintenance(1, is_on=False, expected=0)), VersionConflict)
    assert scribe.apply(set_maintenance(1, is_on=False, expected=version)) > version
    assert isinstance(scribe.apply_refused(set_maintenance(9)), UnknownBroker)
    assert isinstance(scribe.apply_refused(set_maintenance(1, number=2)), UnknownBroker)


def test_a_second_maintenance_may_not_take_the_majority_of_a_partition() -> None:
    scribe = make_cluster()
    scribe.apply(create("t", 1, (1, 2, 3)))
    scribe.apply(create("u", 2, (1, 2, 3, 4, 5)))
    scribe.apply(create("alone", 3, (4,)))
    scribe.apply(set_maintenance(1))
    refused = scribe.apply_refused(set_maintenance(2))
    assert isinstance(refused, ChangeRefused)
    assert "t/0 has 2 of its 3 replicas" in str(refused)
    scribe.apply(set_maintenance(4))
    assert "it would be 3 of 5 brokers" in str(scribe.apply_refused(set_maintenance(5)))
    scribe.apply(set_maintenance(1, is_on=False))
    scribe.apply(set_maintenance(5))


def test_half_of_the_brokers_may_not_be_in_maintenance() -> None:
    scribe = make_cluster(brokers=4)
    scribe.apply(set_maintenance(1))
    assert isinstance(scribe.apply_refused(set_maintenance(2)), ChangeRefused)
    two = make_cluster(brokers=2)
    two.apply(set_maintenance(1))
    assert isinstance(two.apply_refused(set_maintenance(2)), ChangeRefused)
    assert isinstance(make_cluster(brokers=1).apply_refused(set_maintenance(1)), InvalidArgument)


def test_f8_a_replaced_disk_stays_draining() -> None:
    scribe = make_cluster()
    scribe.apply(drain(3))
    scribe.apply(register(3, 33, replaces=3))
    assert scribe.state.broker(NodeId(3)).is_draining
    scribe.apply(register(3, 33, epoch=2))
    assert scribe.state.broker(NodeId(3)).is_draining


def test_f8_a_replaced_disk_stays_in_maintenance_and_a_new_broker_does_not() -> None:
    scribe = make_cluster()
    scribe.apply(set_maintenance(3))
    scribe.apply(register(3, 33, replaces=3))
    assert scribe.state.in_maintenance() == [3]
    scribe.apply(UpdateBroker(NodeId(3), disk_uuid(33), True))
    scribe.apply(RemoveBroker(NodeId(3), disk_uuid(33)))
    assert scribe.state.in_maintenance() == []
    scribe.apply(register(3, 34))
    assert not scribe.state.is_excluded(NodeId(3))


def test_only_a_draining_broker_is_removed() -> None:
    scribe = make_cluster()
    assert isinstance(scribe.apply_refused(RemoveBroker(NodeId(5), disk_uuid(5))), ChangeRefused)
    scribe.apply(drain(5))
    scribe.apply(RemoveBroker(NodeId(5), disk_uuid(5)))


def test_a_seed_that_never_registered_is_removed_without_draining() -> None:
    scribe = make_cluster(brokers=2)
    scribe.apply(RemoveBroker(NodeId(3), disk_uuid(3)))
    assert disk_uuid(3) in scribe.state.retired
    assert list(scribe.state.absent_seeds()) == []


def alter_config(
    scribe: CommandLog, *pairs: tuple[str, str], unset: tuple[str, ...] = (), expected: int | None = None
) -> int:
    return scribe.apply(AlterClusterConfig(pairs, unset, None if expected is None else Index(expected)))


def test_cluster_settings_are_set_removed_and_compared() -> None:
    scribe = make_cluster()
    assert alter_config(scribe, unset=("a",), expected=0) == 0, "nothing was ever changed"
    version = alter_config(scribe, ("a", "1"), ("b", "2"), expected=0)
    assert alter_config(scribe, ("a", "1")) == version
    late = AlterClusterConfig((("a", "3"),), (), Index(0))
    assert isinstance(scribe.apply_refused(late), VersionConflict)
    alter_config(scribe, ("a", "3"), unset=("b",), expected=version)
    assert scribe.state.settings.first().configs == (("a", "3"),)
    alter_config(scribe, unset=("a",))
    assert scribe.state.settings.first().configs == ()
