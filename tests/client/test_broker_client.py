"""`BrokerClient` against scripted brokers, and against servers that break the connection."""

import asyncio
from typing import Any

import orjson
import pytest
from aiohttp import web

from raftlog.client import BrokerClient, CommittedOffset, NotListening, calls
from raftlog.client.broker import BATCHES
from raftlog.errors import (
    InvalidArgument,
    OutcomeUnknown,
    Overloaded,
    Unavailable,
    UnknownTopic,
)
from raftlog.records import build_batch
from raftlog.types import Offset, TopicPartition

BATCH = bytes(build_batch([b"one", b"two"], now_ms=1))


def json_response(fields: Any, status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(fields), status=status, content_type="application/json")


async def test_produce_sends_batches_and_reads_offsets(scripted: Any) -> None:
    seen: dict[str, Any] = {}

    async def answer(request: web.BaseRequest) -> web.Response:
        seen.update(path=request.path_qs, type=request.content_type, body=await request.read())
        return json_response({"offsets": [{"partition": 3, "offset": 7, "error_code": None}], "next_offset": 9})

    async with BrokerClient([await scripted(answer)]) as client:
        produced = await client.produce_batches("a b", 3, BATCH, acks="1", timeout_ms=250)
    assert produced == (7, 9, False)
    assert seen == {
        "path": "/topics/a%20b/partitions/3?acks=1&timeout=250",
        "type": BATCHES,
        "body": BATCH,
    }


async def test_the_error_of_a_single_record_is_raised(scripted: Any) -> None:
    async def answer(_request: web.BaseRequest) -> web.Response:
        row = {"partition": None, "offset": None, "error_code": 42901, "error": "slow down", "outcome": "failed"}
        return json_response({"offsets": [row]})

    async with BrokerClient([await scripted(answer)]) as client:
        with pytest.raises(Overloaded, match="slow down"):
            await client.produce_batches("t", 0, BATCH)


async def test_fetch_returns_batches_and_bounds(scripted: Any) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        assert request.headers["Accept"] == BATCHES
        assert dict(request.query) == {"offset": "4", "timeout": "5", "max_bytes": "6"}
        bounds = {"X-Raftlog-High-Watermark": "12", "X-Raftlog-Log-Start": "3"}
        return web.Response(body=BATCH, headers=bounds | {"X-Raftlog-Topic-Id": "some-uuid"})

    async with BrokerClient([await scripted(answer)]) as client:
        fetched = await client.fetch_batches("t", 0, 4, timeout_ms=5, max_bytes=6)
    assert fetched == (BATCH, 12, 3, "some-uuid")


async def test_cluster_metadata_are_read_and_their_brokers_used(scripted: Any) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path != "/v1/cluster_view":
            return json_response(["t"])
        topic = {
            "name": "t",
            "topic_id": "id",
            "partitions": [{"partition": n, "replicas": [2], "leader_hint": hint} for n, hint in enumerate((2, None))],
        }
        brokers = [{"node_id": 1, "http_address": None}, {"node_id": 2, "http_address": address}]
        return json_response(
            {"cluster_id": "c", "controller_id": 2, "brokers": brokers, "topics": [topic], "version": 5}
        )

    address = await scripted(answer)
    first = await scripted(answer)
    async with BrokerClient([first]) as client:
        view = await client.cluster_view()
        assert (view.cluster_id, view.http, view.topics["t"].leaders) == ("c", {2: address}, (2, None))
        assert view.topics["t"].topic_id == "id"
        assert client._transport._addresses == [first, address]


async def test_errors_of_the_broker_are_raised_with_their_class(scripted: Any) -> None:
    async def answer(_request: web.BaseRequest) -> web.Response:
        return json_response({"error_code": 40401, "message": "no topic 'x'", "outcome": "failed"}, 404)

    async with BrokerClient([await scripted(answer)]) as client:
        with pytest.raises(UnknownTopic, match="no topic 'x'"):
            await client.offsets("x", 0)


async def test_the_next_address_is_tried_and_then_preferred(scripted: Any, free_address: str) -> None:
    calls = 0

    async def answer(_request: web.BaseRequest) -> web.Response:
        nonlocal calls
        calls += 1
        return json_response(["t"])

    async with BrokerClient([free_address, await scripted(answer)]) as client:
        assert await client.topics() == ["t"]
        assert client._transport._addresses[1] == free_address
        assert await client.topics() == ["t"]
    assert calls == 2


async def test_a_retry_goes_to_another_broker_than_one_that_is_unavailable(scripted: Any) -> None:
    async def refuse(_request: web.BaseRequest) -> web.Response:
        return json_response({"error_code": 50301, "message": "no leader", "outcome": "failed"}, status=503)

    async def answer(_request: web.BaseRequest) -> web.Response:
        return json_response(["t"])

    async with BrokerClient([await scripted(refuse), await scripted(answer)]) as client:
        with pytest.raises(Unavailable, match="no leader"):
            await client.topics()
        assert await client.topics() == ["t"]


