"""Start of a process from its disk: the journal, then every group with its `created` mark.

A group's directory is made equal to the journal's fold (`group_recovery`). A directory that is missing, though the
journal has its mark, is a log that was lost completely: it begins empty, with the last known id as voting position."""

import logging
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.raft import Configuration, EntryId, HardState, ReplicaId, Restart
from raftlog.records import read_header
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import LogEnd, LostEnd, Mark
from raftlog.runtime.log.configuration_walk import read_configurations
from raftlog.runtime.log.control_entries import entry_of, replica_of
from raftlog.runtime.log.creation import DirectoryCreation
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.log.group_recovery import RecoveredGroup, recover_group
from raftlog.runtime.log.replica_directory import delete_tree, find_replicas, installing_path, move_aside, move_to_trash
from raftlog.storage.directory import internal_path, make_directory, sync_found_names
from raftlog.storage.disk import Disk
from raftlog.storage.rows import ROW_SIZE
from raftlog.storage.segment_files import segment_stem
from raftlog.storage.segmented_log import SegmentedLog
from raftlog.types import Index, Offset, Term

_logger = logging.getLogger(__name__)


class OpenedGroup(NamedTuple):
    """Raft group opened from the disk: its log, and the state with which its replica starts again."""

    group_id: uuid.UUID
    path: str
    log: GroupLog
    restart: Restart
    damage: CorruptBatch | None
    are_configurations_known: bool
    """Whether no damaged entry may hold a later configuration than those in `restart`."""
    lost_from: Index | None
    """First entry lost with the log's end, if the journal does not have this loss yet; the driver has to journal it."""


def open_journal(
    disk: Disk, data_dir: str, own_id: ReplicaId, config: JournalConfig, create: bool, synced_at_least: int
) -> tuple[Journal, Fold]:
    """Open the journal of this disk uuid; blocking. Raises `JournalDamaged`, `FormatError`, `OSError`."""
    path = internal_path(data_dir, "journal", str(own_id.disk_uuid))
    if disk.exists(data_dir):
        sync_found_names(disk, data_dir, internal_path(data_dir), internal_path(data_dir, "journal"))
    return Journal.open(disk, path, own_id.disk_uuid, config, create=create, synced_at_least=synced_at_least)


def open_groups(disk: Disk, data_dir: str, fold: Fold, config: DriverConfig) -> Iterator[OpenedGroup]:
    """Open every group with a `created` mark, in the order of the journal. Raises `JournalDamaged`, `OSError`."""
    paths = find_replicas(disk, data_dir)
    for folded in fold.groups.values():
        group_id = uuid.UUID(bytes=folded.group)
        if folded.mark is Mark.REMOVED:
            _finish_removal(disk, data_dir, group_id, paths.get(group_id))
        if folded.mark is not Mark.CREATED:
            continue
        path = _finish_installation(disk, data_dir, group_id, paths.get(group_id), folded)
        yield _open_group(disk, data_dir, group_id, path, folded, fold, config)


def _open_group(
    disk: Disk,
    data_dir: str,
    group_id: uuid.UUID,
    path: str | None,
    folded: FoldedGroup,
    fold: Fold,
    config: DriverConfig,
) -> OpenedGroup:
    """Recover the log of one group, and return it with the state for its Raft core; create a missing directory."""
    if path is None:
        path = f"{data_dir}/{group_id}"
        if disk.exists(path):
            _logger.error("%s belongs to no known replica; it was moved to %s", path, move_aside(disk, data_dir, path))
        _logger.error("%s: the directory of this group is missing; its leader will fill it again", path)
        DirectoryCreation(disk, data_dir, path, group_id, None).run(config.recent_bytes_max)
    recovered = recover_group(disk, path, folded, fold)
    log = GroupLog(recovered.log, config.recent_bytes_max)
    held = _hold_unwritten(log, recovered)
    committed = max(Index(min(folded.commit_hint, log.last_index)), log.boundary.index)
    found = read_configurations(recovered.log, None if held else recovered.configuration_index, committed)
    damage = _first_damage(recovered) or found.damage
    lost = highest_lost_end(recovered.voting_position, folded.voting_position)
    vote = replica_of(folded.vote) if folded.vote else None
    known = (*found.known, *held)
    restart = Restart(HardState(folded.term, vote), known, committed, committed, lost, damage is not None)
    return OpenedGroup(group_id, path, log, restart, damage, found.damage is None, recovered.lost_from)


