"""Produce queue with a fake leader under test control: order, retries, outcomes, budgets, deadlines."""

import asyncio

import pytest

from raftlog.errors import (
    DeadlineExceeded,
    NoLeader,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    StorageFull,
    UnknownTopic,
)
from raftlog.partitions.budget import Budget
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.produce.pending import Pending, record_size
from raftlog.partitions.produce.produce_queue import ProduceQueue
from raftlog.partitions.replica import ReplicaAppended
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.types import Offset


class FakeLeader:
    """Fake leader that accepts appends and answers them on demand."""

    name = "t/0"
    batch_bytes_max = 1 << 20

    def __init__(self):
        self.appends = []
        self.changed = asyncio.Event()
        self.next_offset = 0

    leader = 1

    def no_leader_error(self):
        return None

    def append(self, batches, acks, deadline):
        future = asyncio.get_running_loop().create_future()
        self.appends.append((batches, future))
        return future

    async def wait_for_leader_change(self, deadline):
        await self.changed.wait()
        self.changed.clear()

    def values(self, number):
        return [record.value for batch in self.appends[number][0] for record in read_records(batch)]

    def answer(self, number):
        batches, future = self.appends[number]
        count = sum(len(list(read_records(batch))) for batch in batches)
        base, self.next_offset = self.next_offset, self.next_offset + count
        future.set_result(ReplicaAppended(Offset(base), Offset(self.next_offset), 1, Offset(self.next_offset)))

    def refuse(self, number, error):
        self.appends[number][1].set_exception(error)


@pytest.fixture
async def leader():
    return FakeLeader()


@pytest.fixture
async def queue(leader):
    return ProduceQueue(leader, (Budget(1_000, "t/0"), Budget(10_000, "all")), Counters(), lambda: 5)


def add_call(queue, value, acks=-1, ms=60_000, batches=()):
    record = NewRecord(value)
    future = asyncio.get_running_loop().create_future()
    count = 1
    pending = Pending(() if batches else [record], batches, count, record_size(record), acks, deadline_in(ms), future)
    assert queue.try_add(pending)
    return future


async def run_turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_calls_of_one_turn_share_an_append_and_have_their_own_offsets(queue, leader):
    futures = [add_call(queue, b"%d" % number) for number in range(3)]
    await run_turns()
    assert leader.values(0) == [b"0", b"1", b"2"]
    leader.answer(0)
    assert await asyncio.gather(*futures) == [0, 1, 2]


async def test_appends_in_flight_are_bounded_and_other_calls_accumulate(queue, leader):
    futures = []
    for number in range(8):
        futures.append(add_call(queue, b"%d" % number))
        await run_turns()
    assert len(leader.appends) == 4
    leader.answer(0)
    await run_turns()
    assert leader.values(4) == [b"4", b"5", b"6", b"7"]
    for number in range(1, 5):
        leader.answer(number)
    assert await asyncio.gather(*futures) == list(range(8))


async def test_refused_calls_keep_their_order_and_are_retried(queue, leader):
    first = add_call(queue, b"first")
    await run_turns()
    second = add_call(queue, b"second")
    await run_turns()
    leader.refuse(0, NotLeader("moved"))
    leader.refuse(1, NotLeader("moved"))
    await run_turns()
    third = add_call(queue, b"third")
    await run_turns()
    assert len(leader.appends) == 2, "nothing is sent while the leader is the same"
    leader.changed.set()
    await run_turns()
    assert leader.values(2) == [b"first", b"second", b"third"]
    leader.answer(2)
    assert await asyncio.gather(first, second, third) == [0, 1, 2]


async def test_ready_made_batches_are_retried_as_copies(queue, leader):
    batch = build_batch([NewRecord(b"ready")])
    future = add_call(queue, b"ready", batches=[batch])
    await run_turns()
    leader.refuse(0, NotLeader("moved"))
    leader.changed.set()
    await run_turns()
    again = leader.appends[1][0][0]
    assert again is not batch
    assert again == batch
    leader.answer(1)
    assert await future == 0


