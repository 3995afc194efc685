"""Listers and committers: bounds of partitions, and committed offsets of groups.

A lister is one process for each node, because a process that queries one server must never receive a smaller end than
before. A linearizable list is checked against all processes. Over HTTP a commit without a generation only raises the
offsets of a group; over Kafka's protocol it can also lower them.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen.checkers.history import COMMIT, COMMITTED, LIST, OK, GroupOffsets, ListOffsets, OffsetRange, Op
from jepsen.workloads.adapters.port import LogAccess
from jepsen.workloads.client.recording import HistoryWriter
from raftlog.errors import RaftlogError
from raftlog.types import Offset, TopicPartition

TIMEOUT_MS: Final = 3000
GROUPS: Final = ("group-a", "group-b", "group-c")


async def list_offsets(
    access: LogAccess,
    history: HistoryWriter,
    process: int,
    node: int,
    place: TopicPartition,
    linearizable: bool,
    timeout_ms: int = TIMEOUT_MS,
) -> Op:
    """Request the log start and end of a partition; return the completion, from which `listed_range` gets the range."""
    invocation = history.invoke(process, LIST, ListOffsets((), linearizable), node=node)
    try:
        start, end = await access.offsets(node, place, linearizable, timeout_ms)
    except RaftlogError as error:
        return history.record_refusal(invocation, error, partition=str(place))
    return history.ok(invocation, ListOffsets((OffsetRange(place, Offset(start), Offset(end)),), linearizable))


def listed_range(listed: Op) -> OffsetRange | None:
    """Return the offset range in a completed list request; None when the request failed."""
    if listed.type != OK:
        return None
    assert isinstance(listed.payload, ListOffsets), listed
    return listed.payload.ranges[0]


def listed_end(listed: Op) -> int | None:
    """Return the end offset in a completed list request; None when the request failed."""
    found = listed_range(listed)
    return None if found is None else found.end


class Committer:
    """Role that commits positions of a group, and reads committed offsets, through any node."""

    def __init__(self, access: LogAccess, history: HistoryWriter, process: int, random: Random) -> None:
        self._access, self._history, self._process, self._random = access, history, process, random

    async def step(self, positions: dict[TopicPartition, int]) -> None:
        """Commit a random position of a random group, or read the group's committed offsets."""
        group = self._random.choice(GROUPS)
        if positions and self._random.random() < 0.5:
            place = self._random.choice(sorted(positions))
            await self._commit(group, [(place, positions[place])])
        else:
            await self.read(group, self._access.draw_node(self._random))

    async def _commit(self, group: str, offsets: Sequence[tuple[TopicPartition, int]]) -> None:
        """Commit offsets of a group through a random node, and record the outcome."""
        node = self._access.draw_node(self._random)
        rows = tuple((place, Offset(offset)) for place, offset in offsets)
        payload = GroupOffsets(group, rows, self._access.member_of_commits)
        invocation = self._history.invoke(self._process, COMMIT, payload, node=node)
        try:
            await self._access.commit(node, group, dict(offsets), TIMEOUT_MS)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
        else:
            self._history.ok(invocation)

    async def read(self, group: str, node: int) -> bool:
        """Read the committed offsets of the group and return whether this succeeded."""
        invocation = self._history.invoke(self._process, COMMITTED, GroupOffsets(group), node=node)
        try:
            found = await self._access.committed(node, group, TIMEOUT_MS)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error)
            return False
        self._history.ok(invocation, GroupOffsets(group, tuple(found.items())))
        return True
