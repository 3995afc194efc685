"""Loss of power under real brokers: their ext4 images stop without flushing, with either method of syncs (F10).

In contrast to `tests/storage/test_power_loss.py`, whose disk is simulated, the kernel decides what is on the disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.testing import Cluster
from tests.integration.cluster_load import Load, check_stored, create_topic
from tests.integration.small_disks import MIB, SmallDisk, cluster_on_small_disks

ENOUGH = 200
ROUNDS = 3
METHODS = ("aio", pytest.param("threads", marks=pytest.mark.slow))


@pytest.fixture(params=METHODS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Cluster, dict[int, SmallDisk]]]:
    with cluster_on_small_disks(tmp_path, 256 * MIB, "--sync-method", request.param) as place:
        place[0].wait_healthy()
        yield place


def test_no_acknowledged_record_is_lost_when_all_brokers_lose_power(
    place: tuple[Cluster, dict[int, SmallDisk]],
) -> None:
    """Every acknowledged write is on every broker and at its offset after each round."""
    cluster, disks = place
    create_topic(cluster.addresses[0], "power", 4)
    ledger = None
    for _ in range(ROUNDS):
        with Load(cluster, "power", partitions=4, ledger=ledger, pause_s=0) as ledger:
            ledger.wait_for_more(ENOUGH)
            for disk in disks.values():
                disk.cut_power()
        for node in cluster.nodes.values():
            node.kill()
        for disk in disks.values():
            disk.remount()
        for node in cluster.nodes.values():
            node.launch()
        for node in cluster.nodes.values():
            node.wait_ready()
    assert ledger is not None
    cluster.wait_healthy()
    check_stored(cluster, ledger, 4)
