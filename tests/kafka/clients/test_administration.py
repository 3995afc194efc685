"""Administration by the admin clients of librdkafka, kafka-python and aiokafka; transactions are refused clearly."""

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import confluent_kafka as librdkafka
import kafka
import pytest
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AiokafkaPartitions
from aiokafka.admin import NewTopic as AiokafkaTopic
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from confluent_kafka import admin
from kafka.admin import ConfigResource, OffsetSpec
from kafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from raftlog.testing import Cluster
from tests.kafka.clients.drivers import Http, Librdkafka
from tests.kafka.clients.group_members import (
    AiokafkaMember,
    KafkaPythonMember,
    LibrdkafkaMember,
    Member,
    poll_until_shared,
)
from tests.kafka.clients.stored import BEGINNING, WITHIN_S, UnsentRecord
from tests.waiting import until_async

TEN = [UnsentRecord(None, str(number).encode(), (), 1_000 * number) for number in range(10)]


def result_of(results: dict[Any, Future]) -> Any:
    """Return the result of a confluent-kafka request for one resource."""
    [future] = results.values()
    return future.result(WITHIN_S)


def error_code_of(results: dict[Any, Future]) -> str:
    """Return the error code of a confluent-kafka request for one resource."""
    with pytest.raises(librdkafka.KafkaException) as raised:
        result_of(results)
    return str(raised.value.args[0].name())


async def wait_for_answer(expected: object, ask: Callable[[], object]) -> None:
    """Repeat a request until it returns `expected`: clients use any broker, and brokers apply changes one by one."""

    async def is_expected() -> bool:
        try:
            return ask() == expected
        except (librdkafka.KafkaException, kafka.errors.KafkaError):
            return False

    await until_async(is_expected)


async def read_and_commit(cluster: Cluster, member: Member) -> None:
    """Let a member read and commit ten records in each of two partitions."""
    for partition in range(2):
        Librdkafka(cluster).write(member.topic, TEN, partition=partition)
    await member.start()
    await poll_until_shared([member], 2, 20)
    await member.commit()


@pytest.fixture
def librdkafka_admin(cluster) -> admin.AdminClient:
    return admin.AdminClient({"bootstrap.servers": cluster.kafka})


async def test_librdkafka_administers_topics(cluster, name, librdkafka_admin):
    client = librdkafka_admin
    topic = admin.NewTopic(name, 2, 3, config={"retention.ms": "600000"})
    result_of(client.create_topics([topic]))
    assert error_code_of(client.create_topics([topic])) == "TOPIC_ALREADY_EXISTS"
    resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name)
    assert result_of(client.describe_configs([resource]))["retention.ms"].value == "600000"
    entry = admin.ConfigEntry("retention.ms", "700000", incremental_operation=admin.AlterConfigOpType.SET)
    changed = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    result_of(client.incremental_alter_configs([changed]))
    assert result_of(client.describe_configs([resource]))["retention.ms"].value == "700000"
    result_of(client.create_partitions([admin.NewPartitions(name, 3)]))

    def list_replicas() -> list[list[int]]:
        described = result_of(client.describe_topics(librdkafka.TopicCollection([name])))
        return [sorted(node.id for node in each.replicas) for each in described.partitions]

    await wait_for_answer([[1, 2, 3]] * 3, list_replicas)
    await wait_for_answer(True, lambda: name in client.list_topics(timeout=WITHIN_S).topics)
    assert {node.id for node in client.describe_cluster().result(WITHIN_S).nodes} == {1, 2, 3}
    result_of(client.delete_topics([name]))
    assert error_code_of(client.delete_topics([name])) == "UNKNOWN_TOPIC_OR_PART"


def test_librdkafka_lists_offsets_and_deletes_records(cluster, make_topic, librdkafka_admin):
    topic = make_topic()
    Http(cluster).write(topic, TEN)
    place = librdkafka.TopicPartition(topic, 0)

    def list_offset(spec: admin.OffsetSpec) -> int:
        return int(result_of(librdkafka_admin.list_offsets({place: spec})).offset)

    assert (list_offset(admin.OffsetSpec.earliest()), list_offset(admin.OffsetSpec.latest())) == (0, 10)
    assert list_offset(admin.OffsetSpec.for_timestamp(4_000)) == 4
    assert result_of(librdkafka_admin.delete_records([librdkafka.TopicPartition(topic, 0, 6)])).low_watermark == 6
    assert list_offset(admin.OffsetSpec.earliest()) == 6
    assert [record.value for record in Librdkafka(cluster).read(topic, BEGINNING, 4)] == [b"6", b"7", b"8", b"9"]


async def test_librdkafka_administers_groups(cluster, name, make_topic, librdkafka_admin):
    client, member = librdkafka_admin, LibrdkafkaMember(cluster, name, make_topic(2))
    await read_and_commit(cluster, member)
    described = result_of(client.describe_consumer_groups([name]))
    [row] = described.members
    assert (described.state.name, len(row.assignment.topic_partitions)) == ("STABLE", 2)
    assert error_code_of(client.delete_consumer_groups([name])) == "NON_EMPTY_GROUP"
    await member.close()
    assert name in [each.group_id for each in client.list_consumer_groups().result(WITHIN_S).valid]
    places = [librdkafka.TopicPartition(name, 0, 3)]
    result_of(client.alter_consumer_group_offsets([librdkafka.ConsumerGroupTopicPartitions(name, places)]))
    [stored] = result_of(
        client.list_consumer_group_offsets([librdkafka.ConsumerGroupTopicPartitions(name)])
    ).topic_partitions[:1]
    assert (stored.partition, stored.offset) == (0, 3)
    result_of(client.delete_consumer_groups([name]))
    assert name not in [each.group_id for each in client.list_consumer_groups().result(WITHIN_S).valid]


