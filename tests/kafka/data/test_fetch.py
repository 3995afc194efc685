"""Fetch at the leader: limits, long polls over many partitions, offsets inside of batches, sessions."""

import asyncio

import pytest
from kafka.protocol.consumer import FetchRequest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.leader.fetch import PartitionFetch, PartitionsFetch
from raftlog.records import crc_matches, read_header
from raftlog.records.empty import build_empty_batch
from raftlog.runtime.memory_budget import MemoryBudget
from tests.kafka.data.requests import Handlers, decode_values, fetch_fields, make_batch
from tests.waiting import until

LONG_MS = 20_000


@pytest.mark.parametrize("version", range(4, 13))
async def test_every_version_returns_records_and_bounds(lone, version):
    await lone.produce(make_batch(b"a", b"b"))
    rows = await lone.fetch({("t", 0): 0, ("t", 1): 0}, version=version)
    full, empty = rows["t", 0], rows["t", 1]
    assert decode_values(full.records) == [b"a", b"b"]
    assert (full.error_code, full.high_watermark, full.last_stable_offset) == (0, 2, 2)
    assert (empty.error_code, empty.high_watermark, decode_values(empty.records)) == (0, 0, [])
    assert not full.aborted_transactions
    if version >= 5:
        assert full.log_start_offset == 0
    if version >= 11:
        assert full.preferred_read_replica == -1


async def test_read_committed_gets_an_empty_list_of_aborted_transactions(lone):
    await lone.produce(make_batch(b"a"))
    row = await lone.fetch_one(0, isolation_level=1)
    assert (decode_values(row.records), row.aborted_transactions) == ([b"a"], [])
    assert (await lone.fetch_one(0)).aborted_transactions is None


async def test_the_batch_that_covers_the_offset_is_returned(lone):
    await lone.produce(make_batch(b"a", b"b", b"c"))
    await lone.produce(make_batch(b"d"))
    row = await lone.fetch_one(1)
    assert read_header(row.records).base_offset == 0
    assert decode_values(row.records) == [b"a", b"b", b"c", b"d"]
    assert decode_values((await lone.fetch_one(3)).records) == [b"d"]


async def test_a_partition_of_another_broker_or_topic_returns_an_error_at_once(lone):
    rows = await lone.fetch({("t", 0): 0, ("t", 9): 0, ("none", 0): 0}, max_wait_ms=LONG_MS)
    assert [row.error_code for row in rows.values()] == [0, 3, 3]


async def test_offsets_outside_of_the_log_are_out_of_range(lone):
    await lone.produce(make_batch(b"a"))
    await lone.produce(make_batch(b"b"))
    assert (await lone.delete_records(1)).low_watermark == 1
    for offset in (0, 3, 1 << 40):
        row = await lone.fetch_one(offset, max_wait_ms=LONG_MS)
        assert row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE, offset


# limits


async def test_a_batch_above_every_limit_is_returned_alone(lone):
    for number in (0, 1):
        await lone.produce(make_batch(bytes(1_000)), number)
        await lone.produce(make_batch(bytes(1_000)), number)
    rows = await lone.fetch({("t", 0): 0, ("t", 1): 0}, partition_max_bytes=1, max_bytes=1, max_wait_ms=LONG_MS)
    assert [len(decode_values(row.records)) for row in rows.values()] == [1, 0]
    assert [row.high_watermark for row in rows.values()] == [2, 2]


async def test_the_limit_per_partition_is_kept(lone):
    size = len(make_batch(bytes(1_000)))
    for _ in range(5):
        await lone.produce(make_batch(bytes(1_000)))
    await lone.produce(make_batch(b"x"), 1)
    async with asyncio.timeout(LONG_MS / 2000):
        rows = await lone.fetch(
            {("t", 0): 0, ("t", 1): 0}, partition_max_bytes=2 * size + 1, min_bytes=1 << 20, max_wait_ms=LONG_MS
        )
    assert [len(decode_values(row.records)) for row in rows.values()] == [2, 1], "a full partition waits for no other"


async def test_the_limit_of_all_partitions_is_kept(lone):
    size = len(make_batch(bytes(1_000)))
    for number in (0, 1):
        for _ in range(3):
            await lone.produce(make_batch(bytes(1_000)), number)
    rows = await lone.fetch({("t", 1): 0, ("t", 0): 0}, max_bytes=4 * size)
    assert [len(decode_values(row.records)) for row in rows.values()] == [3, 1], "in the order of the request"


