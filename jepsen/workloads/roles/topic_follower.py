"""Clients of recreated topics: find them by name, read from the beginning, and send.

Each follower queries one node, because a node must never return a topic again that it has reported as deleted. A
producer uses the topic that its node reports for a name.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from jepsen.checkers.history import ASSIGN, POLL, TOPIC, Assign, Fetched, Poll, Send, Topic
from jepsen.workloads.client.access import Access, parse_fields
from jepsen.workloads.client.numbering import ProcessNumberPool
from jepsen.workloads.client.recording import HistoryWriter
from jepsen.workloads.client.values import make_payload
from jepsen.workloads.incarnations import incarnation_partition, shorten_id
from jepsen.workloads.roles.plain_producer import send_batch
from raftlog.errors import RaftlogError, UnknownTopic
from raftlog.records import build_batch
from raftlog.types import Offset, TopicPartition

TIMEOUT_MS: Final = 3_000
FIND_SHARE: Final = 0.2
"""Share of steps in which a follower queries the topic again, although it knows one."""
WAITS_MS: Final = (0, 0, 50, 200)
RECORDS_MAX: Final = 3
SIZES: Final = (10, 100, 1000)


class NamedTopic(NamedTuple):
    """Topic found by its name; `partitions` is 0 if none exists."""

    topic_id: str
    partitions: int


NO_TOPIC: Final = NamedTopic("", 0)


async def find_topic(access: Access, history: HistoryWriter, process: int, node: int, name: str) -> NamedTopic | None:
    """Return the topic with the name as reported by the node; None when it does not answer."""
    invocation = history.invoke(process, TOPIC, Topic("find", name), node=node)
    try:
        fields = parse_fields(
            await access.get(node, f"/v3/clusters/-/topics/{name}", TIMEOUT_MS, {"timeout": TIMEOUT_MS})
        )
    except UnknownTopic:
        history.ok(invocation, Topic("find", name))
        return NO_TOPIC
    except RaftlogError as error:
        history.record_refusal(invocation, error)
        return None
    found = NamedTopic(shorten_id(fields["topic_id"]), int(fields["partitions_count"]))
    history.ok(invocation, Topic("find", name, found.topic_id))
    return found


class Follower:
    """Role that reads topics at one node, in one process of the history.

    `known_topics` holds the node's latest answers."""

    def __init__(
        self, access: Access, history: HistoryWriter, process: int, node: int, names: Sequence[str], random: Random
    ) -> None:
        """Create a reader of the topics `names` through one node, with the operations of `process`."""
        self._access, self._history, self._process, self._node = access, history, process, node
        self._names, self._random = names, random
        self.known_topics: dict[str, NamedTopic] = {}
        self._positions: dict[TopicPartition, int] = {}

    async def step(self) -> None:
        """Request the description of a topic, or poll one of its partitions."""
        name = self._random.choice(self._names)
        known = self.known_topics.get(name, NO_TOPIC)
        if not known.partitions or self._random.random() < FIND_SHARE:
            await self._find(name)
        else:
            number = self._random.randrange(known.partitions)
            if not await self._poll(incarnation_partition(name, known.topic_id, number)):
                await self._find(name)

    async def _find(self, name: str) -> None:
        """Look the topic up by name; a new incarnation is read from the beginning."""
        found = await find_topic(self._access, self._history, self._process, self._node, name)
        if found is not None and found != self.known_topics.get(name, NO_TOPIC):
            self.known_topics[name] = found
            places = [incarnation_partition(name, found.topic_id, number) for number in range(found.partitions)]
            gone = {place for place in self._positions if place.topic.startswith(f"{name}@")}
            self._positions = {place: at for place, at in self._positions.items() if place not in gone}
            self._positions.update(dict.fromkeys(places, 0))
            positions = tuple((place, Offset(at)) for place, at in self._positions.items())
            self._history.ok(self._history.invoke(self._process, ASSIGN, Assign(positions)))

    async def _poll(self, place: TopicPartition) -> bool:
        """Poll the partition, and return whether the answer is from the intended incarnation of the topic."""
        position, wait_ms = self._positions[place], self._random.choice(WAITS_MS)
        invocation = self._history.invoke(self._process, POLL, Poll(), node=self._node)
        try:
            found = await self._access.fetch(self._node, place, position, wait_ms)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error, partition=str(place), offset=position)
            return False
        fetched = Fetched(found.place, tuple(found.offsets), tuple(found.values))
        self._history.ok(invocation, Poll((fetched,)), leader_epochs=found.epochs)
        self._history.polled += len(found.offsets)
        if found.place == place:
            self._positions[place] = found.next_offset
        return found.place == place


class TopicProducer:
    """Sender of batches to topics that may be deleted; one for each client."""

    def __init__(
        self,
        access: Access,
        history: HistoryWriter,
        followers: Mapping[int, Follower],
        values: Iterator[int],
        senders: Mapping[int, ProcessNumberPool],
        names: Sequence[str],
        random: Random,
    ) -> None:
        """Set up the producer.

        `followers`: the follower of each node. `senders`: for each node, the process numbers of the history for its
        requests, so that no process number sends to two nodes."""
        self._access, self._history, self._random = access, history, random
        self._followers, self._values, self._senders, self._names = followers, values, senders, names
        self.not_offered = 0

    async def send(self) -> None:
        """Send a batch to a random partition of a topic, as known by a random node."""
        node, name = self._random.choice(self._access.nodes), self._random.choice(self._names)
        with self._senders[node].take(1) as processes:
            if not processes:
                self.not_offered += 1
                return
            # Metadata of another node: it may be older or newer than this node's.
            follower = self._followers[self._random.choice(self._access.nodes)]
            known = follower.known_topics.get(name, NO_TOPIC)
            place = incarnation_partition(name, known.topic_id, self._random.randrange(max(1, known.partitions)))
            values = tuple(next(self._values) for _ in range(self._random.randint(1, RECORDS_MAX)))
            body = build_batch([make_payload(value, self._random.choice(SIZES)) for value in values])
            send = Send(place, values)
            await send_batch(self._access, self._history, processes[0], node, send, body, "all", TIMEOUT_MS)
