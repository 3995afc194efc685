"""Operations of consumer instances at the coordinator of their group: a declaration for each one.

docs/REPLICATION.md names them. Called through `coordinator.router` by the service, here or for another broker.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from raftlog.errors import OutcomeUnknown, RequestError
from raftlog.partitions.consumers.instance import Instance
from raftlog.partitions.consumers.registry import Registry
from raftlog.partitions.consumers.results import (
    Assign,
    CommitConsumed,
    CommitOutcome,
    CommittedPosition,
    CommittedQuery,
    CreateInstance,
    InstanceName,
    InstancePoll,
    MovedPosition,
    PollDelivery,
    RecordPiece,
    Seek,
    Subscribe,
    SubscribedTopics,
)
from raftlog.partitions.consumers.settings import read_stored_settings
from raftlog.partitions.coordinator.operation import CoordinatorOperation
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.runtime.rpc.calls import Answer, row_of
from raftlog.types import Offset, TopicPartition

A = TypeVar("A")


Handler: TypeAlias = Callable[[Registry, GroupCoordinator, Any, Deadline], Awaitable[A]]


def _on_instance(method: Callable[..., Awaitable[A]]) -> Handler[A]:
    """Return a handler that finds the instance that a request names, and calls one of its methods.

    The method gets the request's other fields and the deadline."""

    async def serve(registry: Registry, coordinator: GroupCoordinator, request: Any, deadline: Deadline) -> A:
        """Call the method of the instance that the request names."""
        async with _confirm_on_error(coordinator, deadline), registry.use(coordinator, *request[:2]) as instance:
            return await method(instance, *request[2:], deadline)

    return serve


def _read_state(read: Callable[[Instance], A]) -> Handler[A]:
    """Return a handler that reads the named instance's state, and then confirms that this coordinator still leads."""

    async def serve(registry: Registry, coordinator: GroupCoordinator, request: InstanceName, deadline: Deadline) -> A:
        """Read the instance that the request names, and confirm that this coordinator still leads."""
        async with _confirm_on_error(coordinator, deadline), registry.use(coordinator, *request) as instance:
            found = read(instance)
            await coordinator.confirm(deadline)
            return found

    return serve


@asynccontextmanager
async def _confirm_on_error(coordinator: GroupCoordinator, deadline: Deadline) -> AsyncIterator[None]:
    """Confirm that this coordinator still leads, before an error of the block is returned.

    A deposed coordinator must not report the state of its instances: another one may have created, changed or deleted
    them."""
    await coordinator.wait_until_ready(deadline)
    try:
        yield
    except RequestError:
        await coordinator.confirm(deadline)
        raise


async def _create(
    registry: Registry, coordinator: GroupCoordinator, request: CreateInstance, deadline: Deadline
) -> None:
    """Create an instance with the requested settings."""
    async with _confirm_on_error(coordinator, deadline):
        settings = read_stored_settings(request.settings)
        await registry.create(coordinator, request.group, request.name, settings, deadline)


async def _delete(registry: Registry, coordinator: GroupCoordinator, request: InstanceName, deadline: Deadline) -> None:
    """Delete an instance on request."""
    async with _confirm_on_error(coordinator, deadline), registry.use(coordinator, *request) as instance:
        await registry.delete(coordinator, instance, is_wanted=True, deadline=deadline)


async def _poll(instance: Instance, *asked: Any) -> PollDelivery:
    """Poll the instance; the poll's own wait limits it."""
    return await instance.poll(*asked[:-1])  # its own wait bounds it, not the deadline


class _PollOperation(CoordinatorOperation[InstancePoll, PollDelivery]):
    """Poll operation; its answer contains batches in stored form."""

    def pack_answer(self, answer: PollDelivery) -> Answer:
        """Encode a delivery: a head with all fields, and the batches of all pieces."""
        pieces = [[*piece[:-1], len(piece.batches)] for piece in answer.pieces]
        head = msgspec.msgpack.encode([answer.format, pieces, answer.moved, answer.may_wait_ms])
        return Answer(None, (head, *(batch for piece in answer.pieces for batch in piece.batches)))

    def unpack_answer(self, answer: Answer) -> PollDelivery:
        """Return the records in another broker's answer. Raises `OutcomeUnknown` if the answer cannot be decoded."""
        try:
            head, *payload = answer.payload
            delivery = _DELIVERIES.decode(head)
            moved = [row_of(MovedPosition, each) for each in delivery.moved]
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise OutcomeUnknown(f"another broker's answer to {self.name!r} cannot be read: {error}") from None
        batches = iter(payload)
        pieces = [
            RecordPiece(each.topic, each.partition, each.offset, each.end, list(islice(batches, each.batches)))
            for each in delivery.pieces
        ]
        return PollDelivery(delivery.format, pieces, moved, delivery.may_wait_ms)


class _PackedPiece(msgspec.Struct, array_like=True):
    """Records of one partition in a poll's answer; `batches`: number of the following batches that belong to it."""

    topic: str
    partition: int
    offset: Offset
    end: Offset
    batches: int


class _PackedDelivery(msgspec.Struct, array_like=True):
    """Answer to a poll without its batches, which follow as payload."""

    format: str
    pieces: list[_PackedPiece]
    moved: list[Any]
    may_wait_ms: int


_DELIVERIES: Final = msgspec.msgpack.Decoder(_PackedDelivery)
CREATE: Final = CoordinatorOperation("consumers.create", _create, CreateInstance, is_repeatable=False)
DELETE: Final = CoordinatorOperation("consumers.delete", _delete, InstanceName, is_repeatable=False)
SUBSCRIBE: Final = CoordinatorOperation("consumers.subscribe", _on_instance(Instance.subscribe), Subscribe)
SUBSCRIPTION: Final = CoordinatorOperation(
    "consumers.subscription", _read_state(lambda instance: instance.subscribed), InstanceName, SubscribedTopics
)
UNSUBSCRIBE: Final = CoordinatorOperation("consumers.unsubscribe", _on_instance(Instance.unsubscribe), InstanceName)
ASSIGN: Final = CoordinatorOperation("consumers.assign", _on_instance(Instance.assign), Assign)
ASSIGNMENT: Final = CoordinatorOperation(
    "consumers.assignment", _read_state(lambda instance: list(instance.assignment)), InstanceName, list[TopicPartition]
)
SEEK: Final = CoordinatorOperation("consumers.seek", _on_instance(Instance.seek), Seek)
POLL: Final = _PollOperation("consumers.poll", _on_instance(_poll), InstancePoll)
COMMIT: Final = CoordinatorOperation(
    "consumers.commit", _on_instance(Instance.commit), CommitConsumed, list[CommitOutcome], is_repeatable=False
)
COMMITTED: Final = CoordinatorOperation(
    "consumers.committed", _on_instance(Instance.committed), CommittedQuery, list[CommittedPosition]
)
