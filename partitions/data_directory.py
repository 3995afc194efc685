"""A broker's data directory: identity, lock, and what becomes of directories that nobody knows or wants any more.

    {data-dir}/{topic}/{partition}/     the log of one partition
    {data-dir}/.raftlog/                lock, meta, catalogue/, trash/ (deleted topics), unknown/ (moved aside)

Nothing is deleted because local metadata lacks it: what the catalogue does not know is moved to `unknown/`.
"""

import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from raftlog.errors import FormatError, InvalidArgument, StorageError
from raftlog.storage.directory import INTERNAL, internal, lock_directory, make_directory, read_meta, write_meta
from raftlog.storage.disk import DirectoryLock, Disk

logger = logging.getLogger(__name__)

KIND = "broker"
CATALOGUE = "catalogue"
TRASH = "trash"
UNKNOWN = "unknown"
_NOT_OURS = ("lost+found",)


class Identity(NamedTuple):
    """Who this broker is. `boot_epoch` rises with every start."""

    cluster_id: str
    node_id: int
    disk_uuid: str
    boot_epoch: int


class DataDirectory:
    """Use `open`; holds the lock until `close`."""

    def __init__(self, disk: Disk, path: str, lock: DirectoryLock, identity: Identity) -> None:
        self.disk = disk
        self.path = path
        self.identity = identity
        self._lock = lock

    @classmethod
    def open(cls, disk: Disk, path: str, node_id: int) -> "DataDirectory":
        """Lock the directory, make it when it is missing, count the start; blocking.

        Raises `DirectoryLocked`, `FormatError`, `InvalidArgument` for another node's directory, and `StorageError`
        when the file system refuses.
        """
        try:
            _refuse_foreign(disk, path)
            read_meta(disk, path, KIND)  # another version is refused before anything is made
            for name in (CATALOGUE, TRASH, UNKNOWN):
                make_directory(disk, internal(path, name))
            lock = lock_directory(disk, path)
        except OSError as error:
            raise _unusable(path, error) from error
        try:
            return cls(disk, path, lock, _identify(disk, path, node_id))
        except OSError as error:
            lock.release()
            raise _unusable(path, error) from error
        except BaseException:
            lock.release()
            raise

    def partition_path(self, topic: str, partition: int) -> str:
        return f"{self.path}/{topic}/{partition}"

    def catalogue_path(self) -> str:
        return internal(self.path, CATALOGUE)

    def close(self) -> None:
        self._lock.release()

    def move_unknown(self, topics: Mapping[str, int]) -> list[str]:
        """Move aside what is no partition of `topics` (partition counts by name); the new paths."""
        moved = []
        for name in self.disk.list_directory(self.path):
            path = f"{self.path}/{name}"
            if name.startswith(".") or name in _NOT_OURS or not self.disk.is_directory(path):
                continue
            if name not in topics:
                moved.append(self.set_aside(path, name))
                continue
            known = {str(partition) for partition in range(topics[name])}
            for child in self.disk.list_directory(path):
                if child not in known:
                    moved.append(self.set_aside(f"{path}/{child}", f"{name}-{child}"))
        return moved

    def set_aside(self, path: str, name: str) -> str:
        """Move `path` below `unknown/`, durably, and report it."""
        target = internal(self.path, UNKNOWN, name)
        number = 1
        while self.disk.exists(target):
            target = internal(self.path, UNKNOWN, f"{name}.{number}")
            number += 1
        self.disk.rename(path, target)
        self.disk.sync([], [path.rpartition("/")[0], internal(self.path, UNKNOWN)])
        logger.warning("%s is not known to this broker; it was moved to %s and nothing of it was deleted", path, target)
        return target

    def discard(self, topic: str, topic_id: str, partition_count: int) -> None:
        """Move the directories of a deleted topic to the trash; blocking, quick."""
        for partition in range(partition_count):
            path = self.partition_path(topic, partition)
            if self.disk.exists(path):
                self.disk.rename(path, internal(self.path, TRASH, f"{topic_id}-{partition}"))
        path = f"{self.path}/{topic}"
        if not self.disk.exists(path):
            return
        if self.disk.list_directory(path):
            self.set_aside(path, topic)
        else:
            self.disk.remove_directory(path)
        self.disk.sync([], [internal(self.path, TRASH), self.path])

    def empty_trash(self) -> Iterator[str]:
        """Unlink what is in the trash, one file a step; yields each path, so that the caller can do other things."""
        trash = internal(self.path, TRASH)
        for name in self.disk.list_directory(trash):
            yield from self._remove_tree(f"{trash}/{name}")

    def _remove_tree(self, path: str) -> Iterator[str]:
        if self.disk.is_directory(path):
            for name in self.disk.list_directory(path):
                yield from self._remove_tree(f"{path}/{name}")
            self.disk.remove_directory(path)
        else:
            self.disk.unlink(path)
        yield path


def _refuse_foreign(disk: Disk, path: str) -> None:
    """A directory with other things in it, and no meta file, is somebody's: nothing in it may be moved."""
    if not disk.exists(path):
        return
    if not disk.is_directory(path):
        raise StorageError(f"the data directory {path} is a file; name a directory")
    names = [name for name in disk.list_directory(path) if name not in (INTERNAL, *_NOT_OURS)]
    if names and not disk.exists(internal(path, "meta")):
        raise FormatError(
            f"{path} is not a raftlog data directory and is not empty (it holds {names[0]!r}); name an empty directory"
        )


def _identify(disk: Disk, path: str, node_id: int) -> Identity:
    fields = read_meta(disk, path, KIND)
    if fields is None:
        identity = Identity(str(uuid.uuid4()), node_id, str(uuid.uuid4()), 1)
    else:
        identity = Identity(fields["cluster_id"], fields["node_id"], fields["disk_uuid"], fields["boot_epoch"] + 1)
        if identity.node_id != node_id:
            raise InvalidArgument(
                f"{path} belongs to node {identity.node_id}, and this is node {node_id}; "
                f"use --node-id {identity.node_id}, or another directory"
            )
    write_meta(disk, path, KIND, identity._asdict())
    return identity


def _unusable(path: str, error: OSError) -> StorageError:
    why = error.strerror or str(error)
    where = error.filename or path
    return StorageError(f"cannot use the data directory {path}: {where}: {why}; check its path, owner and permissions")
