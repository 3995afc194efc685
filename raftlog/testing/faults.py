"""What can be done to the ways between the nodes of a cluster, and between its clients and its nodes.

Cuts add up and weather replaces weather, until `heal`. The proxy is told everything each time, and has done it when a
call returns.
"""

import itertools
from collections.abc import Iterable
from typing import Final

from raftlog.testing.errors import BrokerFailed
from raftlog.testing.network import Faults, Network, Way
from raftlog.testing.weather import CLIENTS, WaySeen, Weather

_NO_CUTS: Final = "nothing can be cut here: the cluster was started with one node, or without cuts"


class NetworkFaults:
    """A part of `Cluster`."""

    def __init__(self, with_cuts: bool, client_cuts: bool) -> None:
        self._with_cuts, self._client_cuts = with_cuts, client_cuts
        self._network: Network | None = None
        self._cut: set[Way] = set()
        self._gossip_cut: set[Way] = set()
        self._weather: dict[Way, Weather] = {}
        self._gossip_weather: dict[Way, Weather] = {}
        self._gossip_loss = 0.0

    def cut(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """What `some` send to `others` is lost from now on, and unless `one_way` what these send back; gossip is a part
        of it. Cuts add up."""
        some, others = list(some), list(others)
        self.cut_rpc(some, others, one_way=one_way)
        self.cut_gossip(some, others, one_way=one_way)

    def cut_rpc(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """The same for everything but gossip."""
        ways = _ways(some, others, one_way)
        self._check(ways)
        self._cut |= ways
        self._apply()

    def cut_gossip(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """The same for gossip alone."""
        ways = _ways(some, others, one_way)
        self._check(ways)
        self._gossip_cut |= ways
        self._apply()

    def set_cuts(self, rpc: Iterable[Way], gossip: Iterable[Way]) -> None:
        """Exactly these ways between nodes are cut from now on, for gossip and for everything else; clients stay cut
        off as they are."""
        rpc, gossip = set(rpc), set(gossip)
        self._check(rpc | gossip)
        self._cut = {way for way in self._cut if CLIENTS in way} | rpc
        self._gossip_cut = gossip
        self._apply()

    def heal_clients(self) -> None:
        """Clients are cut off from nobody any more."""
        self._cut = {way for way in self._cut if CLIENTS not in way}
        self._apply()

    def cut_clients(self, nodes: Iterable[int], *, answers_only: bool = False) -> None:
        """What these nodes answer to clients is lost from now on, and unless `answers_only` what they are asked too; of
        clients that use the public addresses."""
        nodes = list(nodes)
        self._check([(CLIENTS, node) for node in nodes])
        self._cut |= {(node, CLIENTS) for node in nodes}
        if not answers_only:
            self._cut |= {(CLIENTS, node) for node in nodes}
        self._apply()

    def lose_gossip(self, share: float) -> None:
        """That share of all datagrams of gossip is lost from now on, wherever they go."""
        self._gossip_loss = share
        self._apply()

    def set_weather(
        self, ways: Iterable[Way], weather: Weather | None, *, gossip: bool = True, rpc: bool = True
    ) -> None:
        """That is the weather of these ways from now on, each from a sender to a receiver, in the place of any other;
        None is fair. Node `CLIENTS` stands for the clients. What was held on them arrives at once."""
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
        """Break the connections over these ways, as a box in the middle does that has forgotten them: both sides get a
        reset, and what was on its way is lost. How many there were; they may be made anew at once."""
        ways = set(ways)
        self._check(ways)
        return self._needed().reset(ways)

    def heal(self) -> None:
        """No way is cut any more, nothing is lost, and the weather is fair."""
        for kept in (self._cut, self._gossip_cut, self._weather, self._gossip_weather):
            kept.clear()
        self._gossip_loss = 0.0
        self._apply()

    def seen(self) -> dict[Way, WaySeen]:
        """What became of what was sent since the cluster began, by way: the proof of what was done to it."""
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
        """Raises `BrokerFailed` where the proxy is not in between."""
        for way in ways:
            if CLIENTS in way and not self._client_cuts:
                raise BrokerFailed("clients have no way of their own here: the cluster was started without client_cuts")
            if CLIENTS not in way and not self._with_cuts:
                raise BrokerFailed(_NO_CUTS)


def _ways(some: Iterable[int], others: Iterable[int], one_way: bool) -> set[Way]:
    """From sender to receiver."""
    forth = set(itertools.product(some, others))
    assert all(one != other for one, other in forth), "a node cannot be cut off from itself"
    return forth if one_way else forth | {(other, one) for one, other in forth}
