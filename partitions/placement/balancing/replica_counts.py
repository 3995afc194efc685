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


class ReplicaMoves:
    """Moves of replicas that even the counts.

    `nodes` can be given replicas; `only_new`: those of a topic only go to brokers that its creation did not name."""

    def __init__(self, layout: PlacementLayout, nodes: Sequence[int], *, only_new: bool) -> None:
        self._layout, self._nodes, self._only_new = layout, nodes, only_new
        self._heaps: dict[tuple[int, int], list[_Entry]] = {}
        """Topics by the difference of counts, with the giver's partitions still to examine; by giver and taker."""

    def moves(self) -> Iterator[tuple[int, ...]]:
        """Change the layout move by move; yield the partitions moved together, sometimes an empty tuple."""
        while (pair := self._uneven_pair()) is not None:
            giver, taker, number = pair
            self._layout.replace(number, giver, taker)
            yield (number,)
        for topic in range(len(self._layout.topics)):
            while (moved := self._even_topic(topic)) is not None:
                yield moved
            if topic % _SLICE == _SLICE - 1:
                yield ()

    def _uneven_pair(self) -> tuple[int, int, int] | None:
        """Return giver, taker and partition of a move between two uneven brokers; None without one."""
        counts = self._layout.counts
        ordered = sorted(self._nodes, key=lambda node: counts[node])
        for giver in reversed(ordered):
            for taker in ordered:
                if counts[giver] - counts[taker] < 2:
                    break
                number = self._best_partition(giver, taker)
                if number is not None:
                    return giver, taker, number
        return None

    def _best_partition(self, giver: int, taker: int) -> int | None:
        """Return a movable partition of the topic that the move evens most; None if none can move."""
        heap = self._heaps.get((giver, taker))
        if heap is None:
            topics = self._layout.on[giver]
            heap = [
                (self._count_difference(topic, giver, taker), topic, self._partitions_on(giver, topic))
                for topic in topics
            ]
            heapify(heap)
            self._heaps[giver, taker] = heap
        while heap:
            difference, topic, numbers = heap[0]
            now = self._count_difference(topic, giver, taker)
            if now != difference:
                heappop(heap)
                heappush(heap, (now, topic, numbers))
                continue
            number = next((each for each in numbers if self._can_move(each, giver, taker)), None)
            if number is not None:
                return number
            heappop(heap)
        return None

    def _partitions_on(self, node: int, topic: int) -> Iterator[int]:
        """Yield the partitions of a topic on a broker; those that it leads come last.

        Their leadership would move as well. They are sorted when the first is used: of most topics none ever is."""
        rows = self._layout.rows
        yield from sorted(self._layout.on[node][topic], key=lambda number: rows[number][0] == node)

    def _count_difference(self, topic: int, giver: int, taker: int) -> int:
        """Return the taker's replica count of the topic minus the giver's; negative if a move evens the topic."""
        counts = self._layout.topic_counts[topic]
        return counts[taker] - counts[giver]

    def _can_move(self, number: int, giver: int, taker: int) -> bool:
        """Return whether a replica can move without sharing a host with another one of its partition."""
        layout = self._layout
        row = layout.rows[number]
        if layout.is_fixed[number] or giver not in row or taker in row:
            return False
        if self._only_new and taker in layout.known[layout.topic_of[number]]:
            return False
        return layout.places[taker].host not in layout.hosts_beside(number, giver)

    # a topic

    def _even_topic(self, topic: int) -> tuple[int, ...] | None:
        """Move a partition of the topic, and one of another topic back if needed; None if the topic is even."""
        in_topic, counts = self._layout.topic_counts[topic], self._layout.counts
        nodes = self._nodes
        if not nodes or max(in_topic[node] for node in nodes) - min(in_topic[node] for node in nodes) < 2:
            return None
        ordered = sorted(nodes, key=lambda node: in_topic[node])
        for giver in reversed(ordered):
            for taker in ordered:
                if in_topic[giver] - in_topic[taker] < 2:
                    break
                number = self._pick_partition(topic, giver, taker)
                if number is None:
                    continue
                if counts[giver] > counts[taker]:
                    self._layout.replace(number, giver, taker)
                    return (number,)
                back = self._best_partition(taker, giver)
                if back is not None and self._count_difference(self._layout.topic_of[back], taker, giver) < 0:
                    self._layout.replace(number, giver, taker)
                    self._layout.replace(back, taker, giver)
                    return (number, back)
        return None

    def _pick_partition(self, topic: int, giver: int, taker: int) -> int | None:
        """Return a partition of a topic that can move from `giver` to `taker`; None if there is none."""
        numbers = self._partitions_on(giver, topic)
        return next((number for number in numbers if self._can_move(number, giver, taker)), None)