@pytest.fixture
def kafka_python_admin(cluster) -> Iterator[kafka.KafkaAdminClient]:
    client = kafka.KafkaAdminClient(bootstrap_servers=cluster.kafka)
    yield client
    client.close()


async def test_kafka_python_administers_topics(name, kafka_python_admin):
    client = kafka_python_admin
    new = {name: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "600000"}}}
    client.create_topics(new)
    with pytest.raises(TopicAlreadyExistsError):
        client.create_topics(new)

    def read_retention() -> str:
        found = client.describe_configs([ConfigResource("topic", name)])["topic"][name]["retention.ms"]
        return str(found["value"])

    assert read_retention() == "600000"
    client.alter_configs([ConfigResource("topic", name, {"retention.ms": "700000"})])
    assert read_retention() == "700000"
    client.create_partitions({name: 3})
    await wait_for_answer(3, lambda: len(client.describe_topics([name])[0]["partitions"]))
    await wait_for_answer(True, lambda: name in client.list_topics())
    assert len(client.describe_cluster()["brokers"]) == 3
    client.delete_topics([name])
    with pytest.raises(UnknownTopicOrPartitionError):
        client.delete_topics([name])


def test_kafka_python_lists_offsets_and_deletes_records(cluster, make_topic, kafka_python_admin):
    topic = make_topic()
    Http(cluster).write(topic, TEN)
    place = kafka.TopicPartition(topic, 0)

    def list_offset(spec: Any) -> int:
        return int(kafka_python_admin.list_partition_offsets({place: spec})[place].offset)

    assert (list_offset(OffsetSpec.EARLIEST), list_offset(OffsetSpec.LATEST), list_offset(4_000)) == (0, 10, 4)
    kafka_python_admin.delete_records({place: 6})
    assert list_offset(OffsetSpec.EARLIEST) == 6


async def test_kafka_python_administers_groups(cluster, name, make_topic, kafka_python_admin):
    client, member = kafka_python_admin, KafkaPythonMember(cluster, name, make_topic(2))
    await read_and_commit(cluster, member)
    described = client.describe_groups([name])[name]
    assert (described["group_state"], len(described["members"])) == ("Stable", 1)
    await member.close()
    assert name in [each["group_id"] for each in client.list_groups()]
    place = kafka.TopicPartition(name, 0)
    client.alter_group_offsets(name, {place: OffsetAndMetadata(3, "by hand", -1)})
    stored = client.list_group_offsets(name)[name][place]
    assert (stored.offset, stored.metadata) == (3, "by hand")
    client.delete_group_offsets(name, [place])
    assert client.list_group_offsets(name)[name].keys() == {kafka.TopicPartition(name, 1)}
    client.delete_groups([name])
    assert name not in [each["group_id"] for each in client.list_groups()]


@pytest.fixture
async def aiokafka_admin(cluster) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.kafka)
    await client.start()
    yield client
    await client.close()


async def test_aiokafka_administers_topics(cluster, name, aiokafka_admin):
    client = aiokafka_admin
    new = AiokafkaTopic(name, 2, 3, topic_configs={"retention.ms": "600000"})
    assert [error for _, error, _ in (await client.create_topics([new])).topic_errors] == [0]
    assert [error for _, error, _ in (await client.create_topics([new])).topic_errors] == [36]

    async def read_retention() -> str:
        [answer] = await client.describe_configs([AiokafkaResource(AiokafkaResourceType.TOPIC, name)])
        [(*_, entries)] = answer.resources
        return str(next(entry[1] for entry in entries if entry[0] == "retention.ms"))

    assert await read_retention() == "600000"
    await client.alter_configs([AiokafkaResource(AiokafkaResourceType.TOPIC, name, {"retention.ms": "700000"})])
    assert await read_retention() == "700000"
    await client.create_partitions({name: AiokafkaPartitions(3)})

    async def has_grown() -> bool:
        """Return whether the broker that receives the request knows the new partition."""
        [described] = await client.describe_topics([name])
        return len(described["partitions"]) == 3

    async def is_listed() -> bool:
        return name in await client.list_topics()

    await until_async(has_grown)
    await until_async(is_listed)
    assert len((await client.describe_cluster())["brokers"]) == 3
    Http(cluster).write(name, TEN)
    place = AiokafkaPartition(name, 0)
    assert await client.delete_records({place: RecordsToDelete(6)}) == {place: 6}
    assert [error for _, error in (await client.delete_topics([name])).topic_error_codes] == [0]


async def test_aiokafka_administers_groups(cluster, name, make_topic, aiokafka_admin):
    client, member = aiokafka_admin, AiokafkaMember(cluster, name, make_topic(2))
    await read_and_commit(cluster, member)
    [answer] = await client.describe_consumer_groups([name])
    [(error, group, state, kind, protocol, members)] = answer.groups
    assert (error, group, state, kind, protocol, len(members)) == (0, name, "Stable", "consumer", "range", 1)
    await member.close()
    assert (name, "consumer") in await client.list_consumer_groups()
    offsets = await client.list_consumer_group_offsets(name)
    assert {place.partition: each.offset for place, each in offsets.items()} == {0: 10, 1: 10}
