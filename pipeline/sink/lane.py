"""Lane: the rows of one attempt for one topic-partition, appended to the log exactly once.

A lane returns the next step (`Scan` the log, or `SendBatch` a batch), receives its result, and does no I/O.

    sequence            number of records of this identity below `known_to` in the log
    known_to            every record of this identity below it was written by this attempt, matched with a row, or
    `held` held                records of this identity in the log that no row has matched yet rows to write       never
    a row whose content is held

So a batch is appended only if the log has exactly the records that the attempt has accounted for: the partition
compares the sequence (KIP-98). After a mismatch the lane scans the log, removes rows whose content is stored from those
to write, and continues after them. At any time the log has a part of the attempts' common rows; at the end of an
attempt it has all of them (docs/adr/0020). Pure; driven by `sender`."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from itertools import accumulate
from typing import Final, NamedTuple

from raftlog.client import Produced
from raftlog.errors import DuplicateSequence, OutOfOrderSequence, RaftlogError, UnknownProducer
from raftlog.pipeline.errors import WriteForgotten
from raftlog.pipeline.sink.identity import GENERATIONS_MAX, WriteIdentity
from raftlog.pipeline.sink.rows import DIGEST_SIZE, Rows, digest
from raftlog.pipeline.sink.unmatched import UnmatchedRecords
from raftlog.types import Offset, TopicPartition

SEQUENCES: Final = 1 << 31
ANSWERED_BEFORE: Final = (DuplicateSequence, OutOfOrderSequence, UnknownProducer)
"""Errors of a send that show that the log has other records than the lane has accounted for."""


class SendBatch(NamedTuple):
    """Next step of a lane: append this batch, unchanged until its outcome is known."""

    rows: Rows
    producer_id: int
    producer_epoch: int
    sequence: int


class Scan(NamedTuple):
    """Next step of a lane: read the stored records of this write's identity, from offset `start` on."""

    start: Offset


class FoundBatch(NamedTuple):
    """Stored batch that a scan has found for the write's identity.

    `span` is its number of sequences; `digests` has the digests of the records that compaction left in it."""

    generation: int
    base_sequence: int
    span: int
    digests: bytes

    def each_digest(self) -> list[bytes]:
        """Return the digests as a list, one for each record."""
        return [self.digests[at : at + DIGEST_SIZE] for at in range(0, len(self.digests), DIGEST_SIZE)]


