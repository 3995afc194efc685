"""Cluster state for a rolling restart, read over HTTP. Used by the procedure in `steps`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftlog.cli.tables import format_count
from raftlog.client import BrokerClient, BrokerDescription, ClusterHealth
from raftlog.client.addresses import BrokerAddresses
from raftlog.context import AsyncClosedAtExit
from raftlog.errors import RaftlogError


class ClusterReading(NamedTuple):
    """State of the cluster at one moment. `boot_epochs`: number of starts of each broker, as far as known."""

    brokers: tuple[BrokerDescription, ...]
    health: ClusterHealth
    in_maintenance: frozenset[int]
    boot_epochs: Mapping[int, int]

    def is_alive(self, node: int) -> bool:
        return any(broker.node_id == node and broker.is_alive for broker in self.brokers)


class LeaderView(NamedTuple):
    """Numbers of partitions of all topics by leader and by preferred leader."""

    led: Counter[int]
    preferred: Counter[int]
    led_by_preferred: Counter[int]
    """Partitions led by their preferred leader."""


class RollingCluster(AsyncClosedAtExit):
    """Cluster under a rolling restart, read over HTTP. Every call raises `RaftlogError`."""

    def __init__(self, bootstrap: BrokerAddresses) -> None:
        self._bootstrap = bootstrap
        self._client = BrokerClient(bootstrap)

    async def close(self) -> None:
        await self._client.close()

    async def prefer_others_than(self, nodes: Sequence[int]) -> None:
        """Send later requests to other brokers first, because these are about to stop."""
        brokers = await self._client.brokers()
        known = sorted(brokers, key=lambda broker: (broker.node_id in nodes, not broker.is_alive))
        addresses = [broker.http for broker in known if broker.http]
        if addresses:
            await self._client.close()
            self._client = BrokerClient(self._bootstrap.with_addresses(addresses))

    async def read(self) -> ClusterReading:
        """Return the brokers, which of them are in maintenance, and the health of the cluster."""
        rows = await self._client.brokers()
        in_maintenance = (row.node_id for row in rows if row.in_maintenance)
        epochs = {row.node_id: row.boot_epoch for row in rows}
        return ClusterReading(tuple(rows), await self._client.health(), frozenset(in_maintenance), epochs)

    async def set_maintenance(self, node: int, is_on: bool) -> None:
        await self._client.admin.set_maintenance(node, is_on)

    async def leading_reason(self, node: int) -> str | None:
        """Return the reason why a broker in maintenance still leads partitions, or None if it leads none."""
        found = await self._client.admin.maintenance(node)
        if found.finished:
            return None
        return "; ".join(found.reasons) or f"it leads {format_count(found.partitions, 'partition')}"

    async def leaders(self) -> LeaderView:
        """Return the numbers of partitions by leader and by preferred leader; see `LeaderView`."""
        found = LeaderView(Counter(), Counter(), Counter())
        for name in await self._client.topics():
            for partition in (await self._client.describe_topic(name)).replicas:
                first = partition.replicas[0] if partition.replicas else None
                if partition.leader is not None:
                    found.led[partition.leader] += 1
                if first is not None:
                    found.preferred[first] += 1
                    found.led_by_preferred[first] += partition.leader == first
        return found


def unavailable_reason(error: RaftlogError) -> str:
    """Return the reason why the state of the cluster is unknown."""
    return f"the brokers cannot be asked: {error}"
