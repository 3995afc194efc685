"""Network faults between the nodes of a cluster, and between its clients and its nodes.

Cuts add up, and a direction's weather replaces the one before, until `heal`. Each call sends the full state to the
proxy, and returns when the proxy has applied it."""

import itertools
from collections.abc import Iterable
from typing import Final

from raftlog.testing.errors import BrokerFailed
from raftlog.testing.network import Faults, Network, Way
from raftlog.testing.weather import CLIENTS, WaySeen, Weather

_NO_CUTS: Final = "no network fault is possible: the cluster was started with one node, or with `with_cuts=False`"


class NetworkFaults:
    """Part of `Cluster` that injects network faults."""

    def __init__(self, with_cuts: bool, client_cuts: bool) -> None:
        self._with_cuts, self._client_cuts = with_cuts, client_cuts
        self._network: Network | None = None
        self._cut: set[Way] = set()
        self._gossip_cut: set[Way] = set()
        self._weather: dict[Way, Weather] = {}
        self._gossip_weather: dict[Way, Weather] = {}
        self._gossip_loss = 0.0

    def cut(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """Lose all traffic from `some` to `others`, and unless `one_way` the opposite direction; gossip included.

        Cuts add up."""
        some, others = list(some), list(others)
        self.cut_rpc(some, others, one_way=one_way)
        self.cut_gossip(some, others, one_way=one_way)

    def cut_rpc(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """Cut as `cut` does, but leave gossip alone."""
        ways = _ways(some, others, one_way)
        self._check(ways)
        self._cut |= ways
        self._apply()

    def cut_gossip(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """Cut as `cut` does, but gossip alone."""
        ways = _ways(some, others, one_way)
        self._check(ways)
        self._gossip_cut |= ways
        self._apply()

    def set_cuts(self, rpc: Iterable[Way], gossip: Iterable[Way]) -> None:
        """Cut exactly these ways between nodes, for gossip and for everything else; client cuts stay."""
        rpc, gossip = set(rpc), set(gossip)
        self._check(rpc | gossip)
        self._cut = {way for way in self._cut if CLIENTS in way} | rpc
        self._gossip_cut = gossip
        self._apply()

    def heal_clients(self) -> None:
        """Remove all cuts between clients and nodes."""
        self._cut = {way for way in self._cut if CLIENTS not in way}
        self._apply()

    def cut_clients(self, nodes: Iterable[int], *, answers_only: bool = False) -> None:
        """Lose the answers of these nodes to clients, and unless `answers_only` the requests too.

        Only clients that use the public addresses are cut off."""
        nodes = list(nodes)
        self._check([(CLIENTS, node) for node in nodes])
        self._cut |= {(node, CLIENTS) for node in nodes}
        if not answers_only:
            self._cut |= {(CLIENTS, node) for node in nodes}
        self._apply()

    def lose_gossip(self, share: float) -> None:
        """Lose that share of all gossip datagrams, between all nodes."""
        self._gossip_loss = share
        self._apply()

    def set_weather(
        self, ways: Iterable[Way], weather: Weather | None, *, gossip: bool = True, rpc: bool = True
    ) -> None:
        """Set the weather of these ways, each from a sender to a receiver; None is fair weather.

        Replaces the earlier weather of each way, and delivers at once the bytes held on it. Node `CLIENTS` stands
        for the
        clients."""
        weather = weather or Weather()
        weather.check()
        ways = list(ways)
        self._check(ways)
        for way in ways:
            for is_meant, kept in ((rpc, self._weather), (gossip and CLIENTS not in way, self._gossip_weather)):
                if is_meant and weather != Weather():
                    kept[way] = weather
                elif is_meant:
                    kept.pop(way, None)
        self._apply()

    def reset_connections(self, ways: Iterable[Way]) -> int:
        """Reset all connections over these ways, as a middlebox that lost its state does; return their number.

        Both sides get a reset, and bytes in flight are lost. The nodes may reconnect at once."""
        ways = set(ways)
        self._check(ways)
        return self._needed().reset(ways)

    def heal(self) -> None:
        """Remove all cuts, losses and weather."""
        for kept in (self._cut, self._gossip_cut, self._weather, self._gossip_weather):
            kept.clear()
        self._gossip_loss = 0.0
        self._apply()

    def seen(self) -> dict[Way, WaySeen]:
        """Return counts by way of the traffic since the cluster began, which prove that faults took effect."""
        return self._needed().seen()

    def _apply(self) -> None:
        self._needed().set_faults(
            Faults(self._cut, self._gossip_cut, self._weather, self._gossip_weather, self._gossip_loss)
        )

    def _needed(self) -> Network:
        if self._network is None:
            raise BrokerFailed(_NO_CUTS)
        return self._network

    def _check(self, ways: Iterable[Way]) -> None:
        """Raise `BrokerFailed` unless the proxy is in between."""
        for way in ways:
            if CLIENTS in way and not self._client_cuts:
                raise BrokerFailed("clients cannot be cut off: the cluster was started without `client_cuts=True`")
            if CLIENTS not in way and not self._with_cuts:
                raise BrokerFailed(_NO_CUTS)


def _ways(some: Iterable[int], others: Iterable[int], one_way: bool) -> set[Way]:
    """Return the ways from each of `some` to each of `others`, and unless `one_way` the opposite ones."""
    forth = set(itertools.product(some, others))
    assert all(one != other for one, other in forth), "a node cannot be cut off from itself"
    return forth if one_way else forth | {(other, one) for one, other in forth}
