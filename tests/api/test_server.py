"""Start and stop of the HTTP server, and a status for every error class."""

import asyncio
import inspect
import resource

import aiohttp
import pytest

import raftlog
from raftlog import errors
from raftlog.api.client_listener import divide_connections, limit_connections
from raftlog.api.http.server.server import HttpServer
from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.values.error_codes import status_and_code
from tests.waiting import until


async def test_a_port_in_use_is_named_in_the_error(api):
    other = HttpServer(api.broker)
    with pytest.raises(InvalidArgument, match=f"{api.address[1]}: another program listens there"):
        await other.start(*api.address)
    await other.stop()


async def test_stopping_answers_waiting_fetches_at_once(api):
    await api.create_topic()
    waiting = asyncio.create_task(api.get("/topics/t/partitions/0/records?offset=0&timeout=60000"))
    await until(lambda: api.server._connections.requests_count)
    async with asyncio.timeout(2):
        await api.server.stop(10.0)
    assert await waiting == (200, [])


async def test_a_kept_connection_gets_one_more_answer_during_the_stop(api):
    await api.create_topic()
    assert (await api.get("/topics"))[0] == 200  # its connection is kept, and used below
    stopping = asyncio.create_task(api.server.stop(1.0, 10.0))
    await until(api.server._ends.stopping.done)
    async with asyncio.timeout(5), api.session.post(f"{api.url}/topics/t", json={"records": [{"value": 1}]}) as answer:
        assert answer.status == 200
        assert answer.headers["Connection"] == "close"
        await stopping


async def test_a_stopped_server_accepts_no_connection(api):
    await api.create_topic()
    await api.server.stop(1.0)
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.get("/topics")


async def test_acknowledged_records_survive_a_restart(start_api):
    api = await start_api()
    await api.create_topic()
    await api.post("/topics/t", {"records": [{"value": n} for n in range(100)]})
    await api.server.stop(1.0)
    await api.broker.close()
    again = await start_api()
    _, found = await again.get("/topics/t/partitions/0/records?offset=0")
    assert [record["value"] for record in found] == list(range(100))


async def test_unexpected_errors_are_answered_and_logged(api, caplog, monkeypatch):
    def fail():
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(api.broker, "topics", fail)
    status, body = await api.get("/topics")
    assert (status, body["error_code"], body["outcome"]) == (500, 50002, "unknown")
    assert "planted" in caplog.text


async def test_overload_returns_429(start_api):
    api = await start_api({"partition_pending_bytes_max": 64 * 1024})
    await api.create_topic(flush_messages="1")
    (partition,) = api.broker.parts.topics.find("t").partitions
    assert partition.queue._budgets[0].try_take(64 * 1024)
    status, body = await api.post("/topics/t?timeout=1", {"records": [{"value": 1}]})
    assert (status, body["error_code"], body["outcome"]) == (429, 42901, "failed")
    partition.queue._budgets[0].release(64 * 1024)
    assert (await api.post("/topics/t", {"records": [{"value": 1}]}))[0] == 200


async def test_a_full_disk_returns_507_and_reads_continue(api, monkeypatch):
    await api.create_topic()
    await api.post("/topics/t", {"records": [{"value": 1}]})
    room = api.broker.node.driver.room
    monkeypatch.setattr(room, "min_free_bytes", 1 << 60)
    room.check(has_waiting_entries=False, now=0.0)
    status, body = await api.post("/topics/t", {"records": [{"value": 2}]})
    assert (status, body["error_code"], body["outcome"]) == (507, 50701, "failed")
    assert (await api.get("/topics/t/partitions/0/records?offset=0"))[0] == 200


async def test_missing_descriptors_return_503_instead_of_507(api, monkeypatch):
    await api.create_topic()
    assert (await api.post("/topics/t", {"records": [{"value": 1}]}))[0] == 200
    driver = api.broker.node.driver
    with monkeypatch.context() as patched:
        for group in driver.groups.values():
            patched.setattr(group.log, "lacks_descriptors", True)
        status, body = await api.post("/topics/t", {"records": [{"value": 2}]})
        assert (status, body["error_code"], body["outcome"]) == (503, 50306, "failed")
        assert "--http-connections-max" in body["message"]
    with monkeypatch.context() as patched:
        patched.setattr(driver.descriptors, "shortage", "no file descriptors left")
        patched.setattr(driver.descriptors, "check", lambda has_waiting_entries: None)
        ready = await api.get("/v1/status/ready")
    assert ready == (503, {"status": "no_file_descriptors", "reason": "no file descriptors left"})
    assert await api.get("/v1/status/ready") == (200, {"status": "ready", "sync_method": "aio"})


def test_every_error_has_a_status_that_fits_its_outcome():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, RaftlogError)]
    for kind in kinds:
        status, code = status_and_code(kind.__new__(kind))
        assert (status == 504) == (kind.outcome == "unknown"), kind
        assert code == status or code // 100 == status, kind


async def test_a_connection_over_the_limit_is_refused_and_others_continue(start_api):
    api = await start_api(http_connections_max=2)
    await api.create_topic()
    first = await asyncio.open_connection(*api.address)
    second = await asyncio.open_connection(*api.address)
    await until(lambda: len(api.server._connections._open) >= 2)
    reader, writer = await asyncio.open_connection(*api.address)
    refusal = await reader.read()
    assert refusal.startswith(b"HTTP/1.1 503 ")
    assert b"--http-connections-max" in refusal
    writer.close()
    second[1].close()
    await until(lambda: len(api.server._connections._open) <= 1)
    assert (await api.get("/topics"))[0] == 200
    first[1].close()


def test_descriptors_are_reserved_for_the_log(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4_096, 4_096))
    assert limit_connections(10_000, 512) == 4_096 - 512 - 256
    assert limit_connections(100, 512) == 100
    assert divide_connections(10_000, 10_000, 0, 512) == (3_328, 10_000)
    assert divide_connections(10_000, 10_000, 1, 512) == (832, 2_496)
    assert divide_connections(10_000, 10_000, 2, 512) == (832, 1_248)
    assert divide_connections(10_000, 100, 2, 512) == (3_128, 100)
    assert divide_connections(100, 200, 2, 512) == (100, 200)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (512, 512))
    assert limit_connections(10_000, 512) == 128
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1_048_576, 1_048_576))
    assert limit_connections(10_000, 512) == 10_000


async def test_the_links_of_the_root_document_work(api):
    status, root = await api.get("/")
    assert (status, root["name"], root["version"]) == (200, "raftlog", raftlog.__version__)
    assert "docs/HTTP.md" in root["documentation"]
    assert root["links"]["openapi"] == "/openapi.json"
    for path in root["links"].values():
        async with api.session.get(api.url + path) as answer:
            assert answer.status == 200, path
