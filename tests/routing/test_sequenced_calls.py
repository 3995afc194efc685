"""Calls of idempotent producers in a produce queue: sent alone, in order, and retried after a lost answer."""

import asyncio

import pytest

from raftlog.errors import (
    DeadlineExceeded,
    DuplicateSequence,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    OutOfOrderSequence,
    ProducerFenced,
    StorageFull,
)
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.produce.pending import Pending
from raftlog.partitions.produce.produce_queue import ProduceQueue
from raftlog.partitions.replica import ReplicaAppended
from raftlog.records import BatchBuilder, NewRecord
from raftlog.types import Offset
from tests.routing.test_produce_queue import FakeLeader, add_call, run_turns


@pytest.fixture
async def leader():
    return FakeLeader()


@pytest.fixture
async def queue(leader):
    return ProduceQueue(leader, (Budget(100_000, "t/0"), Budget(100_000, "all")), Counters(), lambda: 5)


def add_sequenced_call(queue, sequence, producer=7, ms=60_000):
    builder = BatchBuilder(producer_id=producer, producer_epoch=0, base_sequence=sequence)
    builder.append(NewRecord(b"%d" % sequence), 5)
    batch = builder.build()
    future = asyncio.get_running_loop().create_future()
    pending = Pending((), [batch], 1, len(batch), -1, deadline_in(ms), future, frozenset((producer,)))
    assert queue.try_add(pending)
    return future


async def test_sequenced_calls_are_sent_alone_without_waits(queue, leader):
    futures = [add_sequenced_call(queue, number) for number in range(6)]
    plain = [add_call(queue, b"x"), add_call(queue, b"y")]
    last = add_sequenced_call(queue, 6)
    await run_turns(20)
    assert [leader.values(number) for number in range(8)] == [*([b"%d" % n] for n in range(6)), [b"x", b"y"], [b"6"]]
    for number in reversed(range(8)):
        leader.answer(number)
    assert [await future for future in (*futures, *plain, last)] == [8, 7, 6, 5, 4, 3, 1, 2, 0]


async def test_a_batch_of_unknown_outcome_is_retried_until_a_leader_returns_its_offset(queue, leader):
    first, second = add_sequenced_call(queue, 0), add_sequenced_call(queue, 1)
    await run_turns()
    leader.refuse(0, OutcomeUnknown("the connection broke"))
    leader.refuse(1, OutOfOrderSequence("0 is missing"))
    await run_turns()
    leader.changed.set()
    await run_turns(20)
    assert leader.values(2) == [b"0"]
    leader.appends[2][1].set_result(ReplicaAppended(Offset(40), Offset(41), 1, Offset(50), True))
    await run_turns(20)
    assert leader.values(3) == [b"1"]
    leader.appends[3][1].set_result(ReplicaAppended(Offset(41), Offset(42), 1, Offset(50)))
    assert (await first, await second) == (40, 41)
    assert queue._counters.duplicates == 1
    assert queue._counters.records_in == 1


async def test_a_jump_of_the_sequence_is_an_error_without_earlier_calls(queue, leader):
    future, other = add_sequenced_call(queue, 5), add_sequenced_call(queue, 0, producer=8)
    await run_turns()
    leader.refuse(0, OutOfOrderSequence("a jump"))
    with pytest.raises(OutOfOrderSequence):
        await future
    leader.answer(1)
    await other


async def test_unknown_outcomes_stay_unknown_after_a_later_refusal(queue, leader):
    for refusal in (ProducerFenced("a newer epoch"), StorageFull("full"), DuplicateSequence("long ago")):
        future = add_sequenced_call(queue, 0)
        await run_turns()
        leader.refuse(-1, OutcomeUnknown("the connection broke"))
        await run_turns()
        leader.changed.set()
        await run_turns(20)
        leader.refuse(-1, refusal)
        with pytest.raises(OutcomeUnknown):
            await future


async def test_a_call_that_expires_before_its_retry_is_unknown(queue, leader):
    future, definite = add_sequenced_call(queue, 0, ms=50), add_sequenced_call(queue, 0, producer=8, ms=50)
    await run_turns()
    leader.refuse(0, OutcomeUnknown("the connection broke"))
    leader.refuse(1, NotLeader("it moved"))
    with pytest.raises(OutcomeUnknown):
        await future
    with pytest.raises(Exception, match="nothing was appended") as caught:
        await definite
    assert caught.value.outcome == "failed"
    assert not isinstance(caught.value, DeadlineExceeded)


async def test_an_unsent_batch_is_unaffected_by_the_refusal_of_another(queue, leader):
    first, second = add_sequenced_call(queue, 0), add_sequenced_call(queue, 1)
    await run_turns()
    leader.refuse(1, OutOfOrderSequence("0 is missing"))
    await run_turns()
    third = add_sequenced_call(queue, 0, producer=8, ms=30)
    with pytest.raises(NoLeader):
        await third
    leader.answer(0)
    leader.changed.set()
    await run_turns(20)
    leader.answer(2)
    assert (await first, await second) == (0, 1)


async def test_a_duplicate_needs_no_consecutive_offsets(queue, leader):
    future = add_sequenced_call(queue, 0)
    await run_turns()
    leader.appends[0][1].set_result(ReplicaAppended(Offset(3), Offset(9), 1, Offset(9), True))
    assert await future == 3
