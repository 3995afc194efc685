"""Syncs that fail, hang or are slow under one of three brokers, with either method of syncs (F11, F19).

The faults come from a file system of the tests' own, which submissions of Linux AIO reach as well; strace, in
`test_cluster_disks`, sees only the syncs of threads."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import Load, check_stored, create_topic
from tests.integration.fuse_disk import FuseDisk, fuse_disk
from tests.waiting import block_until

ENOUGH = 50
FUSED = 1
"""Node whose files are on the file system with faults."""
HELD_S = 10.0
RESUMED_S_MAX = 6.0
EXIT_S_MAX = 30.0
SLOW_MS = 20

Place = tuple[Cluster, FuseDisk]


@pytest.fixture(scope="module", params=["aio", pytest.param("threads", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("fuse")
    with ExitStack() as stack:
        disk = stack.enter_context(fuse_disk(directory / "disk"))
        (directory / "cluster").mkdir()
        (directory / "cluster" / str(FUSED)).symlink_to(disk.data_dir)
        flags = ("--sync-method", request.param)
        cluster = stack.enter_context(Cluster(3, data_dir=directory / "cluster", serve_flags=flags))
        assert cluster.nodes[FUSED].ready["sync_method"] == request.param
        yield cluster, disk


@pytest.fixture(autouse=True)
def _wait_healthy(place: Place) -> Iterator[None]:
    cluster, disk = place
    cluster.wait_healthy()
    yield
    disk.set_syncs("ok")


def _create_led_topic(cluster: Cluster, topic: str) -> None:
    """Create a topic that the node with faults leads."""
    create_topic(cluster.addresses[0], topic)
    path = f"/v1/partitions/kafka/{topic}/0/transfer_leadership?target={FUSED}"

    def is_led() -> bool:
        if cluster.leader(topic) == FUSED:
            return True
        ask(cluster.addresses[0], path, method="POST")  # refused while the target lacks entries
        return False

    block_until(is_led)


def test_a_broker_exits_after_a_failed_sync(place: Place) -> None:
    """The broker exits with the error number of the kernel; the others continue, and it returns unchanged."""
    cluster, disk = place
    _create_led_topic(cluster, "fails")
    node = cluster.nodes[FUSED]
    healthy = [other.http for other in cluster.nodes.values() if other is not node]
    with Load(cluster, "fails", addresses=healthy) as ledger:
        ledger.wait_for_more(ENOUGH)
        disk.set_syncs("fail")
        assert node.wait(EXIT_S_MAX) == 1
        disk.set_syncs("ok")
        assert "a sync failed" in node.log_text()
        assert "Input/output error" in node.log_text()
        assert cluster.leader("fails", other_than=[FUSED]) != FUSED
        node.start()
        ledger.wait_for_more(ENOUGH)
    cluster.wait_healthy()
    check_stored(cluster, ledger)


def test_a_broker_with_a_hanging_sync_transfers_its_leaderships(place: Place) -> None:
    """Its leaderships move within the bound, and nothing hangs; afterwards it works as before."""
    cluster, disk = place
    _create_led_topic(cluster, "held")
    with Load(cluster, "held") as ledger:
        ledger.wait_for_more(ENOUGH)
        held_at = time.monotonic()
        disk.set_syncs("hold")
        assert cluster.leader("held", other_than=[FUSED]) != FUSED
        while time.monotonic() < held_at + HELD_S:
            ledger.wait_for_more(ENOUGH)
        disk.set_syncs("ok")
        ledger.wait_for_more(ENOUGH)
        assert ledger.longest_pause_s(held_at) < RESUMED_S_MAX
    cluster.wait_healthy()
    check_stored(cluster, ledger)


def test_writes_continue_with_slow_syncs(place: Place) -> None:
    """Writes continue at the speed of the disks, and none is lost."""
    cluster, disk = place
    _create_led_topic(cluster, "slow")
    with Load(cluster, "slow") as ledger:
        ledger.wait_for_more(ENOUGH)
        disk.set_syncs(f"delay {SLOW_MS}")
        ledger.wait_for_more(4 * ENOUGH)
    disk.set_syncs("ok")
    assert not ledger.unknown
    check_stored(cluster, ledger)
