"""A replica that lost its meta file and its journal, and with them its votes and its newest entries."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from raftlog.partitions.controller.machine import GroupName
from raftlog.raft import Role
from raftlog.raft.messages import PreVoteRequest, VoteRequest
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transport import Envelope
from raftlog.types import NodeId
from tests.brokers.conftest import Brokers, brokers_in
from tests.operations.conftest import soon, write
from tests.waiting import WITHIN_S, until

REQUESTS = 5
"""Vote requests to wait for: as many elections were tried."""


def lose_everything(data_dir: Path) -> None:
    """Remove the journal and the meta file of each replica."""
    for file in (data_dir / ".raftlog/journal").rglob("*.journal"):
        file.unlink()
    for file in data_dir.glob("*/*/.raftlog/meta"):
        file.unlink()
    (data_dir / ".raftlog/controller/.raftlog/meta").unlink(missing_ok=True)


def count_vote_requests(monkeypatch: pytest.MonkeyPatch, brokers: Brokers, number: int) -> Counter[bytes]:
    """Count the vote requests that a broker sends to node 3 from now on, by Raft group."""
    transport, found = brokers[number].node.transport, Counter[bytes]()
    send = transport.send

    def send_and_count(node: NodeId, envelopes: Sequence[Envelope]) -> None:
        found.update(
            key for key, message in envelopes if node == 3 and isinstance(message, PreVoteRequest | VoteRequest)
        )
        send(node, envelopes)

    monkeypatch.setattr(transport, "send", send_and_count)
    return found


def is_voter(group: PartitionReplica, disk: UUID) -> bool:
    """Return whether a committed configuration has this disk as the only voter of node 3."""
    core = group.core
    of_its_node = [each.disk_uuid for each in core.configuration.all_voters() if each.node_id == 3]
    return of_its_node == [disk] and core.configuration.index <= core.committed_index


async def test_an_emptied_replica_elects_no_leader_until_it_is_a_voter_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers_in(tmp_path) as brokers:
        await brokers.start()
        await brokers[1].create_topic("t", 1, 3, deadline=soon())
        await write(brokers[1], "t", b"before")
        old_disk = brokers[3].node.driver.me.disk_uuid
        await brokers.stop(3)
        await write(brokers[1], "t", b"without it")
        name = GroupName(brokers[2].metadata.state.topic("t").topic_id, 0)
        lose_everything(tmp_path / "3")
        await brokers.stop(1)
        starting = asyncio.create_task(brokers.start(3))
        await until(lambda: 3 in brokers.running)
        requests = count_vote_requests(monkeypatch, brokers, 2)
        new_disk = brokers[3].node.driver.me.disk_uuid
        assert new_disk != old_disk
        group = brokers[2].node.find_replica(name.group_id)
        await until(lambda: requests[group.key] >= REQUESTS, lambda: requests)
        assert group.core.role is not Role.LEADER
        assert not starting.done(), "the controller has no leader either"
        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(brokers.start(1), starting)
        groups = list(brokers[2].node.driver.groups.values())
        assert len(groups) == 2, "the controller's and that of the partition"
        await until(lambda: all(is_voter(each, new_disk) for each in groups))
        await until(lambda: brokers[3].node.find_replica(name.group_id).high_watermark == 2)
        await brokers.stop(1)
        await write(brokers[2], "t", b"as a voter")
