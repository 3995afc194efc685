"""Shapes of cuts, and conditions of packet faults, on the links between nodes."""

from collections.abc import Callable, Sequence
from typing import Final

from jepsen.nemeses.fault import Link
from raftlog.testing import NetworkConditions


def both_directions(some: Sequence[int], others: Sequence[int]) -> tuple[Link, ...]:
    """Return the links between each node of `some` and each of `others`, in both directions."""
    return tuple(link for a in some for b in others for link in ((a, b), (b, a)))


def all_links(nodes: Sequence[int]) -> tuple[Link, ...]:
    """Return the links from each node to each other node."""
    return tuple((a, b) for a in nodes for b in nodes if a != b)


def _ring(nodes: Sequence[int]) -> tuple[Link, ...]:
    """Return cuts after which each node receives from a majority, and no two nodes from the same one."""
    count = len(nodes)
    near = {(i, (i + step) % count) for i in range(count) for step in (1, count - 1)}
    return tuple((nodes[i], nodes[j]) for i in range(count) for j in range(count) if i != j and (i, j) not in near)


def _bridge(nodes: Sequence[int]) -> tuple[Link, ...]:
    """Return the cuts that separate two halves, which only one node connects."""
    half = (len(nodes) - 1) // 2
    return both_directions(nodes[:half], nodes[half + 1 :])


SHAPES: Final[dict[str, Callable[[Sequence[int]], tuple[Link, ...]]]] = {
    "isolated": lambda nodes: both_directions(nodes[:1], nodes[1:]),
    "halves": lambda nodes: both_directions(nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]),
    "not heard": lambda nodes: tuple((nodes[0], other) for other in nodes[1:]),
    "deaf": lambda nodes: tuple((other, nodes[0]) for other in nodes[1:]),
    "bridge": _bridge,
    "ring of majorities": _ring,
    "all alone": all_links,
}
"""Links cut by each shape, for nodes in a drawn order."""
SHAPES_NODES_MIN: Final = dict.fromkeys(SHAPES, 2) | {"bridge": 3, "all alone": 3, "ring of majorities": 5}
"""Smallest number of nodes of each shape; with fewer it equals another shape, or cuts nothing."""

PACKET_CONDITIONS: Final[dict[str, NetworkConditions]] = {
    "delay": NetworkConditions(delay_ms=100, jitter_ms=50),
    "slow": NetworkConditions(delay_ms=300, jitter_ms=50),
    "loss": NetworkConditions(loss=0.05),
    "storm": NetworkConditions(delay_ms=40, jitter_ms=40, loss=0.2, duplicate=0.1, reorder=0.2),
    "dreadful": NetworkConditions(delay_ms=300, jitter_ms=50, loss=0.2),
    "narrow": NetworkConditions(rate_bytes_s=200_000),
}
"""Network conditions of a link that still delivers."""
