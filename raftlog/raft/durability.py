"""Which of the entries handed to the driver have been written and synced.

    durable ≤ written ≤ last index handed over

The driver reports by the number of the `Ready` that brought the bytes, not by index: an index that was cut off and
appended again would otherwise be taken for durable when the sync of its *former* bytes returns.
"""

from collections import deque

from raftlog.types import Index


class _Watermark:
    """One watermark over the Readys that are on their way, oldest first."""

    __slots__ = ("index", "number", "pending")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.number = 0
        self.pending: deque[tuple[int, Index]] = deque()

    def reach(self, number: int) -> bool:
        """Everything of the Readys up to `number` got there; true when the index moved."""
        assert number >= self.number, f"Ready {number} reported after {self.number}"
        self.number = number
        before = self.index
        while self.pending and self.pending[0][0] <= number:
            self.index = self.pending.popleft()[1]
        return self.index != before

    def cut_to(self, index: Index) -> None:
        self.index = min(self.index, index)
        if self.pending and self.pending[-1][1] > index:
            self.pending = deque((number, min(last, index)) for number, last in self.pending)

    def restart_at(self, index: Index) -> None:
        self.index = index
        self.pending = deque((number, index) for number, _ in self.pending)


class Durability:
    """The written and the durable index of one replica, and the number of its latest Ready."""

    __slots__ = ("_durable", "_written", "number")

    def __init__(self, last_index: Index) -> None:
        self.number = 0
        self._durable = _Watermark(last_index)
        self._written = _Watermark(last_index)

    @property
    def durable_index(self) -> Index:
        """Largest index synced together with every predecessor."""
        return self._durable.index

    @property
    def durable_number(self) -> int:
        return self._durable.number

    @property
    def written_index(self) -> Index:
        return self._written.index

    def hand_over(self, last_index: Index, has_bytes: bool) -> int:
        """The number of the next Ready; `last_index` is where the log ends with it."""
        self.number += 1
        if has_bytes:
            self._durable.pending.append((self.number, last_index))
            self._written.pending.append((self.number, last_index))
        return self.number

    def maybe_advance(self, written: int, durable: int) -> bool:
        """The driver's report; true when an index moved."""
        assert durable <= self.number, f"Ready {durable} is durable, but the last one was {self.number}"
        assert written <= self.number, f"Ready {written} is written, but the last one was {self.number}"
        is_moved = False
        if durable > self._durable.number:
            is_moved = self._durable.reach(durable)
        written = max(written, durable)
        if written > self._written.number:
            is_moved |= self._written.reach(written)
        assert self.durable_index <= self.written_index, f"durable {self.durable_index} > {self.written_index} written"
        return is_moved

    def cut_to(self, index: Index) -> None:
        self._durable.cut_to(index)
        self._written.cut_to(index)

    def restart_at(self, index: Index) -> None:
        """The stored log was replaced by a durable one that ends at `index`."""
        self._durable.restart_at(index)
        self._written.restart_at(index)
