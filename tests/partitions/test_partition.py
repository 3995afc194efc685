"""One partition: records that arrive together share a batch and a sync, and every caller learns its outcome."""

import asyncio

import pytest

from raftlog.config import LogConfig
from raftlog.errors import (
    DeadlineExceeded,
    InvalidArgument,
    InvalidBatch,
    LogClosed,
    Overloaded,
    RecordTooLarge,
    StorageFull,
    SyncFailed,
)
from raftlog.partitions.deadline import NEVER, deadline_in
from raftlog.partitions.results import ALL
from raftlog.records import NewRecord, build_batch, read_header, read_records


def stored(partition):
    batches = partition.log.read(0, 1 << 30) if partition.log.high_watermark else []
    return [record.value for batch in batches for record in read_records(batch)]


def produce(partition, *values, acks=ALL, deadline=None):
    records = [NewRecord(value) for value in values]
    return asyncio.ensure_future(partition.produce_records(records, acks, deadline or deadline_in(10_000)))


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_records_of_one_turn_share_one_batch_and_one_append(open_partition):
    partition = open_partition()
    offsets = await asyncio.gather(*[produce(partition, b"%d" % n) for n in range(50)])
    assert offsets == list(range(50))
    assert stored(partition) == [b"%d" % n for n in range(50)]
    assert partition.counters.appends == 1
    assert partition.counters.batches_in == 1


