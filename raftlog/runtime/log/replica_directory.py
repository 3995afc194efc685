"""Directory of one replica: its meta file, its removal, and the directory in which a fetched log is assembled.

    {data_dir}/{name}/                      segments, and `.raftlog/meta` with the group id
    {data_dir}/.raftlog/controller/         the same, of the controller
    {data_dir}/.raftlog/installing/{id}/    a log that is being fetched; takes the place of the old one as a whole
    {data_dir}/.raftlog/trash/{id}-{n}/     a removed or replaced log, until it is deleted
    {data_dir}/.raftlog/damaged/{id}-{n}/   a log that was abandoned on an operator's request; kept
    {data_dir}/.raftlog/unknown/{name}-{n}/ a directory that was in the place of a new replica; kept

Directories are opened by the group id in their meta file, never by name. Unknown directories are left alone."""

import logging
import uuid
from collections.abc import Iterator

from raftlog.errors import FormatError, SmallFileDamaged
from raftlog.storage.directory import (
    CHECKPOINT,
    DAMAGED,
    INTERNAL,
    internal_path,
    make_directory,
    read_meta,
    write_meta,
)
from raftlog.storage.disk import Disk
from raftlog.storage.recovery import read_roll, segment_bases
from raftlog.storage.segment import open_for_reading
from raftlog.storage.temporary_errors import FULL_ERRORS

_logger = logging.getLogger(__name__)
REPLICA = "replica"
"""Kind of directory in its meta file."""
CONTROLLER = f"{INTERNAL}/controller"
"""Name of the controller's directory, below the data directory."""
_INSTALLING = "installing"
_TRASH = "trash"
_UNKNOWN = "unknown"


def find_replicas(disk: Disk, data_dir: str) -> dict[uuid.UUID, str]:
    """Return the paths of all replicas' directories below `data_dir`, by group id.

    A meta file that was lost or damaged is written again from a roll. Raises `FormatError`, `OSError`."""
    return _find(disk, data_dir, repairs_meta=True)


def find_replicas_read_only(disk: Disk, data_dir: str) -> dict[uuid.UUID, str]:
    """Return the paths of all replicas' directories like `find_replicas`, but write nothing."""
    return _find(disk, data_dir, repairs_meta=False)


def _find(disk: Disk, data_dir: str, *, repairs_meta: bool) -> dict[uuid.UUID, str]:
    """Return the replica directories by Raft group id. Raises `FormatError` if two belong to one group."""
    found: dict[uuid.UUID, str] = {}
    for path in _list_candidates(disk, data_dir):
        group_id = group_of(disk, path, repairs_meta=repairs_meta)
        if group_id is None:
            continue
        if group_id in found:
            raise FormatError(f"{path} and {found[group_id]} both belong to group {group_id}; move one of them away")
        found[group_id] = path
    return found


def group_of(disk: Disk, path: str, *, repairs_meta: bool) -> uuid.UUID | None:
    """Return the group id of a directory from its meta file or, if that is lost or damaged, from a readable roll.

    With `repairs_meta` the meta file is then written again. Raises `FormatError` for a directory of another kind or
    version."""
    reason = "it is missing"
    try:
        meta = read_meta(disk, path, REPLICA)
        if meta is not None:
            return meta.uuid("group_id")
    except SmallFileDamaged as error:
        reason = str(error)
    if disk.exists(internal_path(path, CHECKPOINT)):
        return None  # a log without a group
    group_id = read_group_from_rolls(disk, path)
    if group_id is not None and repairs_meta:
        _logger.warning("the meta file of %s is written again from a roll, for group %s: %s", path, group_id, reason)
        make_replica_directory(disk, path, group_id)
    elif group_id is None and segment_bases(disk, path):
        _logger.error("%s: the group of this directory is unknown; it is left as it is: %s", path, reason)
    return group_id


def read_group_from_rolls(disk: Disk, path: str) -> uuid.UUID | None:
    """Return the group id in the first readable roll of the directory's segments; None without such a roll."""
    for base in segment_bases(disk, path):
        segment = open_for_reading(disk, path, base)
        try:
            roll = read_roll(segment)
        finally:
            segment.close()
        if roll is not None:
            return roll.group_id
    return None


def _list_candidates(disk: Disk, data_dir: str) -> Iterator[str]:
    """Yield the directories `{topic}` and `{topic}/{partition}`, and that of the controller."""
    if disk.exists(f"{data_dir}/{CONTROLLER}"):
        yield f"{data_dir}/{CONTROLLER}"
    for name in disk.list_directory(data_dir):
        path = f"{data_dir}/{name}"
        if name == INTERNAL or not disk.is_directory(path):
            continue
        yield path
        for inner in disk.list_directory(path):
            if inner != INTERNAL and disk.is_directory(f"{path}/{inner}"):
                yield f"{path}/{inner}"


