"""Data of `SequenceCheck`: batches of idempotent producers in flight, and the result of checking one call."""

import struct
from typing import Final, NamedTuple

from raftlog.partitions.replica.producers import KnownProducer
from raftlog.records import BatchHeader
from raftlog.types import Index, Offset

_PRODUCER_ID: Final = struct.Struct(">q")
_PRODUCER_ID_AT: Final = 43


class AheadProducer:
    """Batches and markers of a producer that this leader has appended and that are not committed yet."""

    __slots__ = ("last_index", "places", "producer")

    def __init__(self) -> None:
        """Create the state of a producer with uncommitted batches; `producer` is set by the owner."""
        self.producer: KnownProducer
        """Producer's state as if all these entries were committed; its batches have no offsets."""
        self.last_index = Index(0)
        self.places: dict[tuple[int, int], Index] = {}
        """Index of each of these batches, by its first and last sequence."""


class BatchPlace(NamedTuple):
    """Position of a batch in the log: the index of its entry while that is not committed.

    With `index` 0: its first offset, and the offset after it (`end`)."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    offset: Offset
    end: Offset


class CheckedCall:
    """Result of checking the sequences of a call: the originals of duplicates, and the batches to append."""

    __slots__ = ("any_first_sequence", "fresh", "headers", "newcomers", "opened", "producers", "spots")

    def __init__(self, any_first_sequence: bool) -> None:
        """Begin the check of one call.

        `any_first_sequence` is whether an unknown producer may begin at any sequence."""
        self.any_first_sequence = any_first_sequence
        self.spots: list[BatchPlace | None] = []
        """Position of the original that each batch repeats; None for a new batch."""
        self.headers: list[BatchHeader] = []
        self.fresh: list[bytearray] = []
        """Batches to append."""
        self.producers: dict[int, KnownProducer] = {}
        """States of the producers after the batches to append."""
        self.opened: set[int] = set()
        """Producers with a transactional batch among those to append."""
        self.newcomers = 0
        """Number of producers in `producers` that were unknown before."""


def has_producer(batch: bytearray) -> bool:
    """Return whether a batch is of an idempotent producer."""
    return bool(_PRODUCER_ID.unpack_from(batch, _PRODUCER_ID_AT)[0] >= 0)
