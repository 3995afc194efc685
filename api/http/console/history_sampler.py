"""Sampler of the history: reads counters of the broker at a fixed interval, and turns them into rates and latencies.

    every `INTERVAL_S`   counters, histograms and the process: plain numbers, far less than a millisecond
    figures of replicas  a pass over all Raft groups, in slices; the next one after at least `PAUSE_S` for each group
    lags of groups       a pass over all committed offsets, likewise

A row of a pass takes less than `PAUSE_S` / 200, so both passes together use at most 1 % of a core for any number of
rows. One task of the HTTP server, which starts and ends it."""

import asyncio
import logging
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from raftlog.api.http.console.history import INTERVAL_S, History
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.partitions.broker import Broker
from raftlog.runtime.histogram import Histogram

logger = logging.getLogger(__name__)

PAUSE_S: Final = 0.004
"""Time until the next pass, for each row of the last one."""
LAGS_MAX: Final = 100_000
"""Committed offsets that a pass reads."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Totals(NamedTuple):
    """Counters at one moment; the difference of two gives rates and latencies."""

    at_s: float
    cpu_s: float
    counts: Mapping[str, int]
    """Counters by the name of the series of their rate."""
    times: Mapping[str, Sequence[int]]
    """Observations in each bucket of a histogram, by the prefix of the names of its series (`produce`, `sync`, …)."""


class HistorySampler:
    """Task that adds a sample of one broker and its HTTP server to the history at regular times."""

    def __init__(self, broker: Broker, requests: RequestMetrics, history: History) -> None:
        """Prepare to store samples of the broker's figures and of `requests` in `history`."""
        self._measuring, self._requests, self._history = broker.measuring, requests, history
        self._read_figures, self._read_lags = broker.measuring.read_figures, broker.groups.local_figures
        driver = broker.measuring.driver
        self._histograms: dict[str, Histogram] = {
            "produce": broker.measuring.counters.append_times,
            "commit": driver.commit_times,
            "sync": driver.journal.sync_times,
            "loop_lag": driver.ticker.lateness,
        }
        self._slow: dict[str, float] = {}
        """Values of the last passes by series; each sample repeats them until the next pass."""
        self._lags: dict[str, int] = {}
        self._figures_due_s = self._lags_due_s = 0.0

    async def run(self) -> None:
        """Sample until the task is cancelled; an error is logged, and leaves out one sample."""
        loop = asyncio.get_running_loop()
        before, due_s = self.read_totals(), loop.time()
        while True:
            due_s = max(due_s + INTERVAL_S, loop.time())
            await asyncio.sleep(due_s - loop.time())
            try:
                now = self.read_totals()
                await self.add_sample(before, now)
                before = now
            except Exception:
                logger.exception("a sample of the console's history failed")

    async def add_sample(self, before: Totals, now: Totals) -> None:
        """Add one sample to the history."""
        await self._run_passes(now.at_s)
        values = compare_totals(before, now, {name: each.bounds for name, each in self._histograms.items()})
        disk = self._measuring.disk_space()
        if disk.total >= 0:
            values |= {"disk_free_bytes": disk.free, "disk_total_bytes": disk.total}
        values["resident_bytes"] = _resident_bytes()
        self._history.append(time.time_ns() // 1_000_000, values | self._slow, self._lags)

    async def _run_passes(self, now_s: float) -> None:
        """Read the values of all replicas and the lags of groups, each when it is due."""
        if now_s >= self._figures_due_s:
            figures = await self._read_figures()
            self._figures_due_s = next_pass_s(now_s, len(figures.replicas))
            self._slow |= {
                "log_bytes": sum(each.log_bytes for each in figures.replicas),
                "partitions": len(figures.replicas),
                "partitions_led": figures.led,
                "under_replicated": figures.under_replicated,
                "leaderless": figures.leaderless,
            }
        if now_s >= self._lags_due_s:
            found = await self._read_lags(LAGS_MAX)
            self._lags_due_s = next_pass_s(now_s, sum(found.by_state.values()) + len(found.lags))
            lags: dict[str, int] = defaultdict(int)
            for each in found.lags:
                lags[each.group] += each.records or 0
            self._lags = dict(lags)
            self._slow |= {"group_lag_max": max(lags.values(), default=0), "group_lag_total": sum(lags.values())}

    def read_totals(self) -> Totals:
        """Return the counters at this moment."""
        counters = self._measuring.counters
        counts = {
            "records_in_per_s": counters.records_in,
            "bytes_in_per_s": counters.bytes_in,
            "bytes_out_per_s": counters.bytes_out,
            "produces_per_s": counters.produces,
            "fetches_per_s": counters.fetches,
            "failures_per_s": counters.produce_failures + counters.produce_unknown,
            "http_requests_per_s": sum(self._requests.responses.values()),
            "kafka_requests_per_s": sum(counters.kafka.requests.values()),
        }
        times = {name: tuple(each.counts) for name, each in self._histograms.items()}
        return Totals(asyncio.get_running_loop().time(), time.process_time(), counts, times)


def next_pass_s(now_s: float, rows: int) -> float:
    """Return the time of the next pass over all replicas or groups; later after a pass over many `rows`."""
    return now_s + max(INTERVAL_S / 2, rows * PAUSE_S)


def compare_totals(before: Totals, now: Totals, bounds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the rates and latencies between two moments, by series; `bounds`: bucket bounds of each histogram."""
    seconds = max(now.at_s - before.at_s, 1e-6)
    values = {name: (count - before.counts[name]) / seconds for name, count in now.counts.items()}
    values["cpu_percent"] = 100 * (now.cpu_s - before.cpu_s) / seconds
    for name, counts in now.times.items():
        observed = [after - first for first, after in zip(before.times[name], counts, strict=True)]
        if sum(observed):
            values[f"{name}_p50_ms"] = 1_000 * estimate_quantile(observed, bounds[name], 0.5)
            values[f"{name}_p99_ms"] = 1_000 * estimate_quantile(observed, bounds[name], 0.99)
    return values


def estimate_quantile(counts: Sequence[int], bounds: Sequence[float], part: float) -> float:
    """Estimate the quantile `part` (0 to 1) of a histogram's observations, by linear interpolation in a bucket.

    A value in the last bucket, which has no upper bound, counts as its lower bound."""
    wanted = part * sum(counts)
    seen = 0
    for number, count in enumerate(counts):
        if count and seen + count >= wanted:
            low = bounds[number - 1] if number else 0.0
            high = bounds[number] if number < len(bounds) else low
            return low + (high - low) * (wanted - seen) / count
        seen += count
    return bounds[-1]


def _resident_bytes() -> float:
    """Return the resident memory of this process; NaN where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return float("nan")