async def test_records_that_come_during_a_flush_go_with_the_next_one(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    calls = [produce(partition, b"first")]
    await turns()
    calls += [produce(partition, b"later %d" % n) for n in range(20)]
    await turns()
    assert partition.counters.appends == 1
    disk.let_go()
    assert await asyncio.gather(*calls) == list(range(21))
    assert partition.counters.appends == 2


async def test_batches_keep_their_place_among_records(open_partition):
    partition = open_partition()
    batch = build_batch([b"b0", b"b1"])
    calls = [
        produce(partition, b"r0"),
        asyncio.ensure_future(partition.produce_batches(bytes(batch), ALL, NEVER)),
        produce(partition, b"r1", b"r2"),
    ]
    assert await asyncio.gather(*calls) == [0, (1, 3), 3]
    assert stored(partition) == [b"r0", b"b0", b"b1", b"r1", b"r2"]
    assert partition.counters.appends == 1


async def test_an_accumulated_batch_is_bounded(open_partition):
    partition = open_partition(accumulate_bytes=4096)
    await asyncio.gather(*[produce(partition, b"x" * 1000) for _ in range(20)])
    batches = partition.log.read(0, 1 << 30)
    assert len(batches) > 4
    assert all(read_header(batch).size <= 4096 for batch in batches)


async def test_many_records_of_one_call_stay_together_over_several_batches(open_partition):
    partition = open_partition(accumulate_bytes=4096)
    values = [b"%d" % n * 50 for n in range(200)]
    first, base, last = await asyncio.gather(
        produce(partition, b"a"), produce(partition, *values), produce(partition, b"z")
    )
    assert (first, base, last) == (0, 1, 201)
    assert stored(partition) == [b"a", *values, b"z"]


async def test_timestamps_keys_and_headers_are_kept(open_partition):
    partition = open_partition()
    record = NewRecord(b"v", b"k", 1234, [("h", b"x"), ("n", None)])
    await partition.produce_records([record], ALL, NEVER)
    (found,) = read_records(partition.log.read(0, 1000)[0])
    assert (found.key, found.value, found.timestamp, list(found.headers)) == (
        b"k",
        b"v",
        1234,
        [("h", b"x"), ("n", None)],
    )


async def test_a_deadline_before_the_append_means_that_it_did_not_happen(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    first = produce(partition, b"first")
    await turns()
    late = produce(partition, b"late", deadline=deadline_in(1))
    with pytest.raises(Overloaded, match="was not") as caught:
        await late
    assert caught.value.outcome == "failed"
    disk.let_go()
    await first
    await produce(partition, b"next")
    assert stored(partition) == [b"first", b"next"]


async def test_a_deadline_that_has_passed_already_appends_nothing(open_partition):
    partition = open_partition()
    with pytest.raises(Overloaded):
        await produce(partition, b"x", deadline=deadline_in(-1))
    assert partition.log.log_end_offset == 0


async def test_a_deadline_after_the_append_is_unknown_and_the_record_may_stay(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    with pytest.raises(DeadlineExceeded, match="offset 0") as caught:
        await produce(partition, b"x", deadline=deadline_in(1))
    assert caught.value.outcome == "unknown"
    disk.let_go()
    assert await produce(partition, b"y") == 1
    assert stored(partition) == [b"x", b"y"]


async def test_a_failed_sync_is_unknown_for_what_was_appended_and_stops_the_rest(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    appended = produce(partition, b"appended")
    await turns()
    queued = produce(partition, b"queued")
    await turns()
    disk.fail_sync()
    disk.let_go()
    with pytest.raises(SyncFailed) as caught:
        await appended
    assert caught.value.outcome == "unknown"
    for refused in (queued, produce(partition, b"after")):
        with pytest.raises(LogClosed) as caught:
            await refused
        assert caught.value.outcome == "failed"


async def test_a_full_disk_refuses_and_goes_on_when_there_is_room(disk, open_partition):
    partition = open_partition()
    await produce(partition, b"before")
    disk.capacity_bytes = sum(map(len, disk.snapshot().values())) + 100
    results = await asyncio.gather(*[produce(partition, bytes([n]) * 5000) for n in range(3)], return_exceptions=True)
    assert [type(result) for result in results] == [StorageFull] * 3
    assert all(result.outcome == "failed" for result in results)
    disk.capacity_bytes = None
    assert await produce(partition, b"after") == 1
    assert stored(partition) == [b"before", b"after"]


async def test_without_acks_the_answer_comes_before_the_sync(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    assert await produce(partition, b"one", acks=1) == 0
    assert await produce(partition, b"zero", acks=0) == -1
    assert partition.log.high_watermark == 0
    disk.let_go()
    assert await produce(partition, b"all") == 2
    assert stored(partition) == [b"one", b"zero", b"all"]


async def test_past_the_budget_a_producer_waits_and_is_let_in(disk, open_partition):
    partition = open_partition(budget_bytes=2000)
    disk.is_held = True
    first = produce(partition, b"x" * 1500)
    await turns()
    second = produce(partition, b"y" * 1500)
    await turns()
    assert partition.counters.throttled == 1
    disk.let_go()
    assert await asyncio.gather(first, second) == [0, 1]


async def test_past_the_budget_and_the_deadline_it_is_overloaded(disk, open_partition):
    partition = open_partition(budget_bytes=2000)
    disk.is_held = True
    first = produce(partition, b"x" * 1500)
    await turns()
    with pytest.raises(Overloaded, match="send more slowly"):
        await produce(partition, b"y" * 1500, deadline=deadline_in(1))
    disk.let_go()
    await first
    assert partition._queue._budgets[0].used == 0


async def test_a_record_that_cannot_be_encoded_fails_alone(open_partition):
    partition = open_partition()
    bad = asyncio.ensure_future(
        partition.produce_records([NewRecord(b"ok"), NewRecord(b"x", timestamp=1 << 70)], ALL, NEVER)
    )
    good = [produce(partition, b"a"), produce(partition, b"b")]
    assert await asyncio.gather(*good) == [0, 1]
    with pytest.raises(InvalidArgument):
        await bad
    assert stored(partition) == [b"a", b"b"]
    assert partition._queue._budgets[0].used == 0


async def test_a_record_above_the_limit_is_refused_by_name(open_partition):
    partition = open_partition(LogConfig(max_message_bytes=1024))
    with pytest.raises(RecordTooLarge, match=r"max\.message\.bytes=1024"):
        await produce(partition, b"x" * 1100)
    await produce(partition, b"x" * 880)


async def test_bad_batches_are_refused_whole(open_partition):
    partition = open_partition()
    good, bad = build_batch([b"good"]), build_batch([b"bad"])
    bad[-1] ^= 1
    with pytest.raises(InvalidBatch, match="CRC"):
        await partition.produce_batches(bytes(good + bad), ALL, NEVER)
    assert partition.log.log_end_offset == 0


async def test_a_caller_that_goes_away_in_the_queue_is_not_appended(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    first = produce(partition, b"first")
    await turns()
    gone = produce(partition, b"gone")
    await turns()
    gone.cancel()
    await turns()
    disk.let_go()
    await first
    assert await produce(partition, b"second") == 1
    assert stored(partition) == [b"first", b"second"]


async def test_a_relaxed_policy_answers_when_written_and_syncs_by_its_timer(disk, open_partition):
    partition = open_partition(LogConfig(flush_messages=1000, flush_ms=1))
    waiting = asyncio.ensure_future(partition.fetch(0, 1000, 1, deadline_in(10_000)))
    assert await produce(partition, b"soon") == 0
    fetched = await asyncio.wait_for(waiting, 5)
    assert fetched.high_watermark == 1
    assert disk.sync_count > 0


async def test_closing_refuses_what_is_queued_and_keeps_what_was_appended(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    appended = produce(partition, b"appended")
    await turns()
    queued = produce(partition, b"queued")
    await turns()
    partition.close()
    assert await appended == 0
    with pytest.raises(LogClosed):
        await queued
    with pytest.raises(LogClosed):
        await produce(partition, b"after")
    assert stored(open_partition()) == [b"appended"]


async def test_a_fetch_waits_until_enough_is_visible(disk, open_partition):
    partition = open_partition()
    waiting = asyncio.ensure_future(partition.fetch(0, 1 << 20, 300, deadline_in(10_000)))
    await produce(partition, b"x" * 100)
    await turns()
    assert not waiting.done()
    await produce(partition, b"x" * 100)
    fetched = await waiting
    assert sum(map(len, fetched.batches)) >= 300
    assert fetched.high_watermark == 2


async def test_a_fetch_does_not_see_what_is_not_durable(disk, open_partition):
    partition = open_partition()
    disk.is_held = True
    call = produce(partition, b"x")
    await turns()
    assert (await partition.fetch(0, 1000, 1, deadline_in(1))).batches == []
    disk.let_go()
    await call
    assert len((await partition.fetch(0, 1000, 1, deadline_in(1))).batches) == 1


async def test_a_fetch_gives_what_there_is_when_time_is_up(open_partition):
    partition = open_partition()
    await produce(partition, b"x")
    fetched = await partition.fetch(0, 1000, 900, deadline_in(1))
    assert len(fetched.batches) == 1


async def test_closing_wakes_waiting_fetches(open_partition):
    partition = open_partition()
    waiting = asyncio.ensure_future(partition.fetch(0, 1000, 1, deadline_in(10_000)))
    await turns()
    partition.close()
    assert (await waiting).batches == []
