"""Number types of a log, distinct for the type checker.

`Index` counts entries (Raft), `Offset` counts records (Kafka), `Position` counts bytes in a file. An entry is a
record batch, so one index covers `lastOffsetDelta + 1` offsets; control batches take an index but no offset."""

from enum import IntEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple, NewType, TypeAlias
from uuid import UUID

FEATURE_LEVEL_FIRST: Final = 1
"""Feature level of formats without a level. It never changes, because logs are replayed by it in every release."""
FEATURE_LEVEL_LEAST: Final = 1
"""Lowest feature level at which this release runs."""
FEATURE_LEVEL_TRANSACTIONS: Final = 4
"""Feature level from which the records and fields of transactions are written."""
FEATURE_LEVEL_KNOWN: Final = 4
"""Highest feature level whose formats this release reads and writes; docs/CONTROLLER.md section 8."""


class Isolation(IntEnum):
    """Records that a reader sees, with Kafka's numbers."""

    READ_UNCOMMITTED = 0
    """All records that a majority has synced, also of open and aborted transactions."""
    READ_COMMITTED = 1
    """Records outside of transactions and of committed ones, up to the first open transaction."""


IsolationName: TypeAlias = Literal["read_committed", "read_uncommitted"]
"""Isolation of a reader over HTTP, in requests and options."""
READ_COMMITTED: Final = "read_committed"
"""Default of readers over HTTP."""

NodeId = NewType("NodeId", int)
Term = NewType("Term", int)
Index = NewType("Index", int)
Offset = NewType("Offset", int)
Position = NewType("Position", int)

#: Anything that exposes contiguous bytes; batches travel as these without being copied.
Buffer: TypeAlias = bytes | bytearray | memoryview


@lru_cache(maxsize=16_384)
def intern_uuid(packed: bytes) -> UUID:
    """Return the UUID of 16 bytes; equal UUIDs are normally the same object.

    Ids of disks and Raft groups are in every message, and tuples and dictionaries find an identical object without a
    call of `UUID.__eq__`."""
    return UUID(bytes=packed)


class TopicPartition(NamedTuple):
    """Partition of a topic; its text is `topic/partition`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class OffsetRange(NamedTuple):
    """Bounds of a partition: `beginning` is the first offset that can be read, `end` the offset of the next record."""

    beginning: Offset
    end: Offset
