"""Random transactions at three replicas, compared with a list: faults, rolls, retention, compaction, repeated markers.

The test is the coordinator and the producers. After every operation no replica has a last stable offset above an open
transaction, or below its former one; readers of committed records get exactly the committed ones, in order."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

import pytest

from raftlog.errors import (
    ConcurrentTransactions,
    CoordinatorFenced,
    InvalidTransactionState,
    OffsetNotAvailable,
    ProducerFenced,
    RaftlogError,
    Unavailable,
)
from raftlog.partitions.replica import AppendPermission, Replica
from raftlog.partitions.results import ConfirmedTransaction
from raftlog.records import NewRecord, TransactionMarker, build_batch
from raftlog.topic_config import TopicConfig
from tests.replica.transacting import TransactionWorld, transactional_batch

SEEDS = 80
SEEDS_OF_A_TEST = 10
QUICK_SEEDS = 10
"""Seeds of tests that are not slow."""
OPERATIONS = 25
KEYS = [b"k%d" % number for number in range(4)]
TOPICS = (
    TopicConfig(),
    TopicConfig(retention_bytes=6_000),
    TopicConfig(
        cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, min_compaction_lag_ms=0, delete_retention_ms=0
    ),
)


class Written(NamedTuple):
    """Record at an offset."""

    key: bytes
    value: bytes
    transaction: tuple[int, int] | None
    """Producer id and number of its transaction; None for a record outside of transactions."""


class Producer:
    """Transactional producer, with the state that its coordinator would have."""

    def __init__(self, producer_id: int) -> None:
        self.id = producer_id
        self.epoch = self.sequence = 0
        self.number = 0
        """Number of the transaction that is open, or was the last."""
        self.first_offset: int | None = None
        """Offset of the first record of its open transaction."""


class RandomTransactions:
    """One run of random operations."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.topic = TOPICS[seed % len(TOPICS)]
        self.world = TransactionWorld(topic=self.topic)
        self.producers = [Producer(number) for number in (7, 8, 9)]
        self.coordinator = 1
        self.written: dict[int, Written] = {}
        self.committed: set[tuple[int, int]] = set()
        self.sent: list[TransactionMarker] = []
        """Markers of transactions that have ended."""
        self.values = 0
        self.stable: dict[Replica, int] = {}
        """Highest last stable offset of each replica since its start."""

    def run(self) -> None:
        operations: list[tuple[Callable[[], None], int]] = [
            (self.write, 8),
            (self.end, 5),
            (self.append, 3),
            (self.repeat_marker, 3),
            (self.enlist_late, 1),
            (self.fence, 1),
            (self.lose_a_write, 1),
            (self.lose_a_marker, 1),
            (self.change_coordinator, 1),
            (self.change_leader, 1),
            (self.crash, 1),
            (self.roll, 2),
            (self.maintain, 2),
            (self.delete, 1),
            (self.read, 1),
        ]
        for _ in range(OPERATIONS):
            [operation] = self.random.choices(*zip(*operations, strict=True))
            operation()
            self.check_stable()
        for producer in self.producers:
            self.finish(producer, is_commit=False)
        self.maintain()
        self.read()
        self.change_leader()
        self.append()
        self.read()
        assert self.world.has_equal_tables()
        self.world.crash_and_restart_all()
        self.append()
        self.read()

    @property
    def leader(self) -> int:
        return self.world.lead()

    def new_value(self) -> tuple[bytes, bytes]:
        self.values += 1
        return self.random.choice(KEYS), b"%d-" % self.values + bytes(self.random.choice((10, 900)))

    # producers

    def write(self) -> None:
        """Append a record of a transaction, which begins if none is open."""
        producer, leader = self.random.choice(self.producers), self.leader
        self.begin(producer)
        key, value = self.new_value()
        batch = transactional_batch(producer.sequence, value, producer=producer.id, epoch=producer.epoch, key=key)
        future = self.world.send_batches(leader, batch)
        self.world.run_until(future.done)
        offset = future.result().base_offset
        producer.sequence += 1
        self.written[offset] = Written(key, value, (producer.id, producer.number))
        if producer.first_offset is None:
            producer.first_offset = offset

    def begin(self, producer: Producer) -> None:
        """Enlist the producer; a transaction that begins has the next number."""
        if producer.first_offset is None:
            producer.number += 1
        task = self.world.enlist(self.leader, producer.id, producer.epoch, self.confirm)
        self.world.run_until(task.done)
        task.result()

    async def confirm(self) -> ConfirmedTransaction:
        return ConfirmedTransaction(self.coordinator)

    def end(self) -> None:
        self.finish(self.random.choice(self.producers), is_commit=self.random.random() < 0.6)

    def finish(self, producer: Producer, *, is_commit: bool, loses_leader: bool = False) -> None:
        """End the transaction of a producer; send the marker until it is written."""
        if producer.first_offset is None:
            return
        marker = TransactionMarker(producer.id, producer.epoch, is_commit, self.coordinator, producer.number)
        if loses_leader:
            self.send(marker)
            self.lose_leader()
        while True:
            task = self.send(marker)
            self.world.run_until(task.done)
            error = task.exception()
            if error is None:
                break
            assert isinstance(error, RaftlogError), error
        self.sent.append(marker)
        if is_commit:
            self.committed.add((producer.id, producer.number))
        producer.first_offset = None

    def send(self, marker: TransactionMarker) -> "asyncio.Task[None]":
        leader = self.leader
        deadline = self.world.deadline(leader, 5)
        return self.world.call(leader, lambda replica: replica.transactions.end_transaction(marker, deadline))

    def append(self) -> None:
        """Append a record outside of transactions."""
        key, value = self.new_value()
        future = self.world.send_batches(self.leader, build_batch([NewRecord(value, key, 1000)]))
        self.world.run_until(future.done)
        self.written[future.result().base_offset] = Written(key, value, None)

    # what must change nothing

    def repeat_marker(self) -> None:
        """Send a marker of an earlier transaction again, as a delayed request."""
        if self.sent:
            task = self.send(self.random.choice(self.sent))
            self.world.run_until(task.done)
            error = task.exception()
            assert error is None or isinstance(error, ProducerFenced | CoordinatorFenced), error

    def enlist_late(self) -> None:
        """End a transaction while a leader waits for the coordinator's answer about it."""
        producer, leader = self.random.choice(self.producers), self.leader
        if producer.first_offset is None:
            return
        answer: asyncio.Future[ConfirmedTransaction] = self.world.group_loop(leader).create_future()

        async def verify() -> ConfirmedTransaction:
            return await answer

        is_permitted = self.world.replica(leader).transactions.is_enlisted(
            producer.id, AppendPermission(producer.epoch, "tx")
        )
        task = self.world.enlist(leader, producer.id, producer.epoch, verify)
        self.finish(producer, is_commit=True)
        self.world.run_at(leader, lambda: answer.set_result(ConfirmedTransaction(self.coordinator)))
        self.world.run_until(task.done)
        assert is_permitted or isinstance(task.exception(), ConcurrentTransactions), task.exception()
        late = self.world.write(leader, producer.sequence, b"late", producer=producer.id, epoch=producer.epoch)
        assert self.world.error_of(late) is InvalidTransactionState

    # faults

    def fence(self) -> None:
        """Abort the transaction of a producer with the next epoch, as after its timeout."""
        producer = self.random.choice(self.producers)
        producer.epoch, producer.sequence = producer.epoch + 1, 0
        self.finish(producer, is_commit=False)

    def lose_a_write(self) -> None:
        """Crash the leader during a write: its outcome is unknown, so the producer is fenced."""
        producer, leader = self.random.choice(self.producers), self.leader
        self.begin(producer)
        self.world.write(leader, producer.sequence, b"lost", producer=producer.id, epoch=producer.epoch)
        self.lose_leader()
        producer.epoch, producer.sequence = producer.epoch + 1, 0
        producer.first_offset = producer.first_offset or 0
        self.finish(producer, is_commit=False)

    def lose_a_marker(self) -> None:
        """Crash the leader while it writes a marker, which is then sent to the next one."""
        producer = self.random.choice(self.producers)
        self.finish(producer, is_commit=self.random.random() < 0.5, loses_leader=True)

    def lose_leader(self) -> None:
        world, leader = self.world, self.leader
        world.run(self.random.choice((0, 0.001, 0.003)))
        self.restart(leader)

    def restart(self, number: int) -> None:
        world = self.world
        world.crash(number, power=self.random.random() < 0.5)
        world.run(self.random.choice((0.1, 2)))
        world.start(number)
        world.lead()

    def crash(self) -> None:
        self.restart(self.random.choice((1, 2, 3)))

    def change_leader(self) -> None:
        old = self.leader
        self.world.isolate(old)
        self.world.wait_for_new_leader(old)
        self.world.network.heal()
        self.world.converge()

    def change_coordinator(self) -> None:
        self.coordinator += 1

    # files

    def roll(self) -> None:
        self.append()
        self.world.run(0.1)  # a segment that is rolled has a written record
        with suppress(Unavailable):
            self.world.roll_segment(self.leader)

    def maintain(self) -> None:
        for _ in range(2):
            self.world.run_maintenance()
            self.world.run(3)

    def delete(self) -> None:
        if self.topic.cleanup_policy == "compact":
            return
        leader = self.leader
        start, stable = self.world.group(leader).log_start_offset, self.world.stable(leader)
        before = self.random.randint(start, max(start, stable))
        deadline = self.world.deadline(leader, 5)
        self.world.get(leader, lambda replica: replica.delete_before(before, deadline))

    # checks

    def check_stable(self) -> None:
        """Check the last stable offset of each replica."""
        for number in self.world.drivers:
            replica = self.world.replica(number)
            found: list[int] = []

            def look(replica: Replica = replica, found: list[int] = found) -> None:
                with suppress(OffsetNotAvailable):
                    found.append(replica.last_stable_offset)

            self.world.run_at(number, look)
            for stable in found:
                assert stable <= self.first_open, f"replica {number}: {stable} is above an open transaction"
                assert stable >= self.stable.get(replica, 0), f"replica {number}: {stable} has fallen"
                self.stable[replica] = stable

    @property
    def first_open(self) -> int:
        first = [each.first_offset for each in self.producers if each.first_offset is not None]
        return min(first, default=1 << 62)

    def read(self) -> None:
        """Read all committed records, and compare them with the list."""
        leader = self.leader
        self.world.converge()
        group = self.world.group(leader)
        assert self.world.stable(leader) == min(self.first_open, group.high_watermark)
        max_bytes = self.random.choice((1, 3_000, 1 << 20))
        start = group.log_start_offset
        expected = [
            each
            for offset, each in sorted(self.written.items())
            if start <= offset < self.first_open and (each.transaction is None or each.transaction in self.committed)
        ]
        values = self.world.committed_values(leader, max_bytes=max_bytes)
        if self.topic.cleanup_policy == "compact":
            newest = {each.key: each.value for each in expected}
            assert set(newest.values()) <= set(values)
            expected = [each for each in expected if each.value in set(values)]
        assert values == [each.value for each in expected]


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.slow] if first >= QUICK_SEEDS else [])
        for first in range(0, SEEDS, SEEDS_OF_A_TEST)
    ],
)
def test_readers_get_committed_records_and_no_others(first: int) -> None:
    for seed in range(first, first + SEEDS_OF_A_TEST):
        run_seed(seed)


def run_seed(seed: int) -> None:
    """Run one seed; an error names it."""
    run = RandomTransactions(seed)
    try:
        with run.world:
            run.run()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
