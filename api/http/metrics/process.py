"""Metrics of the process: disk, event loop, journal, latencies, and figures of the operating system."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counter, counters, gauge, histogram
from raftlog.partitions.broker import Broker

_SYSTEM: Final = ProcessCollector(registry=None)
"""`process_…`: CPU seconds, resident and virtual memory, open files and their limit, start time."""


def process_families(broker: Broker) -> Iterator[Metric]:
    """Yield the families of the process as a whole, without those of groups."""
    yield from _disk(broker)
    yield from _queues(broker)
    yield from _latencies(broker)
    yield from _SYSTEM.collect()


def _disk(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    try:
        free, total = driver.disk.free_bytes(driver.data_dir), driver.disk.total_bytes(driver.data_dir)
    except OSError:
        free = total = -1
    yield gauge("disk_free_bytes", "Free on the data directory's file system; -1: it does not say.", free)
    yield gauge("disk_total_bytes", "Size of that file system.", total)
    yield gauge("disk_full", "1 when no records are taken for lack of room.", driver.room.is_full)


def _queues(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    journal = driver.journal
    yield gauge("journal_live_bytes", "Journal that a recovery would read.", journal.live_bytes)
    yield gauge("journal_pending_bytes", "Bytes that wait for their place in the journal.", journal.pending_bytes)
    yield gauge("sync_waits", "Operations that wait for the journal's next syncs.", driver.persister.waiting_count)
    yield counter("checkpoints", "Checkpoints of the journal.", driver.persister.checkpoints.completed)
    yield counters(
        "stalls",
        "How often the loop or the disk was found to stand still for over a second.",
        ["what"],
        [([what.name.lower()], count) for what, count in broker.measuring.stalls.items()],
    )


def _latencies(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    for name, text, times in (
        (
            "produce",
            "From the arrival of an append's oldest call to its answer, wherever the leader is.",
            broker.measuring.counters.append_times,
        ),
        (
            "append",
            "At leaders: from a proposal to its place in the log, ready for the journal.",
            driver.persister.append_times,
        ),
        ("sync", "From submitting a sync of the journal to its completion.", driver.journal.sync_times),
        ("commit", "At leaders: from a proposal to its commit.", driver.commit_times),
        ("loop_lag", "How much later than due the loop came to a tick.", driver.ticker.lateness),
    ):
        yield histogram(f"{name}_seconds", text, times)
