"""Client metadata of topics: partitions, bounds, and leaders, refreshed every 30 s and when an answer shows it stale.

Leaders are hints for the transport; a broker that does not lead forwards the request. If a refresh fails, the earlier
description of a topic stays in use."""

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from raftlog.client.broker import BrokerClient
from raftlog.errors import RaftlogError, UnknownTopic
from raftlog.types import TopicPartition

REFRESH_S: Final = 30.0
REFRESH_S_MIN: Final = 0.25
"""Minimum time between two refreshes, in seconds."""
_MESSAGE_BYTES_DEFAULT: Final = 1 << 20


class TopicMetadata(NamedTuple):
    """Partitions of a topic; `message_bytes_max` bounds a batch."""

    partitions: int
    message_bytes_max: int


class Metadata:
    """Cache of topics by name, refreshed in the background from the first request until `close`."""

    def __init__(self, client: BrokerClient, refresh_s: float) -> None:
        """Begin without topics; metadata is refreshed every `refresh_s` seconds."""
        self._client, self._refresh_s = client, refresh_s
        self.changed: Callable[[], None] = lambda: None
        """Called after each refresh."""
        self._topics: dict[str, TopicMetadata] = {}
        self._addresses: dict[int, str] = {}
        self._watched: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.matching: frozenset[str] = frozenset()
        """Topics whose whole names match the pattern, as of the last refresh."""
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def get_cached(self, name: str) -> TopicMetadata | None:
        """Return the metadata of a topic from the cache; None if it is missing or was deleted."""
        return self._topics.get(name)

    async def topic(self, name: str) -> TopicMetadata:
        """Return the metadata of a topic from the cache or from a broker; raises `UnknownTopic` and `Unavailable`."""
        known = self._topics.get(name)
        if known is not None:
            return known
        await self._start_refreshing()
        return await self._fetch(name)

    def watch(self, name: str) -> None:
        """Include this topic in the refreshes, even if it does not exist yet."""
        self._watched.add(name)

    async def match(self, pattern: re.Pattern[str]) -> None:
        """Set the pattern of `matching` topics, and look them up now; raises `Unavailable`."""
        await self._start_refreshing()
        self._pattern = pattern
        await self._find_matching()

    def refresh_soon(self) -> None:
        """Request a refresh, because an answer showed stale metadata."""
        self._wanted.set()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _start_refreshing(self) -> None:
        """Start the refreshes, at the first call."""
        if self._task is None:
            self._task = asyncio.create_task(self._refresh_on_time())
            await self._find_brokers()

    async def _find_matching(self) -> None:
        """Update `matching` from the names of all topics."""
        if self._pattern is not None:
            names = await self._client.topics()
            self.matching = frozenset(name for name in names if self._pattern.fullmatch(name))

    async def _fetch(self, name: str) -> TopicMetadata:
        """Fetch and cache the metadata of a topic, and learn the leaders of its partitions. Raises `UnknownTopic`."""
        try:
            description = await self._client.describe_topic(name)
        except UnknownTopic:
            self._topics.pop(name, None)
            raise
        limit = int(description.configs.get("max.message.bytes", _MESSAGE_BYTES_DEFAULT))
        topic = self._topics[name] = TopicMetadata(description.partitions, limit)
        for partition in description.replicas:
            address = None if partition.leader is None else self._addresses.get(partition.leader)
            if address is not None:
                self._client.learn_leader(TopicPartition(name, partition.partition), address)
        return topic

    async def _find_brokers(self) -> None:
        """Update the addresses of brokers; after an error the earlier ones stay."""
        with contextlib.suppress(RaftlogError):
            self._addresses = {row.node_id: row.http for row in await self._client.find_all_brokers() if row.http}

    async def _refresh_on_time(self) -> None:
        """Refresh all topics every `refresh_s` seconds, and soon after a request for a refresh."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._refresh_s):
                    await self._wanted.wait()
            self._wanted.clear()
            await self._find_brokers()
            with contextlib.suppress(RaftlogError):
                await self._find_matching()
            for name in {*self._topics, *self._watched}:
                with contextlib.suppress(RaftlogError):
                    await self._fetch(name)
            self.changed()
            await asyncio.sleep(REFRESH_S_MIN)
