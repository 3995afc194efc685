"""Appends of Kafka's producers, and of transactions, to partitions that this node leads.

    checked → gathered → proposed → answered    usually: appends that begin in one turn of the loop go together
    checked → waiting line → proposed           while the partition has no room, or a check has to wait
    checked → enlisting → as above              the first appends of a producer to its transaction in a partition
    open appends = gathered + waiting + proposed ≤ the requests that the listeners hold

Proposals of one turn also share a frame of the journal and a sync; unlike calls to any node they need no queue. Appends
of one partition are proposed in the order of `begin`: while one waits, later ones wait; while one is enlisting, only
those of its producer. Appends of idempotent producers have an outcome each, since sequences can be refused; accepted
ones are proposed together. Single records of other producers share a batch (`records.merge`). Nothing is appended for a
refused append; after the proposal a deadline makes the outcome unknown. Called by listeners through
`Broker.leader.appends`."""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Final

from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
    InvalidProducerMapping,
    InvalidTimestamp,
    InvalidTopic,
    LogClosed,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    RaftlogError,
    RecordTooLarge,
    UnknownTopic,
)
from raftlog.partitions.deadline import NEVER, Deadline, DeadlineSweep
from raftlog.partitions.leader.append_groups import AppendGroups
from raftlog.partitions.leader.enlistments import AdmittedAppend, Enlistments, LeaderAppend, VerifyPartition
from raftlog.partitions.produce import AllocatedIds, computed_id_error
from raftlog.partitions.produce.compacted import check_stored_keys
from raftlog.partitions.produce.pending import copied_error
from raftlog.partitions.produce.timestamps import check_batch_timestamps
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.results import Acks
from raftlog.partitions.routing.partition import (
    CALL_BATCHES_MAX,
    CALL_BYTES_MAX,
    CALL_PRODUCERS_MAX,
    Shared,
)
from raftlog.partitions.routing.topics import Topics
from raftlog.records import COMPUTED_PRODUCER_IDS, validate_client_batches
from raftlog.records.merge import MERGED_BYTES_MAX, merge_single_records
from raftlog.types import Buffer, Offset

_LINE_MAX: Final = 1_000
"""Appends that wait in the line of one partition; more are refused."""
_RETRY_S: Final = 0.005
"""Pause before the head of a line is proposed again."""
_TOGETHER_BYTES: Final = 4 * 1024 * 1024
"""Bytes that are proposed together, unless one append has more."""


