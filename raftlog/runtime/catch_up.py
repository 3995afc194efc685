"""What replicas do for each other outside of Raft's messages: the installation of a log, and the repair of entries.

One task at a time for each group; none of them holds anything that a crash would spoil. A task that fails is begun
again: an installation by the leader's next offer, a repair after a pause, for as long as there is something to repair.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from raftlog.errors import CorruptBatch, RaftlogError, Unavailable
from raftlog.raft.messages import InstallOffer
from raftlog.runtime.bulk import EntriesAsked, EntriesFound, LogAsked, LogFound, StoredEntry
from raftlog.runtime.group import Group
from raftlog.runtime.installation import Installation
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.repairing import Repair
from raftlog.types import Index, NodeId, Offset, Term

if TYPE_CHECKING:  # the driver owns this
    from raftlog.runtime.driver import Driver

_logger = logging.getLogger(__name__)
_DOUBLINGS_MAX = 6
"""Each failure in a row doubles the pause, up to 32 times the first one."""


class CatchUp:
    """The tasks of a driver's groups, and the answers to those of others."""

    def __init__(self, driver: "Driver") -> None:
        self._driver = driver
        self._tasks: dict[GroupKey, asyncio.Task[None]] = {}
        self._failures: dict[GroupKey, int] = {}
        """How often in a row a group's task was given up."""

    # tasks of this process

    def offered(self, group: Group, offer: InstallOffer) -> None:
        """The leader's log begins behind the end of ours."""
        if group.key not in self._tasks:
            self._begin(group, Installation(self._driver, group, offer).run, "installation")

    def repair(self, group: Group) -> None:
        """Damage was found; a task that is under way goes first, and repair follows it."""
        if group.key not in self._tasks:
            self._begin(group, Repair(self._driver, group).run, "repair")

    def forget(self, group: Group) -> None:
        """The group is gone: nobody waits for its task any more."""
        task = self._tasks.pop(group.key, None)
        if task is not None:
            task.cancel()
        self._failures.pop(group.key, None)

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()

    def _begin(self, group: Group, run: Callable[[], Coroutine[Any, Any, None]], what: str) -> None:
        self._tasks[group.key] = self._driver.loop.create_task(self._run(group, run, what), name=f"{what} {group.path}")

    async def _run(self, group: Group, run: Callable[[], Coroutine[Any, Any, None]], what: str) -> None:
        key = group.key
        try:
            await run()
            self._failures.pop(key, None)
            if group.damage is not None:
                await asyncio.sleep(self._driver.config.retry_pause_ms / 1000)
        except (RaftlogError, OSError, TimeoutError) as error:
            _logger.warning("%s of %s was given up for now: %s", what, group.path, error)
            failures = self._failures[key] = min(self._failures.get(key, 0) + 1, _DOUBLINGS_MAX)
            await asyncio.sleep(self._driver.config.retry_pause_ms / 1000 * 2 ** (failures - 1))
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]
        if group.damage is not None and not group.is_closed and self._driver.failure is None:
            self.repair(group)

    # answers to others

    def serve(self, node: NodeId, request: object) -> object:
        """Answer a replica on another node; raises `Unavailable` for what this one does not have."""
        if isinstance(request, LogAsked):
            return self._log(self._group(request.group))
        if isinstance(request, EntriesAsked):
            return self._entries(self._group(request.group), request)
        raise Unavailable(f"node {node} asks for {type(request).__name__}, which is not known here")

    def _group(self, key: GroupKey) -> Group:
        group = self._driver.groups.get(key)
        if group is None:
            raise Unavailable(f"group {key.hex()} has no replica on node {self._driver.me.node_id}")
        return group

    def _log(self, group: Group) -> LogFound:
        log = group.log
        if not log.segments.segments or group.damage is not None:
            raise Unavailable(f"{group.path} has no sound log to give away")
        self._pin(group)
        first = log.segments.segments[0]
        last = min(group.applied_index, log.written_index)
        start = group.trim_to if group.trim_to is not None else group.log_start_offset  # it follows every applied trim
        return LogFound(log.boundary, Offset(first.base_offset), start, Index(last))

    def _entries(self, group: Group, asked: EntriesAsked) -> EntriesFound:
        log = group.log
        if not log.boundary.index < asked.first_index <= log.written_index:
            raise Unavailable(f"{group.path} holds entries {log.boundary.index + 1} to {log.written_index}")
        self._pin(group)
        last = Index(min(asked.last_index, log.written_index))
        size = min(asked.bytes_max, self._driver.config.transfer_chunk_bytes)
        try:
            stored = log.segments.read_entries(asked.first_index, last, size)
        except CorruptBatch as error:
            group.note_damage(error)
            raise
        return EntriesFound(tuple(StoredEntry(Index(row.index), Term(row.term), bytes(b)) for row, b in stored))

    def _pin(self, group: Group) -> None:
        """Nothing is trimmed for as long as one question may take."""
        group.pinned_until = self._driver.loop.time() + self._driver.config.transfer_timeout_ms / 1000
