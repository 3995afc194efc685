"""Offsets of transactions through any broker, kept when the coordinator of their group stops."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from raftlog.errors import CoordinatorFenced, ProducerFenced, UnknownPartition
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import GroupMarker, MemberIdentity, OffsetCommit, TransactionalProducer
from raftlog.types import Offset, TopicPartition
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.members import G, commit, coordinator_node, fetch_committed, list_other_brokers, soon

PRODUCER = TransactionalProducer("tx", 7, 2)


def confirm_transactions(brokers: Brokers) -> None:
    """Let every coordinator of groups confirm transactions, as their own coordinator does while they are open."""

    async def confirm(producer: TransactionalProducer, group: str, deadline: Deadline) -> None:
        assert (producer, group) == (PRODUCER, G)

    for broker in brokers.running.values():
        object.__setattr__(broker.groups._environment, "verify_transaction", confirm)


@pytest.fixture
async def brokers(tmp_path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, offsets_partitions=1) as three:
        await three.start()
        await three[1].create_topic("t", 2, deadline=soon())
        confirm_transactions(three)
        yield three


async def commit_pending(broker: Any, offsets: Mapping[int, int]) -> dict[TopicPartition, Any]:
    made = {TopicPartition("t", number): OffsetCommit(Offset(offset)) for number, offset in offsets.items()}
    member = MemberIdentity("", -1)
    found: dict[TopicPartition, Any] = await broker.groups.commit_pending(
        G, made, producer=PRODUCER, member=member, deadline=soon()
    )
    return found


async def fetch_stable(broker: Any) -> dict[int, tuple[int, bool]]:
    found = await broker.groups.stable_offsets(G, deadline=soon())
    return {place.partition: (int(each.offset), each.is_pending) for place, each in found.items()}


async def test_a_transaction_outlives_its_groups_coordinator(brokers):
    assert await fetch_stable(brokers[1]) == {}
    await commit(brokers[1], {0: 1})
    node = await coordinator_node(brokers)
    first, second = await list_other_brokers(brokers)
    failed = await commit_pending(first, {0: 5, 1: 6, 9: 7})
    assert {place: type(error) for place, error in failed.items()} == {TopicPartition("t", 9): UnknownPartition}
    assert await fetch_stable(second) == {0: (1, True), 1: (-1, True)}
    await brokers.stop(node)
    assert await fetch_stable(second) == {0: (1, True), 1: (-1, True)}
    await commit_pending(second, {1: 8})
    await first.groups.end_transaction(G, GroupMarker(7, 2, True, 3), deadline=soon())
    await second.groups.end_transaction(G, GroupMarker(7, 2, True, 3), deadline=soon())
    assert await fetch_committed(first) == {("t", 0): 5, ("t", 1): 8}
    assert await fetch_stable(first) == {0: (5, False), 1: (8, False)}
    with pytest.raises(CoordinatorFenced):
        await first.groups.end_transaction(G, GroupMarker(7, 2, False, 2), deadline=soon())
    with pytest.raises(ProducerFenced):
        await second.groups.end_transaction(G, GroupMarker(7, 1, False, 3), deadline=soon())
