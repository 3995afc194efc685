"""Newest record of each key of a partition, read from its segments by the documented format.

Replicas of a compacted partition may differ in bytes, in files, and in their remaining old records, because each is
compacted independently; the newest record of every key is the same in all of them. Used by the simulation and the
runner."""

from collections.abc import Iterable

from raftlog.records import read_records, split_batches

Newest = dict[bytes, tuple[int, bytes]]
"""Offset and value by key, without keys that are removed."""


def newest_records(segments: Iterable[bytes], start: int, end: int | None = None) -> Newest:
    """Return the newest record of each key from offset `start` on and below `end`.

    `segments` are the contents of `.log` files in their order. Raises `InvalidBatch` for an unreadable batch."""
    found: Newest = {}
    for content in segments:
        for header, batch in split_batches(content):
            if end is not None and header.base_offset >= end:
                return found
            for record in () if header.is_control else read_records(batch):
                if record.key is None or record.offset < start or (end is not None and record.offset >= end):
                    continue
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = record.offset, record.value
    return found


def difference(one: Newest, other: Newest) -> str | None:
    """Return a description of the first key whose records differ, or None."""
    for key in sorted(one.keys() | other.keys()):
        first, second = one.get(key), other.get(key)
        if first != second:
            return f"key {key!r} is at {_format_record(first)} in one and at {_format_record(second)} in the other"
    return None


def _format_record(record: tuple[int, bytes] | None) -> str:
    return "no offset" if record is None else f"offset {record[0]} ({record[1][:20]!r})"
