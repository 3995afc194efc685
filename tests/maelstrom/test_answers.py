"""Error codes that a client gets for failures, and a node's answers to bad input."""

import asyncio
import json
import random
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.maelstrom.driver import Client, ErrorAnswer, Network
from tests.waiting import WITHIN_S, until_async


async def _expect_error(client: Client, node: str, kind: str, **fields: object) -> ErrorAnswer:
    with pytest.raises(ErrorAnswer) as told:
        await client.ask(node, kind, **fields)
    return told.value


async def test_isolated_proposals_are_unknown_and_unappended_ones_failed(
    tmp_path: Path,
) -> None:
    async with Network(tmp_path, 3, "--groups", "1", "--tick-ms", "40", "--timeout-ms", "1200", seed=8) as network:
        client, other = network.client(), network.client()
        codes: set[tuple[int, int]] = set()
        async with asyncio.timeout(WITHIN_S):
            while (0, 0) not in codes:  # on a busy machine there may be no leader just now
                network.heal()
                for name in network.names:
                    await client.ask_again(name, "write", key="k", value=1)
                leader = network.leader
                alive = next(name for name in network.names if name != leader)
                network.cut([leader])
                appended, forwarded = await asyncio.gather(
                    _expect_error(client, leader, "write", key="k", value=2),
                    _expect_error(other, alive, "send", key="k", msg=3),
                )
                codes.add((appended.code, forwarded.code))
        assert codes <= {(0, 0), (11, 0), (0, 11), (11, 11)}
        await other.ask_again(alive, "write", key="k", value=5)
        told = await asyncio.gather(
            _expect_error(client, leader, "write", key="k", value=4),
            _expect_error(client, leader, "commit_offsets", offsets={"k": 0}),
            _expect_error(client, leader, "read", key="k"),
            _expect_error(client, leader, "read"),
            _expect_error(client, leader, "list_committed_offsets", keys=["k"]),
        )
        assert [each.code for each in told] == [11] * 5, "there is no leader on its side"
        network.heal()
        for name in network.names:
            await client.ask_again(name, "commit_offsets", offsets={"k": 0})
            assert (await client.ask(name, "read", key="k"))["value"] == 5


async def test_requests_that_cannot_be_served_get_a_reason(tmp_path: Path) -> None:
    async with Network(tmp_path, 1, seed=9) as network:
        client = network.client()
        for code, kind, fields in (
            (10, "txn", {"txn": []}),
            (12, "echo", {}),
            (12, "send", {"key": 1, "msg": 1}),
            (12, "send", {"key": "k"}),
            (12, "send", {"key": "k", "msg": "x" * (1 << 18)}),
            (12, "poll", {"offsets": {"k": "0"}}),
            (12, "poll", {"offsets": {"k": -1}}),
            (12, "poll", {"offsets": {"k": True}}),
            (12, "poll", {"offsets": []}),
            (12, "commit_offsets", {"offsets": {"k": 1 << 63}}),
            (12, "list_committed_offsets", {"keys": [1]}),
            (12, "cas", {"key": 1, "from": 1}),
            (12, "add", {"delta": 1}),
            (12, "topology", {"topology": {"n1": 1}}),
            (12, "raft", {"frames": ""}),
            (12, "gossip", {}),
            (14, "init", {"node_id": "n1", "node_ids": ["n1", "n2"]}),
            (12, "init", {"node_id": "n2", "node_ids": ["n1"]}),
            (12, "init", {"node_id": "../n1", "node_ids": ["../n1"]}),
            (20, "read", {"key": 1}),
            (20, "cas", {"key": 1, "from": 1, "to": 2}),
        ):
            told = await _expect_error(client, "n1", kind, **fields)
            assert told.code == code, (kind, fields, told)
        network.nodes["n2"] = network.nodes["n1"]  # what is for another node comes here
        assert (await _expect_error(client, "n2", "echo", echo=1)).code == 1
        del network.nodes["n2"]
        assert not (tmp_path / "n1").exists()


BAD_LINES = (
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"src":"c1"}',
    b'{"src":"c1","dest":"n1","body":5}',
    b'{"src":"c1","dest":"n1","body":{}}',
    b'{"src":"c1","dest":"n1","body":{"type":7,"msg_id":1}}',
    b'{"src":7,"dest":"n1","body":{"type":"echo","msg_id":1,"echo":1}}',
    b'{"src":"c1","dest":"n1","body":{"type":"echo","msg_id":"x","echo":1}}',
    b'{"src":"c1","dest":"n1","body":{"type":"send","msg_id":[],"key":{},"msg":1}}',
    b'{"src":"c1","dest":"n1","body":{"type":"echo","in_reply_to":4,"msg_id":1}}',
    b'{"src":"c1","dest":"n1","body":{"type":"echo","msg_id":1,"echo":NaN}}',
    b'{"src":"c1","dest":"n1","body":{"type":"echo","msg_id":1,"echo":1e400}}',
    b'{"src":"c1","dest":"n1","body":{"type":"add","msg_id":1,"element":[-1e400]}}',
    b'{"src":"c1","dest":"n1","body":{"type":"echo","msg_id":1,"echo":' + b"9" * 5000 + b"}}",
    b"[" * 100_000,
    b'{"a":' * 5_000,
    b'{"src":"n2","dest":"n1","body":{"type":"raft"}}',
    b'{"src":"n2","dest":"n1","body":{"type":"raft","frames":7}}',
    b'{"src":"n2","dest":"n1","body":{"type":"raft","frames":"%%%"}}',
    b'{"src":"n2","dest":"n1","body":{"type":"raft","frames":"AAAA"}}',
    b'{"src":"n2","dest":"n1","body":{"type":"raft","frames":"UkxPRwIDAAD/////AAAAAAAAAAA="}}',
    b'{"src":"n2","dest":"n1","body":{"type":"gossip","from":-1,"to":0,"base":0,"values":[],"heard":0}}',
    b'{"src":"n2","dest":"n1","body":{"type":"gossip","from":0,"to":[],"base":0,"values":{},"heard":0}}',
    b'{"src":"n1","dest":"n1","body":{"type":"raft","frames":""}}',
    b"x" * (17 << 20),
)


