"""FindCoordinator, DescribeGroups, ListGroups and DeleteGroups of all versions at a real broker."""

import pytest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.partitions.broker import Broker
from raftlog.security.permissions import AclOperation
from tests.kafka.groups.members import SUBSCRIPTION, G, KafkaMember, commit


@pytest.mark.parametrize("version", range(4))
async def test_each_version_finds_the_coordinator(handlers, version):
    answer = await handlers.call(ApiKey.FIND_COORDINATOR, version, key="new")
    assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "host-1", 9093)
    refused = await handlers.call(ApiKey.FIND_COORDINATOR, version, key="a/b")
    assert (refused.error_code, refused.node_id, refused.host, refused.port) == (ErrorCode.INVALID_GROUP_ID, -1, "", -1)
    if version >= 1:
        assert "slash" in refused.error_message
        answer = await handlers.call(ApiKey.FIND_COORDINATOR, version, key="new", key_type=1)
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "host-1", 9093)
        refused = await handlers.call(ApiKey.FIND_COORDINATOR, version, key="new", key_type=2)
        assert (refused.error_code, refused.node_id) == (ErrorCode.INVALID_REQUEST, -1)


async def test_a_coordinator_without_this_listener_is_not_available(handlers, monkeypatch):
    monkeypatch.setattr(Broker, "kafka_addresses", lambda broker, listener: [])
    answer = await handlers.call(ApiKey.FIND_COORDINATOR, 3, key=G)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "--kafka" in answer.error_message


@pytest.mark.parametrize("version", range(6))
async def test_each_version_describes_groups(handlers, version):
    await commit(handlers, {0: 1}, "simple")
    member = KafkaMember(handlers, instance_id="i")
    await member.join()
    (joining,) = (await handlers.call(ApiKey.DESCRIBE_GROUPS, version, groups=[G])).groups
    assert (joining.group_state, joining.protocol_type, joining.protocol_data) == (
        "CompletingRebalance",
        "consumer",
        "",
    )
    assert [(each.member_metadata, each.member_assignment) for each in joining.members] == [(b"", b"")]
    assert (await member.ask_to_sync({member.member_id: b"\0\0 opaque"})).error_code == 0
    asked = {"include_authorized_operations": True} if version >= 3 else {}
    answer = await handlers.call(ApiKey.DESCRIBE_GROUPS, version, groups=[G, "simple", "nosuch", "a/b"], **asked)
    found, simple, unknown, invalid = answer.groups
    assert (found.error_code, found.group_id, found.group_state) == (0, G, "Stable")
    assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
    (row,) = found.members
    assert (row.member_id, row.client_id, row.client_host) == (member.member_id, "client-7", "192.0.2.7")
    assert row.group_instance_id == ("i" if version >= 4 else None)
    assert (row.member_metadata, row.member_assignment) == (SUBSCRIPTION, b"\0\0 opaque")
    assert (simple.error_code, simple.group_state, simple.protocol_type, simple.members) == (0, "Empty", "", [])
    assert (unknown.error_code, unknown.group_state, unknown.members) == (0, "Dead", [])
    assert invalid.error_code == ErrorCode.INVALID_GROUP_ID
    everything = {AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE}
    assert found.authorized_operations == (everything if version >= 3 else None)


@pytest.mark.parametrize("version", range(5))
async def test_each_version_lists_groups(handlers, version):
    await commit(handlers, {0: 1}, "simple")
    member = KafkaMember(handlers)
    await member.join_and_sync_alone()
    rows = [(each.group_id, each.protocol_type) for each in (await handlers.call(ApiKey.LIST_GROUPS, version)).groups]
    assert rows == [(G, "consumer"), ("simple", "")]
    if version >= 4:

        async def list_states(*names: str) -> list[tuple[str, str]]:
            answer = await handlers.call(ApiKey.LIST_GROUPS, version, states_filter=list(names))
            return [(each.group_id, each.group_state) for each in answer.groups]

        assert await list_states() == [(G, "Stable"), ("simple", "Empty")]
        assert await list_states("stable") == [(G, "Stable")]
        assert await list_states("Empty", "Dead") == [("simple", "Empty")]
        assert await list_states("nosuch") == []


@pytest.mark.parametrize("version", range(3))
async def test_each_version_deletes_groups(handlers, version):
    await commit(handlers, {0: 1}, "simple")
    member = KafkaMember(handlers)
    await member.join_and_sync_alone()

    async def delete(*groups: str) -> dict[str, int]:
        answer = await handlers.call(ApiKey.DELETE_GROUPS, version, groups_names=list(groups))
        return {each.group_id: each.error_code for each in answer.results}

    assert await delete("simple", G, "nosuch", "a/b") == {
        "simple": 0,
        G: ErrorCode.NON_EMPTY_GROUP,
        "nosuch": ErrorCode.GROUP_ID_NOT_FOUND,
        "a/b": ErrorCode.INVALID_GROUP_ID,
    }
    await member.leave()
    assert await delete(G) == {G: 0}
    assert (await handlers.call(ApiKey.LIST_GROUPS, 4)).groups == []
