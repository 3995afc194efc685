"""Batches of aborted transactions in the part of a log that compaction rewrites, and keys of undecided ones.

    clean end ≤ examined batches < mark ≤ last stable offset when the mark was proposed

So every transaction with a batch in the part has a marker in the log, in the part or after it. Batches below the clean
end are of committed transactions, and their markers may be gone, so they are not examined: a later marker of the same
producer says nothing about them."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from raftlog.records import BatchHeader, ControlKind, read_control
from raftlog.storage.markers import scan_transactions
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Buffer, Offset

_SCAN_BYTES: Final = 128 * 1024
"""Bytes that a slice of a scan counts for."""


def is_abort_marker(batch: Buffer) -> bool:
    """Return whether a marker, whose CRC was checked, ends its transaction with an abort."""
    return read_control(batch)[0] is ControlKind.ABORT


class AbortedBatches:
    """Aborted batches, as ranges of offsets by producer, and the keys of transactions without a marker yet."""

    def __init__(self, log: SegmentedLog) -> None:
        self._log = log
        self._undecided: dict[int, tuple[int, dict[bytes, int]]] = {}
        """First offset, and newest offset of each key, by producer."""
        self._begins: dict[int, list[int]] = {}
        """First offsets of aborted transactions, ascending, by producer."""
        self._ends: dict[int, list[int]] = {}
        """Offsets of their markers."""
        self.keys_held = 0
        """Number of keys of undecided transactions."""

    def begin(self, producer_id: int, offset: int, keys: dict[bytes, int]) -> None:
        """Take a batch of a transaction with the newest offset of each of its keys."""
        _, known = self._undecided.setdefault(producer_id, (offset, {}))
        before = len(known)
        known.update(keys)
        self.keys_held += len(known) - before

    def end(self, producer_id: int, offset: int, is_abort: bool) -> dict[bytes, int]:
        """Take a marker; return the keys of its transaction if that is committed."""
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
