"""What replicas ask of each other over the bulk connection: entries as they are stored, checked before they are sent.

Any replica answers for what it holds, but `AppendAsked` is for the leader of its term. Whoever asked checks every batch
against what it knows of it.
"""

from typing import NamedTuple

from raftlog.raft import Entry, EntryId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Index, Offset, Term


class LogAsked(NamedTuple):
    """Where does your log of this group begin?"""

    group: GroupKey


class StoredEntry(NamedTuple):
    """A batch as it is stored, stamped with its term and offset."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    term: Term
    batch: bytes


class LogFound(NamedTuple):
    """`first` is the roll at `base_offset`, behind `boundary`, from which on entries can be had; both are committed.

    `files` segments lie below it, which are or may be compacted: they are copied as they are.
    """

    boundary: EntryId
    base_offset: Offset
    first: StoredEntry
    files: int = 0


class FilesAsked(NamedTuple):
    """Which segments hold your log below the roll at `below`, or if that is compacted, below your boundary?"""

    group: GroupKey
    below: Offset


class FilesFound(NamedTuple):
    """They end before the roll at `below`, with entry `boundary`. Pieces of another `version` are of no use."""

    version: tuple[int, int]
    below: Offset
    boundary: EntryId
    log_start_offset: Offset
    base_offsets: tuple[Offset, ...]


class PieceAsked(NamedTuple):
    """Batches of the segment at `base_offset`, from row `row` on, as many as fit into `bytes_max`, at least one."""

    group: GroupKey
    version: tuple[int, int]
    base_offset: Offset
    row: int
    bytes_max: int


class PieceFound(NamedTuple):
    """Batches one after another; none behind the segment's last."""

    batches: tuple[bytes, ...]


class EntriesAsked(NamedTuple):
    """Entries from `first_index` to `last_index`, as many as fit into `bytes_max`, at least one."""

    group: GroupKey
    first_index: Index
    last_index: Index
    bytes_max: int


class EntriesFound(NamedTuple):
    """Consecutive entries from `first_index` on; fewer than asked for at the end of a segment or before a bad one."""

    entries: tuple[StoredEntry, ...]


class AppendAsked(NamedTuple):
    """What follows `after` in the log of the leader of `term`? The number is that of the offer which said to ask."""

    group: GroupKey
    term: Term
    sequence: int
    after: EntryId
    bytes_max: int


class AppendFound(NamedTuple):
    """The entries behind `after`, as far as they fit, none at the log's end; and how far the leader has come."""

    committed: Index
    last_index: Index
    entries: tuple[Entry, ...]


class LogsPart(NamedTuple):
    """The leader does not have the entry `after`: ask again behind what is committed."""


BulkRequest = LogAsked | EntriesAsked | AppendAsked | FilesAsked | PieceAsked
