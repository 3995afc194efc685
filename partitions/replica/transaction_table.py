"""Transactions of a partition's producers, as far as committed entries determine them: open ones, and coordinators.

    first batch of a transaction: open from its offset    →    marker: closed; its coordinator and number are known

A marker that a coordinator repeats can arrive while its producer's next transaction is open, and must not end
that one. Numbers of transactions ascend, and a coordinator begins none before the markers of the last one are
committed: so a marker is a repeated one if its number is not above that of the last committed marker.

Changed by committed entries only, so it is the same on every replica, and a part of the snapshot of producers. Pure."""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from raftlog.errors import FormatError
from raftlog.records import NO_NUMBER, MarkerValue

NOT_OPEN: Final = -1
NO_EPOCH: Final = -1
_COUNT: Final = struct.Struct(">I")
_TRANSACTION: Final = struct.Struct(">qqiq")
"""Producer id, first offset of its open transaction, epoch of the coordinator and number of its last marker."""
_NO_MARKER: Final = MarkerValue(NO_EPOCH, NO_NUMBER)


class ProducerTransaction(NamedTuple):
    """Producer's row in a snapshot: first offset of its open transaction, and its last marker.

    Without an open transaction the first offset is `NOT_OPEN`. Without a marker, `coordinator_epoch` is `NO_EPOCH` and
    `number` is `NO_NUMBER`."""

    producer_id: int
    first_offset: int
    coordinator_epoch: int
    number: int


class TransactionTable:
    """Open transactions and last markers of a partition's producers, by producer id."""

    __slots__ = ("last_markers", "open")

    def __init__(self, rows: Iterable[ProducerTransaction] = ()) -> None:
        """Create a table from the rows of a snapshot; default: without transactions."""
        rows = list(rows)
        self.last_markers = {each.producer_id: MarkerValue(*each[2:]) for each in rows if each[2] != NO_EPOCH}
        """Last marker of each producer; its number is the highest of all markers of the producer."""
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

    def end(self, producer_id: int, marker: MarkerValue) -> None:
        """Close the producer's transaction, if one is open, by this marker."""
        self.open.pop(producer_id, None)
        number = max(marker.number, self.last_marker(producer_id).number)
        self.last_markers[producer_id] = MarkerValue(marker.coordinator_epoch, number)

    def last_marker(self, producer_id: int) -> MarkerValue:
        """Return the producer's last marker; `NO_EPOCH` and `NO_NUMBER` without one."""
        return self.last_markers.get(producer_id, _NO_MARKER)

    def has_ended(self, producer_id: int, number: int) -> bool:
        """Return whether a marker with this number, or a later one, ended a transaction of the producer."""
        return NO_NUMBER < number <= self.last_marker(producer_id).number

    def forget(self, producer_id: int) -> None:
        """Forget an expired producer, which has no open transaction."""
        self.open.pop(producer_id, None)
        self.last_markers.pop(producer_id, None)

    def copy(self) -> "TransactionTable":
        """Return a copy of the table."""
        copied = TransactionTable()
        copied.open, copied.last_markers = self.open.copy(), self.last_markers.copy()
        return copied

    def add_later(self, later: "TransactionTable") -> None:
        """Add `later`, the table of later entries, which began empty. Transactions with a marker in it are closed."""
        for producer_id, marker in later.last_markers.items():
            self.end(producer_id, marker)
        for producer_id, offset in later.open.items():  # all lie above the earlier ones
            self.begin(producer_id, offset)

    def pack_rows(self, producers: Iterable[int]) -> bytes:
        """Return the rows of these producers for a snapshot; no bytes if none has a row."""
        rows = [
            _TRANSACTION.pack(each, self.open.get(each, NOT_OPEN), *self.last_marker(each))
            for each in producers
            if each in self.open or each in self.last_markers
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
