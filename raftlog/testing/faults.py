"""Network faults between the nodes of a cluster, and between its clients and its nodes.

Until `heal`, cuts add up, and new conditions of a link replace its earlier ones. Each call sends all present faults to
the proxy, and returns when the proxy has applied them."""

import itertools
from collections.abc import Iterable
from typing import Final

from raftlog.testing.errors import BrokerFailed
from raftlog.testing.network import Faults, Network
from raftlog.testing.network_conditions import CLIENTS, Link, LinkCounters, NetworkConditions

_NO_CUTS: Final = "no network fault is possible: the cluster was started with one node, or with `with_cuts=False`"


class NetworkFaults:
    """Injection of network faults; base of `Cluster`."""

    def __init__(self, with_cuts: bool, client_cuts: bool) -> None:
        """Begin without faults; `with_cuts` and `client_cuts` are whether nodes and clients connect through proxies."""
        self._with_cuts, self._client_cuts = with_cuts, client_cuts
        self._network: Network | None = None
        self._cut: set[Link] = set()
        self._gossip_cut: set[Link] = set()
        self._conditions: dict[Link, NetworkConditions] = {}
        self._gossip_conditions: dict[Link, NetworkConditions] = {}
        self._gossip_loss = 0.0

    def cut(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """Drop all traffic from `some` to `others`, gossip included, and without `one_way` the opposite direction too.

        Cuts add up."""
        some, others = list(some), list(others)
        self.cut_rpc(some, others, one_way=one_way)
        self.cut_gossip(some, others, one_way=one_way)

    def cut_rpc(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """Drop traffic like `cut`, except gossip."""
        links = _links(some, others, one_way)
        self._check(links)
        self._cut |= links
        self._apply()

    def cut_gossip(self, some: Iterable[int], others: Iterable[int], *, one_way: bool = False) -> None:
        """Drop gossip like `cut`, but no other traffic."""
        links = _links(some, others, one_way)
        self._check(links)
        self._gossip_cut |= links
        self._apply()

    def set_cuts(self, rpc: Iterable[Link], gossip: Iterable[Link]) -> None:
        """Cut exactly these links between nodes, for gossip and for all other traffic; client cuts stay."""
        rpc, gossip = set(rpc), set(gossip)
        self._check(rpc | gossip)
        self._cut = {link for link in self._cut if CLIENTS in link} | rpc
        self._gossip_cut = gossip
        self._apply()

    def heal_clients(self) -> None:
        """Remove all cuts between clients and nodes."""
        self._cut = {link for link in self._cut if CLIENTS not in link}
        self._apply()

    def cut_clients(self, nodes: Iterable[int], *, answers_only: bool = False) -> None:
        """Drop the answers of these nodes to clients, and without `answers_only` the requests too.

        Only clients that use the public addresses are cut off."""
        nodes = list(nodes)
        self._check([(CLIENTS, node) for node in nodes])
        self._cut |= {(node, CLIENTS) for node in nodes}
        if not answers_only:
            self._cut |= {(CLIENTS, node) for node in nodes}
        self._apply()

    def lose_gossip(self, share: float) -> None:
        """Drop this share of all gossip datagrams, between all nodes."""
        self._gossip_loss = share
        self._apply()

    def set_conditions(
        self, links: Iterable[Link], conditions: NetworkConditions | None, *, gossip: bool = True, rpc: bool = True
    ) -> None:
        """Set the conditions of these links, each from a sender to a receiver; None removes them.

        Replaces the earlier conditions of each link, and delivers at once the bytes held on it. Node `CLIENTS` stands
        for the clients."""
        conditions = conditions or NetworkConditions()
        conditions.check()
        links = list(links)
        self._check(links)
        for link in links:
            for is_meant, kept in ((rpc, self._conditions), (gossip and CLIENTS not in link, self._gossip_conditions)):
                if is_meant and conditions != NetworkConditions():
                    kept[link] = conditions
                elif is_meant:
                    kept.pop(link, None)
        self._apply()

    def reset_connections(self, links: Iterable[Link]) -> int:
        """Reset all connections over these links, like a middlebox that lost its state; return their number.

        Both sides get a reset, and bytes in flight are lost. The nodes may reconnect at once."""
        links = set(links)
        self._check(links)
        return self._running_network().reset(links)

    def heal(self) -> None:
        """Remove all cuts, losses and conditions."""
        for kept in (self._cut, self._gossip_cut, self._conditions, self._gossip_conditions):
            kept.clear()
        self._gossip_loss = 0.0
        self._apply()

    def counters(self) -> dict[Link, LinkCounters]:
        """Return the counters of the traffic by link since the start, which prove that faults took effect."""
        return self._running_network().counters()

    def _apply(self) -> None:
        """Send all present faults to the proxy, and wait until it has applied them."""
        self._running_network().set_faults(
            Faults(self._cut, self._gossip_cut, self._conditions, self._gossip_conditions, self._gossip_loss)
        )

    def _running_network(self) -> Network:
        """Return the proxy; raises `BrokerFailed` for a cluster without one."""
        if self._network is None:
            raise BrokerFailed(_NO_CUTS)
        return self._network

    def _check(self, links: Iterable[Link]) -> None:
        """Raise `BrokerFailed` if the traffic of these links does not pass the proxy."""
        for link in links:
            if CLIENTS in link and not self._client_cuts:
                raise BrokerFailed("clients cannot be cut off: the cluster was started without `client_cuts=True`")
            if CLIENTS not in link and not self._with_cuts:
                raise BrokerFailed(_NO_CUTS)


def _links(some: Iterable[int], others: Iterable[int], one_way: bool) -> set[Link]:
    """Return the links from each of `some` to each of `others`, and without `one_way` the opposite ones."""
    forth = set(itertools.product(some, others))
    assert all(one != other for one, other in forth), "a node cannot be cut off from itself"
    return forth if one_way else forth | {(other, one) for one, other in forth}
