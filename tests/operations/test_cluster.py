"""Settings of the cluster and its feature level."""

import pytest

from raftlog.errors import InvalidArgument, VersionConflict
from raftlog.partitions.controller import registration
from raftlog.partitions.controller.machine import SetFeatureLevel, broker_rules
from raftlog.partitions.operations import cluster
from raftlog.partitions.operations.cluster_settings import SETTINGS, current_settings
from raftlog.types import FEATURE_LEVEL_KNOWN
from tests.brokers.conftest import Brokers
from tests.operations.conftest import soon
from tests.waiting import until, until_async


async def test_settings_apply_on_all_brokers_and_can_be_reset(three: Brokers) -> None:
    config = await three[1].operations.cluster.cluster_config(deadline=soon())
    assert config.version == 0
    assert list(config.values) == sorted(SETTINGS)
    assert not config.changed
    assert config.values == {name: each.default for name, each in config.properties.items()}
    wanted = {"balancer.mode": "off", "balancer.moves.max": "3", "leaders.balance": False}
    version = await three[2].operations.cluster.alter_cluster_config(wanted, deadline=soon())
    assert await three[3].operations.cluster.alter_cluster_config(wanted, deadline=soon()) == version
    config = await three[1].operations.cluster.cluster_config(deadline=soon())
    assert (config.version, config.values["balancer.moves.max"]) == (version, 3)
    for broker in three.running.values():
        await until(lambda broker=broker: current_settings(broker.metadata.state).balancer_mode == "off")
        assert not broker.node.leaders.balances_leaders()

    async def is_applied() -> bool:
        told = await three[1].operations.cluster.cluster_config_status(deadline=soon())
        return [each.config_version for each in told] == [version] * 3

    await until_async(is_applied)
    later = await three[1].operations.cluster.alter_cluster_config(
        {"balancer.moves.max": 4}, ["balancer.mode", "leaders.balance"], expected_version=version, deadline=soon()
    )
    config = await three[1].operations.cluster.cluster_config(deadline=soon())
    assert {*config.changed} == {"balancer.moves.max"}
    order = three[1].operations.cluster.alter_cluster_config
    with pytest.raises(VersionConflict):
        await order({}, ["balancer.mode"], expected_version=version, deadline=soon())
    await three.stop(3)
    told = await three[1].operations.cluster.cluster_config_status(deadline=soon())
    assert [each.config_version for each in told] == [later, later, None]


async def test_a_dry_run_changes_nothing(three: Brokers) -> None:
    order = three[1].operations.cluster.alter_cluster_config
    assert await order({"balancer.mode": "off"}, dry_run=True, deadline=soon()) == 0
    with pytest.raises(VersionConflict):
        await order({"balancer.mode": "off"}, dry_run=True, expected_version=7, deadline=soon())
    assert (await three[1].operations.cluster.cluster_config(deadline=soon())).version == 0


async def test_an_upgrade_can_be_finished_when_all_brokers_support_the_level(
    three: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer release supports one more level; each older broker keeps the level down."""
    now, later = FEATURE_LEVEL_KNOWN, FEATURE_LEVEL_KNOWN + 1
    levels = await three[3].operations.cluster.feature_levels(deadline=soon())
    assert (levels.feature_level, levels.highest_known_by_all, len(levels.brokers)) == (now, now, 3)
    for module in (broker_rules, cluster, registration):
        monkeypatch.setattr(module, "FEATURE_LEVEL_KNOWN", later)
    with pytest.raises(InvalidArgument, match=rf"the brokers \[1, 2, 3\] do not support feature level {later}"):
        await three[2].operations.cluster.finish_upgrade(deadline=soon())
    with pytest.raises(InvalidArgument, match=r"not known to the brokers \[1, 2, 3\]"):
        await three[2].metadata.submit(SetFeatureLevel(later), soon())
    for number in (1, 2, 3):
        await three.stop(number)
        await three.start(number)
    levels = await three[3].operations.cluster.feature_levels(deadline=soon())
    assert (levels.feature_level, levels.highest_known_by_all) == (now, later)
    assert await three[2].operations.cluster.finish_upgrade(deadline=soon()) == later
    assert await three[3].operations.cluster.finish_upgrade(deadline=soon()) == later
