"""Administration by the admin clients of librdkafka, kafka-python and aiokafka; transactions are refused clearly."""

from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import confluent_kafka as librdkafka
import kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.admin import NewPartitions as AiokafkaPartitions
from aiokafka.admin import NewTopic as AiokafkaTopic
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import admin
from kafka.admin import ConfigResource, OffsetSpec
from kafka.errors import TopicAlreadyExistsError, TransactionalIdAuthorizationFailedError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from raftlog.testing import Cluster
from tests.kafka.clients.drivers import Http, Librdkafka
from tests.kafka.clients.group_members import AiokafkaMember, KafkaPythonMember, LibrdkafkaMember, Member, shared
from tests.kafka.clients.stored import BEGINNING, WITHIN_S, Unsent
from tests.waiting import until_async

TEN = [Unsent(None, str(number).encode(), (), 1_000 * number) for number in range(10)]


def only(results: dict[Any, Future]) -> Any:
    """Return the result of a request of confluent-kafka for one thing."""
    [future] = results.values()
    return future.result(WITHIN_S)


def code_of(results: dict[Any, Future]) -> str:
    """Return the code of the error of such a request."""
    with pytest.raises(librdkafka.KafkaException) as raised:
        only(results)
    return str(raised.value.args[0].name())


async def expect(expected: object, ask: Callable[[], object]) -> None:
    """Ask until the answer is the expected one: clients ask any broker, and brokers apply new topics one by one."""

    async def is_there() -> bool:
        try:
            return ask() == expected
        except (librdkafka.KafkaException, kafka.errors.KafkaError):
            return False

    await until_async(is_there)


async def read_and_committed(cluster: Cluster, member: Member) -> None:
    """Let a member read and commit ten records in each of two partitions."""
    for partition in range(2):
        Librdkafka(cluster).write(member.topic, TEN, partition=partition)
    await member.start()
    await shared([member], 2, 20)
    await member.commit()


@pytest.fixture
def librdkafka_admin(cluster) -> admin.AdminClient:
    return admin.AdminClient({"bootstrap.servers": cluster.kafka})


async def test_librdkafka_topics(cluster, name, librdkafka_admin):
    client = librdkafka_admin
    topic = admin.NewTopic(name, 2, 3, config={"retention.ms": "600000"})
    only(client.create_topics([topic]))
    assert code_of(client.create_topics([topic])) == "TOPIC_ALREADY_EXISTS"
    resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name)
    assert only(client.describe_configs([resource]))["retention.ms"].value == "600000"
    entry = admin.ConfigEntry("retention.ms", "700000", incremental_operation=admin.AlterConfigOpType.SET)
    changed = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    only(client.incremental_alter_configs([changed]))
    assert only(client.describe_configs([resource]))["retention.ms"].value == "700000"
    only(client.create_partitions([admin.NewPartitions(name, 3)]))

    def replicas() -> list[list[int]]:
        described = only(client.describe_topics(librdkafka.TopicCollection([name])))
        return [sorted(node.id for node in each.replicas) for each in described.partitions]

    await expect([[1, 2, 3]] * 3, replicas)
    await expect(True, lambda: name in client.list_topics(timeout=WITHIN_S).topics)
    assert {node.id for node in client.describe_cluster().result(WITHIN_S).nodes} == {1, 2, 3}
    only(client.delete_topics([name]))
    assert code_of(client.delete_topics([name])) == "UNKNOWN_TOPIC_OR_PART"


def test_librdkafka_records(cluster, make_topic, librdkafka_admin):
    topic = make_topic()
    Http(cluster).write(topic, TEN)
    place = librdkafka.TopicPartition(topic, 0)

    def offset(spec: admin.OffsetSpec) -> int:
        return int(only(librdkafka_admin.list_offsets({place: spec})).offset)

    assert (offset(admin.OffsetSpec.earliest()), offset(admin.OffsetSpec.latest())) == (0, 10)
    assert offset(admin.OffsetSpec.for_timestamp(4_000)) == 4
    assert only(librdkafka_admin.delete_records([librdkafka.TopicPartition(topic, 0, 6)])).low_watermark == 6
    assert offset(admin.OffsetSpec.earliest()) == 6
    assert [record.value for record in Librdkafka(cluster).read(topic, BEGINNING, 4)] == [b"6", b"7", b"8", b"9"]


