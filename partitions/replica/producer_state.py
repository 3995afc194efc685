"""State of the partition's idempotent producers: applied from the log, with a snapshot after every roll.

    next index ≤ applied index + 1;   up to `read_to` entries are read from the files, later ones recorded at appends

After a roll the leader, if it knows producers, proposes a run of `snapshot` entries with the state at the roll, and no
further roll before that run is committed. So a closed segment without a run has no producers, and the
last two segments always give the state: a restart reads them, in slices, and trims and compaction leave them alone.
Every replica keeps the content of a new segment's run until the run is committed, for the leader at that time. Owned
by a replica."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from raftlog.errors import FormatError, OffsetNotAvailable, RaftlogError, Unavailable
from raftlog.events import event
from raftlog.partitions.replica.producers import ProducerTable, SnapshotRun
from raftlog.partitions.replica.read_queue import ReadQueue
from raftlog.partitions.replica.transaction_table import NOT_OPEN
from raftlog.partitions.results import ActiveProducer
from raftlog.raft import Role
from raftlog.records import MARKER_KINDS, ControlKind, decode_marker_value, read_header
from raftlog.runtime.log.producer_entries import PRODUCER_KINDS, ProducerEntry
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.headers import scan_headers
from raftlog.types import Index, Offset

_logger = logging.getLogger(__name__)
_READ_BYTES: Final = 256 * 1024
_PROPOSED_BYTES: Final = 512 * 1024
"""Bytes of a run that are proposed together; the next pieces follow once they are committed."""
_LISTED_SLICE: Final = 512
"""Producers listed in one turn of the loop."""
_PART: Final = "producers"
"""Key of the producers' state in `PartitionReplica.unreadable`."""


