"""Replica of one partition on this node, for many callers on one loop.

    log start ≤ committed start ≤ served offsets < high watermark ≤ log end;   last stable offset ≤ high watermark

Only committed records are served, and only the leader reports the end of the log; it does so once it has committed in
its own term, because before that it does not know the end (KIP-207). *Out of range* is raised only when it is proven: a
read index confirms the leader first, so the end of the log that clients see never goes back. A replica without a known
leader serves the entries committed here, which are final, but does not claim that there are no more.

Not here: queues, deadlines of appends, other nodes. Called by the routing; the node calls `on_step` after a Ready.
"""

import asyncio
from collections.abc import Sequence

from raftlog.errors import (
    CorruptBatch,
    LogClosed,
    LogDamaged,
    NotLeader,
    OffsetNotAvailable,
    OffsetOutOfRange,
    RaftlogError,
)
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.replica.checked_calls import has_producer
from raftlog.partitions.replica.committed_reads import UNKNOWN, CommittedRead, CommittedReads
from raftlog.partitions.replica.compaction_marks import CompactionMarks
from raftlog.partitions.replica.description import ReplicaDescription, describe, lost_end
from raftlog.partitions.replica.errors import closed_error, damaged_error
from raftlog.partitions.replica.expiry import ProducerExpiry
from raftlog.partitions.replica.participant import Participant
from raftlog.partitions.replica.pending_appends import PendingAppends, ReplicaAppended
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.read_queue import ReadQueue
from raftlog.partitions.replica.record_deletion import RecordDeletion
from raftlog.partitions.replica.retention import Retention
from raftlog.partitions.replica.sequence_check import SequenceCheck
from raftlog.partitions.replica.waits import Waits
from raftlog.partitions.results import ALL, Acks, Fetched
from raftlog.raft import Ready, Role
from raftlog.records import build_empty_batch, read_header
from raftlog.runtime.config import GroupLimits
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.rows import ROW_SIZE
from raftlog.topic_config import TopicConfig
from raftlog.types import Isolation, Offset, OffsetRange

_ANSWER_MS = 500
"""Minimum time, in ms, for a majority to confirm the leader and the committed entries."""


