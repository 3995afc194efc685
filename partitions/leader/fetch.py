"""Fetch from many partitions that this node leads, with one wait for all of them.

    read every partition → enough bytes, an error or a full partition: done
    otherwise wait → read those that have advanced → …          until the deadline

bytes of the answer ≤ `max_bytes`, except for its first batch;   bytes held while it waits ≤ `_HELD_BYTES_MAX`

A partition is full when it has more records than fit into the answer, which then does not wait for others. The cost of
a wake-up depends on the partitions that have advanced, not on all. A fetch of many partitions is read in slices. Called
by listeners through `Broker.leader.fetches`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from raftlog.errors import (
    FencedLeaderEpoch,
    NotLeader,
    OffsetNotAvailable,
    OffsetOutOfRange,
    RaftlogError,
    UnknownLeaderEpoch,
    UnknownTopic,
)
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica import Replica
from raftlog.partitions.replica.waits import time_out
from raftlog.partitions.results import AbortedTransaction
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topics
from raftlog.records import read_header
from raftlog.types import Isolation, Offset

_NOTHING: Final = Offset(-1)
_NO_BYTES: Final = -1
"""Limit in bytes for an answer without records; with a limit of 0 an answer still has its first batch."""
SLICE: Final = 256
"""Partitions that are read in one turn of the loop."""
_HELD_BYTES_MAX: Final = 64 * 1024
"""Bytes that a fetch keeps while it waits for more; others are read again at its end."""
NO_EPOCH: Final = -1
"""Leader epoch of a request that does not check it."""


class PartitionFetch(NamedTuple):
    """Request for the records of one partition from an offset on."""

    topic: str
    partition: int
    leader_epoch: int
    """Epoch of the leader as the client knows it; `NO_EPOCH` checks nothing."""
    offset: int
    max_bytes: int


class FetchedPartition(NamedTuple):
    """Records of one partition, or the error; the offsets are −1 if they are unknown."""

    batches: Sequence[memoryview]
    high_watermark: Offset
    log_start_offset: Offset
    error: RaftlogError | None = None
    last_stable_offset: Offset = _NOTHING
    """End of a read of committed records, −1 if it is unknown; the high watermark for a read of uncommitted ones."""
    aborted: Sequence[AbortedTransaction] = ()
    """Aborted transactions with records in `batches`; only for a read of committed records."""


_NONE_ABORTED: Final[Sequence[AbortedTransaction]] = ()
_EMPTY: Final = FetchedPartition((), _NOTHING, _NOTHING)
"""Result of a partition that was not read yet."""


class PartitionsFetch:
    """One fetch from several partitions; `run` is called once.

    A read of committed records ends at the last stable offset, and waits for it. `free_bytes` returns the memory that
    the answer may take now; at 0 it has no records."""

    __slots__ = (
        "_asked_bytes",
        "_changed",
        "_counters",
        "_dropped",
        "_free_bytes",
        "_is_full",
        "_is_watching",
        "_max_bytes",
        "_may_wait",
        "_missing",
        "_replicas",
        "_requests",
        "_results",
        "_sizes",
        "_topics",
        "_total",
        "_unproven",
        "_woken",
        "isolation",
    )

    def __init__(
        self,
        topics: Topics,
        counters: Counters,
        requests: Sequence[PartitionFetch],
        max_bytes: int,
        free_bytes: Callable[[], int] | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        """Prepare a fetch of the requested partitions, up to `max_bytes` in all.

        `free_bytes` returns the free memory for answers, None without a limit."""
        self.isolation = isolation
        self._topics, self._requests, self._counters = topics, requests, counters
        self._asked_bytes = self._max_bytes = max_bytes
        self._free_bytes = free_bytes
        self._dropped: dict[int, None] = {}
        """Partitions whose records were freed and are read again at the end; their sizes still count."""
        self._is_watching, self._may_wait = False, True
        self._results: dict[int, FetchedPartition] = {}
        self._sizes: dict[int, int] = {}
        """Bytes of each partition in the answer that has records."""
        self._total = 0
        """Sum of `_sizes`."""
        self._is_full = False
        """Whether the answer must not wait, because a partition has an error or more records than fit."""
        self._unproven: list[int] = []
        """Partitions whose log seems to end below the requested offset."""
        self._changed: dict[int, None] = {}
        """Partitions that have advanced since they were read."""
        self._missing = 0
        """Bytes that have to become visible before the fetch reads again."""
        self._woken: asyncio.Future[None] | None = None
        self._replicas: list[Replica | None] = []
        for place in range(len(requests)):
            self._replicas.append(self._find_replica(place))

    def _find_replica(self, place: int) -> Replica | None:
        """Return the replica for the request at `place`; without one, set the request's result to an error."""
        name, number, *_ = self._requests[place]
        topic = self._topics.get(name)
        partitions: Sequence[Partition] = () if topic is None else topic.partitions
        is_known = 0 <= number < len(partitions)
        replica = partitions[number].replica if is_known else None
        if replica is not None:
            self._results[place] = _EMPTY
            return replica
        self._is_full = True
        error: RaftlogError
        if is_known:
            error = NotLeader(f"{name}/{number}: this broker has no replica of it")
        else:
            error = UnknownTopic(f"no partition {number} of a topic {name!r}")
        self._results[place] = FetchedPartition((), _NOTHING, _NOTHING, error)
        return None

    async def run(self, min_bytes: int, deadline: Deadline) -> list[FetchedPartition]:
        """Return the result of each request, in order, once `min_bytes` are available or the deadline passes."""
        await self._run(min_bytes, deadline)
        return list(self._results.values())

    async def _run(self, min_bytes: int, deadline: Deadline) -> None:
        """Read all partitions, and wait until the deadline if they have fewer than `min_bytes`."""
        try:
            await self._read_all()
            if self._unproven:
                self._watch()
                await self._prove_ends()
            if not self._is_enough(min_bytes):
                await self._wait(min_bytes, deadline)
        finally:
            self._unwatch()
        self._counters.fetches += 1
        self._counters.bytes_out += self._total

    def _is_enough(self, min_bytes: int) -> bool:
        """Return whether the fetch need not wait for more bytes."""
        return self._is_full or self._total >= min_bytes

    # reading

    async def _read_all(self) -> None:
        """Read all partitions, a slice in each turn of the loop, within the free memory."""
        self._limit_to_memory()
        for place, replica in enumerate(self._replicas):
            if place and place % SLICE == 0:
                await self._pause()
            if replica is not None:
                self._read(place, replica)

    async def _pause(self) -> None:
        """Let other tasks run between two slices."""
        self._watch()
        await asyncio.sleep(0)
        self._limit_to_memory()

    def _limit_to_memory(self) -> None:
        """Limit the answer to the memory that is free now."""
        if self._free_bytes is not None:
            self._max_bytes = min(self._asked_bytes, self._free_bytes() or _NO_BYTES)

    def _read(self, place: int, replica: Replica) -> None:
        """Read a partition into its result."""
        _, _, epoch, offset, partition_max = self._requests[place]
        group = replica.group
        self._total -= self._sizes.pop(place, 0)
        try:
            if epoch >= 0 and epoch != group.core.term:
                check_epoch(replica, epoch)
            left = min(partition_max, self._max_bytes - self._total)
            end = replica.readable_end()
            stable, aborted = end, _NONE_ABORTED
            if offset >= end or (left <= 0 and (self._total or self._max_bytes < 0)):
                batches: Sequence[memoryview] = ()
                if offset > group.log_end_offset:
                    self._unproven.append(place)
                elif offset < end:
                    self._is_full = True
                if self.isolation is Isolation.READ_COMMITTED:
                    stable = min(replica.last_stable_offset, end)
            else:
                read = replica.read_now(offset, max(1, left), end, self.isolation)
                batches = self._cut_to_fit(read.batches, left, read.end)
                if self.isolation is Isolation.READ_COMMITTED:
                    stable, aborted = read.last_stable_offset, read.aborted
            start = group.committed_start_offset
            if offset < start:
                raise OffsetOutOfRange(offset, start, end)
            self._results[place] = FetchedPartition(batches, end, start, None, stable, aborted)
        except OffsetNotAvailable:  # transactions are being read here: wait, and answer without records
            self._results[place] = FetchedPartition((), replica.readable_end(), group.committed_start_offset)
            return
        except RaftlogError as error:
            self._is_full = True
            self._results[place] = FetchedPartition((), _NOTHING, _NOTHING, error)
            return
        if batches:
            self._sizes[place] = size = sum(map(len, batches))
            self._total += size

    def _cut_to_fit(self, batches: list[memoryview], left: int, end: Offset) -> Sequence[memoryview]:
        """Return the batches that fit; at least one of the first partition with records (KIP-74)."""
        if not batches:
            return batches
        if len(batches[0]) > left and self._total:
            self._is_full = True
            return ()
        if read_header(batches[-1]).next_offset < end:
            self._is_full = True
        return batches

    async def _prove_ends(self) -> None:
        """Confirm with the partitions' leaders which requested offsets lie beyond the end of their log."""
        places, self._unproven = self._unproven, []
        proofs = (self._prove_end(place) for place in places)
        await asyncio.gather(*proofs)

    async def _prove_end(self, place: int) -> None:
        """Set an error if an offset is beyond the end of the log; else read again.

        Only a confirmed leader can detect that."""
        replica = self._replicas[place]
        assert replica is not None, f"no replica of request {place}"
        try:
            await replica.prove_end(self._requests[place].offset)
        except RaftlogError as error:
            self._is_full = True
            self._results[place] = self._results[place]._replace(error=error)
        else:
            self._read(place, replica)

    # waiting

    def advanced(self, place: int, size: int) -> None:
        """Record that `size` bytes were committed in a partition; wake the fetch if they suffice (`ReplicaWatch`)."""
        self._changed[place] = None
        self._missing -= size
        if self._missing <= 0:
            self._wake()

    def changed(self, place: int) -> None:
        """Record that a partition has to be read again, and wake the fetch; see `ReplicaWatch`."""
        replica = self._replicas[place]
        if replica is not None and replica.waits_for(self.isolation).is_closed:
            self._may_wait = False
        self._changed[place] = None
        self._wake()

    def _wake(self) -> None:
        """Wake the fetch, if it waits."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _watch(self) -> None:
        """Register for commits at the replicas, once; call it before another task may run."""
        if self._is_watching:
            return
        self._is_watching = True
        is_plain = self.isolation is Isolation.READ_UNCOMMITTED
        for place, replica in enumerate(self._replicas):
            if replica is not None:
                waits = replica.waits if is_plain else replica.waits_for(self.isolation)
                if not waits.watch(self, place):
                    self._may_wait = False

    def _unwatch(self) -> None:
        """End the registrations of `_watch`."""
        if self._is_watching:
            is_plain = self.isolation is Isolation.READ_UNCOMMITTED
            for replica in self._replicas:
                if replica is not None:
                    (replica.waits if is_plain else replica.waits_for(self.isolation)).unwatch(self)

    async def _wait(self, min_bytes: int, deadline: Deadline) -> None:
        """Wait until the partitions have `min_bytes`, or until the deadline."""
        self._watch()
        may_wait = self._may_wait
        if self._changed:
            self._read_changed()
        while may_wait and not self._is_enough(min_bytes):
            self._missing = min_bytes - self._total
            self._drop_records()
            may_wait = await self._wait_turn(deadline) and self._may_wait
            self._read_changed()
        self._read_dropped()

    def _drop_records(self) -> None:
        """Free the records that were read, unless they are few; their sizes still count."""
        if self._total <= _HELD_BYTES_MAX:
            return
        for place in self._sizes:
            if place not in self._dropped:
                self._dropped[place] = None
                self._results[place] = self._results[place]._replace(batches=())

    def _read_dropped(self) -> None:
        """Read the partitions again whose records were freed, within the memory that is free now."""
        places, self._dropped = self._dropped, {}
        if places:
            self._limit_to_memory()
        for place in places:
            self._total -= self._sizes.pop(place, 0)
        for place in places:
            replica = self._replicas[place]
            if replica is not None:
                self._read(place, replica)

    async def _wait_turn(self, deadline: Deadline) -> bool:
        """Wait until enough bytes may be visible; return False if the deadline passes first."""
        loop = asyncio.get_running_loop()
        if loop.time() >= deadline:
            return False
        self._woken = woken = loop.create_future()
        timer = loop.call_at(deadline, time_out, woken)
        try:
            await woken
        except TimeoutError:
            return False
        finally:
            timer.cancel()
        return True

    def _read_changed(self) -> None:
        """Read the partitions again in which records were committed."""
        places, self._changed = self._changed, {}
        self._limit_to_memory()
        for place in places:
            self._dropped.pop(place, None)
            replica = self._replicas[place]
            if replica is not None:
                self._read(place, replica)
        self._unproven.clear()  # a log that was cut below the requested offset is looked at by the next request


def check_epoch(replica: Replica, epoch: int) -> None:
    """Raise `NotLeader`, `FencedLeaderEpoch` or `UnknownLeaderEpoch` for the leader epoch of a request (KIP-320)."""
    core = replica.group.core
    if not replica.is_leader and epoch <= core.term:
        raise NotLeader(f"{replica.name}: this broker does not lead it", core.leader)
    if 0 <= epoch < core.term:
        raise FencedLeaderEpoch(f"{replica.name}: epoch {epoch} is older than the leader's, {core.term}")
    if epoch > core.term:
        raise UnknownLeaderEpoch(f"{replica.name}: epoch {epoch} is newer than {core.term} here", core.leader)
