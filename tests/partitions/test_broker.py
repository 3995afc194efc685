"""The façade: topics and records after crashes, foreign directories and damage."""

import asyncio
import re

import pytest

from raftlog.errors import (
    CorruptBatch,
    DirectoryLocked,
    FormatError,
    InvalidArgument,
    InvalidTimestamp,
    InvalidTopic,
    LogDamaged,
    MissingKey,
    NoLeader,
    OffsetOutOfRange,
    RecordTooLarge,
    StorageError,
    TopicExists,
    UnknownPartition,
    UnknownTopic,
)
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import settings_of
from raftlog.partitions.controller.machine.commands import AlterTopicConfigs
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.results import OffsetCommit
from raftlog.partitions.results import ProducerSequence
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord, build_batch, read_records
from raftlog.records.partitioner import murmur2
from raftlog.topic_config import TopicConfig
from raftlog.types import Offset, TopicPartition
from tests.waiting import until


def soon():
    """Return a deadline 10 s from now."""
    return deadline_in(10_000)


async def values_of(broker, topic, partition=0):
    fetched = await broker.fetch(topic, partition, 0, max_bytes=1 << 20, min_bytes=0, deadline=soon())
    return [record.value for batch in fetched.batches for record in read_records(batch)]


async def test_keys_choose_partitions_and_records_come_back_in_order(open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 3, deadline=soon())
    records = [NewRecord(b"%d" % n, b"key %d" % (n % 5)) for n in range(50)]
    results = await broker.produce_records("t", None, records, deadline=soon())
    for record, result in zip(records, results, strict=True):
        assert result.partition == (murmur2(record.key) & 0x7FFFFFFF) % 3
        assert (await values_of(broker, "t", result.partition))[result.offset] == record.value


async def test_each_record_has_its_own_outcome(open_broker):
    broker = await open_broker(topic_config=TopicConfig(max_message_bytes=1024))
    await broker.create_topic("t", 2, deadline=soon())
    records = [NewRecord(b"a"), NewRecord(b"x" * 2000), NewRecord(b"b"), NewRecord(b"c")]
    results = await broker.produce_records("t", [0, 0, 9, 0], records, deadline=soon())
    assert [(result.offset, type(result.error)) for result in results] == [
        (0, type(None)),
        (None, RecordTooLarge),
        (None, UnknownPartition),
        (1, type(None)),
    ]


async def test_topics_and_records_survive_a_crash(disk, open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 2, config={"retention.ms": "-1"}, deadline=soon())
    await broker.produce_records("t", 1, [NewRecord(b"kept")], deadline=soon())
    await broker.groups.commit("g", {TopicPartition("t", 1): OffsetCommit(Offset(1))}, deadline=soon())
    disk.power_loss()
    again = await open_broker()
    assert again.topics() == ["t"]
    assert (await again.describe_topic("t", deadline=soon())).overrides == {"retention.ms": "-1"}
    assert await values_of(again, "t", 1) == [b"kept"]
    committed = await again.groups.committed("g", deadline=soon())
    assert {place: offset.offset for place, offset in committed.items()} == {TopicPartition("t", 1): 1}
    assert again.node.identity.boot_epoch == 2
    assert again.cluster_id == broker.cluster_id


async def test_a_deleted_topic_does_not_exist_and_its_name_is_free(disk, open_broker):
    broker = await open_broker()
    first = await broker.create_topic("t", 2, deadline=soon())
    await broker.produce_records("t", 0, [NewRecord(b"old")], deadline=soon())
    await broker.groups.commit("g", {TopicPartition("t", 0): OffsetCommit(Offset(1))}, deadline=soon())
    await broker.delete_topic("t", deadline=soon())
    with pytest.raises(UnknownTopic):
        await values_of(broker, "t")
    second = await broker.create_topic("t", 1, deadline=soon())
    assert second.topic_id != first.topic_id
    assert await values_of(broker, "t") == []
    assert await broker.groups.committed("g", deadline=soon()) == {}
    await broker.close()
    await open_broker()
    assert disk.list_directory("/data/.raftlog/trash") == []


