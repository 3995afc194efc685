"""Small files of brokers are cut, emptied and removed; brokers recover, and other runs stay unchanged."""

import pytest
from click.testing import CliRunner

from jepsen.simulation.__main__ import main
from jepsen.simulation.brokers.disk_faults import DISPOSABLE
from jepsen.simulation.brokers.options import draw
from jepsen.simulation.brokers.run import simulate_brokers
from jepsen.simulation.brokers.small_files import Loss, damage_small_file
from jepsen.simulation.options import Fault, generator
from jepsen.simulation.report import failure_text, repeat_command
from raftlog.runtime.log.replica_directory import group_of
from tests.simulation.brokers.at_work import World

SEEDS = (6076, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow))
"""In the first one a broker has no room for its cluster's id when it is given the bootstrap record."""


@pytest.mark.parametrize(
    "suffix", [pytest.param(each, marks=[pytest.mark.slow] if number else []) for number, each in enumerate(DISPOSABLE)]
)
def test_every_way_to_lose_a_small_file_is_survived(suffix: str) -> None:
    world, random, seen = World(lost_files=True), generator("small files", suffix), ""
    machine = world.machine(2)
    for _ in range(12):
        if all(loss.value in seen.replace("a bit flips", "is flipped") for loss in Loss):
            break
        before = world.timeline()
        machine.crash()
        files = [(path, content) for path, content in machine.disk.snapshot().items() if path.endswith(suffix)]
        damage_small_file(machine, *random.choice([each for each in files if each[1]]), random)
        for _ in range(8):
            world.cluster.loop.run_for(0.5)
            if machine.service is not None:
                break
        seen += world.timeline().removeprefix(before)
    assert machine.service is not None
    world.converge()
    assert machine.replica is not None
    world.cluster.close()


def test_a_replica_without_its_meta_file_is_identified_by_its_roll() -> None:
    world = World()
    machine = world.machine(2)
    assert machine.service is not None
    groups = {group.path: group.group_id for group in machine.service.node.driver.groups.values()}
    machine.crash()
    for path in groups:
        machine.disk.unlink(f"{path}/.raftlog/meta")
    machine.start()
    world.cluster.loop.run_for(2)
    assert {path: group_of(machine.disk, path, repairs_meta=False) for path in groups} == groups
    world.converge()
    world.cluster.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_seeds_with_lost_files_have_no_violation(seed: int) -> None:
    outcome = simulate_brokers(seed, lost_files=True)
    if outcome.failure is not None:
        pytest.fail(failure_text(outcome, "the one under test"), pytrace=False)
    assert repeat_command(outcome).endswith(f"--level broker --lost-files --seeds 1 --from {seed}")


def test_the_option_is_never_drawn_from_a_seed() -> None:
    assert not any(draw(seed).lost_files for seed in range(100))
    assert Fault.SMALL_FILE in draw(1).with_lost_files().faults


def test_lost_files_are_only_for_brokers() -> None:
    done = CliRunner().invoke(main, ["--level", "driver", "--lost-files"])
    assert (done.exit_code, "--level broker" in done.stderr) == (2, True)
