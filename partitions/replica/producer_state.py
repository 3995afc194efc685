"""What a replica knows of the partition's idempotent producers: folded from its log, and told again behind every roll.

    next index ≤ applied index + 1;   up to `read_to` entries are read from the files, then they are noted at appends

Behind a roll at which producers are known the leader proposes a run of `snapshot` entries with what was known at the
roll, and no further roll before that run is committed. So a closed segment without a run found no producers, and the
last two segments always give the state: that is what is read after a restart, in slices, and what trims and compaction
leave alone. What a new segment's run is made of is kept by every replica until the run is there, for whoever leads by
then. Owned by a replica.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from raftlog.errors import FormatError, RaftlogError
from raftlog.events import event
from raftlog.partitions.replica.loading import Loading
from raftlog.partitions.replica.producers import ProducerTable, SnapshotRun
from raftlog.raft import Role
from raftlog.records import ControlKind, read_header
from raftlog.runtime.log.producer_entries import PRODUCER_KINDS, ProducerEntry
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.headers import scan_headers
from raftlog.types import Index, Offset

_logger = logging.getLogger(__name__)
_READ_BYTES: Final = 256 * 1024
_PROPOSED_BYTES: Final = 512 * 1024
"""Pieces of a run that are proposed together; the next ones follow once they are committed."""
_PART: Final = "producers"
"""Its key in `PartitionReplica.unreadable`."""


class ProducerState:
    """See the module. `loading` gives time for reading."""

    def __init__(self, name: str, group: PartitionReplica, loading: Loading) -> None:
        self._name, self._group, self._loading = name, group, loading
        self.table = ProducerTable()
        """As of the last entry that was looked at."""
        self.problem: str | None = None
        """Why the state does not go on."""
        self.on_loaded: Callable[[], None] = lambda: None
        self.snapshot_index = Index(0)
        """The newest roll behind which a whole run stands; 0 when the newest roll found no producers."""
        self._delivered = group.applied_index
        self._run_task: asyncio.Task[None] | None = None
        group.log.producers.follow()
        group.rolls.is_allowed = self.may_roll
        self._begin()

    def _begin(self) -> None:
        """Read what the files hold, from where it gives the state."""
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
        """What was known at the newest roll, until it stands behind it."""
        self._run, self._run_bytes = SnapshotRun(), 0
        self._is_partial = False
        """What was known at the newest roll is to come, if anything was."""
        self._expired: list[bytes] = []
        """Payloads of the `expire_producers` entries since then."""

    @property
    def is_loaded(self) -> bool:
        """What the files held has been read."""
        return self._next > self._read_to and self.problem is None

    @property
    def is_behind(self) -> bool:
        """There is something to read now."""
        return self._next <= min(self._read_to, self._group.applied_index) and not self._group.is_closed

    @property
    def is_covered(self) -> bool:
        """Whatever lies below the newest segment, nothing of the state would go with it."""
        return self.is_loaded and self._at_roll is None and self._group.log.segments.active.base_index < self._next

    def may_roll(self) -> bool:
        """Whether the newest segment's beginning is complete, and not most of the segment."""
        active = self._group.log.segments.active
        return self.problem is not None or (self.is_covered and active.end_position >= 2 * self._run_bytes)

    # following the log

    def stepped(self) -> None:
        """Something happened in the group."""
        if self.is_behind:
            self._loading.want(self)
        elif self._at_roll is not None:
            self.maybe_write_run()

    def delivered(self, first: Index, last: Index) -> None:
        """These entries are committed here."""
        if first != self._delivered + 1 or self._segments is not self._group.log.segments:  # it is another log
            self._begin()
        self._delivered = last
        taken = self._group.log.producers.take(last)
        if self._next <= self._read_to:
            # What has been cut off meanwhile never comes; all that is here is read.
            self._read_to = max(min(self._read_to, self._group.log.last_index), last)
            return
        for entry in taken:
            self._take(entry)
        self._next = Index(last + 1)

    def read_some(self) -> None:
        """Read on, a little. Raises `CorruptBatch`."""
        log = self._group.log
        if self._next <= log.boundary.index:  # trimmed, or compacted, meanwhile
            self._begin()
        if not self._read_headers(Index(min(self._group.applied_index, log.written_index))):
            self._read_entries(_READ_BYTES)
        if self.is_loaded:
            self.on_loaded()
            self.maybe_write_run()

    def _read_headers(self, last: Index) -> bool:
        """Look at entries of the files; false when there are none, or the next one has to be read to see what it is."""
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
                self._take(ProducerEntry(index, Offset(header.base_offset), header, None, b""))
        self._next = following
        return following > before

    def _read_entries(self, max_bytes: int) -> None:
        entries = self._group.committed_entries(self._next, max_bytes)
        for index, _, kind, payload, batch in entries:
            if kind is None:
                header = read_header(batch)
                if header.producer_id >= 0:
                    self._take(ProducerEntry(index, Offset(header.base_offset), header, None, b""))
            elif kind in PRODUCER_KINDS:
                self._take(ProducerEntry(index, Offset(-1), None, kind, payload))
        if entries:
            self._next = Index(entries[-1].index + 1)

    def _take(self, entry: ProducerEntry) -> None:
        if self.problem is not None:
            return
        try:
            if entry.header is not None:
                self.table.append(entry.header, entry.offset)
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
            why = self._group.unreadable[_PART] = f"its producers are not known any more: {self.problem}"
            event(_logger, "log_unreadable", group=self._name, why=why)

    def _take_roll(self, index: Index) -> None:
        """The first one that is met may find producers that only its run tells; of every other one all is known."""
        self._is_partial = self._roll_index == 0 and index > 1
        self._roll_index, self._run, self._run_bytes = index, SnapshotRun(), 0
        self._expired.clear()
        self._at_roll = None if self.table.is_empty else self.table.copy()
        if self._at_roll is None:
            self.snapshot_index = Index(0)

    def _take_piece(self, payload: bytes) -> None:
        self._run_bytes += len(payload)
        whole = self._run.take(payload)
        if whole is None or whole[0] != self._roll_index:
            return
        if self._is_partial:
            self.table.put_below(whole[1], self._expired)
            self._is_partial = False
            self._expired.clear()
        self._at_roll, self.snapshot_index = None, self._roll_index

    # telling the log

    def maybe_write_run(self) -> None:
        """As leader, put what was known at the newest roll behind it."""
        core = self._group.core
        if self._at_roll is None or self._run_task is not None or not self.is_loaded:
            return
        if core.role is Role.LEADER and core.has_own_term_commit:
            work = self._write_run(self._at_roll, self._roll_index)
            self._run_task = asyncio.get_running_loop().create_task(work, name=f"producers of {self._name}")

    async def _write_run(self, table: ProducerTable, roll_index: Index) -> None:
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
        except RaftlogError as error:  # whoever leads then, or the next look, begins it anew
            _logger.info("%s: what is known of producers is written later: %s", self._name, error)
        finally:
            self._run_task = None

    def close(self) -> None:
        """The replica ends."""
        self._group.rolls.is_allowed = lambda: True
        if self._run_task is not None:
            self._run_task.cancel()