def holds_replicas(disk: Disk, data_dir: str) -> bool:
    """Return whether there is any replica directory, known or not; without one no record was ever stored here."""
    unknown = internal_path(data_dir, _UNKNOWN)
    return any(True for _ in _list_candidates(disk, data_dir)) or (
        disk.exists(unknown) and bool(disk.list_directory(unknown))
    )


def make_replica_directory(disk: Disk, path: str, group_id: uuid.UUID) -> None:
    """Make the directory and its meta file, durable on return."""
    make_directory(disk, internal_path(path))
    write_meta(disk, path, REPLICA, {"group_id": str(group_id)})


def installing_path(data_dir: str, group_id: uuid.UUID) -> str:
    """Return the path of the directory in which a group's log is assembled from fetched segments."""
    return internal_path(data_dir, _INSTALLING, str(group_id))


def move_to_trash(disk: Disk, data_dir: str, path: str, group_id: uuid.UUID) -> str:
    """Rename a directory into the trash, durably, and return its new path."""
    trash = internal_path(data_dir, _TRASH)
    make_directory(disk, trash)
    number = sum(name.startswith(str(group_id)) for name in disk.list_directory(trash))
    target = f"{trash}/{group_id}-{number}"
    while disk.exists(target):
        number += 1
        target = f"{trash}/{group_id}-{number}"
    disk.rename(path, target)
    _end_move(disk, data_dir, path)
    return target


def _end_move(disk: Disk, data_dir: str, path: str) -> None:
    """Sync the parents after a directory was renamed into the trash, and remove an empty parent; idempotent."""
    parent = path.rpartition("/")[0]
    if not disk.exists(parent):
        return
    disk.sync([], [parent, internal_path(data_dir, _TRASH)])
    _remove_empty_parent(disk, data_dir, path)


def _remove_empty_parent(disk: Disk, data_dir: str, path: str) -> None:
    """Remove the directory of a topic that has no partitions here any more."""
    parent = path.rpartition("/")[0]
    if parent != data_dir and not disk.list_directory(parent):
        disk.remove_directory(parent)


def move_aside(disk: Disk, data_dir: str, path: str) -> str:
    """Rename an unknown directory into `.raftlog/unknown/`, durably; it is kept. Returns its new path."""
    return _move_and_keep(disk, path, internal_path(data_dir, _UNKNOWN), path.rpartition("/")[2])


def keep_replica(disk: Disk, data_dir: str, path: str, group_id: uuid.UUID) -> str:
    """Rename a replica's directory into `.raftlog/damaged/`, durably and for good. Returns its new path."""
    return _move_and_keep(disk, path, internal_path(data_dir, DAMAGED), str(group_id))


def _move_and_keep(disk: Disk, path: str, directory: str, name: str) -> str:
    """Rename a directory to an unused `{name}-{number}` in `directory`, durably; return its new path."""
    make_directory(disk, directory)
    number = 0
    while disk.exists(target := f"{directory}/{name}-{number}"):
        number += 1
    disk.rename(path, target)
    disk.sync([], [path.rpartition("/")[0], directory])
    return target


class Trash:
    """Directories of removed replicas that are to be deleted. A crash leaves the rest for the next start."""

    def __init__(self, disk: Disk, data_dir: str) -> None:
        self._disk, self._data_dir = disk, data_dir
        self._is_empty = False
        """Whether the trash is known to be empty; false at a start."""

    def take(self, path: str, group_id: uuid.UUID) -> None:
        """Rename an unused directory into the trash, durably; the next `empty` deletes it.

        A disk without room for that is freed at once: what a crash leaves is removed at the next start. Raises
        `OSError`; after that it may be called again."""
        self._is_empty = False
        if not self._disk.exists(path):  # an earlier attempt failed after the renaming
            _end_move(self._disk, self._data_dir, path)
            return
        try:
            move_to_trash(self._disk, self._data_dir, path, group_id)
        except OSError as error:
            if error.errno not in FULL_ERRORS or not self._disk.exists(path):
                raise
            delete_tree(self._disk, path)
            self._disk.sync([], [path.rpartition("/")[0]])
            _remove_empty_parent(self._disk, self._data_dir, path)

    def mark_not_empty(self) -> None:
        """Record that another function moved a directory into the trash."""
        self._is_empty = False

    def empty(self) -> None:
        """Delete the directories in the trash. Raises `OSError`; after that it may be called again."""
        if self._is_empty:
            return
        trash = internal_path(self._data_dir, _TRASH)
        if self._disk.exists(trash):
            for name in self._disk.list_directory(trash):
                delete_tree(self._disk, f"{trash}/{name}")
        self._is_empty = True


def delete_tree(disk: Disk, path: str) -> None:
    """Delete a directory and everything in it."""
    for name in disk.list_directory(path):
        inner = f"{path}/{name}"
        if disk.is_directory(inner):
            delete_tree(disk, inner)
        else:
            disk.unlink(inner)
    disk.remove_directory(path)
