"""Appends of Kafka's producers to partitions that this node leads.

    checked → proposed → answered           the usual path, within the call of `begin`
    checked → waiting line → proposed       while the partition has no room, or a check has to wait
    open appends = proposed + waiting ≤ the requests that the listeners hold

All appends of one turn share the replica's next Ready, so one frame of the journal and one sync; unlike calls to any
node they need no queue of their own. Appends of one partition are proposed in the order of `begin`: while one waits,
later ones wait behind it. A refused append is definite; after the proposal a deadline makes the outcome unknown. Called
by faces through `Broker.leader_appends`."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
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
from raftlog.partitions.produce import GivenIds
from raftlog.partitions.produce.compacted import check_stored_keys
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.results import Acks
from raftlog.partitions.routing.partition import (
    CALL_BATCHES_MAX,
    CALL_BYTES_MAX,
    CALL_PRODUCERS_MAX,
    Partition,
    Shared,
)
from raftlog.partitions.routing.topics import Topics
from raftlog.records import BatchHeader, validate_client_batches
from raftlog.runtime.histogram import stopwatch
from raftlog.types import Buffer

_LINE_MAX: Final = 1_000
"""Appends that wait in the line of one partition; more are refused."""
_RETRY_S: Final = 0.005
"""Pause before the head of a line is proposed again."""


class LeaderAppend:
    """Append to one partition; `future` gets its outcome."""

    __slots__ = (
        "acks",
        "arrived",
        "batches",
        "count",
        "deadline",
        "future",
        "is_charged",
        "is_checked",
        "is_proposed",
        "number",
        "replica",
        "size",
    )

    def __init__(
        self,
        replica: Replica,
        number: int,
        batches: Sequence[bytearray],
        count: int,
        size: int,
        acks: Acks,
        deadline: Deadline,
    ) -> None:
        self.replica, self.number, self.batches, self.count, self.size = replica, number, batches, count, size
        self.acks, self.deadline = acks, deadline
        self.arrived = stopwatch()
        self.future: asyncio.Future[ReplicaAppended]
        self.is_checked = True
        """Whether all checks have passed."""
        self.is_charged = False
        """Whether its bytes are taken from the budget."""
        self.is_proposed = False
        """Whether it may be in the log, so that a deadline makes its outcome unknown."""


class LeaderAppends:
    """Appends at the leader; one instance for each process."""

    def __init__(self, topics: Topics, shared: Shared, given_ids: GivenIds) -> None:
        self._topics, self._counters, self._budget = topics, shared.counters, shared.budget
        self._given_ids = given_ids
        self._loop = asyncio.get_running_loop()
        self._open: dict[LeaderAppend, None] = {}
        """Appends without an outcome that a caller waits for."""
        self._lines: dict[Replica, deque[LeaderAppend]] = {}
        """Appends that wait for room or for a check; no line is empty."""
        self._checks: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._sweep = DeadlineSweep(self._expire)
        self._is_closed = False

    # the usual path

    def begin(self, topic: str, number: int, records: Buffer, acks: Acks, deadline: Deadline) -> LeaderAppend:
        """Check a client's batches and propose them, or put them into the partition's line; `outcomes` must follow.

        The order of calls is the order in the log. Raises definite errors: `UnknownTopic`, `UnknownPartition`,
        `NotLeader`, `InvalidTopic` for an internal topic, `InvalidBatch` and `RecordTooLarge`."""
        partition = self._partition(topic, number)
        replica = partition.replica
        if replica is None or not replica.is_leader:
            raise NotLeader(f"{partition.name}: this broker does not lead it")
        checked = validate_client_batches(records, partition.config.max_message_bytes, CALL_BATCHES_MAX)
        size, count, producers = len(records), 0, set()
        batches = []
        for header, batch in checked:
            count += header.record_count
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
        append = LeaderAppend(replica, number, batches, count, size, acks, deadline)
        self._counters.produces += 1
        has_slow_check = partition.config.is_compacted or (producers and not self._given_ids.has_given(producers))
        if has_slow_check or replica in self._lines or not self._maybe_propose(append):
            is_waiting = self._wait_in_line(append)
            if has_slow_check and is_waiting:
                self._check_slowly(partition, append, checked, producers)
        self._open[append] = None
        if deadline < self._sweep.earliest:
            self._sweep.note(deadline)
        return append

    def _partition(self, topic: str, number: int) -> Partition:
        found = self._topics.get(topic)
        if found is None:
            raise UnknownTopic(f"topic {topic!r} does not exist; create it first")
        if found.is_internal:
            raise InvalidTopic(f"topic {topic} is internal; only brokers write to it")
        return found.partition(number)

    def _maybe_propose(self, append: LeaderAppend) -> bool:
        """Propose the batches; false when there is no room now. `append.future` gets the outcome."""
        if not append.is_charged:
            if not self._budget.maybe_take(append.size):
                return False
            append.is_charged = True
        future = append.replica.append(append.batches, append.acks, any_first_sequence=True)
        if future.done() and isinstance(future.exception(), Overloaded):
            return False
        append.is_proposed = True
        append.future = future
        return True

    async def outcomes(self, appends: Sequence[LeaderAppend]) -> list[ReplicaAppended | RaftlogError]:
        """Wait for the outcome of each, until its deadline at most."""
        found: list[ReplicaAppended | RaftlogError] = []
        try:
            for append in appends:
                try:
                    appended = await append.future
                except RaftlogError as error:
                    found.append(error)
                    self._count_failure(error)
                else:
                    found.append(appended)
                    self._count(append, appended)
        finally:
            for append in appends:
                self._end(append)
        return found

    def _count(self, append: LeaderAppend, appended: ReplicaAppended) -> None:
        counters = self._counters
        counters.append_times.observe_since(append.arrived)
        if appended.is_duplicate:
            counters.duplicates += 1
            return
        counters.appends += 1
        counters.batches_in += len(append.batches)
        counters.records_in += append.count
        counters.bytes_in += append.size

    def _count_failure(self, error: RaftlogError) -> None:
        if error.outcome == "unknown":
            self._counters.produce_unknown += 1
        else:
            self._counters.produce_failures += 1

    def _end(self, append: LeaderAppend) -> None:
        """Free what an append holds; its caller does not wait any more."""
        self._open.pop(append, None)
        future = append.future
        if not future.cancel() and not future.cancelled():
            future.exception()  # it was not retrieved when the caller was cancelled
        if append.is_charged:
            append.is_charged = False
            self._budget.give(append.size)
            if self._lines:
                self._drain_all()

    # waiting line

    def _wait_in_line(self, append: LeaderAppend) -> bool:
        """Queue the append; when the line is full, refuse it and return false."""
        append.future = self._loop.create_future()
        line = self._lines.setdefault(append.replica, deque())
        if len(line) >= _LINE_MAX:
            append.future.set_exception(Overloaded(f"{append.replica.name}: {_LINE_MAX} appends wait for room; retry"))
            return False
        self._counters.throttled += 1
        line.append(append)
        self._retry_soon()
        return True

    def _check_slowly(
        self,
        partition: Partition,
        append: LeaderAppend,
        checked: Sequence[tuple[BatchHeader, Buffer]],
        producers: set[int],
    ) -> None:
        append.is_checked = False
        # The frame of the request may be reused after the checks that ran so far.
        own = [(header, batch) for (header, _), batch in zip(checked, append.batches, strict=True)]
        task = self._loop.create_task(self._check(partition, append, own, producers), name="check of an append")
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    async def _check(
        self,
        partition: Partition,
        append: LeaderAppend,
        checked: Sequence[tuple[BatchHeader, Buffer]],
        producers: set[int],
    ) -> None:
        try:
            if partition.config.is_compacted:
                await check_stored_keys(partition.name, checked, partition.config.max_message_bytes)
            if producers:
                await self._given_ids.check(partition.name, producers, append.deadline)
        except RaftlogError as error:
            if not append.future.done():
                append.future.set_exception(error)
        append.is_checked = True
        self._drain(append.replica)

    def _drain_all(self) -> None:
        self._retry = None
        for replica in list(self._lines):
            self._drain(replica)

    def _drain(self, replica: Replica) -> None:
        """Propose the appends at the head of a line, as far as there is room."""
        line = self._lines.get(replica, deque())
        while line and (line[0].is_checked or line[0].future.done()):
            append, caller = line[0], line[0].future
            if not caller.done():
                if not self._maybe_propose(append):
                    break
                proposed, append.future = append.future, caller
                proposed.add_done_callback(lambda done, caller=caller: _copy(done, caller))  # type: ignore[misc]
            line.popleft()
        if not line:
            self._lines.pop(replica, None)
        elif line[0].is_checked:
            self._retry_soon()

    def _retry_soon(self) -> None:
        if self._retry is None and not self._is_closed:
            self._retry = self._loop.call_later(_RETRY_S, self._drain_all)

    # deadlines and end

    def _expire(self, now: float) -> float:
        earliest: float = NEVER
        for append in list(self._open):
            if append.deadline > now:
                earliest = min(earliest, append.deadline)
            elif not append.future.done():
                append.future.set_exception(_late(append))
        return earliest

    def close(self) -> None:
        """Fail the appends that wait in lines, which did not happen."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        for task in self._checks:
            task.cancel()
        lines, self._lines = self._lines, {}
        for replica, line in lines.items():
            for append in line:
                if not append.future.done():
                    append.future.set_exception(LogClosed(f"{replica.name}: the broker stops"))


def _copy(done: "asyncio.Future[ReplicaAppended]", caller: "asyncio.Future[ReplicaAppended]") -> None:
    """Set the outcome of a proposal as that of the append, unless its caller stopped waiting."""
    error = OutcomeUnknown("the process stops") if done.cancelled() else done.exception()
    if caller.done():
        return
    if error is None:
        caller.set_result(done.result())
    else:
        caller.set_exception(error)


def _late(append: LeaderAppend) -> RaftlogError:
    name = append.replica.name
    if append.is_proposed:
        return DeadlineExceeded(f"{name}: appended, but no majority had it on disk before the deadline")
    return Overloaded(f"{name}: the deadline passed before the append; nothing was appended; send more slowly")
