"""Consumer groups of each client, and of several at once: members share partitions, commit, leave and return."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from raftlog.client import BrokerClient
from raftlog.types import TopicPartition
from tests.kafka.clients.drivers import Kcat, Librdkafka
from tests.kafka.clients.group_members import (
    AiokafkaMember,
    CooperativeMember,
    KafkaPythonMember,
    LibrdkafkaMember,
    Member,
    RaftlogMember,
    poll_until_shared,
)
from tests.kafka.clients.stored import UnsentRecord

MEMBERS = (LibrdkafkaMember, AiokafkaMember, KafkaPythonMember)
Join = Callable[..., Any]


@pytest.fixture
async def join(cluster, name) -> AsyncIterator[Join]:
    """Yield a function that starts a member of the test's group, which ends with the test."""
    joined: list[Member] = []

    async def start(kind: type[Member], instance: str | None = None) -> Member:
        member = kind(cluster, name, name, instance)
        await member.start()
        joined.append(member)
        return member

    yield start
    for member in joined:
        await member.close()


@pytest.fixture
def fill(cluster, name) -> Callable[[int, int], list[bytes]]:
    """Return a function that writes records to all partitions of the test's topic and returns their values."""
    written = 0

    def write(partitions: int, each: int) -> list[bytes]:
        """Write `each` further values to each partition; return them."""
        nonlocal written
        values = [str(number).encode() for number in range(written, written + partitions * each)]
        written += len(values)
        producer = Librdkafka(cluster)
        for partition in range(partitions):
            producer.write(
                name, [UnsentRecord(None, value) for value in values[partition::partitions]], partition=partition
            )
        return values

    return write


async def fetch_committed(cluster, group: str) -> dict[TopicPartition, int]:
    async with BrokerClient(cluster.addresses) as client:
        return {place: int(each.offset) for place, each in (await client.groups.committed(group)).items()}


async def read_generation(cluster, group: str) -> int:
    async with BrokerClient(cluster.addresses) as client:
        return int((await client.groups.describe(group)).generation)


@pytest.mark.parametrize("kind", [*MEMBERS, CooperativeMember], ids=lambda kind: kind.__name__)
async def test_members_share_leave_and_resume(kind, cluster, name, make_topic, join, fill):
    make_topic(4)
    values = fill(4, 5)
    first = await join(kind)
    await poll_until_shared([first], 4, 20)
    assert first.values() == sorted(values)
    await first.commit()
    assert set((await fetch_committed(cluster, name)).values()) == {5}
    second = await join(kind)
    await poll_until_shared([first, second], 4, 20)
    new = fill(4, 1)
    await poll_until_shared([first, second], 4, 24)
    assert sorted(first.values() + second.values()) == sorted(values + new)
    assert {place for place, _ in second.read} == second.partitions()
    await first.commit()
    await second.commit()
    assert set((await fetch_committed(cluster, name)).values()) == {6}
    for member in (first, second):
        await member.close()
        await member.start()
        member.read.clear()
    new = fill(4, 2)
    await poll_until_shared([first, second], 4, 8)
    assert sorted(first.values() + second.values()) == sorted(new)


async def test_cooperative_members_keep_their_partitions_in_a_rebalance(make_topic, join, fill):
    make_topic(4)
    fill(4, 1)
    first = await join(CooperativeMember)
    await poll_until_shared([first], 4, 4)
    second = await join(CooperativeMember)
    await poll_until_shared([first, second], 4, 4)
    assert [each for each in first.assigned if each] == [[0, 1, 2, 3]]
    assert [set(each) for each in first.revoked if each] == [second.partitions()]


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.__name__)
async def test_a_static_member_returns_to_its_partitions_without_a_rebalance(
    kind, cluster, name, make_topic, join, fill
):
    make_topic(4)
    first = await join(kind, "one")
    await poll_until_shared([first], 4, 0)
    # The first member leads. kafka-python sends a second JoinGroup if a poll ends before the first is answered,
    # and a repeated request is a rebalance if the leader sends it.
    second = await join(kind, "two")
    await poll_until_shared([first, second], 4, 0)
    fill(4, 1)
    await poll_until_shared([first, second], 4, 4)
    before, kept = await read_generation(cluster, name), second.partitions()
    await second.commit()
    await second.close()
    await second.start()
    await poll_until_shared([first, second], 4, 4)
    assert (await read_generation(cluster, name), second.partitions()) == (before, kept)


async def test_librdkafka_aiokafka_and_raftlog_share_a_group(cluster, name, make_topic, join, fill):
    make_topic(6)
    members = [await join(kind) for kind in (LibrdkafkaMember, AiokafkaMember, RaftlogMember)]
    await poll_until_shared(members, 6, 0)
    values = fill(6, 3)
    await poll_until_shared(members, 6, 18)
    assert sorted(value for member in members for value in member.values()) == sorted(values)
    for member in members:
        assert {partition for partition, _ in member.read} == member.partitions()
        await member.commit()
    assert set((await fetch_committed(cluster, name)).values()) == {3}
    await members[0].close()
    await poll_until_shared(members[1:], 6, 0)
    for member in members:
        member.read.clear()
    values = fill(6, 1)
    await poll_until_shared(members[1:], 6, 6)
    assert sorted(members[1].values() + members[2].values()) == sorted(values)


def test_kcat_resumes_in_its_group(cluster, name, make_topic, fill):
    make_topic(4)
    values, client = fill(4, 3), Kcat(cluster)
    flags = ("-G", name, "-X", "auto.offset.reset=earliest", "-c")
    assert sorted(record.value or b"" for record in client.lines(*flags, "12", name)) == sorted(values)
    values = fill(4, 1)
    assert sorted(record.value or b"" for record in client.lines(*flags, "4", name)) == sorted(values)
