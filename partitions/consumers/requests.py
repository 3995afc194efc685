"""What a broker that is asked about an instance asks the coordinator of its group, and how that is served there.

Names, headers and answers stand in docs/REPLICATION.md. The header of each has the `group`, and but for `create` the
`name`. Lists of partitions are `[topic, partition, …]`. Called by the service.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from raftlog.errors import InvalidArgument, OutcomeUnknown, RequestError
from raftlog.partitions.consumers.registry import Registry
from raftlog.partitions.consumers.results import Chosen, Consumed, Moved, PollDelivery, RecordPiece
from raftlog.partitions.consumers.settings import read_settings
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.asking import AtCoordinator
from raftlog.partitions.groups.coordinator import Coordinator
from raftlog.partitions.groups.wire import large
from raftlog.runtime.rpc import Answer
from raftlog.types import Offset, TopicPartition

CREATE, DELETE = "consumers.create", "consumers.delete"
SUBSCRIBE, SUBSCRIPTION, UNSUBSCRIBE = "consumers.subscribe", "consumers.subscription", "consumers.unsubscribe"
ASSIGN, ASSIGNMENT = "consumers.assign", "consumers.assignment"
SEEK, POLL = "consumers.seek", "consumers.poll"
COMMIT, COMMITTED = "consumers.commit", "consumers.committed"


class InstanceRequests:
    """By name in `handlers`, each given the coordinator that it is served at."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        handlers = {
            CREATE: self._create,
            DELETE: self._delete,
            SUBSCRIBE: self._subscribe,
            SUBSCRIPTION: self._subscription,
            UNSUBSCRIBE: self._unsubscribe,
            ASSIGN: self._assign,
            ASSIGNMENT: self._assignment,
            SEEK: self._seek,
            POLL: self._poll,
            COMMIT: self._commit,
            COMMITTED: self._committed,
        }
        self.handlers = {name: partial(_confirmed, handler) for name, handler in handlers.items()}

    def _using(self, coordinator: Coordinator, header: Any) -> Any:
        return self._registry.using(coordinator, header["group"], header["name"])

    async def _create(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        match header:
            case {"group": str(group), "name": str(name), "settings": dict(settings)}:
                await self._registry.create(coordinator, group, name, read_settings(settings), deadline)
                return Answer()
        raise _malformed(CREATE)

    async def _delete(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        async with self._using(coordinator, header) as instance:
            await self._registry.delete(coordinator, instance, is_wanted=True, deadline=deadline)
        return Answer()

    async def _subscribe(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        match header:
            case {"topics": list(topics), "pattern": None | str() as pattern}:
                async with self._using(coordinator, header) as instance:
                    await instance.subscribe(tuple(map(str, topics)), pattern, deadline)
                return Answer()
        raise _malformed(SUBSCRIBE)

    async def _subscription(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        async with self._using(coordinator, header) as instance:
            topics, pattern = instance.subscribed
            await coordinator.confirm(deadline)
            return large([list(topics), pattern])

    async def _unsubscribe(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        async with self._using(coordinator, header) as instance:
            await instance.unsubscribe(deadline)
        return Answer()

    async def _assign(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        partitions = partitions_of(header.get("partitions"), ASSIGN)
        async with self._using(coordinator, header) as instance:
            await instance.assign(partitions, deadline)
        return Answer()

    async def _assignment(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        async with self._using(coordinator, header) as instance:
            assigned = rows(instance.assignment)
            await coordinator.confirm(deadline)
            return large(assigned)

    async def _seek(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        chosen = [
            Chosen(TopicPartition(topic, number), offset, timestamp_ms, edge)
            for topic, number, offset, timestamp_ms, edge in _rows(header.get("positions"), 5, SEEK)
        ]
        async with self._using(coordinator, header) as instance:
            await instance.seek(chosen, deadline)
        return Answer()

    async def _poll(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        match header:
            case {"id": str(poll_id), "wait": int(wait_ms), "max_bytes": int(max_bytes), "formats": list(formats)}:
                async with self._using(coordinator, header) as instance:
                    return delivery_to(await instance.poll(poll_id, wait_ms, max_bytes, formats))
        raise _malformed(POLL)

    async def _commit(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        consumed = None
        if header.get("consumed") is not None:
            consumed = [
                Consumed(TopicPartition(topic, number), offset, metadata)
                for topic, number, offset, metadata in _rows(header["consumed"], 4, COMMIT)
            ]
        async with self._using(coordinator, header) as instance:
            waits = header.get("wait") is True
            return large(rows(await instance.commit(consumed, is_waited_for=waits, deadline=deadline)))

    async def _committed(self, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
        asked = header.get("partitions")
        partitions = None if asked is None else partitions_of(asked, COMMITTED)
        async with self._using(coordinator, header) as instance:
            return large(rows(await instance.committed(partitions, deadline)))


async def _confirmed(handler: AtCoordinator, coordinator: Coordinator, header: Any, deadline: Deadline) -> Answer:
    """A deposed coordinator that does not know it yet must not say what its instances cannot do: another one may have
    made, changed or deleted them."""
    try:
        return await handler(coordinator, header, deadline)
    except RequestError:
        await coordinator.confirm(deadline)
        raise


# values


def rows(values: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Flat tuples as lists."""
    return [list(value) for value in values]


def partitions_of(value: Any, name: str) -> list[TopicPartition]:
    """Raises `InvalidArgument`."""
    return [TopicPartition(topic, number) for topic, number in _rows(value, 2, name)]


def _rows(value: Any, width: int, name: str) -> list[list[Any]]:
    if type(value) is list and all(
        type(row) is list and len(row) == width and type(row[0]) is str and type(row[1]) is int for row in value
    ):
        return value
    raise _malformed(name)


def _malformed(name: str) -> InvalidArgument:
    return InvalidArgument(f"a request {name!r} that cannot be read; does the other broker run another release?")


def delivery_to(delivery: PollDelivery) -> Answer:
    """What of its pieces, in the header; their batches as the payload."""
    pieces = [[piece.topic, piece.partition, piece.offset, piece.end, len(piece.batches)] for piece in delivery.pieces]
    payload = tuple(batch for piece in delivery.pieces for batch in piece.batches)
    return Answer([delivery.format, pieces, rows(delivery.moved), delivery.may_wait_ms], payload)


def delivery_of(answer: Answer) -> PollDelivery:
    """Raises `OutcomeUnknown`."""
    match answer.value:
        case [str(format_), list(described), list(moved), int(may_wait_ms)]:
            batches, pieces = iter(answer.payload), []
            for topic, number, offset, end, count in described:
                some = [batch for _, batch in zip(range(count), batches, strict=False)]
                pieces.append(RecordPiece(topic, number, Offset(offset), Offset(end), some))
            return PollDelivery(format_, pieces, [Moved(*each) for each in moved], may_wait_ms)
    raise OutcomeUnknown("another broker answered a poll with something that cannot be read")
