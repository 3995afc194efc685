"""Coordinators in a cluster: found at every broker, refused elsewhere, and moved to another broker."""

import asyncio

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from tests.brokers.conftest import Brokers
from tests.brokers.members import coordinator_node, soon
from tests.kafka.groups.conftest import GroupHandlers
from tests.kafka.groups.members import G, KafkaMember, commit, fetch_committed, fetch_offsets, leave
from tests.waiting import until_async


async def find_coordinator(handlers: GroupHandlers) -> int:
    """Find the coordinator like a client; retry until there is one."""
    nodes: list[int] = []

    async def is_found() -> bool:
        answer = await handlers.call(ApiKey.FIND_COORDINATOR, 3, key=G)
        assert answer.error_code in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE), answer
        nodes.append(answer.node_id)
        return answer.error_code == 0

    await until_async(is_found)
    return nodes[-1]


async def test_each_broker_names_the_coordinator_and_the_others_refuse(three: Brokers):
    handlers_by_node = {number: GroupHandlers(broker) for number, broker in three.running.items()}
    node = await coordinator_node(three)
    await asyncio.gather(*(broker.groups.committed(G, deadline=soon()) for broker in three.running.values()))
    assert {await find_coordinator(handlers) for handlers in handlers_by_node.values()} == {node}
    await KafkaMember(handlers_by_node[node]).join_and_sync_alone()
    for handlers in (each for number, each in handlers_by_node.items() if number != node):
        stranger = KafkaMember(handlers)
        code = ErrorCode.NOT_COORDINATOR
        assert (await stranger.ask_to_join()).error_code == code
        assert (await stranger.ask_to_sync()).error_code == code
        assert await stranger.heartbeat() == code
        assert (await leave(handlers, {"nobody": None})).error_code == code
        assert (await stranger.leave(2)).error_code == code
        assert await commit(handlers, {0: 1, 1: 2}) == {0: code, 1: code}
        assert (await fetch_offsets(handlers, {"t": [0]})).error_code == code
        assert (await fetch_offsets(handlers, {"t": [0]}, version=1)).topics[0].partitions[0].error_code == code
        described = await handlers.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[G])
        assert (described.groups[0].error_code, described.groups[0].group_state) == (code, "")
        deleted = await handlers.call(ApiKey.DELETE_GROUPS, 2, groups_names=[G])
        assert deleted.results[0].error_code == code
        assert (await handlers.call(ApiKey.OFFSET_DELETE, 0, group_id=G, topics=[])).error_code == code
        assert (await handlers.call(ApiKey.LIST_GROUPS, 4)).groups == []
    assert [each.group_id for each in (await handlers_by_node[node].call(ApiKey.LIST_GROUPS, 4)).groups] == [G]


async def test_a_member_continues_in_its_generation_at_the_next_coordinator(three: Brokers):
    node = await coordinator_node(three)
    member = KafkaMember(GroupHandlers(three[node]))
    await member.join_and_sync_alone()
    assert await member.commit({0: 4, 1: 5}) == {0: 0, 1: 0}
    await three.stop(node)
    other = GroupHandlers(next(iter(three.running.values())))

    async def has_moved() -> bool:
        number = await find_coordinator(other)
        if number not in three.running:
            return False
        member.handlers = GroupHandlers(three[number])
        code = await member.heartbeat()
        assert code in (0, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return code == 0

    await until_async(has_moved)
    assert await member.commit({1: 3}) == {1: 0}
    assert await fetch_committed(member.handlers) == {"t": {0: 4, 1: 3}}
    assert await member.sync() == [0, 1, 2, 3]
    second = KafkaMember(member.handlers)
    joining = asyncio.ensure_future(second.join())
    await member.wait_for_rebalance()
    await asyncio.gather(member.join(), joining)
    assert member.generation == second.generation == 2


async def test_a_waiting_join_is_answered_when_its_coordinator_moves(three: Brokers):
    node = await coordinator_node(three)
    leader, waiting = KafkaMember(GroupHandlers(three[node])), KafkaMember(GroupHandlers(three[node]))
    await leader.join_and_sync_alone()
    waiting.member_id = (await waiting.ask_to_join()).member_id
    joining = asyncio.ensure_future(waiting.ask_to_join())
    await leader.wait_for_rebalance()
    partition = three[node].groups.router.partition_of(G)
    assert partition.replica is not None
    partition.replica.group.step_down("test")
    assert (await joining).error_code == ErrorCode.NOT_COORDINATOR
