"""Permissions over Kafka's protocol: every API is guarded, as Kafka guards it, and lists what the caller may see."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.permissions import API_PERMISSIONS, OPEN_APIS
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.facade_permissions import GUARDED
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord, build_batch
from raftlog.security.permissions import OPERATIONS, AclEffect, AclOperation, AclResourceType
from tests.kafka.guarded import ADMIN, Guarded, error_codes
from tests.security.facade import record_calls
from tests.small_journal import SMALL_JOURNAL
from tests.waiting import until

TOPIC, GROUP, CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
CODES = {
    TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
ACL_FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
MEMBER = {"group_id": "secret-group", "member_id": "m", "generation_id": 1}
PRODUCER = {"transactional_id": "secret-tx", "producer_id": 0, "producer_epoch": 0}
BATCH = build_batch([NewRecord(None, b"v")])


def requests(topic: str) -> dict[ApiKey, dict[str, Any]]:
    """Return a request of each API, about a topic and the group `secret-group`."""
    config = {"resource_type": 2, "resource_name": topic}
    return {
        ApiKey.PRODUCE: {
            "acks": -1,
            "timeout_ms": 1_000,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": BATCH}]}],
        },
        ApiKey.FETCH: {
            "replica_id": -1,
            "max_wait_ms": 5_000,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "session_epoch": -1,
            "topics": [
                {"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}
            ],
            "forgotten_topics_data": [],
        },
        ApiKey.LIST_OFFSETS: {
            "replica_id": -1,
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        ApiKey.METADATA: {"topics": [{"name": topic}], "allow_auto_topic_creation": True},
        ApiKey.OFFSET_COMMIT: {
            "group_id": "secret-group",
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        },
        ApiKey.OFFSET_FETCH: {"group_id": "secret-group", "topics": [{"name": topic, "partition_indexes": [0]}]},
        ApiKey.FIND_COORDINATOR: {"key": "secret-group", "key_type": 0},
        ApiKey.JOIN_GROUP: {
            "group_id": "secret-group",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        ApiKey.HEARTBEAT: MEMBER,
        ApiKey.LEAVE_GROUP: {"group_id": "secret-group", "members": [{"member_id": "m"}]},
        ApiKey.SYNC_GROUP: {**MEMBER, "protocol_type": "consumer", "protocol_name": "range", "assignments": []},
        ApiKey.DESCRIBE_GROUPS: {"groups": ["secret-group"]},
        ApiKey.LIST_GROUPS: {"states_filter": []},
        ApiKey.CREATE_TOPICS: {
            "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
            "timeout_ms": 5_000,
        },
        ApiKey.DELETE_TOPICS: {"topic_names": [topic], "timeout_ms": 5_000},
        ApiKey.DELETE_RECORDS: {
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout_ms": 5_000,
        },
        ApiKey.INIT_PRODUCER_ID: {"transactional_id": None, "transaction_timeout_ms": 1_000},
        ApiKey.ADD_PARTITIONS_TO_TXN: {
            **{f"v3_and_below_{name}": value for name, value in PRODUCER.items()},
            "v3_and_below_topics": [{"name": topic, "partitions": [0]}],
        },
        ApiKey.ADD_OFFSETS_TO_TXN: {**PRODUCER, "group_id": "secret-group"},
        ApiKey.END_TXN: {**PRODUCER, "committed": True},
        ApiKey.WRITE_TXN_MARKERS: {
            "markers": [
                {
                    "producer_id": 0,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "topics": [{"name": topic, "partition_indexes": [0]}],
                    "coordinator_epoch": 0,
                }
            ]
        },
        ApiKey.TXN_OFFSET_COMMIT: {
            **PRODUCER,
            "group_id": "secret-group",
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        },
        ApiKey.DESCRIBE_TRANSACTIONS: {"transactional_ids": ["secret-tx"]},
        ApiKey.LIST_TRANSACTIONS: {"state_filters": [], "producer_id_filters": []},
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {
            "replica_id": -1,
            "topics": [
                {"topic": topic, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}
            ],
        },
        ApiKey.DESCRIBE_ACLS: ACL_FILTER,
        ApiKey.CREATE_ACLS: {"creations": [ACL, {**ACL, "operation": 99}]},
        ApiKey.DELETE_ACLS: {"filters": [ACL_FILTER]},
        ApiKey.DESCRIBE_CONFIGS: {"resources": [config, {"resource_type": 4, "resource_name": "1"}]},
        ApiKey.ALTER_CONFIGS: {"resources": [{**config, "configs": []}], "validate_only": False},
        ApiKey.INCREMENTAL_ALTER_CONFIGS: {
            "resources": [{**config, "configs": []}, {"resource_type": 8, "resource_name": "1", "configs": []}],
            "validate_only": False,
        },
        ApiKey.DESCRIBE_LOG_DIRS: {"topics": None},
        ApiKey.CREATE_PARTITIONS: {
            "topics": [{"name": topic, "count": 5, "assignments": None}],
            "timeout_ms": 5_000,
            "validate_only": False,
        },
        ApiKey.DELETE_GROUPS: {"groups_names": ["secret-group"]},
        ApiKey.ELECT_LEADERS: {
            "election_type": 0,
            "topic_partitions": [{"topic": topic, "partitions": [0]}],
            "timeout_ms": 5_000,
        },
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
            "timeout_ms": 5_000,
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        ApiKey.LIST_PARTITION_REASSIGNMENTS: {"timeout_ms": 5_000, "topics": None},
        ApiKey.OFFSET_DELETE: {
            "group_id": "secret-group",
            "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}],
        },
        ApiKey.DESCRIBE_CLIENT_QUOTAS: {"components": [], "strict": False},
        ApiKey.ALTER_CLIENT_QUOTAS: {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "alice"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
                }
            ],
            "validate_only": False,
        },
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {"users": None},
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {
            "deletions": [{"name": "alice", "mechanism": 1}],
            "upsertions": [],
        },
        ApiKey.DESCRIBE_CLUSTER: {"endpoint_type": 1},
        ApiKey.DESCRIBE_PRODUCERS: {"topics": [{"name": topic, "partition_indexes": [0]}]},
    }


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    """Broker that checks permissions, with the topics `open` and `secret`, and a group."""
    settings = BrokerSettings(
        data_dir=str(tmp_path), authorization="acl", superusers=(ADMIN.principal,), driver=SMALL_JOURNAL
    )
    broker = await Broker.open(settings)
    await broker.start("127.0.0.1:1", {"kafka": "127.0.0.1:9092"})
    for name in ("open", "secret"):
        await broker.create_topic(name, 1, deadline=deadline_in(10_000))
    yield Guarded(broker)
    await broker.close()


async def make_group(guarded: Guarded) -> None:
    offsets = [
        {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 1}]} for name in ("open", "secret")
    ]
    await guarded.call(ApiKey.FIND_COORDINATOR, ADMIN, key="secret-group", key_type=0)
    answer = await guarded.call(ApiKey.OFFSET_COMMIT, ADMIN, group_id="secret-group", topics=offsets)
    assert error_codes(answer) == [0, 0]


async def test_every_served_api_has_permissions_except_three(guarded: Guarded) -> None:
    served = {key for key, _ in guarded.dispatcher._routes}
    assert {key for key in served if key not in API_PERMISSIONS} == served & OPEN_APIS
    assert {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} == OPEN_APIS


@pytest.mark.parametrize("topic", ["secret", "missing"])
async def test_every_api_refuses_a_caller_without_permissions(
    guarded: Guarded, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is the same whether or not the topic exists; no request reaches a method that needs a permission."""
    await make_group(guarded)
    wrong, called = [], record_calls(monkeypatch)
    for key, api in guarded.apis.items():
        if key in OPEN_APIS:
            continue
        for version in range(max(api.versions[0], api.served_from or 0), api.versions[1] + 1):
            fields = requests(topic)[key]
            if key is ApiKey.LEAVE_GROUP and version < 3:
                fields = {"group_id": "secret-group", "member_id": "m"}
            answer = await guarded.call(key, version=version, **fields)
            codes = set(error_codes(answer)) - {0}
            if key is ApiKey.LIST_GROUPS:
                is_right = not codes and answer.groups == []
            elif key is ApiKey.LIST_TRANSACTIONS:
                is_right = not codes and answer.transaction_states == []
            elif key is ApiKey.DESCRIBE_LOG_DIRS and version < 3:  # no field for the error
                is_right = answer.results == []
            else:
                is_right = bool(codes) and codes <= {int(CODES[each.type]) for each in API_PERMISSIONS[key]}
            if not is_right:
                wrong.append((key.name, version, answer))
    assert not wrong
    assert not called & set(GUARDED)
    assert "Groups.local_listings" in called
    assert sorted(guarded.broker.topics()) == ["open", "secret"]


