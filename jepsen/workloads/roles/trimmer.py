"""Operator that deletes the oldest records of partitions, through any node.

It requests log start and end of a partition first, so no request can be out of range. A successful trim holds for every
later request for the log start (`trim-undone`)."""

from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen.checkers.history import TRIM, Trim
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.roles.offset_queries import list_offsets, listed_range
from raftlog.errors import RaftlogError
from raftlog.types import Offset, TopicPartition

TIMEOUTS_MS: Final = (300, 1000, 3000)
KEPT_MAX: Final = 1000
"""Largest number of records that a deletion leaves, usually half of it; of fewer records one is deleted."""
ALL_SHARE: Final = 0.05
"""Share of deletions up to the end."""


class Trimmer:
    """Role that deletes records below an offset, in one process of the history."""

    def __init__(
        self, access: Access, history: HistoryWriter, process: int, partitions: Sequence[TopicPartition], random: Random
    ) -> None:
        self._access, self._history, self._process, self._random = access, history, process, random
        self._partitions = partitions

    async def step(self) -> None:
        """Trim a random partition to its newest records, sometimes to none; nothing if it is empty."""
        place, node = self._random.choice(self._partitions), self._access.draw_node(self._random)
        listed = await list_offsets(self._access, self._history, self._process, node, place, linearizable=True)
        found = listed_range(listed)
        if found is None or found.start == found.end:
            return
        kept = 0 if self._random.random() < ALL_SHARE else self._random.randint(0, KEPT_MAX)
        await self._trim(self._access.draw_node(self._random), place, max(found.start + 1, found.end - kept))

    async def _trim(self, node: int, place: TopicPartition, before: int) -> None:
        """Delete the records below offset `before`, and record the outcome."""
        invocation = self._history.invoke(self._process, TRIM, Trim(place, Offset(before)), node=node)
        try:
            start = await self._access.trim(node, place, before, self._random.choice(TIMEOUTS_MS))
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
        else:
            self._history.ok(invocation, Trim(place, Offset(start)))
