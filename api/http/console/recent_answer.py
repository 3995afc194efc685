"""Answer that requests within a short time share: found once, and dropped when it is no longer recent.

    requests at the same time   wait for the same call
    a failed call               is reported to all that wait for it, and not kept

For lists and reports whose cost grows with the cluster, and which each open page requests every few seconds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class RecentAnswer(Generic[T]):
    """Cache of the result of `find`, which is called again when the result is `fresh_s` seconds old."""

    def __init__(self, find: Callable[[], Awaitable[T]], fresh_s: float) -> None:
        self._find, self._fresh_s = find, fresh_s
        self._finding: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return a recent result. Raises the errors of `find`.

        A caller that is cancelled does not cancel the others."""
        if self._finding is None:
            self._finding = asyncio.get_running_loop().create_task(self._call(), name="answer for the console")
            self._finding.add_done_callback(self._on_done)
        return await asyncio.shield(self._finding)

    async def _call(self) -> T:
        """Call the function that computes the answer."""
        return await self._find()

    def _on_done(self, finding: "asyncio.Task[T]") -> None:
        """Keep a new answer for a while; forget a failed attempt at once."""
        if finding.cancelled() or finding.exception() is not None:
            self._finding = None
        else:
            finding.get_loop().call_later(self._fresh_s, self._drop)

    def _drop(self) -> None:
        """Forget the answer, so that the next call computes it again."""
        self._finding = None
