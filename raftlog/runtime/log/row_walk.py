"""Walk over all entries of a segment, damaged ones too: for repair, and for deletion of damaged records."""

from collections.abc import Iterator
from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.storage.readable_log import ReadableLog
from raftlog.storage.segment import Segment


class WalkedRow(NamedTuple):
    """Index row `number` and its batch. Without `is_placed` the position is unknown and the batch is empty."""

    number: int
    batch: memoryview
    error: CorruptBatch | None
    is_placed: bool = True


def walk_rows(log: ReadableLog, segment: Segment, first: int = 0) -> Iterator[WalkedRow]:
    """Yield all rows of a segment from `first` on, read in large pieces. Raises `OSError`."""
    following = first
    while following < segment.rows:
        try:
            for number, row, batch, reason in log.walk(segment, following):
                following = number + 1
                yield WalkedRow(number, batch, None if reason is None else log.corruption_error(segment, row, reason))
            return
        except CorruptBatch as error:
            yield WalkedRow(following, memoryview(b""), error, False)
            following += 1
