"""A fetched log takes the place of the old one, also where that was the only directory of its topic."""

import uuid
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.runtime.log.replica_directory import installing_path, make_replica_directory
from raftlog.runtime.log.startup import place_installed_log

GROUP = uuid.UUID(int=7)


@pytest.mark.parametrize("others", [0, 1])
def test_the_place_is_where_the_old_one_was(others: int) -> None:
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
