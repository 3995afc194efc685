"""The file protocol: the only way in which raftlog touches a disk.

Two implementations: `RealDisk` (Linux, threads inside) and `SimulatedDisk` (in memory, deterministic, faulty on
request). Reading and writing are immediate; a sync is a submitted operation with a completion, because it is the only
call that takes long, and because whoever waits for it must be able to go on meanwhile. Names are absolute paths.

Every method raises `OSError` as the operating system does; storage maps it to the error tree.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from raftlog.types import Buffer

SyncDone: TypeAlias = Callable[[OSError | None], None]
"""Called exactly once, with the error of the first sync that failed or `None`."""


class File(Protocol):
    """An open file. Reads may run in several threads at once, also while one thread writes."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Bytes in the file now."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """At most `length` bytes from `position`; fewer only at the end of the file."""
        ...

    def prefetch(self) -> None:
        """The whole file will be read soon: a hint, which returns at once."""
        ...

    def write(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after another from `position`. After an error any part of them may be written."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros."""
        ...

    def close(self) -> None:
        """Give the file back; it may be open elsewhere. Never syncs."""
        ...


class DirectoryLock(Protocol):
    """An advisory lock, held until released or until the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system, as far as raftlog needs one."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open for reading and writing. `create` makes an empty file and raises `FileExistsError` over an old one.

        With `read_only` the file may belong to somebody else or to a read-only file system; writing raises `OSError`.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """Names in the directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make the directory and its missing parents, unless it is there. Durable by its parent's sync."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Replace `new` by `old` atomically. Durable by the sync of both parents."""
        ...

    def unlink(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Lock a file, made when missing; raises `BlockingIOError` when another process or caller holds it."""
        ...

    def free_bytes(self, path: str) -> int:
        """Bytes that can still be written to the file system of `path`."""
        ...

    def total_bytes(self, path: str) -> int:
        """Size of the file system of `path`."""
        ...

    def descriptor_shortage(self, path: str) -> OSError | None:
        """The error of the last attempt to open a file, where no descriptor was left; None after a success.

        After such an error another attempt is made, with the directory `path`.
        """
        ...

    def sync(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        """Sync and wait: for opening, cutting and offline tools. On the write path use `submit_sync`."""
        ...

    def submit_sync(self, files: Sequence[File], directories: Sequence[str], done: SyncDone) -> None:
        """Start syncing the contents of `files` and the entries of `directories`, in this order.

        What was written before the call is covered, what is written after it may or may not be. `done` is called
        later, in the caller's context, never from inside this call. A file that is closed meanwhile is left out:
        whoever closes it gives up what it holds.
        """
        ...
