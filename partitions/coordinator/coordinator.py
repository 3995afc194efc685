"""Coordinator of one partition of an internal topic, at the partition's leader and for one term.

    loading   its log is folded up to an entry of this leader's own term: requests wait, or get `CoordinatorLoading`
    serving   its machine decides, and its log follows
    over      the leadership or the term is lost, or another coordinator replaces it after an error: waiting requests
              fail with `NotLeader`, and all state is dropped; nothing more is appended

Decisions of the machine are appended in the order in which they were made, by the replica of this leader and in its
term (`log`). A subclass has the machine. Made and ended by `coordinators`."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from raftlog.errors import (
    CoordinatorLoading,
    DeadlineExceeded,
    FormatError,
    NotLeader,
    OffsetNotAvailable,
    Overloaded,
    RaftlogError,
)
from raftlog.events import event
from raftlog.partitions.coordinator.folded import FoldedLog, LogEntry
from raftlog.partitions.coordinator.log import LogWriter
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.produce.pending import copied_error
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.raft import ReplicaId
from raftlog.types import Term

_logger = logging.getLogger(__name__)
F = TypeVar("F", bound=FoldedLog[Any, Any])
_LOOK_MS: Final = 2_000
_PAUSE_MS: Final = 50
"""Pause between two attempts to load."""
_PART: Final = "coordinator"
"""Key of the coordinator in `PartitionReplica.unreadable`."""


class PartitionCoordinator(ABC, Generic[F]):
    """Coordinator of one partition of an internal topic, at the partition's leader.

    It calls `failed` with itself when a new coordinator must read the log again."""

    def __init__(self, replica: Replica, folded: F, wall_ms: Callable[[], int], failed: Callable[[Any], None]) -> None:
        """Create the coordinator of a leader's term.

        The log is not read yet; `folded` will have its state. `failed` is called with the coordinator when a new one
        must read the log again."""
        self.replica = replica
        self.term: Term = replica.group.core.term
        self.folded = folded
        self.is_loaded = False
        self.stated_bytes = 0
        """Size of the log when its current values were last appended again, in bytes."""
        self.problem: FormatError | None = None
        """Error of a log that this release cannot read."""
        self._loads_to = replica.group.core.last_id.index
        """Last entry of the log, perhaps not committed yet, perhaps of an earlier coordinator in the same term."""
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self.writer = LogWriter(replica, self.term, folded, wall_ms, self._apply_up_to)
        self.leads = self.writer.leads
        """Whether this replica leads, in the term of this coordinator."""
        self._over: NotLeader | None = None
        self._readiness: asyncio.Future[None] = self._loop.create_future()
        """Future that completes once the coordinator serves, cannot read its log, or has ended."""

    # the machine

    @abstractmethod
    def begin(self) -> None:
        """Begin to serve with the state that was applied from the log."""

    @abstractmethod
    def stop(self, error: NotLeader) -> None:
        """Fail all waiting requests with `error`, and drop the state."""

    @abstractmethod
    def topics_changed(self) -> None:
        """Update the state after topics or their partitions changed."""

    @abstractmethod
    async def expire(self) -> None:
        """Append tombstones for expired keys."""

    @abstractmethod
    def is_kept(self, key: Any) -> bool:
        """Return whether the value of a key must be written again when the log is shortened."""

    # begin and end

    @property
    def is_over(self) -> bool:
        """Whether the coordinator has ended, so that another one replaces it."""
        return self._over is not None

    async def load(self) -> bool:
        """Apply the log in slices, then begin to serve; return False if the coordinator ended before."""
        while not self.is_over and self.leads():
            try:
                await self._wait_for_earlier_entries(deadline_in(_LOOK_MS))
                await self.folded.catch_up(self.replica.group)
            except FormatError as error:
                if self.is_over:  # it lost the leadership between two slices
                    return False
                self.problem = error
                self._readiness.set_result(None)
                self.replica.group.unreadable[_PART] = str(error)
                event(_logger, "log_unreadable", group=self.replica.name, why=str(error))
                return False
            except RaftlogError as error:
                _logger.debug("%s cannot be read yet: %s", self.replica.name, error)
                await asyncio.sleep(_PAUSE_MS / 1000)
            else:
                if self.is_over or not self.leads():
                    return False
                self.is_loaded = True
                self.begin()
                self._readiness.set_result(None)
                return True
        return False

    async def _wait_for_earlier_entries(self, deadline: Deadline) -> None:
        """Wait until all entries are delivered that the log had when this coordinator began.

        Raises the errors of `Replica.offsets`."""
        await self.replica.offsets(False, deadline)
        while self.replica.group.applied_index < self._loads_to and self.leads():
            if not await self.replica.waits.wait(1, deadline):
                raise OffsetNotAvailable(f"{self.replica.name}: entries of an earlier coordinator are not committed")

    def end(self, leader: ReplicaId | None = None) -> None:
        """End the coordinator; `leader` is the next leader if it is known."""
        if self._over is not None:
            return
        self._over = self._moved_error(leader)
        self.stop(self._over)
        self.writer.close()
        self.replica.group.unreadable.pop(_PART, None)  # from now on the next leader's broker reports it
        if not self._readiness.done():
            self._readiness.set_result(None)

    def _moved_error(self, leader: object) -> NotLeader:
        """Return the error that another broker is the coordinator; `leader` is its node, if known."""
        return NotLeader(f"{self.replica.name}: another broker is its coordinator", leader)

    async def wait_until_ready(self, deadline: Deadline) -> None:
        """Wait until the coordinator serves.

        Raises `NotLeader`, `CoordinatorLoading`, and `FormatError` for a log of a newer release."""
        if not self._readiness.done():
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.shield(self._readiness)
            except TimeoutError:
                pass
        self.check()

    def check(self) -> None:
        """Raise the errors of `wait_until_ready` unless the coordinator serves."""
        if self._over is not None:
            raise self._moved_error(self._over.leader)
        if self.problem is not None:
            raise FormatError(str(self.problem))
        if not self.is_loaded:
            raise CoordinatorLoading(f"{self.replica.name}: its coordinator is still loading; retry")
        if not self.leads():
            raise self._moved_error(self.replica.group.core.leader)

    def _apply_up_to(self, appended: ReplicaAppended) -> bool:
        """Apply the log's entries before an append; return whether the append is the next entry to apply."""
        folded, group = self.folded, self.replica.group
        try:
            while folded.next_offset < appended.base_offset:
                folded.read_on(group)
            if folded.next_offset == appended.base_offset:
                return True
            while folded.next_offset < appended.next_offset:
                folded.read_on(group)
        except RaftlogError as error:
            _logger.warning("%s: the coordinator loads its log anew: %s", self.replica.name, error)
            self._loop.call_soon(self._failed, self)
        return False

    # log

    async def commit_entries(self, entries: Sequence[LogEntry[Any, Any]], deadline: Deadline) -> None:
        """Append entries and wait for their commit. Raises the errors of an append, and `DeadlineExceeded`."""
        if entries:
            await self._wait_for_commit(self.writer.write(entries), deadline)

    async def wait_for_pending(self, deadline: Deadline) -> bool:
        """Wait until pending appends are committed; return whether there were any.

        Raises the errors of `commit_entries`."""
        barrier = self.writer.barrier()
        if barrier is None:
            return False
        try:
            await self._wait_for_commit(asyncio.shield(barrier), deadline)
        except RaftlogError as error:
            raise copied_error(error) from None
        return True

    async def _wait_for_commit(self, done: "asyncio.Future[None]", deadline: Deadline) -> None:
        """Wait for the commit of an append. Raises the error of the append, and `DeadlineExceeded`."""
        try:
            async with asyncio.timeout_at(deadline):
                await done
        except TimeoutError:
            raise DeadlineExceeded(f"{self.replica.name}: appended, but not committed before the deadline") from None

    async def confirm(self, deadline: Deadline) -> None:
        """Confirm that no newer coordinator exists, before a request is refused because of the local state.

        A deposed coordinator may have removed or fenced a group member that continues elsewhere. Raises `NotLeader` and
        `OffsetNotAvailable`."""
        await self.replica.offsets(True, deadline)
        self.check()

    async def wait_until_current(self, deadline: Deadline) -> None:
        """Wait until every entry that any coordinator acknowledged before this call is applied."""
        await self.wait_until_ready(deadline)
        await self.replica.offsets(True, deadline)
        await self.catch_up(deadline)

    async def catch_up(self, deadline: Deadline) -> None:
        """Apply all entries that are committed here."""
        try:
            async with asyncio.timeout_at(deadline):
                await self.folded.catch_up(self.replica.group)
        except TimeoutError:
            raise Overloaded(f"{self.replica.name}: the deadline passed while its log was read; retry") from None
        self.check()
