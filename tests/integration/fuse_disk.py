"""FUSE file system over a directory whose syncs fail, wait or are slow as a control file says.

`python -m tests.integration.fuse_disk SOURCE MOUNT ORDER` serves the files of SOURCE at MOUNT until it is unmounted.
Each fsync and fdatasync reads ORDER: `ok`, `fail` (EIO), `hold` (return once the file says something else), `delay MS`.
All else passes through. It lies beneath the kernel's file interface, so both methods for syncs reach it."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import block_until

_POLL_S = 0.005
"""Pause of a held sync between two looks at the control file."""
_MOUNTED_S_MAX = 20.0


class FuseDisk:
    """Mounted file system of one broker."""

    def __init__(self, data_dir: Path, order: Path) -> None:
        self.data_dir = data_dir
        self._order = order

    def set_syncs(self, order: str) -> None:
        """Set the behaviour of syncs from now on; held syncs continue when the behaviour is changed."""
        new = self._order.with_suffix(".new")
        new.write_text(order)
        new.rename(self._order)


@contextmanager
def fuse_disk(directory: Path) -> Iterator[FuseDisk]:
    """Mount a file system in `directory`; skip the test where that is impossible."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounting with FUSE needs root and /dev/fuse")
    source, mount, order = (directory / name for name in ("source", "mount", "order"))
    source.mkdir(parents=True)
    mount.mkdir()
    (source / "data").mkdir()
    disk = FuseDisk(mount / "data", order)
    disk.set_syncs("ok")
    command = [sys.executable, "-m", "tests.integration.fuse_disk", *map(str, (source, mount, order))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        with suppress(AssertionError):
            block_until(lambda: server.poll() is not None or os.path.ismount(mount), within_s=_MOUNTED_S_MAX)
        if not os.path.ismount(mount):
            server.kill()
            pytest.skip(f"FUSE does not work here: {server.communicate()[1].strip()}")
        try:
            yield disk
        finally:
            disk.set_syncs("ok")
            subprocess.run(["umount", "--lazy", str(mount)], check=True, timeout=30)
            server.wait(_MOUNTED_S_MAX)


def _serve(source: str, mount: str, order: str) -> None:
    from mfusepy import FUSE, FuseOSError, Operations  # loads libfuse

    class PassThrough(Operations):
        """Operations of the file system, on the files below `source`."""

        use_ns = True

        def __call__(self, op: str, *args: Any) -> Any:
            try:
                return super().__call__(op, *args)
            except OSError as error:
                raise FuseOSError(error.errno or errno.EIO) from error

        def _path(self, path: str) -> str:
            return source + path

        def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
            found = os.fstat(fh) if fh is not None else os.lstat(self._path(path))
            names = ("st_mode", "st_nlink", "st_size", "st_uid", "st_gid", "st_blocks", "st_ino")
            times = {f"st_{name}": getattr(found, f"st_{name}_ns") for name in ("atime", "mtime", "ctime")}
            return {name: getattr(found, name) for name in names} | times

        def readdir(self, path: str, fh: int) -> list[str]:
            return [".", "..", *os.listdir(self._path(path))]

        def statfs(self, path: str) -> dict[str, int]:
            found = os.statvfs(self._path(path))
            names = ("bavail", "bfree", "blocks", "bsize", "favail", "ffree", "files", "flag", "frsize", "namemax")
            return {f"f_{name}": getattr(found, f"f_{name}") for name in names}

        def mkdir(self, path: str, mode: int) -> None:
            os.mkdir(self._path(path), mode)

        def rmdir(self, path: str) -> None:
            os.rmdir(self._path(path))

        def unlink(self, path: str) -> None:
            os.unlink(self._path(path))

        def rename(self, old: str, new: str) -> None:
            os.rename(self._path(old), self._path(new))

        def link(self, target: str, source: str) -> None:
            os.link(self._path(source), self._path(target))

        def chmod(self, path: str, mode: int) -> None:
            os.chmod(self._path(path), mode)

        def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
            os.utime(self._path(path), ns=times)

        def create(self, path: str, mode: int, fi: Any = None) -> int:
            return os.open(self._path(path), os.O_RDWR | os.O_CREAT, mode)

        def open(self, path: str, flags: int) -> int:
            return os.open(self._path(path), flags & ~(os.O_CREAT | os.O_EXCL))

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return os.pread(fh, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            return os.pwrite(fh, data, offset)

        def truncate(self, path: str, length: int, fh: int | None = None) -> None:
            os.truncate(self._path(path) if fh is None else fh, length)

        def release(self, path: str, fh: int) -> None:
            os.close(fh)

        def fsync(self, path: str, datasync: int, fh: int) -> None:
            _delay_or_fail(order)
            os.fdatasync(fh) if datasync else os.fsync(fh)

        def fsyncdir(self, path: str, datasync: int, fh: int) -> None:
            _delay_or_fail(order)

    FUSE(PassThrough(), mount, foreground=True, nothreads=False, allow_other=False)


def _delay_or_fail(order: str) -> None:
    """Do what the order file says before a sync: hold it, fail it, or delay it."""
    while True:
        with open(order) as file:
            word, _, argument = file.read().partition(" ")
        if word == "hold":
            time.sleep(_POLL_S)
            continue
        if word == "fail":
            raise OSError(errno.EIO, "a sync that fails by order")
        if word == "delay":
            time.sleep(int(argument) / 1000)
        return


if __name__ == "__main__":
    _serve(*sys.argv[1:])