# long polls


async def start_poll(handlers: Handlers, offsets, **more) -> "asyncio.Task":
    """Start a fetch that waits; return its task."""
    task = asyncio.create_task(handlers.fetch(offsets, max_wait_ms=LONG_MS, **more))
    replicas = [partition.replica for partition in handlers.broker.parts.topics.find("t").partitions]
    await until(lambda: any(replica.waiting_count for replica in replicas))
    return task


async def test_a_poll_ends_with_a_record_of_any_partition(lone):
    task = await start_poll(lone, {("t", 0): 0, ("t", 1): 0})
    await lone.produce(make_batch(b"a"), 1)
    rows = await task
    assert [decode_values(row.records) for row in rows.values()] == [[], [b"a"]]
    assert not any(each.replica.waiting_count for each in lone.broker.parts.topics.find("t").partitions)


async def test_a_poll_counts_the_bytes_of_all_partitions(lone):
    size = len(make_batch(b"a"))
    task = await start_poll(lone, {("t", 0): 0, ("t", 1): 0}, min_bytes=3 * size)
    await lone.produce(make_batch(b"a"), 0)
    await lone.produce(make_batch(b"a"), 1)
    await asyncio.sleep(0)
    assert not task.done()
    await lone.produce(make_batch(b"a"), 0)
    rows = await task
    assert [len(decode_values(row.records)) for row in rows.values()] == [2, 1]


async def test_a_poll_returns_the_present_records_at_its_timeout(lone):
    await lone.produce(make_batch(b"a"))
    rows = await lone.fetch({("t", 0): 0, ("t", 1): 0}, min_bytes=1 << 20, max_wait_ms=30)
    assert [decode_values(row.records) for row in rows.values()] == [[b"a"], []]


async def test_a_poll_ends_when_the_broker_stops(lone):
    task = await start_poll(lone, {("t", 0): 0})
    lone.broker.wake_fetches()
    rows = await asyncio.wait_for(task, LONG_MS / 2000)
    assert rows["t", 0].error_code == 0
    assert await lone.fetch({("t", 0): 0}, max_wait_ms=LONG_MS), "none waits from now on"


