"""Datagrams: delay, loss, duplicates, order, cuts, bandwidth; every drop has its reason."""

from random import Random

import pytest

from jepsen.simulation import LinkConditions, Node, SimulatedNetwork, VirtualLoop
from jepsen.simulation.network.links import MILLISECOND_NS
from jepsen.simulation.network.shapes import bridge, halves, isolate, majorities_ring, one_way_cuts, split

STEADY = LinkConditions(delay_min_ns=MILLISECOND_NS, delay_max_ns=MILLISECOND_NS)


class MailNetwork:
    """Three nodes and their received messages with times in milliseconds."""

    def __init__(self, loop: VirtualLoop, conditions: LinkConditions = STEADY) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, Random(1), conditions)
        self.nodes = [loop.add_node(f"n{number}") for number in range(3)]
        self.received: list[tuple[str, str, object, float]] = []
        for node in self.nodes:
            self.network.attach(node)
            self.start(node)

    def start(self, node: Node) -> None:
        def receive(source: Node, message: object) -> None:
            self.received.append((source.name, node.name, message, self.loop.now_ns / MILLISECOND_NS))

        self.network.bind(node.start(), "mail", receive)

    def send(self, source: int, destination: int, message: object, size_bytes: int | None = None) -> None:
        self.network.send(self.nodes[source].running_process(), self.nodes[destination], "mail", message, size_bytes)

    def messages(self) -> list[object]:
        return [message for _, _, message, _ in self.received]


@pytest.fixture
def mail(loop: VirtualLoop) -> MailNetwork:
    return MailNetwork(loop)


def test_a_message_arrives_after_the_delay(mail: MailNetwork) -> None:
    buffer = bytearray(b"hello")
    mail.send(0, 1, buffer)
    buffer[:] = b"other"
    mail.loop.run_for(1)
    assert mail.received == [("n0", "n1", b"hello", 1.0)]


def test_a_node_always_reaches_itself(loop: VirtualLoop) -> None:
    mail = MailNetwork(loop, STEADY._replace(loss=1.0))
    mail.send(0, 0, "to myself")
    mail.send(0, 1, "to you")
    loop.run_for(1)
    assert mail.messages() == ["to myself"]


def test_loss_duplicates_and_reordering_have_the_configured_rates(loop: VirtualLoop) -> None:
    mail = MailNetwork(loop, STEADY._replace(loss=0.2, duplicate=0.1, reorder=0.3))
    for number in range(1000):
        mail.send(0, 1, number)
        loop.run_for(0.001)
    loop.run_for(1)
    seen = mail.messages()
    assert 720 < len(set(seen)) < 860, "a lost one may still come as its duplicate"
    assert 60 < len(seen) - len(set(seen)) < 120
    assert seen != sorted(seen, key=str)
    assert mail.network.drop_counts == {"lost": len(mail.network.drops)}
    assert 150 < len(mail.network.drops) < 250


def test_a_one_way_cut_leaves_the_other_way_open(mail: MailNetwork) -> None:
    mail.send(0, 1, "under way")
    mail.network.cut(mail.nodes[0], mail.nodes[1])
    mail.send(0, 1, "into the cut")
    mail.send(1, 0, "against it")
    mail.loop.run_for(1)
    assert mail.messages() == ["against it"]
    assert [drop.reason for drop in mail.network.drops] == ["cut", "cut under way"]
    mail.network.repair(mail.nodes[0], mail.nodes[1])
    mail.send(0, 1, "mended")
    mail.loop.run_for(1)
    assert mail.messages()[1:] == ["mended"]


def test_messages_in_flight_at_a_short_cut_stay_lost(mail: MailNetwork) -> None:
    mail.send(0, 1, "under way")
    mail.network.cut(mail.nodes[0], mail.nodes[1])
    mail.network.heal()
    mail.loop.run_for(1)
    assert mail.messages() == []


