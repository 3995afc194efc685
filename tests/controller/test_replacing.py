"""Another disk under a known node id: wiped, damaged, stale, or of a broker with a wrong node id."""

import asyncio
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from raftlog.errors import DiskRefused, IdentityRefused, InvalidArgument
from raftlog.partitions.controller.disk_replacement import REPLACE
from raftlog.partitions.controller.machine import Addresses, RegisterBroker, RemoveBroker, UpdateBroker
from raftlog.raft import ReplicaId
from raftlog.runtime.journal.blocks import BLOCK_SIZE
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import NodeId
from tests.controller.brokers import WITHIN_S, Brokers, brokers, soon

THREE = (1, 2, 3)
QUICK = {"replace_silence_ms": 300, "refused_silence_ms": 600}


def voters_of(cluster: Brokers, number: int) -> list[ReplicaId]:
    """Return the controller's voters in one broker's copy, when no change of them is pending."""
    broker = cluster.running[number]
    group = broker.node.find_replica(UUID(int=0) if broker.metadata.group_id is None else broker.metadata.group_id)
    configuration = None if group is None else group.core.configuration
    if configuration is None or configuration.is_joint or configuration.learners:
        return []
    return list(configuration.voters)


def group_of(cluster: Brokers, number: int) -> PartitionReplica:
    """Return a broker's replica of the controller."""
    broker = cluster.running[number]
    group = None if broker.metadata.group_id is None else broker.node.find_replica(broker.metadata.group_id)
    assert group is not None
    return group


def is_caught_up(cluster: Brokers, replica: ReplicaId) -> bool:
    """Return whether the replica is a voter of the controller and has the whole log of the leader."""
    leader = cluster.leader()
    if not leader or replica not in voters_of(cluster, leader):
        return False
    status = group_of(cluster, leader).core.status()
    near = [each.member for each in status.followers if each.is_active and each.match_index == status.last.index]
    return replica in near


def registered_replicas(cluster: Brokers) -> list[ReplicaId]:
    return sorted(broker.node.identity.replica for broker in cluster.running.values())


async def wait_until_all_vote(cluster: Brokers) -> None:
    """Wait until all running brokers are voters of the controller in each broker's copy, and all states are equal."""
    await cluster.wait_until(
        lambda: all(voters_of(cluster, number) == registered_replicas(cluster) for number in cluster.running)
    )
    await cluster.wait_until_equal()


async def wait_until_failed(cluster: Brokers, number: int, kind: type[Exception], words: str) -> None:
    """Wait until a broker's node has failed with this error."""
    async with asyncio.timeout(WITHIN_S):
        failure = await cluster.running[number].node.ended
    assert isinstance(failure, kind)
    assert words in str(failure)


