"""Transactions of a partition's producers, as far as committed entries determine them: open ones, and coordinators.

    first batch of a transaction: open from its offset    →    marker: closed, and the marker's coordinator is known

Changed by committed entries only, so it is the same on every replica, and a part of the snapshot of producers. Pure."""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from raftlog.errors import FormatError

NOT_OPEN: Final = -1
NO_EPOCH: Final = -1
_COUNT: Final = struct.Struct(">I")
_TRANSACTION: Final = struct.Struct(">qqi")
"""Producer id, first offset of its open transaction, epoch of the coordinator that sent its last marker."""


class ProducerTransaction(NamedTuple):
    """Row of a snapshot: `NOT_OPEN` and `NO_EPOCH` if there is neither."""

    producer_id: int
    first_offset: int
    coordinator_epoch: int


class TransactionTable:
    """Open transactions and epochs of coordinators, by producer id."""

    __slots__ = ("coordinator_epochs", "open")

    def __init__(self, rows: Iterable[ProducerTransaction] = ()) -> None:
        rows = list(rows)
        self.coordinator_epochs = {each.producer_id: each.coordinator_epoch for each in rows if each[2] != NO_EPOCH}
        """Epoch of the coordinator that sent a producer's last marker."""
        found = [(each.first_offset, each.producer_id) for each in rows if each.first_offset != NOT_OPEN]
        self.open = {producer_id: first_offset for first_offset, producer_id in sorted(found)}
        """First offset of each open transaction, ascending."""

    @property
    def first_open_offset(self) -> int | None:
        """Offset of the first batch of all open transactions; None if none is open."""
        return next(iter(self.open.values()), None)

    def begin(self, producer_id: int, offset: int) -> None:
        """Open the producer's transaction at its first batch; later ones change nothing."""
        self.open.setdefault(producer_id, offset)

    def end(self, producer_id: int, coordinator_epoch: int) -> None:
        """Close the producer's transaction, if one is open, by a marker of this coordinator."""
        self.open.pop(producer_id, None)
        self.coordinator_epochs[producer_id] = coordinator_epoch

    def forget(self, producer_id: int) -> None:
        """Forget an expired producer, which has no open transaction."""
        self.open.pop(producer_id, None)
        self.coordinator_epochs.pop(producer_id, None)

    def copy(self) -> "TransactionTable":
        """Return a copy of the table."""
        copied = TransactionTable()
        copied.open, copied.coordinator_epochs = self.open.copy(), self.coordinator_epochs.copy()
        return copied

    def add_later(self, later: "TransactionTable") -> None:
        """Add the table of later entries, which began empty: only transactions without a marker there stay open."""
        for producer_id, coordinator_epoch in later.coordinator_epochs.items():
            self.end(producer_id, coordinator_epoch)
        for producer_id, offset in later.open.items():  # all lie above the earlier ones
            self.begin(producer_id, offset)

    def pack_rows(self, producers: Iterable[int]) -> bytes:
        """Return the rows of these producers for a snapshot; no bytes if none has a row."""
        rows = [
            _TRANSACTION.pack(each, self.open.get(each, NOT_OPEN), self.coordinator_epochs.get(each, NO_EPOCH))
            for each in producers
            if each in self.open or each in self.coordinator_epochs
        ]
        return _COUNT.pack(len(rows)) + b"".join(rows) if rows else b""


def read_rows(payload: bytes, position: int) -> tuple[list[ProducerTransaction], int]:
    """Return the rows in a snapshot, and the position after them. Raises `FormatError`."""
    end = position + _COUNT.size
    count = _COUNT.unpack_from(payload, position)[0] if end <= len(payload) else 0
    rows = payload[end : end + count * _TRANSACTION.size]
    if end > len(payload) or len(rows) != count * _TRANSACTION.size:
        raise FormatError(f"a snapshot of producers ends within their transactions, after {len(payload)} bytes")
    return [ProducerTransaction(*each) for each in _TRANSACTION.iter_unpack(rows)], end + len(rows)
