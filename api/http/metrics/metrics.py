"""Answer of `/metrics`: counters and gauges of other modules as text for Prometheus. Stores no counts itself.

`SOURCES` registers the sources: functions in a module beside this one, from the broker to metric families. A
source runs in one turn of the loop, so it may read dozens of objects, not thousands: families with a sample for
every partition belong to `metrics/partitions.py`. Between two families, and within a long one after `_SLICE`
samples, other tasks run. Scrapes at the same time share one rendering.

Names, types and labels are those of `declared`; the escaping of labels is the library's."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Final, TypeAlias

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from raftlog.api.http.metrics.broker import broker_families, figures_families
from raftlog.api.http.metrics.gossip import gossip_families
from raftlog.api.http.metrics.groups import group_families, group_totals
from raftlog.api.http.metrics.http import http_families
from raftlog.api.http.metrics.kafka import kafka_families
from raftlog.api.http.metrics.partitions import partition_families
from raftlog.api.http.metrics.process import process_families
from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.api.http.metrics.rpc import rpc_families
from raftlog.api.http.metrics.security import security_families
from raftlog.api.http.metrics.transactions import transaction_families
from raftlog.partitions.broker import Broker

Source: TypeAlias = Callable[[Broker], Iterable[Metric]]
SOURCES: Final[tuple[Source, ...]] = (
    broker_families,
    group_totals,
    process_families,
    rpc_families,
    gossip_families,
    kafka_families,
    security_families,
)
_SLICE: Final = 250
"""Samples that are written in one turn of the loop, about a millisecond's work."""


class _Families(Collector):
    """Collector of given metric families; `generate_latest` of the Prometheus client takes a collector."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the metrics; called by the Prometheus library."""
        return self._families


class Metrics:
    """Metrics of one broker and its HTTP server."""

    def __init__(self, broker: Broker, http: RequestMetrics, partitions_max: int) -> None:
        self._broker, self._http, self._partitions_max = broker, http, partitions_max
        self._rendering: asyncio.Task[bytes] | None = None

    async def render(self) -> tuple[bytes, str]:
        """Return the text and its content type; scrapes that overlap get the same text."""
        if self._rendering is None:
            self._rendering = asyncio.get_running_loop().create_task(self._render(), name="metrics")
            self._rendering.add_done_callback(self._forget_rendering)
        return await asyncio.shield(self._rendering), "text/plain"

    def _forget_rendering(self, _: "asyncio.Task[bytes]") -> None:
        """Forget the task, so that the next request renders again."""
        self._rendering = None

    async def _render(self) -> bytes:
        """Write all families as text, a slice in each turn of the loop."""
        pieces: list[bytes] = []
        last = ""
        async for family in self._families():
            for part in _parts(family):
                text = generate_latest(_Families(part))
                pieces.append(_strip_head(text) if part.name == last else text)
                last = part.name
                await asyncio.sleep(0)
        return b"".join(pieces)

    async def _families(self) -> AsyncIterator[Metric]:
        """Yield all metrics of the broker; those of partitions are limited to `partitions_max` partitions."""
        for source in SOURCES:
            for family in source(self._broker):
                yield family
        for family in http_families(self._http):
            yield family
        figures = await self._broker.measuring.read_figures()
        for family in figures_families(figures):
            yield family
        for family in group_families(await self._broker.groups.local_figures(self._partitions_max)):
            yield family
        for family in await transaction_families(self._broker):
            yield family
        for family in partition_families(figures.replicas, self._partitions_max):
            yield family


def _parts(family: Metric) -> Iterator[Metric]:
    """Split a metric family into copies with at most `_SLICE` samples each."""
    samples = family.samples
    if len(samples) <= _SLICE:
        yield family
        return
    for at in range(0, len(samples), _SLICE):
        part = Metric(family.name, family.documentation, family.type, family.unit)
        part.samples = samples[at : at + _SLICE]
        yield part


def _strip_head(text: bytes) -> bytes:
    """Return the text of a part of a family without the two lines (HELP, TYPE) that describe the family."""
    return text.split(b"\n", 2)[2]
