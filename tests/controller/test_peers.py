"""Addresses of the other nodes in a process with an old copy of the state."""

from random import Random
from uuid import UUID

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.partitions.controller.bootstrap_record import BootstrapFile, BootstrapMember, BootstrapRecord
from raftlog.partitions.controller.introductions import NodeIntroduction
from raftlog.partitions.controller.machine import ControllerState
from raftlog.partitions.controller.peers import peers_of
from raftlog.raft import ReplicaId
from raftlog.storage.directory import internal_path, make_directory
from raftlog.types import NodeId
from tests.controller.machine.fleet import CLUSTER_ID, make_cluster, register, replica

FIRST, SECOND = (ReplicaId(NodeId(number), UUID(int=number)) for number in (1, 2))


def test_a_seed_that_created_its_cluster_alone_is_reached_at_its_later_address() -> None:
    disk = SimulatedDisk(Random(1))
    make_directory(disk, internal_path("/data"))
    file = BootstrapFile(disk, "/data")
    record = BootstrapRecord(UUID(int=9), (BootstrapMember(*FIRST, ""),), (), 1, 2)
    file.store(record, [BootstrapMember(*FIRST, "127.0.0.1:9001")])
    peers = peers_of(ControllerState(), file, SECOND, {})
    assert peers is not None
    assert peers.addresses == {1: ("127.0.0.1", 9001)}
    assert peers.disks == {1: FIRST.disk_uuid}


def known_disk_of_node_1(state: ControllerState, file: BootstrapFile, *introduced: NodeIntroduction) -> UUID:
    peers = peers_of(state, file, replica(4), {NodeId(1): each for each in introduced})
    assert peers is not None
    return peers.disks[NodeId(1)]


def test_of_two_disks_of_a_node_the_one_that_is_not_retired_counts() -> None:
    """Node 1 has disk 11 and later disk 12; the copy of the state may be older or newer than that change."""
    disk = SimulatedDisk(Random(1))
    make_directory(disk, internal_path("/data"))
    file = BootstrapFile(disk, "/data")
    first, second, third = (BootstrapMember(*replica(1, number), "h1:9002") for number in (1, 11, 12))
    file.store(BootstrapRecord(CLUSTER_ID, (first,), (), 1, 2), [second])
    scribe = make_cluster(3)
    assert known_disk_of_node_1(scribe.state, file) == second.disk_uuid
    assert known_disk_of_node_1(scribe.state, file, NodeIntroduction(third, first)) == third.disk_uuid
    scribe.apply(register(1, 11, 2, replaces=1))
    assert known_disk_of_node_1(scribe.state, file, NodeIntroduction(first, second)) == second.disk_uuid
    scribe.apply(register(1, 12, 3, replaces=11))
    assert known_disk_of_node_1(scribe.state, file, NodeIntroduction(second, third)) == third.disk_uuid
