"""Entries about idempotent producers that are not delivered yet: their batches, and control entries about them.

Kept when entries are appended, since their headers are read then, so that deliveries need not read anything.
Nothing is kept before `follow`, whose caller reads older entries from the log itself. The queue is bounded by the limit
for uncommitted entries. Owned by a group log, emptied by the replica above it."""

from collections import deque
from typing import Final, NamedTuple

from raftlog.records import MARKER_KINDS, BatchHeader, ControlKind
from raftlog.types import Index, Offset

PRODUCER_KINDS: Final = MARKER_KINDS | {ControlKind.ROLL, ControlKind.SNAPSHOT, ControlKind.EXPIRE_PRODUCERS}


class ProducerEntry(NamedTuple):
    """Batch of an idempotent producer, whose kind is None, or a control entry with its kind and payload.

    `header` may be from before the stamping, so its base offset may be wrong; `offset` is right."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    offset: Offset
    header: BatchHeader | None
    kind: ControlKind | None
    payload: bytes


class ProducerEntries:
    """Queue of log entries about idempotent producers that are not delivered yet, ascending by index."""

    __slots__ = ("_is_followed", "_waiting")

    def __init__(self) -> None:
        self._is_followed = False
        self._waiting: deque[ProducerEntry] = deque()

    def follow(self) -> None:
        """Start to keep entries, because the log has a reader that takes the delivered ones."""
        self._is_followed = True

    def add_batch(self, index: Index, offset: Offset, header: BatchHeader) -> None:
        """Add an appended batch of an idempotent producer."""
        if self._is_followed:
            self._waiting.append(ProducerEntry(index, offset, header, None, b""))

    def add_control(self, index: Index, offset: Offset, header: BatchHeader, kind: ControlKind, payload: bytes) -> None:
        """Add an appended control entry, if its kind is about producers."""
        if self._is_followed and kind in PRODUCER_KINDS:
            self._waiting.append(ProducerEntry(index, offset, header, kind, payload))

    def cut_to(self, index: Index) -> None:
        """Remove all entries above `index`."""
        while self._waiting and self._waiting[-1].index > index:
            self._waiting.pop()

    def take(self, applied: Index) -> list[ProducerEntry]:
        """Remove and return the entries up to `applied`, in order."""
        waiting, taken = self._waiting, []
        while waiting and waiting[0].index <= applied:
            taken.append(waiting.popleft())
        return taken

    def clear(self) -> None:
        """Remove all entries, because the log is replaced by another one."""
        self._waiting.clear()
