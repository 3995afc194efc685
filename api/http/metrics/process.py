"""Metrics of the process: its disk, its loop, its journal, how long things take; and what the system says of it."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from raftlog.partitions.broker import Broker
from raftlog.runtime.histogram import Histogram

_SYSTEM: Final = ProcessCollector(registry=None)
"""`process_…`: CPU seconds, resident and virtual memory, open files and their limit, start time."""


def process_families(broker: Broker) -> Iterator[Metric]:
    """Everything that has no group."""
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
    yield GaugeMetricFamily(
        "raftlog_disk_free_bytes", "Free on the data directory's file system; -1: it does not say.", value=free
    )
    yield GaugeMetricFamily("raftlog_disk_total_bytes", "Size of that file system.", value=total)
    yield GaugeMetricFamily(
        "raftlog_disk_full", "1 when no records are taken for lack of room.", value=int(driver.room.is_full)
    )


def _queues(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    journal = driver.journal
    yield GaugeMetricFamily(
        "raftlog_journal_live_bytes", "Journal that a recovery would read.", value=journal.live_bytes
    )
    yield GaugeMetricFamily(
        "raftlog_journal_pending_bytes", "Bytes that wait for their place in the journal.", value=journal.pending_bytes
    )
    yield GaugeMetricFamily(
        "raftlog_sync_waits", "Operations that wait for the journal's next syncs.", value=driver.persister.waiting_count
    )
    yield CounterMetricFamily(
        "raftlog_checkpoints", "Checkpoints of the journal.", value=driver.persister.checkpoints.completed
    )
    stalls = CounterMetricFamily(
        "raftlog_stalls", "How often the loop or the disk was found to stand still for over a second.", labels=["what"]
    )
    for what, count in broker.measuring.stalls.items():
        stalls.add_metric([what.name.lower()], count)
    yield stalls


def _latencies(broker: Broker) -> Iterator[Metric]:
    driver = broker.measuring.driver
    yield _histogram(
        "raftlog_produce_seconds",
        "From the arrival of an append's oldest call to its answer, wherever the leader is.",
        broker.measuring.counters.append_times,
    )
    yield _histogram(
        "raftlog_append_seconds",
        "At leaders: from a proposal to its place in the log, ready for the journal.",
        driver.persister.append_times,
    )
    yield _histogram(
        "raftlog_sync_seconds", "From submitting a sync of the journal to its completion.", driver.journal.sync_times
    )
    yield _histogram("raftlog_commit_seconds", "At leaders: from a proposal to its commit.", driver.commit_times)
    yield _histogram(
        "raftlog_loop_lag_seconds", "How much later than due the loop came to a tick.", driver.ticker.lateness
    )


def _histogram(name: str, text: str, times: Histogram) -> Metric:
    return HistogramMetricFamily(name, text, buckets=times.cumulative(), sum_value=times.sum_s)
