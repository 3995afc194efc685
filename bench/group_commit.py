"""Measure of many writers of single records that each wait for the sync: records and writers per sync."""

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvloop

import raftlog
from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.samples import VALUE_BYTES, percentile
from bench.syncs import count_syncs
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord, read_records

SECONDS = 4.0
WAITERS = 64
_TOPIC = "bench"
_PRODUCE_MS_MAX = 10_000
_READ_BYTES = 4 << 20


def value_of(writer: int, number: int) -> bytes:
    """Return a value that no other append writes."""
    return b"%06d/%012d/" % (writer, number) + b"x" * (VALUE_BYTES - 20)


def append_from_threads(path: str, seconds: float) -> dict[str, float]:
    """Append to one log from 64 threads; in a child process."""
    latencies: list[list[float]] = [[] for _ in range(WAITERS)]
    start = threading.Barrier(WAITERS + 1)

    def write(writer: int, log: raftlog.Log) -> None:
        """Append one record after another for `seconds`, and record the latency of each."""
        mine = latencies[writer]
        start.wait()
        until = time.perf_counter() + seconds
        now = time.perf_counter()
        while now < until:
            log.append([value_of(writer, len(mine))])
            after = time.perf_counter()
            mine.append(after - now)
            now = after

    with raftlog.Log.open(path) as log, count_syncs() as syncs:
        threads = [threading.Thread(target=write, args=(writer, log)) for writer in range(WAITERS)]
        for thread in threads:
            thread.start()
        start.wait()
        begin = time.perf_counter()
        for thread in threads:
            thread.join()
        elapsed, synced = time.perf_counter() - begin, syncs.total
    with raftlog.Log.open(path, create=False) as log:
        stored = [record.value for record in log.read()]
    return _figures_of(stored, latencies, elapsed, synced)


def produce_from_tasks(path: str, seconds: float) -> dict[str, float]:
    """Produce to one partition of a broker in this process from 64 tasks, without HTTP; in a child process."""
    latencies: list[list[float]] = [[] for _ in range(WAITERS)]
    elapsed, synced = uvloop.run(_produce_all(path, seconds, latencies))
    return _figures_of(uvloop.run(_read_all(path)), latencies, elapsed, synced)


async def _produce_all(path: str, seconds: float, latencies: list[list[float]]) -> tuple[float, int]:
    """Append with all writers for `seconds`; return the elapsed seconds and the number of syncs."""
    async with _broker(path) as broker:
        await broker.create_topic(_TOPIC, 1, 1, {}, deadline=deadline_in(_PRODUCE_MS_MAX))
        with count_syncs() as syncs:
            begin = time.perf_counter()
            await asyncio.gather(
                *(_produce(broker, writer, begin + seconds, latencies[writer]) for writer in range(WAITERS))
            )
            return time.perf_counter() - begin, syncs.total


async def _read_all(path: str) -> list[bytes | None]:
    """Return every value of the topic, from a new broker on the data directory of the stopped one."""
    stored: list[bytes | None] = []
    async with _broker(path) as broker:
        end = (await broker.offsets(_TOPIC, 0, deadline=deadline_in(_PRODUCE_MS_MAX))).end
        while len(stored) < end:
            found = await broker.fetch(
                _TOPIC, 0, len(stored), max_bytes=_READ_BYTES, deadline=deadline_in(_PRODUCE_MS_MAX)
            )
            stored.extend(record.value for batch in found.batches for record in read_records(batch))
    return stored


@asynccontextmanager
async def _broker(path: str) -> AsyncIterator[Broker]:
    """Open and start a broker in the directory `path`; close it at the end of the block."""
    broker = await Broker.open(BrokerSettings(data_dir=path))
    try:
        await broker.start()
        yield broker
    finally:
        await broker.close()


async def _produce(broker: Broker, writer: int, until: float, mine: list[float]) -> None:
    """Append one record after another until `until`, and add the latency of each to `mine`."""
    now = time.perf_counter()
    while now < until:
        record = NewRecord(value_of(writer, len(mine)))
        results = await broker.produce_records(_TOPIC, 0, [record], deadline=deadline_in(_PRODUCE_MS_MAX))
        require(results[0].error is None, f"a record was refused: {results[0].error}")
        after = time.perf_counter()
        mine.append(after - now)
        now = after


def _figures_of(
    stored: list[bytes | None], latencies: list[list[float]], elapsed: float, synced: int
) -> dict[str, float]:
    """Return the figures, with the number of acknowledged values that are missing after a restart."""
    expected = {value_of(writer, number) for writer in range(WAITERS) for number in range(len(latencies[writer]))}
    samples = sorted(itertools.chain.from_iterable(latencies))
    return {
        "records_per_s": len(samples) / elapsed,
        "p50_ms": percentile(samples, 50) * 1000,
        "p99_ms": percentile(samples, 99) * 1000,
        "appends": len(samples),
        "fdatasyncs": synced,
        "appends_per_sync": len(samples) / max(1, synced),
        "records_stored": len(stored),
        "records_missing": len(expected - set(stored)),
    }


def _make_run(work: Callable[..., dict[str, float]]) -> Callable[[Workspace], Values]:
    """Return a measure that runs `work` in a child process and checks that no acknowledged record is missing."""

    def run(workspace: Workspace) -> Values:
        with workspace.directory() as path:
            done = run_in_child(work, path=str(path / "data"), seconds=SECONDS)
        require(done["records_missing"] == 0, f"{done['records_missing']} acknowledged records are missing")
        require(done["records_stored"] == done["appends"], "the log holds another number of records than were appended")
        require(
            done["fdatasyncs"] * WAITERS >= done["appends"],
            f"{done['fdatasyncs']} syncs cannot have answered {done['appends']} appends of {WAITERS} waiters",
        )
        return done

    return run


_FIGURES = (Figure("p50_ms", "… p50", "ms"), Figure("p99_ms", "… p99", "ms"))

MEASURES = (
    Measure(
        "group-commit",
        f"library: {WAITERS} waiters, single records",
        f"{WAITERS} threads of one process append one record of {VALUE_BYTES} bytes at a time through Log.append, each "
        f"waiting for its sync, for {SECONDS:g} s. Every value is different; afterwards the log is opened again and "
        "has to hold exactly the acknowledged ones. os.fdatasync is counted: one cannot answer more than all waiters.",
        (Figure("records_per_s", "records appended, each awaited", "records/s", at_least=25_000), *_FIGURES),
        _make_run(append_from_threads),
    ),
    Measure(
        "group-commit-asyncio",
        f"broker without HTTP: {WAITERS} tasks, single records",
        f"The same with {WAITERS} asyncio tasks on Broker.produce_records in one process: what is left for HTTP.",
        (Figure("records_per_s", "records produced, each awaited", "records/s"), *_FIGURES),
        _make_run(produce_from_tasks),
    ),
)
