"""Measures of the console: its data requests at a broker with many topics and groups, and its idle cost."""

import asyncio
import time
from statistics import median
from typing import Any, Final

import aiohttp

from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from raftlog.api.http.console.history import INTERVAL_S, History
from raftlog.api.http.console.history_sampler import HistorySampler
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.api.http.server.server import HttpServer
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.partitions.settings import BrokerSettings
from raftlog.types import Offset, TopicPartition

_TOPICS, _PARTITIONS, _GROUPS = 2_000, 5, 10_000
_CREATION_MS: Final = 120_000
_AT_ONCE: Final = 64
_ROUNDS: Final = 3
_STALE_S: Final = 5.5
"""Seconds after which the broker uses no cached answer of an earlier round."""
_SAMPLES: Final = 5
_REQUESTS: Final = (
    "session",
    "history",
    "health",
    "topics?limit=200",
    "topics?limit=50&filter=99&sort=-name",
    "topics/t00000",
    "topics/t00000/partitions",
    "topics/t00000/partitions/0/records?newest=50",
    "groups?limit=50",
    "groups?limit=50&filter=99",
    "groups/g00000",
    "groups/g00000/lags",
    "brokers",
    "moves",
    "transactions",
    "users",
    "acls",
)


def request_data(data_dir: str, topics: int, partitions: int, groups: int) -> dict[str, Any]:
    """Create topics and groups, then send every data request several times; in a child process."""
    return asyncio.run(_request_data(data_dir, topics, partitions, groups))


async def _request_data(data_dir: str, topics: int, partitions: int, groups: int) -> dict[str, Any]:
    broker = await Broker.open(BrokerSettings(data_dir=data_dir))
    server = HttpServer(broker)
    host, port = await server.start("127.0.0.1", 0)
    await broker.start(f"{host}:{port}")
    limit = asyncio.Semaphore(_AT_ONCE)

    async def create(number: int) -> None:
        """Create topic `number`."""
        async with limit:
            await broker.create_topic(f"t{number:05d}", partitions, deadline=deadline_in(_CREATION_MS))

    async def commit(number: int) -> None:
        """Commit an offset in group `number`."""
        place = TopicPartition(f"t{number % topics:05d}", 0)
        async with limit:
            offsets = {place: OffsetCommit(Offset(0))}
            await broker.groups.commit(f"g{number:05d}", offsets, deadline=deadline_in(_CREATION_MS))

    await asyncio.gather(*map(create, range(topics)))
    await asyncio.gather(*map(commit, range(groups)))
    times: dict[str, list[float]] = {path: [] for path in _REQUESTS}
    async with aiohttp.ClientSession() as session:
        for _ in range(_ROUNDS):
            for path in _REQUESTS:
                times[path].append(await _time_request(session, f"http://{host}:{port}/console/api/{path}"))
            await asyncio.sleep(_STALE_S)
    pass_s = await _time_sample(broker)
    await server.stop()
    await broker.close()
    slowest = max(times, key=lambda path: max(times[path]))
    return {
        "slowest_ms": max(times[slowest]) * 1_000,
        "median_ms": median(each for path in times for each in times[path]) * 1_000,
        "sample_percent": 100 * pass_s / INTERVAL_S,
        "slowest": slowest,
    }


async def _time_request(session: aiohttp.ClientSession, url: str) -> float:
    """Return the seconds until the whole answer has arrived."""
    began = time.perf_counter()
    async with session.get(url) as response:
        body = await response.read()
        require(response.status == 200, f"{url}: {response.status} {body[:200]!r}")
    return time.perf_counter() - began


async def _time_sample(broker: Broker) -> float:
    """Return the CPU seconds of a sample with its passes, spread over the samples until the next passes."""
    sampler = HistorySampler(broker, RequestMetrics(), History())
    loop = asyncio.get_running_loop()
    began = time.thread_time()
    before = sampler.read_totals()
    for number in range(_SAMPLES):
        now = sampler.read_totals()
        await sampler.add_sample(before, now._replace(at_s=loop.time() + number * INTERVAL_S))
        before = now
    return (time.thread_time() - began) / _SAMPLES


def run(workspace: Workspace) -> Values:
    """Measure the console's requests in a child process with many topics and groups."""
    with workspace.directory() as directory:
        return run_in_child(
            request_data,
            data_dir=str(directory / "data"),
            topics=_TOPICS,
            partitions=_PARTITIONS,
            groups=_GROUPS,
        )


MEASURES = (
    Measure(
        "console",
        "console: data requests",
        f"A broker alone with {_TOPICS:,} topics, {_TOPICS * _PARTITIONS:,} partitions of one copy and {_GROUPS:,} "
        f"groups. Every data request of the console, {_ROUNDS} times, so late that no earlier answer is used again. "
        "Then the CPU time of a sample of the history, of the interval between two.",
        (
            Figure("slowest_ms", "slowest request", "ms", at_most=1_000),
            Figure("median_ms", "median", "ms"),
            Figure("sample_percent", "CPU of the history", "%", at_most=1),
        ),
        run,
    ),
)
