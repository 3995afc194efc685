"""Queries and changes by operators, as `raftlog.client.BrokerClient.admin`.

Any broker answers them. Results are values with the fields of docs/HTTP.md. Changes are idempotent, and are retried on
another broker when an answer was lost, with two exceptions: a change with an `expected_version`, which the first
attempt may have used up, and a change that leaves a choice to the broker. These end as `OutcomeUnknown`; check the
state, and decide again."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TypeVar

from raftlog.client.calls import ANSWER_MS, Calls, quote_segment
from raftlog.client.security import SecurityClient
from raftlog.values.brokers import (
    BrokerDescription,
    BrokerReference,
    ClusterMembers,
    Decommission,
    Features,
    LogLevel,
    Maintenance,
    RequestedMaintenance,
)
from raftlog.values.cluster import (
    ClusterSettingsSchema,
    ClusterSettingsStatus,
    ClusterSettingsVersion,
    SettingDescription,
    SettingValue,
)
from raftlog.values.placement import (
    AssignmentVersion,
    BalancerStatus,
    CancelledReassignment,
    CurrentLeader,
    ListedPartition,
    NamespacePartition,
    PlannedMoves,
    Reconfiguration,
)
from raftlog.values.traces import BrokerTraces
from raftlog.values.transactions import TransactionDescription, TransactionList, TransactionSummary

T = TypeVar("T")
ORDER_MS = 30_000
"""Default bound, in milliseconds, on the time that the cluster takes to accept or refuse a change."""


class AdminClient:
    """Administrative part of a `BrokerClient`, whose transport it uses."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.security = SecurityClient(calls)
        """Users, permissions and client quotas."""

    # brokers

    async def brokers(self) -> list[BrokerDescription]:
        """Return all brokers of the cluster, by node id."""
        rows = await self._calls.read(list[BrokerDescription], "/v1/brokers")
        return sorted(rows, key=lambda row: row.node_id)

    async def members(self) -> ClusterMembers:
        """Return the states of the brokers according to gossip at the answering broker."""
        return await self._calls.read(ClusterMembers, "/v1/cluster/members")

    async def broker(self, node: int) -> BrokerDescription:
        """Return one broker; raises `UnknownBroker`."""
        return await self._calls.read(BrokerDescription, f"/v1/brokers/{node}")

    async def maintenance(self, node: int) -> Maintenance:
        """Return the progress of a broker's maintenance mode."""
        return await self._calls.read(Maintenance, f"/v1/brokers/{node}/maintenance")

    async def set_maintenance(
        self, node: int, is_on: bool, *, expected_version: int | None = None, timeout_ms: int = ORDER_MS
    ) -> RequestedMaintenance:
        """Switch maintenance mode of a broker on or off.

        Raises `ChangeRefused` as `Unavailable` when too many brokers would be in maintenance."""
        method = "PUT" if is_on else "DELETE"
        return await self._change(
            RequestedMaintenance, method, f"/v1/brokers/{node}/maintenance", None, expected_version, timeout_ms
        )

    async def decommission(self, node: int, *, timeout_ms: int = ORDER_MS) -> BrokerReference:
        """Move a broker's replicas to other brokers, and then remove it for good."""
        return await self._change(BrokerReference, "PUT", f"/v1/brokers/{node}/decommission", timeout_ms=timeout_ms)

    async def recommission(self, node: int, *, timeout_ms: int = ORDER_MS) -> BrokerReference:
        """Cancel the decommissioning of a broker."""
        return await self._change(BrokerReference, "PUT", f"/v1/brokers/{node}/recommission", timeout_ms=timeout_ms)

    async def decommission_status(self, node: int) -> Decommission:
        """Return the progress of a broker's decommissioning."""
        return await self._calls.read(Decommission, f"/v1/brokers/{node}/decommission")

    # transactions

    async def transactions(self) -> list[TransactionSummary]:
        """Return all transactional ids with their states, sorted."""
        return list((await self._calls.read(TransactionList, "/transactions")).transactions)

    async def transaction(self, transactional_id: str) -> TransactionDescription:
        """Return the state of a transactional id; raises `UnknownTransaction`."""
        path = f"/transactions/{quote_segment(transactional_id, 'transactional id')}"
        return await self._calls.read(TransactionDescription, path)

    async def abort_transaction(self, transactional_id: str, *, timeout_ms: int = ORDER_MS) -> None:
        """Abort the open transaction of a transactional id, and fence its producer; raises `UnknownTransaction`."""
        path = f"/transactions/{quote_segment(transactional_id, 'transactional id')}/abort"
        await self._calls.change("POST", path, timeout_ms=timeout_ms, repeatable=True)

    # partitions

    async def partitions(self, topic: str | None = None) -> list[ListedPartition]:
        """Return partitions with their replicas and leaders; `leader_id` is -1 for one whose leader does not answer."""
        query = {} if topic is None else {"topic": topic}
        return await self._calls.read(list[ListedPartition], "/v1/cluster/partitions", query)

    async def partition(self, topic: str, partition: int) -> NamespacePartition:
        """Return one partition as its leader reports it."""
        return await self._calls.read(NamespacePartition, _partition_path(topic, partition))

    async def set_replicas(
        self,
        topic: str,
        partition: int,
        nodes: Sequence[int],
        *,
        expected_version: int | None = None,
        timeout_ms: int = ORDER_MS,
    ) -> AssignmentVersion:
        """Assign the replicas of a partition, the preferred leader first; raises `VersionConflict`."""
        path = f"{_partition_path(topic, partition)}/replicas"
        rows = [{"node_id": node, "core": 0} for node in nodes]
        return await self._change(AssignmentVersion, "POST", path, rows, expected_version, timeout_ms)

    async def transfer_leadership(
        self, topic: str, partition: int, target: int | None = None, *, timeout_ms: int = ORDER_MS
    ) -> CurrentLeader:
        """Transfer the leadership of a partition to `target`, or to any eligible replica."""
        path = f"{_partition_path(topic, partition)}/transfer_leadership"
        query = {} if target is None else {"target": target}
        return await self._calls.change_as(
            CurrentLeader, "POST", path, timeout_ms=timeout_ms, query=query, repeatable=target is not None
        )

    async def cancel_reconfiguration(
        self, topic: str, partition: int, *, timeout_ms: int = ORDER_MS
    ) -> AssignmentVersion:
        """Cancel a partition's move: its present voters stay."""
        path = f"{_partition_path(topic, partition)}/cancel_reconfiguration"
        return await self._change(AssignmentVersion, "POST", path, timeout_ms=timeout_ms)

    async def cancel_reconfigurations(
        self, node: int | None = None, *, timeout_ms: int = ORDER_MS
    ) -> list[CancelledReassignment]:
        """Cancel all moves of partitions, or those from or to one broker."""
        cluster, broker = "/v1/cluster/cancel_reconfigurations", f"/v1/brokers/{node}/cancel_partition_moves"
        path = cluster if node is None else broker
        return await self._calls.change_as(
            list[CancelledReassignment], "POST", path, timeout_ms=timeout_ms, repeatable=True
        )

    async def reconfigurations(self) -> list[Reconfiguration]:
        """Return the partitions with a pending reassignment."""
        return await self._calls.read(list[Reconfiguration], "/v1/partitions/reconfigurations")

    # the balancer

    async def balancer_status(self) -> BalancerStatus:
        """Return the balancer's activity, and the condition that it waits for."""
        return await self._calls.read(BalancerStatus, "/v1/cluster/partition_balancer/status")

    async def rebalance(self, *, timeout_ms: int = ORDER_MS) -> PlannedMoves:
        """Balance replicas and leaders now."""
        return await self._change(PlannedMoves, "POST", "/v1/partitions/rebalance", timeout_ms=timeout_ms)

    # cluster settings, log levels, upgrades

    async def cluster_config(self) -> dict[str, SettingValue]:
        """Return all settings of the cluster by name."""
        return await self._calls.read(dict[str, SettingValue], "/v1/cluster_config")

    async def cluster_config_schema(self) -> Mapping[str, SettingDescription]:
        """Return description, default and allowed values of each setting."""
        return (await self._calls.read(ClusterSettingsSchema, "/v1/cluster_config/schema")).properties

    async def cluster_config_status(self) -> list[ClusterSettingsStatus]:
        """Return the version of the settings at each broker."""
        return await self._calls.read(list[ClusterSettingsStatus], "/v1/cluster_config/status")

    async def alter_cluster_config(
        self,
        upsert: Mapping[str, object],
        remove: Sequence[str] = (),
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        timeout_ms: int = ORDER_MS,
    ) -> ClusterSettingsVersion:
        """Set some settings, and reset others to their defaults; all or nothing."""
        fields = {"upsert": dict(upsert), "remove": list(remove)}
        query = {"dry_run": "true"} if dry_run else {}
        return await self._change(
            ClusterSettingsVersion, "PUT", "/v1/cluster_config", fields, expected_version, timeout_ms, query
        )

    async def set_log_level(self, name: str, level: str, expires_s: int) -> LogLevel:
        """Set a log level of the broker that receives the request, for `expires_s` seconds (0: until changed)."""
        query = {"level": level, "expires": expires_s}
        path = f"/v1/config/log_level/{quote_segment(name, 'logger')}"
        return await self._calls.change_as(LogLevel, "PUT", path, timeout_ms=ANSWER_MS, query=query)

    async def features(self) -> Features:
        """Return the cluster's feature level, and the levels that its brokers support."""
        return await self._calls.read(Features, "/v1/features")

    async def finish_upgrade(self, level: int | None = None, *, timeout_ms: int = ORDER_MS) -> Features:
        """Raise the feature level to `level`, or to the highest that all brokers support."""
        fields = {} if level is None else {"feature_level": level}
        return await self._change(Features, "PUT", "/v1/features", fields, timeout_ms=timeout_ms)

    # Traces

    async def traces(self, trace_id: str | None = None) -> BrokerTraces:
        """Return the traces that the answering broker keeps, or its part of one trace."""
        return await self._calls.read(BrokerTraces, "/v1/traces", {} if trace_id is None else {"trace_id": trace_id})

    async def produce_traced(self, topic: str, partition: int, value: str, traceparent: str) -> None:
        """Append one record, whose header `traceparent` makes the brokers trace the request. Never sent twice."""
        headers = [{"name": "traceparent", "value": b64encode(traceparent.encode()).decode()}]
        record = {"value": value, "headers": headers}
        path = f"/topics/{quote_segment(topic)}/partitions/{partition}"
        await self._calls.change("POST", path, {"records": [record]}, timeout_ms=ANSWER_MS)

    async def _change(
        self,
        kind: type[T],
        method: str,
        path: str,
        fields: object = None,
        expected_version: int | None = None,
        timeout_ms: int = ORDER_MS,
        query: Mapping[str, object] | None = None,
    ) -> T:
        """Send a change and decode the answer; if that is lost, repeat a change without `expected_version`."""
        asked = dict(query or {})
        if expected_version is not None:
            asked["expected_version"] = expected_version
        return await self._calls.change_as(
            kind, method, path, fields, timeout_ms=timeout_ms, query=asked, repeatable=expected_version is None
        )


def _partition_path(topic: str, partition: int) -> str:
    return f"/v1/partitions/kafka/{quote_segment(topic)}/{partition}"
