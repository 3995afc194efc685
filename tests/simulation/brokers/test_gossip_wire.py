"""Transport of gossip: datagrams and streams between hosts, cuts, and interference."""

from collections.abc import Iterator
from typing import Any

import pytest

from jepsen.simulation import SimulatedNetwork
from jepsen.simulation.brokers.gossip_wire import GOSSIP_PORT, CoupledNetwork, Interference, SimulatedWire
from jepsen.simulation.brokers.wires import WiredLoop
from jepsen.simulation.options import generator
from raftlog.membership.wire import DATAGRAM_BYTES_MAX, GossipStream


class Pair:
    """Two hosts that exchange gossip."""

    def __init__(self, interference: float = 0.0) -> None:
        self.loop = WiredLoop()
        self.network = CoupledNetwork(self.loop, generator("ways"))
        self.gossip_network = self.network.gossip_network = SimulatedNetwork(self.loop, generator("beside"))
        self.nodes = [self.loop.add_node(name) for name in ("n1", "n2")]
        for node in self.nodes:
            self.network.attach(node)
            node.start()
        self.loop.wire(self.network, self.nodes)
        visitor = Interference(generator("pests"), interference)
        self.wires = [
            SimulatedWire(self.loop, self.gossip_network, self.loop.hosts, node.running_process(), visitor)
            for node in self.nodes
        ]
        self.got: list[bytes] = []
        self.wires[1].on_datagram = lambda datagram, source: self.got.append(datagram)
        for node, wire in zip(self.nodes, self.wires, strict=True):
            node.running_process().spawn(wire.start(node.name, 0))
        self.loop.run_for(0.1)

    def send(self, datagram: bytes) -> None:
        self.nodes[0].running_process().call_soon(self.wires[0].send, datagram, ("n2", GOSSIP_PORT))
        self.loop.run_for(0.1)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.loop.close()


def test_a_datagram_arrives_and_one_to_an_unknown_host_does_not(pair: Pair) -> None:
    pair.send(b"hello")
    pair.nodes[0].running_process().call_soon(pair.wires[0].send, b"lost", ("elsewhere", 1))
    pair.loop.run_for(1)
    assert pair.got == [b"hello"]


def test_gossip_is_cut_alone_or_with_the_connections_and_heals_with_them(pair: Pair) -> None:
    one, two = pair.nodes
    pair.network.are_shared = False
    pair.network.cut(one, two)
    pair.send(b"past the cut")
    pair.network.are_shared = True
    pair.network.cut(one, two)
    pair.send(b"cut")
    pair.network.heal()
    pair.send(b"healed")
    pair.gossip_network.cut(one, two)
    assert not pair.network.link(one, two).is_cut
    assert pair.got == [b"past the cut", b"healed"]


def test_streams_carry_frames_in_both_directions(pair: Pair) -> None:
    heard: list[Any] = []

    async def echo(stream: GossipStream) -> None:
        await stream.send(await stream.receive() * 2)

    async def ask() -> None:
        stream = await pair.wires[0].open(("n2", GOSSIP_PORT))
        await stream.send(b"ab")
        heard.append(await stream.receive())
        stream.close()

    pair.wires[1].serve = echo
    pair.nodes[0].running_process().spawn(ask())
    pair.loop.run_for(1)
    assert heard == [b"abab"]


def test_interference_repeats_garbles_and_forges_datagrams_and_delivers_the_original() -> None:
    pair = Pair(interference=1.0)
    sent = [b"%d" % number * 50 for number in range(100, 200)]
    for datagram in sent:
        pair.send(datagram)
    pair.loop.run_for(30)
    pair.loop.close()
    assert all(datagram in pair.got for datagram in sent)
    others = [datagram for datagram in pair.got if datagram not in sent]
    assert any(len(datagram) > DATAGRAM_BYTES_MAX for datagram in others)
    assert any(len(datagram) < 100 for datagram in others)
    assert len(pair.got) - len(set(pair.got)) > 0
