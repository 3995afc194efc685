"""Three nodes in one process, on loopback and real directories."""

import asyncio
import errno
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import InvalidArgument, NotLeader, OutcomeUnknown, RaftlogError, SyncFailed, Unavailable
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node, Request
from raftlog.partitions.node.remembered_peers import PEERS
from raftlog.raft import ReplicaId, Role
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.log.sealed_file import read_sealed
from raftlog.runtime.process.ticker import Stall
from raftlog.runtime.rpc.calls import Answer
from raftlog.runtime.rpc.errors import ConnectionLost, NoAnswer, NotConnected
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.roll import RollMember
from raftlog.storage.syncs.aio_syncs import AioSyncs
from raftlog.types import NodeId
from tests.node.nodes import GROUP, first_roll, run_cluster, settings_of, soon, values_of
from tests.storage.kernel_events import fail_syncs, hold_events
from tests.waiting import until

VALUES = [b"%d" % number for number in range(50)]


async def test_writes_continue_after_the_leader_stops(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        cluster.create()
        await cluster.write(*VALUES)
        leader = cluster.leader()
        await cluster.stop(leader)
        await cluster.wait_until(lambda: cluster.leader() not in (0, leader))
        await cluster.write(b"more")
        await cluster.start(leader)
        assert await cluster.wait_for_convergence() == [*VALUES, b"more"]


async def test_values_survive_a_restart_of_all_nodes(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        cluster.create()
        await cluster.write(*VALUES)
        identities = {number: node.identity for number, node in cluster.nodes.items()}
        await cluster.stop()
        await cluster.start()
        await cluster.write(b"more")
        assert await cluster.wait_for_convergence() == [*VALUES, b"more"]
        for number, node in cluster.nodes.items():
            assert node.identity == identities[number]._replace(boot_epoch=2, has_journal=True)


async def test_an_orderly_stop_hands_leaderships_over_before_it_ends(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        groups = [uuid.UUID(int=100 + number) for number in range(12)]
        for group in groups:
            cluster.create(group)
        for group in groups:
            await cluster.wait_for_leader(group)
        number, node = max(cluster.nodes.items(), key=lambda each: each[1].leaders.led_count)
        assert node.leaders.led_count >= 4
        terms = {group: node.leader_of(group).term for group in groups if node.leader_of(group).is_here}
        await cluster.stop(number)
        for group, term in terms.items():
            heirs = [each.leader_of(group) for each in cluster.nodes.values()]
            assert max(heir.term for heir in heirs) == term + 1, "an election was needed instead of one hand-over"


async def test_leaderships_move_to_preferred_leaders(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        groups = [uuid.UUID(int=100 + number) for number in range(12)]

        def preferred(group_id: uuid.UUID) -> ReplicaId:
            member = cluster.members[1 + group_id.int % 3]
            return ReplicaId(NodeId(member.node_id), member.disk_uuid)

        for node in cluster.nodes.values():
            node.leaders.preferred = preferred
        for group in groups:
            cluster.create(group)
        await cluster.wait_until(lambda: all(node.leaders.led_count == 4 for node in cluster.nodes.values()))
        assert all(cluster.nodes[1 + group.int % 3].leader_of(group).is_here for group in groups)
        await cluster.stop(2)
        await cluster.wait_until(lambda: sum(node.leaders.led_count for node in cluster.nodes.values()) == 12)
        await cluster.start(2)
        cluster.nodes[2].leaders.preferred = preferred
        await cluster.wait_until(lambda: all(node.leaders.led_count == 4 for node in cluster.nodes.values()))


async def test_a_sole_voter_with_peers_waits_for_a_handshake(tmp_path: Path) -> None:
    node = await Node.open(settings_of(tmp_path, 1, peers={2: ("127.0.0.1", 1)}))
    try:
        await node.start()
        node.create_group(first_roll(GROUP, [RollMember(1, node.identity.disk_uuid)]))
        known = await node.wait_for_leader(GROUP, deadline_in(300))
        assert known is not None
        assert known.leader is None
        assert not node.is_working
        node.set_peers({}, {})
        known = await node.wait_for_leader(GROUP, soon())
        assert known is not None
        assert known.is_here
    finally:
        await node.stop()


async def test_a_lone_node_leads_at_once(tmp_path: Path) -> None:
    async with run_cluster(tmp_path, [1]) as cluster:
        cluster.create(members=[1])
        await cluster.write(*VALUES)
        assert values_of(cluster.nodes[1]) == VALUES
        assert [group.core.role for group in cluster.nodes[1].driver.groups.values()] == [Role.LEADER]


async def test_requests_are_answered_or_fail(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        one, two = cluster.nodes[1], cluster.nodes[2]

        async def double(request: Request) -> Answer:
            assert request.deadline > one.loop.time()
            return Answer([request.node, request.header], (*request.payload, *request.payload))

        async def refuse(request: Request) -> Answer:
            raise NotLeader("not me", one.identity.replica)

        two.on_request("double", double)
        two.on_request("refuse", refuse)
        answer = await one.ask(NodeId(2), "double", {"a": 1}, [b"xy"], soon())
        assert answer.value == [1, {"a": 1}]
        assert [bytes(each) for each in answer.payload] == [b"xy", b"xy"]
        with pytest.raises(NotLeader) as refused:
            await one.ask(NodeId(2), "refuse", None, (), soon())
        assert refused.value.leader == one.identity.replica
        with pytest.raises(Unavailable, match="does not serve 'triple'"):
            await one.ask(NodeId(2), "triple", None, (), soon())
        with pytest.raises(Unavailable, match="was not sent"):
            await one.ask(NodeId(2), "double", None, (), deadline_in(0))
        with pytest.raises(NotConnected):
            await one.ask(NodeId(9), "double", None, (), soon())
        with pytest.raises(Unavailable, match="does not serve 'double'"):
            await one.ask(NodeId(1), "double", None, (), soon())
        one.on_request("double", double)
        assert (await one.ask(NodeId(1), "double", {"a": 1}, [b"xy"], soon())).value == [1, {"a": 1}]


async def test_requests_that_may_have_been_sent_are_not_resent(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        asked = asyncio.Queue[Request]()

        async def never(request: Request) -> Answer:
            asked.put_nowait(request)
            await asyncio.Event().wait()
            raise AssertionError

        cluster.nodes[2].on_request("never", never)
        with pytest.raises(NoAnswer):
            await cluster.nodes[1].ask(NodeId(2), "never", None, (), deadline_in(50))
        pending = asyncio.ensure_future(cluster.nodes[1].ask(NodeId(2), "never", None, (), soon()))
        await asked.get()
        await asked.get()
        await cluster.stop(2)
        with pytest.raises(ConnectionLost):
            await pending
        assert asked.empty()


async def test_a_stop_answers_requests_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_cluster(tmp_path) as cluster:
        asked, may_answer = asyncio.Event(), asyncio.Event()
        two = cluster.nodes[2]

        async def slowly(request: Request) -> Answer:
            asked.set()
            await may_answer.wait()
            return Answer("done")

        wait_until_quiet = two._requests.wait_until_quiet

        async def answer_when_quiet_is_awaited(seconds: float) -> None:
            two.loop.call_soon(may_answer.set)  # nothing else has to be done before the end by then
            await wait_until_quiet(seconds)

        two.on_request("slowly", slowly)
        monkeypatch.setattr(two._requests, "wait_until_quiet", answer_when_quiet_is_awaited)
        pending = asyncio.ensure_future(cluster.nodes[1].ask(NodeId(2), "slowly", None, (), soon()))
        await asked.wait()
        await cluster.stop(2)
        assert (await pending).value == "done"


async def test_a_request_can_wait_for_the_leader_of_a_group(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        node = cluster.nodes[1]
        assert node.leader_of(GROUP) is None
        assert await node.wait_for_leader(GROUP, soon()) is None
        cluster.create()
        known = await node.wait_for_leader(GROUP, soon())
        assert known is not None
        assert known.leader is not None
        waiting = asyncio.ensure_future(node.wait_for_leader(uuid.UUID(int=5), soon()))
        assert await waiting is None
        node.remove_group(GROUP)
        assert node.leader_of(GROUP) is None


@pytest.mark.parametrize("method", ["aio", "threads"])
async def test_a_failed_sync_stops_the_node_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with run_cluster(tmp_path, sync_method=method) as cluster:
        cluster.create()
        await cluster.write(*VALUES)
        number = cluster.leader()
        node, real = cluster.nodes[number], os.fdatasync
        mine = str(tmp_path / str(number))

        def failing(descriptor: int) -> None:
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(mine):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", failing)
        if method == "aio":
            fail_syncs(monkeypatch, aio_syncs_of(node))
        group = node.find_replica(GROUP)
        assert group is not None
        with pytest.raises((OutcomeUnknown, RaftlogError)):
            await cluster.write(b"lost?")
        assert isinstance(await node.ended, SyncFailed)
        assert os.strerror(errno.EIO) in str(node.ended.result())
        monkeypatch.undo()
        del cluster.nodes[number]
        await cluster.wait_until(cluster.leader)
        await cluster.write(b"more")
        await node.stop()
        await cluster.start(number)
        assert (await cluster.wait_for_convergence())[-1] == b"more"


async def test_a_submitted_sync_that_never_returns_moves_the_leadership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_cluster(tmp_path, sync_method="aio") as cluster:
        cluster.create()
        await cluster.write(*VALUES)
        number = cluster.leader()
        node = cluster.nodes[number]
        hold_events(monkeypatch, aio_syncs_of(node))
        group = node.find_replica(GROUP)
        assert group is not None
        written = group.propose([build_batch([NewRecord(b"slow", None, 1_000)])])
        await cluster.wait_until(lambda: cluster.leader() not in (0, number))
        assert node.fitness_exchange.stalls[Stall.DISK] > 0
        await cluster.write(b"more")
        monkeypatch.undo()
        aio_syncs_of(node)._read_events()
        assert (await written).base_offset == len(VALUES)
        assert (await cluster.wait_for_convergence())[-2:] == [b"slow", b"more"]


def aio_syncs_of(node: Node) -> AioSyncs:
    assert isinstance(node.driver.disk, RealDisk)
    assert node.driver.disk._aio is not None
    return node.driver.disk._aio


async def test_a_node_with_a_damaged_journal_takes_a_new_disk_uuid(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        cluster.create()
        await cluster.write(*VALUES)
        await cluster.wait_for_convergence()
        old = cluster.nodes[3].identity
        await cluster.stop(3)
        internal = tmp_path / "3" / ".raftlog"
        for file in (internal / "journal" / str(old.disk_uuid)).iterdir():
            file.unlink()
        log_before = {file.name: file.read_bytes() for file in (tmp_path / "3" / str(GROUP)).glob("*.log")}
        await cluster.start(3)
        node = cluster.nodes[3]
        assert node.identity.disk_uuid != old.disk_uuid
        assert node.identity.boot_epoch == 2
        assert node.find_replica(GROUP) is None
        assert (internal / "damaged" / f"journal-{old.disk_uuid}").is_dir()
        assert {file.name: file.read_bytes() for file in (tmp_path / "3" / str(GROUP)).glob("*.log")} == log_before
        with pytest.raises(InvalidArgument, match="it can only join"):
            node.create_group(
                first_roll(GROUP, cluster.members.values())._replace(voters=(RollMember(3, old.disk_uuid),))
            )
        node.join_group(GROUP)
        assert [path.name for path in (internal / "unknown").iterdir()] == [f"{GROUP}-0"]
        await cluster.stop(3)
        await cluster.start(3)
        assert cluster.nodes[3].find_replica(GROUP) is not None


async def test_the_state_of_other_disks_survives_a_restart(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        cluster.create()
        await cluster.write(*VALUES)
        await cluster.stop(2)
        memory = cluster.nodes[1].transport.memory
        await cluster.stop(1)
        before = {each.node_id: each for each in memory.records()}
        node = await Node.open(settings_of(tmp_path, 1))
        after = {each.node_id: each for each in node.transport.memory.records()}
        assert after == before
        assert after[NodeId(2)].boot_epoch == 1
        assert after[NodeId(2)].journal_sequence > 1
        await node.stop()


async def test_a_start_of_another_node_is_saved_at_once(tmp_path: Path) -> None:
    async with run_cluster(tmp_path, [1, 2], peers_save_ms=600_000, housekeeping_ms=60_000) as cluster:
        await cluster.stop(2)
        await cluster.start(2)
        node, path = cluster.nodes[1], str(tmp_path / "1" / ".raftlog" / "peers")
        disk = cluster.nodes[2].identity.disk_uuid

        def kept() -> list[Any]:
            file = read_sealed(node.environment.disk, path, PEERS)
            fields = {"disks": [], "lives": {}} if file is None else file.fields
            return [[*row[1:3], fields["lives"][row[0]]] for row in fields["disks"] if row[0] == str(disk)]

        (known,) = node.transport.memory.records()
        assert known.boot_id is not None
        boot_id = known.boot_id.hex()
        await until(lambda: kept() == [[2, 2, boot_id]], kept)


async def test_a_damaged_peers_file_is_moved_aside(tmp_path: Path) -> None:
    async with run_cluster(tmp_path) as cluster:
        await cluster.stop(1)
        path = tmp_path / "1" / ".raftlog" / "peers"
        path.write_bytes(path.read_bytes().replace(b"disks", b"risks"))
        await cluster.start(1)
        assert (tmp_path / "1" / ".raftlog" / "damaged" / "peers").is_file()


async def test_an_address_in_use_is_an_error_and_releases_all_resources(tmp_path: Path) -> None:
    async with run_cluster(tmp_path, [1]) as cluster:
        at = cluster.addresses[NodeId(1)]
        settings = settings_of(tmp_path, 2, rpc_port=at[1])
        node = await Node.open(settings)
        with pytest.raises(OSError, match="in use"):
            await node.start()
        await node.stop()
        again = await Node.open(settings_of(tmp_path, 2))
        assert again.identity.boot_epoch == 2
        await again.stop()


async def test_a_refused_directory_is_unlocked(tmp_path: Path) -> None:
    node = await Node.open(settings_of(tmp_path, 1))
    await node.stop()
    with pytest.raises(InvalidArgument, match="this is node 2"):
        await Node.open(settings_of(tmp_path, 2, data_dir=str(tmp_path / "1")))
    node = await Node.open(settings_of(tmp_path, 1))
    assert node.identity.boot_epoch == 2
    await node.stop()
    await node.stop()
    with pytest.raises(Unavailable, match="stops"):
        node.join_group(GROUP)


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="transfers_max=0"):
        settings_of(tmp_path, 1, transfers_max=0)
    with pytest.raises(InvalidArgument, match="among its own peers"):
        settings_of(tmp_path, 1, peers={1: ("127.0.0.1", 1)})
