"""What is there to be read, asked of the brokers, and which part of it options mean.

    start ≤ end of every partition;   start ≥ log start, or what lies between is lost

Ends of batches are linearizable: nothing that was acknowledged before the question is missing, and none is ever lower
than one that was told before. Asking is asynchronous and below `BrokerConnection.ask`. Called by the readers and, for
archives, by jobs.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from raftlog.client import BrokerClient, ClusterView, TopicView
from raftlog.errors import InvalidArgument, UnknownTopic
from raftlog.pipeline.brokers.connection import BrokerConnection, patiently
from raftlog.pipeline.brokers.losses import report_loss
from raftlog.pipeline.brokers.settings import REQUEST_MS_DEFAULT, ReadSettings
from raftlog.pipeline.brokers.split import BrokerSplit
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.positions import OffsetPositions, PositionKind
from raftlog.types import TopicPartition

ASKED_AT_ONCE: Final = 64
"""Questions about partitions."""
FIRST_ANSWER_S: Final = 15.0
"""Any broker can say what there is; when none does for so long, the address is wrong."""
LOOKS_MAX: Final = 8
LOOK_PAUSE_S: Final = 0.25
"""The cluster's picture is a second old at most, so a topic that was made just now is in one of these."""


T = TypeVar("T")


class PartitionLog(NamedTuple):
    """A partition as it was when it was asked: offsets with `start ≤ offset < end` can be read. `leader` is
    HOST:PORT."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    leader: str | None

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class ClusterLayout(NamedTuple):
    """`logs` by topic and number; `addresses` are those that were given and those of all brokers, HOST:PORT."""

    logs: list[PartitionLog]
    addresses: tuple[str, ...]


class EarlierOffsets(NamedTuple):
    """Topics' ids by name and ends of partitions, as they were before."""

    ids: Mapping[str, str]
    offsets: Mapping[TopicPartition, int]


def topics_there(
    bootstrap: Sequence[str], choice: TopicChoice, *, request_timeout_ms: int = REQUEST_MS_DEFAULT
) -> ClusterLayout:
    """All partitions of the topics chosen. Raises `UnknownTopic`, `InvalidArgument`, and `Unavailable` when the brokers
    do not answer in time."""
    with BrokerConnection(bootstrap) as brokers:
        return brokers.ask(lambda client: layout(client, bootstrap, choice, request_timeout_ms / 1000))


async def layout(
    client: BrokerClient,
    bootstrap: Sequence[str],
    choice: TopicChoice,
    patience_s: float,
    *,
    seen: EarlierOffsets | None = None,
    linearizable: bool = True,
) -> ClusterLayout:
    """The same of a client at hand. With what was `seen` before, topics that are named and not there are left out, and
    ends that are not asked for as `linearizable` are so all the same when they would be below that."""
    view, topics = await _chosen(client, choice, patience_s, seen)

    async def one(topic: TopicView, number: int) -> PartitionLog | None:
        place, leader = TopicPartition(topic.name, number), topic.leaders[number]
        address = None if leader is None else view.http.get(leader)
        if address is not None:
            client.learn_leader(place, address)
        try:
            start, end = await patiently(lambda: client.offsets(*place, linearizable=linearizable), patience_s)
            if seen is not None and end < seen.offsets.get(place, 0):
                start, end = await patiently(lambda: client.offsets(*place, linearizable=True), patience_s)
        except UnknownTopic:  # it went after the picture was made
            if topic.name in (choice.names or ()) and seen is None:
                raise
            return None
        return PartitionLog(topic.name, topic.topic_id, number, start, end, address)

    logs = await _at_once(one, [(topic, number) for topic in topics for number in range(len(topic.leaders))])
    return ClusterLayout(
        [log for log in logs if log is not None], tuple(dict.fromkeys((*bootstrap, *view.http.values())))
    )


async def _at_once(ask: Callable[..., Awaitable[T]], places: Sequence[tuple[Any, ...]]) -> list[T]:
    """Ask about all of them, so many together; the answers in their order."""
    slots = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(place: tuple[Any, ...]) -> T:
        async with slots:
            return await ask(*place)

    return await asyncio.gather(*map(one, places))


async def planned(client: BrokerClient, settings: ReadSettings, there: ClusterLayout) -> list[BrokerSplit]:
    """A split for each partition, the empty ones too. Raises `InvalidArgument` and `DataLost`."""
    _check_named(settings, there.logs)
    bounded = await _at_once(_bounded, [(client, settings, log) for log in there.logs])
    return [split_of(settings, there.addresses, log) for log in bounded]