async def test_an_address_without_a_listener_is_reported(free_address: str) -> None:
    async with BrokerClient([free_address]) as client:
        with pytest.raises(NotListening, match=f"{free_address}: connection refused") as raised:
            await client.produce_batches("t", 0, BATCH)
        assert raised.value.outcome == "failed"
        assert not await client.ready()


async def test_a_produce_with_a_broken_connection_is_unknown_and_not_repeated(silent: Any, scripted: Any) -> None:
    repeated = 0

    async def answer(_request: web.BaseRequest) -> web.Response:
        nonlocal repeated
        repeated += 1
        return json_response({"offsets": [{"offset": 0, "error_code": None}], "next_offset": 2})

    broken = await silent(lambda writer: writer.close())
    async with BrokerClient([broken, await scripted(answer)]) as client:
        with pytest.raises(OutcomeUnknown, match="sent and not answered"):
            await client.produce_batches("t", 0, BATCH)
    assert repeated == 0


async def test_a_read_with_a_broken_connection_is_repeated_at_another_broker(silent: Any, scripted: Any) -> None:
    async def answer(_request: web.BaseRequest) -> web.Response:
        return json_response(["t"])

    broken = await silent(lambda writer: writer.close())
    async with BrokerClient([broken, await scripted(answer)]) as client:
        assert await client.topics() == ["t"]


async def test_a_missing_answer_is_unknown_for_writes_and_unavailable_for_reads(
    silent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "GRACE_MS", 0)
    kept: list[asyncio.StreamWriter] = []
    async with BrokerClient([await silent(kept.append)]) as client:
        with pytest.raises(OutcomeUnknown, match=r"no answer within 0\.05 s"):
            await client.produce_batches("t", 0, BATCH, timeout_ms=50)
        with pytest.raises(Unavailable, match="no answer within") as raised:
            await client.fetch_batches("t", 0, 0, timeout_ms=50)
        assert not isinstance(raised.value, NotListening)


async def test_a_truncated_answer_is_unknown(silent: Any) -> None:
    def half(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        writer.close()

    async with BrokerClient([await silent(half)]) as client:
        with pytest.raises(OutcomeUnknown):
            await client.produce_batches("t", 0, BATCH)


async def test_a_server_that_is_not_raftlog_is_reported(scripted: Any) -> None:
    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="<html>hello</html>")

    async with BrokerClient([await scripted(answer)]) as client:
        with pytest.raises(Unavailable, match="not JSON"):
            await client.topics()


async def test_group_offsets_are_committed_and_read(scripted: Any) -> None:
    stored: list[dict[str, Any]] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.method == "POST":
            stored.extend(orjson.loads(await request.read())["offsets"])
            return web.Response(status=204)
        return json_response({"offsets": stored})

    async with BrokerClient([await scripted(answer)]) as client:
        await client.groups.commit("g", {TopicPartition("t", 1): 5})
        assert await client.groups.committed("g") == {TopicPartition("t", 1): CommittedOffset(Offset(5))}


@pytest.mark.parametrize("address", ["", "host:", ":1", "host:99999", "host:x", "ftp://host:1", "ho st:1"])
async def test_invalid_addresses_are_refused(address: str) -> None:
    with pytest.raises(InvalidArgument, match="HOST:PORT"):
        BrokerClient([address])


async def test_a_client_without_an_address_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no broker address"):
        BrokerClient([])


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_topic_names_that_would_change_the_path_are_refused(name: str, free_address: str) -> None:
    async with BrokerClient([free_address]) as client:
        with pytest.raises(InvalidArgument):
            await client.describe_topic(name)


async def test_discovered_brokers_are_used_when_the_configured_ones_are_down(scripted: Any) -> None:
    async def other(request: web.BaseRequest) -> web.Response:
        return json_response(["from the other"])

    rows = [
        {"node_id": node, "is_alive": True, "membership_status": "active", "version": "1", "http_address": address}
        for node, address in ((1, "nonsense"), (2, await scripted(other)))
    ]

    async def first(request: web.BaseRequest) -> web.Response:
        if request.path == "/v1/brokers":
            return json_response(rows)
        assert request.transport is not None
        request.transport.abort()
        return json_response([])

    async with BrokerClient([await scripted(first)]) as client:
        await client.find_all_brokers()
        assert await client.topics() == ["from the other"]


async def test_the_answer_distinguishes_a_repeated_batch_from_a_new_one(scripted: Any) -> None:
    async def answer(_request: web.BaseRequest) -> web.Response:
        row = {"partition": 3, "offset": 7, "error_code": None, "duplicate": True}
        return json_response({"offsets": [row], "next_offset": 9})

    async with BrokerClient([await scripted(answer)]) as client:
        assert await client.produce_batches("t", 3, BATCH) == (7, 9, True)
