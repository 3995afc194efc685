"""Client quotas over HTTP: 429 with `Retry-After` for requests, a slower pace for streams, refused connections."""

import asyncio
import time
from typing import Any

import aiohttp
import pytest

from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.deadline import deadline_in
from tests.api.conftest import Api
from tests.waiting import until_async

ME = Caller(ANONYMOUS, "", "127.0.0.1", "http")


async def set_quota(api: Api, entity: dict[str, str], **values: float) -> None:
    await api.broker.security.quotas.alter(entity, values, caller=ME, deadline=deadline_in(10_000), dry_run=False)


async def produce(api: Api, size: int) -> tuple[int, str | None]:
    """Produce a record of a size; return status and `Retry-After`."""
    body = {"records": [{"value": "x" * size}]}
    async with api.session.post(f"{api.url}/topics/t", json=body) as response:
        return response.status, response.headers.get("Retry-After")


async def test_a_producer_above_its_quota_is_refused_until_it_may_go_on(api: Api) -> None:
    await api.create_topic()
    await set_quota(api, {"user": ANONYMOUS}, producer_byte_rate=20_000.0)
    assert [await produce(api, size) for size in (1_000, 30_000)] == [(200, None)] * 2
    status, retry_after = await produce(api, 10)
    assert (status, retry_after) == (429, "1")
    status, refused = await api.post("/topics/t", {"records": [{"value": 1}]})
    assert (status, refused["error_code"], refused["outcome"]) == (429, 42901, "failed")
    assert (await api.get("/topics/t/partitions/0/records?offset=0"))[0] == 200, "reading has another quota"

    async def is_accepted() -> bool:
        return (await produce(api, 10))[0] != 429

    await until_async(is_accepted)
    await set_quota(api, {"user": ANONYMOUS}, producer_byte_rate=1e9)
    assert (await produce(api, 50_000))[0] == (await produce(api, 50_000))[0] == 200


async def test_a_reader_above_its_quota_is_refused(api: Api) -> None:
    await api.create_topic()
    await produce(api, 50_000)
    await set_quota(api, {"user": ""}, consumer_byte_rate=10_000.0)
    path = "/topics/t/partitions/0/records?offset=0"
    assert (await api.get(path))[0] == 200
    async with api.session.get(api.url + path) as response:
        assert response.status == 429
        assert 3 <= int(response.headers["Retry-After"]) <= 5
    assert (await produce(api, 10))[0] == 200


async def test_a_share_of_the_loop_limits_every_request(api: Api) -> None:
    await set_quota(api, {"user": ANONYMOUS}, request_percentage=0.001)
    assert (await api.get("/topics"))[0] == 200
    async with asyncio.timeout(30):
        while (await api.get("/topics"))[0] == 200:
            pass
    assert (await api.get("/brokers"))[0] == 429


async def test_a_stream_is_slowed_down_and_not_refused(api: Api) -> None:
    await api.create_topic()
    await set_quota(api, {"user": ANONYMOUS}, producer_byte_rate=200_000.0)
    lines = b"".join(b'{"value": "%b"}\n' % (b"x" * 1_000) for _ in range(500))
    began = time.monotonic()
    headers = {"Content-Type": "application/x-ndjson"}
    async with api.session.post(f"{api.url}/topics/t", data=lines, headers=headers) as response:
        found: Any = await response.json(content_type=None)
    assert (response.status, found["records"]) == (200, 500)
    assert time.monotonic() - began > 1, "500 kB at 200 kB/s, after a burst of one second"


async def test_changes_of_partitions_above_the_quota_are_refused(api: Api) -> None:
    await set_quota(api, {"user": ANONYMOUS}, controller_mutation_rate=0.5)
    topics = "/v3/clusters/-/topics"
    body = {"topic_name": "a", "partitions_count": 3}
    assert (await api.post(topics, body | {"validate_only": True}))[0] == 200
    assert (await api.post(topics, body))[0] == 201
    for method, path, sent in (
        ("POST", topics, {"topic_name": "b"}),
        ("PATCH", f"{topics}/a", {"partitions_count": 4}),
        ("DELETE", f"{topics}/a", None),
    ):
        async with api.session.request(method, api.url + path, json=sent) as response:
            refused = await response.json()
            assert (response.status, refused["error_code"], refused["outcome"]) == (429, 42901, "failed"), method
            assert 2 <= int(response.headers["Retry-After"]) <= 5
    assert (await api.get("/topics"))[1] == ["a"]
    async with api.session.get(f"{api.url}/metrics") as response:
        assert b'raftlog_quota_throttles_total{quota="controller_mutation_rate"} 3.0' in await response.read()


async def test_new_connections_of_an_address_are_limited(api: Api) -> None:
    await set_quota(api, {"ip": "127.0.0.1"}, connection_creation_rate=2.0)
    statuses = []
    for _ in range(4):
        async with aiohttp.ClientSession() as session, session.get(f"{api.url}/topics") as response:
            statuses.append(response.status)
    assert statuses == [200, 200, 429, 429]


async def test_without_quotas_nothing_is_counted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.create_topic()
    rates = api.broker.security.rates
    assert not rates.is_on
    for name in ("charge", "delay_s", "admits"):
        monkeypatch.setattr(type(rates), name, None)
    assert (await produce(api, 10))[0] == 200
