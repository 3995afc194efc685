"""Directed graph of events, and its cycles: one for each strongly connected component. Pure.

An edge says that one event happened before another. Edges are of three kinds: `order` (program order and real time),
`write` (two records of one partition) and `read` (a commit, and a read that shows it)."""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Final, Literal, NamedTuple

EdgeKind = Literal["order", "write", "read"]
_WITHOUT_READS: Final = frozenset[EdgeKind](("order", "write"))
_ALL: Final = frozenset[EdgeKind](("order", "write", "read"))


class Edge(NamedTuple):
    """Edge from one node to another."""

    source: int
    target: int
    kind: EdgeKind


class EventGraph:
    """Graph whose nodes are numbers from 0 on."""

    def __init__(self) -> None:
        self._edges: list[list[Edge]] = []

    def add_node(self) -> int:
        """Add a node and return its number."""
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, source: int, target: int, kind: EdgeKind) -> None:
        """Add an edge: the event `source` happened before the event `target`."""
        self._edges[source].append(Edge(source, target, kind))

    def write_cycles(self) -> Iterator[list[Edge]]:
        """Yield one cycle without read edges for each strongly connected component that has one."""
        yield from self._cycles(_WITHOUT_READS, "write")

    def read_cycles(self) -> Iterator[list[Edge]]:
        """Yield cycles with at least one read."""
        yield from self._cycles(_ALL, "read")

    def _cycles(self, kinds: Collection[EdgeKind], through: EdgeKind) -> Iterator[list[Edge]]:
        """Yield a cycle for each strongly connected component of the graph that has only edges of `kinds`.

        It is a shortest cycle through the component's first edge of the kind `through`."""
        for component in self._components(kinds):
            nodes = set(component)
            inner = (edge for node in component for edge in self._edges[node] if edge.target in nodes)
            first = next((edge for edge in inner if edge.kind == through), None)
            if first is not None:
                yield [first, *self._path(first.target, first.source, nodes, kinds)]

    def _path(self, source: int, target: int, nodes: set[int], kinds: Collection[EdgeKind]) -> list[Edge]:
        """Return the edges of a shortest path inside of a component."""
        reached: dict[int, Edge | None] = {source: None}
        waiting = deque((source,))
        while target not in reached:
            for edge in self._edges[waiting.popleft()]:
                if edge.kind in kinds and edge.target in nodes and edge.target not in reached:
                    reached[edge.target] = edge
                    waiting.append(edge.target)
        path: list[Edge] = []
        while (edge_to := reached[target]) is not None:
            path.append(edge_to)
            target = edge_to.source
        return path[::-1]

    def _components(self, kinds: Collection[EdgeKind]) -> Iterator[list[int]]:
        """Yield the strongly connected components with a cycle (Tarjan 1972, without recursion)."""
        number: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        for root in range(len(self._edges)):
            if root in number:
                continue
            number[root] = low[root] = len(number)
            stack.append(root)
            on_stack.add(root)
            visits = [(root, self._targets(root, kinds))]
            while visits:
                node, targets = visits[-1]
                target = next(targets, None)
                if target is None:
                    visits.pop()
                    if visits:
                        parent = visits[-1][0]
                        low[parent] = min(low[parent], low[node])
                    if low[node] == number[node]:
                        at = stack.index(node) if stack[-1] != node else len(stack) - 1
                        component, stack[at:] = stack[at:], []
                        on_stack.difference_update(component)
                        if len(component) > 1 or any(target == node for target in self._targets(node, kinds)):
                            yield component
                elif target not in number:
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    on_stack.add(target)
                    visits.append((target, self._targets(target, kinds)))
                elif target in on_stack:
                    low[node] = min(low[node], number[target])

    def _targets(self, node: int, kinds: Collection[EdgeKind]) -> Iterator[int]:
        """Yield the nodes to which edges of the given kinds lead from `node`."""
        return (edge.target for edge in self._edges[node] if edge.kind in kinds)
