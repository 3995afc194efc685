"""Idempotent producers on the simulated replicas of `worlds`."""

import asyncio
from functools import partial

from raftlog.partitions.replica import ReplicaAppended
from raftlog.partitions.results import ALL, Acks
from raftlog.records import BatchBuilder, Compression, NewRecord
from tests.replica.worlds import ReplicaWorld
from tests.runtime.drivers import GROUP


def batch_of(
    sequence: int, *values: bytes, producer: int = 7, epoch: int = 0, compression: Compression = Compression.NONE
) -> bytearray:
    builder = BatchBuilder(compression, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    for value in values:
        builder.append(NewRecord(value, None, 1000), 1000)
    return builder.build()


class ProducerWorld(ReplicaWorld):
    """World of replicas with idempotent producers."""

    def send(
        self,
        number: int,
        sequence: int,
        *values: bytes,
        producer: int = 7,
        epoch: int = 0,
        acks: Acks = ALL,
    ) -> "asyncio.Future[ReplicaAppended]":
        """Send one batch, as the code of the node's process."""
        return self.send_batches(number, batch_of(sequence, *values, producer=producer, epoch=epoch), acks=acks)

    def send_batches(self, number: int, *batches: bytearray, acks: Acks = ALL) -> "asyncio.Future[ReplicaAppended]":
        [future] = self.run_at(number, lambda: self.replica(number).append(list(batches), acks))
        assert isinstance(future, asyncio.Future)
        future.add_done_callback(lambda done: done.exception())
        return future

    def send_and_wait(
        self, number: int, sequence: int, *values: bytes, producer: int = 7, epoch: int = 0
    ) -> ReplicaAppended:
        future = self.send(number, sequence, *values, producer=producer, epoch=epoch)
        self.run_until(future.done)
        return future.result()

    def refusal_of(self, number: int, sequence: int, *, producer: int = 7, epoch: int = 0) -> type[BaseException]:
        future = self.send(number, sequence, b"?", producer=producer, epoch=epoch)
        self.run_until(future.done)
        return type(future.exception())

    def run_maintenance(self) -> None:
        for number in sorted(number for number in self.drivers if GROUP.bytes in self.drivers[number].groups):
            now_ms = self.nodes[number - 1].wall_ns() // 1_000_000
            self.run_at(number, partial(self.replica(number).run_maintenance, now_ms))
        self.run(0.5)

    def producers_of(self, number: int) -> dict[int, object]:
        """Return a replica's table of producers."""
        table = self.replica(number)._producers.table
        return {producer: table.get(producer) for producer in sorted(table)}

    def has_equal_tables(self) -> bool:
        self.converge()
        self.run(0.5)
        known = [self.producers_of(number) for number in self.drivers]
        return all(each == known[0] for each in known)

    def roll_segment(self, number: int) -> None:
        [future] = self.run_at(number, lambda: self.group(number).roll_now())
        self.run_until(future.done)  # type: ignore[attr-defined]
        future.result()  # type: ignore[attr-defined]
        self.run(0.5)
