"""Records as tests write and read them with any client."""

from typing import Final, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class StoredRecord(NamedTuple):
    """Record with its offset and timestamp in the partition."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = -1


class UnsentRecord(NamedTuple):
    """Record to write; timestamps are in milliseconds."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = 1_600_000_000_123

    def at(self, offset: int) -> StoredRecord:
        """Return the record as it is stored at an offset."""
        return StoredRecord(offset, *self)


class Offset(NamedTuple):
    """Position at an offset."""

    offset: int


class FromEnd(NamedTuple):
    """Position before the last records."""

    count: int


class Since(NamedTuple):
    """Position at the first record with at least this timestamp."""

    timestamp: int


BEGINNING: Final = Offset(-2)
Position = Offset | FromEnd | Since
WITHIN_S: Final = 30.0
"""Time within which every answer comes, unless there is none."""
