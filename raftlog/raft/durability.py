"""Index of the last synced entry, from the driver's reports.

    durable ≤ last index handed over

The driver reports by the number of the `Ready` that brought the bytes, not by index: an index that was cut off and
appended again would otherwise be taken for durable when the sync of its *former* bytes returns."""

from collections import deque

from raftlog.types import Index


class Durability:
    """Durable index of one replica, and the number of its latest Ready."""

    __slots__ = ("_pending", "durable_index", "durable_number", "number")

    def __init__(self, last_index: Index) -> None:
        """Begin with a log that is durable up to `last_index`."""
        self.number = 0
        self.durable_number = 0
        self.durable_index = last_index
        """Highest index that is synced with all entries before it."""
        self._pending: deque[tuple[int, Index]] = deque()
        """Readys with bytes that are not synced yet, oldest first, each with the log's end."""

    def hand_over(self, last_index: Index, has_bytes: bool) -> int:
        """Register the next Ready, after which the log ends at `last_index`; return its number.

        `has_bytes` is whether the Ready has bytes to sync."""
        self.number += 1
        if has_bytes:
            self._pending.append((self.number, last_index))
        return self.number

    def advance_durable_index(self, durable: int) -> bool:
        """Process the report that all Readys up to number `durable` are synced.

        Return true when `durable_index` moved."""
        assert durable <= self.number, f"Ready {durable} is durable, but the last one was {self.number}"
        if durable <= self.durable_number:
            return False
        self.durable_number = durable
        before = self.durable_index
        while self._pending and self._pending[0][0] <= durable:
            self.durable_index = self._pending.popleft()[1]
        return self.durable_index != before

    def cut_to(self, index: Index) -> None:
        """Lower the durable index, and those of pending Readys, to `index` because later entries were cut off."""
        self.durable_index = min(self.durable_index, index)
        if self._pending and self._pending[-1][1] > index:
            self._pending = deque((number, min(last, index)) for number, last in self._pending)

    def restart_at(self, index: Index) -> None:
        """Restart at a replaced log that is durable and ends at `index`."""
        self.durable_index = index
        self._pending = deque((number, index) for number, _ in self._pending)
