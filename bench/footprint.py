"""Measures of a broker's start time and of its resident memory before and after work."""

import asyncio
import itertools
import time
from statistics import median

import aiohttp

from bench import probes, service
from bench.child import run_in_child
from bench.flushes import count_flushes
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace, require
from bench.read_back import BATCHES_TYPE
from bench.samples import RECORDS_PER_BATCH, batches

_TOPIC = "bench"
_STARTS = 5
_IDLE_S = 1.0
_INGEST_BYTES = 1 << 30
_BATCHES_PER_REQUEST = 10
_DIFFERENT_REQUESTS = 10
_IN_FLIGHT = 4
_MIB = 1 << 20


def run_start(workspace: Workspace) -> Values:
    """Start new brokers one after another, each on an empty directory."""
    took = []
    for _ in range(_STARTS):
        with workspace.directory() as directory, service.broker(directory / "data") as server:
            took.append(server.ready_s)
            server.stop()
    return {"seconds": median(took), "fastest_s": min(took), "slowest_s": max(took)}


def ingest(url: str, total_bytes: int) -> dict[str, float]:
    """Send `total_bytes` in stored batches, a few requests in flight; in a child process."""
    return asyncio.run(_ingest(url, total_bytes))


async def _ingest(url: str, total_bytes: int) -> dict[str, float]:
    """Send batches of at least `total_bytes` to the URL, several requests at a time.

    Returns the acknowledged records, bytes and requests, and the seconds."""
    bodies = [b"".join(batches(_BATCHES_PER_REQUEST)) for _ in range(_DIFFERENT_REQUESTS)]
    requests = -(-total_bytes // len(bodies[0]))
    turns = iter(range(requests))
    sent = itertools.count()

    async def send(session: aiohttp.ClientSession) -> None:
        """Send request bodies in turn until all requests are taken."""
        for turn in turns:
            async with session.post(url, data=bodies[turn % len(bodies)], headers=headers) as response:
                if response.status != 200:
                    raise MeasureFailed(f"POST {url}: {response.status} {(await response.text())[:300]}")
                await response.read()
            next(sent)

    headers = {"Content-Type": BATCHES_TYPE}
    begin = time.perf_counter()
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(send(session) for _ in range(_IN_FLIGHT)))
    elapsed = time.perf_counter() - begin
    acknowledged = next(sent)
    return {
        "records": acknowledged * _BATCHES_PER_REQUEST * RECORDS_PER_BATCH,
        "bytes": sum(len(bodies[turn % len(bodies)]) for turn in range(acknowledged)),
        "requests": acknowledged,
        "seconds": elapsed,
    }


def run_memory(workspace: Workspace) -> Values:
    """Measure a broker's memory when idle and after an ingest."""
    with workspace.directory() as directory, service.broker(directory / "data") as server:
        time.sleep(_IDLE_S)
        idle, _ = probes.memory_mib(server.pid)
        server.create_topic(_TOPIC)
        url = f"{server.url}/topics/{_TOPIC}/partitions/0"
        with count_flushes(directory) as flushes:
            done = run_in_child(ingest, url=url, total_bytes=_INGEST_BYTES)
        after, peak = probes.memory_mib(server.pid)
        end = server.end_offset(_TOPIC)
        server.stop()
    require(done["bytes"] >= _INGEST_BYTES, f"only {done['bytes']} bytes were sent")
    require(end == done["records"], f"{done['records']} records were acknowledged, the end offset is {end}")
    return {
        "idle_mib": idle,
        "after_mib": after,
        "peak_mib": peak,
        "ingest_mib_per_s": done["bytes"] / done["seconds"] / _MIB,
        "records": done["records"],
        **flushes.require_at_least(done["requests"] / _IN_FLIGHT),
    }


MEASURES = (
    Measure(
        "start",
        "broker: start to ready",
        f"From the fork of `raftlog serve` on an empty directory to the first 200 of {service.READY_PATH}, asked every "
        f"{service.POLL_S * 1000:g} ms over a bare socket; the median of {_STARTS} starts. Each broker then has to end "
        "with exit code 0 on SIGTERM.",
        (Figure("seconds", "start to ready", "s", at_most=0.6), Figure("slowest_s", "… slowest", "s")),
        run_start,
    ),
    Measure(
        "memory",
        "broker: resident memory",
        f"VmRSS of the broker {_IDLE_S:g} s after it was ready, and again after {_INGEST_BYTES >> 30} GiB of stored "
        f"batches came in over HTTP ({_BATCHES_PER_REQUEST} batches of {RECORDS_PER_BATCH:,} records a request, "
        f"{_IN_FLIGHT} requests in flight, aiohttp client). The end offset has to match what was acknowledged.",
        (
            Figure("idle_mib", "idle", "MiB", at_most=70),
            Figure("after_mib", "after ingesting 1 GiB", "MiB", at_most=120),
            Figure("peak_mib", "… peak (VmHWM)", "MiB"),
            Figure("ingest_mib_per_s", "speed of that ingest", "MiB/s"),
        ),
        run_memory,
    ),
)
