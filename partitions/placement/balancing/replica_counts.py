"""Even counts of replicas on the brokers that can take some: in total, and of each topic.

    squares = (Σ counts[n]²,  Σ Σ topic_counts[t][n]²),  compared in this order, is less after every yield

A move goes from a broker to one that has at least two replicas fewer, with a partition of that topic in which the
two differ most; where all have equally many, two moves in opposite directions make a topic even. With one broker on
each host such a move can be found whenever two brokers differ by two, so in the end they differ by one at most.
Pure; a part of the plan."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final

from raftlog.partitions.placement.balancing.layout import PlacementLayout

_SLICE: Final = 32
"""Partitions or topics examined in one step."""

_Entry = tuple[int, int, Iterator[int]]
"""Difference of counts in a topic, the topic's number, and its partitions still to examine."""


class ReplicaMoves:
    """Moves of replicas that even out the numbers of replicas on brokers.

    `nodes` may get replicas; `only_new`: those of a topic only go to brokers that its creation did not name."""

    def __init__(self, layout: PlacementLayout, nodes: Sequence[int], *, only_new: bool) -> None:
        self._layout, self._nodes, self._only_new = layout, nodes, only_new
        self._heaps: dict[tuple[int, int], list[_Entry]] = {}
        """Topics by the difference of counts, with the source's partitions still to examine; by source and target."""

    def moves(self) -> Iterator[tuple[int, ...]]:
        """Change the layout move by move; yield the partitions moved together, sometimes an empty tuple."""
        while (pair := self._uneven_pair()) is not None:
            source, target, number = pair
            self._layout.replace(number, source, target)
            yield (number,)
        for topic in range(len(self._layout.topics)):
            while (moved := self._balance_topic(topic)) is not None:
                yield moved
            if topic % _SLICE == _SLICE - 1:
                yield ()

    def _uneven_pair(self) -> tuple[int, int, int] | None:
        """Return source, target and partition of a move between two uneven brokers; None without one."""
        counts = self._layout.counts
        ordered = sorted(self._nodes, key=lambda node: counts[node])
        for source in reversed(ordered):
            for target in ordered:
                if counts[source] - counts[target] < 2:
                    break
                number = self._best_partition(source, target)
                if number is not None:
                    return source, target, number
        return None

    def _best_partition(self, source: int, target: int) -> int | None:
        """Return a movable partition of the topic whose move balances the topic most; None if none can move."""
        heap = self._heaps.get((source, target))
        if heap is None:
            topics = self._layout.on[source]
            heap = [
                (self._count_difference(topic, source, target), topic, self._partitions_on(source, topic))
                for topic in topics
            ]
            heapify(heap)
            self._heaps[source, target] = heap
        while heap:
            difference, topic, numbers = heap[0]
            now = self._count_difference(topic, source, target)
            if now != difference:
                heappop(heap)
                heappush(heap, (now, topic, numbers))
                continue
            number = next((each for each in numbers if self._can_move(each, source, target)), None)
            if number is not None:
                return number
            heappop(heap)
        return None

    def _partitions_on(self, node: int, topic: int) -> Iterator[int]:
        """Yield the partitions of a topic on a broker; those that it leads come last.

        Their leadership would move as well. They are sorted when the first is used: of most topics none ever is."""
        rows = self._layout.rows
        yield from sorted(self._layout.on[node][topic], key=lambda number: rows[number][0] == node)

    def _count_difference(self, topic: int, source: int, target: int) -> int:
        """Return the target's replica count of the topic minus the source's; negative if a move balances it."""
        counts = self._layout.topic_counts[topic]
        return counts[target] - counts[source]

    def _can_move(self, number: int, source: int, target: int) -> bool:
        """Return whether a replica can move without sharing a host with another one of its partition."""
        layout = self._layout
        row = layout.rows[number]
        if layout.is_fixed[number] or source not in row or target in row:
            return False
        if self._only_new and target in layout.known[layout.topic_of[number]]:
            return False
        return layout.places[target].host not in layout.hosts_beside(number, source)

    # a topic

    def _balance_topic(self, topic: int) -> tuple[int, ...] | None:
        """Make one move that evens out the topic's replicas, and move a partition of another topic back if needed.

        Return the moved partitions; None if the topic is balanced or no such move exists."""
        in_topic, counts = self._layout.topic_counts[topic], self._layout.counts
        nodes = self._nodes
        if not nodes or max(in_topic[node] for node in nodes) - min(in_topic[node] for node in nodes) < 2:
            return None
        ordered = sorted(nodes, key=lambda node: in_topic[node])
        for source in reversed(ordered):
            for target in ordered:
                if in_topic[source] - in_topic[target] < 2:
                    break
                number = self._pick_partition(topic, source, target)
                if number is None:
                    continue
                if counts[source] > counts[target]:
                    self._layout.replace(number, source, target)
                    return (number,)
                back = self._best_partition(target, source)
                if back is not None and self._count_difference(self._layout.topic_of[back], target, source) < 0:
                    self._layout.replace(number, source, target)
                    self._layout.replace(back, target, source)
                    return (number, back)
        return None

    def _pick_partition(self, topic: int, source: int, target: int) -> int | None:
        """Return a partition of a topic that can move from `source` to `target`; None if there is none."""
        numbers = self._partitions_on(source, topic)
        return next((number for number in numbers if self._can_move(number, source, target)), None)
