"""Large appends: the segment is synced, then only ids are journaled, so nothing large is written twice.

    taken → (cut settled, written) → segment synced → ids journaled → part has its sequence

A cut shortens a large append that is on its way: ids of entries that it removes are never journaled, for in the journal
they would come after the cut. A failed sync ends the process."""

from collections.abc import Callable
from functools import partial

from raftlog.errors import Unavailable
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import AppendIds, GroupKey
from raftlog.runtime.replica.part import Part
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.changes import ChangedFiles
from raftlog.storage.disk import Disk
from raftlog.types import Index


class _Large:
    """Large append that is not in the journal yet."""

    __slots__ = ("first", "is_started", "last", "part")

    def __init__(self, part: Part, first: Index, last: Index) -> None:
        """Describe the entries `first` to `last` of a part, whose batches are not journaled."""
        self.part = part
        self.first = first
        self.last = last
        """Index of the last entry, lowered by cuts; no entry is left when it is below `first`."""
        self.is_started = False


class LargeAppends:
    """Large appends of all groups: their bytes go to the segment only; after its sync their ids are journaled."""

    def __init__(
        self,
        disk: Disk,
        journal: Journal,
        on_journaled: Callable[[PartitionReplica, Part, JournalSequence], None],
        fail: Callable[[OSError], None],
    ) -> None:
        """Begin without large appends.

        `on_journaled` is called with the journal sequence of each, `fail` after a disk error."""
        self._disk = disk
        self._journal = journal
        self._journaled = on_journaled
        self._fail = fail
        self._under_way: dict[GroupKey, list[_Large]] = {}
        self._syncing: dict[GroupKey, int] = {}
        """Number of syncs that were submitted and have not returned, by group."""
        self._refused: list[tuple[PartitionReplica, _Large]] = []
        """Synced large appends whose ids did not fit into the journal."""

    def take(self, group: PartitionReplica, part: Part, first: Index, last: Index) -> None:
        """Register a large append; the caller calls `start` once its entries are written."""
        self._under_way.setdefault(group.key, []).append(_Large(part, first, last))

    def cut(self, group: PartitionReplica, index: Index) -> None:
        """Shorten the group's large appends to `index`, where its log was cut."""
        for large in self._under_way.get(group.key, ()):
            large.last = min(large.last, index)

    def forget(self, group: PartitionReplica) -> None:
        """Drop the large appends of a removed group."""
        self._under_way.pop(group.key, None)

    def is_syncing(self, key: GroupKey) -> bool:
        """Return whether a sync of this group's files and directory is under way."""
        return key in self._syncing

    @property
    def is_any_syncing(self) -> bool:
        return bool(self._syncing)

    def start(self, group: PartitionReplica) -> None:
        """Begin to sync the group's large appends that are written and not being synced."""
        for large in list(self._under_way.get(group.key, ())):
            if large.is_started or large.last > group.log.written_index:
                continue
            large.is_started = True
            if large.last < large.first:
                self._settle(group, large)
            else:
                changed = group.log.segments.list_unsynced_files(large.first, large.last)
                self._syncing[group.key] = self._syncing.get(group.key, 0) + 1
                synced = partial(self._continue_after_sync, group, large, changed)
                self._disk.submit_sync(changed.files, changed.directories, synced)

    def _continue_after_sync(
        self, group: PartitionReplica, large: _Large, changed: ChangedFiles, error: OSError | None
    ) -> None:
        """Journal the ids of a synced large append, or end the process after an error."""
        self._syncing[group.key] -= 1
        if not self._syncing[group.key]:
            del self._syncing[group.key]
        if error:
            self._fail(error)
        elif not group.is_closed and self._journal.failure is None:
            changed.mark_synced()
            self._settle(group, large)

    def journal_again(self) -> None:
        """Journal the ids for which the journal had no room."""
        refused, self._refused = self._refused, []
        for group, large in refused:
            if not group.is_closed and self._journal.failure is None:
                self._settle(group, large)

    def _settle(self, group: PartitionReplica, large: _Large) -> None:
        """Journal the ids of the entries that no cut removed."""
        operations = []
        if large.first <= large.last:
            rows = group.log.rows(large.first, large.last)
            operations = [AppendIds(group.key, large.first, rows)]
        try:
            sequence = self._journal.append(operations, may_use_reserve=True)
        except Unavailable:
            self._refused.append((group, large))  # the journal is full for now, and nothing of it was promised
            return
        waiting = self._under_way[group.key]
        waiting.remove(large)
        if not waiting:
            del self._under_way[group.key]
        self._journaled(group, large.part, sequence)
