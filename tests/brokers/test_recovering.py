"""Recovery of a partition on one replica at an operator's request; absent replicas do not restore another history."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import StorageFull
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.placement.recovery import RecoveryResult
from raftlog.runtime.process.creations import Creations
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.test_moves import assign, find_group, is_member_everywhere, read, until, write

OPERATOR = Caller(ANONYMOUS, "", "192.0.2.1", "http")


@pytest.fixture
async def four(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, 4) as brokers:
        await brokers.start()
        yield brokers


async def recover(brokers: Brokers, *, accept_loss: bool = False) -> RecoveryResult:
    broker = next(iter(brokers.running.values()))
    return await broker.recover_partition(
        "t", 0, OPERATOR, accept_loss=accept_loss, survivor=None, deadline=deadline_in(10_000)
    )


async def test_full_disks_never_create_the_first_replicas_of_a_recovered_partition(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The recovered replica sends them its log instead."""
    create = Creations.create

    async def refuse_creation(self: Creations, creations: Any) -> None:
        if creations and Path(self._port.data_dir).name != "1":
            raise StorageFull("no room")
        await create(self, creations)

    monkeypatch.setattr(Creations, "create", refuse_creation)
    await brokers[1].create_topic("t", 1, 3, deadline=deadline_in(1_000))
    await until(lambda: find_group(brokers[1], "t"))
    found = await recover(brokers)
    assert [each.node_id for each in found.plan.renouncing] == [2, 3]
    done = await recover(brokers, accept_loss=True)
    assert done.is_done
    assert "t/0: node 1 is to go on alone, by an order of ANONYMOUS at 192.0.2.1" in caplog.text
    monkeypatch.setattr(Creations, "create", create)
    assert await brokers.leader("t") == 1
    await until(lambda: all(find_group(brokers[number], "t") for number in (2, 3)))
    await write(brokers[2], "t", b"first")
    await until(lambda: is_member_everywhere(brokers, "t", {1, 2, 3}))
    assert await read(brokers[3], "t") == [b"first"]


async def test_recovery_is_refused_while_the_former_replicas_are_down(four: Brokers) -> None:
    await four[1].create_topic("t", 1, 1, deadline=deadline_in(10_000))
    holder = await four.leader("t")
    other = next(number for number in four.running if number != holder)
    await four.stop(holder)
    await assign(four[other], "t", [other])
    await until(lambda: find_group(four[other], "t"))
    refusal = (await recover(four, accept_loss=True)).plan.refusal
    assert refusal is not None
    assert f"node {holder} does not answer" in refusal
