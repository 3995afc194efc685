"""Replicas of this node: created when the controller assigns them, removed when their topic is deleted.

    from its first roll     a partition whose creation names this very disk, which never had a replica of it, even if it
                            was assigned to others meanwhile: they are filled by a group that begins with this replica
    empty, to be filled     all others: a disk that was added later, or one that was removed and is assigned again
    removed                 only if the topic is known to be deleted, or the group removed it (`moves.replica_removal`)

No replica is removed because the local copy of the controller's state lacks it: such a copy may be old, so the
replica stays and is reported. An empty replica serves no requests: the broker does not see it before a leader has
sent its Raft configuration, and a group that lost all its disks never begins again by itself. One task makes the
changes one after another; it starts again whenever the state changed meanwhile. Called by the broker."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from raftlog.errors import FormatError, Unavailable
from raftlog.events import event
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import first_roll
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import BackgroundLoop, Node
from raftlog.partitions.replica import ReadQueue, Replica
from raftlog.partitions.routing.partition import Partition
from raftlog.partitions.routing.topics import Topic, Topics
from raftlog.raft import Ready, ReplicaId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.replica_directory import move_aside
from raftlog.runtime.process.abandonment import abandon
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.storage.roll import Roll
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS, make_refusal
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)
_NOT_OURS = ("lost+found",)
_RETRY_S = 1.0
"""Pause after a full disk, or before a directory that is still in use is examined again."""
_BARRIER_MS = 2_000
LEADERS_MS = 3_000
"""Longest time to wait for leaders of new partitions."""
_REMOVED_TOGETHER = 64
"""Replicas removed in one turn of the loop."""


class _MissingReplica(NamedTuple):
    """Replica that this disk should have and that does not exist.

    `is_first`: one of the first replicas, made from the group's first roll. `was_here`: this disk had a replica of
    it, which was removed."""

    topic: Topic
    number: int
    is_first: bool
    was_here: bool


class Assignments(BackgroundLoop):
    """Background task that creates and removes the replicas of this broker by the controller's assignments."""

    purpose = "following the controller's assignments"

    def __init__(
        self,
        node: Node,
        metadata: ControllerHost,
        topics: Topics,
        counters: Counters,
        producers_max: int,
        lag_ticks_max: int = 0,
    ) -> None:
        """Prepare the task. `lag_ticks_max`: lag up to which a replica is shown as in sync."""
        self.replicas: dict[GroupKey, Replica] = {}
        """Replicas of topic partitions; the controller's own is not among them."""
        self.on_step: Callable[[PartitionReplica, Ready], None] = lambda group, ready: None
        """Callback for every Ready of any group, called after its replica."""
        self.on_made: Callable[[], None] = lambda: None
        """Callback after replicas were created here: they may be assigned to others by now."""
        self._node, self._metadata, self._topics, self._counters = node, metadata, topics, counters
        self._producers_max = producers_max
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._leaving: dict[str, GroupKey] = {}
        """Directories of groups whose removal has begun."""
        self._empty: dict[GroupKey, Partition] = {}
        """Groups without a Raft configuration, which wait for a leader to fill them."""
        self._loading, self._lag_ticks_max = ReadQueue(), lag_ticks_max
        self._unknown: dict[GroupKey, None] = {}
        """Groups of no known topic that were reported."""

    def start(self) -> None:
        """Connect the recovered groups, and begin to follow the controller's state."""
        self._node.on_step = self._on_step
        self._node.leaders.preferred = self._preferred
        self._node.fitness_exchange.fitness.is_excluded = self._is_excluded
        self._node.driver.on_removed = self._changed.set
        self.state_changed()
        super().start()

    def state_changed(self) -> None:
        """Follow the changed state of the controller."""
        self._attach()
        self._settled.clear()
        self._changed.set()

    @property
    def is_settled(self) -> bool:
        """Whether the replicas match the controller's state."""
        return self._settled.is_set()

    async def wait_until_settled(self, deadline: Deadline) -> bool:
        """Wait until the replicas match the controller's state; return False if the deadline passes first."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._settled.wait()
        except TimeoutError:
            return False
        return True

    async def wait_for_leaders(self, partitions: Sequence[Partition], deadline: Deadline) -> None:
        """Wait for leaders of new partitions, at most `LEADERS_MS`."""
        until = Deadline(min(deadline, deadline_in(LEADERS_MS)))
        await self.wait_until_settled(until)
        for partition in partitions:
            await self._node.wait_for_leader(partition.group_id, until)

    def set_aside_unknown(self) -> None:
        """Move directories without a group out of the way, and report them; their files are kept. Blocking.

        Without room or descriptors they stay in place. Call it once the replicas match the state: a directory that a
        crash left incomplete has been reused by then."""
        driver = self._node.driver
        disk, data_dir = driver.disk, driver.data_dir
        known = self._paths_in_use()
        for name in disk.list_directory(data_dir):
            path = f"{data_dir}/{name}"
            if name.startswith(".") or name in _NOT_OURS or path in known or not disk.is_directory(path):
                continue
            inner = [f"{path}/{child}" for child in disk.list_directory(path)]
            strangers = [each for each in inner if each not in known]
            for stranger in [path] if len(strangers) == len(inner) else strangers:
                try:
                    kept = self._move_aside(stranger)
                except Unavailable as error:
                    _logger.warning("%s is not known to this broker; it stays in place: %s", stranger, error)
                    continue
                _logger.warning("%s is not known to this broker; it is kept in %s", stranger, kept)

    def _move_aside(self, path: str) -> str:
        """Move a directory out of the way; return its new path. Raises `StorageFull` and `DescriptorsExhausted`."""
        driver = self._node.driver
        try:
            return move_aside(driver.disk, driver.data_dir, path)
        except OSError as error:
            if error.errno in TEMPORARY_ERRORS:
                raise make_refusal(path, error, "add space, or move it away") from None
            raise

    # callbacks of the groups

    def _on_step(self, group: PartitionReplica, ready: Ready) -> None:
        """Pass a step to the group's replica, which begins with the first configuration; none with messages alone."""
        replica = self.replicas.get(group.key)
        if replica is not None:
            if not ready.has_only_messages:
                replica.on_step(ready)
        elif group.key in self._empty and group.core.configuration.index:
            self._begin_replica(self._empty.pop(group.key), group)
        self.on_step(group, ready)

    def _preferred(self, group_id: UUID) -> ReplicaId | None:
        """Return the replica that should lead: the first not in maintenance or draining; None without one."""
        state = self._metadata.state
        name = state.group(group_id)
        if name is None:
            return None
        moved = state.moved.get(name)  # called for every group that is led here, each second: no row is made for it
        replicas = moved.replicas if moved else state.topic_by_id(name.topic_id).origin(name.partition).replicas
        return next((replica for replica in replicas if not state.is_excluded(replica.node_id)), None)

    def _is_excluded(self, node: NodeId) -> bool:
        """Return whether operators want the node to lead nothing."""
        return self._metadata.state.is_excluded(node)

    # following

    async def _run(self) -> None:
        """Follow the controller's assignments at each change; retry when a step is unavailable."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                is_done = await self._follow()
            except Unavailable as error:
                if self._node.has_failed:
                    return
                _logger.warning("%s; retrying", error)
                await self._node.pause(Deadline(self._node.loop.time() + _RETRY_S))
                self._changed.set()
                continue
            if not is_done:
                await self._wait_for_room(_RETRY_S)
                self._changed.set()
            elif not self._changed.is_set():
                self._settled.set()

    async def _wait_for_room(self, seconds: float) -> None:
        """Wait until a removal ends or the state changes: the directory that a new replica needs is still in use."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _follow(self) -> bool:
        """Compare all replicas with the state once; return False if a directory has to be freed first."""
        await self._remove_deleted()
        try:
            return await self._create_missing()
        except Unavailable:  # some may have been created before
            self._attach()
            self.on_made()
            raise

    async def _create_missing(self) -> bool:
        """Create the missing replicas whose directories are free; return whether these were all."""
        missing, ready = self._find_missing()
        is_any_ready = bool(ready)
        await self._create([each for each in ready if each.is_first])
        await self._join([each for each in ready if not each.is_first and not each.was_here])
        self._attach()
        if any(each.was_here for each in ready):
            # an old copy of the state would bring back replicas that were removed since
            await self._metadata.barrier(deadline_in(_BARRIER_MS))
            missing, ready = self._find_missing()
            await self._join([each for each in ready if each.was_here])
            self._attach()
        if is_any_ready:
            self.on_made()
        return len(ready) == len(missing)

    def _find_missing(self) -> tuple[list[_MissingReplica], list[_MissingReplica]]:
        """Return the missing replicas, and those of them that can be created now."""
        missing, in_use = list(self._missing()), self._paths_in_use()
        return missing, [each for each in missing if self._path(each.topic, each.number) not in in_use]

    async def _remove_deleted(self) -> None:
        """Remove the replicas of deleted topics, a few at a time."""
        count = 0
        for group in list(self._node.driver.groups.values()):
            if self._is_deleted(group):
                self.remove(group, "its topic was deleted")
                count += 1
                if count % _REMOVED_TOGETHER == 0:
                    await asyncio.sleep(0)

    def remove(self, group: PartitionReplica, why: str) -> None:
        """Delete a replica that this broker should not have, with its directory."""
        event(_logger, "replica_removed", group=group.name, why=why)
        self._forget(group)
        self._node.remove_group(group.group_id)

    async def set_aside(self, group: PartitionReplica) -> str:
        """Move a replica's files aside for an operator, so that it begins again empty; return the new directory."""
        self._forget(group)
        self._node.leaders.forget(group.key)
        kept = await abandon(self._node.driver, group)
        self._changed.set()
        return kept

    def _forget(self, group: PartitionReplica) -> None:
        """Remove a replica from this broker's tables; its files are deleted later."""
        self._empty.pop(group.key, None)
        replica = self.replicas.pop(group.key, None)
        if replica is not None:
            replica.close()
        name = self._metadata.state.group(group.group_id)
        topic = None if name is None else self._topics.by_id(name.topic_id)
        if name is not None and topic is not None:
            topic.partitions[name.partition].replica = None
        self._leaving[group.path] = group.key

    def _is_deleted(self, group: PartitionReplica) -> bool:
        """Return whether the topic of a Raft group was deleted; warn once of a group of an unknown topic."""
        state = self._metadata.state
        if group.group_id == self._metadata.group_id or state.group(group.group_id) is not None:
            return False
        number = group.path.rpartition("/")[2]
        if number.isdigit():
            numbers = range(int(number), int(number) + 1)
        else:  # a crash during an installation lost its directory's name, so it can be any partition of a deleted topic
            numbers = range(max((tombstone.partition_count for tombstone in state.deleted), default=0))
        if any(state.deletion_of(group.group_id, each) is not None for each in numbers):
            return True
        if group.key not in self._unknown:
            self._unknown[group.key] = None
            _logger.warning(
                "%s: group %s belongs to no topic that this broker knows; it is kept", group.path, group.group_id
            )
        return False

    def _missing(self) -> Iterator[_MissingReplica]:
        """Yield the partitions that are assigned to this disk, or began here, and have no replica here."""
        me, driver = self._node.identity.replica, self._node.driver
        for topic in self._topics:
            row = topic.row
            created = row.first_replicas
            for number, replicas in enumerate(self._metadata.state.replicas_of(row)):
                key = topic.partitions[number].group_id.bytes
                if key in driver.groups or (me not in replicas and me not in created[number]):
                    continue
                was_here = driver.persister.checkpoints.was_removed(key)
                is_first = not was_here and me in created[number]
                if is_first or me in replicas:
                    yield _MissingReplica(topic, number, is_first, was_here)

    def _paths_in_use(self) -> dict[str, GroupKey]:
        """Return the directories of groups that exist or are being removed.

        The latter can be those of an earlier topic of the same name."""
        driver = self._node.driver
        for path, key in list(self._leaving.items()):
            if not driver.persister.is_leaving(key):
                del self._leaving[path]
        return {**self._leaving, **{group.path: key for key, group in driver.groups.items()}}

    def _path(self, topic: Topic, number: int) -> str:
        """Return the directory of a partition's replica."""
        return f"{self._node.driver.data_dir}/{topic.name}/{number}"

    async def _create(self, missing: list[_MissingReplica]) -> None:
        """Create first replicas from their first rolls."""
        creations: list[tuple[Roll, str | None]] = [
            (first_roll(topic.row, number), f"{topic.name}/{number}") for topic, number, *_ in missing
        ]
        groups = self._node.driver.groups
        try:
            await self._node.create_groups(creations)
        except FormatError:
            self._make_room(missing)
            await self._node.create_groups([each for each in creations if each[0].group_id.bytes not in groups])
        for _, name in creations:
            event(_logger, "replica_added", group=name, how="first")

    async def _join(self, missing: list[_MissingReplica]) -> None:
        """Create empty replicas, to be filled by their leaders."""
        joining: list[tuple[UUID, str | None]] = [
            (topic.partitions[number].group_id, f"{topic.name}/{number}") for topic, number, *_ in missing
        ]
        groups = self._node.driver.groups
        try:
            await self._node.join_groups(joining)
        except FormatError:
            self._make_room(missing)
            await self._node.join_groups([each for each in joining if each[0].bytes not in groups])
        for _, name in joining:
            event(_logger, "replica_added", group=name, how="empty")

    def _make_room(self, missing: list[_MissingReplica]) -> None:
        """Move directories of other disks or deleted topics out of the way, so that missing replicas can be created."""
        driver = self._node.driver
        for topic, number, *_ in missing:
            path, key = self._path(topic, number), topic.partitions[number].group_id.bytes
            if key not in driver.groups and driver.disk.exists(path):
                kept = self._move_aside(path)
                _logger.warning("%s held files that the journal does not know; they are kept in %s", path, kept)

    # replicas for the broker

    def _attach(self) -> None:
        """Connect every group here to a `Replica`, and every partition to its replica."""
        groups = self._node.driver.groups
        for topic in self._topics:
            for partition in topic.partitions:
                key = partition.group_id.bytes
                group = groups.get(key)
                if group is None or partition.replica is not None:
                    continue
                if group.core.configuration.index:
                    self._begin_replica(partition, group)
                else:
                    self._empty[key] = partition

    def _begin_replica(self, partition: Partition, group: PartitionReplica) -> None:
        """Create the replica of a partition on its Raft group."""
        config = partition.config
        bounds = (self._producers_max, self._lag_ticks_max)
        replica = Replica(partition.name, group, config, self._counters, self._loading, *bounds)
        self.replicas[group.key] = partition.replica = replica
