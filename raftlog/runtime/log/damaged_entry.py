"""Damaged entries of a replica that could not be repaired, as operators and repair plans get them."""

from typing import Final, NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.types import Index, Offset

DAMAGED_MAX: Final = 1_000
"""Maximum number of damaged entries that are kept for reports."""


class DamagedEntry(NamedTuple):
    """Damaged entry that no other replica could supply; its records are those from `offset` to below `end`."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    offset: Offset
    end: Offset
    error: CorruptBatch
