"""Local copy of the controller's state, applied entry by entry from the replica of this process.

    state.applied_index < next index to read ≤ applied index of the group + 1

No other process is asked, and voters and learners work alike. When the log begins with a roll that is not the
group's first one, the snapshot after that roll gives the state; an unfinished one is skipped. The loop is held for
`fold_ms` at a time. An entry that this release cannot read stops the process: skipping it would change the state.
Called by the host, with every Ready of the group."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple
from uuid import UUID

from raftlog.errors import (
    CorruptBatch,
    DescriptorsExhausted,
    EntriesTrimmed,
    FormatError,
    InvalidBatch,
    RaftlogError,
    StorageError,
)
from raftlog.partitions.controller.change_events import write_event
from raftlog.partitions.controller.machine import (
    CommandAnswer,
    ControllerState,
    Restoration,
    SnapshotReader,
    decode_request,
)
from raftlog.partitions.controller.machine.rows import AnsweredRequest
from raftlog.partitions.deadline import Deadline
from raftlog.raft import Role
from raftlog.records import ControlKind, read_records
from raftlog.runtime.log.committed_entries import CommittedEntry
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index

_logger = logging.getLogger(__name__)
_READ_BYTES: Final = 128 * 1024
_SLICE_ENTRIES: Final = 512
"""Maximum number of entries in a slice, for a clock that does not advance, as in the simulation."""
_DAMAGE_PAUSE_S: Final = 1.0
"""Pause before a damaged entry, which is being repaired, is read again."""


class Decision(NamedTuple):
    """Result of a command, and the index of its log entry."""

    index: Index  # type: ignore[assignment]  # tuple.index is never wanted here
    answer: CommandAnswer


class LocalCopy:
    """Copy of the controller's state in one process, updated from its replica of the log; see `attach`."""

    def __init__(self, fold_ms: float, fail: Callable[[RaftlogError], None]) -> None:
        """Create an empty copy. It applies entries in slices of `fold_ms` milliseconds; `fail` ends the process."""
        self._loop = asyncio.get_running_loop()
        self._slice_s, self._fail = fold_ms / 1000, fail
        self.state = ControllerState()
        """Present state; replaced when a snapshot is read."""
        self.group: PartitionReplica | None = None
        self.on_applied: Callable[[], None] = lambda: None
        self.snapshot_bytes = 0
        """Size of the newest complete snapshot in the log."""
        self.problem: str | None = None
        """Reason why the copy is not updated, or differs from the others."""
        self._next = Index(1)
        self._chunk: deque[CommittedEntry] = deque()
        self._reader: SnapshotReader | None = None
        """Reader of the snapshot that the state has to be read from; else None."""
        self._restoration: Restoration | None = None
        self._run_bytes = 0
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._expected: dict[UUID, list[asyncio.Future[Decision]]] = {}
        self._waiting: list[tuple[Index, asyncio.Future[None]]] = []
        self._hash_received: tuple[Index, bytes] | None = None

    def attach(self, group: PartitionReplica) -> None:
        """Set the replica whose log this copy follows from now on."""
        assert self.group in (None, group), f"follows {self.group} already"
        self.group = group

    # folding

    def apply_all(self) -> None:
        """Apply all committed entries; blocking. Raises `FormatError` and `CorruptBatch`."""
        while self._has_unapplied():
            self._apply_some(lambda: False)

    def follow(self) -> None:
        """Apply entries in the background if the group has committed further entries."""
        if not self._is_scheduled and self._has_unapplied():
            self._is_scheduled = True
            self._loop.call_soon(self._apply_slice)

    def stop(self) -> None:
        """Stop following the replica; cancel a pending retry."""
        if self._timer is not None:
            self._timer.cancel()
        self.group = None

    @property
    def is_up_to_date(self) -> bool:
        """Whether the state has all committed entries that were delivered here."""
        return self.group is not None and not self._has_unapplied() and self._reader is None

    def _has_unapplied(self) -> bool:
        """Return whether committed entries or a snapshot wait to be applied."""
        if self.group is None or self.group.is_closed:
            return False
        return self._restoration is not None or self._next <= self.group.applied_index

    def _apply_slice(self) -> None:
        """Apply entries for at most `fold_ms`, report them, and schedule the next slice if entries are left."""
        self._is_scheduled = False
        before, until, count = self.state, self._loop.time() + self._slice_s, 0
        applied = before.applied_index

        def has_slice_ended() -> bool:
            """Count an entry; return whether the slice has reached its limit of entries or time."""
            nonlocal count
            count += 1
            return count > _SLICE_ENTRIES or self._loop.time() > until

        try:
            if self._has_unapplied():
                self._apply_some(has_slice_ended)
        except (CorruptBatch, DescriptorsExhausted) as error:
            _logger.error("the controller's state is not updated: %s", error)
            self._timer = self._loop.call_later(_DAMAGE_PAUSE_S, self.follow)
            return
        except (FormatError, InvalidBatch) as error:
            self.problem = str(error)
            self._fail(FormatError(f"the controller's log cannot be applied: {error}"))
            return
        except Exception as error:  # a skipped entry would make the state differ from the others'
            self.problem = repr(error)
            self._fail(StorageError(f"the controller's log cannot be applied: {error!r}"))
            raise
        if self.state is not before or self.state.applied_index != applied:
            self._complete_waits()
            self.on_applied()
        self.follow()

    def _apply_some(self, has_ended: Callable[[], bool]) -> None:
        """Apply entries, or rows of a snapshot, until none is left or `has_ended` returns true."""
        while self._has_unapplied():
            if self._restoration is not None:
                self._restore_some(self._restoration)
            elif self._chunk:
                self._apply_entry(self._chunk.popleft())
            else:
                self._read_entries()
            if has_ended():
                return

    def _read_entries(self) -> None:
        """Read the next entries; if they were trimmed, begin with the snapshot at the start of the log."""
        assert self.group is not None, "reads without a replica"
        try:
            self._chunk.extend(self.group.committed_entries(self._next, _READ_BYTES))
        except EntriesTrimmed:
            self._next = Index(self.group.log.boundary.index + 1)
            self._reader = SnapshotReader()

    def _apply_entry(self, entry: CommittedEntry) -> None:
        """Apply one entry, or pass it to the reader of a snapshot that is being read."""
        assert entry.index == self._next, f"entry {entry.index} where {self._next} follows"
        self._next = Index(entry.index + 1)
        if entry.kind is ControlKind.SNAPSHOT:
            self._count_snapshot_bytes(entry.payload)
        if self._reader is not None:
            if entry.kind is ControlKind.SNAPSHOT:
                self._restoration = self._reader.take(entry.payload)
        elif entry.kind is None:
            self._apply_request(entry)
        else:
            self.state.advance(entry.index)
            self._compare_hash()

    def _count_snapshot_bytes(self, payload: bytes) -> None:
        """Add the payload of an entry to the size of its snapshot.

        The third byte of a payload marks the last piece, the next four count pieces from 0."""
        self._run_bytes = len(payload) + (0 if not any(payload[3:7]) else self._run_bytes)
        if payload[2]:
            self.snapshot_bytes = self._run_bytes

    def _apply_request(self, entry: CommittedEntry) -> None:
        """Apply a committed request to the state, and complete the calls that wait for its decision."""
        [record] = read_records(entry.batch)
        request = decode_request(record.value or b"")
        answer = self.state.apply(request, entry.index)
        if answer.error is None and answer.value == entry.index and self._is_own_decision(entry):
            write_event(request.command, self.state)
        for future in self._expected.pop(request.request_id, ()):
            if not future.done():
                future.set_result(Decision(entry.index, answer))
        self._compare_hash()

    def _is_own_decision(self, entry: CommittedEntry) -> bool:
        """Return whether the replica here committed the entry as leader, and still leads."""
        core = None if self.group is None else self.group.core
        return core is not None and core.role is Role.LEADER and core.term == entry.term

    def _restore_some(self, restoration: Restoration) -> None:
        """Restore some rows of a snapshot; after the last one, replace the state and continue after its index."""
        state = restoration.step()
        if state is None:
            return
        assert self.group is not None, "a snapshot without a replica"
        assert state.applied_index > self.group.log.boundary.index, (
            f"the snapshot at {state.applied_index} lies before the log, which begins behind {self.group.log.boundary}"
        )
        self._restoration = self._reader = None
        self.state = state
        self._chunk.clear()
        self._next = Index(state.applied_index + 1)
        for request_id in list(self._expected):
            known = state.answered.get(request_id)
            if known is not None:
                for future in self._expected.pop(request_id):
                    if not future.done():
                        future.set_result(_make_decision(known))

    # waiting

    def result_of(self, request_id: UUID) -> Decision | None:
        """Return the result of a request that was applied here; None if it is not remembered."""
        known = self.state.answered.get(request_id)
        return None if known is None else _make_decision(known)

    def expect(self, request_id: UUID) -> "asyncio.Future[Decision]":
        """Return a future that completes when the request is applied here; release it with `forget`."""
        future: asyncio.Future[Decision] = self._loop.create_future()
        self._expected.setdefault(request_id, []).append(future)
        return future

    def forget(self, request_id: UUID, future: "asyncio.Future[Decision]") -> None:
        """Release a future from `expect`."""
        waiting = self._expected.get(request_id, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._expected.pop(request_id, None)
        future.cancel()

    async def wait_for_index(self, index: Index, deadline: Deadline) -> bool:
        """Wait until the state has everything up to `index`; return False if the deadline passes first."""
        if self.state.applied_index >= index:
            return True
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append((index, future))
        try:
            await asyncio.wait([future], timeout=max(0.0, deadline - self._loop.time()))
        finally:
            future.cancel()
        return self.state.applied_index >= index

    def _complete_waits(self) -> None:
        """Complete the waits for indexes that the copy has applied."""
        left = []
        for index, future in self._waiting:
            if future.done():
                continue
            if index <= self.state.applied_index:
                future.set_result(None)
            else:
                left.append((index, future))
        self._waiting = left

    # hashes

    def compare_at(self, index: Index, state_hash: bytes) -> bool | None:
        """Return whether the state equals another replica's at `index`; None if that is unknown now.

        If this copy reaches the index later, it compares the hash then and reports a difference as `problem`."""
        if index == self.state.applied_index:
            return self._compare(index, state_hash)
        if index > self.state.applied_index:
            self._hash_received = (index, state_hash)
        return None

    def _compare_hash(self) -> None:
        """Compare a received hash once the state has reached its index."""
        received = self._hash_received
        if received is not None and received[0] <= self.state.applied_index:
            self._hash_received = None
            if received[0] == self.state.applied_index:
                self._compare(*received)

    def _compare(self, index: Index, state_hash: bytes) -> bool:
        """Return whether the state has this hash; otherwise report the difference as `problem`."""
        if self.state.state_hash() == state_hash:
            return True
        self.problem = f"the controller's state here differs from the leader's at index {index}: report it as a bug"
        _logger.error("%s", self.problem)
        return False


def _make_decision(request: AnsweredRequest) -> Decision:
    """Return the decision of a remembered request."""
    return Decision(request.version, CommandAnswer(request.value, request.failure(), is_repeated=True))
