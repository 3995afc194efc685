"""Keyspace of one Raft group, used by the workloads: commands in, outcomes out, and the applied state.

    applied index here ≤ applied index of the group,   uncommitted batches ≤ the core's limit of uncommitted entries

The commands of one turn of the event loop are one batch, which is one entry of the log. The local state has only
committed commands, and may be old; request a read index of the group before a linearizable read. The state is only in
memory: the log is never trimmed, and a start applies all of it."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from raftlog.api.maelstrom.machine import CommandOutcome, KeyCommand, KeyMachine
from raftlog.errors import InvalidBatch
from raftlog.raft import Role
from raftlog.records import build_batch, read_records
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.types import Index, NodeId

_logger = logging.getLogger(__name__)

BATCH_BYTES_MAX: Final = 128 * 1024
"""Maximum bytes of a batch; more commands of one turn are divided among several batches."""
_READ_BYTES: Final = 256 * 1024
_Waiting = tuple[Sequence[KeyCommand], "asyncio.Future[list[CommandOutcome]]"]


class Keyspace:
    """Keys that one Raft group stores, with their state on this node."""

    def __init__(self, number: int, group: PartitionReplica, loop: asyncio.AbstractEventLoop) -> None:
        """Create the state machine of the Raft group with this number, and apply its committed entries."""
        self.number, self.group = number, group
        self.machine = KeyMachine()
        self._loop = loop
        self._applied = Index(0)
        self._queue: list[_Waiting] = []
        """Commands that are appended at the end of this turn of the event loop, with the futures of their outcomes."""
        self._expected: dict[Index, asyncio.Future[list[CommandOutcome]]] = {}
        """Committed batches of this process whose commands are not applied here yet."""
        self.step()

    @property
    def leader(self) -> NodeId | None:
        """Node id of the leader; None if it is unknown here."""
        leader = self.group.core.leader
        return None if leader is None else leader.node_id

    @property
    def is_leader(self) -> bool:
        """Whether this node leads, by its local state: another node may lead already, with a newer term."""
        return self.group.core.role is Role.LEADER

    # commands

    def propose(self, commands: Sequence[KeyCommand]) -> "asyncio.Future[list[CommandOutcome]]":
        """Append commands in order, all or nothing; return their outcomes once they are committed and applied.

        The future fails with the errors of `PartitionReplica.propose`; it can stay pending for long.
        """
        if not self._queue:
            self._loop.call_soon(self._append_queued)
        waiting: asyncio.Future[list[CommandOutcome]] = self._loop.create_future()
        self._queue.append((commands, waiting))
        return waiting

    def _append_queued(self) -> None:
        """Append the commands of this turn, in batches of at most `BATCH_BYTES_MAX` unless one is larger."""
        queue, self._queue = self._queue, []
        batch: list[_Waiting] = []
        size = 0
        for waiting in queue:
            more = sum(len(command.key) + len(command.what) for command in waiting[0])
            if batch and size + more > BATCH_BYTES_MAX:
                self._append(batch)
                batch, size = [], 0
            batch.append(waiting)
            size += more
        self._append(batch)

    def _append(self, batch: Sequence[_Waiting]) -> None:
        """Propose the commands of these calls as one batch."""
        records = [command.record() for commands, _ in batch for command in commands]
        committed = self.group.propose_as([build_batch(records)], self._expect_outcomes)
        committed.add_done_callback(partial(self._on_commit, batch))

    def _expect_outcomes(self, committed: Committed) -> "asyncio.Future[list[CommandOutcome]]":
        """Return a future of the outcomes of a committed batch that this process proposed.

        The outcomes are set later, when `step` applies the batch."""
        index = committed.last_index
        assert index > self._applied, f"entry {index} was applied before its outcome was known"
        outcomes = self._expected[index] = self._loop.create_future()
        return outcomes

    def _on_commit(
        self, batch: Sequence[_Waiting], committed: "asyncio.Future[asyncio.Future[list[CommandOutcome]]]"
    ) -> None:
        """Complete the futures of a batch: when it is applied, with the outcomes; if it failed, with the error."""
        error = committed.exception()
        if error is None:
            committed.result().add_done_callback(partial(_set_outcomes, batch))
            return
        for _, waiting in batch:
            if not waiting.done():
                waiting.set_exception(error)

    # committed batches

    def step(self) -> None:
        """Apply the entries that were delivered since the last call."""
        while self._applied < self.group.applied_index:
            for entry in self.group.committed_entries(Index(self._applied + 1), _READ_BYTES):
                outcomes = [] if entry.kind is not None else self._apply(bytes(entry.batch))
                self._applied = entry.index
                expected = self._expected.pop(entry.index, None)
                if expected is not None:
                    expected.set_result(outcomes)

    def _apply(self, batch: bytes) -> list[CommandOutcome]:
        """Apply the commands of a batch; return their outcomes in order, none if the batch is invalid."""
        try:
            records = list(read_records(batch))
        except InvalidBatch as error:
            _logger.error("a committed batch of %s has no commands: %s", self.group.name, error)
            return []
        apply = self.machine.apply
        return [apply((each.key or b"").decode(errors="replace"), each.value or b"") for each in records]


def _set_outcomes(batch: Sequence[_Waiting], applied: "asyncio.Future[list[CommandOutcome]]") -> None:
    """Complete each call of a batch with the outcomes of its own commands."""
    outcomes = iter(applied.result())
    for commands, waiting in batch:
        own = [next(outcomes) for _ in commands]
        if not waiting.done():
            waiting.set_result(own)
