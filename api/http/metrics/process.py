"""Metrics of the process: disk, event loop, journal, latencies, and figures of the operating system."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import counter, counters, gauge, gauges, histogram
from raftlog.partitions.broker import Broker
from raftlog.runtime.loop_holds import LOOP_HOLDS

_SYSTEM: Final = ProcessCollector(registry=None)
"""`process_…`: CPU seconds, resident and virtual memory, open files and their limit, start time."""


def process_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metric families of the whole process, without those of Raft groups."""
    yield from _disk_families(broker)
    yield from _queue_families(broker)
    yield from _loop_hold_families()
    yield from _latency_families(broker)
    yield from _SYSTEM.collect()


def _disk_families(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    try:
        free, total = driver.disk.free_bytes(driver.data_dir), driver.disk.total_bytes(driver.data_dir)
    except OSError:
        free = total = -1
    yield gauge("disk_free_bytes", "Free bytes of the data directory's file system; -1: unknown.", free)
    yield gauge("disk_total_bytes", "Bytes of the data directory's file system; -1: unknown.", total)
    yield gauge("disk_full", "1 when records are refused because the disk is full.", driver.room.is_full)


def _queue_families(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    journal = driver.journal
    method = [([driver.disk.sync_method], 1)]
    yield gauges("sync_method_info", "Method for the syncs of commits: `aio` or `threads`.", ["method"], method)
    yield gauge("journal_live_bytes", "Bytes of the journal that a recovery would read.", journal.live_bytes)
    yield gauge("journal_pending_bytes", "Bytes that wait to be written to the journal.", journal.pending_bytes)
    yield gauge("sync_waits", "Operations that wait for the journal's next syncs.", driver.persister.waiting_count)
    yield counter("checkpoints", "Checkpoints of the journal.", driver.persister.checkpoints.completed)
    yield counters(
        "stalls",
        "Stalls of the loop or the disk of more than a second.",
        ["what"],
        [([what.name.lower()], count) for what, count in broker.measuring.stalls.items()],
    )


def _loop_hold_families() -> Iterator[Metric]:
    yield counters(
        "loop_holds",
        "Steps that held the event loop above 5 ms, without the time waiting for a core.",
        ["step"],
        [([step], count) for step, count in LOOP_HOLDS.counts.items()],
    )
    yield gauges(
        "loop_hold_longest_seconds",
        "Longest time for which each of these steps held the event loop.",
        ["step"],
        [([step], longest_s) for step, longest_s in LOOP_HOLDS.longest_s.items()],
    )


def _latency_families(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    text = "Time from the arrival of an append's oldest call to its answer, with the leader on any broker."
    yield histogram("produce_seconds", text, broker.measuring.counters.append_times)
    text = "Time at leaders from a proposal to its place in the log, ready for the journal."
    yield histogram("append_seconds", text, driver.persister.append_times)
    text = "Time from submitting a sync of the journal to its completion."
    yield histogram("sync_seconds", text, driver.journal.sync_times)
    yield histogram("commit_seconds", "Time at leaders from a proposal to its commit.", driver.commit_times)
    yield histogram("loop_lag_seconds", "Delay of ticks of the event loop.", driver.ticker.lateness)
