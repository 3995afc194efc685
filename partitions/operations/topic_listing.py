"""Lists of topics and partitions for operators, with work that depends on the page and not on the cluster.

    outlines     one row for each topic, from the copy of the controller's state; no request to another broker
    sums         reports of the leaders for some topics, with at most `SUMMED_MAX` partitions together
    partitions   reports of the leaders for some partitions of one topic

Called by listeners, as `operations.topics`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import PartitionState, TopicState
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.partitions.transactions.service import TRANSACTIONS_TOPIC
from raftlog.topic_config import DELETE

SUMMED_MAX: Final = 5_000
"""Maximum number of partitions whose leaders one call of `sums` asks."""


class TopicOutline(NamedTuple):
    """Row of a topic, from the controller's state alone.

    `has_dense_offsets`: every offset has a record, because neither compaction nor transactions leave others."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    is_internal: bool
    created_ms: int
    has_dense_offsets: bool


class TopicSums(NamedTuple):
    """Sums over the partitions of a topic, as their leaders report them.

    `records` and `bytes` are None unless all leaders answer. `problem`: the first one of a partition."""

    records: int | None
    bytes: int | None
    leaderless: int
    under_replicated: int
    problem: str | None


class LeaderReports(Protocol):
    """Interface for the states of partitions as their leaders report them; `ClusterObserver` implements it."""

    async def describe(self, topics: Sequence[Topic], deadline: Deadline) -> list[TopicState]:
        """Return the states of these topics, from the leaders of their partitions."""

    async def describe_partitions(
        self, topic: Topic, partitions: Sequence[Partition], deadline: Deadline
    ) -> list[PartitionState]:
        """Return the state of these partitions of a topic, from their leaders where these answer in time."""


class TopicListing:
    """Lists of topics and partitions, from this process."""

    def __init__(self, topics: Topics, finder: Finder, reports: LeaderReports, check_ready: Callable[[], None]) -> None:
        self._topics, self._finder, self._reports, self._check_ready = topics, finder, reports, check_ready

    def outlines(self) -> Iterator[TopicOutline]:
        """Iterate over all topics, internal ones included, in no order; changes meanwhile do not matter."""
        self._check_ready()
        return map(self._outline, self._topics)

    async def outline(self, name: str, *, deadline: Deadline) -> TopicOutline:
        """Return the row of one topic. Raises `UnknownTopic`."""
        self._check_ready()
        return self._outline(await self._finder.topic(name, deadline))

    def _outline(self, topic: Topic) -> TopicOutline:
        """Return the outline of a topic. Offsets are dense if it is not compacted and no transactions exist."""
        creation = topic.row.creation
        return TopicOutline(
            topic.name,
            str(topic.row.topic_id),
            len(topic.partitions),
            creation.replication_factor,
            creation.is_internal,
            creation.created_ms,
            topic.config.cleanup_policy == DELETE and TRANSACTIONS_TOPIC not in self._topics,
        )

    async def sums(self, names: Iterable[str], *, deadline: Deadline) -> dict[str, TopicSums]:
        """Return sums by topic; without topics that do not exist, and those beyond `SUMMED_MAX` partitions together.

        Each broker gets one request."""
        self._check_ready()
        chosen: list[Topic] = []
        room = SUMMED_MAX
        for topic in filter(None, map(self._topics.get, names)):
            if len(topic.partitions) <= room:
                chosen.append(topic)
                room -= len(topic.partitions)
        return {
            state.name: sum_partitions(state.partitions) for state in await self._reports.describe(chosen, deadline)
        }

    async def partitions(self, name: str, first: int, count: int, *, deadline: Deadline) -> list[PartitionState]:
        """Return the partitions of a topic from number `first` on, at most `count`. Raises `UnknownTopic`."""
        self._check_ready()
        topic = await self._finder.topic(name, deadline)
        return await self._reports.describe_partitions(topic, topic.partitions[first : first + count], deadline)


def sum_partitions(partitions: Sequence[PartitionState]) -> TopicSums:
    """Return the sums over all partitions of a topic."""
    records: int | None = 0
    size: int | None = 0
    for each in partitions:
        count = count_offsets(each)
        records = None if records is None or count is None else records + count
        size = None if size is None or each.size_bytes is None else size + each.size_bytes
    led = [each for each in partitions if each.leader is not None]
    return TopicSums(
        records,
        size,
        len(partitions) - len(led),
        sum(len(each.in_sync) < len(each.replicas) for each in led),
        next((f"partition {each.partition}: {each.problem}" for each in partitions if each.problem is not None), None),
    )


def count_offsets(state: PartitionState) -> int | None:
    """Return the number of offsets that the log holds; None without an answer of its leader."""
    if state.high_watermark is None or state.log_start_offset is None:
        return None
    return state.high_watermark - state.log_start_offset
