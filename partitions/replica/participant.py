"""Requests of transactions to a replica: permissions of producers, and markers. Only the leader serves them.

    enlist:            guard → the coordinator is asked → permission                    one question for all that wait
    end_transaction:   not repeated → checked by both epochs → appended → committed

Not here: the coordinator, and retries. Called by the handlers of other nodes' and of clients' requests."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
    NotLeader,
    OffsetNotAvailable,
    ProducerFenced,
    RaftlogError,
    Unavailable,
)
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica.leader_transactions import AppendPermission, TransactionGuard
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.sequence_check import SequenceCheck
from raftlog.partitions.replica.transaction_table import NO_EPOCH
from raftlog.partitions.replica.waits import Waits
from raftlog.partitions.results import ActiveProducer, ConfirmedTransaction
from raftlog.raft import Role
from raftlog.records import BatchHeader, TransactionMarker
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Term

_Question: TypeAlias = tuple[Term, int, AppendPermission]
"""Term, producer id and the permission that is asked for."""
_MARKER_S: Final = 0.02
"""Longest time in seconds between two checks of a transaction that waits for the marker of the previous one."""


class Participant:
    """Partition's part in transactions, at one replica: permissions to append, and markers."""

    def __init__(
        self, name: str, group: PartitionReplica, state: ProducerState, sequence_check: SequenceCheck, waits: Waits
    ) -> None:
        """Prepare the replica `name` to take part in transactions, while it leads."""
        self._name, self._group, self._state, self._waits = name, group, state, waits
        self._sequence_check, self._transactions = sequence_check, sequence_check.transactions
        self.refusal: Callable[[], RaftlogError | None] = lambda: None
        """Error with which an append fails at once now; None if it can be tried."""
        self._questions: dict[_Question, asyncio.Task[None]] = {}
        """Questions to coordinators."""

    def is_enlisted(self, producer_id: int, wanted: AppendPermission) -> bool:
        """Return whether the producer may append to its transaction now, so that `enlist` has nothing to do."""
        return self._sequence_check.can_decide() and self._transactions.is_permitted(producer_id, wanted)

    def note_waiting(self, header: BatchHeader, transactional_id: str) -> None:
        """Record a batch that waits until its producer is enlisted; see `LeaderTransactions.note_waiting`."""
        self._transactions.note_waiting(header, transactional_id, self._group.core.term)

    def forget_name(self, producer_id: int, transactional_id: str) -> None:
        """Forget the waiting batches of a producer under a transactional id that is not its own."""
        self._transactions.forget_name(producer_id, transactional_id)

    async def enlist(
        self,
        producer_id: int,
        wanted: AppendPermission,
        verify: Callable[[], Awaitable[ConfirmedTransaction]],
        deadline: Deadline,
        *,
        joins: bool = False,
    ) -> None:
        """Permit the producer to append to its transaction with this epoch, until its marker or the end of the term.

        `verify` asks the coordinator whether the transaction is open and contains this partition, or raises. With
        `joins` it also adds the partition, once the producer's previous transaction, which may be open here, has ended.
        Raises the errors of `verify`, `NotLeader`, `ProducerFenced`, `ConcurrentTransactions` and `Unavailable`
        (retry)."""
        await self._wait_until_deciding(deadline)
        if self._transactions.is_permitted(producer_id, wanted):
            return
        key = self._group.core.term, producer_id, wanted
        question = self._questions.get(key)
        if question is None:
            guard = self._transactions.begin_guard(producer_id, wanted, self._known_epoch(producer_id), joins=joins)
            question = asyncio.get_running_loop().create_task(self._ask(guard, verify), name=f"guard of {self._name}")
            self._questions[key] = question
            question.add_done_callback(partial(self._on_answer, key))
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.shield(question)
        except asyncio.CancelledError:
            if not question.cancelled():
                raise
            raise NotLeader(f"{self._name}: the replica was closed meanwhile", self._group.core.leader) from None
        except TimeoutError:
            raise Unavailable(
                f"{self._name}: no coordinator confirmed the transaction of producer {producer_id} in time; retry"
            ) from None

    async def wait_for_marker(self, deadline: Deadline) -> bool:
        """Wait until further entries, such as a marker, become visible, for at most `_MARKER_S`.

        Return whether to check again: False at the deadline, or after the replica was closed."""
        loop = asyncio.get_running_loop()
        await self._waits.wait(1, Deadline(min(deadline, loop.time() + _MARKER_S)))
        return loop.time() < deadline and not self._waits.is_closed

    async def _ask(self, guard: TransactionGuard, verify: Callable[[], Awaitable[ConfirmedTransaction]]) -> None:
        """Ask the coordinator, and give the permission if nothing ended the transaction meanwhile."""
        try:
            confirmed = await verify()
            if not self._sequence_check.can_decide():
                raise NotLeader(f"{self._name}: the leadership ended meanwhile", self._group.core.leader)
            self._transactions.permit(guard, self._known_epoch(guard.producer_id), confirmed)
        finally:
            self._transactions.end_guard(guard)

    def _on_answer(self, key: _Question, question: "asyncio.Task[None]") -> None:
        """Forget a question to a coordinator once it is answered."""
        del self._questions[key]
        if not question.cancelled():
            question.exception()  # every caller may have stopped waiting

    def _known_epoch(self, producer_id: int) -> int:
        """Return the newest epoch of a producer here, committed or not."""
        known = self._sequence_check.known(producer_id)
        return NO_EPOCH if known is None else known.epoch

    async def end_hanging_transaction(self, marker: TransactionMarker, deadline: Deadline) -> None:
        """Append the marker of an operator; as `end_transaction`.

        Raises `InvalidArgument` for an epoch above the newest one here, of the producer or of the coordinator in its
        last marker (0 without one): it would fence the producer, or the coordinator, whose transaction could never
        end."""
        producer_id = marker.producer_id
        await self._wait_until_deciding(deadline)
        known = max(0, self._known_epoch(producer_id)), max(0, self._transactions.coordinator_epoch(producer_id))
        if marker.producer_epoch > known[0] or marker.coordinator_epoch > known[1]:
            raise InvalidArgument(
                f"{self._name}: the newest epochs of producer {producer_id} and its coordinator are {known}, and those "
                f"of the marker ({marker.producer_epoch}, {marker.coordinator_epoch})"
            )
        await self.end_transaction(marker, deadline)

    async def end_transaction(self, marker: TransactionMarker, deadline: Deadline) -> None:
        """Append the marker of a transaction's end, also without an open one; return once it is committed.

        A repeated marker changes nothing: a later transaction may be open.
        Raises `NotLeader`, `ProducerFenced` and `CoordinatorFenced` for older epochs than are known here,
        `InvalidArgument` for a negative id or epoch, and the errors of an append. A retry is safe."""
        if min(marker.producer_id, marker.producer_epoch) < 0:
            raise InvalidArgument(
                f"{self._name}: no producer has id {marker.producer_id} with epoch {marker.producer_epoch}"
            )
        refusal = self.refusal()
        if refusal is not None:
            raise refusal
        await self._wait_until_deciding(deadline)
        if self._transactions.has_ended(marker):
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._append_marker(marker)
        except TimeoutError:
            raise DeadlineExceeded(f"{self._name}: the marker was not committed before the deadline; retry") from None

    async def _append_marker(self, marker: TransactionMarker) -> None:
        """Append a marker; return once it is committed.

        A newer epoch of the producer fences it only once that is committed, and this leader confirmed: its coordinator
        takes `ProducerFenced` for the end of the transaction here, and would leave it open for ever."""
        try:
            await self._sequence_check.append_marker(marker)
        except ProducerFenced as error:
            await self._group.read_index()
            known = self._state.table.get(marker.producer_id)
            if known is None or known.epoch <= marker.producer_epoch:
                raise Unavailable(f"{self._name}: a newer producer epoch is not committed yet; retry") from error
            raise

    async def active_producers(self, deadline: Deadline) -> list[ActiveProducer]:
        """Return the known producers, with their open transactions.

        Raises `NotLeader`, and `OffsetNotAvailable` and `Unavailable` while a new leader reads their state."""
        await self._wait_until_deciding(deadline)
        return await self._state.active()

    async def _wait_until_deciding(self, deadline: Deadline) -> None:
        """Wait until this leader knows all committed entries. Raises `NotLeader`, `Unavailable`."""
        while not self._sequence_check.can_decide():
            core = self._group.core
            if core.role is not Role.LEADER:
                raise NotLeader(f"{self._name}: it does not lead", core.leader)
            if self._state.problem is not None:
                raise Unavailable(f"{self._name} lost the state of its producers: {self._state.problem}")
            self._state.on_step()
            if not await self._waits.wait(1, deadline):
                raise OffsetNotAvailable(f"{self._name}: the leader is new, and reads its producers; retry")

    def close(self) -> None:
        """Stop all pending requests to coordinators, because the replica ends."""
        for question in self._questions.values():
            question.cancel()
