"""Rules and effects of changes of the cluster's own settings. Called by `ControllerState.apply` only.

Values of settings were checked by the proposer: they differ from release to release."""

from raftlog.errors import VersionConflict
from raftlog.partitions.controller.machine.cluster import ClusterState
from raftlog.partitions.controller.machine.commands import AlterClusterConfig
from raftlog.partitions.controller.machine.rows import ClusterSettings
from raftlog.partitions.controller.machine.schema import settings_of
from raftlog.types import Index


def alter(cluster: ClusterState, command: AlterClusterConfig, index: Index) -> int:
    """Change the settings; return their version, which is 0 until the first change."""
    before = cluster.settings.get(0)
    version, configs = (0, {}) if before is None else (before.version, dict(before.configs))
    if command.expected_version not in (None, version):
        raise VersionConflict(
            f"the cluster's settings have version {version}, not {command.expected_version}: read them again"
        )
    unset = frozenset(command.unset)
    after = {name: value for name, value in configs.items() if name not in unset} | dict(command.configs)
    if after == configs:
        return version
    cluster.settings.put(ClusterSettings(settings_of(after), index))
    return index
