"""What operators ask of a cluster and order, as `raftlog.client.BrokerClient.admin`.

Any broker can be asked. Answers are JSON objects as docs/HTTP.md has them. Every order is safe to give again, and is
asked again elsewhere by itself when an answer was lost, but where that could do something else: with an
`expected_version`, which the first attempt may have used up, and where the broker chooses. Such an order ends as
`OutcomeUnknown`; look, and decide anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from raftlog.client.calls import ANSWER_MS, Calls, quoted

Json: TypeAlias = dict[str, Any]
ORDER_MS = 30_000
"""How long the cluster may take to decide an order, where the caller does not say."""


class AdminClient:
    """Made by `BrokerClient`, whose transport it uses."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    # brokers

    async def brokers(self) -> list[Json]:
        """All brokers of the cluster, by node id."""
        rows: list[Json] = await self._calls.get("/v1/brokers")
        return sorted(rows, key=lambda row: row["node_id"])

    async def members(self) -> Json:
        """The brokers as gossip has them at the one that answers."""
        return await self._got("/v1/cluster/members")

    async def broker(self, node: int) -> Json:
        """One of them; raises `UnknownBroker`."""
        return await self._got(f"/v1/brokers/{node}")

    async def maintenance(self, node: int) -> Json:
        """How far a broker's maintenance is."""
        return await self._got(f"/v1/brokers/{node}/maintenance")

    async def set_maintenance(
        self, node: int, is_on: bool, *, expected_version: int | None = None, timeout_ms: int = ORDER_MS
    ) -> Json:
        """Begin or end it; raises `ChangeRefused` as `Unavailable` when too many brokers would be in maintenance."""
        method = "PUT" if is_on else "DELETE"
        return await self._order(method, f"/v1/brokers/{node}/maintenance", None, expected_version, timeout_ms)

    async def decommission(self, node: int, *, timeout_ms: int = ORDER_MS) -> Json:
        """A broker's replicas move to others, and then it is removed for good."""
        return await self._order("PUT", f"/v1/brokers/{node}/decommission", timeout_ms=timeout_ms)

    async def recommission(self, node: int, *, timeout_ms: int = ORDER_MS) -> Json:
        """It stays after all."""
        return await self._order("PUT", f"/v1/brokers/{node}/recommission", timeout_ms=timeout_ms)

    async def decommission_status(self, node: int) -> Json:
        """How far it is."""
        return await self._got(f"/v1/brokers/{node}/decommission")

    # partitions

    async def partitions(self, topic: str | None = None) -> list[Json]:
        """Return partitions with their replicas and leaders; `leader_id` is -1 for one whose leader does not answer."""
        rows: list[Json] = await self._calls.get("/v1/cluster/partitions", {} if topic is None else {"topic": topic})
        return rows

    async def partition(self, topic: str, partition: int) -> Json:
        """One partition as its leader sees it."""
        return {"version": None} | await self._got(_partition_path(topic, partition))

    async def set_replicas(
        self,
        topic: str,
        partition: int,
        nodes: Sequence[int],
        *,
        expected_version: int | None = None,
        timeout_ms: int = ORDER_MS,
    ) -> Json:
        """Where the replicas of a partition shall be, the preferred leader first; raises `VersionConflict`."""
        path = f"{_partition_path(topic, partition)}/replicas"
        rows = [{"node_id": node, "core": 0} for node in nodes]
        return await self._order("POST", path, rows, expected_version, timeout_ms)

    async def transfer_leadership(
        self, topic: str, partition: int, target: int | None = None, *, timeout_ms: int = ORDER_MS
    ) -> Json:
        """Let another replica lead: `target`, or whichever can."""
        path = f"{_partition_path(topic, partition)}/transfer_leadership"
        query = {} if target is None else {"target": target}
        answer: Json = await self._calls.change(
            "POST", path, timeout_ms=timeout_ms, query=query, repeatable=target is not None
        )
        return answer

    async def cancel_reconfiguration(self, topic: str, partition: int, *, timeout_ms: int = ORDER_MS) -> Json:
        """The partition stays where its voters are."""
        return await self._order(
            "POST", f"{_partition_path(topic, partition)}/cancel_reconfiguration", timeout_ms=timeout_ms
        )

    async def cancel_reconfigurations(self, node: int | None = None, *, timeout_ms: int = ORDER_MS) -> list[Json]:
        """The same for all partitions that move, or that move from or to this broker."""
        cluster, broker = "/v1/cluster/cancel_reconfigurations", f"/v1/brokers/{node}/cancel_partition_moves"
        path = cluster if node is None else broker
        rows: list[Json] = await self._calls.change("POST", path, timeout_ms=timeout_ms, repeatable=True)
        return rows

    async def reconfigurations(self) -> list[Json]:
        """Partitions whose replicas are not where they shall be."""
        rows: list[Json] = await self._calls.get("/v1/partitions/reconfigurations")
        return rows

    # the balancer

    async def balancer_status(self) -> Json:
        """What the balancer does, and what it waits for."""
        return await self._got("/v1/cluster/partition_balancer/status")

    async def rebalance(self, *, timeout_ms: int = ORDER_MS) -> Json:
        """Spread replicas and leaders now."""
        return await self._order("POST", "/v1/partitions/rebalance", timeout_ms=timeout_ms)

    # the cluster's settings, logging, upgrades

    async def cluster_config(self) -> Json:
        """All settings of the cluster by name."""
        return await self._got("/v1/cluster_config")

    async def cluster_config_schema(self) -> Json:
        """What each setting is, its default, and what it can be."""
        properties: Json = (await self._calls.get("/v1/cluster_config/schema"))["properties"]
        return properties

    async def cluster_config_status(self) -> list[Json]:
        """Which version of the settings each broker has."""
        rows: list[Json] = await self._calls.get("/v1/cluster_config/status")
        return rows

    async def alter_cluster_config(
        self,
        upsert: Mapping[str, object],
        remove: Sequence[str] = (),
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        timeout_ms: int = ORDER_MS,
    ) -> Json:
        """Set some settings, and let others have their default again; all or nothing."""
        fields = {"upsert": dict(upsert), "remove": list(remove)}
        query = {"dry_run": "true"} if dry_run else {}
        return await self._order("PUT", "/v1/cluster_config", fields, expected_version, timeout_ms, query)

    async def set_log_level(self, name: str, level: str, expires_s: int) -> Json:
        """Of the broker that is asked; after `expires_s` it is as before, 0: never."""
        query = {"level": level, "expires": expires_s}
        answer: Json = await self._calls.change(
            "PUT", f"/v1/config/log_level/{quoted(name)}", timeout_ms=ANSWER_MS, query=query
        )
        return answer

    async def features(self) -> Json:
        """The cluster's feature level, and what its brokers know."""
        return await self._got("/v1/features")

    async def finish_upgrade(self, level: int | None = None, *, timeout_ms: int = ORDER_MS) -> Json:
        """Raise the feature level: to `level`, or to the highest that all brokers know."""
        fields = {} if level is None else {"feature_level": level}
        return await self._order("PUT", "/v1/features", fields, timeout_ms=timeout_ms)

    async def _got(self, path: str) -> Json:
        answer: Json = await self._calls.get(path)
        return answer

    async def _order(
        self,
        method: str,
        path: str,
        fields: object = None,
        expected_version: int | None = None,
        timeout_ms: int = ORDER_MS,
        query: Mapping[str, object] | None = None,
    ) -> Json:
        asked = dict(query or {})
        if expected_version is not None:
            asked["expected_version"] = expected_version
        answer: Json = await self._calls.change(
            method, path, fields, timeout_ms=timeout_ms, query=asked, repeatable=expected_version is None
        )
        return answer


def _partition_path(topic: str, partition: int) -> str:
    return f"/v1/partitions/kafka/{quoted(topic)}/{partition}"
