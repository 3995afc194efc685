"""Random programs on a real disk under the shim and on the simulated disk: both lose the same in a power loss.

Draws that are no chance take all that may go, or nothing; so what is left is to be the same, byte by byte.
"""

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from tests.jepsen.disk.programs import EverythingSurvives, NothingSurvives, node_disk, read_files, run_program

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

Program = list[list[Any]]

OPERATIONS = 60
NAMES = ("a", "b", "x/a", "x/b", "y/a", "y/b")
DIRECTORIES = ("", "x", "y")
PROGRAM = """
import json
from jepsen.disk.control import DiskControl
control = DiskControl(Path(os.environ["JEPSEN_DISK_STATE"]) / "control")
for what, *of in json.loads(sys.argv[1]):
    try:
        if what == "create":
            os.close(os.open(of[0], os.O_RDWR | os.O_CREAT | os.O_EXCL))
        elif what == "write":
            file = os.open(of[0], os.O_RDWR)
            os.pwrite(file, bytes([of[3]]) * of[2], of[1])
            os.close(file)
        elif what == "truncate":
            os.truncate(of[0], of[1])
        elif what in ("sync", "fail_sync", "sync_directory"):
            file = os.open(of[0] or ".", os.O_RDONLY)
            control.set("syncs_to_fail", int(what == "fail_sync"))
            try:
                os.fsync(file)
            finally:
                os.close(file)
                control.set("syncs_to_fail", 0)
        elif what == "rename":
            os.rename(*of)
        elif what == "unlink":
            os.unlink(of[0])
        elif what == "mkdir":
            os.makedirs(of[0], exist_ok=True)
        elif what == "rmdir":
            os.rmdir(of[0])
    except OSError:
        pass
"""


def draw_program(random: Random) -> Program:
    program: Program = [["mkdir", "x"], ["mkdir", "y"], *(["create", name] for name in NAMES[::2])]
    for _ in range(OPERATIONS):
        name, other = random.sample(NAMES, 2)
        directory = random.choice(DIRECTORIES)
        program.append(
            random.choice(
                [
                    *[["write", name, random.randint(0, 20_000), random.randint(1, 9_000), random.randint(1, 255)]] * 5,
                    *[["sync", name], ["sync_directory", directory], ["create", name]] * 2,
                    ["truncate", name, random.randint(0, 20_000)],
                    ["fail_sync", name],
                    ["rename", name, other],
                    ["unlink", name],
                    ["mkdir", directory or "x"],
                    ["rmdir", directory or "y"],
                ]
            )
        )
    return program


def run_simulated(disk: SimulatedDisk, program: Program) -> None:
    """Run the program on the simulated disk."""
    for what, *of in program:
        paths = [f"/{each}" for each in of if isinstance(each, str)]
        try:
            if what == "create":
                disk.open(paths[0], create=True)
            elif what == "write":
                disk.open(paths[0]).write(of[1], [bytes([of[3]]) * of[2]])
            elif what == "truncate":
                disk.open(paths[0]).truncate(of[1])
            elif what in ("sync", "fail_sync"):
                file = disk.open(paths[0])
                if what == "fail_sync":
                    disk.fail_sync()
                disk.sync([file])
            elif what == "sync_directory":
                disk.sync([], paths)
            elif what == "rename":
                disk.rename(*paths)
            elif what == "unlink":
                disk.unlink(paths[0])
            elif what == "mkdir":
                disk.make_directory(paths[0])
            elif what == "rmdir":
                disk.remove_directory(paths[0])
        except OSError:
            pass


KEPT: list[list[Program]] = [
    [[["mkdir", "y"], ["create", "y/a"], ["rename", "y/a", "b"], ["rmdir", "y"], ["sync_directory", ""]]],
    [
        [["mkdir", "y"], ["sync_directory", ""], ["create", "y/b"]],
        [["sync_directory", "y"]],
    ],
    [
        [["create", "b"], ["sync_directory", ""]],
        [["mkdir", "x"], ["mkdir", "y"], ["rename", "b", "y/b"], ["rename", "y/b", "x/a"], ["rmdir", "y"]],
        [["sync_directory", ""]],
    ],
    [
        [["create", "b"], ["write", "b", 5101, 4827, 109], ["sync", "b"], ["truncate", "b", 279], ["fail_sync", "b"]],
        [["sync", "b"], ["write", "b", 18702, 6227, 141], ["sync_directory", ""], ["sync", "b"]],
    ],
]
"""Programs whose results once differed between the two."""


@pytest.mark.parametrize("lives", KEPT)
def test_the_disks_agree_on_programs_that_once_distinguished_them(lives: list[Program], tmp_path: Path) -> None:
    compare(lives, NothingSurvives(), tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_a_power_loss_has_the_same_effect_on_both_disks(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    draws = random.choice([NothingSurvives(), EverythingSurvives()])
    compare([draw_program(random) for _ in range(3)], draws, tmp_path)


def compare(lives: list[Program], draws: Random, tmp_path: Path) -> None:
    """Compare the two disks over several runs of a program.

    The last life ends with a loss of power, and so does the first of three; others are only killed."""
    simulated, disk = SimulatedDisk(draws), node_disk(tmp_path)
    for life, program in enumerate(lives):
        run_simulated(simulated, program)
        run_program(tmp_path, disk, PROGRAM, json.dumps(program))
        if life != len(lives) - 1 and (life or len(lives) == 2):
            simulated.process_crash()  # and no loss of power
        else:
            simulated.power_loss()
            disk.lose_power(draws)
        there = {path.removeprefix("/"): data for path, data in simulated.snapshot().items()}
        assert read_files(tmp_path) == there, f"life {life}"
