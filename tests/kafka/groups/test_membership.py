"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of all versions at a real broker."""

import asyncio

import pytest

from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.assignors import Subscription, decode_subscription, encode_subscription
from raftlog.types import TopicPartition
from tests.brokers.members import soon
from tests.kafka.groups.members import (
    BEAT_MAX,
    JOIN_MAX,
    LEAVE_MAX,
    SUBSCRIPTION,
    SYNC_MAX,
    G,
    KafkaMember,
    leave,
)


def test_supported_versions_are_those_that_clients_need(handlers):
    assert {key.name: api.versions for key, api in handlers.apis.items()} == {
        "OFFSET_COMMIT": (2, 8),
        "OFFSET_FETCH": (1, 7),
        "FIND_COORDINATOR": (0, 3),
        "JOIN_GROUP": (0, 7),
        "HEARTBEAT": (0, 4),
        "LEAVE_GROUP": (0, 4),
        "SYNC_GROUP": (0, 5),
        "DESCRIBE_GROUPS": (0, 5),
        "LIST_GROUPS": (0, 4),
        "DELETE_GROUPS": (0, 2),
        "OFFSET_DELETE": (0, 0),
    }


@pytest.mark.parametrize("version", range(JOIN_MAX + 1))
async def test_a_member_joins_syncs_and_leaves_in_each_version(handlers, version):
    member = KafkaMember(handlers, version=version)
    first = await member.ask_to_join()
    if version >= 4:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("client-7-")
        assert (first.generation_id, first.leader, list(first.members)) == (-1, "", [])
        member.member_id = first.member_id
        first = await member.ask_to_join()
    assert first.error_code == 0
    member.member_id, member.generation = first.member_id, first.generation_id
    assert (first.generation_id, first.leader, first.protocol_name) == (1, first.member_id, "range")
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    (row,) = first.members
    assert (row.member_id, row.metadata, row.group_instance_id) == (first.member_id, SUBSCRIPTION, None)
    sync, beat, left = (min(version, most) for most in (SYNC_MAX, BEAT_MAX, LEAVE_MAX))
    assert await member.sync({member.member_id: [0, 3]}, sync) == [0, 3]
    assert await member.heartbeat(beat) == 0
    assert (await member.leave(left)).error_code == 0
    assert await member.heartbeat(beat) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_two_members_share_a_generation(handlers):
    leader, other = KafkaMember(handlers), KafkaMember(handlers, version=3)
    await leader.join_and_sync_alone()
    joining = asyncio.ensure_future(other.join())
    await leader.wait_for_rebalance()
    assert (await leader.ask_to_sync()).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again, joined = await asyncio.gather(leader.join(), joining)
    assert again.generation_id == joined.generation_id == 2
    assert joined.leader == again.member_id
    assert {each.member_id for each in again.members} == {leader.member_id, other.member_id}
    assert list(joined.members) == []
    numbers = {leader.member_id: [0, 1], other.member_id: [2, 3]}
    assert await asyncio.gather(other.sync(), leader.sync(numbers)) == [[2, 3], [0, 1]]
    assert (await leave(handlers, {leader.member_id: None, "nobody": None, other.member_id: None})).members == [
        (leader.member_id, None, 0),
        ("nobody", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (other.member_id, None, 0),
    ]


async def test_invalid_requests_of_members_are_refused(handlers):
    member = KafkaMember(handlers)
    await member.join_and_sync_alone()
    member.generation -= 1
    assert await member.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert (await member.ask_to_sync()).error_code == ErrorCode.ILLEGAL_GENERATION
    member.generation += 1
    answer = await member.ask_to_sync(protocol_name="roundrobin")
    assert (answer.error_code, answer.assignment) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, b"")
    stranger = KafkaMember(handlers)
    stranger.member_id = "nobody"
    assert (await stranger.ask_to_join()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await stranger.ask_to_sync()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await stranger.leave(1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [0, 6, 7])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"session_timeout_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {"roundrobin": SUBSCRIPTION}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "a/b"}, ErrorCode.INVALID_GROUP_ID),
    ],
)
async def test_invalid_joins_are_refused(handlers, version, fields, code):
    await KafkaMember(handlers).join_and_sync_alone()
    refused = await KafkaMember(handlers, version=version).ask_to_join(**fields)
    assert (refused.error_code, refused.generation_id, refused.leader) == (code, -1, "")
    assert refused.protocol_name == (None if version == 7 else "")


