"""Fetches of one fetch session (KIP-227), one after another, over partitions that the session keeps.

    put, forget → fetch → put, forget → fetch → …          until `close`

    ready        partitions that a fetch has to read: new or changed by the client, advanced since they were read, with
                 unread records or an error, or returned with records
    all others   have nothing new, and their replicas report it when they have

The session stays registered at the replicas of its partitions between fetches, so that a fetch costs nothing for a
partition that is not ready. Partitions that were returned with records become ready behind all others, so none starves.
Called by listeners through `Broker.leader.fetches`."""

from collections.abc import Callable
from typing import Final

from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.leader.fetch import SLICE, FetchedPartition, PartitionFetch, PartitionsFetch
from raftlog.partitions.replica import Replica
from raftlog.partitions.routing.topics import Topics
from raftlog.types import Offset

_FREE_SLOT: Final = PartitionFetch("", -1, -1, -1, 0)


class SessionFetch(PartitionsFetch):
    """Fetch session (KIP-227): repeated fetches from a set of partitions, one at a time.

    Its length is the number of partitions. Set `isolation` before the first partition is added."""

    __slots__ = ("_bytes_max", "_free_slots", "_is_closed", "_reported", "_session_requests", "_slots")

    def __init__(
        self, topics: Topics, counters: Counters, bytes_max: int, free_bytes: Callable[[], int] | None = None
    ) -> None:
        """Prepare the fetches of a session without partitions; an answer has up to `bytes_max` bytes."""
        self._session_requests: list[PartitionFetch] = []
        super().__init__(topics, counters, self._session_requests, 0, free_bytes)
        self._bytes_max = bytes_max
        self._is_watching = True
        self._is_closed = False
        self._slots: dict[str, dict[int, int]] = {}
        """Slot of each partition, by topic and partition number."""
        self._free_slots: list[int] = []
        self._reported: list[tuple[Offset, Offset] | None] = []
        """High watermark and log start offset that the client knows, by slot."""

    def __len__(self) -> int:
        return len(self._session_requests) - len(self._free_slots)

    def put(self, request: PartitionFetch) -> None:
        """Add a partition, or replace its request."""
        numbers = self._slots.setdefault(request.topic, {})
        slot = numbers.get(request.partition)
        if slot is None:
            slot = numbers[request.partition] = self._take_slot()
        self._session_requests[slot] = request
        self._changed[slot] = None

    def _take_slot(self) -> int:
        """Return a free slot, a position in the lists of requests and replicas; extend them if none is free."""
        if self._free_slots:
            return self._free_slots.pop()
        self._session_requests.append(_FREE_SLOT)
        self._replicas.append(None)
        self._reported.append(None)
        return len(self._session_requests) - 1

    def forget(self, topic: str, partition: int) -> None:
        """Remove a partition; ignore one that the session does not have."""
        numbers = self._slots.get(topic, {})
        slot = numbers.pop(partition, None)
        if slot is None:
            return
        if not numbers:
            del self._slots[topic]
        self._release(slot)
        self._changed.pop(slot, None)
        self._session_requests[slot] = _FREE_SLOT
        self._free_slots.append(slot)

    def _release(self, slot: int) -> None:
        """End the registration at a replica; the next fetch looks for the partition's replica again."""
        replica = self._replicas[slot]
        if replica is not None:
            replica.waits_for(self.isolation).unwatch(self)
            self._replicas[slot] = None
        self._reported[slot] = None

    def close(self) -> None:
        """End the registrations, and let a waiting fetch return its records."""
        for replica in self._replicas:
            if replica is not None:
                replica.waits_for(self.isolation).unwatch(self)
        self._is_closed, self._may_wait = True, False
        self._wake()

    async def fetch(
        self, *, max_bytes: int, min_bytes: int, deadline: Deadline
    ) -> list[tuple[PartitionFetch, FetchedPartition]]:
        """Return the partitions with new records, another high watermark or log start offset, or an error.

        Return once `min_bytes` of records are available, at the deadline, and at once without partitions; the session
        must not be used after a cancellation."""
        if not self._slots:
            return []
        self._asked_bytes = self._max_bytes = max_bytes = max(0, min(max_bytes, self._bytes_max))
        self._is_full = False
        await self._run(min(min_bytes, max_bytes), deadline)
        return self._take_results()

    async def _read_all(self) -> None:
        """Read the partitions that are ready, a slice in each turn of the loop, within the free memory."""
        slots, self._changed = self._changed, {}
        self._limit_to_memory()
        for count, slot in enumerate(slots):
            if count and count % SLICE == 0:
                await self._pause()
            replica = self._replicas[slot] or self._register(slot)
            if replica is not None:
                self._read(slot, replica)

    def _register(self, slot: int) -> Replica | None:
        """Register at the replica of a partition; return the replica, or None if this node has none."""
        self._replicas[slot] = replica = self._find_replica(slot)
        if replica is not None and not self._is_closed and not replica.waits_for(self.isolation).watch(self, slot):
            self._may_wait = False
        return replica

    def _unwatch(self) -> None:
        """Do nothing: a session stays registered at the replicas until `close`."""

    def _take_results(self) -> list[tuple[PartitionFetch, FetchedPartition]]:
        """Return the results that are new to the client, and prepare the next fetch."""
        results, self._results = self._results, {}
        self._sizes.clear()
        self._total = 0
        news: list[tuple[PartitionFetch, FetchedPartition]] = []
        unread: dict[int, None] = {}
        returned = []
        for slot, result in results.items():
            batches, end, start, error, stable, _ = result
            request = self._session_requests[slot]
            if error is not None:
                self._release(slot)
                unread[slot] = None
                news.append((request, result))
                continue
            bounds = (end, start)
            if batches:
                returned.append(slot)
            elif request.offset != (end if stable < 0 else stable):
                unread[slot] = None
            if batches or bounds != self._reported[slot]:
                self._reported[slot] = bounds
                news.append((request, result))
        if unread:
            self._changed = {**unread, **self._changed}
        for slot in returned:
            self._changed.pop(slot, None)
            self._changed[slot] = None
        return news
