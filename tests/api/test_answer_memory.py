"""Memory for answers: bounded for all readers together, released when readers disconnect; a stalled tail holds none."""

import asyncio
import contextlib
import io
import socket

import orjson
import pytest

from raftlog.api.http.records import tail
from raftlog.api.http.server import paced_answer
from raftlog.api.http.server.answer_memory import UNCHARGED_BYTES, AnswerMemory
from raftlog.errors import MemoryBudgetExceeded
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.topic_config import MIB
from tests.waiting import until, until_async

BATCHES = "application/vnd.raftlog.batches"
JSON = "application/vnd.kafka.json.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
NDJSON = "application/x-ndjson"
RECORDS = "/topics/t/partitions/0/records"
READERS = 16
LARGE_BYTES = 5 * MIB
"""More than the system buffers for one connection that is not read."""


class SlowReader:
    """Connection that sends one GET and reads only on request; its socket buffer is small."""

    def __init__(self, connection):
        self.connection = connection

    @classmethod
    async def connect(cls, api, path, accept):
        """Send a GET request over a connection with a receive buffer of 4 KiB, whose answer the server must hold."""
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, api.address)
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        await loop.sock_sendall(connection, head.encode())
        return cls(connection)

    async def read_status(self):
        return int((await asyncio.get_running_loop().sock_recv(self.connection, 12)).split(b" ")[1])

    async def read_rest(self):
        """Read until the connection ends or is reset; return the data."""
        found = []
        with contextlib.suppress(ConnectionResetError):
            while piece := await asyncio.get_running_loop().sock_recv(self.connection, MIB):
                found.append(piece)
        return b"".join(found)

    def close(self):
        self.connection.close()