class Replica:
    """Replica of a partition as brokers use it, on top of its Raft group. `config` holds the topic's settings."""

    def __init__(
        self,
        name: str,
        group: PartitionReplica,
        config: TopicConfig,
        counters: Counters,
        loading: ReadQueue | None = None,
        producers_max: int = 100_000,
        lag_ticks_max: int = 0,
    ) -> None:
        """Create the replica over its Raft group.

        `loading` is shared by the replicas of a process; `producers_max` bounds the known idempotent producers.
        `lag_ticks_max`: see `describe`."""
        self.name = name
        self.group = group
        self.config: TopicConfig
        self._counters, self._lag_ticks_max = counters, lag_ticks_max
        self._pending_appends = PendingAppends(name, group)
        self._producers = ProducerState(name, group, loading or ReadQueue())
        self._sequence_check = SequenceCheck(name, group, self._producers, self._pending_appends, producers_max)
        self._producers.on_loaded = self._on_loaded
        self._expiry = ProducerExpiry(name, group, self._producers, self._sequence_check)
        self._retention = Retention(name, group, self._producers, counters)
        self._compaction_marks = CompactionMarks(name, group, self._producers)
        self._record_deletion = RecordDeletion(name, group, self._producers)
        self.waits = Waits()
        """Waits of readers of uncommitted transactions, and of requests that need delivered entries."""
        self._committed_reads = CommittedReads(name, group, self._producers)
        self.transactions = Participant(name, group, self._producers, self._sequence_check, self.waits)
        """Requests of transactions: `enlist`, `end_transaction`."""
        self.transactions.refusal = lambda: self._append_error(0)
        self._is_closed = False
        self.reconfigure(config)
        group.on_end = self._end_waits

    @property
    def waiting_count(self) -> int:
        """Number of fetches that wait for more records."""
        return len(self.waits) + len(self._committed_reads.waits)

    @property
    def is_leader(self) -> bool:
        """Whether the replica leads, as known here: it may have been deposed."""
        return self.group.core.role is Role.LEADER

    # appending

    def append(
        self, batches: Sequence[bytearray], acks: Acks, *, any_first_sequence: bool = False
    ) -> "asyncio.Future[ReplicaAppended]":
        """Append valid client batches, all or nothing; they are stamped in place and must not change any more.

        `acks=-1`: done when they are committed, and durable on `min.insync.replicas` replicas; `acks=1` and `acks=0`:
        done once the leader has written them. The future fails with `NotLeader`, `Overloaded`, `StorageFull`,
        `LogDamaged`, `LogClosed`, `Unavailable` (too few replicas): nothing happened; or with `OutcomeUnknown`. It may
        stay pending for long: the caller owns the deadline. Batches of idempotent producers are checked first
        (`sequence_check`); the answer to a duplicate has the offsets of the original. `any_first_sequence`: see
        `check_sequence`."""
        group = self.group
        copies = self._required_copies() if acks == ALL else 0
        refusal = self._append_error(copies)
        if refusal is not None:
            return self._failed_future(refusal)
        if any(map(has_producer, batches)):
            return self._sequence_check.append(batches, acks, copies, any_first_sequence)
        if acks == ALL and not copies:
            return group.propose_as(batches, self._pending_appends.answer_to_commit)
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
        try:
            if copies:
                self._pending_appends.answer_copied(
                    group.append(batches), copies, self._pending_appends.answer_to_commit, future
                )
            else:
                self._pending_appends.take(batches, future)
        except RaftlogError as error:
            future.set_exception(error)
        return future

    def append_calls(
        self, calls: Sequence[Sequence[bytearray]], acks: Acks, *, any_first_sequence: bool = False
    ) -> "list[asyncio.Future[ReplicaAppended]]":
        """Append the batches of several calls, each as `append` would; return one future per call.

        The sequences of all calls are checked together, see `SequenceCheck`."""
        copies = self._required_copies() if acks == ALL else 0
        refusal = self._append_error(copies)
        if refusal is not None:
            return [self._failed_future(refusal)] * len(calls)
        return self._sequence_check.append_calls(calls, acks, copies, any_first_sequence)

    def _append_error(self, copies: int) -> RaftlogError | None:
        """Return the error with which an append fails at once; None if it can be tried."""
        group = self.group
        if group.damage is not None or group.is_closed or self._is_closed:
            return self._not_writable_error()
        return self._pending_appends.too_few_error(copies) if copies and self.is_leader else None

    def _required_copies(self) -> int:
        """Return the number of replicas that have to hold an append; 0 if a majority suffices."""
        copies = self.config.min_insync_replicas
        if copies == 1 or copies <= len(self.group.core.configuration.voters) // 2 + 1:
            return 0
        return copies

    def _failed_future(self, error: RaftlogError) -> "asyncio.Future[ReplicaAppended]":
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
        future.set_exception(error)
        return future

    def _not_writable_error(self) -> RaftlogError:
        """Return the error for a replica that is closed, damaged or being repaired."""
        group = self.group
        if group.is_closed or self._is_closed:
            return self._closed_error()
        if self.is_alone:
            return self.damaged_error()
        return NotLeader(f"{self.name} is being repaired here ({group.damage})", group.core.leader)

    def damaged_error(self) -> LogDamaged:
        """Return the error of appends while the replica is damaged and the partition has no leader."""
        return damaged_error(self.name, str(self.group.damage or lost_end(self.group)), is_alone=self.is_alone)

    def _closed_error(self) -> LogClosed:
        """Return the error for a closed replica, with the cause if it stopped by itself."""
        return closed_error(self.name, self.group.closed_by)

    @property
    def last_stable_offset(self) -> Offset:
        """Last stable offset, as delivered here: no transaction is open below it. It never falls.

        Raises `OffsetNotAvailable` while the transactions are being read, and `Unavailable` if they are lost."""
        return self._producers.stable_end

    def waits_for(self, isolation: Isolation) -> Waits:
        """Return the waits of the readers with this isolation level."""
        return self.waits if isolation is Isolation.READ_UNCOMMITTED else self._committed_reads.waits

    # reading

    async def fetch(
        self,
        offset: int,
        max_bytes: int,
        min_bytes: int,
        deadline: Deadline,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> Fetched:
        """Return committed batches from the one that contains `offset`; wait for `min_bytes` until the deadline.

        Raises `NotLeader`, `OffsetOutOfRange`, `OffsetNotAvailable` (retry), `LogClosed`; for a sole voter
        `CorruptBatch`."""
        may_wait, waits, patient = True, self.waits_for(isolation), Deadline(max(deadline, deadline_in(_ANSWER_MS)))
        while True:
            end = self.readable_end(offset)
            if offset > end:
                await self._wait_until_served(offset, deadline)
                continue
            if offset < self.group.committed_start_offset:
                raise OffsetOutOfRange(offset, self.group.committed_start_offset, end)
            try:
                read = self._read(offset, max_bytes, end, isolation)
            except OffsetNotAvailable:
                if not await waits.wait(1, patient):
                    raise
                continue
            batches = read.batches
            size = sum(map(len, batches))
            if not may_wait or size >= min_bytes or (batches and read_header(batches[-1]).next_offset < read.end):
                break
            may_wait = await waits.wait(min_bytes - size, deadline)
        self._counters.fetches += 1
        self._counters.bytes_out += size
        start, term = self.group.committed_start_offset, self.group.core.term
        return Fetched(batches, end, start, term, None, read.last_stable_offset, read.aborted)

    def _read(self, offset: int, max_bytes: int, end: Offset, isolation: Isolation) -> CommittedRead:
        """Read batches below `end`, the readable end, that a reader with this isolation sees. Raises like `fetch`."""
        try:
            if isolation is Isolation.READ_UNCOMMITTED:
                return CommittedRead(self.group.read(offset, max_bytes, end), end, UNKNOWN, [])
            return self._committed_reads.read(offset, max_bytes, end, is_lost=self._is_alone_and_damaged())
        except CorruptBatch as error:
            raise self._unreadable_error(error) from None

    def read_now(
        self, offset: int, max_bytes: int, end: Offset, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> CommittedRead:
        """Return committed batches like `fetch`, without waiting; `offset` lies below `end`, the readable end.

        Where all records from `offset` to the end were removed, return one batch without records that spans them, so
        that readers continue after it. Raises `OffsetOutOfRange` below the log start, `NotLeader`, `CorruptBatch`, and
        `OffsetNotAvailable` (retry)."""
        group = self.group
        start = group.committed_start_offset
        if offset < start:
            raise OffsetOutOfRange(offset, start, end)
        read = self._read(offset, max_bytes, end, isolation)
        if not read.batches and offset < read.end <= group.log.segments.durable_offset:
            return read._replace(batches=[memoryview(build_empty_batch(offset, read.end, group.core.term))])
        return read

    async def prove_end(self, offset: int) -> None:
        """Raise `OffsetOutOfRange` once it is proven that the log ends below `offset`; return if it does not.

        Raises `NotLeader`, `LogClosed` and `OffsetNotAvailable`."""
        await self._prove_end(offset, deadline_in(_ANSWER_MS))

    def readable_end(self, offset: int | None = None) -> Offset:
        """Return the end of the records that can be read from `offset` on. Raises `NotLeader` and `LogClosed`.

        For a sole voter every durable record counts as committed, also while damage keeps it from leading."""
        group, core = self.group, self.group.core
        if group.is_closed or self._is_closed:
            raise self._closed_error()
        if core.role is Role.LEADER:
            return group.high_watermark
        if self._is_alone_and_damaged():
            return max(group.high_watermark, group.log.segments.durable_offset)
        if core.leader is None and offset is not None and offset < group.high_watermark:
            return group.high_watermark
        leads = f"{core.leader} leads" if core.leader else "no leader is known"
        raise NotLeader(f"{self.name}: {leads}", core.leader)

    def _unreadable_error(self, error: CorruptBatch) -> RaftlogError:
        """Return `NotLeader`, since another replica without the damage will lead; for a sole voter `error` itself."""
        if self.is_alone:
            return error
        return NotLeader(f"{self.name} is being repaired here ({error})", self.group.core.leader)

    @property
    def is_damaged(self) -> bool:
        """Whether damage that is not repaired keeps the replica from leading."""
        return self.group.damage is not None or lost_end(self.group) is not None

    @property
    def is_alone(self) -> bool:
        """Whether this replica is the only voter."""
        core = self.group.core
        return core.configuration.all_voters() == (core.status().me,)

    def _is_alone_and_damaged(self) -> bool:
        return self.group.damage is not None and self.is_alone

    async def _wait_until_served(self, offset: int, deadline: Deadline) -> None:
        """Return once `offset` can be served or a retry makes sense. Raises the errors of `fetch` otherwise.

        Waits even for a caller that does not wait for records, so that the caller learns whether there are any."""
        await self._prove_end(offset, Deadline(max(deadline, deadline_in(_ANSWER_MS))))
        if offset > self.group.high_watermark and not await self.waits.wait(1, deadline):
            raise self._not_available_error(f"offset {offset} is not committed yet")

    async def _prove_end(self, offset: int, deadline: Deadline) -> None:
        """Confirm leadership by a quorum, then raise `OffsetOutOfRange` if the log ends before `offset`."""
        group = self.group
        await self._wait_for_own_term(deadline)
        if offset > group.high_watermark:
            await self._confirm(deadline)
        if offset > group.log_end_offset:
            raise OffsetOutOfRange(offset, group.committed_start_offset, group.high_watermark)

    async def _wait_for_own_term(self, deadline: Deadline) -> None:
        """Wait until an entry of the leader's term is delivered. Raises `NotLeader` and `OffsetNotAvailable`."""
        while not self._has_own_term():
            self.readable_end()
            if self.group.damage is not None or not await self.waits.wait(1, deadline):
                raise self._not_available_error("the leader does not know the end of the log yet")

    def _has_own_term(self) -> bool:
        """Return whether this leader has delivered an entry of its term, and so all that was acknowledged before."""
        group, core = self.group, self.group.core
        return core.has_own_term_commit and group.log.term_at(group.applied_index) == core.term

    async def _confirm(self, deadline: Deadline) -> None:
        """Wait until everything acknowledged before the call is delivered here."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.group.read_index()
        except TimeoutError:
            raise self._not_available_error("no majority confirmed the leader before the deadline") from None

    def _not_available_error(self, why: str) -> OffsetNotAvailable:
        return OffsetNotAvailable(f"{self.name}: {why}; retry")

    async def offsets(
        self, linearizable: bool, deadline: Deadline, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> OffsetRange:
        """Return the log start offset, and the high watermark or last stable offset. Raises the errors of `fetch`.

        `linearizable`: a majority confirms that no newer leader has committed more."""
        end = self.readable_end()
        if not self._is_alone_and_damaged():
            await self._wait_for_own_term(deadline)
            if linearizable:
                await self._confirm(deadline)
            end = self.readable_end()
        if isolation is Isolation.READ_COMMITTED:
            end = min(end, await self._committed_reads.wait_for_end(deadline, is_lost=self._is_alone_and_damaged()))
        start = self.group.committed_start_offset
        return OffsetRange(start, max(start, end))

    async def offset_for_timestamp(
        self, timestamp_ms: int, deadline: Deadline, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first committed record at or after `timestamp_ms`, or None (KIP-79)."""
        end = (await self.offsets(False, deadline, isolation)).end
        try:
            found = await self.group.offset_for_timestamp(timestamp_ms)
        except CorruptBatch as error:
            raise self._unreadable_error(error) from None
        return found if found is not None and found[0] < end else None

    async def delete_before(self, offset: int, deadline: Deadline) -> Offset:
        """Delete the records below `offset`, on every replica; return the log start offset.

        Raises like `fetch`, and `DeadlineExceeded`."""
        self.readable_end()
        await self._wait_for_own_term(deadline)
        if offset > self.group.high_watermark:
            await self._confirm(deadline)
        return await self._record_deletion.delete_before(offset, deadline)

    # events

    def on_step(self, ready: Ready) -> None:
        """Answer appends, update the producers' state and wake readers, after the group has processed a Ready."""
        if ready.entries or ready.role_state is not None:
            self._pending_appends.answer_pending()
        if ready.apply is not None:
            self._producers.on_delivered(*ready.apply)
            self._sequence_check.on_delivered(ready.apply.last)
        self._producers.on_step()
        self._sequence_check.on_step()
        self._committed_reads.on_step(ready)
        if ready.role_state is not None:
            self.waits.wake_all()
        elif ready.apply is not None and self.waits:
            self.waits.advance(self.group.log.size_of(*ready.apply))

    def _on_loaded(self) -> None:
        """Continue with the requests that waited for the state of the producers."""
        self._committed_reads.on_loaded()
        self._sequence_check.on_step()
        self._wake_all()

    def reconfigure(self, config: TopicConfig) -> None:
        """Use these settings from now on."""
        self.config = config
        self.group.rolls.settings = tuple(sorted(config.as_strings().items()))
        self.group.rolls.limits = GroupLimits(
            segment_bytes=config.segment_bytes,
            segment_rows_max=config.segment_index_bytes // ROW_SIZE,
            segment_ms=config.segment_ms_max,
        )

    def run_maintenance(self, now_ms: int) -> None:
        """Run maintenance as leader: age rolls, producer expiry, retention and compaction; called periodically."""
        if self._is_closed or self.group.is_closed or not self.group.core.has_own_term_commit:
            return
        self.group.roll_if_due()
        self._producers.write_run_if_due()
        loop_ms = int(asyncio.get_running_loop().time() * 1000)
        self._expiry.propose_if_due(self.config.producer_id_expiration_ms, loop_ms)
        self._retention.propose_if_due(self.config, now_ms)
        self._compaction_marks.propose_if_due(self.config, now_ms, loop_ms)

    def describe(self) -> ReplicaDescription:
        return describe(self.group, self._lag_ticks_max)

    def stop_waiting(self) -> None:
        """Answer every waiting fetch with the available records; later fetches do not wait either."""
        self.waits.close()
        self._committed_reads.waits.close()

    def close(self) -> None:
        """Refuse further calls and end all waits; the group is closed by the node."""
        if not self._is_closed:
            self._is_closed = True
            self.group.on_end = None
            self._producers.close()
            self.transactions.close()
            self._committed_reads.close()
            self._end_waits()

    def _end_waits(self) -> None:
        for waiting in (self._pending_appends, self._sequence_check):
            waiting.end(self._closed_error())
        self._wake_all()

    def _wake_all(self) -> None:
        self.waits.wake_all()
        self._committed_reads.waits.wake_all()
