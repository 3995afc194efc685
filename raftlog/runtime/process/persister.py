"""Disk side of the driver: it persists Readys in logs and journal, and continues them after the journal's sync.

    handed over ≥ journaled ≥ durable, in the order of the journal for all groups together

One write and one sync serve all groups of a turn. All waits for durability – a part of a Ready, a cut, a trim, an
installation – share one queue. A failed sync is never retried: it ends the process."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from raftlog.errors import CorruptBatch, DescriptorsExhausted, RaftlogError, SyncFailed
from raftlog.raft import Ready
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.histogram import Histogram
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import (
    Append,
    CommitHint,
    Created,
    Cut,
    GroupKey,
    JournaledHardState,
    Operation,
    Removed,
    Trim,
    VotingPosition,
)
from raftlog.runtime.log.control_entries import member_of
from raftlog.runtime.log.replica_directory import Trash
from raftlog.runtime.loop_holds import LOOP_HOLDS
from raftlog.runtime.process.checkpoints import Checkpoints
from raftlog.runtime.process.durable_waits import DurableWaits
from raftlog.runtime.process.large_appends import LargeAppends
from raftlog.runtime.process.outbox import Outbox
from raftlog.runtime.replica.part import Part
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.disk import Disk, File
from raftlog.storage.temporary_errors import lacks_descriptors
from raftlog.types import Index, Offset, Term

_SEGMENT_WRITE: Final = LOOP_HOLDS.step("segment write")
_TRIM: Final = LOOP_HOLDS.step("trim")
_WRITTEN_SHARE: Final = 4
"""Each tick writes the entries of one in so many groups that wait for it."""
_WRITTEN_MIN: Final = 8
"""Least number of groups whose entries a tick writes."""


class Persister:
    """Writer of logs and journal for the driver, which provides `plan_turn`, `mark_dirty`, `soon` and `fail`."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        journal: Journal,
        config: DriverConfig,
        outbox: Outbox,
        plan_turn: Callable[[], None],
        mark_dirty: Callable[[PartitionReplica], None],
        call_soon: Callable[[Callable[[], None]], None],
        fail: Callable[[RaftlogError], None],
    ) -> None:
        """Prepare to persist turns.

        `plan_turn` schedules a turn of the driver, `mark_dirty` a group's part in it, and `call_soon` a call in the
        loop's next turn. `fail` ends the driver with an error."""
        self.journal = journal
        self.checkpoints = Checkpoints(
            disk,
            journal,
            config.checkpoint_groups_max,
            config.checkpoint_interval_ms / 1000,
            self.write,
            call_soon,
            self._stop_with_disk_error,
        )
        self.append_times = Histogram()
        """Durations at leaders from the first proposal of a turn until its entries are in the log, to be journaled."""
        self.trash = Trash(disk, data_dir)
        self._disk, self._data_dir, self._config, self._outbox = disk, data_dir, config, outbox
        self._plan_turn, self._mark_dirty, self._fail = plan_turn, mark_dirty, fail
        self._waits = DurableWaits()
        self._larges = LargeAppends(disk, journal, self._note_large_journaled, self._stop_with_disk_error)
        self._unwritten: dict[GroupKey, PartitionReplica] = {}
        """Groups with entries that are not in their files, the one that has waited longest first.

        They wait for one of the next ticks, for room, or for the mark of their creation."""
        self._write_bytes = min(config.segment_write_bytes, config.large_append_bytes)
        """Bytes of unwritten entries from which on a group is written at once, as every large append is."""
        self._unmarked: dict[GroupKey, None] = {}
        """New groups whose creation is not durable in the journal: entries after their first roll must wait."""
        self._being_removed: dict[GroupKey, PartitionReplica] = {}
        """Removed groups whose directories still exist."""
        self._gathered: list[Operation] = []
        """Operations of the turn that is under way."""
        self._parts: list[tuple[PartitionReplica, Part]] = []
        """Parts of the turn, which are journaled together with its operations."""
        self._cuts_without_descriptors: dict[GroupKey, PartitionReplica] = {}
        """Groups whose cut could not be made in the files for lack of descriptors."""
        self._cuts: list[PartitionReplica] = []
        """Groups whose logs the turn cut."""
        self._syncs: dict[asyncio.Future[OSError | None], None] = {}
        """Futures of syncs that a caller waits for."""
        self._last_sequence = journal.durable_sequence
        """Sequence of the newest operation."""
        journal.on_failure = fail

    # into the journal

    def append(self, operations: Sequence[Operation]) -> None:
        """Journal operations for which no caller waits; they are written with the next turn."""
        self._journal(operations)
        self._plan_turn()

    def _journal(self, operations: Sequence[Operation]) -> None:
        """Append operations to the journal, and store their sequence in `_last_sequence`."""
        self._last_sequence = self.journal.append(operations, may_use_reserve=True)
        self.checkpoints.has_new_operations = True

    def append_marks(self, marks: Sequence[Created]) -> None:
        """Journal that groups were created; their new entries are not written to files until that is durable."""
        self.append(marks)
        for mark in marks:
            self._unmarked[mark.group] = None
            self._wait(self._last_sequence, self._settle_mark, mark.group)

    def _settle_mark(self, key: GroupKey, _: JournalSequence) -> None:
        """Write the entries that waited for the durable `created` mark of the group."""
        del self._unmarked[key]
        if key in self._unwritten:
            self.write(self._unwritten[key])

    def flush(self) -> None:
        """Start the write of all pending operations as one frame of the journal with one sync."""
        if self.journal.failure is None and not self.journal.is_idle:
            self.journal.flush()

    def persist(self, group: PartitionReplica, ready: Ready) -> None:
        """Run steps 1 and 2 of a Ready, in memory: append to the log, and gather operations for `end_turn`."""
        key, log, entries = group.key, group.log, ready.entries
        operations = self._gathered
        self.checkpoints.note_changed(group)
        if ready.hard_state is not None:
            group.hard_state = term, vote = ready.hard_state
            operations.append(JournaledHardState(key, term, member_of(vote) if vote else None))
        if ready.cut_to is not None:
            log.cut_to(ready.cut_to)
            self._larges.cut(group, ready.cut_to)
            operations.append(Cut(key, Index(ready.cut_to + 1)))
        is_large = bool(entries) and log.append(entries) >= self._config.large_append_bytes
        if group.proposed_at is not None:
            if entries:
                self.append_times.observe_since(group.proposed_at)
            group.proposed_at = None
        if entries and not is_large:
            operations.append(Append(key, entries[0].index, entries[-1].index, [each.payload for each in entries]))
        if ready.cut_to is not None:
            self._cuts.append(group)
        if not ready.must_sync and not group.parts:
            self._outbox.post(key, ready.messages_once_durable)
        elif ready.must_sync or ready.messages_once_durable:
            part = Part(ready.number, ready.messages_once_durable)
            group.parts.append(part)
            if is_large:
                self._larges.take(group, part, entries[0].index, entries[-1].index)
            else:
                self._parts.append((group, part))

    def end_turn(self) -> None:
        """Journal the operations of the turn, with one call for all groups, and start the write."""
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            self._journal(gathered)
        for group in self._cuts:
            group.cut_sequence = self._last_sequence
            self._wait(self._last_sequence, self._advance, group)  # a part that follows a cut may wait for it
        self._cuts.clear()
        parts, self._parts = self._parts, []
        for group, part in parts:
            self._note_journaled(group, part, self._last_sequence)
        self.flush()

    def _note_journaled(self, group: PartitionReplica, part: Part, sequence: JournalSequence) -> None:
        """Record the sequence of a part of a Ready that is completely in the journal."""
        part.sequence = sequence
        self._wait(sequence, self._advance, group)

    def _note_large_journaled(self, group: PartitionReplica, part: Part, sequence: JournalSequence) -> None:
        """Record the sequence of a large append that was journaled between turns; the next turn writes the frame."""
        self._note_journaled(group, part, sequence)
        self._plan_turn()

    def _wait(self, sequence: JournalSequence, action: Callable[..., None], subject: object) -> None:
        """Call `action` with `subject` once the journal is durable up to `sequence`."""
        self._waits.add(sequence, action, subject)
        if sequence <= self.journal.durable_sequence:
            asyncio.get_running_loop().call_soon(self.settle)  # it is durable, and no sync may follow

    def write_soon(self, group: PartitionReplica) -> None:
        """Schedule the write of journaled entries, together with later ones; see `write_oldest`.

        Control batches are written at once, because they have effects on the files."""
        log = group.log
        if log.unwritten_bytes >= self._write_bytes or log.has_unwritten_control:
            self.write(group)
        else:
            self._unwritten[group.key] = group

    def write(self, group: PartitionReplica) -> None:
        """Write entries to the files; without room or descriptors they wait, and the group accepts no more entries."""
        self.checkpoints.note_changed(group)
        if group.key in self._unmarked:
            self._write_later(group)
            return
        try:
            with _SEGMENT_WRITE:
                is_written = group.log.write()
        except OSError as error:
            self._stop_with_disk_error(error)
            return
        group.is_disk_full = not is_written and not group.log.lacks_descriptors
        if is_written:
            group.log.note_durable(group.core.durable_index)  # may be durable before they were written
            self._unwritten.pop(group.key, None)
            self._larges.start(group)
        else:
            self._write_later(group)

    def _write_later(self, group: PartitionReplica) -> None:
        """Retry the write of a group after those of all others that wait."""
        self._unwritten.pop(group.key, None)
        self._unwritten[group.key] = group

    @property
    def waits_for_room(self) -> bool:
        """Whether there are entries that a full disk refused."""
        return any(group.is_disk_full for group in self._unwritten.values())

    @property
    def waits_for_descriptors(self) -> bool:
        """Whether there are entries that could not be written for lack of descriptors."""
        return any(group.log.lacks_descriptors for group in self._unwritten.values())

    def write_pending(self) -> None:
        """Write the pending entries to the files, including those that a full disk refused."""
        self._write_groups(len(self._unwritten))

    def write_oldest(self) -> None:
        """Write the entries of a quarter of the groups, and of at least `_WRITTEN_MIN`; called every tick.

        With many busy groups one write has the entries of several ticks."""
        self._write_groups(max(_WRITTEN_MIN, len(self._unwritten) // _WRITTEN_SHARE))

    def _write_groups(self, count: int) -> None:
        """Write the pending entries of the `count` groups that have waited longest."""
        self._larges.journal_again()
        for group in list(islice(self._unwritten.values(), count)):
            self.write(group)

    def hint_commit(self, group: PartitionReplica, index: Index) -> None:
        """Journal the group's committed index, without a sync."""
        if self.journal.failure is None:
            self.journal.hint_commit(CommitHint(group.key, index))

    # once it is durable

    def settle(self) -> None:
        """Run all actions that waited for the journal's durable sequence; the next turn sends the messages."""
        self.checkpoints.note_durable()
        self._waits.settle(self.journal.durable_sequence)

    def _advance(self, group: PartitionReplica, sequence: JournalSequence) -> None:
        """Report a durable journal sequence to a group, send its messages, and settle a waiting cut."""
        if group.is_closed:
            return
        self.checkpoints.note_changed(group)
        messages = group.note_durable(sequence)
        if messages:
            self._outbox.post(group.key, messages)
        if group.log.is_cut_waiting and group.cut_sequence is not None and group.cut_sequence <= sequence:
            try:
                group.log.settle_cut()
            except CorruptBatch as error:
                group.note_damage(error)  # settled after the repair
            except DescriptorsExhausted:
                self._cuts_without_descriptors[group.key] = group
            self.write(group)
        if group.has_voting_position and group.core.voting_position is None:
            group.has_voting_position = False
            self.append([VotingPosition(group.key, Index(0), Term(0))])
        self._mark_dirty(group)

    def settle_cuts(self) -> None:
        """Retry the cuts for which no file descriptor was left."""
        while self._cuts_without_descriptors:
            _, group = self._cuts_without_descriptors.popitem()
            if not group.is_closed:
                self.settle_cut(group)

    def settle_cut(self, group: PartitionReplica) -> None:
        """Retry a cut that could not be made in the files because they were damaged."""
        if group.log.is_cut_waiting:
            self._wait(self._last_sequence, self._advance, group)

    def trim(self, group: PartitionReplica, offset: Offset) -> None:
        """Journal a trim, and delete the segments once it is durable."""
        group.trim_to = offset
        self.checkpoints.note_changed(group)
        self.append([Trim(group.key, offset)])
        self._wait(self._last_sequence, self._settle_trim, (group, offset))

    def _settle_trim(self, trim: tuple[PartitionReplica, Offset], _: JournalSequence) -> None:
        """Delete the segments below a trim that is durable."""
        group, offset = trim
        if not group.is_closed:
            self.checkpoints.note_changed(group)
            with _TRIM:
                group.settle_trim(offset)

    def remove(self, group: PartitionReplica) -> None:
        """Journal the removal of a group that is closed, and delete its directory once that is durable."""
        self._unwritten.pop(group.key, None)
        self._being_removed[group.key] = group
        self._larges.forget(group)
        self.append(self.removal_operations(group))
        self._wait(self._last_sequence, self._settle_removal, group)

    def removal_operations(self, group: PartitionReplica) -> list[Operation]:
        """Return the operations for the removal of a closed group; the caller journals them in this turn."""
        position = group.core.voting_position or group.core.last_id
        self.checkpoints.note_removed(group, position)
        return [VotingPosition(group.key, *position), Removed(group.key)]

    def _settle_removal(self, group: PartitionReplica, _: JournalSequence) -> None:
        """Close the files of a group whose removal is durable; `empty_trash` then deletes them."""
        group.log.segments.close()
        group.is_removed = True

    def begin_removal(self, group: PartitionReplica) -> None:
        """Record that the caller moves the group's directory; it calls `end_removal` when the move is durable."""
        self._unwritten.pop(group.key, None)
        self._larges.forget(group)
        self._being_removed[group.key] = group

    def end_removal(self, group: PartitionReplica) -> None:
        """Record that the group's directory was moved durably."""
        del self._being_removed[group.key]

    def may_move(self, group: PartitionReplica) -> bool:
        """Return whether the group's files may move, because no submitted sync needs them in place."""
        return not self.checkpoints.is_under_way and not self._larges.is_syncing(group.key)

    def is_leaving(self, key: GroupKey) -> bool:
        """Return whether the group's replica here is being removed."""
        return key in self._being_removed

    def empty_trash(self) -> bool:
        """Delete the directories of removed groups that no submitted sync needs; return whether there were any.

        Directories for which no descriptor was left are retried with the next call."""
        if self.checkpoints.is_under_way:
            return False
        removed = [
            key for key, group in self._being_removed.items() if group.is_removed and not self._larges.is_syncing(key)
        ]
        count = len(self._being_removed)
        try:
            for key in removed:
                self.trash.take(self._being_removed[key].path, self._being_removed[key].group_id)
                del self._being_removed[key]
            self.trash.empty()
        except OSError as error:
            if not lacks_descriptors(error):
                self._stop_with_disk_error(error)
        return len(self._being_removed) < count

    @property
    def waiting_count(self) -> int:
        """Number of parts of Readys, cuts, trims and other actions that wait for the journal's next syncs."""
        return len(self._waits)

    @property
    def is_idle(self) -> bool:
        """Whether no work waits for the disk."""
        return self.journal.is_idle and not self._larges.is_any_syncing

    async def append_durably(self, operations: Sequence[Operation]) -> None:
        """Journal operations and wait until they are durable; raises the error that ended the journal."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.append(operations)
        self._wait(self._last_sequence, _settle_future, done)
        self.flush()
        await done

    async def sync(self, files: Sequence[File], directories: Sequence[str]) -> None:
        """Sync and wait. Raise the failure that ends the process, of this sync or of any other part meanwhile."""
        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self._syncs[done] = None

        def settle(error: OSError | None) -> None:
            """Complete the caller's future with the error of the sync, or None."""
            if not done.done():
                done.set_result(error)

        try:
            self._disk.submit_sync(files, directories, settle)
            error = await done
        finally:
            del self._syncs[done]
        if error is not None:
            self._stop_with_disk_error(error)
            raise error

    # the end

    def stop_with(self, error: Exception) -> None:
        """End the process after an error that only a restart can resolve."""
        self._fail(SyncFailed(f"{self._data_dir}: {error}; restart the process"))

    def _stop_with_disk_error(self, error: OSError) -> None:
        """End the driver: after a disk error the state of the files is unknown."""
        self._fail(SyncFailed(f"{self._data_dir}: {error}; the state of the disk is unknown; restart the process"))

    def fail_waits(self, failure: RaftlogError) -> None:
        """Fail all waiting actions, because no more of the journal becomes durable."""
        for subject in (*self._waits.drain(), *self._syncs):
            if isinstance(subject, asyncio.Future) and not subject.done():
                subject.set_exception(failure)


def _settle_future(done: "asyncio.Future[None]", _: JournalSequence) -> None:
    """Complete the future, unless its caller has cancelled it."""
    if not done.done():
        done.set_result(None)
