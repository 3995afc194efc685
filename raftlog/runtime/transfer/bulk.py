"""Requests between replicas over the bulk connection: entries as they are stored, checked before they are sent.

Any replica answers with its own entries, but `LogFetchRequest` is for the leader of its term. The requester checks
every batch that it receives."""

from typing import NamedTuple

from raftlog.raft import Entry, EntryId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Index, Offset, Term


class LogRequest(NamedTuple):
    """Request for the beginning of a replica's log."""

    group: GroupKey


class StoredEntry(NamedTuple):
    """Batch as it is stored, stamped with its term and offset."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    term: Term
    batch: bytes


class LogResult(NamedTuple):
    """Beginning of a log: `first` is the roll at `base_offset`, after `boundary`; both are committed.

    Entries can be read by index from the roll on. `files` is the number of segments below the roll, which may be
    compacted: they are copied batch by batch."""

    boundary: EntryId
    base_offset: Offset
    first: StoredEntry
    files: int = 0


class FilesRequest(NamedTuple):
    """Request for a list of the segments below the roll at `below`, or if that is compacted, below the boundary."""

    group: GroupKey
    below: Offset


class FilesResult(NamedTuple):
    """List of the segments that end before the roll at `below`, with entry `boundary`.

    Pieces that `PieceRequest` returns with another `version` do not belong to these segments."""

    version: tuple[int, int]
    below: Offset
    boundary: EntryId
    log_start_offset: Offset
    base_offsets: tuple[Offset, ...]


class PieceRequest(NamedTuple):
    """Request for batches of the segment at `base_offset`, from row `row` on: up to `bytes_max`, at least one."""

    group: GroupKey
    version: tuple[int, int]
    base_offset: Offset
    row: int
    bytes_max: int


class PieceResult(NamedTuple):
    """Consecutive batches of a segment; none after its last one."""

    batches: tuple[bytes, ...]


class EntriesRequest(NamedTuple):
    """Request for entries from `first_index` to `last_index`: up to `bytes_max`, at least one."""

    group: GroupKey
    first_index: Index
    last_index: Index
    bytes_max: int


class EntriesResult(NamedTuple):
    """Consecutive entries from `first_index` on; fewer than requested at the end of a segment or before a bad one."""

    entries: tuple[StoredEntry, ...]


class LogFetchRequest(NamedTuple):
    """Request for the entries after entry `after` in the log of the leader of `term`.

    `sequence` is the number of the leader's offer."""

    group: GroupKey
    term: Term
    sequence: int
    after: EntryId
    bytes_max: int


class FetchResult(NamedTuple):
    """Result of `LogFetchRequest`: entries after `after` up to the size limit; none at the end of the log.

    With the leader's commit index and last index."""

    committed: Index
    last_index: Index
    entries: tuple[Entry, ...]


class LogsDiverge(NamedTuple):
    """Result of a leader whose log does not have the entry `after`.

    The next request begins after the follower's committed entries."""


BulkRequest = LogRequest | EntriesRequest | LogFetchRequest | FilesRequest | PieceRequest