def highest_lost_end(found: EntryId | None, journaled: LostEnd | None) -> EntryId | None:
    """Return the highest id with which the log ended before losses: that of a loss found now, or the journaled one.

    The log can lose more entries before the first loss is repaired. Until then the replica votes as if it had the
    longest of these logs."""
    ends = [EntryId(*end) for end in (found, journaled) if end is not None]
    return max(ends, key=lambda end: (end.term, end.index), default=None)


def _hold_unwritten(log: GroupLog, recovered: RecoveredGroup) -> list[Configuration]:
    """Hold the entries for which the disk had no room, and return the configurations among them."""
    configurations_held = []
    for batch in recovered.unwritten:
        entry = entry_of(Index(log.last_index + 1), Term(read_header(batch).leader_epoch), batch)
        log.append([entry])
        if entry.configuration is not None:
            configurations_held.append(entry.configuration)
    return configurations_held


def _first_damage(recovered: RecoveredGroup) -> CorruptBatch | None:
    """Return the error for the first damaged entry, or None."""
    for damage in recovered.damage:
        return CorruptBatch(damage.file, damage.position, damage.offset, damage.reason)
    return None


def _finish_removal(disk: Disk, data_dir: str, group_id: uuid.UUID, path: str | None) -> None:
    """Delete the rest of a replica, after an interrupted removal."""
    if path is not None:
        move_to_trash(disk, data_dir, path, group_id)
    if disk.exists(installing_path(data_dir, group_id)):
        delete_tree(disk, installing_path(data_dir, group_id))


def _finish_installation(
    disk: Disk, data_dir: str, group_id: uuid.UUID, path: str | None, folded: FoldedGroup
) -> str | None:
    """Move a fetched log into its place if the journal has it, else delete it; return the log's path, or None."""
    installing = installing_path(data_dir, group_id)
    if not disk.exists(installing):
        return path
    if folded.end is None or not _holds_last_row(disk, installing, folded.end):
        delete_tree(disk, installing)
        return path
    path = path or f"{data_dir}/{group_id}"
    place_installed_log(disk, data_dir, path, group_id)
    return path


def _holds_last_row(disk: Disk, path: str, end: LogEnd) -> bool:
    """Return whether the log in a directory ends with exactly this entry.

    The journal has such an end only of a fetched log that was synced before, and of no other: a replica that holds the
    entry already does not fetch it."""
    name = f"{path}/{segment_stem(end.segment)}.index"
    if not disk.exists(name):
        return False
    file = disk.open(name, read_only=True)
    try:
        return file.read(file.size() - ROW_SIZE, ROW_SIZE) == end.row if file.size() >= ROW_SIZE else False
    finally:
        file.close()


def place_installed_log(disk: Disk, data_dir: str, path: str, group_id: uuid.UUID) -> None:
    """Move the old log to the trash and the fetched one into its place; durable on return."""
    installing, parent = installing_path(data_dir, group_id), path.rpartition("/")[0]
    if disk.exists(path):
        move_to_trash(disk, data_dir, path, group_id)
        make_directory(disk, parent)  # it was removed with the last directory in it
    disk.rename(installing, path)
    disk.sync([], [parent, installing.rpartition("/")[0]])


def open_installed(disk: Disk, path: str, end: LogEnd, log_start_offset: Offset) -> SegmentedLog:
    """Open a log that was just moved into its place and ends with `end`."""
    folded = FoldedGroup(b"")
    folded.restart_at(end, log_start_offset, None)
    folded.drop_after_gap()
    recovered = recover_group(disk, path, folded, None)
    assert not recovered.damage, f"{path}: {recovered.damage} in a log that was synced just now"
    return recovered.log
