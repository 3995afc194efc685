"""Identity and data directory of this process: locked, unique, and with a count of all starts.

    {data-dir}/.raftlog/lock                  held while the process lives
    {data-dir}/.raftlog/meta                  marks the directory as a node's
    {data-dir}/.raftlog/identity              cluster id, node id, disk uuid, boot epoch, refusal
    {data-dir}/.raftlog/journal/{disk uuid}   the journal
    {data-dir}/.raftlog/damaged/journal-…     journals of former disk uuids

The boot epoch rises with every start that recovered the disk, and is durable before anything is sent; it never falls,
not even with a new disk uuid. The disk uuid stays until the journal is damaged: hard state may be lost then, so the
process must not vote as the former replica. A lost identity is never created anew over an existing journal.

A start of a stale copy of a disk raises the boot epoch as well: after enough starts the copy would have a higher epoch
than the others remember. So a refusal by others is stored, and the next start takes a new disk uuid (`opening`); and a
start that fails before it can be refused, because files cannot be read, does not count."""

import logging
import uuid
from collections.abc import Callable
from typing import Any, Final

from raftlog.errors import FormatError, InvalidArgument, SmallFileDamaged, StorageError
from raftlog.runtime.log.sealed_file import write_sealed
from raftlog.runtime.node_identity import IDENTITY, JOURNAL, NodeIdentity, read_identity
from raftlog.storage.directory import (
    DAMAGED,
    INTERNAL,
    META,
    internal_path,
    lock_directory,
    make_directory,
    read_meta,
    write_meta,
)
from raftlog.storage.disk import DirectoryLock, Disk
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, descriptors_exhausted, lacks_descriptors
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)

KIND: Final = "node"
"""Kind of directory in its meta file."""
START_FREE_MIB: Final = 64
"""Free MiB that suffice for a start: files of the journal, and entries that are not in their segments yet."""
_NOT_OURS: Final = ("lost+found",)
_IDENTITY_LOST: Final = (
    "restore it from a copy of this very disk, or start with an empty directory, as a new member of the cluster"
)
_FORMER_DISKS_MAX: Final = 64


class NodeDirectory:
    """Data directory with its lock, which is held from `open` until `close`. All methods block for their syncs."""

    def __init__(self, disk: Disk, path: str, lock: DirectoryLock, identity: NodeIdentity) -> None:
        self.disk = disk
        self.path = path
        self.identity = identity
        self._lock = lock

    @classmethod
    def open(
        cls, disk: Disk, path: str, node_id: NodeId, cluster_id: str | None, draw_uuid: Callable[[], uuid.UUID]
    ) -> "NodeDirectory":
        """Lock the directory, and create it if it is missing; `count_start` makes the start's boot epoch durable.

        Raises `DirectoryLocked`; `InvalidArgument` for the directory of another node or cluster; `FormatError` for one
        of another format, and when its identity is lost or damaged; `StorageError` when the file system refuses."""
        try:
            _refuse_foreign(disk, path)
            make_directory(disk, internal_path(path))
            lock = lock_directory(disk, path)
        except OSError as error:
            raise _unusable_error(path, error) from error
        try:
            identity = _identify(disk, path, node_id, cluster_id, draw_uuid)
            directory = cls(disk, path, lock, identity)
            directory._write(identity._replace(boot_epoch=max(1, identity.boot_epoch - 1)))  # proves that there is room
            if not _has_meta(disk, path):
                write_meta(disk, path, KIND, {})
        except OSError as error:
            lock.release()
            raise _unusable_error(path, error) from error
        except BaseException:
            lock.release()
            raise
        return directory

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    def count_start(self) -> None:
        """Store the boot epoch of this start, once the disk is recovered and before anything is sent."""
        self._save(self.identity)

    def join_cluster(self, cluster_id: str) -> None:
        """Store the cluster id permanently. Raises `InvalidArgument` if there is another one."""
        known = self.identity.cluster_id
        if known is None:
            self._save(self.identity._replace(cluster_id=cluster_id))
        elif known != cluster_id:
            raise InvalidArgument(_other_cluster_text(self.path, known, cluster_id))

    def store_refusal(self, message: str) -> None:
        """Store permanently that the cluster refuses this disk."""
        self._save(self.identity._replace(refusal=message))

    def mark_journal_created(self) -> None:
        """Store that the journal of this disk uuid exists."""
        if not self.identity.has_journal:
            self._save(self.identity._replace(has_journal=True))

    def replace_disk(self, disk_uuid: uuid.UUID) -> None:
        """Store a new disk uuid, without journal and groups, because the content of the disk cannot be trusted."""
        known = self.identity
        former = (*known.former_disks, known.disk_uuid)[-_FORMER_DISKS_MAX:]
        self._save(
            known._replace(
                disk_uuid=disk_uuid,
                has_journal=False,
                refusal=None,
                former_disks=former,
                was_refused=known.refusal is not None,
            )
        )

    def keep_old_journals(self) -> None:
        """Move the journals of other disk uuids to `damaged/`; nothing is deleted."""
        journals = internal_path(self.path, JOURNAL)
        mine = str(self.identity.disk_uuid)
        olds = [name for name in self.disk.list_directory(journals) if name != mine]
        for name in olds:
            target = internal_path(self.path, DAMAGED, f"{JOURNAL}-{name}")
            make_directory(self.disk, internal_path(self.path, DAMAGED))
            self.disk.rename(f"{journals}/{name}", target)
            self.disk.sync([], [journals, internal_path(self.path, DAMAGED)])
            _logger.warning("the journal of the former disk %s is kept in %s", name, target)

    def _save(self, identity: NodeIdentity) -> None:
        """Write the identity to the directory, and use it."""
        self._write(identity)
        self.identity = identity

    def _write(self, identity: NodeIdentity) -> None:
        """Write the identity file durably."""
        fields: dict[str, Any] = {
            **identity._asdict(),
            "disk_uuid": str(identity.disk_uuid),
            "former_disks": list(map(str, identity.former_disks)),
        }
        write_sealed(self.disk, internal_path(self.path, IDENTITY), IDENTITY, fields)


