"""Saving of the state of other disks; on a simulated disk, whose syncs return on demand."""

import uuid
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.partitions.node.remembered_peers import RememberedPeers
from raftlog.runtime.rpc.handshake import NONCE_SIZE, PROTOCOL_VERSION, Channel, Hello, PeerIdentity
from raftlog.runtime.rpc.memory import PeerMemory, PeerRecord
from raftlog.types import NodeId

DATA = "/data"
INTERVAL_S = 600.0


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    for path in (DATA, f"{DATA}/.raftlog"):
        disk.make_directory(path)
    disk.sync([], ["/", DATA])
    return disk


def hello_of(number: int) -> Hello:
    """Return the handshake of the process on a disk."""
    identity = PeerIdentity("blue", NodeId(number), uuid.UUID(int=number), 1, 100, f"host-{number}")
    return Hello(PROTOCOL_VERSION, Channel.RAFT, b"boot %3d" % number, identity, bytes(NONCE_SIZE))


def make_remembered_peers(disk: SimulatedDisk) -> tuple[PeerMemory, RememberedPeers]:
    memory = PeerMemory(10)
    return memory, RememberedPeers(disk, DATA, memory, INTERVAL_S, pytest.fail)


def read_saved(disk: SimulatedDisk) -> list[PeerRecord]:
    memory, remembered = make_remembered_peers(disk)
    remembered.restore()
    return memory.records()


def test_starts_are_saved_at_once_also_during_a_save(disk: SimulatedDisk) -> None:
    memory, _ = make_remembered_peers(disk)
    memory.add_connection(hello_of(2))
    memory.add_connection(hello_of(3))
    assert read_saved(disk) == []
    disk.complete_all()
    assert read_saved(disk) == memory.records()
    assert [each.boot_id for each in read_saved(disk)] == [b"boot   2", b"boot   3"]


def test_a_stop_completes_the_save_under_way(disk: SimulatedDisk) -> None:
    memory, remembered = make_remembered_peers(disk)
    memory.add_connection(hello_of(2))
    remembered.save()
    remembered.stop()
    disk.complete_all()
    disk.power_loss()
    assert read_saved(disk) == memory.records() != []


def test_an_orderly_end_on_a_full_disk_saves_nothing(disk: SimulatedDisk, caplog: pytest.LogCaptureFixture) -> None:
    memory, remembered = make_remembered_peers(disk)
    memory.add_connection(hello_of(2))
    remembered.save()
    saved = memory.records()
    memory.add_connection(hello_of(3))
    disk.capacity_bytes = 0
    remembered.save()
    assert "was not saved at the end" in caplog.text
    assert read_saved(disk) == saved