class LeaderAppends:
    """Appends of clients at this process, where it leads; one instance per process."""

    def __init__(
        self,
        topics: Topics,
        shared: Shared,
        allocated_ids: AllocatedIds,
        verify: VerifyPartition,
        join: VerifyPartition,
    ) -> None:
        """Create an object without appends. `verify` and `join`: see `Enlistments`."""
        self._enlistments = Enlistments(verify, join, self._admit)
        self._topics, self._counters, self._budget = topics, shared.counters, shared.budget
        self._allocated_ids, self._opening, self._wall_ms = allocated_ids, shared.opening, shared.wall_ms
        self._loop = asyncio.get_running_loop()
        self._open: dict[LeaderAppend, None] = {}
        """Appends that a caller waits for."""
        self._groups = AppendGroups(self._propose_group)
        self._lines: dict[Replica, deque[LeaderAppend]] = {}
        """Appends that wait for room or for a check; no line is empty."""
        self._checks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._sweep = DeadlineSweep(self._expire)
        self._is_closed = False

    # arrival

    def begin(
        self,
        topic: str,
        number: int,
        records: Buffer,
        acks: Acks,
        deadline: Deadline,
        transactional_id: str | None = None,
        *,
        joins: bool = False,
    ) -> LeaderAppend:
        """Check a client's batches, which are copied, and propose them at the end of this turn of the loop, or soon.

        The order of calls is the order in the log; `wait_for_outcomes` returns the results. `transactional_id` names
        the transaction of the batches; its first ones wait until the transaction's coordinator has confirmed that the
        partition belongs to it, or with `joins` has added it. Raises, if nothing is appended: `UnknownTopic`,
        `UnknownPartition`, `NotLeader`, `InvalidTopic` for an internal topic, `InvalidBatch`, `InvalidTimestamp`,
        `RecordTooLarge`, `UnknownProducer` for a computed producer id, `InvalidProducerMapping` and `LogClosed`."""
        found = self._topics.get(topic)
        if found is None:
            raise UnknownTopic(f"topic {topic!r} does not exist; create it first")
        if found.is_internal:
            raise InvalidTopic(f"topic {topic} is internal; only brokers write to it")
        partition = found.partition(number)
        replica = partition.replica
        if replica is None or not replica.is_leader:
            raise NotLeader(f"{partition.name}: this broker does not lead it")
        config = partition.config
        is_transactional = transactional_id is not None
        checked = validate_client_batches(
            records, config.max_message_bytes, CALL_BATCHES_MAX, is_transactional=is_transactional
        )
        check_batch_timestamps(partition.name, config, checked, self._wall_ms)
        size, count = len(records), 0
        batches, producers = [], set()
        for header, batch in checked:
            count += header.record_count
            if header.has_append_time:
                raise InvalidTimestamp(f"{partition.name}: a producer cannot send batches with LogAppendTime")
            if header.producer_id >= 0:
                producers.add(header.producer_id)
            batches.append(bytearray(batch))
        if size > CALL_BYTES_MAX:
            raise RecordTooLarge(f"{partition.name}: {size} bytes in one request; the limit is {CALL_BYTES_MAX}")
        if len(producers) > CALL_PRODUCERS_MAX:
            raise InvalidArgument(
                f"{partition.name}: batches of {len(producers)} producers in one request; the limit is "
                f"{CALL_PRODUCERS_MAX}"
            )
        if producers and max(producers) >= COMPUTED_PRODUCER_IDS:
            raise computed_id_error(partition.name, max(producers))
        if is_transactional and len(producers) != 1:
            raise InvalidProducerMapping(
                f"{partition.name}: batches of {len(producers)} producers in a request of one transaction"
            )
        if self._is_closed:
            raise LogClosed(f"{partition.name}: the broker stops")
        future: asyncio.Future[ReplicaAppended] = self._loop.create_future()
        append = LeaderAppend(replica, number, batches, count, size, acks, deadline, bool(producers), future)
        self._counters.produces += 1
        self._open[append] = None
        if deadline < self._sweep.earliest:
            self._sweep.add(deadline)
        admitted = AdmittedAppend(partition, append, [header for header, _ in checked], producers, joins)
        if transactional_id is None or not self._enlistments.hold(admitted, transactional_id):
            self._admit(admitted)
        return append

    def _admit(self, admitted: AdmittedAppend) -> None:
        """Gather an append to be proposed, or add it to the queue of its replica."""
        partition, append, _, producers, _ = admitted
        replica = append.replica
        if partition.config.is_compacted or (producers and not self._allocated_ids.are_allocated(producers)):
            if self._wait_in_line([*self._groups.take(replica), append]):
                self._begin_check(admitted)
        elif replica in self._lines:
            self._wait_in_line([append])
        else:
            self._groups.add(append)

    async def wait_for_outcomes(self, appends: Sequence[LeaderAppend]) -> list[ReplicaAppended | RaftlogError]:
        """Wait for each append, until its deadline at most; return the result or error of each, in order."""
        found: list[ReplicaAppended | RaftlogError] = []
        try:
            for append in appends:
                try:
                    found.append(await append.future)
                except RaftlogError as error:
                    found.append(error)
                    self._count_failure(error)
        finally:
            for append in appends:
                self._open.pop(append, None)
                future = append.future
                if not future.cancel() and not future.cancelled():
                    future.exception()  # it was not retrieved when the caller was cancelled
        return found

    def _count_failure(self, error: RaftlogError) -> None:
        """Count a failed append by its outcome."""
        if error.outcome == "unknown":
            self._counters.produce_unknown += 1
        else:
            self._counters.produce_failures += 1

    # proposals

    def _propose_group(self, replica: Replica, appends: Sequence[LeaderAppend]) -> None:
        """Propose gathered appends; queue those that follow queued ones, or for which there is no room."""
        appends = [each for each in appends if not each.future.done()]  # the deadline of others has passed
        if appends and replica not in self._lines:
            appends = self._propose_in_parts(appends, merges=True)
        if appends:
            self._wait_in_line(appends)

    def _propose_in_parts(self, appends: Sequence[LeaderAppend], *, merges: bool) -> Sequence[LeaderAppend]:
        """Propose appends to one replica; return those for which there is no room now.

        `merges`: single records share a batch. Those that wait for room are not merged at each new attempt."""
        begin, size = 0, 0
        for at, append in enumerate(appends):
            if at > begin and (
                append.is_sequenced is not appends[begin].is_sequenced
                or append.acks != appends[begin].acks
                or size + append.size > _TOGETHER_BYTES
            ):
                begin += self._propose_some(appends[begin:at], size, merges=merges)
                if begin < at:
                    return appends[begin:]
                size = 0
            size += append.size
        return appends[begin + self._propose_some(appends[begin:], size, merges=merges) :]

    def _propose_some(self, appends: Sequence[LeaderAppend], size: int, *, merges: bool) -> int:
        """Propose appends to one replica together; return the number of appends for which there is room.

        Either all of them have a producer id, or none has."""
        if not self._budget.try_take(size):
            return 0
        first = appends[0]
        if len(appends) == 1 or not first.is_sequenced:
            batches = first.batches if len(appends) == 1 else [batch for each in appends for batch in each.batches]
            if merges and len(appends) > 1:
                batches = merge_single_records(batches, min(MERGED_BYTES_MAX, first.replica.config.max_message_bytes))
            return self._attach_to_proposal(
                first.replica.append(batches, first.acks, any_first_sequence=True), appends, size
            )
        begin, left = 0, size
        calls = [each.batches for each in appends]
        futures = first.replica.append_calls(calls, first.acks, any_first_sequence=True)
        for future, same in groupby(futures):
            some = appends[begin : begin + len(list(same))]
            part = sum([each.size for each in some])
            begin += self._attach_to_proposal(future, some, part)
            left -= part
        self._budget.release(left)
        return begin

    def _attach_to_proposal(
        self, proposed: "asyncio.Future[ReplicaAppended]", appends: Sequence[LeaderAppend], size: int
    ) -> int:
        """Attach appends to their proposal; return their number, or 0 if the proposal found no room."""
        if proposed.done() and isinstance(proposed.exception(), Overloaded):
            self._budget.release(size)
            return 0
        for append in appends:
            append.is_proposed = True
            append.batches = ()  # the log holds them, or the merged ones
        self._groups.note_proposed(appends[0].replica, size)
        proposed.add_done_callback(partial(self._on_outcome, appends, size))
        return len(appends)

    def _on_outcome(
        self, appends: Sequence[LeaderAppend], size: int, proposed: "asyncio.Future[ReplicaAppended]"
    ) -> None:
        """Complete the appends of a proposal, each with its own offsets; then propose waiting ones."""
        self._budget.release(size)
        self._groups.note_ended(appends[0].replica, size)
        if self._lines:
            self._drain_all()
        error = OutcomeUnknown("the process stops") if proposed.cancelled() else proposed.exception()
        if error is not None:
            for append in appends:
                if not append.future.done():
                    append.future.set_exception(copied_error(error))
            if not isinstance(error, RaftlogError):
                raise error
            return
        appended = proposed.result()
        self._count_append(appends, size, appended)
        if len(appends) == 1:
            if not appends[0].future.done():
                appends[0].future.set_result(appended)
            return
        base, _, epoch, watermark, is_duplicate = appended
        for append in appends:
            after = Offset(base + append.count)
            if not append.future.done():
                append.future.set_result(ReplicaAppended(base, after, epoch, watermark, is_duplicate))
            base = after

    def _count_append(self, appends: Sequence[LeaderAppend], size: int, appended: ReplicaAppended) -> None:
        """Count the result of calls that were appended together; duplicates are counted separately.

        `size` is their bytes."""
        counters = self._counters
        counters.append_times.observe_since(appends[0].arrived)
        if appended.is_duplicate:
            counters.duplicates += 1
            return
        counters.appends += 1
        counters.bytes_in += size
        for append in appends:
            counters.batches_in += append.batch_count
            counters.records_in += append.count

    # waiting line

    def _wait_in_line(self, appends: Sequence[LeaderAppend]) -> bool:
        """Queue appends to one replica; refuse the rest and return False if the queue is full."""
        replica = appends[0].replica
        line = self._lines.setdefault(replica, deque())
        for append in appends:
            if append.future.done():  # its deadline has passed
                continue
            if len(line) >= _LINE_MAX:
                append.future.set_exception(Overloaded(f"{replica.name}: {_LINE_MAX} appends wait for room; retry"))
            else:
                line.append(append)
        self._counters.throttled += len(appends)
        self._retry_soon()
        return line[-1] is appends[-1]

    def _begin_check(self, admitted: AdmittedAppend) -> None:
        """Check keys or producer ids of an append in a task; the append stays in the queue meanwhile."""
        admitted.append.is_checked = False
        task = self._loop.create_task(self._check(admitted), name="check of an append")
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check(self, admitted: AdmittedAppend) -> None:
        """Check keys and producer ids of an append, then continue the queue of its replica."""
        partition, append, headers, producers, _ = admitted
        try:
            if partition.config.is_compacted:
                # The frame of the request may have been reused; the copies have not.
                checked = list(zip(headers, append.batches, strict=True))
                limit = partition.config.max_message_bytes
                await check_stored_keys(partition.name, checked, limit, self._opening, append.deadline)
            if producers:
                await self._allocated_ids.check(partition.name, producers, append.deadline)
        except RaftlogError as error:
            if not append.future.done():
                append.future.set_exception(error)
        append.is_checked = True
        self._drain(append.replica)

    def _drain_all(self) -> None:
        """Propose the first appends of every queue while there is room."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for replica in list(self._lines):
            self._drain(replica)

    def _drain(self, replica: Replica) -> None:
        """Propose the first appends of a replica's queue while there is room."""
        line = self._lines.get(replica)
        if line is None:
            return
        ready = []
        while line and (line[0].is_checked or line[0].future.done()):
            append = line.popleft()
            if not append.future.done():
                ready.append(append)
        left = self._propose_in_parts(ready, merges=False) if ready else ()
        line.extendleft(reversed(left))
        if not line:
            del self._lines[replica]
        elif line[0].is_checked:
            self._retry_soon()

    def _retry_soon(self) -> None:
        """Try all waiting appends again after `_RETRY_S` seconds."""
        if self._retry is None and not self._is_closed:
            self._retry = self._loop.call_later(_RETRY_S, self._drain_all)

    # deadlines and end

    def _expire(self, now: float) -> float:
        """Fail appends past their deadline; return the earliest deadline that is left."""
        earliest: float = NEVER
        for append in self._open:
            if append.deadline > now:
                earliest = min(earliest, append.deadline)
            elif not append.future.done():
                append.future.set_exception(_late_error(append))
        return earliest

    def close(self) -> None:
        """Fail the appends that are not proposed; none of them happened."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        self._enlistments.close()
        for task in self._checks:
            task.cancel()
        lines, self._lines = self._lines, {}
        for line in (*lines.values(), self._groups.close()):
            for append in line:
                if not append.future.done():
                    append.future.set_exception(LogClosed(f"{append.replica.name}: the broker stops"))


def _late_error(append: LeaderAppend) -> RaftlogError:
    """Return the error of an append whose deadline has passed."""
    name = append.replica.name
    if append.is_proposed:
        return DeadlineExceeded(f"{name}: appended, but no majority had it on disk before the deadline")
    return Overloaded(f"{name}: the deadline passed before the append; nothing was appended; send more slowly")
