"""Sync of whole file systems by `syncfs`, the only call that reports every failed write-back.

Linux reports a failed write-back once to every descriptor of the file that was open at the time, and a failure that was
not reported yet also to one that is opened later (4.17). But the kernel may evict a file without a descriptor, and its
failure with it. The file system keeps its own count of failures (5.8): `syncfs` on a descriptor fails if any data of
that file system could not be written back since the descriptor was opened, even if the file was evicted or deleted. So
a `FilesystemSync` is opened before the first write, and reports every error from then on.

    files of a `FilesystemSync` were opened after it;   one sync at a time, and after a failure every sync fails

Used only on file systems whose `syncfs` is known to wait for the data and to flush the disk's cache. A failure may
belong to a file of another program, but also then the disk is unreliable."""

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import Final

_MAGIC_NUMBERS: Final = (0xEF53, 0x58465342, 0x9123683E)
"""Magic numbers of ext4, XFS and Btrfs."""
_KERNEL_MIN: Final = (5, 8)
_STATFS_BYTES: Final = 256


class FilesystemSync:
    """Descriptor of a file system for `syncfs`, which reports failed write-backs since it was opened."""

    def __init__(self, descriptor: int, syncfs: Callable[[int], int]) -> None:
        """Watch the file system of an open descriptor; `syncfs` is the system call of this name."""
        self._descriptor = descriptor
        self._syncfs = syncfs
        self.device = os.fstat(descriptor).st_dev
        self._lock = threading.Lock()
        self._failure: OSError | None = None

    @classmethod
    def open(cls, path: str) -> "FilesystemSync | None":
        """Open the file system of a directory; return None if its `syncfs` is not reliable."""
        libc = _load_libc()
        if libc is None or _kernel_version() < _KERNEL_MIN or _file_system_type(libc, path) not in _MAGIC_NUMBERS:
            return None
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), libc.syncfs)

    def sync(self) -> None:
        """Block until all earlier writes are durable; raises `OSError`, and after that at every call."""
        with self._lock:
            if self._failure is None and self._syncfs(self._descriptor):
                number = ctypes.get_errno()
                self._failure = OSError(number, f"syncfs: {os.strerror(number)}")
            if self._failure is not None:
                raise self._failure

    def close(self) -> None:
        os.close(self._descriptor)


@cache
def _load_libc() -> ctypes.CDLL | None:
    """Return the C library; None if it lacks `syncfs` or `statfs`."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "syncfs") and hasattr(libc, "statfs") else None


def _kernel_version() -> tuple[int, ...]:
    """Return the kernel's version; (0,) if it is not Linux."""
    system = os.uname()
    major, _, rest = system.release.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if system.sysname == "Linux" and (major + minor).isdigit() else (0,)


def _file_system_type(libc: ctypes.CDLL, path: str) -> int:
    """Return the type of a path's file system, `f_type` of statfs(2), its first word; 0 if the call fails."""
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    if libc.statfs(os.fsencode(path), answer):
        return 0
    return int(ctypes.c_long.from_buffer(answer).value)
