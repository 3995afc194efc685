"""What replicas ask of each other over the bulk connection: entries as they are stored, checked before they are sent.

Any replica answers, for what it holds; whoever asked checks every batch against what it knows of it.
"""

from typing import NamedTuple

from raftlog.raft import EntryId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Index, Offset, Term


class LogAsked(NamedTuple):
    """Where does your log of this group begin, and how far is it committed?"""

    group: GroupKey


class LogFound(NamedTuple):
    """Entries `boundary.index + 1` (a roll at `base_offset`) to `committed_index` can be asked for, for some time."""

    boundary: EntryId
    base_offset: Offset
    log_start_offset: Offset
    committed_index: Index


class EntriesAsked(NamedTuple):
    """Entries from `first_index` to `last_index`, as many as fit into `bytes_max`, at least one."""

    group: GroupKey
    first_index: Index
    last_index: Index
    bytes_max: int


class StoredEntry(NamedTuple):
    """A batch as it is stored, stamped with its term and offset."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    term: Term
    batch: bytes


class EntriesFound(NamedTuple):
    """Consecutive entries from `first_index` on; fewer than asked for at the end of a segment or before a bad one."""

    entries: tuple[StoredEntry, ...]
