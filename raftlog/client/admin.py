"""What operators ask of a cluster and order, as `raftlog.client.BrokerClient.admin`.

Any broker can be asked. Answers are values with the fields that docs/HTTP.md has. Every order is safe to give again,
and is asked again elsewhere by itself when an answer was lost, but where that could do something else: with an
`expected_version`, which the first attempt may have used up, and where the broker chooses. Such an order ends as
`OutcomeUnknown`; look, and decide anew.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from raftlog.client.calls import ANSWER_MS, Calls, quoted
from raftlog.values.brokers import (
    BrokerDescription,
    BrokerNamed,
    ClusterMembers,
    Decommission,
    Features,
    LogLevel,
    Maintenance,
    MaintenanceOrdered,
)
from raftlog.values.cluster import (
    ClusterSettingsChanged,
    ClusterSettingsSchema,
    ClusterSettingsStatus,
    SettingDescription,
    SettingValue,
)
from raftlog.values.placement import (
    BalancerStatus,
    Cancelled,
    LeaderNow,
    ListedPartition,
    MovesPlanned,
    NamespacePartition,
    Ordered,
    Reconfiguration,
)

T = TypeVar("T")
ORDER_MS = 30_000
"""How long the cluster may take to decide an order, where the caller does not say."""


class AdminClient:
    """Made by `BrokerClient`, whose transport it uses."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    # brokers

    async def brokers(self) -> list[BrokerDescription]:
        """All brokers of the cluster, by node id."""
        rows = await self._calls.read(list[BrokerDescription], "/v1/brokers")
        return sorted(rows, key=lambda row: row.node_id)

    async def members(self) -> ClusterMembers:
        """The brokers as gossip has them at the one that answers."""
        return await self._calls.read(ClusterMembers, "/v1/cluster/members")

    async def broker(self, node: int) -> BrokerDescription:
        """One of them; raises `UnknownBroker`."""
        return await self._calls.read(BrokerDescription, f"/v1/brokers/{node}")

    async def maintenance(self, node: int) -> Maintenance:
        """How far a broker's maintenance is."""
        return await self._calls.read(Maintenance, f"/v1/brokers/{node}/maintenance")

    async def set_maintenance(
        self, node: int, is_on: bool, *, expected_version: int | None = None, timeout_ms: int = ORDER_MS
    ) -> MaintenanceOrdered:
        """Begin or end it; raises `ChangeRefused` as `Unavailable` when too many brokers would be in maintenance."""
        method = "PUT" if is_on else "DELETE"
        return await self._order(
            MaintenanceOrdered, method, f"/v1/brokers/{node}/maintenance", None, expected_version, timeout_ms
        )

    async def decommission(self, node: int, *, timeout_ms: int = ORDER_MS) -> BrokerNamed:
        """A broker's replicas move to others, and then it is removed for good."""
        return await self._order(BrokerNamed, "PUT", f"/v1/brokers/{node}/decommission", timeout_ms=timeout_ms)

    async def recommission(self, node: int, *, timeout_ms: int = ORDER_MS) -> BrokerNamed:
        """It stays after all."""
        return await self._order(BrokerNamed, "PUT", f"/v1/brokers/{node}/recommission", timeout_ms=timeout_ms)

    async def decommission_status(self, node: int) -> Decommission:
        """How far it is."""
        return await self._calls.read(Decommission, f"/v1/brokers/{node}/decommission")

    # partitions

    async def partitions(self, topic: str | None = None) -> list[ListedPartition]:
        """Return partitions with their replicas and leaders; `leader_id` is -1 for one whose leader does not answer."""
        query = {} if topic is None else {"topic": topic}
        return await self._calls.read(list[ListedPartition], "/v1/cluster/partitions", query)

    async def partition(self, topic: str, partition: int) -> NamespacePartition:
        """One partition as its leader sees it."""
        return await self._calls.read(NamespacePartition, _partition_path(topic, partition))

    async def set_replicas(
        self,
        topic: str,
        partition: int,
        nodes: Sequence[int],
        *,
        expected_version: int | None = None,
        timeout_ms: int = ORDER_MS,
    ) -> Ordered:
        """Where the replicas of a partition shall be, the preferred leader first; raises `VersionConflict`."""
        path = f"{_partition_path(topic, partition)}/replicas"
        rows = [{"node_id": node, "core": 0} for node in nodes]
        return await self._order(Ordered, "POST", path, rows, expected_version, timeout_ms)

    async def transfer_leadership(
        self, topic: str, partition: int, target: int | None = None, *, timeout_ms: int = ORDER_MS
    ) -> LeaderNow:
        """Let another replica lead: `target`, or whichever can."""
        path = f"{_partition_path(topic, partition)}/transfer_leadership"
        query = {} if target is None else {"target": target}
        return await self._calls.order(
            LeaderNow, "POST", path, timeout_ms=timeout_ms, query=query, repeatable=target is not None
        )

    async def cancel_reconfiguration(self, topic: str, partition: int, *, timeout_ms: int = ORDER_MS) -> Ordered:
        """The partition stays where its voters are."""
        path = f"{_partition_path(topic, partition)}/cancel_reconfiguration"
        return await self._order(Ordered, "POST", path, timeout_ms=timeout_ms)

    async def cancel_reconfigurations(self, node: int | None = None, *, timeout_ms: int = ORDER_MS) -> list[Cancelled]:
        """The same for all partitions that move, or that move from or to this broker."""
        cluster, broker = "/v1/cluster/cancel_reconfigurations", f"/v1/brokers/{node}/cancel_partition_moves"
        path = cluster if node is None else broker
        return await self._calls.order(list[Cancelled], "POST", path, timeout_ms=timeout_ms, repeatable=True)

    async def reconfigurations(self) -> list[Reconfiguration]:
        """Partitions whose replicas are not where they shall be."""
        return await self._calls.read(list[Reconfiguration], "/v1/partitions/reconfigurations")

    # the balancer

    async def balancer_status(self) -> BalancerStatus:
        """What the balancer does, and what it waits for."""
        return await self._calls.read(BalancerStatus, "/v1/cluster/partition_balancer/status")

    async def rebalance(self, *, timeout_ms: int = ORDER_MS) -> MovesPlanned:
        """Spread replicas and leaders now."""
        return await self._order(MovesPlanned, "POST", "/v1/partitions/rebalance", timeout_ms=timeout_ms)

    # the cluster's settings, logging, upgrades

    async def cluster_config(self) -> dict[str, SettingValue]:
        """All settings of the cluster by name."""
        return await self._calls.read(dict[str, SettingValue], "/v1/cluster_config")

    async def cluster_config_schema(self) -> Mapping[str, SettingDescription]:
        """What each setting is, its default, and what it can be."""
        return (await self._calls.read(ClusterSettingsSchema, "/v1/cluster_config/schema")).properties

    async def cluster_config_status(self) -> list[ClusterSettingsStatus]:
        """Which version of the settings each broker has."""
        return await self._calls.read(list[ClusterSettingsStatus], "/v1/cluster_config/status")

    async def alter_cluster_config(
        self,
        upsert: Mapping[str, object],
        remove: Sequence[str] = (),
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        timeout_ms: int = ORDER_MS,
    ) -> ClusterSettingsChanged:
        """Set some settings, and let others have their default again; all or nothing."""
        fields = {"upsert": dict(upsert), "remove": list(remove)}
        query = {"dry_run": "true"} if dry_run else {}
        return await self._order(
            ClusterSettingsChanged, "PUT", "/v1/cluster_config", fields, expected_version, timeout_ms, query
        )

    async def set_log_level(self, name: str, level: str, expires_s: int) -> LogLevel:
        """Of the broker that is asked; after `expires_s` it is as before, 0: never."""
        query = {"level": level, "expires": expires_s}
        path = f"/v1/config/log_level/{quoted(name)}"
        return await self._calls.order(LogLevel, "PUT", path, timeout_ms=ANSWER_MS, query=query)

    async def features(self) -> Features:
        """The cluster's feature level, and what its brokers know."""
        return await self._calls.read(Features, "/v1/features")

    async def finish_upgrade(self, level: int | None = None, *, timeout_ms: int = ORDER_MS) -> Features:
        """Raise the feature level: to `level`, or to the highest that all brokers know."""
        fields = {} if level is None else {"feature_level": level}
        return await self._order(Features, "PUT", "/v1/features", fields, timeout_ms=timeout_ms)

    async def _order(
        self,
        kind: type[T],
        method: str,
        path: str,
        fields: object = None,
        expected_version: int | None = None,
        timeout_ms: int = ORDER_MS,
        query: Mapping[str, object] | None = None,
    ) -> T:
        asked = dict(query or {})
        if expected_version is not None:
            asked["expected_version"] = expected_version
        return await self._calls.order(
            kind, method, path, fields, timeout_ms=timeout_ms, query=asked, repeatable=expected_version is None
        )


def _partition_path(topic: str, partition: int) -> str:
    return f"/v1/partitions/kafka/{quoted(topic)}/{partition}"
