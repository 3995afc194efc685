"""syncfs: one call that makes all of a file system durable, and the only one that reports every failed write-back.

Linux reports a failed write-back once to every descriptor of the file that was open at the time, and a failure that
was not reported yet also to one that is opened later (4.17). But a file without a descriptor may leave the kernel's
memory, and its failure with it. The file system keeps a count of its own (5.8): `syncfs` on a descriptor fails when
anything on that file system could not be written back since the descriptor was opened, even if the file was evicted or
deleted. So a witness is opened before the first write, and then gets every error.

    files of a witness were opened after it;   one sync at a time, and after a failure every sync fails

Used only on file systems whose `syncfs` is known to wait for the data and to flush the disk's cache. A failure may
belong to a file of another program: then the disk is bad all the same."""

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


class Witness:
    """Descriptor of a file system for `syncfs`. `open` it before the first write that it covers."""

    def __init__(self, descriptor: int, syncfs: Callable[[int], int]) -> None:
        self._descriptor = descriptor
        self._syncfs = syncfs
        self.device = os.fstat(descriptor).st_dev
        self._lock = threading.Lock()
        self._failure: OSError | None = None

    @classmethod
    def open(cls, path: str) -> "Witness | None":
        """Open a witness for the file system of a directory; return None where its `syncfs` is not reliable."""
        libc = _libc()
        if libc is None or _kernel() < _KERNEL_MIN or _file_system_of(libc, path) not in _MAGIC_NUMBERS:
            return None
        return cls(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), libc.syncfs)

    def sync(self) -> None:
        """Block until everything written before is durable; raises `OSError`, then always again."""
        with self._lock:
            if self._failure is None and self._syncfs(self._descriptor):
                number = ctypes.get_errno()
                self._failure = OSError(number, f"syncfs: {os.strerror(number)}")
            if self._failure is not None:
                raise self._failure

    def close(self) -> None:
        os.close(self._descriptor)


@cache
def _libc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None, use_errno=True)
    return libc if hasattr(libc, "syncfs") and hasattr(libc, "statfs") else None


def _kernel() -> tuple[int, ...]:
    """Return the version of the kernel; (0,) if it is not Linux."""
    system = os.uname()
    major, _, rest = system.release.partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if system.sysname == "Linux" and (major + minor).isdigit() else (0,)


def _file_system_of(libc: ctypes.CDLL, path: str) -> int:
    """Return `f_type` of statfs(2), which is the first word of its answer."""
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    if libc.statfs(os.fsencode(path), answer):
        return 0
    return int(ctypes.c_long.from_buffer(answer).value)