async def test_a_superuser_is_refused_nothing(guarded: Guarded) -> None:
    await make_group(guarded)
    for key in guarded.apis:
        if key not in OPEN_APIS and key not in (ApiKey.DELETE_TOPICS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS):
            answer = await guarded.call(key, ADMIN, **requests("open")[key])
            assert not set(error_codes(answer)) & set(map(int, CODES.values())), key.name


async def test_metadata_of_all_topics_has_only_visible_ones(guarded: Guarded) -> None:
    answer = await guarded.call(ApiKey.METADATA, topics=None)
    assert ([each.name for each in answer.topics], len(answer.brokers)) == ([], 1)
    await guarded.allow(AclOperation.READ, TOPIC, "open")
    answer = await guarded.call(ApiKey.METADATA, topics=None, include_topic_authorized_operations=True, version=8)
    assert [(each.name, each.authorized_operations) for each in answer.topics] == [
        ("open", {AclOperation.READ, AclOperation.DESCRIBE})
    ]


async def test_authorized_operations_are_those_of_the_resource(guarded: Guarded) -> None:
    await make_group(guarded)
    answer = await guarded.call(
        ApiKey.METADATA, ADMIN, version=8, topics=[], include_cluster_authorized_operations=True
    )
    everything = {
        type_: {int(each) for each in operations if each is not AclOperation.ALL}
        for type_, operations in OPERATIONS.items()
    }
    assert answer.authorized_operations == everything[CLUSTER]
    answer = await guarded.call(ApiKey.DESCRIBE_CLUSTER, ADMIN, include_cluster_authorized_operations=True)
    assert answer.authorized_operations == everything[CLUSTER]
    answer = await guarded.call(ApiKey.DESCRIBE_CLUSTER, ADMIN, include_cluster_authorized_operations=False)
    assert answer.authorized_operations is None
    await guarded.allow(AclOperation.DELETE, GROUP, "secret-group")
    for is_asked, operations in ((True, {AclOperation.DELETE, AclOperation.DESCRIBE}), (False, None)):
        answer = await guarded.call(
            ApiKey.DESCRIBE_GROUPS, groups=["secret-group"], include_authorized_operations=is_asked
        )
        assert [(each.error_code, each.authorized_operations) for each in answer.groups] == [(0, operations)]


