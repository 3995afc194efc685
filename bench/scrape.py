"""Measures of monitoring: a scrape of a broker with thousands of partitions, and the cost of counting one latency."""

import asyncio
import gc
import time
import timeit
from statistics import median
from typing import Any

from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from raftlog.api.http.metrics.metrics import Metrics
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from raftlog.runtime.histogram import Histogram, stopwatch

_TOPICS, _PARTITIONS = 100, 50
_SHOWN = 1_000
_SCRAPES = 5
_CREATION_MS = 60_000
_OBSERVED = 200_000


def scrape(data_dir: str) -> dict[str, Any]:
    """Create the partitions, then scrape several times; in a child process."""
    return asyncio.run(_scrape(data_dir))


async def _scrape(data_dir: str) -> dict[str, Any]:
    """Scrape the metrics of a broker with many partitions several times; return the medians."""
    broker = await Broker.open(BrokerSettings(data_dir=data_dir))
    await broker.start("127.0.0.1:1")
    for number in range(_TOPICS):
        await broker.create_topic(f"t{number:03d}", _PARTITIONS, deadline=deadline_in(_CREATION_MS))
    metrics = Metrics(broker, RequestMetrics(), _SHOWN)
    await metrics.render()
    gc.collect()
    gc.disable()
    scrapes = [await _measure_scrape(metrics) for _ in range(_SCRAPES)]
    gc.enable()
    await broker.close()
    return {
        "cpu_ms": median(cpu for cpu, _, _ in scrapes) * 1_000,
        "turn_ms": median(turn for _, turn, _ in scrapes) * 1_000,
        "series": scrapes[-1][2],
        "observe_us": _time_observation() * 1e6,
    }


async def _measure_scrape(metrics: Metrics) -> tuple[float, float, int]:
    """Return the CPU seconds of a scrape, those of its longest loop turn, and the number of series."""
    longest = 0.0
    before = last = time.thread_time()
    rendering = asyncio.ensure_future(metrics.render())
    while not rendering.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, last = max(longest, now - last), now
    text, _ = rendering.result()
    series = sum(not line.startswith(b"#") for line in text.splitlines())
    return last - before, longest, series


def _time_observation() -> float:
    """Return the seconds that one observation in a histogram takes."""
    histogram, began = Histogram(), stopwatch()
    took = timeit.timeit(lambda: histogram.observe_since(began), number=_OBSERVED)
    assert sum(histogram.counts) == _OBSERVED, "an observation was not counted"
    return took / _OBSERVED


def run(workspace: Workspace) -> Values:
    """Measure a scrape in a child process; check that it returns enough series."""
    with workspace.directory() as directory:
        done = run_in_child(scrape, data_dir=str(directory / "data"))
    least = 4 * _SHOWN // 2
    require(done["series"] >= least, f"{done['series']} series, but {_SHOWN} partitions have at least {least}")
    return done


MEASURES = (
    Measure(
        "scrape",
        "metrics: a scrape",
        f"A broker alone with {_TOPICS * _PARTITIONS:,} partitions, of which {_SHOWN:,} have series of their own; the "
        f"median of {_SCRAPES} scrapes. CPU time of the loop's thread, without garbage collection; a turn is what the "
        "loop does between two looks of another task. Then one latency counted, as the hot path does for each append.",
        (
            Figure("cpu_ms", "CPU", "ms", at_most=250),
            Figure("turn_ms", "longest turn of the loop", "ms", at_most=10),
            Figure("observe_us", "one latency counted", "µs", at_most=1),
        ),
        run,
    ),
)
