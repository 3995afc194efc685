"""Where the other nodes are, as far as a process knows that has just joined."""

from random import Random
from uuid import UUID

from raftlog.partitions.control import ControllerState
from raftlog.partitions.metadata.bootstrap_record import BootstrapFile, BootstrapRecord, Member
from raftlog.partitions.metadata.peers import peers_of
from raftlog.raft import ReplicaId
from raftlog.storage.directory import internal, make_directory
from raftlog.storage.simulated_disk import SimulatedDisk
from raftlog.types import NodeId

FIRST, SECOND = (ReplicaId(NodeId(number), UUID(int=number)) for number in (1, 2))


def test_a_seed_that_was_alone_when_it_founded_is_reached_at_the_address_that_it_got_later() -> None:
    disk = SimulatedDisk(Random(1))
    make_directory(disk, internal("/data"))
    file = BootstrapFile(disk, "/data")
    record = BootstrapRecord(UUID(int=9), (Member(*FIRST, ""),), (), 1, 2)
    file.keep(record, [Member(*FIRST, "127.0.0.1:9001")])
    peers = peers_of(ControllerState(), file, SECOND, {})
    assert peers is not None
    assert peers.addresses == {1: ("127.0.0.1", 9001)}
    assert peers.disks == {1: FIRST.disk_uuid}
