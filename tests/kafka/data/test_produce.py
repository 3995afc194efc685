"""Produce at the leader: versions, acknowledgements, refusals, sequences, order."""

import asyncio

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.errors import OutcomeUnknown, Overloaded, RaftlogError
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.leader import append_groups
from raftlog.records import HEADER_SIZE, read_header, split_batches
from raftlog.records.header import batch_crc, header_bytes
from tests.kafka.data.requests import CLASSES, decode_values, make_batch, make_sequenced_batch
from tests.waiting import until


@pytest.mark.parametrize("version", range(3, 10))
@pytest.mark.parametrize("acks", [-1, 1])
async def test_records_are_stored_as_they_are_sent(lone, version, acks):
    first = await lone.produce(make_batch(b"a", b"b"), version=version, acks=acks)
    second = await lone.produce(make_batch(b"c"), version=version, acks=acks)
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error_code, second.base_offset) == (0, 2)
    if version >= 5:
        assert second.log_start_offset == 0
    sizes = len(make_batch(b"a", b"b")) + len(make_batch(b"c"))
    row = await lone.fetch_one(0, min_bytes=sizes, max_wait_ms=5_000)
    assert decode_values(row.records) == [b"a", b"b", b"c"]
    assert (
        read_header(row.records).leader_epoch
        == lone.broker.parts.topics.find("t").partitions[0].replica.group.core.term
    )


async def test_epoch_and_sequence_are_ignored_without_a_producer_id(lone):
    """KafkaJS sends producer id -1 with zeros in every batch, so no batch is a duplicate of another."""
    offsets = [(await lone.produce(make_sequenced_batch(-1, 0, b"same"))).base_offset for _ in range(3)]
    assert offsets == [0, 1, 2]


async def test_with_acks_0_there_is_no_answer(lone):
    assert await lone.produce(make_batch(b"a"), acks=0) is None
    row = await lone.fetch_one(0, max_wait_ms=5_000)
    assert decode_values(row.records) == [b"a"]


async def test_with_acks_0_an_error_closes_the_connection(lone):
    with pytest.raises(RaftlogError, match="magic 1"):
        await lone.produce(make_batch(b"a")[:16] + b"\1" + make_batch(b"a")[17:], acks=0)


async def test_each_partition_has_its_own_result(lone):
    answer = await lone.produce_all(
        {
            ("t", 0): make_batch(b"a"),
            ("t", 1): make_batch(b"b", b"c"),
            ("t", 7): make_batch(b"d"),
            ("none", 0): make_batch(b"e"),
        }
    )
    rows = [row for topic in answer.responses for row in topic.partition_responses]
    assert [row.error_code for row in rows] == [0, 0, 3, 3]
    assert [row.base_offset for row in rows] == [0, 0, -1, -1]


async def test_a_partition_named_twice_is_refused(lone):
    request, _ = CLASSES[ApiKey.PRODUCE]
    part = request.TopicProduceData
    rows = [part.PartitionProduceData(index=0, records=make_batch(value)) for value in (b"a", b"b")]
    topics = [part(name="t", partition_data=rows), part(name="t", partition_data=rows[:1])]
    answer = await lone.send(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=topics)
    codes = [[row.error_code for row in topic.partition_responses] for topic in answer.responses]
    assert codes == [[0, ErrorCode.INVALID_REQUEST], [ErrorCode.INVALID_REQUEST]]
    assert (await lone.list_offset(-1)).offset == 1


def _replace_byte(place: int, value: int) -> bytes:
    data = bytearray(make_batch(b"abc"))
    data[place] = value
    return bytes(data)


def _sealed_batch(**fields: int) -> bytes:
    """Return a batch of one record with these fields of its header, and the CRC for them."""
    data = make_batch(b"abc")
    lying = header_bytes(read_header(data)._replace(**fields)) + data[HEADER_SIZE:]
    return header_bytes(read_header(lying)._replace(crc=batch_crc(lying))) + data[HEADER_SIZE:]