def check_directory(disk: Disk, path: str, node_id: NodeId) -> None:
    """Raise the error with which a start as this node would refuse the directory; nothing is changed.

    Raises `InvalidArgument` for the directory of another node, and `StorageError`."""
    try:
        _refuse_foreign(disk, path)
        _identify(disk, path, node_id, None, uuid.uuid4)
    except OSError as error:
        raise _unusable_error(path, error) from error


def _identify(
    disk: Disk, path: str, node_id: NodeId, cluster_id: str | None, draw_uuid: Callable[[], uuid.UUID]
) -> NodeIdentity:
    """Return the identity of the process for this start."""
    name = internal_path(path, IDENTITY)
    try:
        known = read_identity(disk, path)
    except SmallFileDamaged as error:
        raise SmallFileDamaged(f"{error}; {_IDENTITY_LOST}") from None
    if known is None:
        if disk.exists(internal_path(path, META)) or disk.exists(internal_path(path, JOURNAL)):
            raise FormatError(f"{name} is missing, and {path} was in use; {_IDENTITY_LOST}")
        return NodeIdentity(cluster_id, node_id, draw_uuid(), 1, False)
    if known.node_id != node_id:
        raise InvalidArgument(
            f"{path} belongs to node {known.node_id}, and this is node {node_id}; "
            f"use --node-id {known.node_id}, or another directory"
        )
    if cluster_id is not None and known.cluster_id not in (None, cluster_id):
        raise InvalidArgument(_other_cluster_text(path, known.cluster_id, cluster_id))
    return known._replace(cluster_id=known.cluster_id or cluster_id, boot_epoch=known.boot_epoch + 1)


def _refuse_foreign(disk: Disk, path: str) -> None:
    """Raise unless the directory is missing, empty or a node's, so that foreign files stay untouched."""
    if not disk.exists(path):
        return
    if not disk.is_directory(path):
        raise StorageError(f"the data directory {path} is a file; name a directory")
    if _has_meta(disk, path) or disk.exists(internal_path(path, IDENTITY)):
        return
    names = [name for name in disk.list_directory(path) if name not in (INTERNAL, *_NOT_OURS)]
    if names:
        raise FormatError(
            f"{path} is not a raftlog data directory and is not empty (it holds {names[0]!r}); name an empty directory"
        )


def _has_meta(disk: Disk, path: str) -> bool:
    """Return whether a sound meta file marks the directory as a node's. Raises `FormatError`.

    A damaged meta file is written again when the identity, which holds more, is sound."""
    try:
        return read_meta(disk, path, KIND) is not None
    except SmallFileDamaged as error:
        if read_identity(disk, path) is None:
            raise
        _logger.warning("%s; the file is written again, since the identity beside it is sound", error)
        return False


def _other_cluster_text(path: str, known: str | None, wanted: str) -> str:
    """Return the error text for a directory of another cluster."""
    return f"{path} belongs to cluster {known}, and not to {wanted}; correct the seeds, or use another directory"


def no_room_error(path: str, error: OSError) -> StorageError | None:
    """Return the error of a start without disk space or file descriptors; None for other causes."""
    if error.errno not in TEMPORARY_ERRORS:
        return None
    if lacks_descriptors(error):
        return StorageError(f"{descriptors_exhausted(path, error)}, and start again. Acknowledged records are kept")
    return StorageError(
        f"{path}: the disk is full ({error}), and a start needs a little room of its own: free some space on its file "
        f"system, {START_FREE_MIB} MiB are enough, and start again. Nothing was changed; acknowledged records are kept"
    )


def _unusable_error(path: str, error: OSError) -> StorageError:
    """Return the error for a data directory that cannot be used, with the reason."""
    if (full := no_room_error(path, error)) is not None:
        return full
    why = error.strerror or str(error)
    where = error.filename or path
    return StorageError(f"cannot use the data directory {path}: {where}: {why}; check its path, owner and permissions")