class SinkLane:
    """Rows that an attempt writes to one partition; it skips rows that are stored already.

    No record of the write's identity is stored below `start`. `must_scan`: an earlier run may have written records, so
    the log is read before anything is sent. `is_old`: that was so long ago that the partition may have expired the
    producer."""

    def __init__(
        self,
        place: TopicPartition,
        identity: WriteIdentity,
        start: Offset,
        batch_bytes: int,
        *,
        must_scan: bool = False,
        is_old: bool = False,
        accepts_missing: bool = False,
    ) -> None:
        """Create the lane of one partition, whose log is known up to `start`.

        `must_scan` is whether the log has to be searched for records of earlier attempts, `is_old` whether these may
        have been deleted since."""
        self.place, self.identity, self.start = place, identity, start
        self.known_to = start
        self.waiting_bytes = 0
        """Bytes of rows that are not yet confirmed as stored."""
        self.rows_done = 0
        """Rows that were written, or found in the log."""
        self.held = UnmatchedRecords()
        self._batch_bytes, self._accepts_missing = batch_bytes, accepts_missing
        self._generation = 0
        self._sequences = [0]
        """Next sequence of each generation."""
        self._full: deque[tuple[Rows, int]] = deque()
        self._open, self._open_bytes = Rows([], [], [], []), 0
        self._must_scan, self._is_forgotten = must_scan or is_old, False
        self._may_be_hidden = is_old
        """Whether an earlier attempt may have written records, which a trim or compaction may have deleted since."""

    # rows

    def add(self, rows: Rows) -> None:
        """Add rows to write, except those that are stored already."""
        if self.held:
            rows = self._drop_stored(rows)
        if not rows:
            return
        ends = list(accumulate(rows.sizes()))
        self.waiting_bytes += ends[-1]
        first = taken_bytes = 0
        while first < len(rows):
            end = bisect_right(ends, taken_bytes + self._batch_bytes - self._open_bytes)
            if end == first and not self._open:
                end = first + 1
            self._open.extend(rows.slice(first, end) if first or end < len(rows) else rows)
            bytes_now = (ends[end - 1] if end else 0) - taken_bytes
            self._open_bytes += bytes_now
            first, taken_bytes = end, taken_bytes + bytes_now
            if first < len(rows):
                self._close_batch()

    def _close_batch(self) -> None:
        """Append the open rows to the full batches."""
        self._full.append((self._open, self._open_bytes))
        self._open, self._open_bytes = Rows([], [], [], []), 0

    def _drop_stored(self, rows: Rows) -> Rows:
        """Return the rows that are not stored; count the stored ones as done."""
        left: list[int] = []
        contents = list(rows.contents())
        for number, content in enumerate(contents):
            if not self.held:
                left.extend(range(number, len(contents)))
                break
            if not self.held.take(digest(content)):
                left.append(number)
        self.rows_done += len(rows) - len(left)
        return rows.select(left) if left else Rows([], [], [], [])

    # next step

    @property
    def sequence(self) -> int:
        """Sequence number of the next row in the present generation."""
        return self._sequences[self._generation]

    def next(self, *, flush: bool) -> SendBatch | Scan | None:
        """Return the next step; None while too few rows wait for a batch. With `flush` batches need not be full."""
        if self._must_scan:
            return Scan(self.known_to)
        if not self._full and flush and self._open:
            self._close_batch()
        if not self._full:
            return None
        identity = self.identity
        return SendBatch(
            self._full[0][0],
            identity.producer_id(self._generation),
            identity.producer_epoch,
            self.sequence % SEQUENCES,
        )

    def scan_first(self) -> None:
        """Require a scan before the next batch, because the partition may have expired this identity."""
        self._must_scan = self._may_be_hidden = True

    # results

    def on_sent(self, produced: Produced) -> None:
        """Process the answer to the batch that `next` returned."""
        if produced.is_duplicate:
            self._must_scan = True
            if produced.next_offset <= self.known_to:
                # The log was read up to here without the original: it was deleted, or the log was replaced.
                self._report_hidden(f"at offsets below {produced.next_offset}")
                self._begin_generation(self._generation + 1)
            return
        rows, size = self._full.popleft()
        self.waiting_bytes -= size
        self.rows_done += len(rows)
        self._sequences[self._generation] += len(rows)
        self.known_to = produced.next_offset

    def on_refused(self, error: RaftlogError) -> None:
        """Process one of the errors `ANSWERED_BEFORE`, after which the log has to be scanned."""
        assert isinstance(error, ANSWERED_BEFORE), f"{error!r} does not depend on the log"
        self._must_scan = self._may_be_hidden = True
        self._is_forgotten = isinstance(error, UnknownProducer)

    def on_scanned(self, found: Iterable[FoundBatch], end: Offset, *, is_cut: bool = False) -> bool:
        """Process the result of a scan from `known_to` to `end`; return whether it found any batch.

        `is_cut`: the log begins after `known_to` by now. Raises `WriteForgotten`."""
        generation_before, anything = self._generation, False
        for batch in found:
            anything = True
            self._add_stored(batch)
        if is_cut and self._may_be_hidden and not anything:
            self._report_hidden("below the beginning of the log")
            self._is_forgotten = True
        if self._is_forgotten and self._generation == generation_before:
            self._begin_generation(generation_before + 1)
        self.known_to = max(self.known_to, end)
        self._must_scan = self._is_forgotten = self._may_be_hidden = False
        if anything:
            self._drop_stored_again()
        return anything

    def _add_stored(self, batch: FoundBatch) -> None:
        """Take a stored batch into account. Raises `WriteForgotten` for a repetition and for hidden records."""
        if batch.generation > self._generation:
            self._begin_generation(batch.generation)
        expected = self._sequences[batch.generation]
        ahead = (batch.base_sequence - expected) % SEQUENCES
        if ahead >= SEQUENCES // 2:
            raise WriteForgotten(
                f"{self.place}: an attempt of this write that paused longer than producer.id.expiration.ms stored "
                f"records a second time (sequence {batch.base_sequence}, where {expected} would follow)"
            )
        is_complete = len(batch.digests) == batch.span * DIGEST_SIZE
        if ahead or not is_complete:
            self._report_hidden(f"at sequence {expected} or behind")
        self._sequences[batch.generation] = expected + ahead + batch.span
        self.held.put(batch.digests)

    def _report_hidden(self, where: str) -> None:
        """Raise `WriteForgotten` unless missing records are accepted."""
        if not self._accepts_missing:
            raise WriteForgotten(
                f"{self.place}: an earlier attempt of this write may have stored records here, {where}, that were "
                "deleted or compacted since, so the stored rows are unknown. The option acceptMissingRecord writes "
                "those again that are not found"
            )

    def _begin_generation(self, generation: int) -> None:
        """Continue under the producer id of this generation. Raises `WriteForgotten` at the limit."""
        if generation >= GENERATIONS_MAX:
            raise WriteForgotten(
                f"{self.place} has expired this write {GENERATIONS_MAX} times (producer.id.expiration.ms): begin "
                "again under another name or checkpoint"
            )
        self._sequences.extend([0] * (generation + 1 - len(self._sequences)))
        self._generation = generation

    def _drop_stored_again(self) -> None:
        """Build new batches of all waiting rows, without the rows that the scan has found."""
        waiting = [rows for rows, _ in self._full] + [self._open]
        self._full.clear()
        self._open, self._open_bytes, self.waiting_bytes = Rows([], [], [], []), 0, 0
        for rows in waiting:
            self.add(rows)
