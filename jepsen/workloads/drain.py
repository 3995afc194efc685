"""End of a test, after all faults: every broker must serve, and every partition is read completely.

    names:   all nodes must agree which recreated topics exist; the existing ones are then read, too
    settle:  a record is written to each partition through each node, until all of them are acknowledged
    ends:    each node returns the linearizable end of each partition
    read:    each node returns the records of each partition, from the highest start to the highest end found before

A failure after the bound is an error of the log, because all faults have ended by then.
"""

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

from jepsen.checkers.history import OK, Send
from jepsen.workloads.client.access import Access
from jepsen.workloads.client.numbering import PER_CLIENT
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload, values_of
from jepsen.workloads.incarnations import incarnation_partition, without_topic_id
from jepsen.workloads.roles.group_member import GROUPS as MEMBERS_GROUPS
from jepsen.workloads.roles.handlers import GROUP as HANDLERS_GROUP
from jepsen.workloads.roles.offset_queries import GROUPS, Committer, list_offsets, listed_range
from jepsen.workloads.roles.plain_producer import send_batch
from jepsen.workloads.roles.reader import Reader
from jepsen.workloads.roles.topic_follower import NO_TOPIC, NamedTopic, find_topic
from raftlog.records import NewRecord, build_batch
from raftlog.types import TopicPartition

_TIMEOUT_MS: Final = 2000
_AGAIN_S: Final = 0.05
_AT_ONCE: Final = 16
"""Number of concurrent requests."""


class Drained(NamedTuple):
    """Result of the final reads.

    `unsettled` and `unread` name partitions that accepted no write, or were not read, within the bound. Their entries
    have the form `node N topic/partition`."""

    settled_s: float
    """Time from the beginning of the drain until every broker had accepted a write to every partition."""
    read_s: float
    unsettled: tuple[str, ...]
    unread: tuple[str, ...]
    unanswered: tuple[str, ...]
    """Requests that nodes did not answer within the bound."""
    disputed: tuple[str, ...]
    """Names of topics on which the nodes still disagreed at the end, with the answers of the nodes."""
    deleted: tuple[str, ...]
    """Topics that are deleted, as reported by all nodes."""
    ends: dict[TopicPartition, int]
    """Highest end offset that any broker returned."""


