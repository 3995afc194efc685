"""Clients that write steadily in a thread during a test, and the check that all acknowledged records are stored."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from bench.steady_load import SteadyLoad, SteadyReport
from raftlog.testing import Cluster
from raftlog.types import TopicPartition
from tests.integration.cluster_load import read_values

INTERVAL_S = 0.1
DEADLINE_S = 10.0
WAIT_S = 60.0


class SteadyWriters:
    """Context manager with one writer for each partition; `report` has the results afterwards."""

    report: SteadyReport

    def __init__(self, addresses: Sequence[str], topic: str, partitions: int) -> None:
        self._addresses = addresses
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="writers")
        self._load: SteadyLoad

    def __enter__(self) -> "SteadyWriters":
        self._thread.start()
        self._run(self._begin())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._run(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def wait_for_acknowledged(self, count: int = 10) -> None:
        """Wait until `count` more records are acknowledged."""
        self._run(self._load.wait_for_more(count, WAIT_S))

    async def _begin(self) -> None:
        load = SteadyLoad(self._addresses, self._places, interval_s=INTERVAL_S, deadline_s=DEADLINE_S)
        self._load = await load.__aenter__()

    async def _end(self) -> None:
        await self._load.__aexit__(None, None, None)
        self.report = self._load.report()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * WAIT_S)


def require_stored(cluster: Cluster, reports: Sequence[SteadyReport]) -> None:
    """Check that no write failed definitely, and that every running broker returns all acknowledged records."""
    for report in reports:
        assert report.failed == 0, report.reasons
        for place in report.gaps_s:
            acknowledged = {offset: value for (at, offset), value in report.acknowledged.items() if at == place}
            for node in (each for each in cluster.nodes.values() if each.is_running):
                kept = read_values(node.http, place.topic, place.partition)
                lost = {offset: value for offset, value in acknowledged.items() if kept[offset : offset + 1] != [value]}
                assert not lost, f"of {place} node {node.node_id} does not show {lost}"
