"""Checkpoints of a running process: the journal records the state of every group, then the segments are synced.

    idle → changed groups are examined → begun → files are synced, some groups at a time → completion is journaled
    → its start there is durable → completed                                                          one at a time

No step visits all groups: the encoded state of a group is kept until the group changes, and so is the set of groups
whose files changed since they were synced. The steps before and after the beginning are cut into slices, so that no
turn of the loop takes long. Groups that change between the slices are examined again in the turn that begins the
checkpoint. Operations go on meanwhile. No checkpoint begins while the files of a group differ from its
log: while a cut is on its way to the journal, or entries wait for room on the disk. A failed sync ends the process.

    a group not in `changed`: its kept state equals the present result of `_state_of`, and its unsynced files are in
    `to_sync`"""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from raftlog.errors import RaftlogError
from raftlog.raft import EntryId, HardState
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import Encoded, GroupKey, GroupState, JournaledHardState, Mark, encode
from raftlog.runtime.log.control_entries import member_of, replica_of
from raftlog.runtime.loop_holds import LOOP_HOLDS
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.changes import ChangedFiles
from raftlog.storage.disk import Disk
from raftlog.types import Index, Term

_ROWS: Final = LOOP_HOLDS.step("index write")
_SLICE: Final = 32
"""Number of groups that are examined in one turn of the loop: a millisecond or two."""
_REQUESTED_SHARE: Final = 1 / 8
"""Part of the interval after which a requested checkpoint is made."""
_EXAMINATIONS_MAX: Final = 4
"""Number of examinations per changed group, after which all others are examined in one turn: some always change."""


