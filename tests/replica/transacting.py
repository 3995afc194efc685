"""Transactions on the simulated replicas of `worlds`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from raftlog.partitions.replica import AppendPermission, ReplicaAppended
from raftlog.partitions.results import ConfirmedTransaction, Fetched
from raftlog.records import NO_NUMBER, BatchBuilder, NewRecord, TransactionMarker, drop_hidden, read_records
from raftlog.records.header import CRC_START, TRANSACTIONAL_BIT, batch_crc
from raftlog.types import Isolation, Offset
from tests.replica.producing import ProducerWorld

WAIT_S = 5.0


def transactional_batch(
    sequence: int, *values: bytes, producer: int = 7, epoch: int = 0, key: bytes | None = None
) -> bytearray:
    """Build a batch of a transaction; without `key` each value has a key of its own."""
    builder = BatchBuilder(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    for value in values:
        builder.append(NewRecord(value, b"k" + value if key is None else key, 1000), 1000)
    batch = builder.build()
    batch[CRC_START + 1] |= TRANSACTIONAL_BIT
    batch[17:21] = batch_crc(batch).to_bytes(4, "big")
    return batch


def visible_values(fetched: Fetched) -> list[bytes]:
    """Return the values that a reader of committed records sees."""
    batches = drop_hidden(fetched.batches, fetched.aborted)
    return [record.value or b"" for batch in batches for record in read_records(batch)]


class TransactionWorld(ProducerWorld):
    """World of replicas with transactional producers, without a coordinator."""

    def enlist(
        self,
        number: int,
        producer: int = 7,
        epoch: int = 0,
        verify: Callable[[], Awaitable[ConfirmedTransaction]] | None = None,
        name: str = "tx",
        *,
        joins: bool = False,
    ) -> "asyncio.Task[None]":
        """Begin to enlist; by default the coordinator confirms at once."""
        deadline = self.deadline(number, WAIT_S)
        wanted, question = AppendPermission(epoch, name), verify or confirm
        return self.call(
            number, lambda replica: replica.transactions.enlist(producer, wanted, question, deadline, joins=joins)
        )

    def begin(self, number: int, producer: int = 7, epoch: int = 0) -> None:
        """Enlist the producer."""
        task = self.enlist(number, producer, epoch)
        self.run_until(task.done)
        task.result()

    def write(
        self, number: int, sequence: int, *values: bytes, producer: int = 7, epoch: int = 0
    ) -> "asyncio.Future[ReplicaAppended]":
        return self.send_batches(number, transactional_batch(sequence, *values, producer=producer, epoch=epoch))

    def written(self, number: int, sequence: int, *values: bytes, producer: int = 7, epoch: int = 0) -> ReplicaAppended:
        future = self.write(number, sequence, *values, producer=producer, epoch=epoch)
        self.run_until(future.done)
        return future.result()

    def end(
        self,
        number: int,
        *,
        is_commit: bool,
        producer: int = 7,
        epoch: int = 0,
        coordinator: int = 1,
        transaction: int = NO_NUMBER,
    ) -> "asyncio.Task[None]":
        """Begin to write a marker; `transaction` is the number of the transaction."""
        marker = TransactionMarker(producer, epoch, is_commit, coordinator, transaction)
        deadline = self.deadline(number, WAIT_S)
        return self.call(number, lambda replica: replica.transactions.end_transaction(marker, deadline))

    def ended(self, number: int, *, is_commit: bool, **options: int) -> None:
        """Write a marker; the options are those of `end`."""
        task = self.end(number, is_commit=is_commit, **options)
        self.run_until(task.done)
        task.result()

    def transact(
        self, number: int, sequence: int, *values: bytes, is_commit: bool = True, producer: int = 7, epoch: int = 0
    ) -> None:
        """Write a whole transaction, each value in a batch of its own."""
        self.begin(number, producer, epoch)
        for at, value in enumerate(values):
            self.written(number, sequence + at, value, producer=producer, epoch=epoch)
        self.ended(number, is_commit=is_commit, producer=producer, epoch=epoch)

    def stable(self, number: int) -> Offset:
        """Return the last stable offset of a replica."""
        [found] = self.run_at(number, lambda: self.replica(number).last_stable_offset)
        assert isinstance(found, int)
        return Offset(found)

    def fetch_committed(
        self, number: int, offset: int, *, wait: float = 0.0, min_bytes: int = 0, max_bytes: int = 1 << 20
    ) -> "asyncio.Task[Fetched]":
        deadline, isolation = self.deadline(number, wait), Isolation.READ_COMMITTED
        return self.call(number, lambda replica: replica.fetch(offset, max_bytes, min_bytes, deadline, isolation))

    def committed_fetch(self, number: int, offset: int, *, max_bytes: int = 1 << 20) -> Fetched:
        task = self.fetch_committed(number, offset, max_bytes=max_bytes)
        self.run_until(task.done)
        return task.result()

    def committed_values(self, number: int, *, max_bytes: int = 1 << 20) -> list[bytes]:
        """Return all values that a reader of committed records sees, from the log start on."""
        values: list[bytes] = []
        offset: int = self.group(number).log_start_offset
        while True:
            found = self.committed_fetch(number, offset, max_bytes=max_bytes)
            if not found.batches:
                return values
            values += visible_values(found)
            after = int.from_bytes(found.batches[-1][:8], "big") + int.from_bytes(found.batches[-1][23:27], "big") + 1
            assert after > offset
            offset = after

    def crash_and_restart_all(self) -> None:
        for number in (1, 2, 3):
            self.crash(number, power=True)
        for number in (1, 2, 3):
            self.start(number)

    def error_of(self, task: "asyncio.Future[Any]") -> type[BaseException]:
        self.run_until(task.done)
        return type(task.exception())


async def confirm() -> ConfirmedTransaction:
    """Answer as the coordinator: the transaction is under way."""
    return ConfirmedTransaction(1)
