"""Plan of a read: the partitions as brokers report them, and the offset ranges that the options select.

    start ≤ end of every partition;   start ≥ log start, or the records between are lost

Ends of batches are linearizable: they include every record that was acknowledged before the request, and never
decrease. Requests are asynchronous and run in `BrokerConnection.ask`. Called by the readers and, for archives, by
jobs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from raftlog.client import BrokerAddresses, BrokerClient, ClusterView, TopicView
from raftlog.errors import InvalidArgument, UnknownTopic
from raftlog.pipeline.brokers.connection import BrokerConnection, with_retries
from raftlog.pipeline.brokers.data_loss import report_loss
from raftlog.pipeline.brokers.settings import REQUEST_MS_DEFAULT, ReadSettings
from raftlog.pipeline.brokers.split import BrokerSplit
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.positions import OffsetPositions, PositionKind
from raftlog.types import TopicPartition

ASKED_AT_ONCE: Final = 64
"""Concurrent requests about partitions."""
FIRST_ANSWER_S: Final = 15.0
"""Timeout of the first request, which any broker can answer; no answer usually means a wrong address."""
LOOKS_MAX: Final = 8
LOOK_PAUSE_S: Final = 0.25
"""Pause between requests for the cluster view; a view is at most a second old, so one of them has a new topic."""


T = TypeVar("T")


class PartitionLog(NamedTuple):
    """Log of a partition at the time of the request; offsets `start ≤ offset < end` are readable.

    `leader` is HOST:PORT."""

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
    """Partitions to read by topic and number, and addresses of the bootstrap list and of all brokers."""

    logs: list[PartitionLog]
    addresses: Sequence[str]


class EarlierOffsets(NamedTuple):
    """Results of an earlier request, to detect stale answers: ids of topics by name, and ends of partitions."""

    ids: Mapping[str, str]
    offsets: Mapping[TopicPartition, int]


def list_partitions(
    bootstrap: Sequence[str], choice: TopicChoice, *, request_timeout_ms: int = REQUEST_MS_DEFAULT
) -> ClusterLayout:
    """Return all partitions of the chosen topics.

    Raises `UnknownTopic`, `InvalidArgument`, and `Unavailable` when the brokers do not answer in time."""
    with BrokerConnection(bootstrap) as brokers:
        return brokers.ask(lambda client: read_layout(client, bootstrap, choice, request_timeout_ms / 1000))


async def read_layout(
    client: BrokerClient,
    bootstrap: Sequence[str],
    choice: TopicChoice,
    timeout_s: float,
    *,
    seen: EarlierOffsets | None = None,
    linearizable: bool = True,
) -> ClusterLayout:
    """Return all partitions of the chosen topics through an open client; raises as `list_partitions`.

    With `seen`, named topics that do not exist are left out. `linearizable`: whether ends are requested as
    linearizable; otherwise only an end below the one in `seen` is requested again as linearizable."""
    view, topics = await _view_topics(client, choice, timeout_s, seen)

    async def read_log(topic: TopicView, number: int) -> PartitionLog | None:
        """Return bounds and leader of a log; None if its topic was deleted since the view was made."""
        place, leader = TopicPartition(topic.name, number), topic.leaders[number]
        address = None if leader is None else view.http.get(leader)
        if address is not None:
            client.learn_leader(place, address)
        try:
            start, end = await with_retries(lambda: client.offsets(*place, linearizable=linearizable), timeout_s)
            if seen is not None and end < seen.offsets.get(place, 0):
                start, end = await with_retries(lambda: client.offsets(*place, linearizable=True), timeout_s)
        except UnknownTopic:  # it was deleted after the view was made
            if topic.name in (choice.names or ()) and seen is None:
                raise
            return None
        return PartitionLog(topic.name, topic.topic_id, number, start, end, address)

    logs = await _ask_at_once(read_log, [(topic, number) for topic in topics for number in range(len(topic.leaders))])
    addresses = tuple(dict.fromkeys((*bootstrap, *view.http.values())))
    found = [log for log in logs if log is not None]
    if isinstance(bootstrap, BrokerAddresses):
        return ClusterLayout(found, bootstrap.with_addresses(addresses))
    return ClusterLayout(found, addresses)


async def _ask_at_once(ask: Callable[..., Awaitable[T]], places: Sequence[tuple[Any, ...]]) -> list[T]:
    """Call `ask` with the arguments of each of `places`, at most `ASKED_AT_ONCE` at a time; return the answers."""
    slots = asyncio.Semaphore(ASKED_AT_ONCE)

    async def ask_one(place: tuple[Any, ...]) -> T:
        """Ask for one partition, once a slot is free."""
        async with slots:
            return await ask(*place)

    return await asyncio.gather(*map(ask_one, places))


async def plan_splits(client: BrokerClient, settings: ReadSettings, layout: ClusterLayout) -> list[BrokerSplit]:
    """Return one split for each partition, empty ones included. Raises `InvalidArgument` and `DataLost`."""
    _check_named(settings, layout.logs)
    bounded = await _ask_at_once(_select_range, [(client, settings, log) for log in layout.logs])
    return [make_split(settings, layout.addresses, log) for log in bounded]


async def starting_offsets(
    client: BrokerClient, settings: ReadSettings, logs: Sequence[PartitionLog]
) -> dict[TopicPartition, int]:
    """Return the offsets at which reading begins by the options; raises `InvalidArgument` and `DataLost`."""
    _check_named(settings, logs)
    starts = await _ask_at_once(_starting_offset, [(client, settings, log) for log in logs])
    return {log.place: start for log, start in zip(logs, starts, strict=True)}


def _check_named(settings: ReadSettings, logs: Sequence[PartitionLog]) -> None:
    """Raise `InvalidArgument` if a partition that the options name does not exist."""
    counts = Counter(log.topic for log in logs)
    settings.starting.check(counts)
    settings.ending.check(counts)


async def _starting_offset(client: BrokerClient, settings: ReadSettings, log: PartitionLog) -> int:
    """Return the offset at which reading a partition begins. Raises `InvalidArgument` and `DataLost`."""
    offset = await _resolve_position(client, settings, settings.starting, log)
    if offset < log.start:
        lost = f"{log.place}: records from offset {offset} to {log.start} (exclusive) were deleted"
        report_loss(f"{lost}, and {settings.starting.option} asks for them", settings.fail_on_data_loss)
    return max(offset, log.start)


async def _select_range(client: BrokerClient, settings: ReadSettings, log: PartitionLog) -> PartitionLog:
    """Return the range of a partition that the options select."""
    start = await _starting_offset(client, settings, log)
    end = await _resolve_position(client, settings, settings.ending, log)
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


async def _resolve_position(
    client: BrokerClient, settings: ReadSettings, positions: OffsetPositions, log: PartitionLog
) -> int:
    """Return the offset of a position in the options; that of a timestamp is requested from the broker.

    Raises `InvalidArgument`."""
    position = positions.position_of(*log.place)
    if position.kind is PositionKind.EARLIEST:
        return log.start
    if position.kind is PositionKind.LATEST:
        return log.end
    if position.kind is PositionKind.TIMESTAMP:
        found = await with_retries(lambda: client.offset_for_timestamp(*log.place, position.value), settings.timeout_s)
        return log.end if found is None else min(max(found[0], log.start), log.end)
    if position.value > log.end:
        raise InvalidArgument(
            f"{positions.option} has offset {position.value} of {log.place}, which ends at {log.end}: is it one "
            "of another cluster, or was the topic created anew?"
        )
    return position.value


def make_split(settings: ReadSettings, addresses: Sequence[str], log: PartitionLog) -> BrokerSplit:
    """Return the split of a log, with the settings for reading."""
    return BrokerSplit(
        addresses,
        *log,
        settings.fail_on_data_loss,
        settings.fetch_max_bytes,
        settings.request_timeout_ms,
        settings.skips_undecodable,
    )


async def _view_topics(
    client: BrokerClient, choice: TopicChoice, timeout_s: float, earlier: EarlierOffsets | None
) -> tuple[ClusterView, list[TopicView]]:
    """Return a view of the cluster, and the chosen topics in it.

    The view of one broker may be stale. So a missing topic or a changed id counts only after a confirmation: by a
    broker that asked the controller, or by further views in the next seconds."""
    needed = choice.names or () if earlier is None else ()
    look_s = timeout_s if earlier else min(timeout_s, FIRST_ANSWER_S)
    names = choice.select(await with_retries(client.topics, look_s)) if choice.names is None else choice.names
    expected = dict.fromkeys(names, "") | (dict(earlier.ids) if earlier else {})
    missing: set[str] = set()
    for _ in range(LOOKS_MAX):
        view = await with_retries(client.cluster_view, look_s)
        for name in sorted(expected.keys() - view.topics.keys() - missing):
            if not await _exists(client, name, timeout_s, is_needed=name in needed):
                missing.add(name)
        if all(name in missing or _is_in_view(view, name, topic_id) for name, topic_id in expected.items()):
            break
        await asyncio.sleep(LOOK_PAUSE_S)
    for name in sorted(set(choice.names or ()) - view.topics.keys() - missing):
        raise InvalidArgument(f"the topic {name} is internal: only brokers read it")
    return view, [view.topics[name] for name in choice.select(view.topics)]


async def _exists(client: BrokerClient, name: str, timeout_s: float, is_needed: bool) -> bool:
    """Return whether a topic exists; raise `UnknownTopic` instead of returning False if it is needed."""
    try:
        await with_retries(lambda: client.describe_topic(name), timeout_s)
    except UnknownTopic:
        if is_needed:
            raise
        return False
    return True


def _is_in_view(view: ClusterView, name: str, topic_id: str) -> bool:
    """Return whether the view has the topic, with this id unless it is empty."""
    return name in view.topics and topic_id in ("", view.topics[name].topic_id)
