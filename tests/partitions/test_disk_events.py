"""A full disk is reported once, and once when it has space again."""

import logging

from tests.partitions.conftest import PumpedDisk
from tests.waiting import until


async def test_a_full_disk_is_logged_once_each_way(disk: PumpedDisk, open_broker, caplog):
    caplog.set_level(logging.INFO, "raftlog")
    broker = await open_broker(storage_min_free_bytes=1_000_000)
    used = sum(len(inode.content) for _, inode in disk._files())

    def logged():
        names = ("disk_full", "disk_has_room")
        return [(each.getMessage(), each.free_bytes) for each in caplog.records if each.getMessage() in names]

    async def ticks(count):
        end = sum(broker.node.driver.ticker.lateness.counts) + count
        await until(lambda: sum(broker.node.driver.ticker.lateness.counts) >= end)

    disk.capacity_bytes = used + 500_000
    await ticks(3)
    assert [name for name, _ in logged()] == ["disk_full"]
    assert logged()[0][1] <= 500_000
    disk.capacity_bytes = used + 5_000_000
    await ticks(3)
    assert [name for name, _ in logged()] == ["disk_full", "disk_has_room"]
    assert logged()[1][1] > 1_000_000
