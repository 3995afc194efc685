"""The catalogue: topics and committed group offsets, kept durably in a small log of JSON events.

A commit is answered when its event is durable, and many commits share one sync. The log is bounded: when it is much
larger than what is still valid, the whole state is appended as a snapshot, and what lies before it is trimmed.
Later the replicated controller takes this place.

    applied events = durable events, in their order         snapshots are taken only while nothing is in flight
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson

from raftlog.config import KIB, MIB, LogConfig
from raftlog.errors import DeadlineExceeded, FormatError, Overloaded, RaftlogError, RecordTooLarge
from raftlog.partitions.budget import Budget
from raftlog.partitions.catalogue_state import CatalogueState, Event, Replay
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import NEVER, Deadline
from raftlog.partitions.partition import Partition, clock_ms
from raftlog.partitions.results import ALL
from raftlog.records import NewRecord, read_records
from raftlog.storage.disk import Disk
from raftlog.types import Offset

logger = logging.getLogger(__name__)

_CONFIG = LogConfig(segment_bytes=MIB, max_message_bytes=64 * MIB)
_READ_BYTES = MIB
_ACCUMULATE_BYTES = 256 * KIB
_PENDING_BYTES_MAX = 16 * MIB


class Catalogue:
    """Use `open`; one event loop owns it. `state` holds what is durable."""

    def __init__(self, partition: Partition, growth_bytes_max: int) -> None:
        self._partition = partition
        self._growth_bytes_max = growth_bytes_max
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._snapshot: asyncio.Task[None] | None = None
        self._live_bytes = 0
        self.state = CatalogueState()

    @classmethod
    def open(cls, disk: Disk, path: str, *, growth_bytes_max: int, clock: Callable[[], int] = clock_ms) -> "Catalogue":
        """Open or create the catalogue at `path` and replay it; blocking.

        Raises `CorruptBatch` when it is damaged: a broker that forgot topics would lose them.
        """
        budgets = (Budget(_PENDING_BYTES_MAX, "catalogue"), Budget(_PENDING_BYTES_MAX, "catalogue"))
        partition = Partition.open(
            disk,
            path,
            _CONFIG,
            name="catalogue",
            budgets=budgets,
            counters=Counters(),
            accumulate_bytes_max=_ACCUMULATE_BYTES,
            create=True,
            clock=clock,
        )
        try:
            catalogue = cls(partition, growth_bytes_max)
            if partition.log.damage is not None:
                raise partition.log.damage
            catalogue._replay()
        except BaseException:
            partition.close()
            raise
        return catalogue

    def _replay(self) -> None:
        log = self._partition.log
        offset = log.log_start_offset
        replay = Replay(is_from_start=offset == 0)
        while offset < log.high_watermark:
            for batch in log.read(offset, _READ_BYTES):
                for record in read_records(batch):
                    if record.offset >= offset:
                        replay.apply(_decoded(record.value, record.offset))
                        offset = Offset(record.offset + 1)
        self.state = replay.result()
        self._live_bytes = sum(len(orjson.dumps(event)) for event in self.state.snapshot())

    @property
    def size_bytes(self) -> int:
        return self._partition.log.size_bytes

    async def commit(self, event: Event, deadline: Deadline) -> None:
        """Make the event durable and apply it.

        Raises `DeadlineExceeded` when that takes longer: the event is applied all the same if it becomes durable.
        """
        value = orjson.dumps(event)
        if len(value) > _CONFIG.max_message_bytes // 4:
            raise RecordTooLarge(f"a change of {len(value)} bytes is too large for the catalogue; make it in parts")
        await self._wait_for_snapshot(deadline)
        self._in_flight += 1
        self._idle.clear()
        try:
            # No deadline in the queue: what becomes durable is applied, whether its caller still waits or not.
            async with asyncio.timeout_at(None if deadline == NEVER else deadline):
                future = await self._partition.enqueue_records([NewRecord(value)], ALL, NEVER)
        except TimeoutError:
            self._finished()
            raise Overloaded("the catalogue has too many changes to sync; try again") from None
        except BaseException:
            self._finished()
            raise
        assert future is not None
        future.add_done_callback(lambda done: self._committed(done, event))
        await _within(future, deadline)

    def _committed(self, future: "asyncio.Future[int]", event: Event) -> None:
        if not future.cancelled() and future.exception() is None:
            self.state.apply(event)
        self._finished()

    def _finished(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle.set()
        grown = self._partition.log.size_bytes - self._live_bytes
        if self._snapshot is None and grown > self._growth_bytes_max and self._partition.log.failure is None:
            self._snapshot = asyncio.ensure_future(self._rewrite())

    async def _wait_for_snapshot(self, deadline: Deadline) -> None:
        while self._snapshot is not None:
            timeout = None if deadline == NEVER else max(0.0, deadline - asyncio.get_running_loop().time())
            done, _ = await asyncio.wait({self._snapshot}, timeout=timeout)
            if not done:
                raise Overloaded("the catalogue is being rewritten and the deadline passed; try again")

    async def _rewrite(self) -> None:
        """Append a snapshot and trim everything before it. New commits wait meanwhile: it takes milliseconds."""
        try:
            await self._idle.wait()
            log = self._partition.log
            values = [orjson.dumps(event) for event in self.state.snapshot()]
            begin = log.log_end_offset
            await self._partition.produce_records([NewRecord(value) for value in values], ALL, NEVER)
            log.trim(begin)
            # What precedes the snapshot in its first segment stays, and so do the roll entries.
            self._live_bytes = max(sum(map(len, values)), log.size_bytes)
        except (RaftlogError, OSError) as error:
            logger.error("the catalogue could not be rewritten; it goes on growing: %s", error)
            self._live_bytes = self._partition.log.size_bytes
        finally:
            self._snapshot = None

    async def close(self) -> None:
        """Wait for a rewrite under way, sync, close."""
        if self._snapshot is not None:
            await asyncio.wait({self._snapshot})
        self._partition.close()


async def _within(future: "asyncio.Future[int]", deadline: Deadline) -> None:
    if deadline == NEVER:
        await asyncio.shield(future)
        return
    timeout = max(0.0, deadline - asyncio.get_running_loop().time())
    done, _ = await asyncio.wait({future}, timeout=timeout)
    if not done:
        raise DeadlineExceeded("the change was appended to the catalogue, but its sync did not return in time")
    future.result()


def _decoded(value: bytes | None, offset: int) -> dict[str, Any]:
    try:
        event = orjson.loads(value or b"")
    except orjson.JSONDecodeError as error:
        raise FormatError(f"the catalogue's record at offset {offset} is no event: {error}") from None
    if not isinstance(event, dict) or "kind" not in event:
        raise FormatError(f"the catalogue's record at offset {offset} is no event")
    return event
