"""`log verify --compare` on copies that are equal, that diverged, and that have nothing in common."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from raftlog import Log


@pytest.fixture
def copies(tmp_path: Path) -> tuple[str, str]:
    """Create two logs of one group id, of which the second one ends earlier."""
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, b"a", b"b")
    shutil.copytree(first, second)
    write(first, b"c")
    return str(first), str(second)


def write(path: Path | str, *values: bytes) -> None:
    with Log.open(str(path)) as log:
        for value in values:
            log.append([value])
            log.flush()


def test_a_shorter_copy_is_a_prefix_of_the_longer(run: Any, copies: tuple[str, str]) -> None:
    (found,) = json.loads(run("log", "verify", "--compare", "--json", *copies).stdout)["comparisons"]
    assert (found["identical"], found["first_index"], found["last_index"], found["end_offset"]) == (True, 1, 3, 2)
    assert b"identical" in run("log", "verify", "--compare", *copies).stdout


def test_diverged_valid_logs_are_reported(run: Any, copies: tuple[str, str]) -> None:
    write(copies[1], b"x")
    run("log", "verify", *copies)
    done = run("log", "verify", "--compare", "--json", *copies, expect=1)
    (found,) = json.loads(done.stdout)["comparisons"]
    assert not found["identical"]
    assert "entry 4 differs in byte" in found["difference"]
    assert f"{copies[0]}/{0:020d}.log at position".encode() in done.stderr


def test_logs_of_different_groups_are_refused(run: Any, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write(tmp_path / name, b"a")
    done = run("log", "verify", "--compare", str(tmp_path / "one"), str(tmp_path / "other"), expect=1)
    assert b"no two of these logs are replicas of the same partition" in done.stderr