class Checkpoints:
    """Checkpoints of one process. The driver calls `maybe_begin` at every tick; `soon` defers work to the next turn."""

    def __init__(
        self,
        disk: Disk,
        journal: Journal,
        groups_max: int,
        interval_s: float,
        write: Callable[[PartitionReplica], None],
        call_soon: Callable[[Callable[[], None]], None],
        fail: Callable[[OSError], None],
    ) -> None:
        """Prepare checkpoints of the journal.

        `write` writes a group's entries to its files, `call_soon` calls a function in the next turn of the loop, and
        `fail` ends the process after a disk error."""
        self._disk = disk
        self._journal = journal
        self._groups_max = groups_max
        self._interval_s = interval_s
        self._write = write
        self._soon = call_soon
        self._fail = fail
        self.begun = self.completed = 0
        """Numbers since the start of the process; a crash loses no completed checkpoint: recovery begins there or
        later."""
        self.has_new_operations = True
        """Whether something was journaled since a checkpoint was begun."""
        self._is_requested = False
        self._states: dict[GroupKey, Encoded] = {}
        """Encoded state of each group for the next checkpoint, unless the group is in `_changed`."""
        self._changed: dict[GroupKey, PartitionReplica] = {}
        """Groups whose state or files changed since they were examined."""
        self._to_sync: dict[GroupKey, PartitionReplica] = {}
        """Groups that were examined, with files that may not be synced."""
        self._removed: dict[GroupKey, GroupState] = {}
        """Marks of groups that were removed, kept until their topics are deleted."""
        self._examinations_left: int | None = None
        """Number of examinations that are left while a checkpoint is prepared, else `None`."""
        self._number: JournalSequence | None = None
        """Number of the checkpoint that was begun and is not completed."""
        self._waiting: deque[PartitionReplica] = deque()
        """Groups whose files the checkpoint has still to sync."""
        self._is_syncing = False
        self._last_at = 0.0

    def load_removed(self, fold: Fold) -> None:
        """Load the marks of removed groups from the recovered journal."""
        for key, folded in fold.groups.items():
            if folded.mark is Mark.REMOVED:
                held = JournaledHardState(key, folded.term, folded.vote)
                self._removed[key] = _state_of_removed(held, folded.voting_position)

    def note_changed(self, group: PartitionReplica) -> None:
        """Record that the group's state or one of its files changes: the next checkpoint has to include it."""
        self._changed[group.key] = group

    def note_removed(self, group: PartitionReplica, position: EntryId) -> None:
        """Replace the group's state by a removal mark with its term, its vote and the id of its last entry."""
        term, vote = group.hard_state
        held = JournaledHardState(group.key, term, member_of(vote) if vote else None)
        self._removed[group.key] = _state_of_removed(held, position if position.index else None)
        self._states.pop(group.key, None)
        self._changed.pop(group.key, None)
        self._to_sync.pop(group.key, None)

    def mark_absent(self, key: GroupKey) -> None:
        """Mark a group that has no replica here as removed; an existing mark stays."""
        self._removed.setdefault(key, _state_of_removed(JournaledHardState(key, Term(0), None), None))

    def was_removed(self, key: GroupKey) -> bool:
        """Return whether this disk had a replica of the group and has none now."""
        return key in self._removed

    def forget_removed(self, key: GroupKey) -> tuple[HardState, EntryId | None]:
        """Delete the mark of a group that is created again; return its term, vote and voting position.

        With the voting position the replica votes as if it still had its former log. Otherwise its vote could elect a
        lagging member that does not know of the removal, and entries that this replica had acknowledged would be lost.
        """
        removed = self._removed.pop(key, None)
        if removed is None:
            return HardState(Term(0), None), None
        position = removed.voting_position
        vote = replica_of(removed.vote) if removed.vote else None
        return HardState(removed.term, vote), EntryId(*position) if position else None

    # until it begins

    def request(self) -> int:
        """Request a checkpoint; it is complete when `completed` has reached the returned number."""
        self._is_requested = self.has_new_operations = True
        return self.begun + 1

    def maybe_begin(self, now: float) -> None:
        """Begin to prepare a checkpoint if the journal has grown enough or the interval has passed."""
        interval_s = self._interval_s * (_REQUESTED_SHARE if self._is_requested else 1)
        is_time = self._journal.is_checkpoint_due or (self.has_new_operations and now - self._last_at >= interval_s)
        is_busy = self._examinations_left is not None or self._number is not None
        if is_time and self.has_new_operations and not is_busy and self._journal.failure is None:
            self._examinations_left = _EXAMINATIONS_MAX * len(self._changed)
            self._prepare(now)

    def _prepare(self, now: float) -> None:
        """Prepare a slice of the changed groups, and schedule the next slice; begin when few groups are left."""
        assert self._examinations_left is not None, "nothing is being prepared"
        if self._journal.failure is not None:
            return
        if len(self._changed) > _SLICE and self._examinations_left > 0:
            self._examinations_left -= _SLICE
            if self._prepare_groups(_SLICE):
                self._soon(partial(self._prepare, now))
                return
        elif self._prepare_groups(len(self._changed)):
            self._begin(now)
        self._examinations_left = None  # begun, or retried at the next tick

    def _prepare_groups(self, count: int) -> bool:
        """Write the entries and index rows of the first `count` changed groups, and encode the groups' states.

        Return False if one of these groups prevents the checkpoint."""
        for key, group in list(islice(self._changed.items(), count)):
            log = group.log
            segments = log.segments
            if log.written_index < log.last_index:
                self._write(group)
            if group.is_frozen or log.written_index < log.last_index:
                return False
            with _ROWS:
                segments.publish_rows(segments.last_index)
            if segments.published_index < log.last_index:
                return False  # no room on the disk for the rows
            del self._changed[key]
            self._states[key] = encode(_state_of(group))
            self._to_sync[key] = group
        return True

    def _begin(self, now: float) -> None:
        """Begin a checkpoint in the journal and sync the segments that it covers; try again later if refused."""
        assert not self._changed, f"{len(self._changed)} groups were not examined"
        try:
            states = [*self._states.values(), *map(encode, self._removed.values())]
            self._number = self._journal.begin_encoded_checkpoint(states)
        except RaftlogError:
            return  # no room in the journal
        self._last_at, self.has_new_operations, self._is_requested = now, False, False
        self.begun += 1
        self._journal.flush()
        self._waiting.extend(self._to_sync.values())
        self._to_sync.clear()
        for group in self._waiting:
            if group.damage is not None:
                self._changed[group.key] = group  # its repair changes files only
        self._soon(self._sync_next)

    # until it is complete

    @property
    def is_under_way(self) -> bool:
        """Whether a checkpoint syncs files: directories of groups must stay where they are meanwhile."""
        return self._is_syncing or bool(self._waiting)

    def _sync_next(self) -> None:
        """Sync the files of the next groups, without those that were closed meanwhile."""
        changed = ChangedFiles([], [], [])
        for _ in range(min(self._groups_max, len(self._waiting))):
            group = self._waiting.popleft()
            if not group.is_closed:
                changed.add(group.log.segments.list_changes_since_checkpoint())
        if self._journal.failure is not None:
            return
        if changed.seen:
            self._is_syncing = True
            self._disk.submit_sync(changed.files, changed.directories, partial(self._continue_after_sync, changed))
        elif self._waiting:
            self._soon(self._sync_next)
        elif self._number is not None:
            self._journal.complete_checkpoint(self._number)

    def note_durable(self) -> None:
        """Count the pending checkpoint as complete if the journal durably starts at it."""
        if self._number is not None and self._number <= self._journal.durable_start:
            self._number = None
            self.completed += 1

    def _continue_after_sync(self, changed: ChangedFiles, error: OSError | None) -> None:
        """Sync the files of the next groups, or end the process after an error."""
        self._is_syncing = False
        if error:
            self._fail(error)
            return
        changed.mark_synced()
        self._sync_next()


def _state_of_removed(hard_state: JournaledHardState, lost: tuple[Index, Term] | None) -> GroupState:
    """Return the checkpointed state of a removed group: its mark, term, vote and voting position."""
    key, term, vote = hard_state
    return GroupState(key, Mark.REMOVED, term, vote, voting_position=lost)


def _state_of(group: PartitionReplica) -> GroupState:
    """Return the checkpointed state of a group with a replica here."""
    term, vote = group.hard_state
    log = group.log
    return GroupState(
        group.key,
        Mark.CREATED,
        term,
        member_of(vote) if vote else None,
        group.trim_to if group.trim_to is not None else group.log_start_offset,
        log.end(),
        group.applied_index,
        _configuration_index(group),
        group.core.voting_position,
    )


def _configuration_index(group: PartitionReplica) -> Index | None:
    """Return the index of the latest configuration entry in the log; 0 when only a roll has it, None if not known."""
    index = group.configuration_index
    if not group.are_configurations_known and group.log.last_index:
        return None
    return index if index > max(group.log.boundary.index, 1) else Index(0)
