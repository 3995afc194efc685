"""Refusals by other nodes: consequences, stored state, and first elections without a timeout."""

import uuid
from pathlib import Path
from random import Random

import pytest

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from raftlog.errors import DiskRefused
from raftlog.partitions.node import Node
from raftlog.partitions.node.identity import NodeDirectory
from raftlog.partitions.node.refusals import Consequence, consequence_of
from raftlog.raft import RaftSettings, ReplicaId
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.rpc.handshake import HandshakeRefusal, Reason
from raftlog.types import NodeId
from tests.node.nodes import GROUP, run_cluster, settings_of, soon, values_of

STALE = (Reason.STALE_BOOT_EPOCH, Reason.STALE_JOURNAL, Reason.COPIED_DISK)
MISTAKEN = (Reason.CLUSTER_ID, Reason.OWN_NODE_ID, Reason.NODE_ID_TWICE)
NEVER = DriverConfig(tick_ms=20, raft=RaftSettings(election_ticks_min=1_000_000))


@pytest.mark.parametrize("is_established", [True, False])
@pytest.mark.parametrize("reason", list(Reason))
def test_each_refusal_has_its_consequence(reason: Reason, is_established: bool) -> None:
    ours = consequence_of(HandshakeRefusal(reason, "", "blue", True), "blue", is_established)
    strangers = consequence_of(HandshakeRefusal(reason, "", "green", True), "blue", is_established)
    unknown = consequence_of(HandshakeRefusal(reason, "", "blue", False), "blue", is_established)
    at_first = Consequence.NONE if is_established else Consequence.END
    if reason in STALE:
        assert (ours, strangers, unknown) == (Consequence.END_FOR_GOOD, at_first, at_first)
        assert consequence_of(HandshakeRefusal(reason, "", "blue", True), None, False) is Consequence.END_FOR_GOOD
    elif reason is Reason.RETIRED_DISK:
        assert (ours, strangers, unknown) == (Consequence.END_FOR_GOOD, Consequence.NONE, Consequence.END_FOR_GOOD)
        assert consequence_of(HandshakeRefusal(reason, "", "blue", False), None, False) is Consequence.NONE
    elif reason in MISTAKEN:
        assert (ours, strangers, unknown) == (at_first,) * 3
    else:
        assert (ours, strangers, unknown) == (Consequence.NONE,) * 3


def test_a_refusal_survives_power_losses_until_the_disk_uuid_is_replaced() -> None:
    disk = SimulatedDisk(Random(1))
    directory = NodeDirectory.open(disk, "/data", NodeId(1), None, lambda: uuid.UUID(int=1))
    directory.store_refusal("it is an old copy")
    for _ in range(3):
        disk.power_loss()
        directory = NodeDirectory.open(disk, "/data", NodeId(1), None, lambda: uuid.UUID(int=2))
        assert (directory.identity.refusal, directory.identity.disk_uuid) == ("it is an old copy", uuid.UUID(int=1))
    directory.replace_disk(uuid.UUID(int=3))
    disk.power_loss()
    directory = NodeDirectory.open(disk, "/data", NodeId(1), None, lambda: uuid.UUID(int=2))
    assert (directory.identity.refusal, directory.identity.disk_uuid) == (None, uuid.UUID(int=3))


async def test_a_node_refused_by_its_cluster_stops_for_good(tmp_path: Path) -> None:
    node = await Node.open(settings_of(tmp_path, 1))
    await node.start()
    node.transport.on_refused(HandshakeRefusal(Reason.WRONG_DISK, "confused", "blue", True))
    assert node.is_working
    node.transport.on_refused(HandshakeRefusal(Reason.STALE_JOURNAL, "lost writes", "green", True))
    assert node.is_working
    node.transport.on_refused(HandshakeRefusal(Reason.STALE_JOURNAL, "lost writes", "blue", True))
    assert isinstance(await node.ended, DiskRefused)
    await node.stop()
    again = await Node.open(settings_of(tmp_path, 1))
    assert again.identity.disk_uuid != node.identity.disk_uuid, "this disk is never used again"
    assert (again.identity.boot_epoch, again.driver.groups) == (2, {})
    await again.stop()


async def test_a_sole_voter_leads_at_once_after_its_creation_and_after_a_start(tmp_path: Path) -> None:
    async with run_cluster(tmp_path, [1], driver=NEVER) as cluster:
        cluster.create(members=[1])
        await cluster.write(b"one")
        await cluster.stop()
        await cluster.start()
        await cluster.write(b"two")
        assert values_of(cluster.nodes[1]) == [b"one", b"two"]


async def test_the_preferred_leader_of_a_new_group_leads_at_once(tmp_path: Path) -> None:
    """Other nodes may create their replicas after its first vote request."""
    async with run_cluster(tmp_path, driver=NEVER) as cluster:
        two = cluster.members[2]
        for node in cluster.nodes.values():
            node.leaders.preferred = lambda group_id: ReplicaId(NodeId(two.node_id), two.disk_uuid)
        cluster.create(members=(2, 1, 3))
        leader = await cluster.wait_for_leader()
        assert leader is cluster.nodes[2]
        await cluster.write(b"one")


async def test_simultaneous_candidates_elect_one_leader(tmp_path: Path) -> None:
    """A voter votes once a term, so an election has at most one winner."""
    async with run_cluster(tmp_path) as cluster:
        for number, node in cluster.nodes.items():
            member = cluster.members[number]
            node.leaders.preferred = lambda group_id, me=member: ReplicaId(NodeId(me.node_id), me.disk_uuid)
        cluster.create()
        await cluster.wait_for_leader()
        leaders = [await node.wait_for_leader(GROUP, soon()) for node in cluster.nodes.values()]
        await cluster.write(b"one")
        assert all(known is not None and known.leader is not None for known in leaders)
