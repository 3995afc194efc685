"""OffsetCommit, OffsetFetch and OffsetDelete of all versions at a real broker."""

from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire.schemas import request_class
from raftlog.errors import NoLeader
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import GroupMarker, MemberIdentity, OffsetCommit, TransactionalProducer
from raftlog.types import Offset, TopicPartition
from tests.brokers import members as http
from tests.brokers.members import soon
from tests.kafka.groups.members import COMMIT_MAX, FETCH_MAX, G, KafkaMember, commit, fetch_committed, fetch_offsets


@pytest.mark.parametrize("version", range(2, COMMIT_MAX + 1))
async def test_each_version_commits_for_a_member_and_without_one(handlers, version):
    assert await commit(handlers, {0: 7}, version=version, metadata="mine", leader_epoch=3) == {0: 0}
    (row,) = (await fetch_offsets(handlers, {"t": [0]})).topics[0].partitions
    epoch = 3 if version >= 6 else -1
    assert (row.committed_offset, row.metadata, row.committed_leader_epoch) == (7, "mine", epoch)
    member = KafkaMember(handlers)
    await member.join_and_sync_alone()
    assert await member.commit({0: 5, 3: 1}, version) == {0: 0, 3: 0}
    assert await fetch_committed(handlers) == {"t": {0: 5, 3: 1}}
    assert await commit(handlers, {0: 8}, version=version) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
    member.generation += 1
    assert await member.commit({0: 9}, version) == {0: ErrorCode.ILLEGAL_GENERATION}
    member.generation -= 2
    assert await member.commit({0: 9}, version) == {0: ErrorCode.ILLEGAL_GENERATION}
    assert await fetch_committed(handlers) == {"t": {0: 5, 3: 1}}


@pytest.mark.parametrize("version", range(1, FETCH_MAX + 1))
async def test_each_version_fetches_offsets(handlers, version):
    await commit(handlers, {2: 7}, metadata="mine", leader_epoch=3)
    answer = await fetch_offsets(handlers, {"t": [2, 1, 9], "nosuch": [0]}, version=version)
    assert answer.error_code == 0
    rows = [
        (topic.name, each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata)
        for topic in answer.topics
        for each in topic.partitions
    ]
    epoch = 3 if version >= 5 else -1
    none = (-1, -1, "")
    assert rows == [("t", 2, 7, epoch, "mine"), ("t", 1, *none), ("t", 9, *none), ("nosuch", 0, *none)]
    assert all(each.error_code == 0 for topic in answer.topics for each in topic.partitions)
    if version >= 2:
        assert [topic.name for topic in (await fetch_offsets(handlers, None, version=version)).topics] == ["t"]
        assert (await fetch_offsets(handlers, None, "other", version)).topics == []
        refused = await fetch_offsets(handlers, None, "a/b", version)
        assert (refused.error_code, refused.topics) == (ErrorCode.INVALID_GROUP_ID, [])
    refused = await fetch_offsets(handlers, {"t": [2]}, "a/b", version)
    assert refused.error_code == (ErrorCode.INVALID_GROUP_ID if version >= 2 else 0)
    (row,) = refused.topics[0].partitions
    assert (row.error_code, row.committed_offset) == (ErrorCode.INVALID_GROUP_ID, -1), "aiokafka reads only this code"


async def test_a_topic_that_is_unknown_here_is_looked_up_before_its_offset_counts_as_none(handlers, monkeypatch):
    await commit(handlers, {2: 7})
    broker = handlers.broker

    async def fail(deadline):
        raise NoLeader("the controller has no leader")

    monkeypatch.setattr(broker.metadata, "barrier", fail)
    answer = await fetch_offsets(handlers, {"t": [2], "created-elsewhere": [0]})
    codes = {each.error_code for topic in answer.topics for each in topic.partitions}
    assert codes == {answer.error_code} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert (await fetch_offsets(handlers, {"t": [2]})).topics[0].partitions[0].committed_offset == 7


