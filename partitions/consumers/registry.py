"""Consumer instances of this process: those of the groups that it coordinates.

They are created when a coordinator begins, from its log, and end with it. An instance without requests during the
idle time is deleted, as the REST Proxy does; a new coordinator counts the time from its start. Called by the
service."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

from raftlog.errors import (
    ConsumerExists,
    FormatError,
    NotLeader,
    Overloaded,
    RaftlogError,
    UnknownConsumer,
)
from raftlog.partitions.consumers.instance import Instance
from raftlog.partitions.consumers.instance_host import InstanceHost
from raftlog.partitions.consumers.settings import InstanceSettings, check_name
from raftlog.partitions.consumers.stored_instance import StoredInstance, from_record
from raftlog.partitions.deadline import Deadline, DeadlineSweep, deadline_in
from raftlog.partitions.groups.coordinator import GroupCoordinator

_logger = logging.getLogger(__name__)

_DELETING_MS: Final = 10_000
_AGAIN_S: Final = 10.0
"""Time until an instance whose deletion failed is examined again."""

Key = tuple[str, str]
"""Group, and name of the instance."""


class Registry:
    """All consumer instances on this broker, by coordinator.

    `host_of` makes the components that a coordinator's instances use."""

    def __init__(self, host_of: Callable[[GroupCoordinator], InstanceHost], instances_max: int, idle_ms: int) -> None:
        """Begin without instances; `host_of` returns the services of a coordinator.

        An instance is deleted after `idle_ms` without requests."""
        self._host_of, self._instances_max, self._idle_s = host_of, instances_max, idle_ms / 1000
        self._hosts: dict[GroupCoordinator, InstanceHost] = {}
        self._instances: dict[GroupCoordinator, dict[Key, Instance]] = {}
        self._being_created: set[Key] = set()
        """Instances that are being created."""
        self._sweep: DeadlineSweep | None = None
        self._deleting: dict[asyncio.Task[None], None] = {}
        self.is_stopping = False
        """Whether polls return without waiting."""

    def __iter__(self) -> Iterator[Instance]:
        for instances in self._instances.values():
            yield from instances.values()

    def __len__(self) -> int:
        return sum(map(len, self._instances.values()))

    @property
    def has_patterns(self) -> bool:
        """Whether an instance is subscribed by pattern, so that changes of topics matter to it."""
        return any(instance.stored.pattern is not None for instance in self)

    # coordinators

    def add_coordinator(self, coordinator: GroupCoordinator) -> None:
        """Create the instances in the coordinator's log, even above the limit."""
        self._hosts[coordinator] = self._host_of(coordinator)
        self._instances[coordinator] = {}
        for (group, name), record in coordinator.instances.items():
            try:
                self._begin_instance(coordinator, group, name, from_record(record))
            except FormatError as error:
                _logger.error("consumer instance %s/%s cannot be used by this broker: %s", group, name, error)

    def remove_coordinator(self, coordinator: GroupCoordinator) -> None:
        """End the coordinator's instances, because another broker has them now."""
        self._hosts.pop(coordinator, None)
        for instance in self._instances.pop(coordinator, {}).values():
            instance.end(NotLeader(f"the coordinator of group {instance.group} moved to another broker; retry"))

    def stop_waiting(self) -> None:
        """Make all polls return at once, because the broker is about to stop."""
        self.is_stopping = True
        for instance in self:
            instance.interrupt()

    def _begin_instance(self, coordinator: GroupCoordinator, group: str, name: str, stored: StoredInstance) -> None:
        """Create an instance from its stored state, and schedule its expiry."""
        instance = Instance(self._hosts[coordinator], group, name, stored)
        self._instances[coordinator][group, name] = instance
        if self.is_stopping:
            instance.interrupt()
        instance.begin()
        self._schedule_expiry(instance.used_at + self._idle_s)

    # instances

    @asynccontextmanager
    async def use(self, coordinator: GroupCoordinator, group: str, name: str) -> AsyncIterator[Instance]:
        """Yield the instance, which does not count as idle meanwhile. Raises `UnknownConsumer`."""
        loop = asyncio.get_running_loop()
        instance = self._find(coordinator, group, name)
        instance.users, instance.used_at = instance.users + 1, loop.time()
        try:
            yield instance
        finally:
            instance.users, instance.used_at = instance.users - 1, loop.time()

    def _find(self, coordinator: GroupCoordinator, group: str, name: str) -> Instance:
        """Return the consumer instance. Raises `NotLeader` and `UnknownConsumer`."""
        instances = self._instances.get(coordinator)
        if instances is None:
            raise NotLeader(f"another broker is the coordinator of group {group}; retry")
        try:
            return instances[group, name]
        except KeyError:
            raise UnknownConsumer(
                f"there is no consumer instance {name!r} in group {group!r}; it was deleted, or not used for "
                f"{self._idle_s:g} s: create it again"
            ) from None

    async def create(
        self, coordinator: GroupCoordinator, group: str, name: str, settings: InstanceSettings, deadline: Deadline
    ) -> None:
        """Create an instance durably. Raises `InvalidConsumer`, `ConsumerExists` and `Overloaded`."""
        check_name(name)
        key = group, name
        if coordinator not in self._instances:
            raise NotLeader(f"another broker is the coordinator of group {group}; retry")
        if key in self._instances[coordinator] or key in self._being_created:
            raise ConsumerExists(f"there is a consumer instance {name!r} in group {group!r} already")
        if len(self) + len(self._being_created) >= self._instances_max:
            raise Overloaded(
                f"{len(self)} consumer instances are on this broker, its limit; delete some, or wait until idle "
                "ones expire"
            )
        stored = StoredInstance(settings)
        self._being_created.add(key)
        try:
            await coordinator.store_instance(group, name, stored.as_record(), deadline=deadline)
            if coordinator in self._instances:
                self._begin_instance(coordinator, group, name, stored)
        finally:
            self._being_created.discard(key)

    async def delete(
        self, coordinator: GroupCoordinator, instance: Instance, *, is_wanted: bool, deadline: Deadline
    ) -> None:
        """Remove the instance from its group, and delete it. `is_wanted`: its client requested it."""
        gone = UnknownConsumer(f"the consumer instance {instance.name!r} of group {instance.group!r} was deleted")
        await instance.delete(gone, is_wanted=is_wanted, deadline=deadline)
        instances = self._instances.get(coordinator, {})
        if instances.get((instance.group, instance.name)) is instance:
            del instances[instance.group, instance.name]

    # idle instances

    def _schedule_expiry(self, at: float) -> None:
        """Check for expired instances at the loop's time `at`, or earlier."""
        if self._sweep is None:
            self._sweep = DeadlineSweep(self._expire)
        self._sweep.add(at)

    def _expire(self, now: float) -> float:
        """Delete instances that were idle too long; return the time of the next expiry."""
        loop = asyncio.get_running_loop()
        earliest = Deadline(float("inf"))
        for coordinator, instances in self._instances.items():
            for instance in instances.values():
                idle_at = now + self._idle_s if instance.users else instance.used_at + self._idle_s
                if idle_at <= now:
                    idle_at = now + _AGAIN_S
                    task = loop.create_task(self._delete_idle(coordinator, instance))
                    self._deleting[task] = None
                    task.add_done_callback(self._deleting.pop)
                earliest = Deadline(min(earliest, idle_at))
        return earliest

    async def _delete_idle(self, coordinator: GroupCoordinator, instance: Instance) -> None:
        """Delete an instance that was not used in time; log an error, after which `_expire` retries."""
        try:
            await self.delete(coordinator, instance, is_wanted=False, deadline=deadline_in(_DELETING_MS))
            _logger.info("%s/%s was not used for %g s and is deleted", instance.group, instance.name, self._idle_s)
        except RaftlogError as error:
            _logger.info("%s/%s is idle and could not be deleted: %s", instance.group, instance.name, error)

    def close(self) -> None:
        """Cancel expiry and pending deletions, because the broker stops; other brokers continue the instances."""
        if self._sweep is not None:
            self._sweep.cancel()
        for task in list(self._deleting):
            task.cancel()
