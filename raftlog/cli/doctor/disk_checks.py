"""Checks of the data directory and its disk. Only a temporary file is written, and removed again."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from raftlog.cli.doctor.findings import OK, PROBLEM, WARNING, Finding
from raftlog.errors import StorageError
from raftlog.partitions.node.identity import KIND
from raftlog.storage.directory import read_meta
from raftlog.storage.real_disk import RealDisk

SYNCS_MAX: Final = 200
SYNC_SECONDS_MAX: Final = 3.0
SLOW_SYNC_MS: Final = 20.0
FAST_SYNC_MS: Final = 0.02
_BLOCK: Final = bytes(4096)
_VOLATILE: Final = ("tmpfs", "ramfs")
_REMOTE: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs")


def check_data_dir(data_dir: str, min_free_bytes: int) -> Iterator[Finding]:
    """Check access, ownership by a running broker, format, free space, file system and speed of syncs."""
    place = _nearest_directory(Path(data_dir))
    if place is None or not os.access(place, os.W_OK | os.X_OK):
        yield Finding(
            "data directory",
            PROBLEM,
            f"{place or data_dir} cannot be written by user {os.geteuid()}",
            f"change its owner: chown {os.geteuid()} {place or data_dir}",
        )
        return
    exists = place == Path(data_dir)
    yield _check_owner(data_dir) if exists else Finding("data directory", OK, f"{data_dir} will be created")
    yield from _check_space(place, min_free_bytes)
    yield _check_file_system(place)
    yield check_syncs(place)


def is_used(data_dir: str) -> bool:
    """Return whether a running process has locked the data directory."""
    try:
        descriptor = os.open(os.path.join(data_dir, ".raftlog", "lock"), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _nearest_directory(path: Path) -> Path | None:
    """Return the path, or its nearest ancestor that exists; None if this is a file."""
    for each in (path, *path.parents):
        if each.exists():
            return each if each.is_dir() else None
    return None


def _check_owner(data_dir: str) -> Finding:
    """Check the format of a directory, and whether a broker uses it."""
    try:
        meta = read_meta(RealDisk(lambda job: job()), data_dir, KIND)
    except (StorageError, OSError) as error:
        return Finding("data directory", PROBLEM, str(error), "`raftlog log verify` checks the directory")
    if meta is None:
        return Finding("data directory", OK, f"{data_dir} has no data yet")
    used = ", in use by a running broker" if is_used(data_dir) else ""
    return Finding("data directory", OK, f"{data_dir}{used}")


def _check_space(place: Path, min_free_bytes: int) -> Iterator[Finding]:
    """Yield findings about free space and inodes of the file system at `place`."""
    stats = os.statvfs(place)
    free = stats.f_bavail * stats.f_frsize
    text = f"{free / (1 << 30):,.1f} GiB free of {stats.f_blocks * stats.f_frsize / (1 << 30):,.1f} GiB"
    if free < min_free_bytes:
        advice = "free some space: below --storage-min-free-bytes a broker accepts no records"
        yield Finding("disk space", WARNING, text, advice)
    elif free < 10 * min_free_bytes:
        yield Finding("disk space", WARNING, text, "the disk is nearly full: add space, or shorten retention")
    else:
        yield Finding("disk space", OK, text)
    if stats.f_files and stats.f_favail < 1_000:
        yield Finding("inodes", WARNING, f"{stats.f_favail:,} free", "a partition takes about six files: add inodes")


def _check_file_system(place: Path) -> Finding:
    """Return the finding about the type of the file system at `place`."""
    kind = file_system_of(place)
    if kind in _VOLATILE:
        return Finding("file system", WARNING, f"{kind}: records are lost at a reboot", "use a disk")
    if kind in _REMOTE:
        return Finding(
            "file system", WARNING, f"{kind}, over the network", "use a local disk: syncs are slow or unsafe"
        )
    return Finding("file system", OK, kind or "unknown")


def file_system_of(place: Path) -> str:
    """Return the type of the file system of a directory; empty if it is unknown."""
    best, kind = "", ""
    target = f"{place.resolve()}/"
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            for line in file:
                _, point, name = line.split()[:3]
                point = point.replace("\\040", " ")
                if target.startswith(point.rstrip("/") + "/") and len(point) >= len(best):
                    best, kind = point, name
    except OSError:
        return ""
    return kind


def check_syncs(place: Path) -> Finding:
    """Measure appends of 4 KiB with `fdatasync`, as commits do, for a few seconds at most."""
    times: list[float] = []
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".raftlog-doctor-") as file:
            until = time.monotonic() + SYNC_SECONDS_MAX
            while len(times) < SYNCS_MAX and time.monotonic() < until:
                os.write(file.fileno(), _BLOCK)
                began = time.perf_counter()
                os.fdatasync(file.fileno())
                times.append((time.perf_counter() - began) * 1000)
    except OSError as error:
        return Finding("syncs", PROBLEM, f"a file in {place} cannot be synced: {error.strerror}", "check the disk")
    times.sort()
    median, slow = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
    text = f"fdatasync of 4 KiB: median {median:.2f} ms, 99 of 100 below {slow:.1f} ms"
    if slow > SLOW_SYNC_MS:
        return Finding(
            "syncs", WARNING, text, "each write waits for a sync: use a faster disk, or one that is less busy"
        )
    if median < FAST_SYNC_MS:
        advice = "no disk is that fast: check that syncs reach the disk (write cache, virtual disk without flushes)"
        return Finding("syncs", WARNING, text, advice)
    return Finding("syncs", OK, text)
