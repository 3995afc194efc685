"""Opening of a node's driver, under a new disk uuid if the content of the disk cannot be trusted.

A damaged journal may have lost terms and votes; a disk that the cluster refused as stale, copied or retired has lost
some. So the process becomes another member: a new disk uuid, an empty journal, no groups. The old journal is kept
aside, and so are the directories of old groups when a new replica needs them. The controller replaces the old disk by
the new one (`controller.disk_replacement`); nothing of that happens here."""

import logging
import uuid
from random import Random

from raftlog.errors import FormatError, InvalidArgument, JournalDamaged, StorageError
from raftlog.partitions.node.environment import NodeEnvironment, NodeTransport
from raftlog.partitions.node.identity import NodeDirectory, no_room_error
from raftlog.partitions.node.settings import NodeSettings
from raftlog.runtime.log.control_entries import member_of
from raftlog.runtime.log.replica_directory import move_aside
from raftlog.runtime.node_identity import NodeIdentity
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.disk import Disk
from raftlog.storage.roll import Roll
from raftlog.types import intern_uuid

_logger = logging.getLogger(__name__)


def draw_uuid(random: Random) -> uuid.UUID:
    """Return a random uuid (version 4) from this generator."""
    return intern_uuid(uuid.UUID(int=random.getrandbits(128), version=4).bytes)


def check_creation(identity: NodeIdentity, roll: Roll) -> None:
    """Raise `InvalidArgument` unless this disk has one of the group's first replicas."""
    if member_of(identity.replica) not in roll.voters + roll.learners:
        raise InvalidArgument(
            f"group {roll.group_id} was created without node {identity.node_id} on disk {identity.disk_uuid}: "
            "it can only join"
        )


def open_driver(
    disk: Disk,
    directory: NodeDirectory,
    settings: NodeSettings,
    environment: NodeEnvironment,
    transport: NodeTransport,
) -> Driver:
    """Recover all groups of the directory on `disk`; blocking. Raises `FormatError` and `StorageError`."""
    try:
        if directory.identity.refusal is not None:
            _take_new_disk(directory, directory.identity.refusal, environment)
        try:
            driver = _open_with_present_identity(disk, directory, settings, environment, transport)
        except JournalDamaged as damage:
            _take_new_disk(directory, str(damage), environment)
            driver = _open_with_present_identity(disk, directory, settings, environment, transport)
        directory.mark_journal_created()
        directory.keep_old_journals()
        directory.count_start()
    except OSError as error:
        raise no_room_error(directory.path, error) or StorageError(
            f"{directory.path} cannot be read: {error}"
        ) from error
    return driver


def join_group(driver: Driver, group_id: uuid.UUID, name: str | None) -> PartitionReplica:
    """Create a replica with an empty log; move a directory that the journal does not list out of the way."""
    try:
        return driver.join_group(group_id, name)
    except FormatError:
        path = f"{driver.data_dir}/{name or group_id}"
        kept = move_aside(driver.disk, driver.data_dir, path)
        _logger.warning("%s held a log that the journal does not list; it is kept in %s", path, kept)
        return driver.join_group(group_id, name)


def _take_new_disk(directory: NodeDirectory, why: str, environment: NodeEnvironment) -> None:
    """Give the directory a new disk uuid without Raft groups, and log the reason."""
    old, new = directory.identity.disk_uuid, draw_uuid(environment.random)
    _logger.error("%s; the disk %s becomes %s, without groups, to be filled by the others", why, old, new)
    directory.replace_disk(new)


def _open_with_present_identity(
    disk: Disk,
    directory: NodeDirectory,
    settings: NodeSettings,
    environment: NodeEnvironment,
    transport: NodeTransport,
) -> Driver:
    """Open the driver on the directory under its present disk uuid and boot epoch."""
    identity = directory.identity
    return Driver.open(
        disk,
        directory.path,
        identity.replica,
        transport,
        environment.random,
        settings.driver,
        boot_epoch=identity.boot_epoch,
        wall_ms=environment.wall_ms,
        create=not identity.has_journal,
    )
