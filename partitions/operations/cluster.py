"""Operations on the whole cluster: its settings, its feature level. Called by listeners, as `operations.cluster`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import raftlog
from raftlog.errors import InvalidArgument, VersionConflict
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import (
    AlterClusterConfig,
    ControllerState,
    SetFeatureLevel,
    check_level,
    settings_of,
)
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.operations import cluster_settings
from raftlog.partitions.operations.broker_reports import BrokerReporter
from raftlog.types import FEATURE_LEVEL_KNOWN, Index
from raftlog.values.brokers import BrokerDescription, BrokerLevels, Features
from raftlog.values.cluster import ClusterSettingsStatus

Brokers: TypeAlias = Callable[[Deadline], Awaitable[Sequence[BrokerDescription]]]
"""Function that returns the descriptions of all brokers."""


class ClusterOperations:
    """Operations on the whole cluster for operators: settings, upgrades."""

    def __init__(self, metadata: ControllerHost, broker_reporter: BrokerReporter, brokers: Brokers) -> None:
        self._metadata, self._broker_reporter, self._brokers = metadata, broker_reporter, brokers

    # settings

    async def cluster_config(self, *, deadline: Deadline) -> cluster_settings.ClusterConfig:
        """Return all settings, with defaults for unset ones."""
        await self._metadata.barrier(deadline)
        return cluster_settings.describe_settings(self._metadata.state)

    async def alter_cluster_config(
        self,
        upsert: Mapping[str, object],
        remove: Sequence[str] = (),
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        deadline: Deadline,
    ) -> int:
        """Set some settings and reset others to their defaults, all or nothing; return the new version.

        `dry_run`: only check whether it could be done. Brokers apply changes as they receive them, without a restart.
        """
        texts = cluster_settings.check_settings(upsert)
        cluster_settings.check_names(tuple(remove))
        if not texts and not remove:
            raise InvalidArgument("the order names no setting to change")
        version = None if expected_version is None else Index(expected_version)
        command = AlterClusterConfig(settings_of(texts), tuple(sorted({*remove})), version)
        await self._metadata.barrier(deadline)
        state = self._metadata.state
        check_level(command, state.feature_level)
        if not dry_run:
            return await self._metadata.submit(command, deadline)
        now = cluster_settings.describe_settings(state).version
        if expected_version not in (None, now):
            raise VersionConflict(f"the cluster's settings have version {now}, not {expected_version}: read them again")
        return now

    async def cluster_config_status(self, *, deadline: Deadline) -> list[ClusterSettingsStatus]:
        """Return the version that each broker has applied."""
        await self._metadata.barrier(deadline)
        nodes = [broker.node_id for broker in self._metadata.state.all_brokers()]
        reports = await asyncio.gather(*(self._broker_reporter.ask(node, deadline) for node in nodes))
        return [
            ClusterSettingsStatus(node, None if each is None else each.config_version)
            for node, each in zip(nodes, reports, strict=True)
        ]

    # feature level

    async def feature_levels(self, *, deadline: Deadline) -> Features:
        """Return the cluster's feature level, and the levels that each broker supports."""
        await self._metadata.barrier(deadline)
        brokers = await self._brokers(deadline)
        state = self._metadata.state
        highest = _highest(state)
        return Features(
            state.feature_level,
            highest,
            state.feature_level >= highest,
            [
                BrokerLevels(each.node_id, each.feature_levels.min, each.feature_levels.max, each.version)
                for each in brokers
            ],
            sorted(seed.node_id for seed in state.absent_seeds()),
        )

    async def finish_upgrade(self, *, deadline: Deadline) -> int:
        """Raise the feature level to the highest that all registered brokers support; return it.

        A downgrade to a release without this level is impossible afterwards."""
        await self._metadata.barrier(deadline)
        state = self._metadata.state
        behind = [broker.node_id for broker in state.all_brokers() if broker.feature_level_max < FEATURE_LEVEL_KNOWN]
        if behind and _highest(state) == state.feature_level:
            raise InvalidArgument(
                f"the brokers {behind} do not support feature level {FEATURE_LEVEL_KNOWN} of release "
                f"{raftlog.__version__}: upgrade them first"
            )
        if _highest(state) > state.feature_level:
            await self._metadata.submit(SetFeatureLevel(_highest(state)), deadline)
        return self._metadata.state.feature_level


def _highest(state: ControllerState) -> int:
    """Return the highest level that all registered brokers and this release support."""
    known = min((broker.feature_level_max for broker in state.all_brokers()), default=state.feature_level)
    return max(state.feature_level, min(known, FEATURE_LEVEL_KNOWN))
