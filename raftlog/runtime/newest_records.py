"""What compaction leaves of a replica, however far it has come there: for comparing replicas whose bytes differ.

Of each key the newest record, unless that deletes it, and every record without a key. Called by `offline`.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from raftlog.errors import InvalidBatch
from raftlog.records import read_header, read_records
from raftlog.types import Index, Offset


class FoundEntry(NamedTuple):
    """A stored entry, where it stands, and what is wrong with it."""

    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    batch: bytes
    where: str
    why: str | None


class _Newest(NamedTuple):
    offset: int
    digest: bytes
    """Of value, timestamp and headers; empty of a record that deletes its key."""


class NewestRecords:
    """Of one replica's entries below an index."""

    def __init__(self, end: Index, log_start: Offset) -> None:
        self._end = end
        self.log_start = log_start
        self.by_key: dict[bytes, _Newest] = {}
        """By key, or by the offset of a record without one."""
        self.why: str | None = None
        """What is wrong with an entry."""

    def take(self, head: FoundEntry | None, stream: Iterator[FoundEntry]) -> FoundEntry | None:
        """Take entries as long as they lie below the end; returns the first that does not."""
        if head is not None and head.why is None:
            self.log_start = max(self.log_start, Offset(read_header(head.batch).base_offset))
        while head is not None and head.index < self._end:
            if head.why is not None:
                self.why = self.why or f"entry {head.index} in {head.where}: {head.why}"
            elif not read_header(head.batch).is_control:
                self._take(head)
            head = next(stream, None)
        return head

    def _take(self, found: FoundEntry) -> None:
        try:
            for record in read_records(found.batch):
                key = b"%d" % record.offset if record.key is None else b"k" + record.key
                content = repr((record.value, record.timestamp, record.headers)).encode()
                digest = b"" if record.value is None else hashlib.blake2b(content, digest_size=16).digest()
                self.by_key[key] = _Newest(record.offset, digest)
        except InvalidBatch as error:
            self.why = self.why or f"entry {found.index} in {found.where}: {error}"

    def from_offset(self, start: int) -> dict[bytes, _Newest]:
        """Those that count in a log that begins there."""
        return {key: each for key, each in self.by_key.items() if each.offset >= start and each.digest}


def difference_of(paths: Sequence[str], replicas: Sequence[NewestRecords]) -> str | None:
    """Where two of them differ, or one cannot be read."""
    start = max(each.log_start for each in replicas)
    reference = replicas[0].from_offset(start)
    for path, replica in zip(paths, replicas, strict=True):
        if replica.why is not None:
            return replica.why
        found = replica.from_offset(start)
        if found != reference:
            offsets = {each.offset for each in {*found.values()} ^ {*reference.values()}}
            return f"the newest record of a key differs at offset {min(offsets)}: {paths[0]}, and {path}"
    return None
