"""The `.raftlog/` directory beside the data: meta file, lock, and subdirectories for damaged or removed files.

The meta file is one JSON object on one line, readable by people, with a CRC-32C over the rest of it. It is written
under a temporary name, synced and renamed."""

from collections.abc import Mapping
from typing import Any

from raftlog.errors import DirectoryLocked, FormatError, SmallFileDamaged
from raftlog.storage.disk import DirectoryLock, Disk
from raftlog.storage.json_file import JsonFile, read_json_file, replace_json

INTERNAL = ".raftlog"
FORMAT_VERSION = 2
"""Version of the format; raised when older programs cannot read new directories any more."""
FEATURE_LEVEL = 1
"""Feature level; raised when a program may write data that older ones do not support."""

META = "meta"
LOCK = "lock"
DAMAGED = "damaged"
CHECKPOINT = "checkpoint"
SYNC_FAILED = "sync-failed"
"""Marker file of a failed sync; removed once the next opening has rewritten data that may not be on the disk."""
LONE_LOG = "log"
"""Kind of directory in its meta file."""


def internal_path(path: str, *names: str) -> str:
    """Return the path of `names` inside the `.raftlog/` directory of `path`."""
    return "/".join((path, INTERNAL, *names))


def list_ancestors(path: str) -> list[str]:
    """Return the directories above `path`, nearest first."""
    found = []
    while path := path.rpartition("/")[0]:
        found.append(path)
    return [*found, "/"]


def is_inside(path: str, directory: str) -> bool:
    """Return whether `path` is the directory or is inside of it."""
    return path == directory or path.startswith(f"{directory}/")


def sync_found_names(disk: Disk, path: str, *below: str) -> None:
    """Sync the names in `path`, and in the directories `below` that exist; blocking.

    A process that was killed between making a directory and syncing its name leaves a directory that may not be
    durable."""
    disk.sync([], [directory for directory in (path, *below) if disk.exists(directory)])


def make_directory(disk: Disk, path: str) -> None:
    """Make a directory and its missing parents, all of them durable on return."""
    changed = make_directory_unsynced(disk, path)
    if changed:
        disk.sync([], changed)


def make_directory_unsynced(disk: Disk, path: str) -> list[str]:
    """Make a directory and its missing parents; return the directories that the caller must sync, in order."""
    missing = []
    while path and not disk.exists(path):
        missing.append(path)
        path = path.rpartition("/")[0]
    if missing:
        disk.make_directory(missing[0])
    return [made.rpartition("/")[0] or "/" for made in reversed(missing)]


def lock_directory(disk: Disk, path: str) -> DirectoryLock:
    """Lock the directory, and return the lock; raises `DirectoryLocked`."""
    try:
        return disk.lock(internal_path(path, LOCK))
    except BlockingIOError:
        raise DirectoryLocked(
            f"{path} is open in another process; stop that process, or use another directory"
        ) from None


def meta_fields(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of the meta file of a directory of this kind."""
    return {"format": FORMAT_VERSION, "feature_level": FEATURE_LEVEL, "kind": kind, **fields}


def write_meta(disk: Disk, path: str, kind: str, fields: Mapping[str, Any]) -> None:
    """Write the meta file durably; `fields` are JSON values, `kind` is the kind of directory."""
    replace_json(disk, internal_path(path, META), meta_fields(kind, fields))


def read_meta(disk: Disk, path: str, kind: str) -> JsonFile | None:
    """Return the meta file of a directory of this kind; None without one.

    Raises `SmallFileDamaged`, and `FormatError` when the directory is of another kind or version."""
    try:
        meta = read_json_file(disk, internal_path(path, META))
        if meta is None:
            return None
        level = meta.number("feature_level")
    except SmallFileDamaged as error:
        raise SmallFileDamaged(f"{error}; restore it from a copy of the directory") from None
    if meta.format_version != FORMAT_VERSION or level > FEATURE_LEVEL:
        raise FormatError(
            f"{meta.path} has format version {meta.format_version}, feature level {level}; "
            f"this program reads format version {FORMAT_VERSION} up to feature level {FEATURE_LEVEL}: use the release "
            "that wrote it, or start with an empty directory"
        )
    if meta.kind != kind:
        raise FormatError(f"{path} is the directory of a {meta.kind}, not of a {kind}")
    return meta
