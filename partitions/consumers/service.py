"""Consumer instances, usable through any broker: each call goes to the coordinator of the group, by one hop.

    base_uri of an instance may name any broker;   a new coordinator continues with the instances of its groups

All calls raise from `raftlog.errors`: `UnknownConsumer` for a missing instance, and `OutcomeUnknown` when the effect
may have happened. A poll whose answer was lost between brokers is retried under its id, and returns the same
records. `broker.consumers` is the one object of a process. Called by the HTTP API."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from raftlog.errors import UnknownConsumer, UnknownGroup
from raftlog.partitions.caller import Caller
from raftlog.partitions.consumers import operations
from raftlog.partitions.consumers.instance_host import Catalogue, InstanceHost, ReadBounds
from raftlog.partitions.consumers.patterns import TopicPattern
from raftlog.partitions.consumers.poll import RecordReader
from raftlog.partitions.consumers.registry import Registry
from raftlog.partitions.consumers.results import (
    Assign,
    ChosenPosition,
    CommitConsumed,
    CommitOutcome,
    CommittedPosition,
    CommittedQuery,
    ConsumedRecord,
    CreateInstance,
    InstanceName,
    InstancePoll,
    PollDelivery,
    Seek,
    Subscribe,
    SubscribedTopics,
)
from raftlog.partitions.consumers.settings import Owner, check_name, read_settings
from raftlog.partitions.controller.machine.naming import check_topic_name
from raftlog.partitions.coordinator.operation import CoordinatorOperation, operations_of
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.names import check_group
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.routing.finder import Finder
from raftlog.partitions.routing.topics import Topics
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.partitions.settings import BrokerSettings
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.topic_config import MIB
from raftlog.types import TopicPartition

_A = TypeVar("_A")
_Q = TypeVar("_Q", bound=tuple[Any, ...])
_PIECE_MS = 5_000
"""Length of one poll request in ms; a longer poll is split, so that it follows a new coordinator."""
_FINDING_MS = 5_000
"""Additional time of each request, in ms, to find the coordinator and to read."""
_STORED_BYTES_MAX = 16 * MIB
"""Limit of stored bytes in one answer, which is sent in one frame."""


class Consumers:
    """Operations on the consumer instances of the cluster, sent to each group's coordinator.

    It also runs the instances of the groups that this broker coordinates."""

    def __init__(
        self,
        settings: BrokerSettings,
        groups: Groups,
        reader: RecordReader,
        topics: Topics,
        finder: Finder,
        opener: BatchOpener,
        authorizer: Authorizer,
    ) -> None:
        """Create the consumer instances of this broker, and follow its group coordinators."""
        self._groups, self._reader = groups, reader
        self._node_id, self._polls = settings.node_id, count(1)
        stored_bytes_max = min(settings.fetch_bytes_max, _STORED_BYTES_MAX)
        self._bounds = ReadBounds(settings.fetch_wait_ms_max, stored_bytes_max, opener)
        self._catalogue, self._authorizer = Catalogue(topics, finder), authorizer
        self._registry = Registry(self._host_of, settings.consumer_instances_max, settings.consumer_instance_timeout_ms)
        self._following: asyncio.Task[None] | None = None
        self._has_news = False
        groups.coordinators.follow(self)
        self._router = groups.router
        self._router.register(operations_of(operations), self._registry)

    def __len__(self) -> int:
        """Return the number of instances in this process."""
        return len(self._registry)

    # callbacks of the broker

    def coordinator_began(self, coordinator: GroupCoordinator) -> None:
        """Create the instances that the log of a new coordinator on this broker has."""
        self._registry.add_coordinator(coordinator)

    def coordinator_ended(self, coordinator: GroupCoordinator) -> None:
        """End the instances of a coordinator that ended on this broker; another broker continues them."""
        self._registry.remove_coordinator(coordinator)

    def state_changed(self) -> None:
        """Match the patterns of subscriptions with the topics again, after the controller's state changed."""
        if not self._registry.has_patterns:
            return
        self._has_news = True
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._match_patterns(), name="topic patterns")

    async def _match_patterns(self) -> None:
        """Match all patterns against the topics, again when topics changed meanwhile."""
        while self._has_news:
            self._has_news = False
            for instance in list(self._registry):
                await instance.topics_changed()

    def stop_waiting(self) -> None:
        """Answer polls with the available records from now on, because the broker is about to stop."""
        self._registry.stop_waiting()

    def close(self) -> None:
        """Stop background work; call it after the coordinators are closed."""
        self._registry.close()
        if self._following is not None:
            self._following.cancel()

    def _host_of(self, coordinator: GroupCoordinator) -> InstanceHost:
        """Return the services for the instances of a coordinator."""
        return InstanceHost(coordinator, self._groups, self._reader, self._catalogue, self._bounds, self._authorizer)

    # instances

    async def create(
        self,
        group: str,
        name: str,
        settings: Mapping[str, Any],
        *,
        caller: Caller | None = None,
        deadline: Deadline,
    ) -> None:
        """Create an instance with the permissions of the caller.

        Raises `InvalidConsumer`, `ConsumerExists`, and `Overloaded` at the coordinator's limit."""
        check_group(group)
        check_name(name)
        read = read_settings(settings)
        if caller is not None and self._authorizer.is_on:
            read = replace(read, owner=Owner(caller.principal, caller.address))
        asked = CreateInstance(group, name, dict(read.as_mapping()))
        await self._router.call(operations.CREATE, group, asked, deadline, creates=True)

    async def delete(self, group: str, name: str, *, deadline: Deadline) -> None:
        """Leave the group and delete the instance; with auto-commit, commit the delivered records before."""
        await self._call(operations.DELETE, InstanceName(group, name), deadline)

    async def subscribe(
        self, group: str, name: str, topics: Sequence[str], pattern: str | None, *, deadline: Deadline
    ) -> None:
        """Subscribe to topics by name, which need not exist yet, or by a pattern of whole names.

        A new subscription replaces the earlier one. Raises `ConsumerState`, `InvalidArgument` and `InvalidTopic`."""
        if pattern is not None:
            TopicPattern(pattern)
        for topic in topics:
            check_topic_name(topic)
        asked = Subscribe(group, name, tuple(sorted(set(topics))), pattern)
        await self._call(operations.SUBSCRIBE, asked, deadline)

    async def subscription(self, group: str, name: str, *, deadline: Deadline) -> SubscribedTopics:
        """Return the topics that the instance is subscribed to, existing or not."""
        return await self._call(operations.SUBSCRIPTION, InstanceName(group, name), deadline)

    async def unsubscribe(self, group: str, name: str, *, deadline: Deadline) -> None:
        """Remove the subscription or assignment."""
        await self._call(operations.UNSUBSCRIBE, InstanceName(group, name), deadline)

    async def assign(
        self, group: str, name: str, partitions: Collection[TopicPartition], *, deadline: Deadline
    ) -> None:
        """Assign partitions manually, outside of the group, in place of earlier ones. Raises `ConsumerState`."""
        await self._call(operations.ASSIGN, Assign(group, name, sorted(set(partitions))), deadline)

    async def assignment(self, group: str, name: str, *, deadline: Deadline) -> list[TopicPartition]:
        """Return the partitions that the instance reads now, assigned manually or by its group."""
        return await self._call(operations.ASSIGNMENT, InstanceName(group, name), deadline)

    async def seek(self, group: str, name: str, positions: Sequence[ChosenPosition], *, deadline: Deadline) -> None:
        """Set positions, all or none. Raises `ConsumerState` if a partition is not assigned to the instance."""
        await self._call(operations.SEEK, Seek(group, name, list(positions)), deadline)

    async def poll(
        self, group: str, name: str, *, wait_ms: int, max_bytes: int, formats: Collection[str]
    ) -> PollDelivery:
        """Return records of the assigned partitions from their positions on, and advance the positions.

        Waits until `fetch.min.bytes` are available, `wait_ms` or the instance's request timeout is over, or the group
        rebalances. Delivers nothing when the instance's format is not among `formats`."""
        while True:
            piece_ms = min(wait_ms, _PIECE_MS)
            asked = InstancePoll(group, name, self._poll_id(), piece_ms, max_bytes, list(formats))
            delivery = await self._call(operations.POLL, asked, deadline_in(piece_ms + _FINDING_MS))
            wait_ms = min(wait_ms - piece_ms, delivery.may_wait_ms)
            if wait_ms <= 0 or self._registry.is_stopping:
                return delivery

    def _poll_id(self) -> str:
        """Return an id that is unique among all polls of all brokers and all their starts."""
        return f"{self._node_id}-{asyncio.get_running_loop().time()}-{next(self._polls)}"

    async def commit(
        self,
        group: str,
        name: str,
        consumed: Sequence[ConsumedRecord] | None,
        *,
        is_waited_for: bool = True,
        deadline: Deadline,
    ) -> list[CommitOutcome]:
        """Commit the offsets after these records, or with None after all delivered ones.

        Raises `ConsumerState` when none of them is in an assigned partition."""
        asked = CommitConsumed(group, name, None if consumed is None else list(consumed), is_waited_for)
        return await self._call(operations.COMMIT, asked, deadline)

    async def committed(
        self, group: str, name: str, partitions: Collection[TopicPartition] | None, *, deadline: Deadline
    ) -> list[CommittedPosition]:
        """Return the group's committed offsets in these partitions; None: in those that the instance reads."""
        asked = CommittedQuery(group, name, None if partitions is None else list(partitions))
        return await self._call(operations.COMMITTED, asked, deadline)

    async def _call(self, operation: CoordinatorOperation[_Q, _A], argument: _Q, deadline: Deadline) -> _A:
        """Call the group's coordinator. Raises `UnknownConsumer` for a consumer group that does not exist."""
        group, name, *_ = argument
        try:
            return await self._router.call(operation, group, argument, deadline)
        except UnknownGroup:
            raise UnknownConsumer(f"there is no consumer instance {name!r} in group {group!r}; create it") from None