BAD = {
    "null": (None, ErrorCode.INVALID_RECORD),
    "empty": (b"", ErrorCode.INVALID_RECORD),
    "too short": (make_batch(b"a")[:30], ErrorCode.INVALID_RECORD),
    "cut": (make_batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
    "magic 0": (_replace_byte(16, 0), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "magic 1": (_replace_byte(16, 1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "wrong CRC": (_replace_byte(-1, 255), ErrorCode.CORRUPT_MESSAGE),
    "too large": (make_batch(bytes(9_000_000)), ErrorCode.MESSAGE_TOO_LARGE),
    "an id that was never given out": (make_sequenced_batch(1 << 40, 0, b"a"), ErrorCode.UNKNOWN_PRODUCER_ID),
    "the next id": (make_sequenced_batch(0, 0, b"a"), ErrorCode.UNKNOWN_PRODUCER_ID),
    "an id of the sink on Spark": (make_sequenced_batch(1 << 62, 0, b"a"), ErrorCode.UNKNOWN_PRODUCER_ID),
    "the highest id": (make_sequenced_batch((1 << 63) - 1, 7, b"a"), ErrorCode.UNKNOWN_PRODUCER_ID),
    "timestamps of a broker": (_sealed_batch(attributes=0x08), ErrorCode.INVALID_TIMESTAMP),
    "a negative timestamp": (_sealed_batch(base_timestamp=-2), ErrorCode.INVALID_TIMESTAMP),
    "a negative greatest timestamp": (_sealed_batch(max_timestamp=-(1 << 63)), ErrorCode.INVALID_TIMESTAMP),
    "more records than bytes": (_sealed_batch(record_count=99, last_offset_delta=98), ErrorCode.INVALID_RECORD),
    "fewer records than offsets": (_sealed_batch(last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "no records": (_sealed_batch(record_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
    "a control batch": (_sealed_batch(attributes=0x20), ErrorCode.INVALID_RECORD),
    "a transactional batch": (_sealed_batch(attributes=0x10), ErrorCode.INVALID_RECORD),
    "an unknown codec": (_sealed_batch(attributes=0x05), ErrorCode.INVALID_RECORD),
    "a length beyond the request": (_sealed_batch(batch_length=1 << 30), ErrorCode.INVALID_RECORD),
    "a negative length": (_sealed_batch(batch_length=-1), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", BAD)
async def test_invalid_batches_are_refused(lone, name):
    records, code = BAD[name]
    row = await lone.produce(records)
    assert row.error_code == code
    assert row.base_offset == -1
    assert row.error_message
    assert (await lone.list_offset(-1)).offset == 0


async def test_unknown_acknowledgements_are_refused(lone):
    assert (await lone.produce(make_batch(b"a"), acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS


async def test_batches_outside_of_transactions_are_refused_in_one(lone):
    row = await lone.produce(make_batch(b"a"), transactional_id="x")
    assert row.error_code == ErrorCode.INVALID_RECORD


async def test_compacted_topics_accept_records_with_keys_in_order(lone):
    await lone.broker.create_topic("c", 1, config={"cleanup.policy": "compact"}, deadline=deadline_in(10_000))
    rows = await asyncio.gather(
        *(lone.produce(make_batch(b"%d" % each, key=b"k"), topic="c") for each in range(5)),
        lone.produce(make_batch(b"x"), topic="c"),
        lone.produce(make_batch(b"5", key=b"k"), topic="c"),
    )
    assert [row.error_code for row in rows] == [0] * 5 + [ErrorCode.INVALID_RECORD, 0]
    found = await lone.fetch_one(0, topic="c")
    assert decode_values(found.records) == [b"%d" % each for each in range(6)]


async def test_internal_topics_are_refused(lone):
    await lone.broker.parts.changes.ensure_internal("__x", 1, {}, deadline_in(10_000))
    assert (await lone.produce(make_batch(b"a"), topic="__x")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_retry_returns_the_offset_of_the_original(lone):
    producer = await lone.new_producer()
    first = await lone.produce(make_sequenced_batch(producer, 0, b"a", b"b"))
    await lone.produce(make_batch(b"between"))
    again = await lone.produce(make_sequenced_batch(producer, 0, b"a", b"b"))
    assert (first.error_code, again.error_code, again.base_offset) == (0, 0, first.base_offset)
    assert (await lone.list_offset(-1)).offset == 3


async def test_sequences_must_follow(lone):
    producer = await lone.new_producer()
    codes = [
        (await lone.produce(make_sequenced_batch(producer, sequence, b"a", epoch=epoch))).error_code
        for sequence, epoch in [(0, 1), (2, 1), (1, 1), (2, 0), (5, 2), (0, 2)]
    ]
    assert codes == [
        0,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        0,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        0,
    ]


async def test_a_producer_unknown_to_the_partition_may_begin_with_any_sequence(lone):
    producer = await lone.new_producer()
    assert (await lone.produce(make_sequenced_batch(producer, 41, b"a"))).error_code == 0
    assert (await lone.produce(make_sequenced_batch(producer, 42, b"b"))).error_code == 0
    for sequence in (44, 40):  # 40 was never stored here: clients count the code of a duplicate as a success
        code = (await lone.produce(make_sequenced_batch(producer, sequence, b"c"))).error_code
        assert code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


async def test_an_expired_producer_may_begin_again_with_any_sequence(lone):
    producer = await lone.new_producer()
    assert (await lone.produce(make_sequenced_batch(producer, 0, b"a"))).error_code == 0
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    await replica._sequence_check.expire([(producer, 0)], "test")
    assert (await lone.produce(make_sequenced_batch(producer, 1, b"b"))).error_code == 0
    assert (await lone.produce(make_sequenced_batch(producer, 2, b"c"))).error_code == 0
    again = await lone.produce(make_sequenced_batch(producer, 0, b"a"))
    assert again.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER


async def test_requests_in_flight_keep_their_order(lone):
    producer = await lone.new_producer()
    rows = await asyncio.gather(
        *(lone.produce(make_sequenced_batch(producer, each, b"s%d" % each)) for each in range(20)),
        *(lone.produce(make_batch(b"p%d" % each)) for each in range(20)),
    )
    assert [row.error_code for row in rows] == [0] * 40
    offsets = [row.base_offset for row in rows]
    assert offsets[:20] == sorted(offsets[:20])
    assert offsets[20:] == sorted(offsets[20:])
    assert sorted(offsets) == list(range(40))


async def test_appends_without_space_wait_in_their_order(lone, monkeypatch):
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    usual, refused = replica.append, 0

    def refuse_at_first(batches, acks, **more):
        nonlocal refused
        if refused == 3:
            return usual(batches, acks, **more)
        refused += 1
        return replica._failed_future(Overloaded("full"))

    monkeypatch.setattr(replica, "append", refuse_at_first)
    waiting = [asyncio.create_task(lone.produce(make_batch(b"%d" % each))) for each in range(3)]
    rows = await asyncio.gather(*waiting, lone.produce(make_batch(b"3")))
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, each) for each in range(4)]


async def test_idempotent_appends_without_space_wait_in_their_order(lone, monkeypatch):
    """Appends refused as one proposal are proposed again as one, before those that came later."""
    producers = [await lone.new_producer() for _ in range(3)]
    assert (await lone.produce(make_sequenced_batch(producers[0], 0, b"first"))).error_code == 0
    group = lone.broker.parts.topics.find("t").partitions[0].replica.group
    usual, sizes = group.append, []

    def refuse_at_first(batches):
        sizes.append(len(batches))
        if len(sizes) < 3:
            raise Overloaded("full")
        return usual(batches)

    monkeypatch.setattr(group, "append", refuse_at_first)
    waiting = [asyncio.create_task(lone.produce(make_sequenced_batch(producers[0], each, b"a"))) for each in (1, 2)]
    waiting += [asyncio.create_task(lone.produce(make_sequenced_batch(each, 0, b"b"))) for each in producers[1:]]
    await asyncio.sleep(0)
    rows = await asyncio.gather(*waiting, lone.produce(make_sequenced_batch(producers[0], 3, b"c")))
    assert [(row.error_code, row.base_offset) for row in rows] == [(0, 1 + each) for each in range(5)]
    assert (sizes[0], sizes[-1]) == (4, 5)


async def test_appends_of_one_loop_turn_have_separate_outcomes(lone):
    """The batches contain a duplicate and a gap among new ones, and a producer without a sequence between them."""
    first, second = [await lone.new_producer() for _ in range(2)]
    assert (await lone.produce(make_sequenced_batch(first, 0, b"0"))).error_code == 0
    sent = [
        make_sequenced_batch(first, 1, b"1", b"2"),
        make_sequenced_batch(second, 0, b"a"),
        make_sequenced_batch(first, 0, b"0"),
        make_batch(b"plain"),
        make_sequenced_batch(first, 5, b"?"),
        make_sequenced_batch(first, 3, b"3"),
        make_sequenced_batch(second, 1, b"b"),
    ]
    rows = await asyncio.gather(*map(lone.produce, sent))
    gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [row.error_code for row in rows] == [0, 0, 0, 0, gap, 0, 0]
    assert [row.base_offset for row in rows] == [1, 3, 0, 4, -1, 5, 6]
    row = await lone.fetch_one(0, max_wait_ms=5_000)
    assert decode_values(row.records) == [b"0", b"1", b"2", b"a", b"plain", b"3", b"b"]


async def test_single_records_of_one_loop_turn_share_a_batch(lone):
    """Each call has its own offset; larger batches and those of idempotent producers separate the others."""
    several, sequenced = make_batch(b"x", b"y"), make_sequenced_batch(await lone.new_producer(), 0, b"z")
    calls = [*(make_batch(b"%d" % number) for number in range(9)), several, make_batch(b"9"), make_batch(b"10")]
    rows = await asyncio.gather(*(lone.produce(each) for each in (*calls, sequenced, make_batch(b"11"))))
    assert [row.base_offset for row in rows] == [*range(10), 11, 12, 13, 14]
    row = await lone.fetch_one(0, max_wait_ms=5_000)
    expected = [*(b"%d" % number for number in range(9)), b"x", b"y", b"9", b"10", b"z", b"11"]
    assert decode_values(row.records) == expected
    assert [header.record_count for header, _ in split_batches(row.records)] == [9, 2, 2, 1, 1]


async def test_merged_batches_keep_the_topic_s_bound(lone):
    await lone.broker.create_topic("small", 1, config={"max.message.bytes": "1024"}, deadline=deadline_in(10_000))
    await lone.broker.produce_batches("small", 0, make_batch(b"-1"), deadline=deadline_in(10_000))  # it has a leader
    rows = await asyncio.gather(*(lone.produce(make_batch(b"%300d" % number), topic="small") for number in range(6)))
    assert [row.base_offset for row in rows] == list(range(1, 7))
    row = await lone.fetch_one(1, topic="small", max_wait_ms=5_000)
    sizes = [header.size for header, _ in split_batches(row.records)]
    assert max(sizes) <= 1024
    assert 1 < len(sizes) < 6
    assert [int(value) for value in decode_values(row.records)] == list(range(6))


async def test_an_append_without_space_at_its_deadline_is_definitely_refused(lone, monkeypatch):
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    monkeypatch.setattr(replica, "append", lambda *_, **__: replica._failed_future(Overloaded("full")))
    answer = await lone.produce_all({("t", 0): make_batch(b"a")}, timeout_ms=30)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS


async def test_an_append_without_a_commit_is_unknown(lone, monkeypatch):
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(replica, "append", lambda *_, **__: never)
    answer = await lone.produce_all({("t", 0): make_batch(b"a")}, timeout_ms=30)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_an_append_that_is_gathered_at_its_deadline_is_not_proposed(lone, monkeypatch):
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    never, proposed = asyncio.get_running_loop().create_future(), []

    def keep(batches, acks, **_):
        proposed.append(len(batches))
        return never

    monkeypatch.setattr(replica, "append", keep)
    monkeypatch.setattr(append_groups, "GATHER_S", 60.0)
    first = asyncio.create_task(lone.produce(make_batch(bytes(append_groups.BUSY_BYTES))))
    await until(lambda: proposed)
    answer = await lone.produce_all({("t", 0): make_batch(b"a")}, timeout_ms=30)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    never.set_exception(OutcomeUnknown("the leader changed"))
    assert (await first).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert proposed == [1], "its client was told that nothing was appended"


async def test_every_producer_gets_another_id(lone):
    ids = [await lone.new_producer() for _ in range(3)]
    assert len(set(ids)) == 3
    answer = await lone.send(
        ApiKey.INIT_PRODUCER_ID,
        4,
        transactional_id=None,
        transaction_timeout_ms=1,
        producer_id=ids[0],
        producer_epoch=0,
    )
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id not in ids