class ProducerState:
    """State of the idempotent producers in one replica's log. `loading` schedules the reads of the log."""

    def __init__(self, name: str, group: PartitionReplica, loading: ReadQueue) -> None:
        """Begin to read the state of producers from the log; `loading` limits how many replicas read at once."""
        self._name, self._group, self._loading = name, group, loading
        self.table = ProducerTable()
        """State after the last entry that was read."""
        self.problem: str | None = None
        """Reason for which the state has stopped; None while it follows the log."""
        self.on_loaded: Callable[[], None] = lambda: None
        self.snapshot_index = Index(0)
        """Index of the newest roll with a complete run after it; 0 if there were no producers at the newest roll."""
        self._delivered = group.applied_index
        self._run_task: asyncio.Task[None] | None = None
        group.log.producers.follow()
        group.rolls.is_allowed = self.may_roll
        self._begin_reading()
        if self.is_behind:  # a quiescent group makes no step that would begin it
            loading.enqueue(self)

    def _begin_reading(self) -> None:
        """Begin to read the files, from the first entry that the state needs."""
        log = self._group.log
        self._segments = log.segments
        segments = log.segments.segments
        first = segments[-2].base_index if len(segments) > 1 else 0
        self.table, self.problem = ProducerTable(), None
        self._group.unreadable.pop(_PART, None)
        self._next = Index(max(first, log.boundary.index + 1))
        self._read_to = log.last_index
        self._roll_index = Index(0)
        self._at_roll: ProducerTable | None = None
        """State at the newest roll, until its run is committed."""
        self._run, self._run_bytes = SnapshotRun(), 0
        self._is_partial = False
        """Whether the table lacks the state at the newest roll until its run has been read."""
        self._expired: list[bytes] = []
        """Payloads of the `expire_producers` entries after the newest roll."""

    @property
    def is_loaded(self) -> bool:
        """Whether all entries that were in the files have been read; False once the state has stopped."""
        return self._next > self._read_to and self.problem is None

    @property
    def stable_end(self) -> Offset:
        """End of the delivered entries below all open transactions: the last stable offset; never falls.

        At a leader it is current once an entry of its own term is delivered. Raises `OffsetNotAvailable` while entries
        are being read, and `Unavailable` once the state has stopped."""
        self._follow_replaced_log()
        if self.problem is not None:
            raise Unavailable(f"{self._name}: its transactions are unknown: {self.problem}")
        if not self.is_loaded or self._delivered != self._group.applied_index:
            raise OffsetNotAvailable(f"{self._name}: its open transactions are being read; retry")
        first = self.table.transactions.first_open_offset
        return self._group.high_watermark if first is None else Offset(min(first, self._group.high_watermark))

    @property
    def is_behind(self) -> bool:
        """Whether there are entries to read now."""
        return self._next <= min(self._read_to, self._group.applied_index) and not self._group.is_closed

    @property
    def is_covered(self) -> bool:
        """Whether the state can be restored from the newest segment alone."""
        return self.is_loaded and self._at_roll is None and self._group.log.segments.active.base_index < self._next

    def may_roll(self) -> bool:
        """Return whether a new segment may begin: the newest one has a complete snapshot of at most half its size.

        Also true once the state has stopped (`problem`)."""
        active = self._group.log.segments.active
        return self.problem is not None or (self.is_covered and active.end_position >= 2 * self._run_bytes)

    async def active(self) -> list[ActiveProducer]:
        """Return the known producers; yield to the event loop between slices."""
        if not self.is_loaded:
            raise Unavailable(f"{self._name}: the state of its producers is {self.problem or 'being read; try again'}")
        active = []
        for number, producer_id in enumerate(list(self.table), 1):
            if number % _LISTED_SLICE == 0:
                await asyncio.sleep(0)
            producer = self.table.get(producer_id)
            if producer is not None:
                last_sequence = producer.batches[-1].last_sequence if producer.batches else -1
                transactions = self.table.transactions
                first_offset = transactions.open.get(producer_id, NOT_OPEN)
                coordinator_epoch = transactions.last_marker(producer_id).coordinator_epoch
                found = producer_id, producer.epoch, last_sequence, producer.last_timestamp
                active.append(ActiveProducer(*found, coordinator_epoch, first_offset))
        return active

    # following the log

    def on_step(self) -> None:
        """Queue a read of the log, or write a snapshot that is due, after the Raft group has processed a Ready."""
        self._follow_replaced_log()
        if self.is_behind:
            self._loading.enqueue(self)
        elif self._at_roll is not None:
            self.write_run_if_due()

    def on_delivered(self, first: Index, last: Index) -> None:
        """Apply entries that were committed here to the state."""
        if first != self._delivered + 1:  # the log was replaced
            self._begin_reading()
        self._delivered = last
        self._follow_replaced_log()
        taken = self._group.log.producers.take(last)
        if self._next <= self._read_to:
            # Entries truncated meanwhile are never delivered; all present ones are read.
            self._read_to = max(min(self._read_to, self._group.log.last_index), last)
            return
        for entry in taken:
            self._apply_entry(entry)
        self._next = Index(last + 1)

    def _follow_replaced_log(self) -> None:
        """Read the state from the files again if the log was replaced, also while nothing is delivered."""
        if self._segments is not self._group.log.segments:
            self._begin_reading()
            self._delivered = self._group.applied_index
            self._loading.enqueue(self)

    def read_some(self) -> None:
        """Read some entries. Raises `CorruptBatch`."""
        log = self._group.log
        if self._next <= log.boundary.index:  # trimmed, or compacted, meanwhile
            self._begin_reading()
        if not self._read_headers(Index(min(self._group.applied_index, log.written_index))):
            self._read_entries(_READ_BYTES)
        if self.is_loaded:
            self.on_loaded()
            self.write_run_if_due()

    def _read_headers(self, last: Index) -> bool:
        """Apply entries by their headers; return False without any, or if the next one has to be read completely."""
        if self._next > last:
            return False
        try:
            found, following = scan_headers(self._group.log.segments, self._next, last)
        except OSError:
            return False
        before = self._next
        for index, head in found:
            header = read_header(head)
            if header.is_control:
                self._next = index
                self._read_entries(1)
            else:
                self._apply_entry(ProducerEntry(index, Offset(header.base_offset), header, None, b""))
        self._next = following
        return following > before

    def _read_entries(self, max_bytes: int) -> None:
        """Apply committed entries from the next one on, up to `max_bytes`."""
        entries = self._group.committed_entries(self._next, max_bytes)
        for index, _, kind, payload, batch in entries:
            if kind is not None and kind not in PRODUCER_KINDS:
                continue
            header = read_header(batch)
            if kind is not None or header.producer_id >= 0:
                self._apply_entry(ProducerEntry(index, Offset(header.base_offset), header, kind, payload))
        if entries:
            self._next = Index(entries[-1].index + 1)

    def _apply_entry(self, entry: ProducerEntry) -> None:
        """Apply a batch's header or a control entry to the table; stop at one that cannot be decoded."""
        if self.problem is not None:
            return
        try:
            if entry.kind is None:
                assert entry.header is not None, f"entry {entry.index} has neither header nor kind"
                self.table.append(entry.header, entry.offset)
            elif entry.kind in MARKER_KINDS:
                assert entry.header is not None, f"entry {entry.index} is a marker without a header"
                self.table.end_transaction(entry.header, decode_marker_value(entry.payload))
            elif entry.kind is ControlKind.ROLL:
                self._take_roll(entry.index)
            elif entry.kind is ControlKind.SNAPSHOT:
                self._take_piece(entry.payload)
            elif entry.kind is ControlKind.EXPIRE_PRODUCERS:
                self.table.expire(entry.payload)
                if self._is_partial:
                    self._expired.append(entry.payload)
        except FormatError as error:
            self.problem = f"entry {entry.index}: {error}"
            why = self._group.unreadable[_PART] = f"the state of its producers is lost: {self.problem}"
            event(_logger, "log_unreadable", group=self._name, why=why)

    def _take_roll(self, index: Index) -> None:
        """Process a roll.

        After the first one that is read, the state lacks producers that only its snapshot contains."""
        self._is_partial = self._roll_index == 0 and index > 1
        self._roll_index, self._run, self._run_bytes = index, SnapshotRun(), 0
        self._expired.clear()
        self._at_roll = None if self.table.is_empty else self.table.copy()
        if self._at_roll is None:
            self.snapshot_index = Index(0)

    def _take_piece(self, payload: bytes) -> None:
        """Process one piece of a snapshot; the last piece completes the table."""
        self._run_bytes += len(payload)
        whole = self._run.take(payload)
        if whole is None or whole[0] != self._roll_index:
            return
        if self._is_partial:
            self.table.put_below(whole[1], self._expired)
            self._is_partial = False
            self._expired.clear()
        self._at_roll, self.snapshot_index = None, self._roll_index

    # snapshots

    def write_run_if_due(self) -> None:
        """Write the state at the newest roll as a snapshot in entries after it, if this replica leads."""
        core = self._group.core
        if self._at_roll is None or self._run_task is not None or not self.is_loaded:
            return
        if core.role is Role.LEADER and core.has_own_term_commit:
            work = self._write_run(self._at_roll, self._roll_index)
            self._run_task = asyncio.get_running_loop().create_task(work, name=f"producers of {self._name}")

    async def _write_run(self, table: ProducerTable, roll_index: Index) -> None:
        """Propose the table as snapshot entries; after an error, the next `write_run_if_due` repeats it."""
        waiting: list[tuple[ControlKind, bytes]] = []
        size = 0
        try:
            for payload in table.snapshot(roll_index):
                waiting.append((ControlKind.SNAPSHOT, payload))
                size += len(payload)
                if size >= _PROPOSED_BYTES:
                    await self._group.propose_control(waiting, is_essential=True)
                    waiting, size = [], 0
                await asyncio.sleep(0)
            if waiting:
                await self._group.propose_control(waiting, is_essential=True)
        except RaftlogError as error:  # the next leader, or the next look, begins it anew
            _logger.info("%s: the state of producers is written later: %s", self._name, error)
        finally:
            self._run_task = None

    def close(self) -> None:
        """Allow rolls again and stop writing the snapshot, because the replica ends."""
        self._group.rolls.is_allowed = lambda: True
        if self._run_task is not None:
            self._run_task.cancel()
