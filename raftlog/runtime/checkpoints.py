"""Checkpoints of a running process: the journal says where every group stands, then the segments are made to hold it.

    begun → files are synced, a few at a time → completed        at most one at a time

Operations go on meanwhile. None begins while the files of a group are not what its log is: while a cut is on its way to
the journal, or entries wait for room on the disk. A failed sync ends the process.
"""

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from raftlog.errors import RaftlogError
from raftlog.raft import HardState
from raftlog.runtime.control_entries import member_of, replica_of
from raftlog.runtime.group import Group
from raftlog.runtime.journal import Journal
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.fold import Fold
from raftlog.runtime.journal.operations import GroupKey, GroupState, Mark
from raftlog.storage.changes import ChangedFiles
from raftlog.storage.disk import Disk
from raftlog.types import Index, Offset, Term


class Checkpoints:
    """Makes them. The driver asks at every tick whether it is time."""

    def __init__(
        self, disk: Disk, journal: Journal, files_max: int, interval_s: float, fail: Callable[[OSError], None]
    ) -> None:
        self._disk = disk
        self._journal = journal
        self._files_max = files_max
        self._interval_s = interval_s
        self._fail = fail
        self._removed: dict[GroupKey, GroupState] = {}
        """Marks of groups that were removed, kept until their topics are deleted."""
        self._number: JournalSequence | None = None
        """Of the checkpoint that was begun and is not completed."""
        self._waiting: deque[Group] = deque()
        """Groups whose files are to be synced."""
        self._under_way = 0
        self._last_at = 0.0

    def remember_removed(self, fold: Fold) -> None:
        """Keep the marks that the journal holds."""
        for key, folded in fold.groups.items():
            if folded.mark is Mark.REMOVED:
                self._removed[key] = GroupState(
                    key, Mark.REMOVED, folded.term, folded.vote, Offset(0), None, Index(0), Index(0), None
                )

    def note_removed(self, group: Group) -> None:
        """The group is gone; its term and vote stay."""
        self._removed[group.key] = _state(group)._replace(
            mark=Mark.REMOVED, log_start_offset=Offset(0), end=None, commit_hint=Index(0),
            configuration_index=Index(0), voting_position=None,
        )  # fmt: skip

    def forget_removed(self, key: GroupKey) -> HardState:
        """The group comes back: its mark goes, and its term and vote are where its next life begins."""
        removed = self._removed.pop(key, None)
        if removed is None:
            return HardState(Term(0), None)
        return HardState(removed.term, replica_of(removed.vote) if removed.vote else None)

    def maybe_begin(self, groups: Collection[Group], now: float) -> bool:
        """Begin when the journal has grown enough, or some time went by; true when one was begun."""
        is_time = self._journal.is_checkpoint_due or now - self._last_at >= self._interval_s
        if not is_time or self._number is not None or self._journal.failure is not None:
            return False
        if any(group.is_deaf or group.log.written_index < group.log.last_index for group in groups):
            return False
        for group in groups:
            group.log.segments.publish_rows(group.log.segments.last_index)
        if any(group.log.segments.published_index < group.log.last_index for group in groups):
            return False  # no room on the disk for the rows: tried again at the next tick
        try:
            number = self._journal.begin_checkpoint([*map(_state, groups), *self._removed.values()])
        except RaftlogError:
            return False  # no room in the journal, likewise
        self._last_at, self._number = now, number
        self._journal.flush()
        self._waiting.extend(groups)
        self._go_on()
        return True

    @property
    def is_under_way(self) -> bool:
        """While it is, directories of groups must stay where they are."""
        return self._under_way > 0 or bool(self._waiting)

    def _go_on(self) -> None:
        while self._waiting and self._under_way < self._files_max:
            group = self._waiting.popleft()
            if group.is_closed:
                continue
            changed = group.log.segments.changed_since_checkpoint()
            if not changed.files and not changed.directories:
                continue
            self._under_way += len(changed.files) + len(changed.directories)
            self._disk.submit_sync(changed.files, changed.directories, partial(self._synced, changed))
        if self._under_way == 0 and self._number is not None and self._journal.failure is None:
            number, self._number = self._number, None
            self._journal.complete_checkpoint(number)

    def _synced(self, changed: ChangedFiles, error: OSError | None) -> None:
        self._under_way -= len(changed.files) + len(changed.directories)
        if error:
            self._fail(error)
            return
        changed.note_synced()
        self._go_on()


def _state(group: Group) -> GroupState:
    term, vote = group.hard_state
    log = group.log
    index = group.configuration_index
    return GroupState(
        group.key,
        Mark.CREATED,
        term,
        member_of(vote) if vote else None,
        group.trim_to if group.trim_to is not None else group.log_start_offset,
        log.end(),
        group.applied_index,
        index if index > max(log.boundary.index, 1) else Index(0),
        group.core.voting_position,
    )