async def test_each_partition_has_its_own_error(handlers):
    await handlers.broker.create_topic("u", 1, deadline=soon())
    topic_row = request_class(ApiKey.OFFSET_COMMIT).OffsetCommitRequestTopic
    row = topic_row.OffsetCommitRequestPartition

    def rows(*partitions: tuple[int, int, str | None]) -> list[Any]:
        return [
            row(partition_index=number, committed_offset=offset, committed_metadata=text)
            for number, offset, text in partitions
        ]

    topics = [
        topic_row(name="t", partitions=rows((0, 4, None), (1, 4, "é" * 2049), (2, -4, ""), (4, 4, ""))),
        topic_row(name="nosuch", partitions=rows((0, 4, ""))),
        topic_row(name="u", partitions=rows((0, 6, "é" * 2048))),
    ]
    answer = await handlers.call(
        ApiKey.OFFSET_COMMIT, 8, group_id=G, member_id="", generation_id_or_member_epoch=-1, topics=topics
    )
    codes = [(topic.name, [each.error_code for each in topic.partitions]) for topic in answer.topics]
    assert codes == [
        (
            "t",
            [
                0,
                ErrorCode.OFFSET_METADATA_TOO_LARGE,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ],
        ),
        ("nosuch", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("u", [0]),
    ]
    assert await fetch_committed(handlers) == {"t": {0: 4}, "u": {0: 6}}


async def test_a_commit_without_a_member_may_lower_an_offset(handlers):
    assert await commit(handlers, {0: 7}) == {0: 0}
    assert await commit(handlers, {0: 3}) == {0: 0}
    assert await fetch_committed(handlers) == {"t": {0: 3}}
    # A consumer that assigns itself partitions names its instance id, though it is no member.
    assert await commit(handlers, {0: 2}, group_instance_id="i") == {0: 0}
    assert await fetch_committed(handlers) == {"t": {0: 2}}
    # Without a generation over HTTP the same offset is a watermark.
    await http.commit(handlers.broker, {0: 1})
    assert await fetch_committed(handlers) == {"t": {0: 2}}


async def test_commits_are_refused_between_generation_and_sync(handlers):
    member = KafkaMember(handlers)
    await member.join()
    assert await member.commit({0: 1}) == {0: ErrorCode.REBALANCE_IN_PROGRESS}
    assert await fetch_committed(handlers) == {}


async def test_commits_over_kafka_and_http_are_read_by_each_other(handlers):
    await commit(handlers, {0: 7}, metadata="from Kafka", leader_epoch=2)
    place = TopicPartition("t", 1)
    over_http = {place: OffsetCommit(Offset(9), "from HTTP", 4)}
    await handlers.broker.groups.commit(G, over_http, deadline=soon())
    read = await handlers.broker.groups.committed(G, deadline=soon())
    assert {key: record[:3] for key, record in read.items()} == {
        TopicPartition("t", 0): (7, 2, "from Kafka"),
        place: (9, 4, "from HTTP"),
    }
    (first, second) = (await fetch_offsets(handlers, {"t": [0, 1]})).topics[0].partitions
    assert (first.committed_offset, first.metadata, first.committed_leader_epoch) == (7, "from Kafka", 2)
    assert (second.committed_offset, second.metadata, second.committed_leader_epoch) == (9, "from HTTP", 4)


async def test_offsets_of_an_open_transaction_are_unstable(handlers):
    async def confirm(producer: TransactionalProducer, group: str, deadline: Deadline) -> None:
        """Confirm that the transaction is open, as its coordinator does."""

    groups = handlers.broker.groups
    object.__setattr__(groups._environment, "verify_transaction", confirm)
    await commit(handlers, {0: 7, 1: 7})
    pending = {TopicPartition("t", number): OffsetCommit(Offset(9), "in a transaction", 3) for number in (1, 2)}
    producer, nobody = TransactionalProducer("tx", 3, 0), MemberIdentity("", -1)
    assert await groups.commit_pending(G, pending, producer=producer, member=nobody, deadline=soon()) == {}

    async def fetch(version: int, wanted: dict[str, list[int]] | None = None) -> dict[int, tuple[int, int]]:
        answer = await fetch_offsets(handlers, wanted, version=version)
        (topic,) = answer.topics
        return {each.partition_index: (each.committed_offset, each.error_code) for each in topic.partitions}

    unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await fetch(7) == await fetch(7, {"t": [0, 1, 2]}) == {0: (7, 0), 1: unstable, 2: unstable}
    assert await fetch(6) == {0: (7, 0), 1: (7, 0)}
    assert await fetch(6, {"t": [0, 1, 2]}) == {0: (7, 0), 1: (7, 0), 2: (-1, 0)}
    await groups.end_transaction(G, GroupMarker(3, 0, True, 1), deadline=soon())
    assert await fetch(7) == {0: (7, 0), 1: (9, 0), 2: (9, 0)}


async def delete(handlers, partitions: dict[str, list[int]], group: str = G) -> Any:
    topic_row = request_class(ApiKey.OFFSET_DELETE).OffsetDeleteRequestTopic
    row = topic_row.OffsetDeleteRequestPartition
    topics = [
        topic_row(name=name, partitions=[row(partition_index=each) for each in numbers])
        for name, numbers in partitions.items()
    ]
    answer = await handlers.call(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)
    codes = {topic.name: [each.error_code for each in topic.partitions] for topic in answer.topics}
    return answer.error_code, codes


async def test_offsets_of_single_partitions_are_deleted(handlers):
    await handlers.broker.create_topic("u", 1, deadline=soon())
    await commit(handlers, {0: 1, 1: 2, 2: 3})
    await commit(handlers, {0: 4}, topic="u")
    assert await delete(handlers, {"t": [0, 3]}, "other") == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    assert await delete(handlers, {"t": [0, 3], "nosuch": [0]}) == (
        0,
        {"t": [0, 0], "nosuch": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]},
    )
    assert await fetch_committed(handlers) == {"t": {1: 2, 2: 3}, "u": {0: 4}}
    await KafkaMember(handlers).join_and_sync_alone()
    assert await delete(handlers, {"t": [1], "u": [0]}) == (0, {"t": [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC], "u": [0]})
    assert await fetch_committed(handlers) == {"t": {1: 2, 2: 3}}


async def test_the_controller_is_read_once_for_many_unknown_partitions(handlers, monkeypatch):
    """Each read index needs answers of a majority: thousands of them would outlast the session of the member."""
    metadata, asked = handlers.broker.metadata, 0
    barrier = metadata.barrier

    async def count_barriers(deadline):
        nonlocal asked
        asked += 1
        await barrier(deadline)

    monkeypatch.setattr(metadata, "barrier", count_barriers)
    codes = await commit(handlers, dict.fromkeys(range(500), 1))
    assert [code for code in codes.values() if code == 0] == [0] * 4
    assert asked == 1
    topic_row = request_class(ApiKey.OFFSET_COMMIT).OffsetCommitRequestTopic
    row = topic_row.OffsetCommitRequestPartition
    topics = [
        topic_row(name=f"none-{number}", partitions=[row(partition_index=0, committed_offset=1, committed_metadata="")])
        for number in range(500)
    ]
    answer = await handlers.call(
        ApiKey.OFFSET_COMMIT, 5, group_id=G, member_id="", generation_id_or_member_epoch=-1, topics=topics
    )
    assert {topic.partitions[0].error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert asked == 2
