"""Faults of brokers only: each has its documented effect on a running cluster, which recovers.

All faults stay within the fault model."""

from collections.abc import Iterator

import pytest

from jepsen.simulation.brokers.workload.final_drain import Drain
from jepsen.simulation.options import Fault
from tests.simulation.brokers.at_work import World

FILES = {
    Fault.DAMAGE: ("a bit flips", "is zeroed"),
    Fault.READ_ERROR: ("cannot be read",),
    Fault.SMALL_FILE: ("a bit flips",),
    Fault.STALLED_DISK: ("its disk gets slow",),
}


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.cluster.close()


def test_damaged_or_unreadable_files_are_repaired(world: World) -> None:
    for fault, texts in FILES.items():
        seen = world.inject(fault, 2)
        assert any(text in seen for text in texts), fault
    world.converge()


@pytest.mark.slow
def test_a_damaged_journal_leads_to_a_new_disk_uuid(world: World) -> None:
    before = {machine.replica for machine in world.cluster.machines.values()}
    while {machine.replica for machine in world.cluster.machines.values()} == before:
        world.inject(Fault.JOURNAL, 1)  # a bit that does not matter is none
    world.converge()


def test_a_wiped_disk_returns_with_a_new_uuid(world: World) -> None:
    machine = world.machine(2)
    before = machine.replica
    assert world.nemesis.faults.fault_budget.may_lose(machine)
    machine.crash()
    machine.wipe()
    assert machine.replica is None
    assert not any(world.nemesis.faults.fault_budget.may_lose(world.machine(number)) for number in (1, 3))
    world.converge()
    assert machine.replica not in (None, before)
    assert world.nemesis.faults.fault_budget.may_lose(world.machine(1))


@pytest.mark.slow
def test_an_old_copy_of_a_disk_is_refused_and_gets_a_new_uuid(world: World) -> None:
    world.inject(Fault.STALE, 1)
    (number,) = world.nemesis.faults.copies
    machine = world.machine(number)
    before = machine.replica
    for _ in range(2):
        world.cluster.loop.run_for(2)
        machine.crash()
    world.cluster.loop.run_for(3)
    assert "its disk is put back" in world.inject(Fault.STALE, 1)
    world.converge()
    assert machine.replica not in (None, before)


def test_a_long_absent_replica_gets_the_log_although_its_leader_crashes(world: World) -> None:
    world.nemesis.faults.inject(Fault.AMBUSH)
    while "an ambush" not in world.timeline():
        assert "it is away for long" in world.inject(Fault.ABSENCE, 1)
        world.cluster.loop.run_for(16)
    world.converge()


@pytest.mark.slow
def test_replicas_move_during_faults(world: World) -> None:
    assert "shall have" in world.inject(Fault.MEMBERS, 4)
    world.converge()


def test_files_are_compared_after_a_new_leaders_first_entry_is_everywhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, drain_all = world.cluster, Drain.read_all

    def read_all(drain: Drain) -> None:
        """Drain, then elect another leader whose first entry has not reached all others."""
        drain_all(drain)
        (key,) = drain.partitions
        before = cluster.leader(key)
        assert before is not None
        machine, group = before
        target = next(each for each in group.core.configuration.voters if each != machine.replica)
        machine.call(lambda _: group.transfer_leadership(target))
        assert cluster.loop.run_until(lambda: cluster.leader(key) not in (None, before), within_s=5)
        assert len({each.core.last_id for _, each in cluster.replicas(key)}) > 1

    monkeypatch.setattr(Drain, "read_all", read_all)
    world.converge()


def test_one_replica_of_a_group_is_damaged_at_a_time(world: World) -> None:
    fault_budget = world.nemesis.faults.fault_budget
    while not fault_budget.damages:
        world.nemesis.faults.inject(Fault.DAMAGE)
    (damage,) = fault_budget.damages
    others = [machine for machine in world.cluster.machines.values() if machine is not damage.machine]
    assert not any(fault_budget.may_damage(machine, damage.key) for machine in others)
    assert not any(fault_budget.may_lose(machine) for machine in others)
    world.converge()
    assert not fault_budget.open_damages()
