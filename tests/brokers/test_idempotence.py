"""Idempotent producers, deleted records and compacted topics on three brokers, through any of them."""

import asyncio

import pytest

from raftlog.errors import (
    InvalidArgument,
    NoLeader,
    NotLeader,
    OffsetOutOfRange,
    OutcomeUnknown,
    OutOfOrderSequence,
    Unavailable,
    UnknownProducer,
)
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import ProducerSequence
from raftlog.records import BatchBuilder, NewRecord, read_records

SOON = 10_000


def batch_of(producer, sequence, *values, epoch=0):
    builder = BatchBuilder(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    for value in values:
        builder.append(NewRecord(value, b"k"), 1000)
    return builder.build()


async def produce(broker, producer, sequence, *values, topic="t"):
    body = batch_of(producer, sequence, *values)
    return await broker.produce_batches(topic, 0, body, deadline=deadline_in(SOON))


async def fetch_values(broker, topic="t"):
    fetched = await broker.fetch(topic, 0, 0, max_bytes=1 << 20, min_bytes=0, deadline=deadline_in(SOON))
    return [record.value for batch in fetched.batches for record in read_records(batch)]


async def allocate_ids(broker, count):
    return [(await broker.producers.allocate(deadline_in(SOON))).producer_id for _ in range(count)]


async def test_producer_ids_are_unique_across_brokers_and_restarts(brokers):
    given = [
        each
        for part in await asyncio.gather(*(allocate_ids(brokers[number], 3) for number in (1, 2, 3)))
        for each in part
    ]
    assert len(set(given)) == 9
    assert given[0] + 1 == given[1]
    await brokers.stop(2)
    await brokers.start(2)
    assert min(await allocate_ids(brokers[2], 2)) > max(given)


async def test_a_fresh_id_is_above_all_ids_given_before(brokers):
    given = [*await allocate_ids(brokers[1], 2), *await allocate_ids(brokers[2], 2)]
    fresh = await asyncio.gather(
        *(brokers[number].producers.allocate(deadline_in(SOON), is_fresh=True) for number in (1, 1, 1, 3))
    )
    ids = [each.producer_id for each in fresh]
    assert min(ids) > max(given)
    assert len(set(ids)) == 4
    assert ids[2] == ids[1] + 1  # those that came while the first block was taken share the next one
    [later] = await allocate_ids(brokers[1], 1)
    assert later == ids[2] + 1
    again = await brokers[1].producers.allocate(deadline_in(SOON), is_fresh=True)
    assert again.producer_id > max(*ids, later)


async def test_a_retry_through_any_broker_after_a_failover_is_stored_once(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(SOON))
    [producer] = await allocate_ids(brokers[3], 1)
    for sequence in range(3):
        done = await produce(brokers[sequence + 1], producer, sequence, b"%d" % sequence)
        assert (done.base_offset, done.next_offset, done.is_duplicate) == (sequence, sequence + 1, False)
    leader = await brokers.leader("t")
    await brokers.stop(leader)
    for number, broker in brokers.running.items():
        again = await produce(broker, producer, 1, b"1")
        assert (again.base_offset, again.is_duplicate) == (1, True), number
        with pytest.raises(OutOfOrderSequence):
            await produce(broker, producer, 5, b"jump")
        with pytest.raises(UnknownProducer):
            await produce(broker, producer + 1, 5, b"nobody")
    assert (await produce(next(iter(brokers.running.values())), producer, 3, b"3")).base_offset == 3
    await brokers.start(leader)
    await brokers.stop(*brokers.running)
    await brokers.start()
    again = await produce(brokers[leader], producer, 2, b"2")
    assert (again.base_offset, again.is_duplicate) == (2, True)
    assert await fetch_values(brokers[leader]) == [b"0", b"1", b"2", b"3"]


async def test_concurrent_calls_of_many_producers_are_stored_once_and_in_order(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(SOON))
    await allocate_ids(brokers[1], 1)  # ids 0 to 999 are given out with it
    leader = await brokers.leader("t")

    async def run(number, producer):
        broker = brokers[number]
        sent = [asyncio.create_task(produce(broker, producer, each, b"%d:%d" % (producer, each))) for each in range(30)]
        done = await asyncio.gather(*sent)
        offsets = [each.base_offset for each in done]
        assert offsets == sorted(offsets)
        again = await asyncio.gather(*(produce(broker, producer, each, b"x") for each in range(25, 30)))
        assert [each.base_offset for each in again] == offsets[-5:]

    await asyncio.gather(*(run(number, 10 * number + each) for number in (1, 2, 3) for each in range(3)))
    values = await fetch_values(brokers[leader])
    assert len(values) == len(set(values)) == 9 * 30
    assert brokers[1].parts.counters.duplicates == 15


async def test_records_and_their_producer_can_be_in_one_call(brokers):
    await brokers[1].create_topic("t", 2, deadline=deadline_in(SOON))
    await allocate_ids(brokers[1], 1)  # ids 0 to 999 are given out with it
    records = [NewRecord(b"a"), NewRecord(b"b")]
    for is_again in (False, True):
        results = await brokers[2].produce_records(
            "t", 1, records, deadline=deadline_in(SOON), producer=ProducerSequence(4, 0, 0)
        )
        assert [tuple(each) for each in results] == [(1, 0, None, is_again), (1, 1, None, is_again)]
    with pytest.raises(InvalidArgument, match="one partition"):
        await brokers[2].produce_records(
            "t", None, records, deadline=deadline_in(SOON), producer=ProducerSequence(4, 0, 2)
        )


async def test_ids_that_were_never_given_are_refused(brokers):
    """A broker with stale metadata refuses them too, but only with a retriable error."""
    await brokers[1].create_topic("t", 1, deadline=deadline_in(SOON))
    for number in (1, 2, 3):
        with pytest.raises(UnknownProducer, match="never given out"):
            await produce(brokers[number], 5_000, 0, b"invented")
        [result] = await brokers[number].produce_records(
            "t", 0, [NewRecord(b"a")], deadline=deadline_in(SOON), producer=ProducerSequence(5_000, 0, 0)
        )
        assert isinstance(result.error, UnknownProducer)
    [producer] = await allocate_ids(brokers[1], 1)
    lagging = brokers[3].metadata
    await lagging.barrier(deadline_in(SOON))
    known = lagging._copy.state.next_producer_id
    lagging._copy.state.next_producer_id = 0
    reads = []
    barrier = lagging.barrier

    async def catch_up(deadline):
        reads.append(deadline)
        await barrier(deadline)
        lagging._copy.state.next_producer_id = known

    lagging.barrier = catch_up
    done = await asyncio.gather(*(produce(brokers[3], producer + each, 0, b"%d" % each) for each in range(20)))
    assert len(done) == 20
    assert len(reads) == 1

    async def fail(deadline):
        raise NoLeader("no majority")

    lagging.barrier = fail
    with pytest.raises(Unavailable, match="; retry"):
        await produce(brokers[3], 5_000, 0, b"invented")
    assert len(await fetch_values(brokers[1])) == 20


async def test_a_deletion_with_a_lost_answer_is_unknown_if_no_other_broker_answers(brokers, monkeypatch):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(SOON))
    await allocate_ids(brokers[1], 1)  # ids 0 to 999 are given out with it
    for sequence in range(3):
        await produce(brokers[1], 1, sequence, b"%d" % sequence)
    leader = await brokers.leader("t")
    other = next(broker for number, broker in brokers.running.items() if number != leader)
    router, asked = other.parts.router, []

    async def forward_once(node, name, *args):
        asked.append(name)
        if len(asked) > 1:
            raise NotLeader("it does not lead any more")
        await read(node, name, *args)
        raise OutcomeUnknown("the connection broke")

    read = router.read
    monkeypatch.setattr(router, "read", forward_once)
    with pytest.raises(OutcomeUnknown, match="the connection broke"):
        await other.delete_records("t", 0, 2, deadline=deadline_in(300))
    assert len(asked) > 1
    with pytest.raises(NoLeader):
        await other.delete_records("t", 0, 3, deadline=deadline_in(300))
    monkeypatch.undo()
    assert (await other.offsets("t", 0, deadline=deadline_in(SOON))).beginning == 2


async def test_records_are_deleted_through_any_broker(brokers):
    await brokers[1].create_topic("t", 1, deadline=deadline_in(SOON))
    await allocate_ids(brokers[1], 1)  # ids 0 to 999 are given out with it
    for sequence in range(5):
        await produce(brokers[1], 1, sequence, b"%d" % sequence)
    for number in (1, 2, 3):
        assert await brokers[number].delete_records("t", 0, number, deadline=deadline_in(SOON)) == number
    with pytest.raises(OffsetOutOfRange):
        await brokers[1].delete_records("t", 0, 6, deadline=deadline_in(SOON))
    with pytest.raises(OffsetOutOfRange):
        await fetch_values(brokers[2])
    assert (await produce(brokers[2], 1, 0, b"0")).base_offset == 0
