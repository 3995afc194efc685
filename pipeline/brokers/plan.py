"""What is there to be read, asked of the brokers, and which part of it options mean.

    start ≤ end of every partition;   start ≥ log start, or what lies between is lost

Ends of batches are linearizable: nothing that was acknowledged before the question is missing, and none is ever lower
than one that was told before. Asking is asynchronous and below `BrokerConnection.ask`; choosing is pure. Called by the
readers and, for archives, by jobs.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

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


class Times(NamedTuple):
    """Offsets of the first records that are as late as options say, by partition; None where none is."""

    starting: dict[TopicPartition, int | None]
    ending: dict[TopicPartition, int | None]


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
    at_once = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(topic: TopicView, number: int, leader: int | None) -> PartitionLog | None:
        place = TopicPartition(topic.name, number)
        address = None if leader is None else view.http.get(leader)
        if address is not None:
            client.learn_leader(place, address)
        try:
            async with at_once:
                start, end = await patiently(lambda: client.offsets(*place, linearizable=linearizable), patience_s)
                if seen is not None and end < seen.offsets.get(place, 0):
                    start, end = await patiently(lambda: client.offsets(*place, linearizable=True), patience_s)
        except UnknownTopic:  # it went after the picture was made
            if topic.name in (choice.names or ()) and seen is None:
                raise
            return None
        return PartitionLog(topic.name, topic.topic_id, number, start, end, address)

    logs = await asyncio.gather(*(one(topic, *each) for topic in topics for each in enumerate(topic.leaders)))
    return ClusterLayout(
        [log for log in logs if log is not None], tuple(dict.fromkeys((*bootstrap, *view.http.values())))
    )


async def times(
    client: BrokerClient,
    logs: Sequence[PartitionLog],
    starting: OffsetPositions,
    ending: OffsetPositions,
    patience_s: float,
) -> Times:
    """What has to be looked up because options say a time."""
    at_once = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(log: PartitionLog, positions: OffsetPositions) -> tuple[TopicPartition, int | None] | None:
        position = positions.at(*log.place)
        if position.kind is not PositionKind.TIMESTAMP:
            return None
        async with at_once:
            found = await patiently(lambda: client.offset_for_timestamp(*log.place, position.value), patience_s)
        return log.place, None if found is None else found[0]

    sides = [await asyncio.gather(*(one(log, side) for log in logs)) for side in (starting, ending)]
    return Times(*(dict(each for each in side if each is not None) for side in sides))


def planned(settings: ReadSettings, there: ClusterLayout, times: Times) -> list[BrokerSplit]:
    """A split for each partition, the empty ones too. Raises `InvalidArgument` and `DataLost`."""
    check_named(settings, there.logs)
    return [split_of(settings, there.addresses, log, *_bounds(settings, log, times)) for log in there.logs]


def check_named(settings: ReadSettings, logs: Sequence[PartitionLog]) -> None:
    """Partitions that options name are there; raises `InvalidArgument`."""
    counts: dict[str, int] = {}
    for log in logs:
        counts[log.topic] = counts.get(log.topic, 0) + 1
    settings.starting.check(counts)
    settings.ending.check(counts)


def starting_offset(settings: ReadSettings, log: PartitionLog, times: Times) -> int:
    """Where options say that reading a partition begins; raises `InvalidArgument` and `DataLost`."""
    offset = _resolved(settings.starting, log, times.starting)
    if offset < log.start:
        lost = f"{log.place}: records from offset {offset} to {log.start} (exclusive) were deleted"
        report_loss(f"{lost}, and {settings.starting.option} asks for them", settings.fail_on_data_loss)
    return max(offset, log.start)


def _bounds(settings: ReadSettings, log: PartitionLog, times: Times) -> tuple[int, int]:
    start = starting_offset(settings, log, times)
    end = _resolved(settings.ending, log, times.ending)
    if end < log.start:
        lost = f"{log.place}: all records below offset {log.start} were deleted"
        report_loss(f"{lost}, and {settings.ending.option} ends at {end}", settings.fail_on_data_loss)
        return start, start
    if start > end:
        raise InvalidArgument(
            f"{log.place}: reading would begin at offset {start} ({settings.starting.option}), behind its end at {end} "
            f"({settings.ending.option})"
        )
    return start, end


def _resolved(positions: OffsetPositions, log: PartitionLog, found: dict[TopicPartition, int | None]) -> int:
    position = positions.at(*log.place)
    if position.kind is PositionKind.EARLIEST:
        return log.start
    if position.kind is PositionKind.LATEST:
        return log.end
    if position.kind is PositionKind.TIMESTAMP:
        offset = found[log.place]
        return log.end if offset is None else min(max(offset, log.start), log.end)
    if position.value > log.end:
        raise InvalidArgument(
            f"{positions.option} has offset {position.value} of {log.place}, which ends at {log.end}: was it that of "
            "another cluster, or is the topic another one by now?"
        )
    return position.value


def split_of(
    settings: ReadSettings, addresses: tuple[str, ...], log: PartitionLog, start: int, end: int
) -> BrokerSplit:
    """With what the settings say of reading."""
    return BrokerSplit(
        addresses,
        log.topic,
        log.topic_id,
        log.partition,
        start,
        end,
        log.leader,
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
