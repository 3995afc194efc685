"""Descriptions of the cluster, of disks and of producers; refusals of ACLs while permissions are not checked."""

from pathlib import Path

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.settings import DEFAULTS
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import NEVER, deadline_in
from raftlog.partitions.results import ProducerSequence
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord
from tests.brokers.conftest import DRIVER, Brokers
from tests.kafka.admin.conftest import Admin
from tests.waiting import until_async


async def test_the_cluster_is_described_by_the_addresses_of_the_listener(tmp_path: Path) -> None:
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), node_id=4, rack="r1", driver=DRIVER))
    try:
        await broker.start("127.0.0.1:1", {"kafka": "[::1]:9092"})
        admin = Admin(broker, DEFAULTS)
        for version in admin.versions(ApiKey.DESCRIBE_CLUSTER):
            answer = await admin.call(ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)
            assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, broker.cluster_id, 4)
        controllers = await admin.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=2)
        assert (controllers.error_code, controllers.brokers) == (ErrorCode.MISMATCHED_ENDPOINT_TYPE, [])
        assert [(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers] == [
            (4, "::1", 9092, "r1")
        ]
        resources = [{"resource_type": 4, "resource_name": "4", "configuration_keys": ["advertised.listeners"]}]
        (described,) = (await admin.call(ApiKey.DESCRIBE_CONFIGS, resources=resources)).results
        assert [each.value for each in described.configs] == ["kafka://[::1]:9092"]
    finally:
        await broker.close()


async def test_sizes_of_replicas_and_of_the_disk_are_described(lone: Admin) -> None:
    broker = lone.broker
    for topic in ("a", "b"):
        await broker.create_topic(topic, 2, deadline=deadline_in(5_000))
    records = [NewRecord(b"x" * 5_000)]
    await broker.produce_records("a", 1, records, deadline=deadline_in(5_000))

    async def is_written() -> bool:
        return any(each.bytes > 5_000 for each in await broker.operations.replicas.local_replicas(deadline=NEVER))

    await until_async(is_written)
    for version in lone.versions(ApiKey.DESCRIBE_LOG_DIRS):
        answer = await lone.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)
        (directory,) = answer.results
        assert (answer.error_code, directory.error_code, directory.log_dir) == (0, 0, broker.settings.data_dir)
        sizes = {
            (topic.name, each.partition_index): each.partition_size
            for topic in directory.topics
            for each in topic.partitions
        }
        assert set(sizes) == {("a", 0), ("a", 1), ("b", 0), ("b", 1)}
        assert sizes["a", 1] > 5_000 > sizes["a", 0]
        if version >= 4:
            assert 0 < directory.usable_bytes <= directory.total_bytes
        chosen = [{"topic": "a", "partitions": [1, 7]}, {"topic": "none", "partitions": [0]}]
        (directory,) = (await lone.call(ApiKey.DESCRIBE_LOG_DIRS, version, topics=chosen)).results
        assert [(each.name, len(each.partitions)) for each in directory.topics] == [("a", 1)]


async def test_producers_of_led_partitions_are_described(lone: Admin) -> None:
    broker = lone.broker
    await broker.create_topic("t", 1, deadline=deadline_in(5_000))
    given = await broker.producers.allocate(deadline_in(5_000))
    for sequence in (0, 2):
        await broker.produce_records(
            "t",
            0,
            [NewRecord(b"a", None, 1_000), NewRecord(b"b", None, 2_000 + sequence)],
            deadline=deadline_in(5_000),
            producer=ProducerSequence(given.producer_id, given.producer_epoch, sequence),
        )
    answer = await lone.call(
        ApiKey.DESCRIBE_PRODUCERS,
        topics=[{"name": "t", "partition_indexes": [0, 1]}, {"name": "none", "partition_indexes": [0]}],
    )
    found, missing, unknown = [each for topic in answer.topics for each in topic.partitions]
    (producer,) = found.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (given.producer_id, 0)
    assert (producer.last_sequence, producer.last_timestamp) == (3, 2_002)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert (found.error_code, missing.error_code, unknown.error_code) == (0, 3, 3)


async def test_producers_are_described_by_the_leader_alone(three: Brokers) -> None:
    await three[1].create_topic("t", 1, 3, deadline=deadline_in(5_000))
    leader = await three.leader("t")
    topics = [{"name": "t", "partition_indexes": [0]}]
    codes = {}
    for number, broker in three.running.items():
        answer = await Admin(broker, DEFAULTS).call(ApiKey.DESCRIBE_PRODUCERS, topics=topics)
        codes[number] = answer.topics[0].partitions[0].error_code
    assert codes == {number: 0 if number == leader else ErrorCode.NOT_LEADER_OR_FOLLOWER for number in three.running}


async def test_acls_are_disabled_while_permissions_are_not_checked(lone: Admin) -> None:
    creation = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    acl_filter = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    for version in lone.versions(ApiKey.DESCRIBE_ACLS):
        described = await lone.call(ApiKey.DESCRIBE_ACLS, version, **acl_filter)
        assert (described.error_code, described.resources) == (ErrorCode.SECURITY_DISABLED, [])
        created = await lone.call(ApiKey.CREATE_ACLS, version, creations=[creation, creation])
        assert [each.error_code for each in created.results] == [54, 54]
        deleted = await lone.call(ApiKey.DELETE_ACLS, version, filters=[acl_filter])
        assert [(each.error_code, each.matching_acls) for each in deleted.filter_results] == [(54, [])]
