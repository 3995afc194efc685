"""Damaged replicas of processes that stopped, were killed or lost their power.

The verdict is that of `raftlog log verify --compare`. Disks and network are simulated; drivers and journals are
the real ones."""

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.pipeline.verifying import SPLIT_BYTES, dump, flip, require_same_verdict, run_log_verify, run_verify
from tests.runtime.drivers import World


def run_load(world: World, random: Random) -> None:
    """Run appends, rolls, checkpoints, trims and elections; stop at any moment."""
    leader = world.leader()
    for _ in range(random.randrange(5, 60)):
        size = random.choice((10, 300, 300, 5000))
        world.propose(leader, *(bytes([random.randrange(256)]) * size for _ in range(random.randrange(1, 4))))
        if random.random() < 0.7:
            world.run(random.choice((0.0005, 0.01, 0.01, 2.5 if random.random() < 0.1 else 0.02)))
    group = world.group(leader)
    if random.random() < 0.4:
        offset = random.randrange(group.log_start_offset, group.high_watermark + 1)
        world.run_at(leader, lambda: group.propose_trim(offset))
        world.run(random.random())


def stop_all(world: World, random: Random, power: float = 0.4) -> None:
    for number in list(world.drivers):
        world.crash(number, power=random.random() < power)


def damage(directory: Path, random: Random) -> None:
    """Damage files at random."""
    files = sorted(file for file in directory.rglob("*") if file.suffix in (".log", ".index") and file.stat().st_size)
    file = random.choice(files)
    size = file.stat().st_size
    kind = random.choice(("flip", "flip", "cut", "remove", "zeros", "append"))
    if kind == "flip":
        flip(file, random.randrange(size), random.randrange(8))
    elif kind == "cut":
        with file.open("r+b") as opened:
            opened.truncate(random.randrange(size))
    elif kind == "remove":
        file.unlink()
    elif kind == "zeros":
        at = random.randrange(size)
        with file.open("r+b") as opened:
            opened.seek(at)
            opened.write(bytes(min(size - at, 100)))
    else:
        with file.open("ab") as opened:
            opened.write(random.randbytes(random.randrange(1, 200)))


@pytest.mark.parametrize("seed", range(3))
def test_directories_after_crashes_have_no_problem(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with World() as world:
        for _ in range(2):
            run_load(world, random)
            world.crash(world.leader(), power=random.random() < 0.3)
            for number in (1, 2, 3):
                if number not in world.drivers:
                    world.start(number)
        run_load(world, random)
        stop_all(world, random, power=0)
        directories = dump(world, tmp_path)
    told = run_verify(*directories)
    assert told.problems == ()
    assert run_log_verify(*directories).is_sound
    [partition] = told.partitions
    assert (partition.replicas, partition.is_compared) == (3, True)


@pytest.mark.parametrize("seed", range(100, 112))
def test_damage_is_reported_as_by_log_verify(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with World() as world:
        run_load(world, random)
        stop_all(world, random)
        dump(world, tmp_path)
    for _ in range(random.randrange(1, 3)):
        damage(tmp_path, random)
    told = run_verify(tmp_path, split_bytes=random.choice((SPLIT_BYTES, 1 << 20)))
    require_same_verdict(told, run_log_verify(tmp_path))


def test_files_missing_on_one_replica_are_reported(tmp_path: Path) -> None:
    """Data before the last checkpoint must be in the files; the journal has their start and end."""
    with World() as world:
        world.fill(world.leader(), 60)
        world.run(2.5)
        stop_all(world, Random(1), power=0)
        dump(world, tmp_path / "whole")
    for number, said in ((0, "offsets 0 to"), (2, "lacks it"), (-1, "was synced")):
        directory = tmp_path / f"without {number}"
        shutil.copytree(tmp_path / "whole", directory)
        [replica] = {file.parent for file in (directory / "2").rglob("*.log")}
        file = sorted(replica.glob("*.log"))[number]
        for each in (file, file.with_suffix(".index")):
            each.unlink()
        told, wanted = run_verify(directory), run_log_verify(directory)
        require_same_verdict(told, wanted)
        assert bool(wanted.differing) == (number != 0)
        assert any(said in problem and str(replica) in problem for problem in told.problems), told.problems
    for file in replica.glob("0*"):
        file.unlink()
    [problem] = run_verify(*(directory / each for each in "123")).problems
    assert problem.startswith(f"{replica}: its journal has")
