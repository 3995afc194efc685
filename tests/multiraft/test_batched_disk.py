"""Directories synced together: nothing is durable before the block ends, all of it is afterwards."""

from random import Random

import pytest

from raftlog.partitions.multiraft.batched_disk import BatchedDisk
from raftlog.storage.directory import make_directory
from raftlog.storage.simulated_disk import SimulatedDisk


def test_directories_follow_at_the_end_each_once() -> None:
    disk = SimulatedDisk(Random(1))
    synced: list[list[str]] = []

    def sync(paths: object) -> None:
        synced.append(list(paths))  # type: ignore[call-overload]
        disk.sync([], synced[-1])

    batched = BatchedDisk(disk, sync)
    with batched.together():
        make_directory(batched, "/data/a")
        make_directory(batched, "/data/b")
        assert synced == []
    assert synced == [["/", "/data"]]
    disk.power_loss()
    assert disk.list_directory("/data") == ["a", "b"]
    make_directory(batched, "/data/c")
    assert len(synced) == 1, "outside of a block a sync is a sync"
    disk.power_loss()
    assert disk.exists("/data/c")


def test_what_was_made_before_an_error_is_synced_too() -> None:
    disk = SimulatedDisk(Random(1))
    batched = BatchedDisk(disk, lambda paths: disk.sync([], paths))

    def make_and_fail() -> None:
        with batched.together():
            make_directory(batched, "/data/a")
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        make_and_fail()
    disk.power_loss()
    assert disk.exists("/data/a")
