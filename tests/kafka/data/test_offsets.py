"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords at the leader."""

import pytest
from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.errors import OffsetNotAvailable
from raftlog.partitions.deadline import deadline_in
from raftlog.runtime.log.epochs import end_of_term, term_of_record
from tests.kafka.data.requests import make_batch

LATEST, EARLIEST = -1, -2


def current_term(handlers) -> int:
    return handlers.broker.parts.topics.find("t").partitions[0].replica.group.core.term


@pytest.mark.parametrize("version", range(1, 7))
async def test_first_and_last_offsets_are_returned(lone, version):
    await lone.produce(make_batch(b"a", b"b"))
    latest, earliest = [await lone.list_offset(each, version=version) for each in (LATEST, EARLIEST)]
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 2, -1)
    assert (earliest.error_code, earliest.offset, earliest.timestamp) == (0, 0, -1)
    if version >= 4:
        assert latest.leader_epoch == earliest.leader_epoch == current_term(lone)


async def test_an_empty_partition_has_no_epoch(lone):
    for timestamp in (LATEST, EARLIEST):
        row = await lone.list_offset(timestamp)
        assert (row.error_code, row.offset, row.leader_epoch) == (0, 0, -1)


async def test_the_first_record_at_a_time_or_later_is_found(lone):
    for timestamp in (1_000, 3_000, 2_000):
        await lone.produce(make_batch(b"a", b"b", timestamp=timestamp))
    found = [await lone.list_offset(timestamp) for timestamp in (0, 1_000, 1_001, 3_001)]
    assert [(row.offset, row.timestamp) for row in found] == [(0, 1_000), (0, 1_000), (2, 3_000), (-1, -1)]
    assert [row.leader_epoch for row in found] == [current_term(lone)] * 3 + [-1]


async def test_undefined_special_timestamps_are_refused(lone):
    assert (await lone.list_offset(-3)).error_code == ErrorCode.INVALID_REQUEST


async def test_unknown_partitions_and_epochs_are_refused(lone):
    assert (await lone.list_offset(LATEST, 9)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await lone.list_offset(LATEST, topic="none")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    term = current_term(lone)
    assert (await lone.list_offset(LATEST, epoch=term - 1)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (await lone.list_offset(LATEST, epoch=term + 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("version", "code"), [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)]
)
async def test_a_leader_without_a_known_end_returns_an_error_by_version(lone, monkeypatch, version, code):
    replica = lone.broker.parts.topics.find("t").partitions[0].replica

    async def raise_unknown(*_):
        raise OffsetNotAvailable("new")

    monkeypatch.setattr(replica, "offsets", raise_unknown)
    assert (await lone.list_offset(LATEST, version=version)).error_code == code


@pytest.mark.parametrize("version", range(2, 5))
async def test_the_end_of_the_current_epoch_is_the_log_end(lone, version):
    await lone.produce(make_batch(b"a", b"b"))
    term = current_term(lone)
    row = await lone.end_of_epoch(term, version=version)
    assert (row.error_code, row.leader_epoch, row.end_offset) == (0, term, 2)
    for asked in (term + 1, -1):
        row = await lone.end_of_epoch(asked, version=version)
        assert (row.error_code, row.leader_epoch, row.end_offset) == (0, -1, -1)
    assert (await lone.end_of_epoch(term, epoch=term + 1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await lone.end_of_epoch(term, epoch=term - 1)).error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_epochs_end_where_a_later_one_begins(lone):
    replica = lone.broker.parts.topics.find("t").partitions[0].replica
    terms = []
    for _ in range(3):
        await lone.produce(make_batch(b"a", b"b"))
        terms.append(replica.group.core.term)
        replica.group.step_down("test")
        while not replica.is_leader:
            await lone.broker.node.leader_changed(replica.group.group_id, deadline_in(10_000))
    assert terms == sorted(set(terms)), "each in a term of its own"
    found = [await lone.end_of_epoch(term) for term in terms]
    assert [(row.leader_epoch, row.end_offset) for row in found] == [(terms[0], 2), (terms[1], 4), (terms[2], 6)]
    log = replica.group.log
    assert [term_of_record(log, offset) for offset in range(7)] == [
        *(term for term in terms for _ in range(2)),
        None,
    ]
    assert end_of_term(log, 0) == (0, 0)


@pytest.mark.parametrize("version", range(3))
async def test_records_below_an_offset_are_deleted(lone, version):
    for _ in range(3):
        await lone.produce(make_batch(b"a"))
    row = await lone.delete_records(2, version=version)
    assert (row.error_code, row.low_watermark) == (0, 2)
    assert (await lone.list_offset(EARLIEST)).offset == 2
    row = await lone.delete_records(-1, version=version)
    assert (row.error_code, row.low_watermark) == (0, 3)
    for offset in (9, -2, -(1 << 63)):
        row = await lone.delete_records(offset, version=version)
        assert (row.error_code, row.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    row = await lone.delete_records(1, topic="none", version=version)
    assert (row.error_code, row.low_watermark) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


async def test_a_partition_named_twice_is_refused(lone):
    await lone.produce(make_batch(b"a"))
    part = ListOffsetsRequest.ListOffsetsTopic
    rows = [
        part.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=-1) for number in (0, 1, 0)
    ]
    topics = [part(name="t", partitions=rows), part(name="none", partitions=rows[:1])]
    answer = await lone.send(ApiKey.LIST_OFFSETS, 6, replica_id=-1, isolation_level=0, topics=topics)
    codes = [[row.error_code for row in topic.partitions] for topic in answer.topics]
    assert codes == [[ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]]
    part = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    rows = [part.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=1)] * 2
    answer = await lone.send(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=[part(topic="t", partitions=rows)]
    )
    assert [row.error_code for row in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2
    part = DeleteRecordsRequest.DeleteRecordsTopic
    rows = [part.DeleteRecordsPartition(partition_index=0, offset=1)] * 2
    answer = await lone.send(ApiKey.DELETE_RECORDS, 2, topics=[part(name="t", partitions=rows)], timeout_ms=10_000)
    assert [row.error_code for row in answer.topics[0].partitions] == [ErrorCode.INVALID_REQUEST] * 2
    assert (await lone.list_offset(-2)).offset == 0
