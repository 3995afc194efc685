"""Reads of a replica's log: committed batches and entries, and records by time. Reads report the damage that they find.

`PartitionReplica` adds appends, trims and the movement of the high watermark."""

from abc import abstractmethod
from collections.abc import Callable

from raftlog.errors import CorruptBatch, LogClosed, RaftlogError
from raftlog.runtime.log.committed_entries import CommittedEntry, read_committed
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.slices import run_in_slices
from raftlog.storage.readable_log import Lookup
from raftlog.types import Index, Offset


class ReadableReplica:
    """Replica, as far as reads need it; base of `PartitionReplica`."""

    name: str
    log: GroupLog
    high_watermark: Offset
    applied_index: Index
    is_closed: bool
    closed_by: RaftlogError | None
    watches: tuple[Callable[[], None], ...] = ()
    """Observers of traced appends, called in every turn of the group."""

    @property
    @abstractmethod
    def committed_start_offset(self) -> Offset:
        """Log start offset for readers, after all delivered trims, durable here or not."""

    @abstractmethod
    def note_damage(self, error: CorruptBatch) -> None:
        """Quarantine the replica because a file is damaged."""

    @abstractmethod
    def write_entries(self) -> None:
        """Write entries to the files, as many as disk and journal allow now."""

    @property
    def log_start_offset(self) -> Offset:
        return self.log.segments.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self.log.next_offset

    def read(self, offset: int, max_bytes: int, end: Offset | None = None) -> list[memoryview]:
        """Return stored client batches below `end`, by default committed ones.

        Raises `OffsetOutOfRange`, `CorruptBatch`."""
        try:
            return self.log.read(offset, max_bytes, self.high_watermark if end is None else end)
        except CorruptBatch as error:
            self.note_damage(error)
            raise

    async def offset_for_timestamp(self, timestamp_ms: int) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first record at or after `timestamp_ms`, or None; search in slices.

        Records that are durable here count, committed or not. Raises `CorruptBatch` and `LogClosed`."""
        self.write_entries()
        try:
            return await run_in_slices(self._find_timestamp(timestamp_ms))
        except CorruptBatch as error:
            self.note_damage(error)
            raise

    def _find_timestamp(self, timestamp_ms: int) -> Lookup:
        """Search in slices; begin again if the log was replaced meanwhile. Raises `LogClosed`."""
        while True:
            segments = self.log.segments
            steps = segments.offset_for_timestamp_in_steps(timestamp_ms, self.committed_start_offset)
            while segments is self.log.segments:
                if self.is_closed:
                    raise self._closed_error()
                try:
                    next(steps)
                except StopIteration as end:
                    found: tuple[Offset, int] | None = end.value
                    return found
                yield

    def committed_entries(self, first: Index, max_bytes: int) -> list[CommittedEntry]:
        """Return committed entries from `first` on, control batches too, as many as fit into `max_bytes`.

        At least one if there is any, even if it is larger. Raises `EntriesTrimmed` when the log begins after `first`,
        `CorruptBatch`, `DescriptorsExhausted` and `InvalidBatch`."""
        try:
            return read_committed(self.log, first, self.applied_index, max_bytes)
        except CorruptBatch as error:
            self.note_damage(error)
            raise

    def _closed_error(self) -> LogClosed:
        """Return the error for calls of a closed replica."""
        return LogClosed(f"{self.name} is closed: {self.closed_by}")
