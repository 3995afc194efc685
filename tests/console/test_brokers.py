"""Three brokers, one on a small disk: a disk that fills up, moves with progress and reasons, a decommission.

All tests share the cluster; each undoes its effects, except the last one."""

import contextlib
from collections.abc import Iterator

import pytest

from raftlog.testing import Cluster
from tests.console.conftest import send
from tests.console.open_console import OpenConsole
from tests.integration.small_disks import MIB, SmallDisk, small_disk

RESERVE_BYTES = 16 * MIB
CATCH_UP_BYTES_PER_S = MIB
"""The lowest rate."""
LARGE = 16
"""Seconds that a move of the large topic takes, and MiB of its records."""
FLAGS = (
    "--console-writes",
    *("--storage-min-free-bytes", str(RESERVE_BYTES)),
    *("--catch-up-bytes-per-s", str(CATCH_UP_BYTES_PER_S)),
)


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
        send(cluster, "/v1/cluster_config", {"upsert": {"balancer.mode": "off"}}, "PUT")
        for name, replicas in (("whole", 3), ("large", 1), ("empty", 1)):
            send(cluster, "/v3/clusters/-/topics", {"topic_name": name, "replication_factor": replicas})
        for name in ("large", "empty"):
            assign(cluster, name, 1)
        cluster.wait_healthy(120)
        for _ in range(LARGE):
            send(cluster, "/topics/large", {"records": [{"value": "x" * MIB}]})
        yield cluster


def assign(cluster: Cluster, topic: str, node: int) -> None:
    send(cluster, f"/v1/partitions/kafka/{topic}/0/replicas", [{"node_id": node, "core": 0}])


def row_of(console: OpenConsole, first: str) -> str:
    """Return the first row whose text begins so; "" without one."""
    return next((row for row in console.rows() if row.startswith(first)), "")


@pytest.mark.slow
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


def test_move_has_progress_and_can_be_cancelled(console, three: Cluster) -> None:
    assign(three, "large", 2)
    console.open(three.addresses[0], "#/brokers")

    def is_under_way() -> bool:
        row = row_of(console, "large/0 1 2")
        return " % " in row and " left" in row and "/s" in row and not row.startswith("large/0 1 2 0 %")

    console.until(is_under_way, "a move with progress and rate")
    assert "nothing" in row_of(console, "large/0 1 2"), "it waits for nothing"
    console.check_access()
    console.picture("brokers-move")
    console.click("Cancel the move of large/0")
    console.click("Cancel the move")
    console.until_text("No replica moves.")
    assert three.leader("large") == 1


def test_move_names_what_it_waits_for(console, three: Cluster) -> None:
    three.nodes[2].pause()
    try:
        assign(three, "empty", 2)
        console.open(three.addresses[0], "#/brokers")
        waits = "node 2 is to get a replica and does not answer"
        console.until(lambda: waits in row_of(console, "empty/0 1 2"), "the reason")
        console.until(lambda: row_of(console, "2 console of broker 2 ✕ down"), "the broker that is down")
        console.picture("brokers-move-waits")
    finally:
        three.nodes[2].resume()
    console.until_text("No replica moves.")
    assert three.leader("empty", other_than=[1]) == 2


def test_decommission_waits_for_a_place_and_finishes(console, three: Cluster) -> None:
    console.open(three.addresses[0], "#/brokers")
    decommission(console, 3)
    console.until_text("Decommission of broker 3", "1 replica left", "needs 3 hosts, and 2 are left", "whole/0")
    console.check_access()
    console.picture("brokers-decommission")
    console.go("#/")
    console.until_text("node 3 cannot be emptied", "Start brokers on other hosts, or cancel the decommission.")
    console.go("#/brokers")
    console.click("Keep broker 3")
    console.click("Stop the decommission")
    console.until(lambda: "Decommission of broker 3" not in console.text(), "the broker is kept")
    send(three, "/v3/clusters/-/topics/whole", None, "DELETE")
    decommission(console, 3)
    console.until(
        lambda: row_of(console, "2 console of broker 2 ✓ up") and not row_of(console, "3 "), "the broker is removed"
    )


def decommission(console: OpenConsole, node: int) -> None:
    console.click(f"Decommission broker {node}")
    assert not console.button("Decommission").is_enabled()
    console.fill(f"Type {node} to confirm", str(node))
    console.click("Decommission")