class Drain:
    """Final reads of a test; created inside a running event loop.

    `client` is a client number of its own, from which its values and process numbers follow."""

    def __init__(
        self,
        access: Access,
        history: HistoryWriter,
        partitions: Sequence[TopicPartition],
        client: int,
        bound_s: float,
        *,
        is_keyed: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        """Create a drain; `names` are topics that may exist."""
        self._access, self._history, self._partitions, self._names = access, history, list(partitions), names
        self._deleted: list[str] = []
        self._values: Iterator[int] = iter(values_of(client))
        self._processes = iter(range(client * PER_CLIENT, (client + 1) * PER_CLIENT))
        self._bound_s = bound_s
        self._is_keyed = is_keyed
        self._random = Random(client)  # noqa: S311 - repeatable, not secret
        self._until_s = 0.0
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._written: dict[TopicPartition, int] = {}
        """Offset of the drain's last record by partition. An end below it shows that a transaction is still open."""
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> Drained:
        """Write to every partition, list the ends, and read everything through every node."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._until_s = began + self._bound_s
        disputed = await self._find_topics()
        places = [(node, place) for node in self._access.nodes for place in self._partitions]
        settled = await asyncio.gather(*(self._write_until_accepted(node, place) for node, place in places))
        settled_s = loop.time() - began
        self._until_s = loop.time() + self._bound_s
        answer = await asyncio.gather(*(self._find_end(node, place) for node, place in places))
        self._until_s = loop.time() + self._bound_s  # a node that names no end does not keep the others from being read
        read = await asyncio.gather(*(self._read(node, place) for node, place in places))
        without = await self._read_groups()
        return Drained(
            settled_s=settled_s,
            read_s=loop.time() - began - settled_s,
            unsettled=_name_failures(places, settled),
            unread=_name_failures(places, read),
            unanswered=(*(f"{name}, where it ends" for name in _name_failures(places, answer)), *without),
            disputed=tuple(disputed),
            deleted=tuple(self._deleted),
            ends={without_topic_id(place): end for place, end in self._ends.items()},
        )

    async def _find_topics(self) -> list[str]:
        """Find the existing topics; omit topics on which the nodes disagree, and return descriptions of them."""
        finders = {node: next(self._processes) for node in self._access.nodes}
        disputed = []
        for name in self._names:
            answers: dict[int, NamedTopic | None] = {}
            while len(set(answers.values())) != 1 or None in answers.values():
                if self._is_late():
                    disputed.append(f"{name}: {answers}")
                    break
                for node, process in finders.items():
                    answers[node] = await find_topic(self._access, self._history, process, node, name)
            else:
                (found,) = set(answers.values())
                assert found is not None, answers
                if found == NO_TOPIC:
                    self._deleted.append(name)
                self._partitions += [
                    incarnation_partition(name, found.topic_id, number) for number in range(found.partitions)
                ]
        return disputed

    async def _write_until_accepted(self, node: int, place: TopicPartition) -> bool:
        """Write records through the node until one is accepted; return whether this succeeded in time."""
        process = next(self._processes)
        while not self._is_late():
            value = next(self._values)
            keys = (f"drain-{node}",) if self._is_keyed else ()
            body = build_batch([NewRecord(make_payload(value, 1), key.encode() or None) for key in keys or ("",)])
            send = Send(place, (value,), keys=keys)
            async with self._gate:
                sent = await send_batch(self._access, self._history, process, node, send, body, "all", _TIMEOUT_MS)
            if sent.type == OK:
                assert isinstance(sent.payload, Send), sent
                self._written[place] = max(self._written.get(place, -1), *sent.payload.offsets)
                return True
            await asyncio.sleep(_AGAIN_S)
        return False

    async def _find_end(self, node: int, place: TopicPartition) -> bool:
        """Record linearizable end offsets from the node until no transaction is open; return whether this succeeded."""
        process = next(self._processes)
        while not self._is_late():
            async with self._gate:
                listed = await list_offsets(
                    self._access, self._history, process, node, place, linearizable=True, timeout_ms=_TIMEOUT_MS
                )
            found = listed_range(listed)
            if found is not None and found.end > self._written.get(place, -1):
                self._starts[place] = max(self._starts.get(place, 0), found.start)
                self._ends[place] = max(self._ends.get(place, 0), found.end)
                return True
            await asyncio.sleep(_AGAIN_S)
        return False

    async def _read(self, node: int, place: TopicPartition) -> bool:
        """Read the partition through the node up to its end; return whether this succeeded in time."""
        begin = {place: self._starts.get(place, 0)}
        reader = Reader(self._access, self._history, next(self._processes), begin, self._random)
        while reader.positions[place] < self._ends.get(place, 0):
            if self._is_late():
                return False
            async with self._gate:
                brought = await reader.poll(node, place, 0)
            if not brought:
                await asyncio.sleep(_AGAIN_S)
        return True

    async def _read_groups(self) -> list[str]:
        """Read the committed offsets of all groups through all nodes; return descriptions of unanswered requests."""
        self._until_s = asyncio.get_running_loop().time() + self._bound_s  # as for ends
        committer = Committer(self._access, self._history, next(self._processes), self._random)
        return [
            f"node {node} group {group}"
            for group in (*GROUPS, *MEMBERS_GROUPS, HANDLERS_GROUP)
            for node in self._access.nodes
            if not await self._read_until_answered(committer, group, node)
        ]

    async def _read_until_answered(self, committer: Committer, group: str, node: int) -> bool:
        """Read the group's committed offsets through the node until it answers; return whether it did in time."""
        while not self._is_late():
            if await committer.read(group, node):
                return True
            await asyncio.sleep(_AGAIN_S)
        return False

    def _is_late(self) -> bool:
        """Return whether the time limit of the current phase has passed."""
        return asyncio.get_running_loop().time() >= self._until_s


def _name_failures(places: Sequence[tuple[int, TopicPartition]], worked: Sequence[bool]) -> tuple[str, ...]:
    """Return the names of the nodes and partitions for which `worked` is false."""
    return tuple(f"node {node} {place}" for (node, place), is_done in zip(places, worked, strict=True) if not is_done)