async def test_unknown_topics_are_created_only_with_permission(guarded: Guarded) -> None:
    await guarded.allow(AclOperation.DESCRIBE, TOPIC, "auto")
    named = {"topics": [{"name": "auto"}], "allow_auto_topic_creation": True}
    answer = await guarded.call(ApiKey.METADATA, **named)
    assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await guarded.allow(AclOperation.CREATE, TOPIC, "auto")
    assert (await guarded.call(ApiKey.METADATA, **named)).topics[0].error_code == 0


async def test_parts_of_a_request_are_refused_one_by_one(guarded: Guarded) -> None:
    """Refused topics do not keep the others from being served, nor delay the answer."""
    await make_group(guarded)
    await guarded.allow(AclOperation.ALL, TOPIC, "open")
    await guarded.allow(AclOperation.ALL, GROUP, "secret-group")
    for key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH):
        name = "topic_data" if key is ApiKey.PRODUCE else "topics"
        fields = requests("open")[key]
        fields[name] = [*requests("secret")[key][name], *fields[name]]
        codes = error_codes(await guarded.call(key, **fields))
        assert codes[-2:] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0], key.name
    for key in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE):
        fields = requests("open")[key]
        fields["topics"] = [*requests("secret")[key]["topics"], *fields["topics"]]
        codes = error_codes(await guarded.call(key, **fields))
        assert {each for each in codes if each} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}, key.name
        assert codes.count(ErrorCode.TOPIC_AUTHORIZATION_FAILED) == 1, key.name
    await make_group(guarded)
    answer = await guarded.call(ApiKey.OFFSET_FETCH, group_id="secret-group", topics=None)
    assert [each.name for each in answer.topics] == ["open"]
    assert [each.group_id for each in (await guarded.call(ApiKey.LIST_GROUPS, states_filter=[])).groups] == [
        "secret-group"
    ]


