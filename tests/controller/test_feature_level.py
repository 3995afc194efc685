"""A cluster whose log is of a release before this one: its controller's leader raises the feature level by itself."""

from pathlib import Path

import pytest

from raftlog.partitions.controller import first_start, host
from raftlog.partitions.controller import leader_duties as leading
from raftlog.partitions.controller.machine import FEATURE_LEVEL_KNOWN, SetMaintenance
from raftlog.runtime.rpc import PeerIdentity
from tests.controller.brokers import brokers, soon
from tests.waiting import until


def run_release_before(patch: pytest.MonkeyPatch) -> None:
    """Let brokers found a cluster, register and run at feature level 2, as release 0.1.0 did."""
    patch.setattr(first_start, "FEATURE_LEVEL_KNOWN", 2)
    patch.setattr(host, "FEATURE_LEVEL_KNOWN", 2)
    patch.setattr(host, "FEATURE_LEVEL_LEAST", 2)
    patch.setattr(leading, "FEATURE_LEVEL_LEAST", 2)


async def test_the_level_rises_without_the_brokers_that_are_down(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1, 2, 3]) as cluster:
        with pytest.MonkeyPatch.context() as patch:
            run_release_before(patch)
            await cluster.start()
            assert {broker.metadata.state.feature_level for broker in cluster.running.values()} == {2}
            await cluster.stop()
        await cluster.start(1, 2)
        state = cluster.running[1].metadata.state
        assert state.feature_level == 3
        assert [broker.feature_level_max for broker in state.all_brokers()] == [3, 3, 2]
        await cluster.start(3)
        metadata = cluster.running[3].metadata
        assert metadata.state.feature_level == 3
        assert [broker.feature_level_max for broker in metadata.state.all_brokers()] == [3, 3, 3]
        row = metadata.state.all_brokers()[0]
        index = await metadata.submit(SetMaintenance(row.node_id, row.disk_uuid, True), soon())
        states = [broker.metadata.state for broker in cluster.running.values()]
        await until(lambda: all(each.applied_index >= index for each in states))
        assert len({each.state_hash() for each in states}) == 1


async def test_a_broker_alone_is_ready_once_the_level_rose(tmp_path: Path) -> None:
    async with brokers(tmp_path, [1]) as cluster:
        with pytest.MonkeyPatch.context() as patch:
            run_release_before(patch)
            await cluster.start()
            await cluster.stop()
        await cluster.start()
        assert cluster.running[1].metadata.is_ready
        assert cluster.running[1].metadata.state.feature_level == 3


def test_a_hello_names_the_highest_level_of_this_release() -> None:
    assert PeerIdentity._field_defaults["feature_level_max"] == FEATURE_LEVEL_KNOWN
