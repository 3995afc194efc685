"""A broker in maintenance leads nothing and gets no new replicas, whichever broker received the request."""

import pytest

from raftlog.errors import ChangeRefused, InvalidArgument, UnknownBroker, VersionConflict
from tests.brokers.conftest import Brokers, brokers_in
from tests.operations.conftest import assigned_nodes, count_led_groups, soon, write
from tests.waiting import until, until_async


async def is_finished(brokers: Brokers, asked: int, node: int) -> bool:
    return (await brokers[asked].operations.brokers.maintenance(node, deadline=soon())).finished


async def test_a_broker_in_maintenance_hands_over_its_leaderships_and_gets_them_back(three: Brokers) -> None:
    await three[1].create_topic("t", 6, 3, deadline=soon())
    await until(lambda: all(count_led_groups(broker) >= 2 for broker in three.running.values()))
    assert not (await three[1].operations.brokers.maintenance(2, deadline=soon())).draining
    version = await three[1].operations.brokers.set_maintenance(2, True, deadline=soon())
    assert await three[3].operations.brokers.set_maintenance(2, True, deadline=soon()) == version, "twice is once"
    await until_async(lambda: is_finished(three, 3, 2))
    assert count_led_groups(three[2]) == 0
    told = await three[1].operations.brokers.maintenance(2, deadline=soon())
    assert (told.draining, told.errors, told.partitions, told.reasons, told.version) == (True, False, 0, [], version)
    for partition in range(6):
        await write(three[2], "t", b"x", partition)
    await three[2].operations.brokers.set_maintenance(2, False, deadline=soon())
    await until(lambda: count_led_groups(three[2]) >= 2)


async def test_maintenance_moves_the_controllers_leadership_too(three: Brokers) -> None:
    leader = three[1].controller_id
    assert leader is not None
    await three[1].operations.brokers.set_maintenance(leader, True, deadline=soon())
    await until(lambda: {broker.controller_id for broker in three.running.values()} < {1, 2, 3} - {leader})


async def test_a_broker_in_maintenance_gets_no_new_replicas(four: Brokers) -> None:
    await four[1].operations.brokers.set_maintenance(2, True, deadline=soon())
    await four[3].create_topic("t", 4, 3, deadline=soon())
    assert all(sorted(assigned_nodes(four[3], "t", partition)) == [1, 3, 4] for partition in range(4))
    with pytest.raises(InvalidArgument, match="in maintenance or draining"):
        await four[1].operations.partitions.set_replicas("t", 0, [1, 2, 3], deadline=soon())


async def test_one_broker_at_a_time_may_be_in_maintenance(three: Brokers) -> None:
    operations = three[1].operations
    version = await operations.brokers.set_maintenance(1, True, deadline=soon())
    with pytest.raises(ChangeRefused, match="has to wait"):
        await three[2].operations.brokers.set_maintenance(2, True, deadline=soon())
    with pytest.raises(UnknownBroker):
        await operations.brokers.set_maintenance(9, True, deadline=soon())
    with pytest.raises(UnknownBroker):
        await operations.brokers.maintenance(9, deadline=soon())
    with pytest.raises(VersionConflict):
        await operations.brokers.set_maintenance(1, False, expected_version=version - 1, deadline=soon())
    await operations.brokers.set_maintenance(1, False, expected_version=version, deadline=soon())
    await three[2].operations.brokers.set_maintenance(2, True, deadline=soon())


async def test_a_lone_broker_cannot_be_in_maintenance(tmp_path) -> None:
    async with brokers_in(tmp_path, 1) as brokers:
        await brokers.start()
        with pytest.raises(InvalidArgument, match="the only one"):
            await brokers[1].operations.brokers.set_maintenance(1, True, deadline=soon())


async def test_partitions_without_another_leader_are_reported(three: Brokers) -> None:
    """A partition with one replica stays; one whose other voters are down is reported by name."""
    await three[1].create_topic("alone", 1, 1, deadline=soon())
    await three[1].operations.partitions.set_replicas("alone", 0, [1], deadline=soon())
    await until(lambda: count_led_groups(three[1]) and assigned_nodes(three[1], "alone") == [1])
    await three[1].operations.brokers.set_maintenance(1, True, deadline=soon())
    await until_async(lambda: is_finished(three, 2, 1))

    async def reports_partition() -> bool:
        told = await three[2].operations.brokers.maintenance(1, deadline=soon())
        return told.partitions == 1 and any("only replica" in reason for reason in told.reasons)

    await until_async(reports_partition)
    await three.stop(1)
    told = await three[2].operations.brokers.maintenance(1, deadline=soon())
    assert (told.draining, told.finished) == (True, False)
    assert "does not answer" in told.reasons[0]
