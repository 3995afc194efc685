"""Memory for large frames while they arrive, bounded over all connections of the process together.

    used ≤ limit + one frame:   the connection that holds memory for the longest always gets more, so one frame at least
                                goes on, and with its end the next one

A connection asks before it allocates, step by step as bytes arrive; the length that a frame announces costs nothing.
One that gets no memory stops reading until others have finished. Called by connections.
"""

from collections.abc import Callable


class ReceiveBudget:
    """One for each transport; `limit` is in bytes. Owners are told apart by identity."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._held: dict[object, int] = {}
        """Bytes by owner, the owner that began first in front."""
        self._waiting: dict[object, tuple[int, Callable[[], None]]] = {}
        """Bytes that an owner waits for, and the call that tells it that it has them; first come, first served."""

    def take(self, owner: object, size: int, on_granted: Callable[[], None]) -> bool:
        """Take `size` bytes more. False: `on_granted` is called once they are taken, unless `give` comes before."""
        assert owner not in self._waiting, "asked twice"
        if not self._waiting and self._maybe_grant(owner, size):
            return True
        if self._is_oldest(owner):
            self._grant(owner, size)
            return True
        self._waiting[owner] = size, on_granted
        return False

    def give(self, owner: object) -> None:
        """Give back all that the owner has, and let those go on who wait for it; the owner waits no longer."""
        self._waiting.pop(owner, None)
        self.used -= self._held.pop(owner, 0)
        for waiting, (size, on_granted) in list(self._waiting.items()):
            if waiting in self._waiting and self._maybe_grant(waiting, size):
                del self._waiting[waiting]
                on_granted()

    def _maybe_grant(self, owner: object, size: int) -> bool:
        if self.used + size > self.limit and not self._is_oldest(owner):
            return False
        self._grant(owner, size)
        return True

    def _is_oldest(self, owner: object) -> bool:
        return next(iter(self._held), owner) is owner

    def _grant(self, owner: object, size: int) -> None:
        self._held[owner] = self._held.get(owner, 0) + size
        self.used += size
