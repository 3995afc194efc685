"""Damaged entries of a replica that could not be repaired, as operators and repair plans get them."""

from typing import Final, NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.types import Index, Offset

DAMAGED_MAX: Final = 1_000
"""Most entries that are remembered."""


class DamagedEntry(NamedTuple):
    """Entry that no other replica had when it was asked; its records are those from `offset` to `end`."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    offset: Offset
    end: Offset
    error: CorruptBatch