async def test_bad_input_does_not_stop_a_node(tmp_path: Path) -> None:
    async with Network(tmp_path, 2, seed=10) as network:
        client = network.client()
        for line in BAD_LINES:
            network.write("n1", line + b"\n")
        chance = random.Random(1)
        sound = json.dumps({"src": "n2", "dest": "n1", "body": {"type": "raft", "frames": "UkxPRwIDAAAAAAAA"}}).encode()
        for _ in range(300):
            spoilt = bytearray(sound)
            for _ in range(chance.randrange(1, 4)):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            network.write("n1", bytes(spoilt) + b"\n")
        assert (await client.ask("n1", "echo", echo=1))["echo"] == 1
        await client.ask_again("n2", "add", element=1)
        network.failures.clear()  # answers to names that were made up
        reports = await network.stop()
        assert reports["n1"]["refused"] >= len(BAD_LINES) - 2


async def test_a_killed_node_restarts_with_its_directory(tmp_path: Path) -> None:
    async with Network(tmp_path, 3, seed=11) as network:
        client = network.client()
        await client.ask_again("n1", "commit_offsets", offsets={"k0": 3})
        for number in range(20):
            assert (await client.ask("n1", "send", key=f"k{number % 4}", msg=number))["offset"] == number // 4
        for node in list(network.nodes.values()):
            node.kill()
            assert (await node.wait())[0] == -signal.SIGKILL
        network.nodes.clear()
        await asyncio.gather(*map(network.start, network.names))
        await client.ask_again("n2", "read")
        assert (await client.ask("n2", "list_committed_offsets", keys=["k0"]))["offsets"] == {"k0": 3}
        messages = (await client.ask("n2", "poll", offsets={f"k{number}": 0 for number in range(4)}))["msgs"]
        assert messages["k0"] == [[at, 4 * at] for at in range(5)]
        assert (await client.ask("n3", "send", key="k0", msg="new"))["offset"] == 5


async def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    async with Network(tmp_path, 1, seed=12) as network:
        await network.client().ask("n1", "send", key="k", msg=1)
        await network.stop()
        await network.start("n1")
        network.names = ["n1", "n2"]
    network = Network(tmp_path, 2, seed=12)
    async with network:
        client = network.client()
        told = await _expect_error(client, "n1", "send", key="k", msg=1)
        assert "belongs to cluster" in str(told)
        code, words = await network.nodes.pop("n1").wait()
        assert code == 1
        assert "error: the node cannot continue" in words


async def test_a_signal_stops_a_node_after_its_report(tmp_path: Path) -> None:
    async with Network(tmp_path, 1, seed=13) as network:
        await network.client().ask("n1", "send", key="k", msg=1)
        network.nodes["n1"].process.send_signal(signal.SIGTERM)
        code, words = await network.nodes.pop("n1").wait()
        assert code == 0
        assert json.loads(words.splitlines()[-1])["operations_by_workload"] == {"kafka": 1}


async def test_forwarded_requests_without_an_answer_stay_unknown(tmp_path: Path) -> None:
    """The leader receives a commit of offsets and cannot answer; then the other node finds no leader."""
    async with Network(tmp_path, 3, "--groups", "1", "--tick-ms", "40", "--timeout-ms", "2000", seed=14) as network:
        client = network.client()
        for offset in range(20):
            network.heal()
            for name in network.names:
                await client.ask_again(name, "write", key="k", value=1)
            asked = next(name for name in network.names if name != network.leader)
            network.silence(to=asked)
            with pytest.raises(ErrorAnswer) as told:
                await client.ask(asked, "commit_offsets", offsets={"k": offset})
            network.heal()
            found = await client.ask_again(asked, "list_committed_offsets", keys=["k"])
            if found["offsets"].get("k", -1) == offset:
                assert not told.value.is_definite, told.value
                return
        raise AssertionError("no commit reached a leader")


@pytest.mark.slow
async def test_a_node_that_lags_far_fetches_missing_entries(tmp_path: Path) -> None:
    """The gap exceeds the bytes that a leader sends in appends, so the node fetches them by requests."""
    async with Network(tmp_path, 3, "--groups", "1", "--timeout-ms", "5000", seed=15) as network:
        client = network.client()
        for name in network.names:
            await client.ask_again(name, "write", key="k", value=1)
        behind = next(name for name in network.names if name != network.leader)
        asked = next(name for name in network.names if name != behind)
        network.cut([behind])
        text = "x" * 200_000
        for number in range(60):
            assert (await client.ask(asked, "send", key="k", msg=[number, text]))["offset"] == number
        network.heal()

        async def poll(offset: int) -> object:
            return (await client.ask(behind, "poll", offsets={"k": offset}))["msgs"]

        for offset in range(60):
            messages = await until_async(partial(poll, offset))
            assert messages["k"][0] == [offset, [offset, text]]
        assert network.calls["bulk.entries"] + network.calls["bulk.append"] > 0, network.calls