async def produce_large_batches(api, count, value_bytes=MIB // 2, compression=0):
    for number in range(count):
        value = orjson.dumps(f"{number} " + "v" * value_bytes)
        batch = bytes(build_batch([NewRecord(value, b"1")], compression=compression))
        status, _ = await api.post("/topics/t/partitions/0", data=io.BytesIO(batch), headers={"Content-Type": BATCHES})
        assert status == 200


@pytest.mark.parametrize("accept", [BATCHES, JSON])
async def test_slow_readers_of_large_answers_share_the_memory_for_answers(start_api, accept):
    api = await start_api({"memory_budget_bytes": 64 * MIB})
    answers = api.server.answers
    await api.create_topic()
    await api.create_topic("small")
    await api.post("/topics/small", {"records": [{"value": 1}]})
    await produce_large_batches(api, 8, LARGE_BYTES)
    path = f"{RECORDS}?offset=0&max_bytes={16 * MIB}"
    readers = [await SlowReader.connect(api, path, accept) for _ in range(READERS)]
    statuses = [await reader.read_status() for reader in readers]
    assert set(statuses) == {200, 503}
    assert statuses.count(200) >= 2
    assert answers.limit // 2 < answers.used <= answers.limit
    status, refused = await api.get(path, headers={"Accept": accept})
    assert (status, refused["error_code"], refused["outcome"]) == (503, 50305, "failed")
    async with api.session.get(api.url + path, headers={"Accept": accept}) as response:
        assert response.headers["Retry-After"] == "1"
    status, small = await api.get("/topics/small/partitions/0/records?offset=0")
    assert (status, len(small)) == (200, 1)
    whole = readers.pop(statuses.index(200))
    assert len(await whole.read_rest()) > MIB
    for reader in (whole, *readers):
        reader.close()
    await until(lambda: answers.used == 0)
    status, found = await api.get(path, headers={"Accept": JSON})
    assert status == 200
    assert found
    await until(lambda: answers.used == 0)


async def test_a_reader_that_reads_nothing_is_disconnected(start_api, monkeypatch):
    monkeypatch.setattr(paced_answer, "STALL_S", 0.1)
    api = await start_api()
    await api.create_topic()
    await produce_large_batches(api, 16)
    reader = await SlowReader.connect(api, f"{RECORDS}?offset=0&max_bytes={16 * MIB}", BATCHES)
    assert await reader.read_status() == 200
    await until(lambda: api.server.answers.used == 0)
    assert len(await reader.read_rest()) < 16 * (MIB // 2)
    reader.close()


@pytest.mark.parametrize("accept", [BATCHES, JSON])
async def test_a_large_answer_is_complete(api, accept):
    await api.create_topic()
    await produce_large_batches(api, 6)
    async with api.session.get(api.url + f"{RECORDS}?offset=0&max_bytes={8 * MIB}", headers={"Accept": accept}) as got:
        body = await got.read()
        assert got.headers["X-Raftlog-Next-Offset"] == "6"
        assert int(got.headers["Content-Length"]) == len(body)
    if accept == JSON:
        assert [each["value"][:2] for each in orjson.loads(body)] == [f"{number} " for number in range(6)]
    await until(lambda: api.server.answers.used == 0)


async def test_a_waiting_fetch_holds_no_memory(api):
    await api.create_topic()
    waiting = asyncio.ensure_future(api.get(f"{RECORDS}?offset=0&timeout=20000&max_bytes={8 * MIB}"))

    async def is_waiting():
        return (await api.broker.measuring.read_figures()).waiting_fetches == 1

    await until_async(is_waiting)
    assert api.server.answers.used == 0
    await produce_large_batches(api, 1)
    status, found = await waiting
    assert (status, len(found)) == (200, 1)


async def test_stalled_tails_hold_no_memory_and_resume(start_api, monkeypatch):
    monkeypatch.setattr(tail, "HELD_S", 0.1)
    api = await start_api({"memory_budget_bytes": 32 * MIB})
    answers = api.server.answers
    await api.create_topic()
    await produce_large_batches(api, 12, 2 * MIB, compression=1)
    readers = [await SlowReader.connect(api, f"{RECORDS}?offset=0", NDJSON) for _ in range(12)]
    assert [await reader.read_status() for reader in readers] == [200] * len(readers)
    await until(lambda: answers.used == 0)
    last = readers.pop()
    for reader in readers:
        reader.close()
    lines = (await last.read_rest()).partition(b"\r\n\r\n")[2]
    assert lines.count(b'"value":') == 12
    assert all(b'"value":"%d ' % number in lines for number in range(12))
    last.close()
    await until(lambda: answers.used == 0)


async def test_a_decompressed_batch_counts_towards_the_answers_memory(start_api):
    api = await start_api({"memory_budget_bytes": 32 * MIB})
    await api.create_topic()
    await produce_large_batches(api, 1, 8 * MIB, compression=1)
    held = AnswerMemory(api.server.answers)
    held.add(8 * MIB)
    status, body = await api.get(f"{RECORDS}?offset=0")
    assert (status, body["error_code"]) == (503, 50305)
    held.release()
    assert (await api.get(f"{RECORDS}?offset=0"))[0] == 200
    await until(lambda: api.server.answers.used == 0)


async def test_polls_are_complete_and_release_their_memory(start_api):
    api = await start_api({"memory_budget_bytes": 32 * MIB})
    answers = api.server.answers
    await api.create_topic()
    await produce_large_batches(api, 10)
    headers = {"Content-Type": "application/vnd.kafka.v2+json"}
    made, _ = await api.post(
        "/consumers/g", {"name": "i", "format": "json", "auto.offset.reset": "earliest"}, headers=headers
    )
    assert made == 200
    instance = "/consumers/g/instances/i"
    await api.post(instance + "/assignments", {"partitions": [{"topic": "t", "partition": 0}]}, headers=headers)
    held = AnswerMemory(answers)
    held.add(answers.limit)
    status, refused = await api.get(f"{instance}/records", headers={"Accept": JSON})
    assert (status, refused["error_code"]) == (503, 50305)
    held.release()
    found = []
    async with asyncio.timeout(20):
        while len(found) < 10:
            status, rows = await api.get(f"{instance}/records?max_bytes={8 * MIB}", headers={"Accept": JSON})
            assert status == 200
            found += [row["offset"] for row in rows]
    assert found == list(range(10))
    await until(lambda: answers.used == 0)


def test_an_answer_gets_at_most_half_of_the_free_memory():
    budget = MemoryBudget(8 * MIB)
    first, second = AnswerMemory(budget), AnswerMemory(budget)
    assert first.room(MIB) == MIB
    assert first.room(64 * MIB) == 4 * MIB
    first.add(4 * MIB)
    assert second.room(64 * MIB) == 2 * MIB
    assert second.room(1000) == 1000
    second.add(UNCHARGED_BYTES)
    assert budget.used == 4 * MIB
    second.add(1)
    assert budget.used == 4 * MIB + UNCHARGED_BYTES + 1
    with pytest.raises(MemoryBudgetExceeded):
        second.add(8 * MIB)
    assert budget.refused == 1
    second.release_part(1)
    assert budget.used == 4 * MIB
    first.release()
    second.release()
    assert budget.used == first.size == second.size == 0


def test_an_answer_that_may_not_be_refused_exceeds_the_limit():
    budget = MemoryBudget(MIB)
    with AnswerMemory(budget) as other, AnswerMemory(budget, is_forced=True) as forced:
        other.add(MIB)
        forced.add(MIB)
        assert budget.used == 2 * MIB
    assert budget.used == 0


def test_without_free_memory_an_answer_is_small_or_a_single_batch():
    budget = MemoryBudget(MIB)
    with AnswerMemory(budget) as other, AnswerMemory(budget) as memory:
        other.add(3 * MIB)
        assert memory.room(UNCHARGED_BYTES) == UNCHARGED_BYTES
        assert memory.room(UNCHARGED_BYTES + 1) == 1


def test_waiting_polls_share_the_free_memory():
    """The promises of all polls together stay within the free memory, except the minimum that every answer may use."""
    budget = MemoryBudget(8 * MIB)
    waiting = [AnswerMemory(budget, is_forced=True) for _ in range(20)]
    promised = [each.reserve(64 * MIB) for each in waiting]
    assert promised[:3] == [4 * MIB, 2 * MIB, MIB]
    assert promised[-1] == UNCHARGED_BYTES
    assert sum(promised[:6]) <= budget.free
    assert AnswerMemory(budget).room(64 * MIB) == 4 * MIB, "fetches do not wait for what is promised"
    waiting[0].end_reservation()
    assert AnswerMemory(budget).reserve(64 * MIB) > MIB, "half of what became free"
    waiting[0].add(MIB)
    budget_left = budget.promised
    waiting[1].release()
    assert budget.promised == budget_left - 2 * MIB
    for each in waiting:
        each.release()


async def test_a_finished_poll_keeps_no_promised_memory(api):
    await api.create_topic()
    headers = {"Content-Type": "application/vnd.kafka.v2+json"}
    await api.post("/consumers/g", {"name": "i", "auto.offset.reset": "earliest"}, headers=headers)
    instance = "/consumers/g/instances/i"
    await api.post(instance + "/assignments", {"partitions": [{"topic": "t", "partition": 0}]}, headers=headers)
    polling = asyncio.ensure_future(api.get(f"{instance}/records?timeout=20000", headers={"Accept": BINARY}))
    await until(lambda: api.server.answers.promised)
    await produce_large_batches(api, 1)
    assert (await polling)[0] == 200
    assert api.server.answers.promised == 0
    status, _ = await api.get("/consumers/g/instances/nobody/records", headers={"Accept": BINARY})
    assert (status, api.server.answers.promised) == (404, 0)
