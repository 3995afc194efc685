"""Three real brokers: permissions and users that end while requests of all kinds wait or stream, at every broker."""

import asyncio
import contextlib
import threading
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Final

import aiohttp
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from raftlog.client.sync import BrokerClient
from raftlog.security.client_tls import ClientTlsFiles, client_context
from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.waiting import until_async

READ_TOPIC: Final = "read"
"""Topic without records, on which readers wait."""
WRITTEN_TOPIC: Final = "written"
GROUP: Final = "readers"
PASSWORD: Final = "pencil"
REVOKED_S: Final = 1.0
DELETED_S: Final = 5.0
WAITING_S: Final = 40
WAITING_READS: Final = 10
"""A long poll, a tail and a consumer poll at each of three brokers, and a fetch of librdkafka."""
LINE_PAUSE_S: Final = 0.05
"""Pause of a streamed body between two lines."""
FETCHES_WAITING: Final = "raftlog_fetches_waiting "
LIBRDKAFKA: Final = "fetch of librdkafka"
NDJSON: Final = {"Content-Type": "application/x-ndjson", "Accept": "application/x-ndjson"}
NUMBERS: Final = count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, secure=True, with_cuts=False, ready_timeout_s=120) as cluster:
        with BrokerClient(cluster.access) as client:
            for topic in (READ_TOPIC, WRITTEN_TOPIC):
                client.create_topic(topic, 3, 3)
        cluster.wait_healthy()
        yield cluster


def order(cluster: Cluster, method: str, path: str, body: Any = None) -> None:
    """Send a request of the superuser to the third broker."""
    status, answer = ask(cluster.nodes[3].http, path, method=method, body=body, access=cluster.access)
    assert status in (200, 204), answer


def put_acls(cluster: Cluster, name: str, permission: str, *rows: tuple[str, str, str]) -> None:
    acls = [
        {
            "resource_type": kind,
            "resource_name": resource,
            "principal": f"User:{name}",
            "operation": operation,
            "permission": permission,
        }
        for kind, resource, operation in rows
    ]
    order(cluster, "POST", "/v1/security/acls", {"acls": acls})


@pytest.fixture
def name(cluster: Cluster) -> str:
    """Return a new user, who may do everything with the topics and the group, and read metrics."""
    name = f"user-{next(NUMBERS)}"
    order(cluster, "POST", "/v1/security/users", {"name": name, "password": PASSWORD})
    allowed = [("TOPIC", READ_TOPIC, "ALL"), ("TOPIC", WRITTEN_TOPIC, "ALL"), ("GROUP", GROUP, "ALL")]
    put_acls(cluster, name, "ALLOW", *allowed, ("CLUSTER", "kafka-cluster", "DESCRIBE"))
    return name


