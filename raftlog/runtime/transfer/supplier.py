"""Answers of this process to replicas in other processes that request entries over the bulk connection.

Each request is answered at once, from the files, and neither memory nor segments are kept for the requester; only
compaction does not begin while a compacted log is copied. An answer is one piece of at most `transfer_chunk_bytes` and
`_ENTRIES_MAX` entries, so that the loop is held for a millisecond or two. Damaged entries are detected, and never sent.
Called by the driver."""

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from raftlog.errors import CorruptBatch, Unavailable
from raftlog.raft import EntryId, ReplicaId
from raftlog.raft.supply import SupplyRefusal, SupplyRequest
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.boundary import find_first_uncompacted, previous_entry_id
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.bulk import (
    BulkRequest,
    EntriesRequest,
    EntriesResult,
    FetchResult,
    FilesRequest,
    FilesResult,
    LogFetchRequest,
    LogResult,
    LogsDiverge,
    PieceRequest,
    PieceResult,
    StoredEntry,
)
from raftlog.storage.segment import Segment
from raftlog.types import Index, NodeId, Offset, Term

_ENTRIES_MAX: Final = 256
_PACE_S: Final = 1.0
_IDLE_S: Final = 3.0
"""Time without a request after which a node no longer counts as fetching."""
_PACES_MAX: Final = 256


class _FetchPace:
    """Measured rate, in bytes per second over the last period, at which one follower fetches."""

    def __init__(self, now: float) -> None:
        self._since = now
        self._bytes = 0
        self._rate = 0.0

    def take(self, size: int, now: float) -> None:
        """Count `size` bytes that were sent."""
        self._bytes += size
        elapsed = now - self._since
        if elapsed >= _PACE_S:
            self._rate = 0.0 if elapsed >= _IDLE_S else self._bytes / elapsed
            self._since, self._bytes = now, 0

    def rate(self, now: float) -> float:
        """Return the rate in bytes per second; 0 after an idle time."""
        elapsed = now - self._since
        return 0.0 if elapsed >= _IDLE_S else self._rate or self._bytes / max(elapsed, _PACE_S)


def _segments_below(log: GroupLog, boundary: EntryId) -> tuple[Segment, ...]:
    """Return the segments that begin at or below the boundary."""
    return tuple(segment for segment in log.segments.segments if segment.base_index <= boundary.index)


def _boundary_at(group: PartitionReplica, offset: Offset) -> EntryId | None:
    """Return the entry before the committed roll at an offset; None without such a roll, or for a compacted segment."""
    log = group.log
    segment = log.segments.segment_of_offset(offset)
    is_there = segment.base_offset == offset and log.boundary.index < segment.base_index <= group.applied_index
    return previous_entry_id(segment) if is_there else None


class SupplyPort(Protocol):
    """Interface of the process for answers to other replicas. The driver provides it."""

    me: ReplicaId
    boot_epoch: int
    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    groups: dict[GroupKey, PartitionReplica]

    def is_compacting(self, group: PartitionReplica) -> bool:
        """Return whether files of the group's log are being rewritten."""
        ...


