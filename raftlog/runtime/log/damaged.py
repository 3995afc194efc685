"""Entries of a replica that are damaged and could not be repaired, for whoever decides what to do about them."""

from typing import Final, NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.types import Index, Offset

DAMAGED_MAX: Final = 1_000
"""So many are kept in mind."""


class DamagedEntry(NamedTuple):
    """An entry that no other replica could give when it was asked; its records are those from `offset` to `end`."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    offset: Offset
    end: Offset
    error: CorruptBatch
