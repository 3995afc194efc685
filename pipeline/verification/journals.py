"""State of replicas in the journal of a data directory, compared with their segments.

After a clean stop the segments have all entries. After a crash the journal defines the entries after the last
checkpoint. They were written to the segments at the same time, so the segments usually have them too, unless the power
failed. If they have all, they can be compared without the journal; otherwise `held_to` is the last entry in them.

    kept_to ≤ held_to ≤ last_index,   commit ≤ last_index

One task reads one journal; called in tasks, by `job`. Memory: the fold, and one file's payload at a time."""

from contextlib import closing
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.errors import FormatError, JournalDamaged
from raftlog.pipeline.segments.extent import file_name
from raftlog.pipeline.segments.pieces import IndexRows
from raftlog.pipeline.segments.replicas import DataDirectory, real_disk
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.log.offline import OfflineReplica, list_offline_replicas
from raftlog.runtime.log.replay import JournalEntry, journal_entries
from raftlog.storage.disk import Disk, File
from raftlog.storage.recovery import segment_bases
from raftlog.storage.rows import unpack_row
from raftlog.storage.segment_files import INDEX_SUFFIX, segment_stem
from raftlog.storage.verify import open_with_index

_TRIES: Final = 3
"""Maximum number of attempts to read a journal, which can look damaged while a running process writes it."""


class JournaledReplica(NamedTuple):
    """State of one replica in a journal.

    `commit`: last entry that is known to be committed. `kept_to`: last entry of the segments at the last checkpoint.
    `held_to`: last entry in the segments now. `journaled_from`: offset of the first roll after `kept_to`, None without
    one."""

    path: str
    group_id: UUID
    commit: int
    last_index: int
    kept_to: int
    held_to: int
    log_start: int
    journaled_from: int | None


class JournalRead(NamedTuple):
    """Content of one journal, or the reason for which it cannot be read."""

    owner: DataDirectory
    replicas: tuple[JournaledReplica, ...]
    why: str | None


def read_data_directory(owner: DataDirectory) -> list[JournalRead]:
    """Read the journal of a data directory; return the result in a list of one. Raises `OSError`."""
    disk, why = real_disk(), ""
    for _ in range(_TRIES):
        try:
            replicas = list_offline_replicas(disk, owner.data_dir, owner.disk_uuid)
            return [JournalRead(owner, tuple(_describe_replica(disk, replica) for replica in replicas), None)]
        except (JournalDamaged, FormatError) as error:
            why = str(error)
    return [JournalRead(owner, (), why)]


def _describe_replica(disk: Disk, replica: OfflineReplica) -> JournaledReplica:
    """Return the state of a replica in its journal, compared with its segment files."""
    folded, fold = replica.folded, replica.fold
    assert folded is not None, f"{replica.path} was found by its journal"
    assert fold is not None, f"{replica.path} was found by its journal"
    held = _JournalWalk(disk, replica.path, folded)
    held.follow(folded, fold)
    return JournaledReplica(
        replica.path,
        replica.group_id,
        min(folded.commit_hint, folded.last_index),
        folded.last_index,
        folded.keep_to,
        held.held_to,
        folded.log_start_offset,
        held.journaled_from,
    )


class _JournalWalk:
    """Comparison of the journal's entries with the segment files of one replica, up to the first difference."""

    def __init__(self, disk: Disk, path: str, folded: FoldedGroup) -> None:
        """Prepare to walk through the journaled entries of the log at `path`."""
        self.held_to: int = folded.keep_to
        self.journaled_from: int | None = None
        self._disk, self._path = disk, path
        self._log_start = folded.log_start_offset
        self._file: File | None = None
        self._position = 0
        self._is_lost = False

    def follow(self, folded: FoldedGroup, fold: Fold) -> None:
        """Compare all entries of the journal after the checkpoint."""
        has_begun = False
        try:
            for entry in journal_entries(folded, fold, folded.keep_to + 1):
                if not has_begun:
                    has_begun = True
                    self._begin(folded)
                self._compare_entry(entry)
        finally:
            self._close()

    def _begin(self, folded: FoldedGroup) -> None:
        """Open the segment file with the first entry after `keep_to`, and set the position to this entry."""
        end = folded.end
        if end is None or not folded.keep_to:
            return
        if end.id.index == folded.keep_to:
            self._open(end.segment)
            self._position = end.id.end
            return
        for base in reversed(segment_bases(self._disk, self._path)):
            segment = open_with_index(self._disk, self._path, base)
            segment.close()
            if segment.base_index <= folded.keep_to:
                self._open_by_row(base, segment.base_index, folded.keep_to)
                return

    def _open_by_row(self, base: int, base_index: int, index: int) -> None:
        """Open the segment and set the position after entry `index`, if the entry has an index row."""
        name = f"{self._path}/{segment_stem(base)}{INDEX_SUFFIX}"
        if not self._disk.exists(name):
            return
        with closing(self._disk.open(name, read_only=True)) as rows:
            packed = IndexRows(rows).packed(index - base_index)
        if packed and unpack_row(packed).index == index:
            self._open(base)
            self._position = unpack_row(packed).end

    def _compare_entry(self, entry: JournalEntry) -> None:
        """Compare one entry with the segment file, and advance."""
        if entry.is_roll:
            if self.journaled_from is None:
                self.journaled_from = entry.offset
            self._open(entry.offset)
        if self._file is None:
            self._is_lost = self._is_lost or entry.offset >= self._log_start  # below, a trim took the file
        elif entry.batch is not None:
            self._is_lost = self._is_lost or self._file.read(self._position, len(entry.batch)) != entry.batch
            self._position += len(entry.batch)
        else:
            row = unpack_row(entry.row)
            self._is_lost = self._is_lost or row.position != self._position or row.end > self._file.size()
            self._position = row.end
        if not self._is_lost:
            self.held_to = entry.index

    def _open(self, base: int) -> None:
        """Open the file with this base offset at its start, if it exists."""
        self._close()
        name = file_name(self._path, base)
        self._position = 0
        if self._disk.exists(name):
            self._file = self._disk.open(name, read_only=True)

    def _close(self) -> None:
        """Close the open segment file, if any."""
        if self._file is not None:
            self._file.close()
            self._file = None
