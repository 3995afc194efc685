"""Metrics of the process: disk, event loop, journal, latencies, and figures of the operating system."""

from collections.abc import Iterator
from math import nan
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric

from raftlog.api.http.metrics.families import by_labels, constant, single, times
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
    """Yield the metrics of the disk's space; NaN if the system does not report it."""
    driver = broker.measuring.driver
    free: float
    total: float
    try:
        free, total = driver.disk.free_bytes(driver.data_dir), driver.disk.total_bytes(driver.data_dir)
    except OSError:
        free = total = nan  # comparisons with it are false: no alert
    yield single("disk_free_bytes", free)
    yield single("disk_total_bytes", total)
    yield single("disk_full", driver.room.is_full)


def _queue_families(broker: Broker) -> Iterator[Metric]:
    """Yield the metrics of the journal, syncs and stalls."""
    driver = broker.measuring.driver
    journal = driver.journal
    yield constant("sync_method_info", [driver.disk.sync_method])
    yield single("journal_live_bytes", journal.live_bytes)
    yield single("journal_pending_bytes", journal.pending_bytes)
    yield single("sync_operations_waiting", driver.persister.waiting_count)
    yield single("checkpoints_total", driver.persister.checkpoints.completed)
    stalls = [([kind.name.lower()], count) for kind, count in broker.measuring.stalls.items()]
    yield by_labels("stalls_total", stalls)


def _loop_hold_families() -> Iterator[Metric]:
    """Yield the metrics of long steps of the event loop."""
    yield by_labels("loop_holds_total", [([step], count) for step, count in LOOP_HOLDS.counts.items()])
    longest = [([step], longest_s) for step, longest_s in LOOP_HOLDS.longest_s.items()]
    yield by_labels("loop_hold_longest_seconds", longest)


def _latency_families(broker: Broker) -> Iterator[Metric]:
    """Yield the histograms of latencies."""
    driver = broker.measuring.driver
    yield times("produce_seconds", broker.measuring.counters.append_times)
    yield times("append_seconds", driver.persister.append_times)
    yield times("sync_seconds", driver.journal.sync_times)
    yield times("commit_seconds", driver.commit_times)
    yield times("loop_lag_seconds", driver.ticker.lateness)
