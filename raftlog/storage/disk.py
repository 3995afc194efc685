"""The file protocol: all access of raftlog to a disk.

Two implementations: `RealDisk` (Linux, threads inside) and `SimulatedDisk` (in memory, deterministic, faulty on
request). Reading and writing are immediate; a sync is a submitted operation with a completion, because it is the only
call that takes long, and its caller has other work meanwhile. Names are absolute paths.

Every method raises `OSError` as the operating system does; storage maps it to the error tree."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from raftlog.types import Buffer

SyncDone: TypeAlias = Callable[[OSError | None], None]
"""Callback, called exactly once, with the error of the first sync that failed or None."""


class File(Protocol):
    """An open file. Reads may run in several threads at once, also while one thread writes."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Return the bytes in the file now."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Return at most `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def prefetch(self) -> None:
        """Announce that the whole file will be read soon; returns at once."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after another from `position`. After an error any part of them may be written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros."""
        ...

    def close(self) -> None:
        """Release the file; it may be open elsewhere. Never syncs."""
        ...


class DirectoryLock(Protocol):
    """An advisory lock, held until released or until the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open for reading and writing. `create` makes an empty file and raises `FileExistsError` over an old one.

        With `read_only` the file may belong to another user or to a read-only file system; writing raises `OSError`."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """Return the names in the directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make the directory and its missing parents, unless it exists. Durable by its parent's sync."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` atomically. Durable by the sync of both parents."""
        ...

    def unlink(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Lock a file, created when missing; raises `BlockingIOError` when another process or caller holds it."""
        ...

    @property
    def sync_method(self) -> str:
        """Method for submitted syncs of single files: `aio`, `threads` or `simulated`."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the bytes that can still be written to the file system of `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system of `path`."""
        ...

    def descriptor_shortage(self, path: str) -> OSError | None:
        """Return the error of the last attempt to open a file, if no descriptor was left; None after a success.

        After such an error another attempt is made first, with the directory `path`."""
        ...

    def sync(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        """Sync and wait: for opening, cutting and offline tools. On the write path use `submit_sync`."""
        ...

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        """Start syncing the contents of `files` and the entries of `directories`, in this order.

        Writes before the call are covered, later ones may or may not be. `done` is called later, in the caller's
        context, never from inside this call. A file that is closed meanwhile is left out: its unsynced writes may be
        lost."""
        ...