async def test_librdkafka_groups(cluster, name, make_topic, librdkafka_admin):
    client, member = librdkafka_admin, LibrdkafkaMember(cluster, name, make_topic(2))
    await read_and_committed(cluster, member)
    described = only(client.describe_consumer_groups([name]))
    [row] = described.members
    assert (described.state.name, len(row.assignment.topic_partitions)) == ("STABLE", 2)
    assert code_of(client.delete_consumer_groups([name])) == "NON_EMPTY_GROUP"
    await member.close()
    assert name in [each.group_id for each in client.list_consumer_groups().result(WITHIN_S).valid]
    places = [librdkafka.TopicPartition(name, 0, 3)]
    only(client.alter_consumer_group_offsets([librdkafka.ConsumerGroupTopicPartitions(name, places)]))
    [stored] = only(
        client.list_consumer_group_offsets([librdkafka.ConsumerGroupTopicPartitions(name)])
    ).topic_partitions[:1]
    assert (stored.partition, stored.offset) == (0, 3)
    only(client.delete_consumer_groups([name]))
    assert name not in [each.group_id for each in client.list_consumer_groups().result(WITHIN_S).valid]


@pytest.fixture
def kafka_python_admin(cluster) -> Iterator[kafka.KafkaAdminClient]:
    client = kafka.KafkaAdminClient(bootstrap_servers=cluster.kafka)
    yield client
    client.close()


async def test_kafka_python_topics(name, kafka_python_admin):
    client = kafka_python_admin
    new = {name: {"num_partitions": 2, "replication_factor": 3, "configs": {"retention.ms": "600000"}}}
    client.create_topics(new)
    with pytest.raises(TopicAlreadyExistsError):
        client.create_topics(new)

    def retention() -> str:
        found = client.describe_configs([ConfigResource("topic", name)])["topic"][name]["retention.ms"]
        return str(found["value"])

    assert retention() == "600000"
    client.alter_configs([ConfigResource("topic", name, {"retention.ms": "700000"})])
    assert retention() == "700000"
    client.create_partitions({name: 3})
    await expect(3, lambda: len(client.describe_topics([name])[0]["partitions"]))
    await expect(True, lambda: name in client.list_topics())
    assert len(client.describe_cluster()["brokers"]) == 3
    client.delete_topics([name])
    with pytest.raises(UnknownTopicOrPartitionError):
        client.delete_topics([name])


def test_kafka_python_records(cluster, make_topic, kafka_python_admin):
    topic = make_topic()
    Http(cluster).write(topic, TEN)
    place = kafka.TopicPartition(topic, 0)

    def offset(spec: Any) -> int:
        return int(kafka_python_admin.list_partition_offsets({place: spec})[place].offset)

    assert (offset(OffsetSpec.EARLIEST), offset(OffsetSpec.LATEST), offset(4_000)) == (0, 10, 4)
    kafka_python_admin.delete_records({place: 6})
    assert offset(OffsetSpec.EARLIEST) == 6


async def test_kafka_python_groups(cluster, name, make_topic, kafka_python_admin):
    client, member = kafka_python_admin, KafkaPythonMember(cluster, name, make_topic(2))
    await read_and_committed(cluster, member)
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


async def test_aiokafka_topics(cluster, name, aiokafka_admin):
    client = aiokafka_admin
    new = AiokafkaTopic(name, 2, 3, topic_configs={"retention.ms": "600000"})
    assert [error for _, error, _ in (await client.create_topics([new])).topic_errors] == [0]
    assert [error for _, error, _ in (await client.create_topics([new])).topic_errors] == [36]

    async def retention() -> str:
        [answer] = await client.describe_configs([AiokafkaResource(AiokafkaResourceType.TOPIC, name)])
        [(*_, entries)] = answer.resources
        return str(next(entry[1] for entry in entries if entry[0] == "retention.ms"))

    assert await retention() == "600000"
    await client.alter_configs([AiokafkaResource(AiokafkaResourceType.TOPIC, name, {"retention.ms": "700000"})])
    assert await retention() == "700000"
    await client.create_partitions({name: AiokafkaPartitions(3)})

    async def has_grown() -> bool:
        """Return whether the broker that is asked, any of them, knows of the new partition."""
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


async def test_aiokafka_groups(cluster, name, make_topic, aiokafka_admin):
    client, member = aiokafka_admin, AiokafkaMember(cluster, name, make_topic(2))
    await read_and_committed(cluster, member)
    [answer] = await client.describe_consumer_groups([name])
    [(error, group, state, kind, protocol, members)] = answer.groups
    assert (error, group, state, kind, protocol, len(members)) == (0, name, "Stable", "consumer", "range", 1)
    await member.close()
    assert (name, "consumer") in await client.list_consumer_groups()
    offsets = await client.list_consumer_group_offsets(name)
    assert {place.partition: each.offset for place, each in offsets.items()} == {0: 10, 1: 10}


async def test_transactions_are_refused_at_once(cluster):
    settings = {"bootstrap.servers": cluster.kafka, "transactional.id": "t"}
    with pytest.raises(librdkafka.KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        librdkafka.Producer(settings).init_transactions(WITHIN_S)
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.kafka, transactional_id="t")
    with pytest.raises(TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close()
    transactional = AIOKafkaProducer(bootstrap_servers=cluster.kafka, transactional_id="t")
    with pytest.raises(TransactionalIdAuthorizationFailed):
        await transactional.start()
    await transactional.stop()