class Supplier:
    """Server of one driver for the bulk requests of other replicas: parts of logs, entries, segment files."""

    def __init__(self, port: SupplyPort) -> None:
        """Begin without followers."""
        self._port = port
        self.bytes_supplied = 0
        """Number of bytes of batches that were sent to fetching followers."""
        self._paces: OrderedDict[tuple[GroupKey, NodeId], _FetchPace] = OrderedDict()
        """Rates of the followers that fetched last; at most `_PACES_MAX`."""
        self._copied_at: dict[GroupKey, float] = {}
        """Time of the latest request for files of a compacted log."""

    def rate_of(self, group: PartitionReplica, node: NodeId) -> int:
        """Return the rate at which a node fetches from the group's log, in bytes per second; 0 if it does not."""
        pace = self._paces.get((group.key, node))
        return 0 if pace is None else round(pace.rate(self._port.loop.time()))

    def serve(self, node: NodeId, request: object) -> object:
        """Answer a bulk request of a replica on another node.

        Raises `Unavailable` for entries that this node does not have, and `CorruptBatch`."""
        if not isinstance(request, BulkRequest):
            raise Unavailable(f"node {node} requested {type(request).__name__}, which is not known here")
        group = self._find_group(request.group)
        try:
            if isinstance(request, LogFetchRequest):
                return self._answer_fetch(group, node, request)
            if isinstance(request, EntriesRequest):
                return self._answer_entries(group, request)
            if isinstance(request, FilesRequest):
                return self._answer_files(group, request)
            return (
                self._answer_piece(group, node, request)
                if isinstance(request, PieceRequest)
                else self._answer_log(group)
            )
        except CorruptBatch as error:
            group.note_damage(error)
            raise

    def _find_group(self, key: GroupKey) -> PartitionReplica:
        """Return the replica of a group. Raises `Unavailable` without a replica that may answer."""
        group = self._port.groups.get(key)
        if group is None or group.is_frozen or group.stopped:
            raise Unavailable(f"group {key.hex()} has no replica on node {self._port.me.node_id} now")
        return group

    def _answer_log(self, group: PartitionReplica) -> LogResult:
        """Return the beginning of the log. Raises `Unavailable` if it is damaged."""
        log = group.log
        first_index = Index(log.boundary.index + 1)
        if group.damage is not None or first_index > min(group.applied_index, log.written_index):
            raise Unavailable(f"{group.path} has no sound log to copy")
        [(row, batch)] = log.segments.read_entries(first_index, first_index, 1)
        first = StoredEntry(first_index, Term(row.term), bytes(batch))
        return LogResult(log.boundary, Offset(row.offset), first, len(_segments_below(log, log.boundary)))

    def _answer_files(self, group: PartitionReplica, request: FilesRequest) -> FilesResult:
        """Return the list of the files below an offset. Raises `Unavailable` during compaction."""
        log, segments = group.log, group.log.segments
        if group.damage is not None or self._port.is_compacting(group):
            raise Unavailable(f"{group.path} is being compacted, or damaged; retry")
        boundary = _boundary_at(group, request.below) or log.boundary
        below = segments.row_at(Index(boundary.index + 1)).offset
        bases = tuple(Offset(segment.base_offset) for segment in _segments_below(log, boundary))
        self._copied_at[group.key] = self._port.loop.time()
        return FilesResult(self._version(group), Offset(below), boundary, segments.log_start_offset, bases)

    def _version(self, group: PartitionReplica) -> tuple[int, int]:
        """Return the version of the log's files; pieces of different versions do not belong together."""
        return self._port.boot_epoch, group.log.segments.generation

    def _answer_piece(self, group: PartitionReplica, node: NodeId, request: PieceRequest) -> PieceResult:
        """Return the next batches of a file. Raises `Unavailable` if the files have another version."""
        segment = group.log.segments.segment_of_offset(request.base_offset)
        if self._version(group) != request.version or segment.base_offset != request.base_offset:
            raise Unavailable(f"{group.path} was changed meanwhile; restart the copy")
        self._copied_at[group.key] = self._port.loop.time()
        if request.row >= segment.rows:
            return PieceResult(())
        result = group.log.segments.read_rows(segment, request.row, self._limit_size(request.bytes_max), _ENTRIES_MAX)
        self._count(group, node, sum(len(batch) for _, batch in result))
        return PieceResult(tuple(bytes(batch) for _, batch in result))

    def is_copied(self, group: PartitionReplica) -> bool:
        """Return whether a replica copies the files of a compacted log, by the time of its latest request."""
        at = self._copied_at.get(group.key)
        if at is not None and self._port.loop.time() - at >= _IDLE_S:
            del self._copied_at[group.key]
            return False
        return at is not None

    def _answer_entries(self, group: PartitionReplica, request: EntriesRequest) -> EntriesResult:
        """Return stored entries by index. Raises `Unavailable` if the log does not have them."""
        log = group.log
        first = find_first_uncompacted(log.segments)
        if not first <= request.first_index <= log.written_index:
            raise Unavailable(f"{group.path} holds entries {first} to {log.written_index}")
        last = Index(min(request.last_index, log.written_index))
        stored = log.segments.read_entries(request.first_index, last, self._limit_size(request.bytes_max))
        return EntriesResult(tuple(StoredEntry(Index(row.index), Term(row.term), bytes(b)) for row, b in stored))

    def _answer_fetch(
        self, group: PartitionReplica, node: NodeId, request: LogFetchRequest
    ) -> FetchResult | LogsDiverge:
        """Return the entries that a follower lacks, if this replica leads in the requested term."""
        no_sender = ReplicaId(NodeId(0), self._port.me.disk_uuid)  # the requester fills in its own id
        wanted = SupplyRequest(
            no_sender, request.term, request.sequence, request.after, _ENTRIES_MAX, self._limit_size(request.bytes_max)
        )
        supplied = group.core.supply(wanted)
        if supplied is SupplyRefusal.LOG_MISMATCH:
            return LogsDiverge()
        if isinstance(supplied, SupplyRefusal):
            raise Unavailable(f"{group.path} on node {self._port.me.node_id}: {supplied.value}")
        self._count(group, node, sum(entry.size_bytes for entry in supplied.entries))
        return FetchResult(supplied.committed, group.log.last_index, supplied.entries)

    def _count(self, group: PartitionReplica, node: NodeId, size: int) -> None:
        """Add bytes sent to a follower to the total, and to the follower's pace."""
        self.bytes_supplied += size
        now, key = self._port.loop.time(), (group.key, node)
        pace = self._paces.pop(key, None) or _FetchPace(now)
        pace.take(size, now)
        self._paces[key] = pace
        if len(self._paces) > _PACES_MAX:
            self._paces.popitem(last=False)

    def _limit_size(self, bytes_max: int) -> int:
        """Return the requested size, at most that of one piece."""
        return min(bytes_max, self._port.config.transfer_chunk_bytes)
