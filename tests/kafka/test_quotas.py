"""Client quotas over Kafka's protocol: throttle times in answers, and connections that are muted meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from struct import unpack
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.listener import KafkaListener
from raftlog.api.kafka.wire import schemas
from raftlog.api.kafka.wire.headers import is_flexible
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.security.client_rates import MUTATIONS, REQUESTS
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.memory_budget import MemoryBudget
from tests.kafka.guarded import ADMIN, make_nested
from tests.kafka.harness import make_request
from tests.small_journal import SMALL_JOURNAL

ME = Caller(ANONYMOUS, "tester", "127.0.0.1", "kafka")
SMALL, LARGE = (build_batch([NewRecord(None, b"x" * size)]) for size in (10, 30_000))


class Client:
    """Connection of a client to a listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, key: ApiKey, version: int, **fields: Any) -> None:
        body = make_nested(schemas.request_class(key), fields).encode(version=version)
        self._writer.write(make_request(key, version, bytes(body)))
        await self._writer.drain()

    async def receive(self, key: ApiKey, version: int) -> Any:
        (size,) = unpack(">i", await self._reader.readexactly(4))
        content = await self._reader.readexactly(size)
        head = 5 if is_flexible(key, version) and key is not ApiKey.API_VERSIONS else 4
        return schemas.answer_class(key).decode(content[head:], version=version)

    async def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        await self.send(key, version, **fields)
        return await self.receive(key, version)

    async def produce(self, batch: bytes, version: int = 9) -> Any:
        topic = {"name": "t", "partition_data": [{"index": 0, "records": batch}]}
        return await self.ask(ApiKey.PRODUCE, version, acks=-1, timeout_ms=5_000, topic_data=[topic])

    def close(self) -> None:
        self._writer.close()


class Served:
    """Broker with a listener on a free port."""

    def __init__(self, broker: Broker, port: int) -> None:
        self.broker, self._port = broker, port
        self._clients: list[Client] = []

    async def connect(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port))
        self._clients.append(client)
        return client

    async def limit(self, entity: dict[str, str], **values: float) -> None:
        quotas = self.broker.security.quotas
        await quotas.alter(entity, values, caller=ADMIN, deadline=deadline_in(10_000), dry_run=False)

    def close(self) -> None:
        for client in self._clients:
            client.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
    listener = KafkaListener(broker, "127.0.0.1", 0, "", MemoryBudget(1 << 24))
    await listener.start()
    await broker.start("127.0.0.1:1", {"kafka": listener.address})
    await broker.create_topic("t", 1, deadline=deadline_in(10_000))
    found = Served(broker, int(listener.address.rpartition(":")[2]))
    yield found
    found.close()
    await listener.stop(0.1, 0.1)
    await broker.close()


@pytest.mark.parametrize("version", [3, 8, 9])
async def test_a_producer_is_answered_at_once_and_muted(served: Served, version: int) -> None:
    client, other = await served.connect(), await served.connect()
    assert (await client.produce(SMALL, version)).throttle_time_ms == 0
    await served.limit({"client-id": "tester"}, producer_byte_rate=20_000.0)
    began = time.monotonic()
    answer = await client.produce(LARGE, version)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert 300 <= answer.throttle_time_ms <= 600, "30 kB, 20 kB of them at once"
    assert time.monotonic() - began < answer.throttle_time_ms / 1000, "the answer is not delayed"
    assert (await client.produce(SMALL, version)).responses[0].partition_responses[0].base_offset == 2
    assert time.monotonic() - began > answer.throttle_time_ms / 1000, "the next request is"
    await served.limit({"client-id": "tester"}, producer_byte_rate=1e9)
    assert (await other.produce(LARGE, version)).throttle_time_ms == 0


@pytest.mark.parametrize("version", [4, 7, 12])
async def test_a_reader_is_throttled_by_the_bytes_that_it_gets(served: Served, version: int) -> None:
    client = await served.connect()
    await client.produce(LARGE)
    await served.limit({"user": ANONYMOUS}, consumer_byte_rate=20_000.0)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    answer = await client.ask(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [partition]}],
        forgotten_topics_data=[],
    )
    assert len(answer.responses[0].partitions[0].records) > 30_000
    assert 300 <= answer.throttle_time_ms <= 600


async def test_other_requests_of_a_throttled_client_have_the_throttle_time(served: Served) -> None:
    await served.limit({"user": ""}, request_percentage=0.01)
    async with asyncio.timeout(30):
        while not served.broker.security.rates.delay_s(ME, REQUESTS):
            assert (await (await served.connect()).ask(ApiKey.METADATA, 8, topics=None)).topics
    answer = await (await served.connect()).ask(ApiKey.METADATA, 8, topics=None)
    assert answer.throttle_time_ms > 0


async def test_new_connections_of_an_address_are_limited(served: Served) -> None:
    await served.limit({"ip": ""}, connection_creation_rate=1.0)
    first, second = await served.connect(), await served.connect()
    assert (await first.ask(ApiKey.METADATA, 8, topics=None)).topics
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await second.ask(ApiKey.METADATA, 8, topics=None)


def new_topics(*names: str, partitions: int = 4) -> list[dict[str, Any]]:
    return [
        {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        for name in names
    ]


async def create(client: Client, version: int, *names: str, **fields: Any) -> tuple[list[int], int]:
    """Create topics; return the error codes and the throttle time."""
    asked = {"topics": new_topics(*names), "timeout_ms": 10_000, "validate_only": False, **fields}
    answer = await client.ask(ApiKey.CREATE_TOPICS, version, **asked)
    return [each.error_code for each in answer.topics], answer.throttle_time_ms


async def test_changes_of_partitions_above_the_quota_are_refused(served: Served) -> None:
    client = await served.connect()
    await served.limit({"user": ANONYMOUS}, controller_mutation_rate=0.5)
    assert (await create(client, 6, "v", validate_only=True)) == ([0], 0), "nothing was changed"
    codes, throttle_ms = await create(client, 6, "a", "b")
    assert codes == [0, ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert 4_000 <= throttle_ms <= 6_000, "4 partitions, one of them at once"
    began = time.monotonic()
    codes, throttle_ms = await create(client, 6, "t")
    assert codes == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    deleted = await client.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["a"], timeout_ms=10_000)
    assert [each.error_code for each in deleted.responses] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert deleted.throttle_time_ms > 0
    grown = await client.ask(
        ApiKey.CREATE_PARTITIONS,
        3,
        topics=[{"name": "a", "count": 5, "assignments": None}],
        timeout_ms=10_000,
        validate_only=False,
    )
    assert [each.error_code for each in grown.results] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    assert time.monotonic() - began < 3, "refusals do not mute the connection"
    assert served.broker.security.rates.throttles[MUTATIONS] == 4
    assert "b" not in served.broker.topics()


async def test_old_clients_change_partitions_and_are_muted(served: Served) -> None:
    client = await served.connect()
    await served.limit({"user": ANONYMOUS}, controller_mutation_rate=4.0)
    codes, throttle_ms = await create(client, 5, "a", "b")
    assert codes == [0, 0]
    assert 500 <= throttle_ms <= 1_000
    began = time.monotonic()
    assert (await client.ask(ApiKey.METADATA, 8, topics=None)).topics
    assert time.monotonic() - began > 0.4
