"""Replicas of stopped processes, read without any change, in the state that their next start would recover.

    entries up to the fold's `keep_to`: from the segments        after it: from the journal, cuts applied
    first index ≤ compared entries ≤ the smallest commit that any of the replicas has persisted
    below the compacted end of any of them: the newest record of every key; from there on: bytes
    a replica that ends below that end is left out: its missing entries may be the reason why older ones were removed

Of a large append the journal has index rows, and its bytes are in the segment. A log without a journal (`raftlog.Log`)
counts as committed up to its last sound entry. Called by `log verify --compare` and, on Spark, by the pipeline's
readers; read while a process runs, a sound replica may look damaged."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from raftlog.records import read_header
from raftlog.records.difference import first_difference
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.journal.operations import Mark
from raftlog.runtime.journal.recovery import read_journal
from raftlog.runtime.log.newest_records import NewestRecords, OfflineEntry, find_difference
from raftlog.runtime.log.replay import journal_entries
from raftlog.runtime.log.replica_directory import find_replicas_read_only
from raftlog.storage.directory import internal_path
from raftlog.storage.disk import Disk
from raftlog.storage.recovery import segment_bases
from raftlog.storage.rows import unpack_row
from raftlog.storage.segment_files import LOG_SUFFIX, segment_stem
from raftlog.storage.verify import open_with_index, walk_segment
from raftlog.types import Index, Offset


class OfflineReplica(NamedTuple):
    """Replica's directory, and its group in the process's journal; a lone log has no journal."""

    path: str
    group_id: uuid.UUID
    folded: FoldedGroup | None
    fold: Fold | None

    @property
    def log_start_offset(self) -> Offset:
        return self.folded.log_start_offset if self.folded is not None else Offset(0)

    def find_committed_index(self, disk: Disk) -> Index:
        """Return the index of the last entry that is known to be committed."""
        if self.folded is not None:
            return min(self.folded.commit_hint, self.folded.last_index)
        last = Index(0)
        for found in self.entries(disk):
            if found.reason is not None:
                break
            last = found.index
        return last

    def find_last_index(self, disk: Disk) -> Index:
        """Return the index of the last entry, committed or not; 0 without entries."""
        if self.folded is not None:
            return self.folded.last_index
        return max((found.index for found in self.entries(disk)), default=Index(0))

    def entries(self, disk: Disk) -> Iterator[OfflineEntry]:
        """Yield all entries, damaged ones too, by index. Raises `OSError`, `JournalDamaged` and `FormatError`."""
        base, last = -1, 0
        for base, found in self._entries_in_segments(disk):  # noqa: B007 - the journal goes on in that segment
            if found.index > last:
                yield found
                last = found.index
        if self.folded is not None and self.fold is not None:
            yield from self._entries_in_journal(disk, self.folded, self.fold, base)

    def _entries_in_segments(self, disk: Disk) -> Iterator[tuple[int, OfflineEntry]]:
        """Yield the entries in the segments that the checkpoint covers, each with the base offset of its file."""
        keep_to = self.folded.keep_to if self.folded is not None else None
        bases = segment_bases(disk, self.path)
        for base, newer in zip(bases, [*bases[1:], None], strict=False):  # there may be none
            with closing(open_with_index(disk, self.path, base)) as segment:
                for stored in walk_segment(segment, newer):
                    index = stored.index
                    if keep_to is not None and index > keep_to:
                        return
                    reason = None if stored.row_only else stored.reason
                    place = f"{segment.files.log.path} at position {stored.position}"
                    yield base, OfflineEntry(Index(index), bytes(stored.batch), place, reason)

    def find_first_uncompacted(self, disk: Disk) -> Index:
        """Return the index from which on every entry has its own bytes: the first of the first uncompacted segment.

        It follows the last segment if all are compacted, and is 0 if there are no segments."""
        bases = segment_bases(disk, self.path)
        for base in bases:
            segment = open_with_index(disk, self.path, base)
            segment.close()
            if not segment.is_compacted:
                return Index(segment.base_index)
        return find_next_index(disk, self.path, bases[-1]) if bases else Index(0)

    def _entries_in_journal(self, disk: Disk, folded: FoldedGroup, fold: Fold, base: int) -> Iterator[OfflineEntry]:
        """Yield the entries after the segments' checkpoint; `base` is the segment of the last entry before them."""
        for entry in journal_entries(folded, fold, folded.keep_to + 1):
            base = entry.offset if entry.is_roll else base
            name = f"{self.path}/{segment_stem(base)}{LOG_SUFFIX}" if base >= 0 else ""
            if entry.batch is not None:
                yield OfflineEntry(entry.index, bytes(entry.batch), f"the journal, for {name}", None)
            elif name and disk.exists(name):
                yield _read_by_row(disk, name, entry.row)
            elif entry.offset >= folded.log_start_offset:
                yield OfflineEntry(entry.index, b"", name, "the file is missing")


def find_next_index(disk: Disk, path: str, base: int) -> Index:
    """Return the index after the segment with this base offset, which is read to its end."""
    with closing(open_with_index(disk, path, base)) as segment:
        for _ in walk_segment(segment):
            continue
        return Index(segment.next_index)


