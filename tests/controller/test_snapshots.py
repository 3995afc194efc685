"""The controller's log stays short: snapshots, trims, restarts, late joiners; differing states are reported."""

import asyncio
from itertools import count
from pathlib import Path

from raftlog.partitions.controller.machine import DeleteTopic, snapshot_payloads
from raftlog.records import ControlKind
from tests.controller.brokers import Broker, Brokers, brokers, log_lines, soon

THREE = (1, 2, 3)
SMALL = 8_000
numbers = count(1)


def first_index(broker: Broker) -> int:
    group_id = broker.metadata.group_id
    group = None if group_id is None else broker.node.find_replica(group_id)
    return 0 if group is None else group.log.boundary.index + 1


async def create_and_delete_topics(cluster: Brokers, number: int, rounds: int) -> None:
    """Create and delete topics, so that the log grows and the state does not."""
    metadata = cluster.running[number].metadata
    for _ in range(rounds):
        ids = [next(numbers) for _ in range(10)]
        topics = [cluster.make_topic(f"t{n}", n) for n in ids]
        await asyncio.gather(*(metadata.submit(topic, soon()) for topic in topics))
        await asyncio.gather(*(metadata.submit(DeleteTopic(t.name, t.topic_id), soon()) for t in topics[1:]))


async def test_the_state_is_restored_from_a_trimmed_log(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1], seeds=()) as cluster:
        cluster.settings["snapshot_log_bytes"] = SMALL
        await cluster.start()
        await create_and_delete_topics(cluster, 1, 10)
        await cluster.wait_until(lambda: first_index(cluster.running[1]) > 100)
        names = cluster.running[1].metadata.state.topic_names()
        assert len(names) == 10
        await cluster.stop()
        await cluster.start()
        state = cluster.running[1].metadata.state
        assert state.topic_names() == names
        await create_and_delete_topics(cluster, 1, 1)


async def test_a_late_joiner_gets_a_snapshot(tmp_path: Path) -> None:
    async with brokers(tmp_path, (1, 2, 3, 4), seeds=THREE) as cluster:
        cluster.settings["snapshot_log_bytes"] = SMALL
        await cluster.start(*THREE)
        await create_and_delete_topics(cluster, 1, 8)
        await cluster.wait_until(lambda: all(first_index(broker) > 50 for broker in cluster.running.values()))
        await cluster.start(4)
        assert first_index(cluster.running[4]) > 50
        await cluster.wait_until_equal()
        await create_and_delete_topics(cluster, 4, 2)
        await cluster.wait_until_equal()


async def test_a_reader_absent_during_a_trim_reads_the_snapshot(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings["snapshot_log_bytes"] = SMALL
        await cluster.start()
        await cluster.stop(2)
        await create_and_delete_topics(cluster, 3, 8)
        await cluster.wait_until(lambda: all(first_index(broker) > 50 for broker in cluster.running.values()))
        await cluster.start(2)
        await cluster.wait_until_equal()
        assert cluster.running[2].metadata.state.broker(2).boot_epoch == 2


async def test_an_incomplete_snapshot_is_repeated(tmp_path: Path) -> None:
    """The leader fails between its roll and its trim."""
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        await create_and_delete_topics(cluster, 1, 5)
        await cluster.wait_until(cluster.leader)
        leader = cluster.running[cluster.leader()]
        group_id = leader.metadata.group_id
        assert group_id is not None
        group = leader.node.find_replica(group_id)
        assert group is not None
        rolled = await group.roll_now()
        pieces = list(snapshot_payloads(leader.metadata.state, rolled.first_index, 64))
        assert len(pieces) > 3
        await group.propose_control([(ControlKind.SNAPSHOT, piece) for piece in pieces[:3]])
        await cluster.stop()
        cluster.settings["snapshot_log_bytes"] = SMALL
        await cluster.start()
        await create_and_delete_topics(cluster, 2, 5)
        await cluster.wait_until(
            lambda: all(first_index(broker) > rolled.first_index for broker in cluster.running.values())
        )
        await cluster.stop()
        await cluster.start()
        await cluster.wait_until_equal()


async def test_differing_states_are_reported(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster, log_lines() as lines:
        cluster.settings["hash_interval_ms"] = 20
        await cluster.start()
        await cluster.wait_until(cluster.leader)
        victim = next(broker for number, broker in cluster.running.items() if number != cluster.leader())
        assert victim.metadata.freshness().problem is None
        victim.metadata.state.next_producer_id += 1
        await cluster.running[cluster.leader()].metadata.submit(cluster.make_topic("t", 1), soon())
        await lines.wait_for("differs from the leader's at index")
        fresh = victim.metadata.freshness()
        assert "differs" in (fresh.problem or "")
