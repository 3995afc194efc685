"""The embedded library: a durable log in a directory, with no server and no event loop.

    with raftlog.Log.open("events") as log:
        offset = log.append([b"first", b"second"])      # on disk when this returns
        for record in log.read(offset):
            print(record.offset, record.value)

Any number of threads may use one `Log`. Appenders share syncs (`group_commit`); readers take no lock.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike, fspath
from os.path import abspath
from typing import Self

from raftlog.context import ClosedAtExit
from raftlog.errors import CorruptBatch, InvalidArgument, RaftlogError
from raftlog.group_commit import GroupCommit, bound_size
from raftlog.records import (
    Compression,
    NewRecord,
    Record,
    build_batch,
    read_header,
    read_records,
    validate_client_batches,
)
from raftlog.storage.lone_log import LoneLog
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.recovery import RecoveryReport
from raftlog.storage.verify import LogCheck, verify_log
from raftlog.topic_config import LogConfig
from raftlog.types import Buffer, Index, Offset

READ_BYTES = 1 << 20
RETENTION_INTERVAL_S = 60.0


@dataclass(frozen=True, slots=True)
class LogStats:
    """Offsets and sizes of a log; sizes in bytes."""

    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    last_index: Index
    segments: int
    size_bytes: int
    pending_bytes: int


_logger = logging.getLogger(__name__)


class Log(ClosedAtExit):
    """Open log, created with `Log.open`. Leaving its `with` block flushes and closes it.

    Ctrl-C, or any other exception that is no `Exception`, in the middle of a change stops the log with `SyncFailed`:
    open it again."""

    def __init__(self, path: str, config: LogConfig, *, create: bool) -> None:
        """Open the log in the directory `path`, or create it with `create`, and begin its maintenance."""
        self._mutex = threading.Lock()
        jobs: list[Callable[[], None]] = []
        self._commit = GroupCommit(self._mutex, jobs)
        self._disk = RealDisk(jobs.append, self._complete)
        self._log = self._commit.log = LoneLog.open(
            self._disk,
            path,
            config,
            clock=_now_ms,
            create=create,
            on_progress=self._commit.handle_progress,
            on_refused=self._commit.handle_refusal,
        )
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self._start_maintenance()

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        config: LogConfig | None = None,
        *,
        create: bool = True,
    ) -> Self:
        """Open the log in directory `path` and recover it; create it if missing and `create` is true.

        `config` defaults to `LogConfig()`: every append synced, nothing deleted. Raises `FormatError` for a directory
        that is no log, `DirectoryLocked` when another process has it open, and `OSError`. A damaged log opens for
        reading, see `damage`."""
        return cls(abspath(fspath(path)), config or LogConfig(), create=create)

    # properties

    @property
    def path(self) -> str:
        return self._log.path

    @property
    def damage(self) -> CorruptBatch | None:
        """Damage found in the log, or None; a damaged log refuses appends with `LogDamaged`."""
        return self._log.damage

    @property
    def report(self) -> RecoveryReport:
        """Findings and repairs of the recovery when the log was opened."""
        return self._log.report

    @property
    def start_offset(self) -> Offset:
        """First offset that can be read."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> Offset:
        """Offset after the last record that can be read (the high watermark)."""
        return self._log.high_watermark

    def stats(self) -> LogStats:
        """Return offsets and sizes of the same moment."""
        with self._mutex:
            log = self._log
            return LogStats(
                log.log_start_offset,
                log.high_watermark,
                log.log_end_offset,
                log.last_index,
                log.segment_count,
                log.size_bytes,
                log.pending_bytes,
            )

    # appending

    def append(self, records: Iterable[NewRecord | bytes], *, compression: Compression = Compression.NONE) -> Offset:
        """Append records in order and return the offset of the first; they are durable by the flush policy.

        The records form one batch. A few small `bytes` values can share a batch with concurrent appends of other
        threads. Raises `InvalidArgument` and `RecordTooLarge` for records that cannot be stored, `StorageFull`
        (definitely not stored), `SyncFailed` (outcome unknown), `LogDamaged`, `LogClosed`."""
        if isinstance(records, str | bytes | bytearray | memoryview):
            raise InvalidArgument(f"records is {type(records).__name__}; append() takes a list of records, [value]")
        given = list(records)
        if not compression and (size := bound_size(given)):
            return self._commit.append_small(given, size)[0]
        return self._commit.append([build_batch(given, compression, _now_ms())])[0]

    def append_batches(self, batches: Buffer) -> tuple[Offset, Offset]:
        """Append encoded batches that follow one another; return the first offset and the one after the last.

        They are checked (length, CRC, counts), not decoded. Raises `InvalidBatch` and the errors of `append`."""
        checked = validate_client_batches(batches, self._log.config.max_message_bytes)
        return self._commit.append([bytearray(batch) for _, batch in checked])

    def flush(self) -> None:
        """Wait until everything appended is durable; raises `SyncFailed`, or the error that ended the log."""
        self._commit.flush()

    def _complete(self, completion: Callable[[], None]) -> None:
        """Run the completion of a sync, with the mutex held."""
        with self._mutex, self._commit.change_guard:
            completion()

    # reading

    def offset_at(
        self, *, from_start: int | None = None, from_end: int | None = None, timestamp: int | None = None
    ) -> Offset:
        """Return the offset of a position in the log, given in one of three ways.

        `from_start`: that many records after the start. `from_end`: that many before the end. `timestamp` (ms): the
        first record at or after it. The result is clamped to the log; a timestamp after every record gives the end."""
        start, end = self.start_offset, self.end_offset
        if [from_start, from_end, timestamp].count(None) != 2:
            raise InvalidArgument("give exactly one of from_start, from_end and timestamp")
        if timestamp is not None:
            found = self._log.offset_for_timestamp(timestamp)
            return found[0] if found else end
        wanted = start + from_start if from_start is not None else end - (from_end or 0)
        return Offset(min(max(wanted, start), end))

    def read(self, offset: int | None = None, *, end: int | None = None) -> Iterator[Record]:
        """Iterate over the records from `offset` (default: the start) up to `end` (default: the present end).

        Raises `OffsetOutOfRange`, and `CorruptBatch` at damaged bytes.
        """
        stop = min(self.end_offset, end) if end is not None else self.end_offset
        position = self.start_offset if offset is None else offset
        for batch in self.read_batches(position, end=stop):
            for record in read_records(batch):
                if position <= record.offset < stop:
                    yield record

    def read_batches(self, offset: int | None = None, *, end: int | None = None) -> Iterator[memoryview]:
        """Iterate over stored batches from the one that holds `offset`; they are checked but not decoded."""
        stop = Offset(min(self.end_offset, end) if end is not None else self.end_offset)
        position: int = self.start_offset if offset is None else offset
        while batches := self._log.read(position, READ_BYTES, end_offset=stop):
            yield from batches
            position = read_header(batches[-1]).next_offset

    def follow(self, offset: int | None = None, *, idle_timeout_s: float | None = None) -> Iterator[Record]:
        """Iterate over the records from `offset` (default: the present end), and wait for new ones.

        Ends when the log is closed, or idle for `idle_timeout_s`. Raises as `read` does."""
        position: int = self.end_offset if offset is None else offset
        while True:
            end = self.end_offset
            for record in self.read(position, end=end):
                yield record
                position = record.offset + 1
            position = max(position, end)  # a gap left by `log recover` has no records
            if not self._wait_beyond(position, idle_timeout_s):
                return

    def _wait_beyond(self, offset: int, timeout_s: float | None) -> bool:
        """Wait until records from `offset` on can be read; return false after the timeout or when the log has ended."""
        with self._mutex:
            self._commit.news.wait_for(
                lambda: self._log.high_watermark > offset or self._log.failure is not None, timeout_s
            )
            return self._log.high_watermark > offset and self._log.failure is None

    # maintenance

    def truncate(self, offset: int) -> None:
        """Drop every record from `offset` on, durably. Raises `NotAtBatchBorder` with the batch borders around it."""
        with self._mutex, self._commit.change_guard:
            self._log.cut(offset)

    def trim(self, offset: int) -> Offset:
        """Remove the records below `offset`; whole segments below are deleted. Returns the new start."""
        with self._mutex, self._commit.change_guard:
            return self._log.trim(offset)

    def clean(self) -> int:
        """Apply retention now; return the number of bytes deleted."""
        with self._mutex, self._commit.change_guard:
            return self._log.clean()

    def verify(self) -> LogCheck:
        """Read and check all durable data: CRCs, index rows, the chain of offset and index."""
        return verify_log(self._disk, self._log.path)

    def _start_maintenance(self) -> None:
        """Start a thread for retention and timed flushes, if the settings need one."""
        config = self._log.config
        intervals = []
        if config.retention_ms is not None or config.retention_bytes is not None:
            intervals.append(RETENTION_INTERVAL_S)
        if config.flush_ms is not None and config.flush_messages > 1:
            intervals.append(config.flush_ms / 1000)
        if intervals:
            self._keeper = threading.Thread(
                target=self._run_maintenance, args=(min(intervals),), name="raftlog-keeper", daemon=True
            )
            self._keeper.start()

    def _run_maintenance(self, interval_s: float) -> None:
        """Flush every `interval_s` seconds, and apply retention at its own interval, until the log is closed."""
        clean_at = time.monotonic() + RETENTION_INTERVAL_S
        while not self._closing.wait(interval_s):
            try:
                self.flush()
                if time.monotonic() >= clean_at:
                    clean_at = time.monotonic() + RETENTION_INTERVAL_S
                    self.clean()
            except OSError as error:
                _logger.warning("%s: retention failed to delete segments: %s", self.path, error)
            except RaftlogError:
                if self._log.failure:
                    return  # the next append raises it

    # closing

    def close(self) -> None:
        """Flush, checkpoint and release the directory; a second call does nothing."""
        self._closing.set()
        if self._keeper and self._keeper is not threading.current_thread():
            self._keeper.join()
        with self._mutex:
            self._commit.refuse_appends()
            try:
                self._log.close()
            finally:
                self._commit.handle_progress()

    def __repr__(self) -> str:
        return f"<raftlog.Log {self.path!r} offsets {self.start_offset} … {self.end_offset}>"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
