"""Cache of open descriptors by file: a bounded number for any number of files, reopened on use.

    open descriptors ≤ limit, except for those in use and those of unsynced files without a `FilesystemSync`

A file that was written and not yet synced gives up its descriptor only if it has a `FilesystemSync`, which reports a
failed write-back and later syncs the file. The cache has a lock of its own: reads come from any thread.
Called by `RealFile`."""

import errno
import os
import resource
import threading
from collections import OrderedDict
from typing import Protocol

from raftlog.storage.temporary_errors import lacks_descriptors

_SHRINK_STEPS = 32


class CachedFile(Protocol):
    """File whose descriptor the cache may close and reopen."""

    path: str
    flags: int
    is_closed: bool

    @property
    def may_release(self) -> bool:
        """Whether the file's descriptor may be closed now."""
        ...

    def mark_released(self) -> None:
        """Record that the file's descriptor is closed; the next use reopens it."""
        ...


class DescriptorUse:
    """Use of a descriptor in a `with` block; meanwhile the cache does not close it."""

    __slots__ = ("_cache", "descriptor", "users")

    def __init__(self, cache: "DescriptorCache", descriptor: int) -> None:
        self._cache = cache
        self.descriptor = descriptor
        self.users = 0

    def __enter__(self) -> "DescriptorUse":
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.release(self)


class DescriptorCache:
    """Cache of descriptors, least recently used first. Above `limit` it closes those that may be closed."""

    def __init__(self, limit: int) -> None:
        """Begin without open descriptors; at most `limit` are open at once."""
        self._limit = limit
        self._lock = threading.Lock()
        self._open: OrderedDict[CachedFile, DescriptorUse] = OrderedDict()
        self._dropped: set[DescriptorUse] = set()
        self.shortage: OSError | None = None
        """Error of the last attempt to open a file, if no descriptor was left; None after a success."""

    def __len__(self) -> int:
        return len(self._open) + len(self._dropped)

    def adopt(self, file: CachedFile, descriptor: int) -> None:
        """Add an open descriptor of `file` to the cache."""
        with self._lock:
            self._open[file] = DescriptorUse(self, descriptor)
            self._shrink()

    def use(self, file: CachedFile) -> DescriptorUse:
        """Return the descriptor of `file` for a `with` block, opened again if it was closed. Raises `OSError`."""
        with self._lock:
            if file.is_closed:
                raise OSError(errno.EBADF, "the file was closed", file.path)
            use = self._open.get(file)
            if use is None:
                use = self._open[file] = DescriptorUse(self, self._open_path(file.path, file.flags))
                use.users = 1
                self._shrink()
            else:
                self._open.move_to_end(file)
                use.users += 1
            return use

    def open_path(self, path: str, flags: int, mode: int = 0o600) -> int:
        """Open a file like `os.open`; if no descriptor is left, close one of a cached file and retry."""
        with self._lock:
            return self._open_path(path, flags, mode)

    def _open_path(self, path: str, flags: int, mode: int = 0o600) -> int:
        """Open a file; if no descriptor is left, close another file first. Raises the error if this does not help."""
        try:
            try:
                descriptor = os.open(path, flags, mode)
            except OSError as error:
                if not lacks_descriptors(error) or not self._close_one():
                    raise
                descriptor = os.open(path, flags, mode)
        except OSError as error:
            if lacks_descriptors(error):
                self.shortage = error
            raise
        self.shortage = None
        return descriptor

    def _close_one(self) -> bool:
        """Close the least recently used descriptor that may be closed; return whether one was closed.

        Its number must be below the process's limit of open files: only such a number can be used again."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        for file, use in self._open.items():
            if use.descriptor < limit and not use.users and file.may_release:
                del self._open[file]
                file.mark_released()
                os.close(use.descriptor)
                return True
        return False

    def release(self, use: DescriptorUse) -> None:
        """End a use: close the descriptor if its file was dropped, and shrink the cache if it is too large."""
        with self._lock:
            use.users -= 1
            if not use.users and use in self._dropped:
                self._dropped.remove(use)
                os.close(use.descriptor)
            elif len(self._open) > self._limit:
                self._shrink()

    def drop(self, file: CachedFile) -> None:
        """Remove a closed file, and close its descriptor now or after its last use."""
        with self._lock:
            use = self._open.pop(file, None)
            if use is None:
                return
            if use.users:
                self._dropped.add(use)
            else:
                os.close(use.descriptor)

    def _shrink(self) -> None:
        """Close the least recently used descriptors; those that must stay move to the end, to keep the search short."""
        excess = len(self._open) - self._limit
        for _ in range(min(_SHRINK_STEPS, len(self._open))):
            if excess <= 0:
                return
            file, use = next(iter(self._open.items()))
            if use.users or not file.may_release:
                self._open.move_to_end(file)
                continue
            del self._open[file]
            file.mark_released()
            os.close(use.descriptor)
            excess -= 1
