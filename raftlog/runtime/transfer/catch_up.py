"""Tasks that fetch entries outside of Raft's messages: missing entries of a follower, and damaged ones.

For each group at most one task that fetches and one that repairs; neither needs a cleanup after a crash. A task that
fails is started again: a fetch by the leader's next offer after a pause, a repair after a pause, as long as there is
damage. Another leader's offer ends the fetch from the former one at once. While another log replaces a group's log, no
repair runs in it. A rebuild runs to its end, unless the replica is removed: half of it would leave a replica that
cannot work again.

    groups that fetch at the same time ≤ transfers_max; the others wait"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from raftlog.errors import RaftlogError, Unavailable
from raftlog.events import event
from raftlog.raft.messages import InstallOffer
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transfer.installation import Installation
from raftlog.runtime.transfer.log_fetch import LogFetch
from raftlog.runtime.transfer.ports import TransferPort
from raftlog.runtime.transfer.rebuild import Rebuild, RebuildResult
from raftlog.runtime.transfer.repair import Repair

_logger = logging.getLogger(__name__)
_DOUBLINGS_MAX = 6
"""Each failure in a row doubles the pause, up to 32 times the first one."""


class CatchUp:
    """Background tasks that fetch, repair or rebuild the logs of a driver's replicas."""

    def __init__(self, port: TransferPort) -> None:
        """Begin without fetches and repairs."""
        self._port = port
        self._bytes_fetched = 0
        """Number of bytes of batches that completed fetches have appended."""
        self._fetches: dict[GroupKey, tuple[LogFetch, asyncio.Task[None]]] = {}
        self._transfers = asyncio.Semaphore(port.config.transfers_max)
        self._turn_waits: list[asyncio.Future[None]] = []
        self._installing: dict[GroupKey, None] = {}
        """Groups whose log is being replaced."""
        self._tasks: dict[GroupKey, asyncio.Task[None]] = {}
        """Repair task of each group that is being repaired."""
        self._rebuilds: dict[GroupKey, asyncio.Task[RebuildResult]] = {}
        self._failures: dict[GroupKey, int] = {}
        """Number of consecutive failures of a group's repair."""

    # missing entries

    def take_offer(self, group: PartitionReplica, offer: InstallOffer) -> None:
        """Start a fetch from a leader that offers its log: too many entries are missing here, or are trimmed there."""
        key = group.key
        if key in self._rebuilds:
            return
        if key in self._fetches:
            fetching, task = self._fetches[key]
            if (fetching.leader, fetching.term) == (offer.sender, offer.term):
                return
            task.cancel()
        fetching = LogFetch(self._port, group, offer, self._wait_turn)
        work = self._fetch(group, fetching)
        self._fetches[key] = fetching, self._port.loop.create_task(work, name=f"fetching for {group.path}")

    @property
    def is_fetching(self) -> bool:
        return bool(self._fetches)

    @property
    def bytes_fetched(self) -> int:
        """Number of bytes of batches that were fetched and appended."""
        return self._bytes_fetched + sum(fetching.bytes_taken for fetching, _ in self._fetches.values())

    def note_turn(self) -> None:
        """Wake the tasks that wait for the end of a turn; called by the driver."""
        if self._turn_waits:
            waits, self._turn_waits = self._turn_waits, []
            for wait in waits:
                if not wait.done():
                    wait.set_result(None)

    def _wait_turn(self) -> "asyncio.Future[None]":
        """Return a future that completes after the driver's next turn."""
        wait: asyncio.Future[None] = self._port.loop.create_future()
        self._turn_waits.append(wait)
        return wait

    async def _fetch(self, group: PartitionReplica, fetching: LogFetch) -> None:
        """Replace the log if the leader's begins too late, then fetch the leader's entries; pause after a failure."""
        node = fetching.leader.node_id
        try:
            async with self._transfers:
                event(_logger, "catch_up_begun", group=group.name, leader=node)
                if group.core.needs_install(fetching.offer.boundary):
                    await self._install(group, fetching)
                await fetching.run()
                event(_logger, "catch_up_ended", group=group.name, leader=node, bytes=fetching.bytes_taken, why="done")
        except (RaftlogError, OSError, TimeoutError) as error:
            reason = str(error) or type(error).__name__
            event(_logger, "catch_up_ended", group=group.name, leader=node, bytes=fetching.bytes_taken, why=reason)
            await asyncio.sleep(self._port.config.retry_pause_ms / 1000)
        finally:
            self._bytes_fetched += fetching.bytes_taken
            if self._fetches.get(group.key, (None,))[0] is fetching:
                del self._fetches[group.key]

    async def _install(self, group: PartitionReplica, fetching: LogFetch) -> None:
        """Replace the log by the leader's; end a repair of the old log, and repair a quarantined replica again."""
        self._installing[group.key] = None
        repair = self._tasks.pop(group.key, None)
        if repair is not None:
            repair.cancel()
        try:
            await Installation(self._port, group, fetching.leader.node_id).run()
        finally:
            del self._installing[group.key]
            if group.damage is not None and not group.is_closed and self._port.failure is None:
                self.repair(group)

    # damaged entries

    def repair(self, group: PartitionReplica) -> None:
        """Start a repair after damage was found, unless the log is being replaced: then after the replacement."""
        if group.key not in self._failures:
            event(_logger, "replica_quarantined", group=group.name, why=str(group.damage))
        if not any(group.key in those for those in (self._tasks, self._installing, self._rebuilds)):
            self._begin(group, Repair(self._port, group).run, "repair")

    async def rebuild(self, group: PartitionReplica, term_min: int) -> RebuildResult:
        """Rebuild the log, so that the replica continues alone.

        The rebuild runs to its end even without waiters; further callers wait for the same one. Repairs and transfers
        for the group end. Raises like `Rebuild.run`, and `Unavailable` when the replica is removed meanwhile."""
        task = self._rebuilds.get(group.key)
        if task is None:
            if group.key in self._installing:
                raise Unavailable(f"{group.name}: a leader's log is replacing this one; retry")
            self.forget(group)
            work = Rebuild(self._port, group, term_min).run()
            task = self._port.loop.create_task(work, name=f"rebuilding of {group.path}")
            self._rebuilds[group.key] = task
            task.add_done_callback(partial(self._finish_rebuild, group))
        await asyncio.wait([task])
        if task.cancelled():
            raise Unavailable(f"{group.name}: the replica was removed, or the process stops; retry")
        return task.result()

    def is_rebuilding(self, group: PartitionReplica) -> bool:
        """Return whether the group's log is being rebuilt."""
        return group.key in self._rebuilds

    def _finish_rebuild(self, group: PartitionReplica, task: "asyncio.Task[RebuildResult]") -> None:
        """Remove the ended rebuild, log its failure, and repair the log if it is still damaged."""
        if self._rebuilds.get(group.key) is task:
            del self._rebuilds[group.key]
        if not task.cancelled() and task.exception() is not None:
            _logger.warning("%s does not continue alone: %s", group.path, task.exception())
        if group.damage is not None and not group.is_closed and self._port.failure is None:
            self.repair(group)

    def forget(self, group: PartitionReplica) -> None:
        """Cancel the tasks of a group that is removed or rebuilt."""
        for task in (self._tasks.pop(group.key, None), self._rebuilds.pop(group.key, None)):
            if task is not None:
                task.cancel()
        if group.key in self._fetches:
            self._fetches.pop(group.key)[1].cancel()
        self._failures.pop(group.key, None)

    def stop(self) -> None:
        """Cancel all tasks."""
        fetches = (task for _, task in self._fetches.values())
        for task in (*self._tasks.values(), *self._rebuilds.values(), *fetches):
            task.cancel()
        self._tasks.clear()
        self._rebuilds.clear()
        self._fetches.clear()

    def _begin(self, group: PartitionReplica, run: Callable[[], Coroutine[Any, Any, None]], repair_name: str) -> None:
        """Start a task that runs and retries a repair, which logs call `repair_name`."""
        self._tasks[group.key] = self._port.loop.create_task(
            self._run(group, run, repair_name), name=f"{repair_name} {group.path}"
        )

    async def _run(
        self, group: PartitionReplica, run: Callable[[], Coroutine[Any, Any, None]], repair_name: str
    ) -> None:
        """Run a repair of the replica; retry with doubling pauses while damage is left."""
        key = group.key
        try:
            await run()
            self._failures.pop(key, None)
            if group.damage is not None:
                await asyncio.sleep(self._port.config.retry_pause_ms / 1000)
        except (RaftlogError, OSError, TimeoutError) as error:
            _logger.warning("%s of %s failed and will be retried: %s", repair_name, group.path, error)
            group.repair_note = f"retrying: {error}"
            failures = self._failures[key] = min(self._failures.get(key, 0) + 1, _DOUBLINGS_MAX)
            await asyncio.sleep(self._port.config.retry_pause_ms / 1000 * 2 ** (failures - 1))
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]
        if group.damage is not None and not group.is_closed and self._port.failure is None:
            self.repair(group)