async def starting_offsets(
    client: BrokerClient, settings: ReadSettings, logs: Sequence[PartitionLog]
) -> dict[TopicPartition, int]:
    """Where options say that reading begins; raises `InvalidArgument` and `DataLost`."""
    _check_named(settings, logs)
    starts = await _at_once(_starting_offset, [(client, settings, log) for log in logs])
    return {log.place: start for log, start in zip(logs, starts, strict=True)}


def _check_named(settings: ReadSettings, logs: Sequence[PartitionLog]) -> None:
    """Partitions that options name are there; raises `InvalidArgument`."""
    counts = Counter(log.topic for log in logs)
    settings.starting.check(counts)
    settings.ending.check(counts)


async def _starting_offset(client: BrokerClient, settings: ReadSettings, log: PartitionLog) -> int:
    offset = await _resolved(client, settings, settings.starting, log)
    if offset < log.start:
        lost = f"{log.place}: records from offset {offset} to {log.start} (exclusive) were deleted"
        report_loss(f"{lost}, and {settings.starting.option} asks for them", settings.fail_on_data_loss)
    return max(offset, log.start)


async def _bounded(client: BrokerClient, settings: ReadSettings, log: PartitionLog) -> PartitionLog:
    """What of a partition options ask for."""
    start = await _starting_offset(client, settings, log)
    end = await _resolved(client, settings, settings.ending, log)
    if end < log.start:
        lost = f"{log.place}: all records below offset {log.start} were deleted"
        report_loss(f"{lost}, and {settings.ending.option} ends at {end}", settings.fail_on_data_loss)
        end = start
    if start > end:
        raise InvalidArgument(
            f"{log.place}: reading would begin at offset {start} ({settings.starting.option}), behind its end at {end} "
            f"({settings.ending.option})"
        )
    return log._replace(start=start, end=end)


async def _resolved(client: BrokerClient, settings: ReadSettings, positions: OffsetPositions, log: PartitionLog) -> int:
    position = positions.at(*log.place)
    if position.kind is PositionKind.EARLIEST:
        return log.start
    if position.kind is PositionKind.LATEST:
        return log.end
    if position.kind is PositionKind.TIMESTAMP:
        found = await patiently(lambda: client.offset_for_timestamp(*log.place, position.value), settings.patience_s)
        return log.end if found is None else min(max(found[0], log.start), log.end)
    if position.value > log.end:
        raise InvalidArgument(
            f"{positions.option} has offset {position.value} of {log.place}, which ends at {log.end}: was it that of "
            "another cluster, or is the topic another one by now?"
        )
    return position.value


def split_of(settings: ReadSettings, addresses: tuple[str, ...], log: PartitionLog) -> BrokerSplit:
    """With what the settings say of reading."""
    return BrokerSplit(
        addresses,
        *log,
        settings.fail_on_data_loss,
        settings.fetch_max_bytes,
        settings.request_timeout_ms,
        settings.skips_undecodable,
    )


async def _chosen(
    client: BrokerClient, choice: TopicChoice, patience_s: float, seen: EarlierOffsets | None
) -> tuple[ClusterView, list[TopicView]]:
    """One broker's picture may be behind: what it lacks, and ids that changed, are believed when a broker that asked
    the controller says so, or pictures of the next seconds."""
    needed = choice.names or () if seen is None else ()
    look_s = patience_s if seen else min(patience_s, FIRST_ANSWER_S)
    names = choice.chosen(await patiently(client.topics, look_s)) if choice.names is None else choice.names
    expected = dict.fromkeys(names, "") | (dict(seen.ids) if seen else {})
    gone: set[str] = set()
    for _ in range(LOOKS_MAX):
        view = await patiently(client.cluster_view, look_s)
        for name in sorted(expected.keys() - view.topics.keys() - gone):
            if not await _is_there(client, name, patience_s, is_needed=name in needed):
                gone.add(name)
        if all(name in gone or _is_seen(view, name, topic_id) for name, topic_id in expected.items()):
            break
        await asyncio.sleep(LOOK_PAUSE_S)
    for name in sorted(set(choice.names or ()) - view.topics.keys() - gone):
        raise InvalidArgument(f"the topic {name} is internal: only brokers read it")
    return view, [view.topics[name] for name in choice.chosen(view.topics)]


async def _is_there(client: BrokerClient, name: str, patience_s: float, is_needed: bool) -> bool:
    try:
        await patiently(lambda: client.describe_topic(name), patience_s)
    except UnknownTopic:
        if is_needed:
            raise
        return False
    return True


def _is_seen(view: ClusterView, name: str, topic_id: str) -> bool:
    return name in view.topics and topic_id in ("", view.topics[name].topic_id)
