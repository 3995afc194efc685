"""Permissions of requests that wait: a request ends with `NotAuthorized` once its caller may not continue.

    enter   the permission is checked → NotAuthorized
    wait    entries or superusers change → it is checked again → revoked: the task is cancelled, as by a timeout
    exit    a revoked block raises NotAuthorized, even if it has a result

After a change all waiting requests are checked within a few turns of the event loop, a slice in each. Made by the
authorizer, for long polls and streams of all API servers."""

import asyncio
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any, Final

from raftlog.errors import NotAuthorized, Unavailable
from raftlog.partitions.caller import Caller
from raftlog.security.permissions import AclOperation, AclResourceType, Resource

_SLICE: Final = 500
"""Permissions that are checked in one turn of the loop: about a millisecond."""
Authorize = Callable[[Caller, AclOperation, Resource], None]


class PermissionWatch:
    """Context manager around a waiting request; it cancels the request when the caller loses the permission.

    Used with `async with`. Made by `PermissionWatches`."""

    __slots__ = (
        "_caller",
        "_cancelling",
        "_is_checked",
        "_names",
        "_operation",
        "_refusal",
        "_task",
        "_type",
        "_watches",
    )

    def __init__(
        self,
        watches: "PermissionWatches",
        caller: Caller,
        operation: AclOperation,
        type_: AclResourceType,
        names: Collection[str],
        *,
        is_checked: bool,
    ) -> None:
        """Watch the caller's permission for an operation on resources of a type.

        `is_checked` is whether it was checked already."""
        self._watches, self._caller, self._operation = watches, caller, operation
        self._type, self._names, self._is_checked = type_, names, is_checked
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._refusal: NotAuthorized | Unavailable | None = None

    def __len__(self) -> int:
        return len(self._names)

    async def __aenter__(self) -> None:
        if not self._is_checked:
            self._authorize()
        task = self._task = asyncio.current_task()
        assert task is not None, "a permission is watched outside of a task"
        self._cancelling = task.cancelling()
        self._watches.add(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch; raise the refusal instead of the cancellation that it caused."""
        self._watches.discard(self)
        task, self._task = self._task, None
        if self._refusal is None or task is None:
            return
        is_last = task.uncancel() <= self._cancelling
        if error is None or (is_last and isinstance(error, asyncio.CancelledError)):
            raise self._refusal from None

    def _authorize(self) -> None:
        """Raise `NotAuthorized` unless the caller may perform the operation on all resources."""
        for name in self._names:
            self._watches.authorize(self._caller, self._operation, Resource(self._type, name))

    def check(self) -> None:
        """Cancel the task of the block if the permission has ended."""
        if self._task is None or self._refusal is not None:
            return
        try:
            self._authorize()
        except (NotAuthorized, Unavailable) as refusal:
            self._refusal = refusal
            self._task.cancel()


class PermissionWatches:
    """All requests of one broker that wait under a permission. `authorize` raises `NotAuthorized`, and reports it."""

    def __init__(self, authorize: Authorize) -> None:
        self.authorize = authorize
        self._open: dict[PermissionWatch, None] = {}
        self._is_stale = False
        self._checking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return len(self._open)

    def add(self, watch: PermissionWatch) -> None:
        """Check the request of `watch` at each change of permissions, until `discard`."""
        self._open[watch] = None

    def discard(self, watch: PermissionWatch) -> None:
        """Stop checking a request."""
        self._open.pop(watch, None)

    def check_all(self) -> None:
        """Begin to check all waiting requests, because permissions have changed."""
        self._is_stale = bool(self._open)
        if self._is_stale and self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check(), name="permissions of requests")

    async def _check(self) -> None:
        """Check all waiting requests in slices, and again if permissions change meanwhile."""
        try:
            while self._is_stale:
                self._is_stale = False
                count = 0
                for watch in list(self._open):
                    watch.check()
                    count += 1 + len(watch)
                    if count >= _SLICE:
                        count = 0
                        await asyncio.sleep(0)
        finally:
            self._checking = None

    def close(self) -> None:
        """Stop a running check."""
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None
