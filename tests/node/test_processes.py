"""Three real processes under load, killed, paused and restarted: no acknowledged value is lost."""

import asyncio
import json
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.node.nodes import GROUP
from tests.node.processes import NodeProcess, run_processes

WRITERS = 8


async def test_leaders_killed_under_load_lose_nothing_acknowledged(tmp_path: Path) -> None:
    async with run_processes(tmp_path) as cluster:
        await cluster.create()
        await cluster.load(WRITERS)
        for _ in range(4):
            leader = await cluster.wait_for_next_leader(200)
            await cluster.kill(leader.number)
            await cluster.wait_for_next_leader(50)
            await cluster.start(leader.number)
            await cluster.load(WRITERS, leader.number)
        await cluster.wait_for_next_leader(50)
        await cluster.finish()
        cluster.check()
        assert len(cluster.acked) >= 4 * 250


async def test_all_processes_killed_at_once_lose_nothing(tmp_path: Path) -> None:
    async with run_processes(tmp_path) as cluster:
        await cluster.create()
        for _ in range(2):
            await cluster.load(WRITERS)
            await cluster.wait_for_next_leader(200)
            await asyncio.gather(*(cluster.kill(number) for number in (1, 2, 3)))
            await cluster.start()
        await cluster.load(WRITERS)
        await cluster.wait_for_next_leader(50)
        await cluster.finish()
        cluster.check()


async def test_a_paused_leader_is_replaced_and_follows_after_it_resumes(tmp_path: Path) -> None:
    async with run_processes(tmp_path) as cluster:
        await cluster.create()
        await cluster.load(WRITERS)
        leader = await cluster.wait_for_next_leader(100)
        leader.pause()
        seen = len(leader.acked)
        del cluster.running[leader.number]
        follower = await cluster.wait_for_next_leader(100)
        leader.resume()
        cluster.running[leader.number] = leader
        await follower.wait_for_acks(50)
        assert len(leader.acked) - seen < 100, "it went on acknowledging"
        await cluster.finish()
        cluster.check()


@pytest.mark.slow
async def test_an_old_copy_of_a_disk_is_refused(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with run_processes(data, peers_save_ms=100) as cluster:
        await cluster.create()
        await cluster.load(WRITERS)
        await cluster.wait_for_next_leader(50)
        await cluster.kill(3)
        shutil.copytree(data / "3", copy)
        for _ in range(2):
            await cluster.start(3)
            await cluster.load(WRITERS, 3)  # it may be the next leader
            await cluster.wait_for_next_leader(500)
            await cluster.kill(3)
        for others_restart in (False, True):  # then they only know from their own disks
            if others_restart:
                await asyncio.gather(cluster.kill(1), cluster.kill(2))
                await cluster.start(1, 2)
                await cluster.load(WRITERS)
            shutil.rmtree(data / "3")
            shutil.copytree(copy, data / "3")
            await cluster.start(3)
            stale = cluster.running[3]
            assert "it is an old copy" in (await stale.send_command(ended=0))["reason"]
            assert not (await stale.send_command(status=0))["working"]
            await cluster.kill(3)
            identity = json.loads((data / "3" / ".raftlog" / "identity").read_text())
            assert "it is an old copy" in identity["refusal"], "the next start takes another disk uuid"
            await cluster.wait_for_next_leader(50)


@pytest.mark.slow
async def test_a_wiped_disk_is_refused(tmp_path: Path) -> None:
    async with run_processes(tmp_path) as cluster:
        await cluster.create()
        await cluster.load(WRITERS)
        await cluster.wait_for_next_leader(50)
        await cluster.kill(3)
        cluster.wipe(3)
        await cluster.start(3)
        stranger = cluster.running[3]
        assert "comes with the disk" in await stranger.wait_for_refusal()
        members = [[number, disk] for number, disk in cluster.disks.items()]
        answer = await stranger.request(create=[GROUP.int], members=members)
        assert "it can only join" in answer["error"]
        await cluster.kill(2)
        before = len(cluster.running[1].acked)
        assert (await cluster.running[1].send_command(stepped_down=0))["leads"] is False, "one of three is no majority"
        assert len(cluster.running[1].acked) - before <= WRITERS
        await cluster.start(2)
        await cluster.load(WRITERS, 2)
        await cluster.wait_for_next_leader(50)


async def test_the_second_process_with_a_node_id_is_refused(tmp_path: Path) -> None:
    async with run_processes(tmp_path) as cluster:
        await cluster.create()
        twin = NodeProcess(3)
        await twin.spawn()
        peers = {number: cluster.addresses[number] for number in (1, 2)}
        opened = await twin.request(open={"directory": str(tmp_path), "node_id": 3, "peers": peers})
        assert "DirectoryLocked" in opened["error"]
        await twin.send_command(open={"directory": str(tmp_path / "twin"), "node_id": 3, "peers": peers})
        await twin.send_command(peers=peers, disks={number: cluster.disks[number] for number in (1, 2)})
        assert "node 3" in await twin.wait_for_refusal()
        await twin.kill()
        await cluster.load(WRITERS)
        await cluster.wait_for_next_leader(50)
        await cluster.finish()
        cluster.check()


async def test_garbage_on_the_rpc_port_has_no_effect(tmp_path: Path) -> None:
    garbage = Random(1)
    async with run_processes(tmp_path) as cluster:
        await cluster.create()
        await cluster.load(WRITERS)
        leader = await cluster.wait_for_next_leader(50)
        for size in (0, 1, 100, 100_000):
            reader, writer = await asyncio.open_connection(*cluster.addresses[leader.number])
            writer.write(garbage.randbytes(size))
            with suppress(OSError):  # it may have been refused and closed already
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 20)
            writer.close()
        await leader.wait_for_acks(50)
        assert (await leader.send_command(status=0))["complaints"] >= 3
        await cluster.finish()
        cluster.check()
