"""Deletion of all records of a partition whose disks have no space, which frees space."""

from dataclasses import replace

import pytest

from raftlog.errors import StorageFull
from tests.replica.producing import ProducerWorld
from tests.replica.worlds import all_values
from tests.runtime.drivers import SMALL

MIN_FREE = 100_000


class FullDiskWorld(ProducerWorld):
    """World of brokers that accept no records when less than `MIN_FREE` bytes are free."""

    def __init__(self) -> None:
        super().__init__(config=replace(SMALL, storage_min_free_bytes=MIN_FREE))

    def fill(self, *, free: int) -> None:
        for disk in self.disks:
            disk.capacity_bytes = 1 << 40
            disk.capacity_bytes -= disk.free_bytes("/data") - free
        self.run(2)


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_all_records_can_be_deleted_on_full_disks(is_idempotent: bool) -> None:
    with FullDiskWorld() as world:
        leader = world.lead()
        for number in range(40):
            if is_idempotent:
                world.send_and_wait(leader, number, bytes(2_000))
            else:
                world.appended(leader, bytes(2_000))
        world.fill(free=MIN_FREE - 5_000)
        assert isinstance(world.append(leader, b"refused").exception(), StorageFull)
        start = world.get(leader, lambda replica: replica.delete_before(40, world.deadline(leader, 10)))
        assert start == 40
        world.run(5)
        assert world.appended(leader, b"there is room").base_offset == 40
        assert all_values(world, leader) == [b"there is room"]
        if is_idempotent:
            assert world.send_and_wait(leader, 39, bytes(2_000)).base_offset == 39
        world.converge()
        assert [world.group(number).log_start_offset for number in (1, 2, 3)] == [40] * 3