async def test_the_largest_rebalance_timeout_of_clients_is_accepted(handlers):
    member = KafkaMember(handlers)
    await member.join(rebalance_timeout_ms=2**31 - 1)
    assert await member.sync({member.member_id: [1]}) == [1]


@pytest.mark.parametrize("kind", ["connect", "sr"])
async def test_payloads_of_other_protocols_are_opaque(handlers, kind):
    member, payload = KafkaMember(handlers), bytes(range(256))
    joined = await member.join(protocol_type=kind, protocols={"v0": payload})
    assert (joined.protocol_type, joined.protocol_name, joined.members[0].metadata) == (kind, "v0", payload)
    synced = await member.ask_to_sync({member.member_id: payload[::-1]}, protocol_type=kind, protocol_name="v0")
    assert (synced.error_code, synced.protocol_type, synced.protocol_name) == (0, kind, "v0")
    assert synced.assignment == payload[::-1]


async def test_owned_partitions_of_cooperative_members_pass_unchanged(handlers):
    owned = Subscription(("t",), owned=(TopicPartition("t", 2),), generation=4, rack="r")
    for version in (1, 2, 3):
        metadata = encode_subscription(owned, version)
        member = KafkaMember(handlers, f"cooperative-{version}")
        await handlers.broker.groups.coordinator(member.group, deadline=soon())
        joined = await member.join(protocols={"cooperative-sticky": metadata})
        assert joined.members[0].metadata == metadata
        assert decode_subscription(metadata).owned == owned.owned
        # A changed subscription of the only member begins another generation: the second step of a rebalance.
        assert (await member.join(protocols={"cooperative-sticky": SUBSCRIPTION})).generation_id == 2


async def test_static_members_keep_their_assignment_and_fence_the_earlier_process(handlers):
    before = KafkaMember(handlers, instance_id="i")
    joined = await before.join()
    assert joined.members[0].group_instance_id == "i"
    assert await before.sync({before.member_id: [0, 1, 2, 3]}) == [0, 1, 2, 3]
    after = KafkaMember(handlers, instance_id="i")
    again = await after.join(session_timeout_ms=20_000, rebalance_timeout_ms=40_000)
    assert (again.generation_id, again.member_id != before.member_id) == (1, True)
    assert again.leader == before.member_id  # KIP-814: it does not assign
    assert await after.sync() == [0, 1, 2, 3]
    assert await before.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert (await before.ask_to_sync()).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert await before.commit({0: 1}) == {0: ErrorCode.FENCED_INSTANCE_ID}
    assert (await before.leave()).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    coordinator = handlers.broker.groups.coordinators.find(handlers.broker.groups.router.partition_of(G))
    (member,) = coordinator.machine.group(G).members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (20_000, 40_000)
    assert (await leave(handlers, {"": "i"})).members == [("", "i", 0)]
    assert await after.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_cancelled_join_of_a_new_member_leaves_no_member(handlers):
    leader = KafkaMember(handlers)
    await leader.join_and_sync_alone()
    joining = asyncio.ensure_future(KafkaMember(handlers, version=3).ask_to_join())
    await leader.wait_for_rebalance()
    joining.cancel()  # its connection was lost
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert len((await leader.join()).members) == 1


async def test_joins_and_syncs_end_when_the_listener_stops(handlers):
    first, second = KafkaMember(handlers), KafkaMember(handlers)
    await first.join_and_sync_alone()
    second.member_id = (await second.ask_to_join()).member_id
    joining = asyncio.create_task(second.ask_to_join())
    await first.wait_for_rebalance()
    await first.join()
    assert (await joining).error_code == 0
    second.generation = first.generation
    follower, leader = (first, second) if first.joined.leader == second.member_id else (second, first)
    syncing = asyncio.create_task(follower.ask_to_sync())
    third = KafkaMember(handlers)
    third.member_id = (await third.ask_to_join()).member_id
    assert await follower.heartbeat() == 0
    assert not syncing.done()
    handlers.stopping.set_result(None)
    assert (await syncing).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = await third.ask_to_join()
    assert (answer.error_code, answer.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, third.member_id)
    assert await leader.heartbeat() in (0, ErrorCode.REBALANCE_IN_PROGRESS), "other requests are served"