async def test_settings_can_be_altered_and_reset(open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 1, deadline=soon())
    await broker.alter_topic_config("t", {"max.message.bytes": "1024"}, deadline=soon())
    (result,) = await broker.produce_records("t", 0, [NewRecord(b"x" * 2000)], deadline=soon())
    assert isinstance(result.error, RecordTooLarge)
    await broker.alter_topic_config("t", {"max.message.bytes": None}, deadline=soon())
    (result,) = await broker.produce_records("t", 0, [NewRecord(b"x" * 2000)], deadline=soon())
    assert result.offset == 0
    with pytest.raises(InvalidArgument, match=r"unknown setting 'max\.bytes'"):
        await broker.alter_topic_config("t", {"max.bytes": "1"}, deadline=soon())


async def test_altered_settings_apply_to_the_next_record(open_broker):
    broker = await open_broker()
    await broker.create_topic("t", config={"max.message.bytes": "1024"}, deadline=soon())

    async def errors():
        records = NewRecord(b"x" * 2000), NewRecord(b"v", b"k")
        done = [await broker.produce_records("t", 0, [record], deadline=soon()) for record in records]
        return [type(result.error) for [result] in done]

    assert await errors() == [RecordTooLarge, type(None)]
    await broker.alter_topic_config("t", {"max.message.bytes": "4096"}, deadline=soon())
    assert await errors() == [type(None), type(None)]
    await broker.alter_topic_config("t", {"cleanup.policy": "compact"}, deadline=soon())
    assert await errors() == [MissingKey, type(None)]
    await broker.alter_topic_config("t", {"cleanup.policy": "delete"}, deadline=soon())
    assert await errors() == [type(None), type(None)]


async def test_timestamps_outside_of_the_bounds_are_refused_on_every_way(open_broker):
    broker = await open_broker()
    settings = {"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "60000"}
    await broker.create_topic("t", 1, config=settings, deadline=soon())
    now = broker._wall_ms()
    producer = (await broker.producers.allocate(soon())).producer_id
    old, new, future = (NewRecord(b"x", timestamp=now + far) for far in (-120_000, 0, 120_000))
    for bad, side in ((old, "before"), (future, "after")):
        match = rf"message\.timestamp\.{side}\.max\.ms is 60000"
        for records in ([bad], [bad, bad]):
            for more in ({}, {"is_large": True}, {"producer": ProducerSequence(producer, 0, 0)}):
                results = await broker.produce_records("t", 0, records, deadline=soon(), **more)
                assert [type(each.error) for each in results] == [InvalidTimestamp] * len(records), (side, more)
                assert re.search(match, str(results[0].error))
        sent = [old, new] if bad is old else [new, future]
        with pytest.raises(InvalidTimestamp, match=match):
            await broker.produce_batches("t", 0, build_batch(sent), deadline=soon())
        stream = await broker.open_stream("t", 0, deadline=soon())
        [share] = await stream.append([b"plain", bad], None, -1, soon())
        assert isinstance(share.error, InvalidTimestamp)
    results = await broker.produce_records("t", 0, [old, new, future, NewRecord(b"none")], deadline=soon())
    assert [each.offset for each in results] == [None, 0, None, 1], "each record has its own outcome"
    assert (await broker.produce_batches("t", 0, build_batch([new]), deadline=soon())).base_offset == 2


async def test_a_setting_of_a_later_release_has_no_effect(open_broker, monkeypatch):
    """During an upgrade a broker of the later release may have accepted it."""
    broker = await open_broker()
    await broker.create_topic("t", 1, config={"retention.ms": "5000"}, deadline=soon())
    topic_id = broker.parts.topics.find("t").row.topic_id
    with monkeypatch.context() as patch:
        patch.setattr("raftlog.partitions.controller.machine.request.check_configs", lambda configs: None)
        await broker.metadata.submit(AlterTopicConfigs("t", topic_id, settings_of({"of.a.later.release": "7"})), soon())
    await broker.alter_topic_config("t", {"segment.ms": "60000"}, deadline=soon())
    config = broker.parts.topics.find("t").config
    assert (config.retention_ms, config.segment_ms) == (5000, 60_000)
    (result,) = await broker.produce_records("t", 0, [NewRecord(b"x")], deadline=soon())
    assert result.offset == 0
    await broker.create_topic("u", 1, deadline=soon())
    assert broker.topics() == ["t", "u"]


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "ü", "x" * 250, "__internal", "a\n"])
async def test_invalid_topic_names_are_refused(open_broker, name):
    broker = await open_broker()
    with pytest.raises(InvalidTopic):
        await broker.create_topic(name, 1, deadline=soon())


