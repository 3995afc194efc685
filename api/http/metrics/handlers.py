"""Handler of GET /metrics; imports `metrics` with the first scrape."""

import importlib
from typing import Any

from aiohttp import web

from raftlog.api.http.metrics.requests import RequestMetrics
from raftlog.api.http.server.answers import answer
from raftlog.api.http.server.routing import HttpRouter, Target
from raftlog.partitions.broker import Broker


class MetricsHandlers:
    """Handler of scrapes. `partitions_max`: number of partitions with series of their own."""

    def __init__(self, broker: Broker, request_metrics: RequestMetrics, partitions_max: int) -> None:
        self._broker, self._request_metrics, self._partitions_max = broker, request_metrics, partitions_max
        self._metrics: Any = None

    def add_to(self, router: HttpRouter) -> None:
        router.add("GET", "/metrics", self.metrics, query=None)

    async def metrics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if self._metrics is None:
            # prometheus_client takes 60 ms to import, which a start should not pay for.
            module = importlib.import_module("raftlog.api.http.metrics.metrics")
            self._metrics = module.Metrics(self._broker, self._request_metrics, self._partitions_max)
        body, content_type = await self._metrics.render()
        return answer(body, content_type)
