"""A fetched log replaces the old one, also when that was the only directory of its topic."""

import uuid
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.runtime.log.replica_directory import installing_path, make_replica_directory
from raftlog.runtime.log.startup import place_installed_log

GROUP = uuid.UUID(int=7)


@pytest.mark.parametrize("others", [0, 1])
def test_a_fetched_log_is_moved_to_the_place_of_the_old_one(others: int) -> None:
    disk = SimulatedDisk(Random(1))
    make_replica_directory(disk, "/data/orders/0", GROUP)
    for number in range(others):
        make_replica_directory(disk, f"/data/orders/{number + 1}", uuid.UUID(int=100 + number))
    installing = installing_path("/data", GROUP)
    make_replica_directory(disk, installing, GROUP)
    new = disk.open(f"{installing}/new", create=True)
    disk.sync([new], [installing])
    new.close()
    place_installed_log(disk, "/data", "/data/orders/0", GROUP)
    disk.power_loss()
    assert disk.exists("/data/orders/0/new")
    assert not disk.exists(installing)
