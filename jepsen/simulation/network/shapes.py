"""Shapes of network partitions, as directed cuts: pairs of node numbers (from, to) without delivery.

The functions are pure. The shapes are those of Jepsen's nemeses.
"""

from collections.abc import Sequence
from random import Random

Cut = tuple[int, int]


def split(groups: Sequence[Sequence[int]]) -> list[Cut]:
    """Return cuts of all links between nodes of different groups."""
    side = {node: number for number, group in enumerate(groups) for node in group}
    return [(a, b) for a in side for b in side if side[a] != side[b]]


def halves(nodes: Sequence[int], random: Random) -> list[Cut]:
    """Return cuts between a random majority and the minority."""
    order = shuffle_nodes(nodes, random)
    border = len(order) // 2
    return split((order[:border], order[border:]))


def isolate(node: int, nodes: Sequence[int]) -> list[Cut]:
    """Return the cuts that separate one node from all others."""
    return split(((node,), [other for other in nodes if other != node]))


def bridge(nodes: Sequence[int], random: Random) -> list[Cut]:
    """Return the cuts that separate two halves of the nodes, while one further node reaches both."""
    order = shuffle_nodes(nodes, random)
    border = (len(order) - 1) // 2
    return split((order[1 : 1 + border], order[1 + border :]))


def majorities_ring(nodes: Sequence[int], random: Random) -> list[Cut]:
    """Return cuts such that each node receives from a majority that includes it, and no two from the same majority.

    Some links are cut in one direction only, where this is not possible otherwise."""
    order = shuffle_nodes(nodes, random)
    count = len(order)
    majority = count // 2 + 1
    behind = (majority - 1) // 2
    cuts = []
    for position, receiver in enumerate(order):
        senders = {order[(position - behind + step) % count] for step in range(majority)}
        cuts += [(node, receiver) for node in order if node not in senders]
    return cuts


def one_way_cuts(senders: Sequence[int], receivers: Sequence[int]) -> list[Cut]:
    """Return cuts from the senders to the receivers; the other direction is open."""
    return [(sender, receiver) for sender in senders for receiver in receivers if sender != receiver]


def shuffle_nodes(nodes: Sequence[int], random: Random) -> list[int]:
    """Return the nodes in random order."""
    return random.sample(list(nodes), len(nodes))
