"""Records of a replica that a complete compaction keeps: for comparing replicas whose bytes differ.

They are the newest record of each key, unless that is a tombstone, every record without a key, and every undecodable
batch. Records of aborted transactions do not count; in the compacted part of a segment all are of committed ones.
Called by `offline`."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from raftlog.errors import UndecodableBatch
from raftlog.records import MARKER_KINDS, BatchHeader, ControlKind, read_control, read_header, read_records
from raftlog.records.header import CRC_START
from raftlog.runtime.log.control_entries import decode_compacted_to
from raftlog.storage.roll import decode_roll
from raftlog.types import Index, Offset


class OfflineEntry(NamedTuple):
    """Stored entry, the file or journal that has it (in words), and the reason why it is damaged or None."""

    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    batch: bytes
    place: str
    reason: str | None


class _Newest(NamedTuple):
    """Offset and digest of the newest record of a key."""

    offset: int
    digest: bytes
    """Digest of value, timestamp and headers, or of an undecodable batch; empty for a tombstone."""


class NewestRecords:
    """Newest record of each key in one replica's log, below an entry index; for comparing compacted replicas."""

    def __init__(self, end: Index, log_start: Offset) -> None:
        """Begin without records, for the entries below index `end` of a log that starts at offset `log_start`."""
        self.end = end
        self.log_start = log_start
        self.by_key: dict[bytes, _Newest] = {}
        """Newest record by key, by offset for a record without one, or by the last offset of an undecodable batch."""
        self.reason: str | None = None
        """Error of the first damaged entry."""
        self._compacted_to = Offset(-1)
        """Offset up to which the present segment is compacted, if it is above its beginning."""
        self._undecided: dict[int, dict[bytes, _Newest]] = {}
        """Newest records of transactions without a marker yet, by producer."""

    def take(self, head: OfflineEntry | None, stream: Iterator[OfflineEntry]) -> OfflineEntry | None:
        """Add the entries below the end, first `head`, then those of `stream`; return the first one not below it."""
        if head is not None and head.reason is None:
            self.log_start = max(self.log_start, Offset(read_header(head.batch).base_offset))
        while head is not None and head.index < self.end:
            if head.reason is not None:
                self.reason = self.reason or f"entry {head.index} in {head.place}: {head.reason}"
            else:
                self._add_entry(head)
            head = next(stream, None)
        return head

    def decide_rest(self, entries: Iterator[OfflineEntry]) -> None:
        """Add or drop the records of undecided transactions by their markers in the entries from the end on."""
        while self._undecided and (entry := next(entries, None)) is not None:
            if entry.index >= self.end and entry.reason is None and read_header(entry.batch).is_marker:
                self._add_entry(entry)

    def _add_entry(self, found: OfflineEntry) -> None:
        """Add a data batch; or process a marker; or record the compaction mark in a roll."""
        header = read_header(found.batch)
        if not header.is_control:
            self._add_batch(found, header)
            return
        kind, payload = read_control(found.batch, header)
        if kind is ControlKind.ROLL:
            compacted_to = decode_roll(payload).compacted_to
            self._compacted_to = Offset(compacted_to if compacted_to > header.base_offset else -1)
        elif kind in MARKER_KINDS:
            ended = self._undecided.pop(header.producer_id, {})
            if kind is ControlKind.COMMIT:
                self._add(ended)

    def _add_batch(self, found: OfflineEntry, header: BatchHeader) -> None:
        """Record the newest offset and digest of each key in a batch."""
        newest: dict[bytes, _Newest] = {}
        try:
            for record in read_records(found.batch):
                key = b"%d" % record.offset if record.key is None else b"k" + record.key
                content = repr((record.value, record.timestamp, record.headers)).encode()
                digest = b"" if record.value is None else _digest(content)
                newest[key] = _Newest(record.offset, digest)
        except UndecodableBatch as error:  # compaction keeps it, and counts none of its records
            last = error.next_offset - 1
            newest = {b"u%d" % last: _Newest(last, _digest(found.batch[CRC_START:]))}
        if header.is_transactional and header.base_offset >= self._compacted_to:
            self._undecided.setdefault(header.producer_id, {}).update(newest)
        else:
            self._add(newest)

    def _add(self, newest: Mapping[bytes, _Newest]) -> None:
        """Add committed records to `by_key`, unless it has a newer record of the key."""
        for key, each in newest.items():
            self.by_key[key] = max(each, self.by_key.get(key, each))

    def select_from(self, start: int) -> dict[bytes, _Newest]:
        """Return the records at offset `start` or later, without tombstones."""
        return {key: each for key, each in self.by_key.items() if each.offset >= start and each.digest}


def _digest(content: bytes) -> bytes:
    """Return a digest of 16 bytes, by which contents are compared."""
    return hashlib.blake2b(content, digest_size=16).digest()


Later = Callable[[int], Iterator[OfflineEntry]]
"""Function that returns entries of a replica, at least those after the end, by its number in a list."""


def find_difference(paths: Sequence[str], replicas: Sequence[NewestRecords], later: Later) -> str | None:
    """Return the first difference between two of the replicas, or the error of one that cannot be read; else None.

    An interrupted compaction may have removed a record because a newer record of its key follows after the end. So a
    key may be missing in a replica that has a later record of it. This record must lie below the highest compaction
    mark in the logs: records above the mark cause no removal."""
    start = max(each.log_start for each in replicas)
    for replica in replicas:
        if replica.reason is not None:
            return replica.reason
    found = [replica.select_from(start) for replica in replicas]
    mark: Offset | None = None
    newest: dict[bytes, _Newest] = {}
    for records in found:
        newest.update((key, each) for key, each in records.items() if key not in newest or each > newest[key])
    for number, (path, records) in enumerate(zip(paths, found, strict=True)):
        other = {key: each.offset for key, each in newest.items() if records.get(key) != each}
        missing = {key for key, offset in other.items() if key not in records or records[key].offset < offset}
        if missing and mark is None:
            mark = max(_find_highest_mark(later(each)) for each in range(len(replicas)))
        replaced = (
            missing & _collect_keys(replicas[number].end, mark, later(number)) if mark is not None else frozenset()
        )
        at = min((offset for key, offset in other.items() if key not in replaced), default=None)
        if at is not None:
            holder = next(
                each for each, mine in zip(paths, found, strict=True) if any(r.offset == at for r in mine.values())
            )
            return f"the newest record of a key differs at offset {at}: {holder}, and {path}"
    return None


def _find_highest_mark(entries: Iterator[OfflineEntry]) -> Offset:
    """Return the highest compaction mark in a log."""
    highest = Offset(0)
    for entry in entries:
        header = read_header(entry.batch) if entry.reason is None else None
        if header is None or not header.is_control:
            continue
        kind, payload = read_control(entry.batch, header)
        if kind is ControlKind.COMPACTED_TO:
            highest = max(highest, decode_compacted_to(payload).compacted_to)
        elif kind is ControlKind.ROLL:
            highest = max(highest, Offset(decode_roll(payload).compacted_to))
    return highest


def _collect_keys(end: Index, below: Offset, entries: Iterator[OfflineEntry]) -> frozenset[bytes]:
    """Return the keys of the records from entry `end` on, below an offset; an unreadable entry has none."""
    keys: set[bytes] = set()
    for entry in entries:
        if entry.index >= end and entry.reason is None and not read_header(entry.batch).is_control:
            with suppress(UndecodableBatch):
                keys.update(
                    [
                        b"k" + record.key
                        for record in read_records(entry.batch)
                        if record.key is not None and record.offset < below
                    ]
                )
    return frozenset(keys)
