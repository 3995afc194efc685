"""Operations of consumer instances at the coordinator of their group: the registry, one line each.

docs/REPLICATION.md names them. Called through `coordinator.router` by the service, here or for another broker.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from raftlog.errors import OutcomeUnknown, RequestError
from raftlog.partitions.consumers.instance import Instance
from raftlog.partitions.consumers.registry import Registry
from raftlog.partitions.consumers.results import (
    Assign,
    CommitConsumed,
    CommitOutcome,
    CommittedHere,
    CommittedOf,
    CreateInstance,
    InstanceNamed,
    InstancePoll,
    Moved,
    PollDelivery,
    RecordPiece,
    Seek,
    Subscribe,
    Subscribed,
)
from raftlog.partitions.consumers.settings import read_settings
from raftlog.partitions.coordinator.operation import CoordinatorOperation
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.runtime.rpc.calls import Answer, row_of
from raftlog.types import Offset, TopicPartition

A = TypeVar("A")
Q = TypeVar("Q", InstanceNamed, Subscribe, Assign, Seek, InstancePoll, CommitConsumed, CommittedOf)


def _at(
    serve: Callable[[Instance, Q, Deadline], Awaitable[A]], *, is_confirmed: bool = False
) -> Callable[[Registry, GroupCoordinator, Q, Deadline], Awaitable[A]]:
    """Return a handler that serves at the named instance. `is_confirmed`: check that this is still the coordinator."""

    async def served(registry: Registry, coordinator: GroupCoordinator, asked: Q, deadline: Deadline) -> A:
        async with _confirmed(coordinator, deadline), registry.using(coordinator, *asked[:2]) as instance:
            answer = await serve(instance, asked, deadline)
            if is_confirmed:
                await coordinator.confirm(deadline)
            return answer

    return served


@asynccontextmanager
async def _confirmed(coordinator: GroupCoordinator, deadline: Deadline) -> AsyncIterator[None]:
    """Confirm the coordinator before a request error is returned.

    A deposed coordinator must not report the state of its instances: another one may have created, changed or
    deleted them."""
    await coordinator.ready(deadline)
    try:
        yield
    except RequestError:
        await coordinator.confirm(deadline)
        raise


async def _create(registry: Registry, coordinator: GroupCoordinator, asked: CreateInstance, deadline: Deadline) -> None:
    async with _confirmed(coordinator, deadline):
        settings = read_settings(asked.settings)
        await registry.create(coordinator, asked.group, asked.name, settings, deadline)


async def _delete(registry: Registry, coordinator: GroupCoordinator, asked: InstanceNamed, deadline: Deadline) -> None:
    async with _confirmed(coordinator, deadline), registry.using(coordinator, *asked) as instance:
        await registry.delete(coordinator, instance, is_wanted=True, deadline=deadline)


async def _subscribe(instance: Instance, asked: Subscribe, deadline: Deadline) -> None:
    await instance.subscribe(asked.topics, asked.pattern, deadline)


async def _subscription(instance: Instance, _: InstanceNamed, __: Deadline) -> Subscribed:
    return instance.subscribed


async def _unsubscribe(instance: Instance, _: InstanceNamed, deadline: Deadline) -> None:
    await instance.unsubscribe(deadline)


async def _assign(instance: Instance, asked: Assign, deadline: Deadline) -> None:
    await instance.assign(asked.partitions, deadline)


async def _assignment(instance: Instance, _: InstanceNamed, __: Deadline) -> list[TopicPartition]:
    return list(instance.assignment)


async def _seek(instance: Instance, asked: Seek, deadline: Deadline) -> None:
    await instance.seek(asked.positions, deadline)


async def _poll(instance: Instance, asked: InstancePoll, _: Deadline) -> PollDelivery:
    return await instance.poll(asked.poll_id, asked.wait_ms, asked.max_bytes, asked.formats)


async def _commit(instance: Instance, asked: CommitConsumed, deadline: Deadline) -> list[CommitOutcome]:
    return await instance.commit(asked.consumed, is_waited_for=asked.is_waited_for, deadline=deadline)


async def _committed(instance: Instance, asked: CommittedOf, deadline: Deadline) -> list[CommittedHere]:
    return await instance.committed(asked.partitions, deadline)


class _PollOperation(CoordinatorOperation[InstancePoll, PollDelivery]):
    """Poll; the batches of its answer are sent in stored form."""

    def pack_answer(self, answer: PollDelivery) -> Answer:
        pieces = [[*piece[:-1], len(piece.batches)] for piece in answer.pieces]
        head = msgspec.msgpack.encode([answer.format, pieces, answer.moved, answer.may_wait_ms])
        return Answer(None, (head, *(batch for piece in answer.pieces for batch in piece.batches)))

    def unpack_answer(self, answer: Answer) -> PollDelivery:
        try:
            head, *payload = answer.payload
            delivery = _DELIVERIES.decode(head)
            moved = [row_of(Moved, each) for each in delivery.moved]
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise OutcomeUnknown(f"another broker's answer to {self.name!r} cannot be read: {error}") from None
        batches = iter(payload)
        pieces = [
            RecordPiece(each.topic, each.partition, each.offset, each.end, list(islice(batches, each.batches)))
            for each in delivery.pieces
        ]
        return PollDelivery(delivery.format, pieces, moved, delivery.may_wait_ms)


class _PackedPiece(msgspec.Struct, array_like=True):
    topic: str
    partition: int
    offset: Offset
    end: Offset
    batches: int


class _PackedDelivery(msgspec.Struct, array_like=True):
    format: str
    pieces: list[_PackedPiece]
    moved: list[Any]
    may_wait_ms: int


_DELIVERIES: Final = msgspec.msgpack.Decoder(_PackedDelivery)
CREATE: Final = CoordinatorOperation("consumers.create", _create, CreateInstance, is_repeatable=False)
DELETE: Final = CoordinatorOperation("consumers.delete", _delete, InstanceNamed, is_repeatable=False)
SUBSCRIBE: Final = CoordinatorOperation("consumers.subscribe", _at(_subscribe), Subscribe)
SUBSCRIPTION: Final = CoordinatorOperation(
    "consumers.subscription", _at(_subscription, is_confirmed=True), InstanceNamed, Subscribed
)
UNSUBSCRIBE: Final = CoordinatorOperation("consumers.unsubscribe", _at(_unsubscribe), InstanceNamed)
ASSIGN: Final = CoordinatorOperation("consumers.assign", _at(_assign), Assign)
ASSIGNMENT: Final = CoordinatorOperation(
    "consumers.assignment", _at(_assignment, is_confirmed=True), InstanceNamed, list[TopicPartition]
)
SEEK: Final = CoordinatorOperation("consumers.seek", _at(_seek), Seek)
POLL: Final = _PollOperation("consumers.poll", _at(_poll), InstancePoll)
COMMIT: Final = CoordinatorOperation(
    "consumers.commit", _at(_commit), CommitConsumed, list[CommitOutcome], is_repeatable=False
)
COMMITTED: Final = CoordinatorOperation("consumers.committed", _at(_committed), CommittedOf, list[CommittedHere])