def _read_by_row(disk: Disk, name: str, packed: bytes) -> OfflineEntry:
    """Read the batch of a large append at the position in its index row."""
    row = unpack_row(packed)
    file = disk.open(name, read_only=True)
    try:
        batch = file.read(row.position, row.length)
    finally:
        file.close()
    reason = None if len(batch) == row.length else "the file ends too early"
    return OfflineEntry(Index(row.index), batch, f"{name} at position {row.position}", reason)


def list_offline_replicas(disk: Disk, data_dir: str, disk_uuid: uuid.UUID) -> list[OfflineReplica]:
    """Return all replicas in a process's data directory that are marked as created in its journal.

    Raises `JournalDamaged`, `FormatError` and `OSError`."""
    fold = read_journal(disk, internal_path(data_dir, "journal", str(disk_uuid)), disk_uuid)
    found = []
    for group_id, path in find_replicas_read_only(disk, data_dir).items():
        folded = fold.groups.get(group_id.bytes)
        if folded is not None and folded.mark is Mark.CREATED:
            found.append(OfflineReplica(path, group_id, folded, fold))
    return found


class Comparison(NamedTuple):
    """Result of comparing replicas of one group from `first` to `last`, their smallest commit.

    `end_offset` is the offset after entry `last`. Nothing was compared when `last < first`. If a replica is compacted,
    the entries below `first` were compared by their newest records. `difference` describes the first difference between
    two replicas, or is None. `behind`: paths of replicas that were left out, as they lack entries below `first`."""

    group_id: uuid.UUID
    paths: tuple[str, ...]
    first: Index
    last: Index
    end_offset: int
    difference: str | None
    behind: tuple[str, ...] = ()


def compare_replicas(disk: Disk, replicas: Sequence[OfflineReplica]) -> Comparison:
    """Compare replicas of one group entry by entry. Raises like `OfflineReplica.entries`."""
    assert len(replicas) > 1, "one replica has nothing to be compared with"
    whole = max(replica.find_first_uncompacted(disk) for replica in replicas)
    present = [each for each in replicas if each.find_last_index(disk) >= whole - 1] if whole > 1 else replicas
    if len(present) == len(replicas):
        return _compare_complete(disk, replicas, whole)
    paths = tuple(replica.path for replica in replicas)
    behind = tuple(replica.path for replica in replicas if replica not in present)
    if len(present) < 2:
        return Comparison(replicas[0].group_id, paths, whole, Index(whole - 1), 0, None, behind)
    return _compare_complete(disk, present, whole)._replace(paths=paths, behind=behind)


def _compare_complete(disk: Disk, replicas: Sequence[OfflineReplica], whole: Index) -> Comparison:
    """Compare replicas that all have the entries below `whole`, from which on none is compacted."""
    last = min(replica.find_committed_index(disk) for replica in replicas)
    streams = [replica.entries(disk) for replica in replicas]
    heads = [next(stream, None) for stream in streams]
    paths = tuple(replica.path for replica in replicas)
    end_offset = 0
    first = max((head.index for head in heads if head is not None), default=Index(1))
    if whole > first:
        newest = [NewestRecords(whole, replica.log_start_offset) for replica in replicas]
        for number, stream in enumerate(streams):
            heads[number] = newest[number].take(heads[number], stream)
            newest[number].decide_rest(replicas[number].entries(disk))
        difference = find_difference(paths, newest, lambda number: replicas[number].entries(disk))
        if difference is not None:
            return Comparison(replicas[0].group_id, paths, whole, last, end_offset, difference)
    first = index = max(first, whole)
    while index <= last:
        for number, stream in enumerate(streams):
            heads[number] = _skip_to(index, heads[number], stream)
        difference = _compare_entries(index, paths, heads)
        if difference is not None:
            return Comparison(replicas[0].group_id, paths, first, last, end_offset, difference)
        end_offset = _offset_after(heads)
        index = Index(index + 1)
    return Comparison(replicas[0].group_id, paths, first, last, end_offset, None)


def _skip_to(index: Index, head: OfflineEntry | None, stream: Iterator[OfflineEntry]) -> OfflineEntry | None:
    """Return the first entry of the stream, or `head`, that is not below `index`; None at its end."""
    while head is not None and head.index < index:
        head = next(stream, None)
    return head


def _compare_entries(index: Index, paths: Sequence[str], heads: Sequence[OfflineEntry | None]) -> str | None:
    """Return a description of the difference between the entries at `index`, or None."""
    reference = heads[0]
    for path, head in zip(paths, heads, strict=True):
        if head is None or head.index != index:
            return f"{path} lacks entry {index}"
        if head.reason is not None:
            return f"entry {index} in {head.place}: {head.reason}"
        assert reference is not None, "the first one was looked at first"
        if head.batch != reference.batch:
            at = first_difference(head.batch, reference.batch)
            sizes = f"{len(reference.batch)} and {len(head.batch)} bytes"
            return f"entry {index} differs in byte {at} of {sizes}: {reference.place}, and {head.place}"
    return None


def _offset_after(heads: Sequence[OfflineEntry | None]) -> int:
    """Return the offset after the entry, which all replicas have."""
    assert heads[0] is not None, "all replicas have the entry"
    return read_header(heads[0].batch).next_offset
