"""Appends of producers to transactions, until the transaction's coordinator has confirmed the transaction.

    first append of a transaction in a partition → held → the coordinator confirms it → admitted, with those held since

A producer over Kafka's protocol has added the partition to the transaction before. For a producer over HTTP the leader
adds it (`AdmittedAppend.joins`), and waits for the marker of the producer's last transaction, which may still be on its
way.

Held appends of one transaction are admitted in order, and delay no others, such as those that name the same producer
with another epoch or transactional id. Called by `appends`."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from raftlog.errors import ConcurrentTransactions, InvalidProducerMapping, LogClosed, Overloaded, RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import TransactionalProducer
from raftlog.partitions.produce.pending import copied_error
from raftlog.partitions.replica import AppendPermission, Replica, ReplicaAppended
from raftlog.partitions.results import Acks, ConfirmedTransaction
from raftlog.partitions.routing.partition import Partition
from raftlog.records import BatchHeader
from raftlog.runtime.histogram import stopwatch

_HELD_MAX: Final = 1_000
"""Appends of one transaction that are held in one partition; more are refused."""
_Key: TypeAlias = tuple[Replica, TransactionalProducer]


class VerifyPartition(Protocol):
    """Function that asks the coordinator to confirm that a partition is in the open transaction, or to add it."""

    def __call__(
        self, producer: TransactionalProducer, topic_id: UUID, number: int, *, deadline: Deadline
    ) -> Awaitable[ConfirmedTransaction]: ...


class LeaderAppend:
    """Client's append to one partition; `future` receives its outcome."""

    __slots__ = (
        "acks",
        "arrived",
        "batch_count",
        "batches",
        "count",
        "deadline",
        "future",
        "is_checked",
        "is_proposed",
        "is_sequenced",
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
        is_sequenced: bool,
        future: "asyncio.Future[ReplicaAppended]",
    ) -> None:
        """Describe the append of `batches` to a partition.

        `number` is the partition's, and `future` gets the outcome."""
        self.replica, self.number, self.batches, self.count, self.size = replica, number, batches, count, size
        self.batch_count = len(batches)
        self.acks, self.deadline, self.is_sequenced, self.future = acks, deadline, is_sequenced, future
        self.arrived = stopwatch()
        self.is_checked = True
        """Whether all checks have passed."""
        self.is_proposed = False
        """Whether the append may be in the log, so that a deadline makes its outcome unknown."""


class AdmittedAppend(NamedTuple):
    """Append whose batches are well-formed."""

    partition: Partition
    append: LeaderAppend
    headers: Sequence[BatchHeader]
    """Headers of its batches."""
    producers: set[int]
    """Ids of its producers."""
    joins: bool = False
    """Whether the leader has the partition added to the transaction; otherwise the producer has done that."""


class Enlistments:
    """Transactional appends that wait until their producer may append to the partition.

    `admit` is called with each, once its producer may append."""

    def __init__(self, verify: VerifyPartition, join: VerifyPartition, admit: Callable[[AdmittedAppend], None]) -> None:
        """Create an object without appends.

        `verify` checks that the partition is in the transaction; `join` adds it first."""
        self._verify, self._join, self._admit = verify, join, admit
        self._held: dict[_Key, deque[AdmittedAppend]] = {}
        """Appends that wait until their producer is enlisted, by replica and producer."""
        self._tasks: set[asyncio.Task[None]] = set()

    def hold(self, admitted: AdmittedAppend, transactional_id: str) -> bool:
        """Keep a transactional append until its producer may append; return False if it may append already."""
        append = admitted.append
        [producer_id] = admitted.producers
        producer = TransactionalProducer(transactional_id, producer_id, admitted.headers[0].producer_epoch)
        key = append.replica, producer
        held = self._held.get(key)
        if held is None and append.replica.transactions.is_enlisted(producer_id, _permission_of(producer)):
            return False
        append.replica.transactions.note_waiting(admitted.headers[0], transactional_id)
        if held is None:
            self._held[key] = deque([admitted])
            task = asyncio.get_running_loop().create_task(self._enlist(key), name="enlistment")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif len(held) < _HELD_MAX:
            held.append(admitted)
        else:
            append.future.set_exception(
                Overloaded(f"{admitted.partition.name}: {_HELD_MAX} appends wait for their transaction; retry")
            )
        return True

    async def _enlist(self, key: _Key) -> None:
        """Enlist a producer, and admit or fail its held appends."""
        replica, producer = key
        held = self._held[key]
        error: RaftlogError | None = None
        try:
            await self._enlist_producer(replica, held[0], producer)
        except RaftlogError as failed:
            error = failed
            if isinstance(failed, InvalidProducerMapping):
                replica.transactions.forget_name(producer.producer_id, producer.transactional_id)
        del self._held[key]
        for admitted in held:
            if admitted.append.future.done():
                continue
            if error is None:
                self._admit(admitted)
            else:
                admitted.append.future.set_exception(copied_error(error))

    async def _enlist_producer(
        self, replica: Replica, admitted: AdmittedAppend, producer: TransactionalProducer
    ) -> None:
        """Enlist a producer in the partition. Raises the errors of `Participant.enlist`.

        If the leader adds the partition to the transaction itself (`admitted.joins`), wait for the marker of the
        producer's previous transaction and retry, until the deadline."""
        partition, deadline, joins = admitted.partition, admitted.append.deadline, admitted.joins
        ask = self._join if joins else self._verify

        async def verify() -> ConfirmedTransaction:
            """Ask the transaction's coordinator whether it contains the partition."""
            return await ask(producer, partition.topic_id, partition.number, deadline=deadline)

        wanted = _permission_of(producer)
        while True:
            try:
                await replica.transactions.enlist(producer.producer_id, wanted, verify, deadline, joins=joins)
            except ConcurrentTransactions:
                if not joins or not await replica.transactions.wait_for_marker(deadline):
                    raise
            else:
                return

    def close(self) -> None:
        """Fail the held appends; none of them happened."""
        for task in self._tasks:
            task.cancel()
        held, self._held = self._held, {}
        for appends in held.values():
            for partition, append, *_ in appends:
                if not append.future.done():
                    append.future.set_exception(LogClosed(f"{partition.name}: the broker stops"))


def _permission_of(producer: TransactionalProducer) -> AppendPermission:
    """Return the permission to append for the producer's transaction."""
    return AppendPermission(producer.epoch, producer.transactional_id)