@pytest.mark.parametrize(
    "key", [ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR], ids=lambda key: str(key.name)
)
async def test_a_transactional_id_needs_its_own_permission(guarded: Guarded, key: ApiKey) -> None:
    await guarded.allow(AclOperation.ALL, TOPIC, "open")
    fields: dict[str, Any] = {"transactional_id": "secret-tx"}
    if key is ApiKey.FIND_COORDINATOR:
        fields = {"key": "secret-tx", "key_type": 1}
    refused = await guarded.call(key, **requests("open")[key] | fields)
    assert error_codes(refused) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    await guarded.allow(AclOperation.WRITE, TRANSACTIONAL_ID, "secret-tx")
    allowed = await guarded.call(key, **requests("open")[key] | fields)
    assert ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED not in error_codes(allowed)


async def test_a_session_ends_when_a_permission_ends(guarded: Guarded) -> None:
    await guarded.allow(AclOperation.READ, TOPIC, "open")
    fields = requests("open")[ApiKey.FETCH] | {"session_epoch": 0, "max_wait_ms": 10}
    begun = await guarded.call(ApiKey.FETCH, **fields)
    assert begun.session_id
    both = [*fields["topics"], *requests("secret")[ApiKey.FETCH]["topics"]]
    refused = await guarded.call(ApiKey.FETCH, **fields | {"topics": both})
    assert (refused.session_id, set(error_codes(refused))) == (0, {0, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    next_one = fields | {"session_id": begun.session_id, "session_epoch": 1, "topics": []}
    assert (await guarded.call(ApiKey.FETCH, **next_one)).error_code == 0
    await guarded.allow(AclOperation.READ, TOPIC, "open", AclEffect.DENY)
    ended = await guarded.call(ApiKey.FETCH, **next_one | {"session_epoch": 2})
    assert (ended.error_code, ended.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


async def revoke_while(guarded: Guarded, **fields: Any) -> Any:
    """Deny READ on `open` while a Fetch waits; return its answer, which has to come long before its 20 s."""
    fetching = asyncio.create_task(guarded.call(ApiKey.FETCH, **fields | {"max_wait_ms": 20_000}))
    await until(lambda: len(guarded.broker.security.authorizer._watches) == 1)
    assert not fetching.done()
    await guarded.allow(AclOperation.READ, TOPIC, "open", AclEffect.DENY)
    return await asyncio.wait_for(fetching, 10)


@pytest.mark.parametrize("session_epoch", [-1, 0])
async def test_a_fetch_that_waits_ends_when_a_permission_ends(guarded: Guarded, session_epoch: int) -> None:
    await guarded.allow(AclOperation.READ, TOPIC, "open")
    fields = requests("open")[ApiKey.FETCH] | {"session_epoch": session_epoch, "min_bytes": 1_000_000}
    answer = await revoke_while(guarded, **fields)
    assert (answer.session_id, set(error_codes(answer))) == (0, {0, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    [topic] = answer.responses
    assert not topic.partitions[0].records


async def test_a_fetch_of_a_session_that_waits_ends_when_a_permission_ends(guarded: Guarded) -> None:
    await guarded.allow(AclOperation.READ, TOPIC, "open")
    fields = requests("open")[ApiKey.FETCH] | {"session_epoch": 0, "max_wait_ms": 10}
    begun = await guarded.call(ApiKey.FETCH, **fields)
    more = {"session_id": begun.session_id, "session_epoch": 1, "topics": [], "min_bytes": 1_000_000}
    ended = await revoke_while(guarded, **fields | more)
    assert (ended.error_code, ended.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
    again = await guarded.call(ApiKey.FETCH, **fields)
    assert set(error_codes(again)) == {0, ErrorCode.TOPIC_AUTHORIZATION_FAILED}


async def test_configurations_of_a_new_topic_need_their_own_permission(guarded: Guarded) -> None:
    await guarded.allow(AclOperation.CREATE, TOPIC, "new")
    answer = await guarded.call(ApiKey.CREATE_TOPICS, **requests("")[ApiKey.CREATE_TOPICS])
    [row] = answer.topics
    assert (row.error_code, row.topic_config_error_code) == (0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert not row.configs
    assert "new" in guarded.broker.topics()


async def test_acls_are_created_described_and_deleted(guarded: Guarded) -> None:
    created = await guarded.call(ApiKey.CREATE_ACLS, ADMIN, creations=[ACL, {**ACL, "operation": 99}])
    assert error_codes(created) == [0, ErrorCode.INVALID_REQUEST]
    described = await guarded.call(ApiKey.DESCRIBE_ACLS, ADMIN, **ACL_FILTER)
    [resource] = described.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "t", 3)
    assert [(each.principal, each.host, each.operation, each.permission_type) for each in resource.acls] == [
        ("User:alice", "*", 3, 3)
    ]
    wrong = {**ACL_FILTER, "operation": 77}
    assert error_codes(await guarded.call(ApiKey.DESCRIBE_ACLS, ADMIN, **wrong)) == [ErrorCode.INVALID_REQUEST]
    assert error_codes(await guarded.call(ApiKey.DELETE_ACLS, ADMIN, filters=[wrong])) == [ErrorCode.INVALID_REQUEST]
    other = {**ACL_FILTER, "resource_name_filter": "other"}
    deleted = await guarded.call(ApiKey.DELETE_ACLS, ADMIN, filters=[other, ACL_FILTER])
    assert [len(each.matching_acls) for each in deleted.filter_results] == [0, 1]
    assert error_codes(await guarded.call(ApiKey.DESCRIBE_ACLS, ADMIN, **ACL_FILTER)) == [0]


async def test_an_entry_is_effective_at_once(guarded: Guarded) -> None:
    fields = requests("secret")[ApiKey.PRODUCE]
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in error_codes(await guarded.call(ApiKey.PRODUCE, **fields))
    await guarded.allow(AclOperation.WRITE, TOPIC, "secret")
    assert set(error_codes(await guarded.call(ApiKey.PRODUCE, **fields))) == {0}
    await guarded.allow(AclOperation.WRITE, TOPIC, "secret", AclEffect.DENY)
    assert ErrorCode.TOPIC_AUTHORIZATION_FAILED in error_codes(await guarded.call(ApiKey.PRODUCE, **fields))


async def test_client_quotas_are_set_described_and_removed(guarded: Guarded) -> None:
    def entry(*ops: tuple[str, float, bool], name: str | None = "alice") -> dict[str, Any]:
        rows = [{"key": key, "value": value, "remove": is_removed} for key, value, is_removed in ops]
        return {"entity": [{"entity_type": "user", "entity_name": name}], "ops": rows}

    async def described(*components: dict[str, Any]) -> list[Any]:
        answer = await guarded.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, ADMIN, components=list(components), strict=False)
        assert answer.error_code == 0
        return [
            (
                [(part.entity_type, part.entity_name) for part in each.entity],
                [(value.key, value.value) for value in each.values],
            )
            for each in answer.entries
        ]

    rate = ("producer_byte_rate", 1024.0, False)
    for validate_only in (True, False):
        answer = await guarded.call(
            ApiKey.ALTER_CLIENT_QUOTAS,
            ADMIN,
            entries=[entry(rate), entry(rate, name=None), entry(("nonsense", 1.0, False)), entry(rate, name="")],
            validate_only=validate_only,
        )
        assert error_codes(answer) == [0, 0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
        assert bool(await described()) == (not validate_only)
    alice = ([("user", "alice")], [("producer_byte_rate", 1024.0)])
    assert await described() == [([("user", None)], [("producer_byte_rate", 1024.0)]), alice]
    assert await described({"entity_type": "user", "match_type": 0, "match": "alice"}) == [alice]
    twice = [{"entity_type": "user", "match_type": 2, "match": None}] * 2
    refused = await guarded.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, ADMIN, components=twice, strict=False)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    gone = entry(("producer_byte_rate", 0.0, True))
    await guarded.call(ApiKey.ALTER_CLIENT_QUOTAS, ADMIN, entries=[gone], validate_only=False)
    assert await described({"entity_type": "user", "match_type": 0, "match": "alice"}) == []