class Waiting:
    """Requests of one user that wait at all brokers: long polls, tails, consumer polls, streamed bodies, fetches."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        assert cluster.security is not None
        self._cluster, self._name, self._ca = cluster, name, cluster.security.ca
        context = client_context(ClientTlsFiles(self._ca))
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        login = b64encode(f"{name}:{PASSWORD}".encode()).decode()
        self._session = aiohttp.ClientSession(connector=connector, headers={"Authorization": f"Basic {login}"})
        assert self._session._retry_connection, "aiohttp repeats a GET whose connection was closed"
        self._session._retry_connection = False
        self.ended: dict[str, tuple[float, str]] = {}
        """Time and outcome of each request that has ended."""
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = threading.Event()

    async def __aenter__(self) -> "Waiting":
        kinds: list[Callable[[str, int], Any]] = [self._poll, self._tail, self._stream, self._consume]
        for number, node in self._cluster.nodes.items():
            await self._wait_for_permission(node.http)
            await self._create_instance(node.http, number)
            for kind in kinds:
                self._begin(f"{kind.__name__} at {number}", kind(node.http, number))
        self._begin(LIBRDKAFKA, asyncio.to_thread(self._fetch))
        await self._wait_until_all_wait()
        assert not self.ended, self.ended
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()

    async def check_ends(self, seconds: float, began: float) -> None:
        """Wait until all requests have ended; none may take longer than so many seconds."""
        await asyncio.wait(self._tasks, timeout=seconds + 5)
        waiting = [task.get_name() for task in self._tasks if not task.done()]
        assert not waiting, f"{waiting} still wait; ended: {self.ended}"
        bounds = {LIBRDKAFKA: max(seconds, DELETED_S)}  # it has its own pace between fetches
        late = {
            name: (at - began, how) for name, (at, how) in self.ended.items() if at - began > bounds.get(name, seconds)
        }
        assert not late, late
        assert len(self.ended) == 13

    def _begin(self, name: str, work: Any) -> None:
        async def run() -> None:
            try:
                how = await work
            except (aiohttp.ClientError, ConnectionError) as error:
                how = f"cut off: {type(error).__name__}"
            self.ended[name] = time.monotonic(), how

        self._tasks.append(asyncio.create_task(run(), name=name))

    async def _wait_for_permission(self, http: str) -> None:
        """Wait until a broker knows the user and the entries."""

        async def is_allowed(topic: str) -> bool:
            async with self._session.get(f"{http}/topics/{topic}/partitions/0/offsets") as answer:
                return answer.status == 200

        for topic in (READ_TOPIC, WRITTEN_TOPIC):
            await until_async(partial(is_allowed, topic))

    async def _wait_until_all_wait(self) -> None:
        """Wait until the reads wait at leaders, and each stream has written a line."""
        http = self._cluster.nodes[3].http
        ends = [await self._end_offset(http, partition) for partition in range(3)]

        async def all_wait() -> bool:
            return await self._count_waiting() >= WAITING_READS

        async def has_grown(partition: int, end: int) -> bool:
            return await self._end_offset(http, partition) > end

        await until_async(all_wait)
        for partition, end in enumerate(ends):
            await until_async(partial(has_grown, partition, end))

    async def _count_waiting(self) -> int:
        """Return the number of fetches that wait for records at all brokers."""
        total = 0
        for node in self._cluster.nodes.values():
            async with self._session.get(f"{node.http}/metrics") as answer:
                [line] = [each for each in (await answer.text()).splitlines() if each.startswith(FETCHES_WAITING)]
            total += int(float(line.rpartition(" ")[2]))
        return total

    async def _end_offset(self, http: str, partition: int) -> int:
        async with self._session.get(f"{http}/topics/{WRITTEN_TOPIC}/partitions/{partition}/offsets") as answer:
            return int((await answer.json())["end_offset"])

    async def _poll(self, http: str, number: int) -> str:
        path = f"{http}/topics/{READ_TOPIC}/partitions/{number - 1}/records?offset=0&timeout={WAITING_S}000"
        async with self._session.get(path) as answer:
            return f"{answer.status} {await answer.text()}"

    async def _tail(self, http: str, number: int) -> str:
        path = f"{http}/topics/{READ_TOPIC}/partitions/{number - 1}/records?offset=0&follow=true"
        async with self._session.get(path, headers=NDJSON) as answer:
            assert answer.status == 200
            return "".join([line.decode() async for line in answer.content])

    async def _stream(self, http: str, number: int) -> str:
        async def lines() -> AsyncIterator[bytes]:
            while True:
                yield b'{"value": "x"}\n'
                await asyncio.sleep(LINE_PAUSE_S)

        path = f"{http}/topics/{WRITTEN_TOPIC}/partitions/{number - 1}"
        async with self._session.post(path, data=lines(), headers=NDJSON) as answer:
            return f"{answer.status} {await answer.text()}"

    async def _create_instance(self, http: str, number: int) -> None:
        path, instance = f"{http}/consumers/{GROUP}", f"{self._name}-{number}"
        settings = {"name": instance, "auto.offset.reset": "earliest", "consumer.request.timeout.ms": WAITING_S * 1000}
        async with self._session.post(path, json=settings) as answer:
            assert answer.status == 200, await answer.text()
        assigned = {"partitions": [{"topic": READ_TOPIC, "partition": number - 1}]}
        async with self._session.post(f"{path}/instances/{instance}/assignments", json=assigned) as answer:
            assert answer.status == 204, await answer.text()

    async def _consume(self, http: str, number: int) -> str:
        async with self._session.get(f"{http}/consumers/{GROUP}/instances/{self._name}-{number}/records") as answer:
            return f"{answer.status} {await answer.text()}"

    def _fetch(self) -> str:
        """Poll with a fetch that waits for long; return the first error."""
        errors: list[KafkaError] = []
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.kafka,
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": self._ca,
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": self._name,
                "sasl.password": PASSWORD,
                "group.id": GROUP,
                "fetch.wait.max.ms": WAITING_S * 1000,
                "socket.timeout.ms": WAITING_S * 1000 + 10_000,
                "error_cb": errors.append,
            }
        )
        consumer.assign([TopicPartition(READ_TOPIC, 0, 0)])
        try:
            while not self._is_over.is_set():
                message = consumer.poll(0.02)
                if message is not None:
                    return str(message.error())
                denied = [each for each in errors if each.code() == KafkaError._AUTHENTICATION]
                if denied:
                    return str(denied[0])
        finally:
            consumer.close()
        return "not ended"


async def test_revoked_entries_end_all_waiting_requests_within_a_second(cluster: Cluster, name: str) -> None:
    async with Waiting(cluster, name) as waiting:
        denied = [("TOPIC", READ_TOPIC, "READ"), ("TOPIC", WRITTEN_TOPIC, "WRITE")]
        await asyncio.to_thread(put_acls, cluster, name, "DENY", *denied)
        await waiting.check_ends(REVOKED_S, time.monotonic())
        for kind, (_, how) in waiting.ended.items():
            assert "40301" in how or "TOPIC_AUTHORIZATION_FAILED" in how, f"{kind}: {how}"


async def test_a_deleted_user_is_cut_off_within_5_s(cluster: Cluster, name: str) -> None:
    async with Waiting(cluster, name) as waiting:
        await asyncio.to_thread(order, cluster, "DELETE", f"/v1/security/users/{name}")
        await waiting.check_ends(DELETED_S, time.monotonic())
    with contextlib.suppress(AssertionError):
        order(cluster, "DELETE", f"/v1/security/users/{name}")
        pytest.fail("the user exists again")