async def test_requests_that_need_more_brokers_are_refused(open_broker):
    broker = await open_broker()
    for arguments in ((1, 2), (0, 1), (10_001, 1)):
        with pytest.raises(InvalidArgument):
            await broker.create_topic("t", *arguments, deadline=soon())
    with pytest.raises(InvalidArgument, match=r"min\.insync\.replicas"):
        await broker.create_topic("t", 1, config={"min.insync.replicas": "2"}, deadline=soon())
    await broker.create_topic("t", 1, deadline=soon())
    with pytest.raises(TopicExists):
        await broker.create_topic("t", 1, deadline=soon())


async def test_simultaneous_creations_of_one_name_create_one_topic(open_broker):
    broker = await open_broker()
    results = await asyncio.gather(
        *[broker.create_topic("t", 2, deadline=soon()) for _ in range(3)], return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["TopicExists", "TopicExists", "TopicState"]


async def test_validate_only_creates_nothing(disk, open_broker):
    broker = await open_broker()
    described = await broker.create_topic("t", 3, deadline=soon(), validate_only=True)
    assert len(described.partitions) == 3
    assert broker.topics() == []
    assert not disk.exists("/data/t")


async def test_unknown_directories_are_moved_aside(disk, open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 1, deadline=soon())
    await broker.close()
    disk.make_directory("/data/stranger/0")
    disk.make_directory("/data/t/7")
    await open_broker()
    assert disk.list_directory("/data/.raftlog/unknown") == ["7-0", "stranger-0"]
    assert disk.list_directory("/data") == [".raftlog", "t"]


async def test_a_missing_partition_is_reported_and_accepts_no_records(disk, open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 2, deadline=soon())
    await broker.produce_records("t", 0, [NewRecord(b"lost")], deadline=soon())
    await broker.produce_records("t", 1, [NewRecord(b"sound")], deadline=soon())
    await broker.close()
    disk.rename("/data/t/0", "/elsewhere")
    again = await open_broker()
    (result,) = await again.produce_records("t", 0, [NewRecord(b"x")], deadline=deadline_in(300))
    assert result.error is not None
    assert result.error.outcome == "failed"
    assert await values_of(again, "t", 1) == [b"sound"]
    assert again.is_ready


async def test_exchanged_directories_are_recognised_by_their_ids(disk, open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 2, deadline=soon())
    await broker.produce_records("t", 0, [NewRecord(b"zero")], deadline=soon())
    await broker.close()
    for old, new in (("/data/t/0", "/x"), ("/data/t/1", "/data/t/0"), ("/x", "/data/t/1")):
        disk.rename(old, new)
    again = await open_broker()
    assert await values_of(again, "t", 0) == [b"zero"]
    assert await values_of(again, "t", 1) == []


async def test_a_damaged_partition_can_be_read_and_not_written(disk, open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 1, deadline=soon())
    for n in range(3):
        await broker.produce_records("t", 0, [NewRecord(b"%d" % n * 100)], deadline=soon())
    log = "/data/t/0/00000000000000000000.log"
    (replica,) = broker.parts.assignments.replicas.values()
    broker.node.driver.persister.write_pending()  # as the next tick would
    disk.flip_bit(log, replica.group.log.segments.size_bytes - 10, 1)
    with pytest.raises(CorruptBatch):
        replica.group.read(2, 1 << 20)
    (result,) = await broker.produce_records("t", 0, [NewRecord(b"x")], deadline=deadline_in(300))
    assert isinstance(result.error, LogDamaged)
    assert (await broker.measuring.read_figures()).unavailable == 1
    fetched = await broker.fetch("t", 0, 0, max_bytes=1, deadline=soon())
    assert len(fetched.batches) == 1


async def test_a_directory_belongs_to_one_broker_and_one_node(disk, open_broker):
    broker = await open_broker()
    with pytest.raises(DirectoryLocked):
        await open_broker()
    await broker.close()
    with pytest.raises(InvalidArgument, match="belongs to node 1"):
        await open_broker(node_id=2)
    await open_broker()


async def test_a_foreign_directory_is_left_alone(disk, open_broker):
    disk.make_directory("/data/photos")
    with pytest.raises(FormatError, match="not empty"):
        await open_broker()
    assert disk.list_directory("/data") == ["photos"]


async def test_a_topic_creation_cut_off_by_a_crash_leaves_all_or_nothing(disk, open_broker):
    broker = await open_broker()
    disk.is_held = True
    creation = asyncio.ensure_future(broker.create_topic("t", 2, deadline=soon()))
    await until(lambda: disk.pending_syncs)
    disk.process_crash()
    disk.is_held = False
    creation.cancel()
    again = await open_broker()
    assert again.topics() in ([], ["t"])
    if not again.topics():
        await again.create_topic("t", 2, deadline=soon())
    (result,) = await again.produce_records("t", 1, [NewRecord(b"x")], deadline=soon())
    assert result.offset == 0


async def test_retention_deletes_old_segments_and_names_the_first_offset(open_broker):
    now = [1_000_000]
    config = {"segment.bytes": "4096", "retention.ms": "1000"}
    broker = await open_broker(clock=lambda: now[0])
    await broker.create_topic("t", 1, config=config, deadline=soon())
    for _ in range(20):
        record = NewRecord(b"x" * 1000, timestamp=now[0])
        await broker.produce_records("t", 0, [record], deadline=soon())
        now[0] += 200
    await broker.parts.housekeeping.run_once()
    (replica,) = broker.parts.assignments.replicas.values()
    await until(lambda: replica.group.log_start_offset != 0)
    beginning, end = await broker.offsets("t", 0, deadline=soon())
    assert 0 < beginning < end == 20
    with pytest.raises(OffsetOutOfRange) as caught:
        await broker.fetch("t", 0, 0, max_bytes=100, deadline=soon())
    assert (caught.value.first, caught.value.end) == (beginning, end)


async def test_commits_for_missing_topics_are_refused(open_broker):
    broker = await open_broker()
    await broker.create_topic("t", 1, deadline=soon())
    with pytest.raises(UnknownTopic):
        await broker.groups.commit("g", {TopicPartition("x", 0): OffsetCommit(Offset(1))}, deadline=soon())
    with pytest.raises(UnknownPartition):
        await broker.groups.commit("g", {TopicPartition("t", 1): OffsetCommit(Offset(1))}, deadline=soon())
    with pytest.raises(InvalidArgument):
        await broker.groups.commit("g", {TopicPartition("t", 0): OffsetCommit(Offset(-1))}, deadline=soon())


async def test_a_topic_without_disk_space_starts_when_there_is_space(disk, open_broker):
    broker = await open_broker()
    disk.capacity_bytes = sum(map(len, disk.snapshot().values())) + 2_000
    await broker.create_topic("t", 50, deadline=deadline_in(300))
    (result,) = await broker.produce_records("t", 49, [NewRecord(b"x")], deadline=deadline_in(300))
    assert isinstance(result.error, NoLeader)
    disk.capacity_bytes = None
    (result,) = await broker.produce_records("t", 49, [NewRecord(b"x")], deadline=soon())
    assert result.offset == 0


async def test_an_error_names_a_data_directory_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot use the data directory"):
        await Broker.open(BrokerSettings(data_dir=str(tmp_path / "file" / "data")))
    with pytest.raises(StorageError, match="is a file"):
        await Broker.open(BrokerSettings(data_dir=str(tmp_path / "file")))