@pytest.mark.parametrize("error", [OutcomeUnknown("lost"), StorageFull("full")])
async def test_unknown_and_permanent_failures_are_not_retried(queue, leader, error):
    future = add_call(queue, b"x")
    await run_turns()
    leader.refuse(0, error)
    leader.changed.set()
    with pytest.raises(type(error)):
        await future
    await run_turns()
    assert len(leader.appends) == 1


async def test_a_call_without_a_leader_until_its_deadline_failed(queue, leader):
    future = add_call(queue, b"x", ms=30)
    await run_turns()
    leader.refuse(0, NotLeader("nobody"))
    with pytest.raises(NoLeader, match="nothing was appended") as raised:
        await future
    assert raised.value.outcome == "failed"


async def test_a_call_in_flight_at_its_deadline_is_unknown(queue, leader):
    future = add_call(queue, b"x", ms=30)
    await run_turns()
    with pytest.raises(DeadlineExceeded) as raised:
        await future
    assert raised.value.outcome == "unknown"
    leader.answer(0)
    later = add_call(queue, b"y")
    await run_turns()
    leader.answer(1)
    assert await later == 1


async def test_every_outcome_of_a_call_returns_its_budget(queue, leader):
    own, shared = queue._budgets
    good, bad, late = add_call(queue, b"good"), add_call(queue, b"bad", acks=1), add_call(queue, b"late", ms=20)
    await run_turns()
    assert own.used > 0
    leader.answer(0)
    leader.refuse(1, StorageFull("full"))
    assert await good == 0
    with pytest.raises(StorageFull):
        await bad
    with pytest.raises(DeadlineExceeded):
        await late
    leader.answer(2)
    await run_turns()
    assert (own.used, shared.used) == (0, 0)


async def test_a_call_without_budget_waits_and_then_fails(queue, leader):
    futures = [add_call(queue, b"x" * 400) for _ in range(2)]
    record = NewRecord(b"y" * 400)
    pending = Pending([record], (), 1, record_size(record), -1, deadline_in(20), None)
    assert not queue.try_add(pending)
    with pytest.raises(Overloaded, match="send more slowly"):
        await queue.add_when_room(pending)
    await run_turns()
    leader.answer(0)
    await asyncio.gather(*futures)


async def test_a_closed_queue_refuses_waiting_and_new_calls(queue, leader):
    sent = add_call(queue, b"sent")
    await run_turns()
    leader.refuse(0, NotLeader("moved"))
    await run_turns()
    queue.close(UnknownTopic("deleted"))
    with pytest.raises(UnknownTopic):
        await sent
    with pytest.raises(UnknownTopic):
        add_call(queue, b"later")
    assert queue._budgets[0].used == 0


async def test_calls_expired_without_a_leader_return_their_budget(queue, leader):
    leader.no_leader_error = lambda: NotLeader("nobody")
    futures = [add_call(queue, b"x" * 100, ms=20), add_call(queue, b"y" * 100, acks=0, ms=20)]
    assert [type(error) for error in await asyncio.gather(*futures, return_exceptions=True)] == [NoLeader, NoLeader]
    assert [budget.used for budget in queue._budgets] == [0, 0]
    assert leader.appends == []


async def test_an_answer_for_another_number_of_records_is_unknown(queue, leader):
    futures = [add_call(queue, b"x"), add_call(queue, b"y")]
    await run_turns()
    leader.appends[0][1].set_result(ReplicaAppended(Offset(5), Offset(6), 1, Offset(6)))
    for future in futures:
        with pytest.raises(OutcomeUnknown, match="another number of records"):
            await future
    assert queue._budgets[0].used == 0


async def test_appends_pending_at_a_former_leader_do_not_delay_the_next(queue, leader):
    hanging = []
    for number in range(5):
        hanging.append(add_call(queue, b"%d" % number))
        await run_turns()
    assert len(leader.appends) == 4
    leader.leader = 2
    last = add_call(queue, b"last")
    await run_turns()
    assert leader.values(4) == [b"4", b"last"]
    leader.answer(4)
    assert await last == 1
    for number in range(4):
        leader.answer(number)
    await asyncio.gather(*hanging)