async def test_a_poll_ends_when_its_topic_is_deleted(lone):
    task = await start_poll(lone, {("t", 0): 0})
    await lone.broker.delete_topic("t", deadline=deadline_in(10_000))
    assert (await task)["t", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_cancelled_poll_leaves_no_watch(lone):
    task = await start_poll(lone, {("t", 0): 0, ("t", 1): 0})
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(each.replica.waiting_count for each in lone.broker.parts.topics.find("t").partitions)


# sessions and epochs


@pytest.mark.parametrize(("session_id", "session_epoch", "code"), [(0, -1, 0), (7, 1, 70), (0, 1, 70), (7, -1, 0)])
async def test_requests_without_a_known_session(lone, session_id, session_epoch, code):
    fields = fetch_fields({("t", 0): 0}, session_id=session_id, session_epoch=session_epoch)
    answer = await lone.send(ApiKey.FETCH, 12, **fields)
    assert (answer.error_code, answer.session_id) == (code, 0)
    assert len(answer.responses) == (0 if code else 1)


async def test_leader_epochs_are_checked(lone):
    term = lone.broker.parts.topics.find("t").partitions[0].replica.group.core.term
    codes = [(await lone.fetch_one(0, epoch=epoch)).error_code for epoch in (-1, term, term + 1, term - 1)]
    assert codes == [0, 0, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.FENCED_LEADER_EPOCH]


# removed records


def test_a_batch_without_records_spans_offsets():
    data = build_empty_batch(5, 12, 3)
    header = read_header(data)
    assert (header.base_offset, header.next_offset, header.record_count, header.leader_epoch) == (5, 12, 0, 3)
    assert crc_matches(data, header)


async def test_a_reader_skips_offsets_whose_records_were_all_removed(lone, monkeypatch):
    await lone.produce(make_batch(b"a", b"b"))
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    replica.group.write_entries()
    replica.group.log.segments.mark_durable(replica.group.log.written_index)
    monkeypatch.setattr(replica.group, "read", lambda *_: [])
    row = await lone.fetch_one(1)
    header = read_header(row.records)
    assert (header.base_offset, header.next_offset, header.record_count) == (1, 2, 0)


async def test_a_fetch_of_many_idle_partitions_costs_few_calls_each(lone):
    import sys

    await lone.broker.create_topic("wide", 200, deadline=deadline_in(30_000))
    requests = [PartitionFetch("wide", number, -1, 0, 1_000) for number in range(200)]
    partitions = lone.broker.parts.topics.find("wide").partitions
    await until(lambda: all(each.replica is not None and each.replica.is_leader for each in partitions))
    calls = 0

    def count(_, event, __):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = await lone.broker.leader.fetches.fetch(requests, max_bytes=1_000, min_bytes=0, deadline=deadline_in(0))
    finally:
        sys.setprofile(None)
    assert [each.error for each in found] == [None] * 200
    assert calls / 200 <= 12


# memory


async def test_a_waiting_fetch_holds_few_bytes(lone, monkeypatch):
    size = len(make_batch(bytes(100_000)))
    await lone.produce(make_batch(bytes(100_000)))
    held = []
    turn = PartitionsFetch._wait_turn

    async def turn_and_measure(fetch, deadline):
        held.append(sum(map(len, fetch._results[0].batches)))
        return await turn(fetch, deadline)

    monkeypatch.setattr(PartitionsFetch, "_wait_turn", turn_and_measure)
    task = await start_poll(lone, {("t", 0): 0, ("t", 1): 0}, min_bytes=size + 1)
    await lone.produce(make_batch(b"a"), 1)
    rows = await task
    assert [len(decode_values(row.records)) for row in rows.values()] == [1, 1]
    assert (held, len(rows["t", 0].records)) == ([0], size)


async def test_an_answer_takes_no_more_than_the_free_memory(lone):
    size = len(make_batch(bytes(1_000)))
    for _ in range(3):
        await lone.produce(make_batch(bytes(1_000)))
    for free, count in ((1 << 20, 3), (2 * size, 2), (1, 1), (0, 0), (-5, 0)):
        [found] = await lone.broker.leader.fetches.fetch(
            [PartitionFetch("t", 0, -1, 0, 1 << 20)],
            max_bytes=1 << 20,
            min_bytes=1 << 20,
            deadline=deadline_in(LONG_MS if count < 3 else 0),
            free_bytes=lambda free=free: free,
        )
        assert (len(found.batches), found.high_watermark, found.error) == (count, 3, None), free


async def test_a_fetch_without_free_memory_waits_for_it(lone):
    await lone.produce(make_batch(b"a"))
    answers = MemoryBudget(100)
    handlers = Handlers(lone.broker, answers=answers)
    answers.take_anyway("a slow reader", 100)
    row = await handlers.fetch_one(0, max_wait_ms=10)
    assert (decode_values(row.records), row.high_watermark, row.error_code) == ([], 1, 0)
    task = asyncio.create_task(handlers.fetch_one(0, max_wait_ms=LONG_MS))
    await until(lambda: answers.refused >= 2)
    answers.release("a slow reader")
    assert decode_values((await task).records) == [b"a"]


async def test_a_partition_named_twice_is_answered_once(lone):
    await lone.produce(make_batch(b"a"))
    part = FetchRequest.FetchTopic
    fields = fetch_fields({("t", 0): 0, ("t", 1): 0})
    fields["topics"] += [part(topic="none", partitions=[]), *fields["topics"], *fields["topics"]]
    answer = await lone.send(ApiKey.FETCH, 12, **fields)
    assert [(each.topic, [row.partition_index for row in each.partitions]) for each in answer.responses] == [
        ("t", [0, 1]),
        ("none", []),
    ]
    assert decode_values(answer.responses[0].partitions[0].records) == [b"a"]


async def test_a_fetch_of_many_partitions_does_not_block_the_loop(lone):
    """Records that arrive between two slices end the poll."""
    requests = [PartitionFetch("t", 1, -1, 0, 1_000), *(PartitionFetch("none", n, -1, 0, 1) for n in range(600))]
    fetch = PartitionsFetch(lone.broker.parts.topics, lone.broker.measuring.counters, requests, 1 << 20)
    fetch._is_full = False
    running = asyncio.create_task(fetch.run(1, deadline_in(LONG_MS)))
    await asyncio.sleep(0)
    assert not running.done()
    await lone.produce(make_batch(b"a"), 1)
    assert len((await running)[0].batches) == 1
    assert not any(each.replica.waiting_count for each in lone.broker.parts.topics.find("t").partitions)
