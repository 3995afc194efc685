"""Time at which the state of other disks is stored; on a simulated disk, whose syncs return on demand."""

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


def of_disk(number: int) -> Hello:
    """Return the handshake of the process on this disk."""
    identity = PeerIdentity("blue", NodeId(number), uuid.UUID(int=number), 1, 100, f"host-{number}")
    return Hello(PROTOCOL_VERSION, Channel.RAFT, b"life %3d" % number, identity, bytes(NONCE_SIZE))


def remembering(disk: SimulatedDisk) -> tuple[PeerMemory, RememberedPeers]:
    memory = PeerMemory(10)
    return memory, RememberedPeers(disk, DATA, memory, INTERVAL_S, pytest.fail)


def kept(disk: SimulatedDisk) -> list[PeerRecord]:
    memory, remembered = remembering(disk)
    remembered.restore()
    return memory.records()


def test_starts_are_saved_as_they_are_met_also_those_that_come_meanwhile(disk: SimulatedDisk) -> None:
    memory, _ = remembering(disk)
    memory.note_connected(of_disk(2))
    memory.note_connected(of_disk(3))
    assert kept(disk) == []
    disk.complete_all()
    assert kept(disk) == memory.records()
    assert [each.life for each in kept(disk)] == [b"life   2", b"life   3"]


def test_an_orderly_end_saves_what_was_being_saved(disk: SimulatedDisk) -> None:
    memory, remembered = remembering(disk)
    memory.note_connected(of_disk(2))
    remembered.save()
    remembered.stop()
    disk.complete_all()
    disk.power_loss()
    assert kept(disk) == memory.records() != []
