"""Crashes of each seed at each step while a cluster is created; afterwards there is one cluster of all seeds."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import SyncFailed
from raftlog.partitions.controller import host
from raftlog.partitions.controller.bootstrap_record import BootstrapFile, BootstrapMember, BootstrapRecord
from raftlog.partitions.node import Node
from tests.controller.brokers import Brokers, brokers, log_lines, soon

THREE = (1, 2, 3)


class Crashes:
    """Injector that crashes one node once, at one step."""

    def __init__(self, cluster: Brokers, number: int, step: str) -> None:
        self._cluster, self._number, self._step = cluster, number, step
        self.happened = asyncio.Event()

    def reach_step(self, step: str, node: Node | None) -> None:
        """Record that the process `node` is at this step; crash it if it is the chosen one."""
        if node is None or node.identity.node_id != self._number or step != self._step or self.happened.is_set():
            return
        self.happened.set()
        error = SyncFailed(f"crashed {step}")
        node.fail(error)
        raise error

    def node_of(self, file: BootstrapFile) -> Node | None:
        for broker in self._cluster.running.values():
            if broker.metadata._file is file:
                return broker.node
        return None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the steps of storing records and beginning the group call `reach_step`."""
        store: Callable[..., None] = BootstrapFile.store
        begin: Callable[[Any], None] = host.ControllerHost._create_first_replica

        def crash_around_store(
            file: BootstrapFile, record: BootstrapRecord, members: Sequence[BootstrapMember] = ()
        ) -> None:
            self.reach_step("before its record is synced", self.node_of(file))
            store(file, record, members)
            self.reach_step("after its record is synced", self.node_of(file))

        def crash_around_begin(metadata: Any) -> None:
            self.reach_step("before the controller is created", metadata._node)
            begin(metadata)
            self.reach_step("after the controller is created", metadata._node)

        monkeypatch.setattr(BootstrapFile, "store", crash_around_store)
        monkeypatch.setattr(host.ControllerHost, "_create_first_replica", crash_around_begin)


STEPS = (
    "before its record is synced",
    "after its record is synced",
    "before the controller is created",
    "after the controller is created",
)


@pytest.mark.parametrize("number", [1, 3], ids=["the maker", "another seed"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_crashed_seed_restarts_and_joins_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        crashes = Crashes(cluster, number, step)
        crashes.install(monkeypatch)
        for each in THREE:
            await cluster.begin(each)
        await asyncio.wait_for(crashes.happened.wait(), 20)
        await asyncio.wait_for(cluster.running[number].node.ended, 20)
        await cluster.stop(number)
        await cluster.start(number)
        await cluster.wait_until(lambda: all(broker.metadata.is_ready for broker in cluster.running.values()))
        assert len({broker.metadata.cluster_id for broker in cluster.running.values()}) == 1
        await cluster.running[number].metadata.submit(cluster.make_topic("t", 1), soon())
        await cluster.wait_until_equal()
        assert len(cluster.running[1].metadata.state.all_brokers()) == 3


async def test_one_cluster_remains_when_all_seeds_crash_with_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with brokers(tmp_path, THREE) as cluster:
        with monkeypatch.context() as patched:
            crashed = []

            def crash(metadata: Any) -> None:
                crashed.append(metadata)
                error = SyncFailed("crashed")
                metadata._node.fail(error)
                raise error

            patched.setattr(host.ControllerHost, "_create_first_replica", crash)
            for each in THREE:
                await cluster.begin(each)
            await asyncio.wait_for(cluster.running[1].node.ended, 20)
            records = {number: broker.metadata._file.record for number, broker in cluster.running.items()}
            await cluster.stop()
        assert len(set(records.values())) == 1, "all hold one record, or the first would not have begun"
        await cluster.start()
        assert {broker.metadata._file.record for broker in cluster.running.values()} == set(records.values())
        await cluster.wait_until_equal()


async def test_a_wiped_seed_gets_instructions_while_others_hold_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wiped seed cannot find out whether the cluster had begun, so nothing starts without an operator."""
    async with brokers(tmp_path, (1, 2)) as cluster, log_lines() as lines:
        crashes = Crashes(cluster, 2, "before its record is synced")
        crashes.install(monkeypatch)
        await cluster.begin(1)
        await cluster.begin(2)
        await asyncio.wait_for(crashes.happened.wait(), 20)
        await cluster.stop()
        await cluster.begin(1)
        await cluster.begin(2, data_dir=str(tmp_path / "wiped"))
        line = await lines.wait_for("its disk was replaced")
        assert "Empty the data directories of all seeds" in line
        assert not any(broker.metadata.is_ready for broker in cluster.running.values())
        await cluster.stop()
        for number in (1, 2):
            await cluster.begin(number, data_dir=str(tmp_path / f"new-{number}"))
        await cluster.wait_until(lambda: all(broker.metadata.is_ready for broker in cluster.running.values()))
