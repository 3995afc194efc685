"""Removal of a replica on an operator's request, so that its Raft group continues with the other replicas.

    the replica stops → its directory is renamed into `.raftlog/damaged/`, durably → the journal has `removed`

Nothing is deleted. A crash in between leaves a replica without its directory: it begins empty, and votes only for logs
at least as up to date as the one that it had. The same holds when the replica joins again. Its term and vote stay with
the mark `removed`, so that it never votes twice in a term.

A disk that has not created its first replica of the group yet would create it later, with the group's first
configuration, and two such replicas could elect a leader. So the disk gets the same mark: any later replica of the
group on it begins empty.
"""

import asyncio
import logging
from typing import TYPE_CHECKING
from uuid import UUID

from raftlog.errors import Unavailable
from raftlog.runtime.journal.operations import Removed
from raftlog.runtime.log.replica_directory import keep_replica
from raftlog.runtime.replica.partition_replica import PartitionReplica

if TYPE_CHECKING:  # the driver owns this
    from raftlog.runtime.process.driver import Driver

_logger = logging.getLogger(__name__)


async def abandon(driver: "Driver", group: PartitionReplica) -> str:
    """Stop the replica, move its directory to `.raftlog/damaged/`, and return the new path.

    Raises the error that ended the journal, and `OSError`, which ends the process too."""
    persister = driver.persister
    persister.write(group)  # the kept directory should have all entries
    group.is_frozen = True  # no checkpoint begins that would need its files
    driver.detach(group)
    persister.begin_removal(group)
    while not persister.may_move(group) and driver.failure is None:  # noqa: ASYNC110  # none of it is an event
        await asyncio.sleep(driver.config.tick_ms / 1000)
    if driver.failure is not None:
        raise driver.failure
    group.log.segments.close()
    try:
        kept = keep_replica(driver.disk, driver.data_dir, group.path, group.group_id)
    except OSError as error:
        persister.stop_with(error)
        raise
    await persister.append_durably(persister.removal_operations(group))
    persister.end_removal(group)
    _logger.warning("%s was abandoned by an operator's order; it is kept in %s", group.path, kept)
    return kept


async def abandon_absent(driver: "Driver", group_id: UUID) -> None:
    """Mark a group without a replica here as removed, durably: it is never created from its first roll. Idempotent.

    Raises `Unavailable` while a replica is being made or removed here, and the error that ended the journal."""
    key = group_id.bytes
    assert key not in driver.groups, f"{group_id}: there is a replica here, which can be abandoned"
    if driver.creations.is_under_way(key) or driver.persister.is_leaving(key):
        raise Unavailable(f"{driver.data_dir}: a replica of group {group_id} is being made or removed; retry")
    driver.persister.checkpoints.mark_absent(key)
    await driver.persister.append_durably([Removed(key)])
    _logger.warning("%s never makes a first replica of group %s, by an operator's order", driver.data_dir, group_id)
