"""Partitions: those of a topic as their leaders see them, and all of the cluster as this broker believes."""

import asyncio
from contextlib import suppress
from typing import Any

from aiohttp import web

from raftlog.api.http.admin import shapes
from raftlog.api.http.admin.reading import NAMESPACE, deadline_of, topic_in_namespace
from raftlog.api.http.answers import json_answer
from raftlog.api.http.routing import Router, Target
from raftlog.api.http.topics import find_partition
from raftlog.errors import UnknownTopic
from raftlog.partitions.broker import Broker
from raftlog.partitions.results import PartitionDescription


class PartitionHandlers:
    """GET /v1/partitions/kafka/{topic}[/{partition}], /v1/cluster/partitions."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def add_to(self, router: Router) -> None:
        router.add("GET", "/v1/partitions/{namespace}/{topic}", self.partitions, query=("timeout",))
        router.add("GET", "/v1/partitions/{namespace}/{topic}/{partition}", self.partition, query=("timeout",))
        router.add("GET", "/v1/cluster/partitions", self.all_partitions, query=("topic",))

    async def partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic = topic_in_namespace(target)
        described = await self._broker.describe_topic(topic, deadline=deadline_of(target))
        return json_answer([_partition(topic, one) for one in described.partitions])

    async def partition(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        topic = topic_in_namespace(target)
        found = await find_partition(self._broker, topic, target.args[2], deadline_of(target))
        return json_answer(_partition(topic, found))

    async def all_partitions(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        """Nobody is asked, so it is cheap however many there are; `?topic=` shows one topic only."""
        only = target.query.get("topic")
        if only is not None:
            return json_answer(self._outlined(only))
        rows: list[dict[str, Any]] = []
        for name in self._broker.topics():
            with suppress(UnknownTopic):  # deleted meanwhile
                rows += self._outlined(name)
            await asyncio.sleep(0)
        return json_answer(rows)

    def _outlined(self, name: str) -> list[dict[str, Any]]:
        (described,) = self._broker.outline_topics([name])
        return [_believed(name, one) for one in described.partitions]


def _believed(topic: str, one: PartitionDescription) -> dict[str, Any]:
    return {
        "ns": NAMESPACE,
        "topic": topic,
        "partition_id": one.partition,
        "leader_id": shapes.leader(one.leader),
        "replicas": shapes.replicas(one.replicas),
        "disabled": False,
        "version": one.version,
    }


def _replica(node: int, one: PartitionDescription) -> dict[str, Any]:
    """What it lacks is null where the leader does not know it."""
    is_in_sync = node in one.in_sync
    lag = next((each for each in one.behind if each.node_id == node), None)
    unknown = 0 if is_in_sync else None
    return {
        "node_id": node,
        "core": 0,
        "in_sync": is_in_sync,
        "entries_behind": lag.entries if lag else unknown,
        "bytes_behind": lag.bytes if lag else unknown,
        "catch_up_bytes_per_s": lag.bytes_per_s if lag else 0,
        "problem": one.damaged.get(node),
    }


def _partition(topic: str, one: PartitionDescription) -> dict[str, Any]:
    return {
        "ns": NAMESPACE,
        "topic": topic,
        "partition_id": one.partition,
        "status": "done" if one.problem is None else "failed",
        "leader_id": shapes.leader(one.leader),
        "replicas": [_replica(node, one) for node in one.replicas],
        "leader_epoch": one.leader_epoch,
        "high_watermark": one.high_watermark,
        "log_start_offset": one.log_start_offset,
        "version": one.version,
        "problem": one.problem,
    }
