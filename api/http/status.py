"""For operators: readiness, the list of brokers, metrics."""

import importlib
from typing import Any

from aiohttp import web

import raftlog
from raftlog.api.http.answers import answer, json_answer
from raftlog.api.http.routing import Router, Target
from raftlog.partitions.broker import Broker


class StatusHandlers:
    """GET /v1/status/ready, /v1/brokers, /metrics."""

    def __init__(self, broker: Broker, requests: dict[int, int]) -> None:
        self._broker = broker
        self._requests = requests
        self._metrics: Any = None

    def add_to(self, router: Router) -> None:
        router.add("GET", "/v1/status/ready", self.ready)
        router.add("GET", "/v1/brokers", self.brokers)
        router.add("GET", "/metrics", self.metrics)

    async def ready(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if not self._broker.is_ready:
            return json_answer({"status": "booting"}, 503)
        return json_answer({"status": "ready"})

    async def brokers(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        broker = self._broker
        return json_answer(
            [
                {
                    "node_id": broker.node_id,
                    "version": raftlog.__version__,
                    "membership_status": "active",
                    "is_alive": True,
                    "disk_space": [broker.disk_space()],
                }
            ]
        )

    async def metrics(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if self._metrics is None:
            # prometheus_client takes 60 ms to import, which a start should not pay for.
            module = importlib.import_module("raftlog.api.http.metrics")
            self._metrics = module.Metrics(self._broker, self._requests)
        body, content_type = self._metrics.render()
        return answer(body, content_type)
