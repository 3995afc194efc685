"""Interface to the file system: all access of raftlog to a disk.

Two implementations: `RealDisk` (Linux, threads inside) and `SimulatedDisk` (in memory, deterministic, faulty on
request). Reading and writing are immediate; a sync is a submitted operation with a completion, because it is the only
slow call, and its caller has other work meanwhile. Names are absolute paths.

Every method raises `OSError` as the operating system does; storage maps it to the error tree."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from raftlog.types import Buffer

SyncDone: TypeAlias = Callable[[OSError | None], None]
"""Callback that is called exactly once, with the error of the first failed sync or None."""


class File(Protocol):
    """Open file. Reads may run in several threads at once, also while one thread writes."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Return the present size of the file in bytes."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Return at most `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def prefetch(self) -> None:
        """Announce that the whole file will be read soon; return at once."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers, one after another, from `position`. After an error any part of them may be written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros."""
        ...

    def close(self) -> None:
        """Close this handle of the file, without a sync; other handles stay open."""
        ...


class DirectoryLock(Protocol):
    """Advisory lock, held until it is released or the process ends."""

    def release(self) -> None:
        """Release the lock; may be called again."""
        ...


class Disk(Protocol):
    """Interface to a file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open a file for reading and writing. `create` makes an empty file; raises `FileExistsError` if it exists.

        With `read_only` the file may belong to another user or to a read-only file system; writing raises `OSError`."""
        ...

    def exists(self, path: str) -> bool:
        """Return whether the path is the name of a file or directory."""
        ...

    def is_directory(self, path: str) -> bool:
        """Return whether the path is that of a directory."""
        ...

    def list_directory(self, path: str) -> list[str]:
        """Return the names in the directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make the directory and its missing parents, unless it exists. Durable by its parent's sync."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` atomically. Durable by the sync of both parents."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a file's name. Raises `FileNotFoundError`."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Lock a file, created if missing; raises `BlockingIOError` if another process or caller holds the lock."""
        ...

    @property
    def sync_method(self) -> str:
        """Method for submitted syncs of single files: `aio`, `threads` or `simulated`."""
        ...

    def free_bytes(self, path: str) -> int:
        """Return the number of free bytes in the file system of `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """Return the size of the file system of `path`."""
        ...

    def descriptor_shortage(self, path: str) -> OSError | None:
        """Return the error if the last attempt to open a file found no descriptor; None after a success.

        After such an error a new attempt is made first, with the directory `path`."""
        ...

    def sync(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        """Sync and wait: for opening, cutting and offline tools. The write path uses `submit_sync`."""
        ...

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        """Start to sync the contents of `files` and the entries of `directories`, in this order.

        Writes before the call are covered, later ones may or may not be. `done` is called later, in the caller's
        context, never from inside this call. A file that is closed meanwhile is skipped: its unsynced writes may be
        lost."""
        ...
