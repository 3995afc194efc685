"""Three brokers, one on a small disk that fills up."""

import contextlib
from collections.abc import Iterator

import pytest

from raftlog.testing import Cluster
from tests.console.conftest import send
from tests.console.open_console import OpenConsole
from tests.integration.small_disks import MIB, SmallDisk, small_disk

RESERVE_BYTES = 16 * MIB
FLAGS = ("--console-writes", "--storage-min-free-bytes", str(RESERVE_BYTES))


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallDisk | None]:
    """Return the small disk of broker 3; None where no file system can be mounted."""
    with contextlib.ExitStack() as stack:
        mounted = None
        with contextlib.suppress(pytest.skip.Exception):
            mounted = stack.enter_context(small_disk(tmp_path_factory.mktemp("disks") / "3", 160 * MIB))
        yield mounted


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, disk: SmallDisk | None) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("three")
    if disk is not None:
        disk.data_dir.mkdir()
        (directory / "3").symlink_to(disk.data_dir)
    with Cluster(3, data_dir=directory, serve_flags=FLAGS, ready_timeout_s=120) as cluster:
        send(cluster, "/v3/clusters/-/topics", {"topic_name": "whole", "replication_factor": 3})
        cluster.wait_healthy(120)
        yield cluster


def row_of(console: OpenConsole, first: str) -> str:
    """Return the first row whose text begins so; "" without one."""
    return next((row for row in console.rows() if row.startswith(first)), "")


def test_disk_that_fills_up_is_named_before_and_when_it_is_full(
    console, three: Cluster, disk: SmallDisk | None
) -> None:
    if disk is None:
        pytest.skip("no file system can be mounted here")
    console.open(three.addresses[0])
    disk.fill(disk.free_bytes - 16 * MIB)
    console.until(lambda: " by " in row_of(console, "3 ✓ up") and "✕" in row_of(console, "3 ✓ up"), "the forecast")
    console.picture("overview-filling")
    disk.fill(RESERVE_BYTES // 2)
    try:
        console.until_text("node 3: the disk has no room for records", "Free space on the disk")
        console.until(lambda: "full: less than the reserve of 16 MiB is free" in row_of(console, "3 ✓ up"), "the row")
        console.check_access()
        console.picture("overview-full-disk")
        console.go("#/brokers")
        console.until(lambda: "the disk has no room for records" in row_of(console, "3 "), "the problem of the broker")
    finally:
        disk.free()
    console.go("#/")
    console.until_text("The cluster is healthy")
