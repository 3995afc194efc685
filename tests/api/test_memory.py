"""Memory for request bodies: reserved as bytes arrive, and bounded for all connections together."""

import asyncio
import io

import orjson
import pytest

from raftlog.api.http.server import bodies
from raftlog.api.http.server.held_memory import WAITING_MAX, HeldMemory
from raftlog.errors import MemoryBudgetExceeded
from raftlog.partitions.deadline import deadline_in
from raftlog.runtime.memory_budget import MemoryBudget, MemoryShares
from raftlog.topic_config import MIB
from tests.waiting import until

JSON = "application/vnd.kafka.json.v2+json"


class Sender:
    """Connection that sends a body in pieces."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, api, announced, path="/topics/t", kind=JSON):
        reader, writer = await asyncio.open_connection(*api.address)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {announced}\r\n\r\n"
        writer.write(head.encode())
        return cls(reader, writer)

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def read_answer(self):
        """Return status, headers and JSON body."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        body = await self.reader.readexactly(int(headers["content-length"]))
        self.writer.close()
        return int(status.split(" ")[1]), headers, orjson.loads(body)


async def wait_for_used_bytes(api, size):
    """Wait until request bodies hold at least `size` bytes."""
    await until(lambda: api.server.bodies.memory.used >= size)


def make_body(size):
    return b'{"records":[{"value":"' + b"x" * (size - 25) + b'"}]}'


async def test_an_announced_length_reserves_no_memory(start_api):
    api = await start_api({"memory_budget_bytes": 8 * MIB}, body_bytes_max=64 * MIB)
    await api.create_topic()
    slow = [await Sender.connect(api, 64 * MIB) for _ in range(2)]
    for sender in slow:
        await sender.send(b"{")
    await wait_for_used_bytes(api, 2)
    async with asyncio.timeout(5):
        status, _ = await api.post("/topics/t", data=make_body(900_000), headers={"Content-Type": JSON})
    assert status == 200
    assert api.server.bodies.memory.used == 2
    for sender in slow:
        sender.writer.close()


async def test_a_body_that_arrives_too_slowly_is_refused(start_api, monkeypatch):
    monkeypatch.setattr(bodies, "_WINDOW_S", 0.1)
    api = await start_api(body_bytes_per_s_min=10_000)
    await api.create_topic()
    sender = await Sender.connect(api, 2_000_000)
    await sender.send(b" " * 5_000)
    status, _, body = await sender.read_answer()
    assert (status, body["error_code"], body["outcome"]) == (408, 40801, "failed")
    assert api.server.bodies.memory.used == 0


async def test_a_body_without_free_memory_is_refused_with_retry_after(start_api):
    api = await start_api({"memory_budget_bytes": 8 * MIB}, body_timeout_ms=2_000)
    await api.create_topic()
    limit = api.server.bodies.memory.limit
    held = HeldMemory(api.server.bodies.memory)
    assert held.try_cover(limit)
    sender = await Sender.connect(api, 300_000)
    await sender.send(b" " * 250_000)
    status, headers, body = await sender.read_answer()
    assert (status, body["error_code"], headers["retry-after"]) == (503, 50305, "1")
    held.release()
    assert (await api.post("/topics/t", data=make_body(900_000), headers={"Content-Type": JSON}))[0] == 200


async def test_bodies_that_exceed_the_memory_together_are_served_in_turn(start_api):
    api = await start_api({"memory_budget_bytes": 4 * MIB})
    await api.create_topic()

    async def post(_):
        return await api.post("/topics/t", data=make_body(1_000_000), headers={"Content-Type": JSON})

    assert {status for status, _ in await asyncio.gather(*map(post, range(12)))} == {200}
    assert api.server.bodies.memory.used == 0


@pytest.mark.parametrize("path", ["/v1/cluster_config", "/v3/clusters/-/topics", "/groups/g/offsets"])
async def test_json_without_records_over_its_limit_is_refused(api, path):
    method = "PUT" if path == "/v1/cluster_config" else "POST"
    data = io.BytesIO(b"[" + b"{}," * 600_000 + b"0]")
    status, body = await api.call(method, path, data=data, headers={"Content-Type": "application/json"})
    assert (status, body["error_code"]) == (413, 413)


async def test_few_bodies_may_wait_for_memory():
    budget = MemoryBudget(10)
    owners = [HeldMemory(budget) for _ in range(WAITING_MAX + 2)]
    assert owners[0].try_cover(10)
    waiting = [asyncio.ensure_future(owner.cover(5, deadline_in(60_000))) for owner in owners[1:-1]]
    await asyncio.sleep(0)
    with pytest.raises(MemoryBudgetExceeded):
        await owners[-1].cover(1, deadline_in(60_000))
    waiting.pop().cancel()
    owners[0].release()
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert done == set(waiting[:2])
    for owner, task in zip(owners[1:], waiting, strict=False):
        await task
        owner.release()
    assert budget.used == 0


def test_the_shares_add_up_to_the_budget():
    assert sum(MemoryShares.divide(256 * MIB + 3)) == 256 * MIB + 3
