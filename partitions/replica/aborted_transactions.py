"""Aborted transactions among batches that were read: the outcome of a transaction is its producer's next marker.

    markers among the batches themselves → markers after them: scanned from the segments, and kept for a few segments

Batches without a transaction need no scan. A scan ends at the marker that it needs. The read itself scans a bounded
number of rows, and a background task the rest; until that is complete, the read has no result. Batches in the compacted
part of a segment belong to committed transactions, since compaction removes the others, so their markers are not
needed. Owned by a replica."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from raftlog.errors import CorruptBatch, OffsetNotAvailable, RaftlogError
from raftlog.partitions.results import AbortedTransaction
from raftlog.records import ControlKind, read_control, read_header
from raftlog.records.header import TRANSACTIONAL_BIT
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.markers import SegmentMarkers
from raftlog.storage.segment import Segment
from raftlog.types import Offset

_logger = logging.getLogger(__name__)
_ATTRIBUTES_LOW: Final = 22
_SCANS_AT_ONCE: Final = 2
"""Scans, each of a bounded number of rows, that a read runs without yielding to the event loop."""
_KEPT_MAX: Final = 500_000
"""Markers that are kept for a replica, at 17 bytes each; at least those of one segment."""


class TransactionsRead(NamedTuple):
    """Transactions that have batches among those that were read."""

    aborted: list[AbortedTransaction]
    undecided: dict[int, Offset]
    """Producers whose marker lies after the batches, with the first offset of their transaction here."""
    end: Offset
    """Offset after the batches."""


def has_transactions(batches: Sequence[memoryview]) -> bool:
    """Return whether any of the batches belongs to a transaction, or ends one."""
    return any(batch[_ATTRIBUTES_LOW] & TRANSACTIONAL_BIT for batch in batches)


def find_transactions(batches: Sequence[memoryview], compacted_to: int) -> TransactionsRead:
    """Return the transactions of batches that were read together; those below `compacted_to` are committed."""
    aborted: list[AbortedTransaction] = []
    begun: dict[int, Offset] = {}
    for batch in batches:
        if not batch[_ATTRIBUTES_LOW] & TRANSACTIONAL_BIT:
            continue
        header = read_header(batch)
        if not header.is_marker:
            if header.base_offset >= compacted_to:
                begun.setdefault(header.producer_id, Offset(header.base_offset))
            continue
        first = begun.pop(header.producer_id, None)
        if first is not None and read_control(batch, header)[0] is ControlKind.ABORT:
            aborted.append(AbortedTransaction(header.producer_id, first))
    return TransactionsRead(aborted, begun, Offset(read_header(batches[-1]).next_offset))


class AbortedTransactions:
    """Search for the aborted transactions in the batches that one replica returns to readers.

    `on_progress` is called after each scan in the background."""

    def __init__(self, group: PartitionReplica, on_progress: Callable[[], None]) -> None:
        """Begin without markers; `on_progress` is called after each scan in the background."""
        self._group, self._on_progress = group, on_progress
        self._kept: OrderedDict[Segment, SegmentMarkers] = OrderedDict()
        """Markers by segment, the least recently used first."""
        self._scan: asyncio.Task[None] | None = None
        self._scanned_error: RaftlogError | None = None
        """Error of the last scan in the background, which the next read raises."""

    def find(self, batches: Sequence[memoryview]) -> list[AbortedTransaction] | None:
        """Return the aborted transactions among batches that were just read below the last stable offset, by offset.

        Return None if their markers are not known yet: the batches must be read again after `on_progress`. Raises
        `CorruptBatch` for damage, and the other errors of a read."""
        if not has_transactions(batches):
            return []
        error, self._scanned_error = self._scanned_error, None
        if error is not None:
            raise error
        segment = self._group.log.segments.segment_of_offset(read_header(batches[0]).base_offset)
        read = find_transactions(batches, segment.compacted_to if segment.is_compacted else -1)
        aborted = read.aborted
        for producer_id, first in read.undecided.items():
            is_abort = self._find_outcome(producer_id, read.end, _SCANS_AT_ONCE)
            if is_abort is None:
                self._begin_scan(list(read.undecided), read.end)
                return None
            if is_abort:
                aborted.append(AbortedTransaction(producer_id, first))
        self._forget_some()
        return sorted(aborted, key=lambda each: each.first_offset)

    def _find_outcome(self, producer_id: int, offset: Offset, scans: int) -> bool | None:
        """Return whether the producer's first marker from `offset` on is an abort.

        Return None if the marker was not found in `scans` scans, or is not applied yet."""
        for segment in self._segments_from(offset):
            markers = self._markers_of(segment)
            while True:
                outcome = markers.find_outcome(producer_id, offset)
                if outcome is not None:
                    return outcome
                if markers.has_all(self._group.applied_index):
                    break
                if scans == 0:
                    return None
                scans -= 1
                self._scan_some(markers)
        return None

    def _segments_from(self, offset: Offset) -> Sequence[Segment]:
        """Return the segments with records at or above the offset."""
        return [each for each in self._group.log.segments.segments if each.next_offset > offset]

    def _markers_of(self, segment: Segment) -> SegmentMarkers:
        """Return the markers of a segment as far as they are known."""
        markers = self._kept.get(segment)
        if markers is None:
            markers = self._kept[segment] = SegmentMarkers(segment)
        self._kept.move_to_end(segment)
        return markers

    def _forget_some(self) -> None:
        """Forget the markers of the least recently used segments if there are too many."""
        kept = sum(map(len, self._kept.values()))
        while kept > _KEPT_MAX and len(self._kept) > 1 and self._scan is None:
            _, markers = self._kept.popitem(last=False)
            kept -= len(markers)

    def _scan_some(self, markers: SegmentMarkers) -> None:
        """Scan some rows of a segment for markers. Raises `CorruptBatch` and `OffsetNotAvailable`."""
        group = self._group
        try:
            markers.scan_some(group.applied_index)
        except CorruptBatch as error:
            group.note_damage(error)
            raise
        except OSError as error:
            raise OffsetNotAvailable(f"{group.name}: markers of transactions cannot be read: {error}; retry") from None

    # in the background

    def _begin_scan(self, producers: Sequence[int], offset: Offset) -> None:
        """Start a task that scans for the next markers of these producers, unless a scan is running."""
        if self._scan is None:
            self._group.write_entries()
            work = self._scan_for(producers, offset)
            self._scan = asyncio.get_running_loop().create_task(work, name=f"markers of {self._group.name}")

    async def _scan_for(self, producers: Sequence[int], offset: Offset) -> None:
        """Scan until the outcomes of these producers are known, or the segments have changed; yield between scans."""
        try:
            segments = self._group.log.segments
            generation = segments.generation
            for producer_id in producers:
                while self._find_outcome(producer_id, offset, _SCANS_AT_ONCE) is None:
                    await asyncio.sleep(0)
                    is_changed = segments is not self._group.log.segments or segments.generation != generation
                    if is_changed or self._group.is_closed:
                        return
                    if not self._can_scan(offset):
                        raise OffsetNotAvailable(f"the marker of producer {producer_id} is in no file yet; retry")
        except RaftlogError as error:
            _logger.info("%s: the markers of transactions are not known: %s", self._group.name, error)
            self._scanned_error = error
        finally:
            self._scan = None
            self._on_progress()

    def _can_scan(self, offset: Offset) -> bool:
        """Return whether entries from `offset` on are in the files and not scanned yet."""
        last = self._group.applied_index
        return any(not self._markers_of(each).has_all(last) for each in self._segments_from(offset))

    def close(self) -> None:
        """Stop the scan in the background, because the replica ends."""
        if self._scan is not None:
            self._scan.cancel()
