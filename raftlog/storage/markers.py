"""Markers of transactions in a segment, found by its headers: for reads that skip aborted records, and for compaction.

The list of markers is rebuilt from the segment when it is needed, and extended while the segment grows. A slice of a
scan reads a hundred small batches at once. A damaged row or header ends the scan with an error, so that no marker is
overlooked."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from raftlog.records import HEADER_SIZE, BatchHeader, ControlKind, crc_matches, read_control, read_header
from raftlog.storage.index_repair import repair_row
from raftlog.storage.readable_log import ReadableLog
from raftlog.storage.rows import ROW_SIZE, row_matches, unpack_rows
from raftlog.storage.segment import Segment
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Buffer, Index, Offset

_ROWS_AT_ONCE: Final = 128
_CHUNK_BYTES: Final = 256 * 1024
_SCAN_BYTES: Final = 128 * 1024
"""Bytes that compaction counts for one slice of a scan."""


class ScannedHeader(NamedTuple):
    """Header of a transaction's batch or marker; `is_abort` is None for a batch."""

    offset: Offset
    producer_id: int
    is_abort: bool | None


def scan_transactions(segment: Segment, number: int, last: Index) -> tuple[list[ScannedHeader], int]:
    """Read some rows of a segment from `number` on; return transactional batches, markers, and the next row's number.

    Entries above `last`, which may be cut, and those that are not in the file are left out. The returned number equals
    `number` if there is no further row to read. Raises `CorruptBatch` and `OSError`."""
    packed = memoryview(segment.row_bytes(number, _ROWS_AT_ONCE))
    rows = list(unpack_rows(packed))
    written = segment.written_position
    if not rows or rows[0].end > written or rows[0].index > last:
        return [], number
    start = rows[0].position
    chunk = memoryview(segment.files.log.read(start, min(_CHUNK_BYTES, written - start)))
    found: list[ScannedHeader] = []
    for at, row in enumerate(rows):
        is_in_chunk = row.position - start + HEADER_SIZE <= len(chunk)
        if at and (row.end > written or row.index > last or not is_in_chunk):
            break
        head = chunk[max(0, row.position - start) :][:HEADER_SIZE]
        is_sound = is_in_chunk and row_matches(packed[at * ROW_SIZE : (at + 1) * ROW_SIZE], head)
        if not is_sound or not segment.can_be_row_of(number, row.index):
            if repair_row(segment, number):
                return scan_transactions(segment, number - at, last)
            raise ReadableLog.corruption_error(segment, row, "header and index row do not belong together")
        header = read_header(head)
        if header.is_marker:
            batch = segment.files.log.read(row.position, row.length)
            if not crc_matches(batch, header):
                raise ReadableLog.corruption_error(segment, row, "the CRC does not match")
            is_abort = is_abort_marker(batch)
            found.append(ScannedHeader(Offset(row.offset), header.producer_id, is_abort))
        elif header.is_transactional:
            found.append(ScannedHeader(Offset(row.offset), header.producer_id, None))
        number += 1
    return found, number


class SegmentMarkers:
    """Transaction markers of one segment in the order of offsets, as far as the segment was scanned."""

    __slots__ = ("_aborts", "_next_row", "_offsets", "_producers", "_segment")

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._next_row = 0
        self._offsets, self._producers, self._aborts = array("q"), array("q"), bytearray()

    def __len__(self) -> int:
        return len(self._offsets)

    def has_all(self, last: Index) -> bool:
        """Return whether all entries up to `last` that are in the file were scanned."""
        segment, number = self._segment, self._next_row
        if number >= segment.rows:
            return True
        row = segment.row(number)
        return row.index > last or row.end > segment.written_position

    def scan_some(self, last: Index) -> None:
        """Scan some of the entries up to `last`, the last committed one. Raises `CorruptBatch` and `OSError`."""
        found, following = scan_transactions(self._segment, self._next_row, last)
        for offset, producer_id, is_abort in found:
            if is_abort is not None:
                self._offsets.append(offset)
                self._producers.append(producer_id)
                self._aborts.append(is_abort)
        self._next_row = following

    def find_outcome(self, producer_id: int, offset: int) -> bool | None:
        """Return whether the producer's first marker from `offset` on is an abort; None if none was scanned."""
        try:
            at = self._producers.index(producer_id, bisect_left(self._offsets, offset))
        except ValueError:
            return None
        return bool(self._aborts[at])


def is_abort_marker(batch: Buffer) -> bool:
    """Return whether a marker, whose CRC was checked, ends its transaction with an abort."""
    return read_control(batch)[0] is ControlKind.ABORT


class AbortedBatches:
    """Batches of aborted transactions in the part of a log that compaction rewrites, and keys of undecided ones.

    clean end ≤ examined batches < mark ≤ last stable offset when the mark was proposed

    So every transaction with a batch in the part has a marker in the log, in the part or after it. Batches below the
    clean end are of committed transactions, and their markers may be deleted, so they are not examined: a later marker
    of the same producer does not apply to them."""

    def __init__(self, log: SegmentedLog) -> None:
        """Prepare to find the batches of aborted transactions in a log."""
        self._log = log
        self._undecided: dict[int, tuple[int, dict[bytes, int]]] = {}
        """First offset, and newest offset of each key, by producer."""
        self._begins: dict[int, list[int]] = {}
        """First offsets of aborted transactions, ascending, by producer."""
        self._ends: dict[int, list[int]] = {}
        """Offsets of the markers of the transactions in `_begins`, in the same order."""
        self.keys_held = 0
        """Number of keys of undecided transactions."""

    def begin(self, producer_id: int, offset: int, keys: dict[bytes, int]) -> None:
        """Record a transactional batch: its producer, offset, and the newest offset of each of its keys."""
        _, known = self._undecided.setdefault(producer_id, (offset, {}))
        before = len(known)
        known.update(keys)
        self.keys_held += len(known) - before

    def end(self, producer_id: int, offset: int, is_abort: bool) -> dict[bytes, int]:
        """Record a marker; return the keys of its transaction, with their offsets, if it is committed."""
        first, keys = self._undecided.pop(producer_id, (-1, {}))
        self.keys_held -= len(keys)
        if not is_abort:
            return keys
        if first >= 0:
            self._begins.setdefault(producer_id, []).append(first)
            self._ends.setdefault(producer_id, []).append(offset)
        return {}

    def decide_rest(self, offset: Offset) -> Iterator[tuple[int, list[dict[bytes, int]]]]:
        """Scan from `offset` on for the markers of undecided transactions, in slices.

        Yield the bytes of each slice, and the keys of each transaction that it found to be committed. Raises
        `CorruptBatch` and `OSError`."""
        log = self._log
        for segment in log.segments:
            number = 0
            while self._undecided and segment.next_offset > offset:
                found, following = scan_transactions(segment, number, log.last_index)
                committed: list[dict[bytes, int]] = []
                for at, producer_id, is_abort in found:
                    if is_abort is not None and at >= offset and producer_id in self._undecided:
                        committed.append(self.end(producer_id, at, is_abort))
                if following == number:
                    break
                number = following
                yield _SCAN_BYTES, committed

    @property
    def first_undecided(self) -> int | None:
        """First offset of the transactions without a marker; None if there is none."""
        return min((first for first, _ in self._undecided.values()), default=None)

    def has(self, header: BatchHeader) -> bool:
        """Return whether a batch is of an aborted transaction."""
        begins = self._begins.get(header.producer_id) if header.is_transactional else None
        if begins is None:
            return False
        at = bisect_right(begins, header.base_offset) - 1
        return at >= 0 and header.base_offset < self._ends[header.producer_id][at]