def test_a_narrow_link_queues_and_then_drops(loop: VirtualLoop) -> None:
    mail = MailNetwork(loop, STEADY._replace(bytes_per_s=1000, queue_bytes_max=250))
    for number in range(4):
        mail.send(0, 1, number, 100)
    loop.run_for(1)
    assert [(message, at) for _, _, message, at in mail.received] == [(0, 101.0), (1, 201.0)]
    assert mail.network.drop_counts == {"queue full": 2}


def test_a_slow_link_is_slow_in_one_direction_until_the_network_heals(mail: MailNetwork) -> None:
    slow = STEADY._replace(delay_min_ns=300 * MILLISECOND_NS, delay_max_ns=300 * MILLISECOND_NS)
    mail.network.set_conditions(mail.nodes[0], mail.nodes[1], slow)
    mail.send(0, 1, "slow")
    mail.send(1, 0, "fast")
    mail.network.heal()
    mail.send(0, 1, "healed")
    mail.loop.run_for(1)
    assert [(message, at) for _, _, message, at in mail.received] == [("fast", 1.0), ("healed", 1.0), ("slow", 300.0)]


def test_a_crashed_process_receives_nothing_and_a_paused_one_later(mail: MailNetwork) -> None:
    mail.nodes[1].crash()
    mail.nodes[2].pause()
    mail.send(0, 1, "to the dead")
    mail.send(0, 2, "to the sleeping")
    mail.loop.run_for(1)
    assert mail.messages() == []
    assert mail.network.drop_counts == {"no process there": 1}
    mail.nodes[2].resume()
    mail.start(mail.nodes[1])
    mail.loop.run_for(1)
    assert mail.received == [("n0", "n2", "to the sleeping", 1000.0)]


def test_crashed_processes_send_nothing(mail: MailNetwork) -> None:
    process = mail.nodes[0].running_process()
    mail.send(0, 1, "last words")
    mail.nodes[0].crash()
    mail.network.send(process, mail.nodes[1], "mail", "from the grave")
    mail.loop.run_for(1)
    assert mail.messages() == ["last words"]


# Shapes


def reachable_nodes(cuts: list[tuple[int, int]], count: int) -> list[set[int]]:
    """Return for each node the nodes that it receives from, itself included."""
    return [{a for a in range(count) if (a, b) not in cuts} for b in range(count)]


@pytest.mark.parametrize("count", [3, 4, 5, 7])
def test_each_shape_cuts_its_links(count: int) -> None:
    nodes, random = range(count), Random(count)
    two = reachable_nodes(halves(nodes, random), count)
    assert sorted(map(len, two)) == [count // 2] * (count // 2) + [count - count // 2] * (count - count // 2)
    bridged = reachable_nodes(bridge(nodes, random), count)
    assert [len(heard) for heard in bridged].count(count) == 1
    ring = reachable_nodes(majorities_ring(nodes, random), count)
    assert {len(heard) for heard in ring} == {count // 2 + 1}
    assert len({frozenset(heard) for heard in ring}) == count
    assert all(node in heard for node, heard in enumerate(ring))
    alone = reachable_nodes(isolate(1, nodes), count)
    assert alone[1] == {1}
    assert all(1 not in heard for node, heard in enumerate(alone) if node != 1)


def test_one_way_and_split_are_exact() -> None:
    assert one_way_cuts([0], [1, 2]) == [(0, 1), (0, 2)]
    assert split([[0], [1, 2]]) == [(0, 1), (0, 2), (1, 0), (2, 0)]


def test_imposed_cuts_add_up_until_healed(mail: MailNetwork) -> None:
    mail.network.impose(one_way_cuts([0], [1]))
    mail.network.impose(one_way_cuts([1], [2]))
    for source, destination in ((0, 1), (1, 2), (2, 0)):
        mail.send(source, destination, (source, destination))
    mail.loop.run_for(1)
    assert mail.messages() == [(2, 0)]
