"""Newest record of each key of a partition, read from its segments by the documented format.

Replicas of a compacted partition may differ in bytes, in files, and in their remaining old records, because each is
compacted independently; the newest record of every key is the same in all of them. Used by the simulation and the
runner."""

from collections.abc import Iterable

from raftlog.records import ControlKind, read_control, read_records, split_batches
from raftlog.storage.roll import decode_roll

Newest = dict[bytes, tuple[int, bytes]]
"""Offset and value by key, without keys that are removed."""


def newest_records(segments: Iterable[bytes], start: int, end: int | None = None) -> Newest:
    """Return the newest record of each key from offset `start` on and below `end`.

    `segments` are the contents of `.log` files in their order. Records of transactions count from their commit marker
    on, which may lie above `end`; in the compacted part of a segment all count. Raises `InvalidBatch` for an unreadable
    batch."""
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    undecided: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
    compacted_to = -1
    for content in segments:
        for header, batch in split_batches(content):
            is_above = end is not None and header.base_offset >= end
            if is_above and not undecided:
                return _without_removed(newest)
            if header.is_control:
                kind, payload = read_control(batch, header)
                if kind is ControlKind.ROLL:
                    mark = decode_roll(payload).compacted_to
                    compacted_to = mark if mark > header.base_offset else -1
                elif header.is_marker:
                    ended = undecided.pop(header.producer_id, {})
                    _add(newest, ended if kind is ControlKind.COMMIT else {})
                continue
            if is_above:
                continue
            records = {
                record.key: (record.offset, record.value)
                for record in read_records(batch)
                if record.key is not None and record.offset >= start and (end is None or record.offset < end)
            }
            if header.is_transactional and header.base_offset >= compacted_to:
                undecided.setdefault(header.producer_id, {}).update(records)
            else:
                _add(newest, records)
    return _without_removed(newest)


def _add(newest: dict[bytes, tuple[int, bytes | None]], records: dict[bytes, tuple[int, bytes | None]]) -> None:
    """Add committed records to `newest`, unless a newer one of their key is known."""
    for key, found in records.items():
        if found[0] >= newest.get(key, found)[0]:
            newest[key] = found


def _without_removed(newest: dict[bytes, tuple[int, bytes | None]]) -> Newest:
    """Return the newest records without those that are tombstones."""
    return {key: (offset, value) for key, (offset, value) in newest.items() if value is not None}


def difference(left: Newest, right: Newest) -> str | None:
    """Compare two sets of newest records; describe the first key whose records differ, or return None."""
    for key in sorted(left.keys() | right.keys()):
        first, second = left.get(key), right.get(key)
        if first != second:
            return f"key {key!r} is at {_format_record(first)} in one and at {_format_record(second)} in the other"
    return None


def _format_record(record: tuple[int, bytes] | None) -> str:
    """Return the text of a record, (offset, value) or None."""
    return "no offset" if record is None else f"offset {record[0]} ({record[1][:20]!r})"