def damage(journal: Path) -> None:
    """Flip a byte in every used block of the journal."""
    for file in journal.iterdir():
        data = bytearray(file.read_bytes())
        for at in range(0, len(data), BLOCK_SIZE):
            if any(data[at : at + BLOCK_SIZE]):
                data[at + BLOCK_SIZE // 2] ^= 1
        file.write_bytes(data)


@pytest.mark.parametrize("which", ["the leader of the controller", "a follower"])
async def test_a_wiped_disk_replaces_the_old_one(tmp_path: Path, which: str) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start()
        await wait_until_all_vote(cluster)
        await cluster.running[1].metadata.submit(cluster.make_topic("t", 1), soon())
        leader = cluster.leader()
        number = leader if which == "the leader of the controller" else next(each for each in THREE if each != leader)
        old = cluster.running[number].node.identity
        await cluster.stop(number)
        shutil.rmtree(tmp_path / str(number))
        await cluster.start(number)
        wiped = cluster.running[number]
        assert wiped.node.identity.disk_uuid != old.disk_uuid
        assert wiped.metadata.cluster_id == old.cluster_id
        assert wiped.metadata.state.has_topic("t")
        assert old.disk_uuid in wiped.metadata.state.retired
        await wait_until_all_vote(cluster)
        await wiped.metadata.submit(cluster.make_topic("u", 2), soon())
        await cluster.stop(number)
        await cluster.start(number)
        await wait_until_all_vote(cluster)


async def test_a_lost_record_is_rewritten_for_joining_seeds(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start()
        await wait_until_all_vote(cluster)
        record = cluster.running[1].metadata._file.record
        await cluster.stop(1)
        (tmp_path / "1" / ".raftlog" / "bootstrap").unlink()
        await cluster.start(1)
        assert cluster.running[1].metadata._file.record == record
        # One that has none all the same is passed by.
        await cluster.stop(2)
        shutil.rmtree(tmp_path / "2")
        cluster.running[1].metadata._file.record = None
        await cluster.start(2)
        assert cluster.running[2].metadata._file.record == record
        await wait_until_all_vote(cluster)


async def test_a_wiped_disk_is_restored_from_a_snapshot(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings.update(QUICK, snapshot_log_bytes=2_000)
        await cluster.start()
        for number in range(40):
            await cluster.running[1].metadata.submit(cluster.make_topic(f"t{number}", number), soon())
        leader = cluster.running[cluster.leader()]
        group_id = leader.metadata.group_id
        assert group_id is not None
        group = leader.node.find_replica(group_id)
        assert group is not None
        await cluster.wait_until(lambda: group.log.boundary.index > 0)
        number = next(each for each in THREE if each != leader.number)
        await cluster.stop(number)
        shutil.rmtree(tmp_path / str(number))
        await cluster.start(number)
        assert len(cluster.running[number].metadata.state.topic_names()) == 40
        await wait_until_all_vote(cluster)


async def test_a_broker_was_down_while_the_leader_got_another_disk(tmp_path: Path) -> None:
    """Its stale copy of the state has another disk for that node, and only that node could correct it."""
    async with brokers(tmp_path, (*THREE, 4, 5)) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start()
        await wait_until_all_vote(cluster)
        await cluster.stop(5)
        await cluster.stop(1)
        shutil.rmtree(tmp_path / "1")
        await cluster.start(1)
        wiped = cluster.running[1].node.identity.replica
        await cluster.wait_until(lambda: is_caught_up(cluster, wiped))
        group_of(cluster, cluster.leader()).transfer_leadership(wiped)
        await cluster.wait_until(lambda: cluster.leader() == 1)
        await cluster.start(5)
        await wait_until_all_vote(cluster)


async def test_a_disk_is_wiped_again_before_its_first_replacement_is_complete(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start()
        await wait_until_all_vote(cluster)
        for _ in range(3):
            await cluster.stop(3)
            shutil.rmtree(tmp_path / "3")
            await cluster.start(3)
        await wait_until_all_vote(cluster)
        assert len(cluster.running[1].metadata.state.retired) == 3


async def test_a_stale_copy_of_a_disk_exits_and_its_next_start_is_a_new_disk(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start()
        await wait_until_all_vote(cluster)
        await cluster.stop(3)
        shutil.copytree(tmp_path / "3", tmp_path / "copy")
        for _ in range(2):
            await cluster.start(3)
            await cluster.stop(3)
        shutil.rmtree(tmp_path / "3")
        shutil.move(tmp_path / "copy", tmp_path / "3")
        stale = await cluster.begin(3)
        await wait_until_failed(cluster, 3, DiskRefused, "it is an old copy")
        await cluster.stop(3)
        await cluster.start(3)
        assert cluster.running[3].node.identity.disk_uuid != stale.node.identity.disk_uuid
        assert [each.name for each in (tmp_path / "3" / ".raftlog" / "damaged").iterdir()] == [
            f"journal-{stale.node.identity.disk_uuid}"
        ]
        await wait_until_all_vote(cluster)


async def test_a_replaced_disk_never_returns_under_its_old_identity(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start()
        await wait_until_all_vote(cluster)
        await cluster.stop(3)
        shutil.move(tmp_path / "3", tmp_path / "old")
        await cluster.start(3)
        await wait_until_all_vote(cluster)
        await cluster.stop(3)
        await cluster.begin(3, data_dir=str(tmp_path / "old"))
        await wait_until_failed(cluster, 3, DiskRefused, "was replaced or removed")
        await cluster.stop(3)
        await cluster.start(3)
        await wait_until_all_vote(cluster)


@pytest.mark.parametrize("is_seed", [True, False])
async def test_a_damaged_journal_makes_a_new_disk_in_the_same_start(tmp_path: Path, is_seed: bool) -> None:
    async with brokers(tmp_path, THREE, seeds=THREE if is_seed else (1,)) as cluster:
        cluster.settings.update(QUICK)
        await (cluster.start() if is_seed else cluster.start(1))
        if not is_seed:
            await cluster.start(2, 3)
        await wait_until_all_vote(cluster)
        old = cluster.running[3].node.identity
        await cluster.stop(3)
        damage(tmp_path / "3" / ".raftlog" / "journal" / str(old.disk_uuid))
        await cluster.start(3)
        new = cluster.running[3].node.identity
        assert new.disk_uuid != old.disk_uuid
        assert new.boot_epoch == old.boot_epoch + 1
        await wait_until_all_vote(cluster)


async def test_a_node_id_in_use_is_not_given_to_a_second_broker(tmp_path: Path) -> None:
    async with brokers(tmp_path, (1, 2, 3, 4), seeds=THREE) as cluster:
        cluster.settings.update(QUICK, replace_timeout_ms=400)
        await cluster.start(*THREE)
        await cluster.begin(4, node_id=3)
        await wait_until_failed(cluster, 4, IdentityRefused, "node id 3 is used")
        assert not cluster.running[1].metadata.state.retired
        await cluster.running[3].metadata.submit(cluster.make_topic("t", 1), soon())


async def test_one_of_two_new_disks_gets_the_node_id(tmp_path: Path) -> None:
    async with brokers(tmp_path, (1, 2, 3, 4), seeds=THREE) as cluster:
        cluster.settings.update(QUICK, replace_timeout_ms=400)
        await cluster.start(*THREE)
        await wait_until_all_vote(cluster)
        await cluster.stop(3)
        shutil.rmtree(tmp_path / "3")
        twins = await cluster.begin(3), await cluster.begin(4, node_id=3)
        ends = [asyncio.ensure_future(twin.node.ended) for twin in twins]
        done, _ = await asyncio.wait(ends, timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        assert [isinstance(each.result(), IdentityRefused) for each in done] == [True]
        winner = twins[1] if ends[0] in done else twins[0]
        await cluster.wait_until(lambda: winner.metadata.is_ready)
        assert len(cluster.running[1].metadata.state.retired) == 1


async def test_a_disk_that_waits_for_its_node_id_receives_nothing_else(tmp_path: Path) -> None:
    """Such a disk gets an answer only to its request for the node id, and no peer sends Raft messages to it."""
    async with brokers(tmp_path, (1, 2, 3, 4), seeds=THREE) as cluster:
        cluster.settings.update(replace_silence_ms=60_000, replace_timeout_ms=60_000)
        await cluster.start(*THREE)
        await cluster.stop(3)
        shutil.rmtree(tmp_path / "3")
        waiting = await cluster.begin(3)
        with pytest.raises(InvalidArgument, match="over a probe"):
            await waiting.node.probe(cluster.address(1), "control.basis", None, soon())
        _, answer = await waiting.node.probe(cluster.address(1), "control.join", None, soon())
        assert answer.value[0] == "member"
        with pytest.raises(InvalidArgument, match="its field boot_epoch is missing"):
            await waiting.node.probe(cluster.address(1), REPLACE, [0, [1, 2]], soon())
        with pytest.raises(InvalidArgument, match="cannot be read"):
            await waiting.node.probe(cluster.address(1), REPLACE, [1, 2], soon())
        assert not waiting.metadata.is_ready
        assert not any(peer.raft.is_connected for peer in waiting.node.transport.peers())
        for number in (1, 2):
            assert not cluster.running[number].node.is_connected(NodeId(3))


async def test_the_node_id_of_a_removed_broker_can_be_used_without_a_replacement(tmp_path: Path) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        await cluster.start()
        old = cluster.running[3].node.identity.replica
        await cluster.stop(3)
        await cluster.running[1].metadata.submit(UpdateBroker(*old, True), soon())
        await cluster.running[1].metadata.submit(RemoveBroker(*old), soon())
        shutil.rmtree(tmp_path / "3")
        await cluster.start(3)
        await wait_until_all_vote(cluster)
        assert cluster.running[3].node.identity.replica != old


async def test_a_retired_disk_does_not_replace_its_successor(tmp_path: Path) -> None:
    """Its process was partitioned while its node id went to another disk, which is now silent during a restart."""
    async with brokers(tmp_path, (*THREE, 4), seeds=THREE) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start(*THREE)
        await cluster.stop(3)
        old = tmp_path / "old"
        shutil.move(tmp_path / "3", old)
        await cluster.start(3)
        await wait_until_all_vote(cluster)
        successor = cluster.running[3].node.identity.disk_uuid
        await cluster.begin(4, node_id=3, data_dir=str(old))
        await wait_until_failed(cluster, 4, DiskRefused, "was replaced or removed")
        await cluster.stop(4)
        await cluster.stop(3)
        await cluster.begin(4, node_id=3, data_dir=str(old))
        await wait_until_failed(cluster, 4, IdentityRefused, "went to the disk")
        await cluster.stop(4)
        await cluster.start(3)
        assert cluster.running[3].node.identity.disk_uuid == successor
        await wait_until_all_vote(cluster)


async def test_an_old_copy_waits_longer_than_a_restart_takes(tmp_path: Path) -> None:
    """A copy of a disk requests the node id while the original is restarted."""
    async with brokers(tmp_path, (*THREE, 4), seeds=THREE) as cluster:
        cluster.settings.update(QUICK, refused_silence_ms=60_000)
        await cluster.start(*THREE)
        await wait_until_all_vote(cluster)
        right = cluster.running[3].node.identity.disk_uuid
        await cluster.stop(3)
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "3", copy)
        for _ in range(2):
            await cluster.start(3)
            await cluster.stop(3)
        await cluster.begin(4, node_id=3, data_dir=str(copy))
        await wait_until_failed(cluster, 4, DiskRefused, "it is an old copy")
        await cluster.stop(4)
        loop = asyncio.get_running_loop()
        waiting = await cluster.begin(4, node_id=3, data_dir=str(copy))
        until = loop.time() + 4 * QUICK["replace_silence_ms"] / 1000
        await cluster.wait_until(lambda: loop.time() > until)
        assert not waiting.metadata.is_ready
        await cluster.stop(4)
        await cluster.start(3)
        assert cluster.running[3].node.identity.disk_uuid == right
        await wait_until_all_vote(cluster)


async def test_a_leader_counts_as_alive_when_it_answers(tmp_path: Path) -> None:
    """The broker that received the request had missed the leader's heartbeats.

    The leader receives no heartbeats of itself, and is in use all the same."""
    async with brokers(tmp_path, THREE) as cluster:
        cluster.settings.update(QUICK)
        await cluster.start()
        await wait_until_all_vote(cluster)
        leader = cluster.leader()
        asked = next(number for number in THREE if number != leader)
        mine = cluster.running[leader].node.identity
        command = RegisterBroker(
            mine.node_id, UUID(int=9), 1, "elsewhere", Addresses("", "", ""), 1, 1, replaces=mine.disk_uuid
        )
        header = [0, command.pack()]
        answer = await cluster.running[asked].node.ask(mine.node_id, REPLACE, header, (), soon())
        assert answer.value[0] == "alive"
        assert not cluster.running[leader].metadata.state.retired


async def test_silence_is_measured_only_while_the_leader_is_contacted(tmp_path: Path) -> None:
    """A paused broker received nothing meanwhile: a pause in the requests restarts the measured silence."""
    async with brokers(tmp_path, (1,)) as cluster:
        await cluster.start()
        replacing = cluster.running[1].metadata._replacement
        stranger = ReplicaId(NodeId(3), UUID(int=3))
        assert [replacing._find_first_request(stranger, now) for now in (10.0, 11.0, 12.5, 15.0, 16.0)] == [
            10,
            10,
            10,
            15,
            15,
        ]
