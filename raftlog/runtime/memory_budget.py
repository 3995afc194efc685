"""Memory for requests and answers, bounded for all connections of the process together.

    used ≤ limit + one owner's:   with `take` the owner that has held memory for the longest always gets more, so one
                                  owner at least goes on, and with its end the next one
    used − reserve ≤ limit − reserve, in the same way: owners of small requests take the reserve first, without a wait

An owner takes memory before it allocates, step by step as bytes arrive; a length that is only announced costs nothing.
An owner that gets no memory stops reading until others have finished. The configured total is split into three shares
that do not borrow from each other: neither slow clients nor large answers can stop the frames between brokers. Used by
connections between brokers (`runtime.rpc`) and by the HTTP server, whose answers do not wait (see `api.http.server`).
"""

from collections.abc import Callable
from typing import NamedTuple

from raftlog.topic_config import MIB

MEMORY_BUDGET_BYTES = 256 * MIB
"""Default of `--memory-budget-bytes`."""


class MemoryShares(NamedTuple):
    """Division of a broker's memory for requests and answers into parts, in bytes."""

    frames: int
    """A quarter, for frames from other brokers."""
    requests: int
    """Three eighths, for bodies of requests and the records made of them."""
    answers: int
    """The rest, for answers, fetched batches and opened ones."""

    @classmethod
    def divide(cls, total: int) -> "MemoryShares":
        """Divide a total, in bytes, into the three shares."""
        frames, requests = total // 4, total * 3 // 8
        return cls(frames, requests, total - frames - requests)


class MemoryBudget:
    """One part of the memory, `limit` bytes, from which owners take bytes; owners are distinguished by identity.

    `reserve` bytes of the limit are only for small requests, which therefore do not wait for large ones."""

    def __init__(self, limit: int, reserve: int = 0) -> None:
        """Create a budget of `limit` bytes, of which `reserve` are only for small requests."""
        assert 0 <= reserve <= limit, f"a reserve of {reserve} of {limit} bytes"
        self.limit, self.reserve = limit, reserve
        self._reserve_used = 0
        self._held_of_reserve: dict[object, int] = {}
        """Bytes of the reserve by owner; they are in `_held` too."""
        self.used = 0
        self.promised = 0
        """Bytes reserved for answers that have not arrived; no owner holds them yet."""
        self.refused = 0
        """Number of refusals: an owner went on with less memory, or gave up."""
        self._held: dict[object, int] = {}
        """Bytes by owner, the oldest owner first."""
        self._waiting: dict[object, tuple[int, Callable[[], None], bool]] = {}
        """Bytes that an owner waits for, the callback when they are granted, and whether they may be of the reserve;
        first come, first served."""

    @property
    def waiting_count(self) -> int:
        """Number of owners that wait."""
        return len(self._waiting)

    @property
    def free(self) -> int:
        """Bytes that no owner holds; negative while owners together hold more than `limit`."""
        return self.limit - self.used

    def take(self, owner: object, size: int, on_granted: Callable[[], None], *, is_small: bool = False) -> bool:
        """Take `size` bytes more and return true, or queue the request and return false.

        A queued request is granted later: then `on_granted` is called once, unless `release` or `stop_waiting` is
        called before. A small request uses the reserve first. The owner that has held memory for the longest time
        never waits, even above the limit."""
        assert owner not in self._waiting, "asked twice"
        if is_small and self._try_take_reserve(owner, size):
            return True
        if not self._waiting and self._try_grant(owner, size):
            return True
        if self._is_oldest(owner):
            self._grant(owner, size)
            return True
        self._waiting[owner] = size, on_granted, is_small
        return False

    def try_take(self, owner: object, size: int) -> bool:
        """Take `size` more bytes if they are free and no owner waits; return whether they were taken.

        While no memory is used, any size is granted."""
        if self._waiting or (self.used and not self._fits(size)):
            return False
        self._grant(owner, size)
        return True

    def take_anyway(self, owner: object, size: int) -> None:
        """Take `size` bytes more, also above the limit, because they are in memory already."""
        self._grant(owner, size)

    def release(self, owner: object) -> None:
        """Return all memory of the owner, serve the waiting owners, and cancel the owner's own wait."""
        self._waiting.pop(owner, None)
        self.used -= self._held.pop(owner, 0)
        self._reserve_used -= self._held_of_reserve.pop(owner, 0)
        self._serve()

    def release_part(self, owner: object, size: int) -> None:
        """Return `size` bytes of the owner's memory. Its place in the order of age stays."""
        left = self._held[owner] - size
        assert left >= 0, f"released {-left} bytes more than were taken"
        self._held[owner] = left
        self.used -= size
        of_reserve = min(size, self._held_of_reserve.get(owner, 0))
        if of_reserve:
            self._held_of_reserve[owner] -= of_reserve
            self._reserve_used -= of_reserve
        self._serve()

    def stop_waiting(self, owner: object) -> None:
        """Cancel the wait of an owner, which keeps the memory that it has."""
        if self._waiting.pop(owner, None) is not None:
            self._serve()

    def _serve(self) -> None:
        """Grant memory to waiting owners as far as it is free, oldest request first."""
        for waiting, (size, on_granted, is_small) in list(self._waiting.items()):
            if waiting in self._waiting and (
                (is_small and self._try_take_reserve(waiting, size)) or self._try_grant(waiting, size)
            ):
                del self._waiting[waiting]
                on_granted()

    def _try_take_reserve(self, owner: object, size: int) -> bool:
        """Grant the bytes from the reserve if it has them; return whether granted."""
        if self._reserve_used + size > self.reserve:
            return False
        self._reserve_used += size
        self._held_of_reserve[owner] = self._held_of_reserve.get(owner, 0) + size
        self._grant(owner, size)
        return True

    def _try_grant(self, owner: object, size: int) -> bool:
        """Grant the bytes if they are free, or if the owner has held memory for the longest; return whether granted."""
        if not self._fits(size) and not self._is_oldest(owner):
            return False
        self._grant(owner, size)
        return True

    def _fits(self, size: int) -> bool:
        """Return whether the memory outside of the reserve has room for `size` bytes."""
        return self.used - self._reserve_used + size <= self.limit - self.reserve

    def _is_oldest(self, owner: object) -> bool:
        """Return whether the owner has held memory for the longest time, or no owner holds any."""
        return next(iter(self._held), owner) is owner

    def _grant(self, owner: object, size: int) -> None:
        """Charge the bytes to the owner, whether or not they are free."""
        self._held[owner] = self._held.get(owner, 0) + size
        self.used += size
