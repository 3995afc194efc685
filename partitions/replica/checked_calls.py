"""Records of the decisions on batches of idempotent producers: batches in flight, and one call's decisions."""

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
        self.producer: KnownProducer
        """State as if all of them were committed; offsets of batches are unknown."""
        self.last_index = Index(0)
        self.places: dict[tuple[int, int], Index] = {}
        """Entries by first and last sequence."""


class BatchPlace(NamedTuple):
    """Position of a batch in the log: its entry while that is not committed; with `index` 0, its offsets."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    offset: Offset
    end: Offset


class CheckedCall:
    """Result of checking the sequences of a call: where the originals of duplicates are, and the batches to append."""

    __slots__ = ("any_first_sequence", "fresh", "headers", "newcomers", "opened", "producers", "spots")

    def __init__(self, any_first_sequence: bool) -> None:
        self.any_first_sequence = any_first_sequence
        self.spots: list[BatchPlace | None] = []
        self.headers: list[BatchHeader] = []
        self.fresh: list[bytearray] = []
        self.producers: dict[int, KnownProducer] = {}
        """States of the producers after the batches to append."""
        self.opened: set[int] = set()
        """Producers with a batch of a transaction among them."""
        self.newcomers = 0
        """Number of those producers that are new."""


def has_producer(batch: bytearray) -> bool:
    """Return whether a batch is of an idempotent producer."""
    return bool(_PRODUCER_ID.unpack_from(batch, _PRODUCER_ID_AT)[0] >= 0)
