"""First start of three seeds: one cluster in any order of starts, and none when their seed lists differ."""

import asyncio
from pathlib import Path
from uuid import UUID

from tests.controller.brokers import brokers, log_lines, soon

THREE = (1, 2, 3)


async def test_three_seeds_create_one_cluster(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        await cluster.wait_until_equal()
        metadatas = [broker.metadata for broker in cluster.running.values()]
        assert len({metadata.cluster_id for metadata in metadatas}) == 1
        for broker in cluster.running.values():
            state = broker.metadata.state
            assert [row.node_id for row in state.all_brokers()] == [1, 2, 3]
            assert [row.addresses.rpc for row in state.all_brokers()] == [
                cluster.address_text(number) for number in THREE
            ]
            group = broker.metadata.group_id
            assert group is not None
            configuration = broker.node.find_replica(group).core.configuration
            assert [voter.node_id for voter in configuration.voters] == [1, 2, 3]
            assert {peer.node for peer in broker.node.transport.peers()} == {1, 2, 3} - {broker.number}


async def test_every_node_accepts_commands(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        topics = [
            (broker.metadata, cluster.make_topic(f"{broker.number}-{n}", 10 * broker.number + n))
            for broker in cluster.running.values()
            for n in range(5)
        ]
        await asyncio.gather(*(metadata.submit(topic, soon()) for metadata, topic in topics))
        for metadata, topic in topics:
            assert metadata.state.has_topic(topic.name), "the copy of the proposer has it when it is told"
        for broker in cluster.running.values():
            await broker.metadata.barrier(soon())
            assert len(broker.metadata.state.topic_names()) == 15


async def test_commands_continue_after_the_leader_stops(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        await cluster.wait_until(cluster.leader)
        gone = cluster.leader()
        other = next(broker for number, broker in cluster.running.items() if number != gone)
        waiting = [
            asyncio.create_task(other.metadata.submit(cluster.make_topic(f"t{n}", n), soon())) for n in range(10)
        ]
        await cluster.stop(gone)
        await asyncio.gather(*waiting)
        await other.metadata.submit(cluster.make_topic("after", 50), soon())
        await cluster.start(gone)
        await cluster.wait_until_equal()
        state = cluster.running[gone].metadata.state
        assert len(state.topic_names()) == 11
        assert state.broker(gone).boot_epoch == 2


async def test_a_cluster_restarts_after_all_nodes_stopped(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        await cluster.running[2].metadata.submit(cluster.make_topic("t", 1), soon())
        cluster_id = cluster.running[1].metadata.cluster_id
        await cluster.wait_until_equal()
        await cluster.stop()
        lonely = await cluster.begin(3)
        assert {peer.node: peer.address for peer in lonely.node.transport.peers()} == {
            number: cluster.address(number) for number in (1, 2)
        }, "addresses are known without a majority"
        await cluster.start(1, 2)
        await asyncio.wait_for(lonely.started, 20)
        await cluster.wait_until_equal()
        for broker in cluster.running.values():
            assert broker.metadata.cluster_id == cluster_id
            assert broker.metadata.state.has_topic("t")
            assert [row.boot_epoch for row in broker.metadata.state.all_brokers()] == [2, 2, 2]


async def test_no_seed_starts_the_cluster_before_the_last_one_is_there(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster, log_lines() as lines:
        await cluster.begin(1)
        await cluster.begin(2)
        text = await lines.wait_for(f"waits for the seeds {cluster.address_text(3)}")
        assert (
            f"waits for the seeds {cluster.address_text(3)} ({cluster.address_text(3)} cannot be reached: " in text
        ), "it says why"
        assert [broker.metadata.cluster_id for broker in cluster.running.values()] == [None, None]
        await cluster.start(3)
        await cluster.wait_until(lambda: all(broker.metadata.is_ready for broker in cluster.running.values()))


async def test_different_seed_lists_create_no_cluster(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster, log_lines() as lines:
        await cluster.begin(1, seeds=(1, 2))
        await cluster.begin(2, seeds=(1, 2, 3))
        await cluster.begin(3, seeds=(3, 2, 1))
        text = await lines.wait_for("the lists of seeds differ")
        assert f"[{', '.join(sorted(cluster.address_text(number) for number in (1, 2)))}]" in text
        assert f"[{', '.join(sorted(cluster.address_text(number) for number in THREE))}]" in text
        assert all(broker.metadata.cluster_id is None for broker in cluster.running.values())
        await cluster.stop(1)
        await cluster.start(1)
        await cluster.wait_until(lambda: all(broker.metadata.is_ready for broker in cluster.running.values()))


async def test_a_cluster_id_given_to_one_seed_is_used_by_all(tmp_path: Path) -> None:
    given = str(UUID(int=9, version=4))
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.begin(1)
        await cluster.begin(3, cluster_id=given)
        await cluster.start(2)
        await cluster.wait_until(lambda: all(broker.metadata.is_ready for broker in cluster.running.values()))
        assert {broker.metadata.cluster_id for broker in cluster.running.values()} == {given}


async def test_a_single_seed_may_name_itself(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1]) as cluster:
        await cluster.start()
        assert cluster.running[1].metadata.is_ready
