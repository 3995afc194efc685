"""The driver of a node's disk: opened, or begun anew under a new disk uuid when the journal is damaged.

A damaged journal may have lost terms and votes. So the process becomes another member: a new disk uuid, an empty
journal, no groups. The old journal is kept aside, and the directories of the old groups stay as they are. Whoever
assigns replicas learns of the new disk uuid and lets it join; nothing of that happens here.
"""

import logging
import uuid
from random import Random

from raftlog.errors import JournalDamaged, StorageError
from raftlog.partitions.multiraft.identity import NodeDirectory
from raftlog.partitions.multiraft.settings import NodeSettings
from raftlog.partitions.multiraft.surroundings import NodeTransport, Surroundings
from raftlog.runtime.driver import Driver
from raftlog.storage.disk import Disk

_logger = logging.getLogger(__name__)


def draw_uuid(random: Random) -> uuid.UUID:
    """A random uuid (version 4) from this generator."""
    return uuid.UUID(int=random.getrandbits(128), version=4)


def open_driver(
    disk: Disk,
    directory: NodeDirectory,
    settings: NodeSettings,
    surroundings: Surroundings,
    transport: NodeTransport,
) -> Driver:
    """Recover all groups of the directory, on `disk`; blocking. Raises `FormatError`, `StorageError`."""
    try:
        try:
            driver = _open(disk, directory, settings, surroundings, transport)
        except JournalDamaged as damage:
            old, new = directory.identity.disk_uuid, draw_uuid(surroundings.random)
            _logger.error("%s; the disk %s becomes %s, without groups", damage, old, new)
            directory.replace_disk(new)
            driver = _open(disk, directory, settings, surroundings, transport)
        directory.note_journal()
        directory.keep_old_journals()
    except OSError as error:
        raise StorageError(f"{directory.path} cannot be read: {error}") from error
    return driver


def _open(
    disk: Disk,
    directory: NodeDirectory,
    settings: NodeSettings,
    surroundings: Surroundings,
    transport: NodeTransport,
) -> Driver:
    identity = directory.identity
    return Driver.open(
        disk,
        directory.path,
        identity.replica,
        transport,
        surroundings.random,
        settings.driver,
        boot_epoch=identity.boot_epoch,
        wall_ms=surroundings.wall_ms,
        create=not identity.has_journal,
    )
