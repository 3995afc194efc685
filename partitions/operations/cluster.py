"""Orders about the whole cluster: its settings and its feature level. Called by faces, as `operations.cluster`."""

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
from raftlog.partitions.operations.broker_reports import Telling
from raftlog.types import FEATURE_LEVEL_KNOWN, Index
from raftlog.values.brokers import BrokerDescription, BrokerLevels, Features
from raftlog.values.cluster import ClusterSettingsStatus

Brokers: TypeAlias = Callable[[Deadline], Awaitable[Sequence[BrokerDescription]]]


class ClusterOrders:
    """One for each process."""

    def __init__(self, metadata: ControllerHost, telling: Telling, brokers: Brokers) -> None:
        self._metadata, self._telling, self._brokers = metadata, telling, brokers

    # settings

    async def cluster_config(self, *, deadline: Deadline) -> cluster_settings.ClusterConfig:
        """Return all settings, those that were never set with their defaults."""
        await self._metadata.barrier(deadline)
        return cluster_settings.described(self._metadata.state)

    async def alter_cluster_config(
        self,
        upsert: Mapping[str, object],
        remove: Sequence[str] = (),
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        deadline: Deadline,
    ) -> int:
        """Set some settings, and give others their defaults again; all or nothing. Return the version afterwards.

        `dry_run`: only check whether it could be done. Brokers apply it as they hear of it, without a restart.
        """
        texts = cluster_settings.checked(upsert)
        cluster_settings.check_names(tuple(remove))
        if not texts and not remove:
            raise InvalidArgument("no setting is named that shall change")
        version = None if expected_version is None else Index(expected_version)
        command = AlterClusterConfig(settings_of(texts), tuple(sorted({*remove})), version)
        await self._metadata.barrier(deadline)
        state = self._metadata.state
        check_level(command, state.feature_level)
        if not dry_run:
            return await self._metadata.submit(command, deadline)
        now = cluster_settings.described(state).version
        if expected_version not in (None, now):
            raise VersionConflict(f"the cluster's settings have version {now}, not {expected_version}: read them again")
        return now

    async def cluster_config_status(self, *, deadline: Deadline) -> list[ClusterSettingsStatus]:
        """Return which version each broker has applied."""
        await self._metadata.barrier(deadline)
        nodes = [broker.node_id for broker in self._metadata.state.all_brokers()]
        told = await asyncio.gather(*(self._telling.ask(node, deadline) for node in nodes))
        return [
            ClusterSettingsStatus(node, None if each is None else each.config_version)
            for node, each in zip(nodes, told, strict=True)
        ]

    # feature level

    async def levels(self, *, deadline: Deadline) -> Features:
        """Return the cluster's feature level, and which levels the brokers know."""
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
        """Raise the feature level to the highest that all registered brokers know; return the level afterwards.

        There is no way back to a release that does not know it.
        """
        await self._metadata.barrier(deadline)
        state = self._metadata.state
        behind = [broker.node_id for broker in state.all_brokers() if broker.feature_level_max < FEATURE_LEVEL_KNOWN]
        if behind and _highest(state) == state.feature_level:
            raise InvalidArgument(
                f"the brokers {behind} do not know feature level {FEATURE_LEVEL_KNOWN}, to which release "
                f"{raftlog.__version__} can go: upgrade them first"
            )
        if _highest(state) > state.feature_level:
            await self._metadata.submit(SetFeatureLevel(_highest(state)), deadline)
        return self._metadata.state.feature_level


def _highest(state: ControllerState) -> int:
    """That all registered brokers know, and this release too."""
    known = min((broker.feature_level_max for broker in state.all_brokers()), default=state.feature_level)
    return max(state.feature_level, min(known, FEATURE_LEVEL_KNOWN))
