"""What a log says of idempotent producers and is not delivered yet: their batches, and control entries about them.

Noted when entries are appended, which reads their headers anyway, so that deliveries look at nothing else. Nothing is
noted before somebody follows; what the log held by then is his to read. Bounded by what can be uncommitted. Owned by a
group log, emptied by the replica above it.
"""

from collections import deque
from typing import Final, NamedTuple

from raftlog.records import BatchHeader, ControlKind
from raftlog.types import Index, Offset

_NO_OFFSET: Final = Offset(-1)
PRODUCER_KINDS: Final = frozenset((ControlKind.ROLL, ControlKind.SNAPSHOT, ControlKind.EXPIRE_PRODUCERS))


class ProducerEntry(NamedTuple):
    """A batch of an idempotent producer, with its offset and its header, which may not be stamped yet; or a control
    entry, with kind and payload."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    offset: Offset
    header: BatchHeader | None
    kind: ControlKind | None
    payload: bytes


class ProducerEntries:
    """Ascending by index. See the module."""

    __slots__ = ("_is_followed", "_waiting")

    def __init__(self) -> None:
        self._is_followed = False
        self._waiting: deque[ProducerEntry] = deque()

    def follow(self) -> None:
        """Somebody takes away what is delivered, from now on."""
        self._is_followed = True

    def note_batch(self, index: Index, offset: Offset, header: BatchHeader) -> None:
        """A batch of an idempotent producer was appended."""
        if self._is_followed:
            self._waiting.append(ProducerEntry(index, offset, header, None, b""))

    def note_control(self, index: Index, kind: ControlKind, payload: bytes) -> None:
        """A control entry was appended, of whatever kind."""
        if self._is_followed and kind in PRODUCER_KINDS:
            self._waiting.append(ProducerEntry(index, _NO_OFFSET, None, kind, payload))

    def cut_to(self, index: Index) -> None:
        """Everything above `index` is gone."""
        while self._waiting and self._waiting[-1].index > index:
            self._waiting.pop()

    def take(self, applied: Index) -> list[ProducerEntry]:
        """Those up to `applied`, in order; they are not kept."""
        waiting, taken = self._waiting, []
        while waiting and waiting[0].index <= applied:
            taken.append(waiting.popleft())
        return taken

    def clear(self) -> None:
        """The log is another one."""
        self._waiting.clear()
