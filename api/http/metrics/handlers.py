"""Handler of GET /metrics; imports `metrics` at the first scrape."""

import asyncio
import importlib
from typing import Any

from aiohttp import web

from raftlog.api.http.metrics.visible_samples import visible_samples
from raftlog.api.http.openapi.parts import string
from raftlog.api.http.server.answers import answer
from raftlog.api.http.server.endpoint import HttpEndpoint
from raftlog.api.http.server.handlers import Handlers
from raftlog.api.http.server.permissions import DESCRIBE_CLUSTER, LISTED_GROUPS, LISTED_TOPICS
from raftlog.api.http.server.routing import Target


class MetricsHandlers(Handlers):
    """Handler of GET /metrics."""

    _metrics: Any = None

    @HttpEndpoint(
        "GET /metrics",
        string(),
        (),
        text="Metrics of this broker.",
        content_types=("text/plain",),
        fails=(),
        is_open=True,
        permissions=(*DESCRIBE_CLUSTER, *LISTED_TOPICS, *LISTED_GROUPS),
    )
    async def metrics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Return metrics for Prometheus."""
        if self._metrics is None:
            # prometheus_client takes 60 ms to import, which neither a start nor the loop should pay for.
            module = await asyncio.to_thread(importlib.import_module, "raftlog.api.http.metrics.metrics")
            self._metrics = module.Metrics(
                self._broker, self._context.request_metrics, self._context.metrics_partitions_max
            )
        body, content_type = await self._metrics.render()
        visible = self._visibility(request)
        if visible.is_limited:
            body = await visible_samples(body, visible)
        return answer(body, content_type)
