"""Even counts of preferred leaders: within each topic first, then in total as far as the topics stay even.

A leadership can move through other brokers: from the one that leads most to a second, which gives another one to a
third. Such a chain lowers the sum of the squares of the counts of its ends, and does not change those between; when
no chain is left, the counts are as even as the replicas' places allow. Fixed partitions stay unchanged. Moves no
data. Pure; a part of the plan."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from raftlog.partitions.placement.balancing.layout import PlacementLayout

_SLICE: Final = 32

_Hop = tuple[int, int]
"""Partition, and its new preferred leader."""


def even_leaders(layout: PlacementLayout, nodes: Collection[int]) -> Iterator[list[int]]:
    """Even out the numbers of preferred leaders in the layout, chain by chain; yield the partitions of each chain.

    An empty list only allows the caller to run other tasks. `nodes` may get leaderships."""
    able = frozenset(nodes)
    by_topic: defaultdict[int, list[int]] = defaultdict(list)
    for number, topic in enumerate(layout.topic_of):
        by_topic[topic].append(number)
        if number % _SLICE == _SLICE - 1:
            yield []
    for at, (topic, numbers) in enumerate(by_topic.items()):
        counts = layout.topic_led_counts[topic]
        if _are_uneven(counts, able):
            yield from _Chains(layout, able, counts, numbers, lambda number, source, target: True).run()
        if at % _SLICE == _SLICE - 1:
            yield []

    def is_neutral(number: int, source: int, target: int) -> bool:
        """Return whether a move of a leadership leaves the counts of its topic as even as they are."""
        in_topic = layout.topic_led_counts[layout.topic_of[number]]
        return in_topic[source] > in_topic[target]

    if _are_uneven(layout.led_counts, able):
        yield from _Chains(layout, able, layout.led_counts, range(len(layout.rows)), is_neutral).run()


def _are_uneven(counts: dict[int, int], nodes: Collection[int]) -> bool:
    """Return whether the counts of two nodes differ by two or more."""
    led = [counts[node] for node in nodes]
    return bool(led) and max(led) - min(led) >= 2


class _Chains:
    """Search for chains of leadership moves that even out the numbers of leaders; ends when there are none.

    `is_allowed` decides whether a partition may go from one broker to another."""

    def __init__(
        self,
        layout: PlacementLayout,
        nodes: Collection[int],
        counts: dict[int, int],
        numbers: Iterable[int],
        is_allowed: Callable[[int, int, int], bool],
    ) -> None:
        """Prepare the search.

        `counts` has the leaderships by node and is updated; `is_allowed` returns whether a partition may move from one
        node to another."""
        self._layout, self._nodes, self._counts = layout, nodes, counts
        self._numbers, self._is_allowed = numbers, is_allowed
        self._transferable: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        """Partitions that the source leads and the target has, by source and target."""

    def run(self) -> Iterator[list[int]]:
        """Apply transfers that even the leader counts; yield each chain, and empty lists to let other work run."""
        layout = self._layout
        for at, number in enumerate(self._numbers):
            row = layout.rows[number]
            if not layout.is_fixed[number] and row[0] in self._nodes:
                for target in row[1:]:
                    if target in self._nodes and self._is_allowed(number, row[0], target):
                        self._transferable[row[0]][target].append(number)
            if at % _SLICE == _SLICE - 1:
                yield []
        while chain := self._next_chain():
            for number, target in chain:
                layout.set_leader(number, target)
            yield [number for number, _ in chain]

    def _next_chain(self) -> list[_Hop]:
        """Return the shortest chain of leadership moves to a broker that leads at least two partitions fewer.

        Each move gives the next broker one partition, from which the next move starts. Chains that start at the broker
        with the most leaderships come first; those of brokers with fewer follow. Empty if no chain is left."""
        counts = self._counts
        lowest = min(counts[node] for node in self._nodes)
        levels = sorted({counts[node] for node in self._nodes}, reverse=True)
        for level in levels:
            if level - lowest < 2:
                return []
            ends = {node for node in self._nodes if counts[node] <= level - 2}
            chain = self._find_shortest([node for node in sorted(self._nodes) if counts[node] == level], ends)
            if chain:
                return chain
        return []

    def _find_shortest(self, origins: list[int], ends: Collection[int]) -> list[_Hop]:
        """Return the shortest chain from one of `origins` to one of `ends`, breadth first; empty if there is none."""
        reached: dict[int, list[_Hop]] = {origin: [] for origin in origins}
        queue = deque(origins)
        while queue:
            source = queue.popleft()
            for target in list(self._transferable[source]):
                if target in reached:
                    continue
                number = self._partition(source, target)
                if number is None:
                    continue
                reached[target] = [*reached[source], (number, target)]
                if target in ends:
                    return reached[target]
                queue.append(target)
        return []

    def _partition(self, source: int, target: int) -> int | None:
        """Return a partition that the source may pass to the target, or None; delete those that it may not."""
        numbers, layout = self._transferable[source][target], self._layout
        while numbers:
            number = numbers[-1]
            if not layout.is_fixed[number] and self._is_allowed(number, source, target):
                return number
            numbers.pop()
        del self._transferable[source][target]
        return None
