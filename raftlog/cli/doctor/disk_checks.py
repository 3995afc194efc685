"""Checks of the data directory and its disk. Only a temporary file is written, and removed again."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from raftlog.cli.doctor.findings import OK, PROBLEM, WARNING, Finding
from raftlog.errors import InvalidArgument, StorageError
from raftlog.partitions.node.identity import check_directory
from raftlog.storage.directory import INTERNAL, LOCK, internal_path
from raftlog.storage.real_disk import RealDisk
from raftlog.types import NodeId

SYNCS_MAX: Final = 200
SYNC_SECONDS_MAX: Final = 3.0
SLOW_SYNC_MS: Final = 20.0
FAST_SYNC_MS: Final = 0.02
_BLOCK: Final = bytes(4096)
_VOLATILE: Final = ("tmpfs", "ramfs")
_REMOTE: Final = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs")


def check_data_dir(data_dir: str, node_id: int, min_free_bytes: int) -> Iterator[Finding]:
    """Check access, format, owner and node of the directory, free space, file system and speed of syncs."""
    place, problem = _find_place(Path(data_dir))
    if problem is not None:
        yield problem
    if place is None:
        return
    if problem is None:
        exists = place == Path(data_dir)
        yield (
            _check_owner(data_dir, node_id) if exists else Finding("data directory", OK, f"{data_dir} will be created")
        )
    yield from _check_space(place, min_free_bytes)
    yield _check_file_system(place)
    yield check_syncs(place)


def _find_place(path: Path) -> tuple[Path | None, Finding | None]:
    """Return the data directory, or its nearest ancestor that exists, if it can be written; and a problem or None."""
    broken = next((each for each in (path, *path.parents) if os.path.islink(each) and not os.path.exists(each)), None)
    if broken is not None:
        text = f"{broken} is a link to {os.readlink(broken)}, which does not exist"
        return None, Finding("data directory", PROBLEM, text, f"create or mount {os.readlink(broken)}")
    place = next((each for each in (path, *path.parents) if os.path.exists(each)), Path("/"))
    if not place.is_dir():
        text = f"{place} is a file"
        return None, Finding("data directory", PROBLEM, text, "name a directory with --data-dir")
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        text = f"{place} is on a file system that is mounted read-only"
        return None, Finding("data directory", PROBLEM, text, "mount it for reading and writing")
    if place != path and not os.access(place, os.W_OK | os.X_OK):
        text = f"user {os.geteuid()} cannot reach {path}, or create it in {place}"
        return None, Finding("data directory", PROBLEM, text, f"as root: install -d -o {os.geteuid()} -m 700 {path}")
    for each in (path, *_own_paths(path)) if place == path else ():
        if not os.access(each, os.R_OK | os.W_OK | (os.X_OK if each.is_dir() else 0)):
            text = f"user {os.geteuid()} cannot read and write {each}"
            advice = f"change the owner: chown -R {os.geteuid()} {path}"
            return place if each != path else None, Finding("data directory", PROBLEM, text, advice)
    return place, None


def _own_paths(path: Path) -> Iterator[Path]:
    """Yield those files of a data directory that exist and that a start writes first."""
    for each in (path / INTERNAL, path / INTERNAL / LOCK):
        if os.path.exists(each):
            yield each


def is_used(data_dir: str) -> bool:
    """Return whether a running process has locked the data directory."""
    try:
        descriptor = os.open(internal_path(data_dir, LOCK), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _check_owner(data_dir: str, node_id: int) -> Finding:
    """Check that the directory belongs to this node or is empty, its format, and whether a broker uses it."""
    try:
        check_directory(RealDisk(lambda job: job()), data_dir, NodeId(node_id))
    except InvalidArgument as error:
        return Finding("data directory", PROBLEM, str(error), "correct --node-id or --data-dir")
    except StorageError as error:
        return Finding("data directory", PROBLEM, str(error), "`raftlog log verify` checks a data directory")
    if not os.path.exists(internal_path(data_dir)):
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
