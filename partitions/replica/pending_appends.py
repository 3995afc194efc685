"""Appends that are not answered at their commit, but earlier or later.

    taken       `acks=1` and `acks=0`: answered once the leader has stamped and written them, before any follower did
    copied      `min.insync.replicas` above the majority: answered once so many replicas hold them durably

They become readable when they are committed, in both cases. The ordinary append, answered with its commit, does not
come here. Costs nothing while no append waits. Owned by a replica."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from raftlog.errors import NotEnoughReplicas, OutcomeUnknown, RaftlogError
from raftlog.raft import Accepted, ReplicaId, Role
from raftlog.raft.ready import Status
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.types import Index, Offset


class ReplicaAppended(NamedTuple):
    """Offsets of an append, `base_offset` to `next_offset − 1`, and the high watermark at its answer."""

    base_offset: Offset
    next_offset: Offset
    leader_epoch: int
    high_watermark: Offset
    is_duplicate: bool = False
    """Whether an idempotent producer repeated the append, and all its batches had been appended before.

    Batches of other producers may lie between them."""


Answer: TypeAlias = Callable[[Committed], ReplicaAppended]


class PendingAppends:
    """Appends of one leading replica that wait for their commit or for further copies."""

    def __init__(self, name: str, group: PartitionReplica) -> None:
        self._name, self._group = name, group
        self._taken: deque[tuple[Accepted, Answer, asyncio.Future[ReplicaAppended]]] = deque()
        self._copied: deque[tuple[Committed, int, Answer, asyncio.Future[ReplicaAppended]]] = deque()
        """Committed appends with the number of copies they need, about ascending by index."""

    def answer_to_commit(self, committed: Committed) -> ReplicaAppended:
        """Return the answer to an append that has just been committed."""
        term, _, _, base_offset, next_offset = committed
        # Another leader may have committed it before it was delivered here.
        return ReplicaAppended(base_offset, next_offset, term, max(self._group.high_watermark, next_offset))

    # written by the leader

    def take(self, batches: Sequence[bytearray], future: "asyncio.Future[ReplicaAppended]") -> None:
        """Append batches; complete `future` in the turn of the loop that writes the entry.

        Raises an error only if nothing happened."""
        self.answer_written(self._group.append(batches), self._answer_of, future)

    def _answer_of(self, written: Committed) -> ReplicaAppended:
        """Return the answer to an append that was written with these offsets."""
        return ReplicaAppended(written.base_offset, written.next_offset, written.term, self._group.high_watermark)

    def answer_written(self, accepted: Accepted, answer: Answer, future: "asyncio.Future[ReplicaAppended]") -> None:
        """Complete `future` in the turn that writes an append of this leadership, or at once if it is written."""
        self._taken.append((accepted, answer, future))
        self.answer_pending()

    def answer_pending(self) -> None:
        """Answer pending appends after entries were written to the log, or the replica's role changed."""
        log, core = self._group.log, self._group.core
        while self._taken:
            (term, first, last), answer, future = self._taken[0]
            is_here = last <= log.last_index
            if not is_here and core.role is Role.LEADER and core.term == term:
                return
            self._taken.popleft()
            if future.done():
                continue
            if is_here and first > log.boundary.index and log.term_at(last) == term:
                written = Committed(term, first, last, log.offset_of(first), log.offset_of(Index(last + 1)))
                future.set_result(answer(written))
            else:
                future.set_exception(OutcomeUnknown(f"{self._name}: the leadership was lost with the append"))

    # held by enough replicas

    def too_few_error(self, copies: int) -> NotEnoughReplicas | None:
        """Return the error of an append that needs more replicas than there are active voters; None otherwise."""
        status = self._group.core.status()
        active = [member for member in active_members(status) if status.configuration.has_voter(member)]
        if len(active) >= copies:
            return None
        return NotEnoughReplicas(
            f"{self._name}: not enough replicas: {len(active)} of {len(status.configuration.voters)} can be reached, "
            f"and min.insync.replicas is {copies}; nothing was appended"
        )

    def answer_copied(
        self, accepted: Accepted, copies: int, answer: Answer, future: "asyncio.Future[ReplicaAppended]"
    ) -> None:
        """Complete `future` once the append is committed and `copies` replicas hold it durably."""
        proposed: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._group.answer(accepted, lambda committed: committed, proposed)
        proposed.add_done_callback(partial(self._on_commit, copies, answer, future))

    def _on_commit(
        self,
        copies: int,
        answer: Answer,
        future: "asyncio.Future[ReplicaAppended]",
        proposed: "asyncio.Future[Committed]",
    ) -> None:
        """Complete the caller's future once `copies` replicas hold the committed entries durably.

        If the proposal failed, fail the future with its error."""
        error = proposed.exception()
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            self.count_copies(proposed.result(), copies, answer, future)

    def count_copies(
        self, committed: Committed, copies: int, answer: Answer, future: "asyncio.Future[ReplicaAppended]"
    ) -> None:
        """Complete `future` once `copies` replicas hold a committed append durably."""
        self._copied.append((committed, copies, answer, future))
        self._group.on_turn = self._count_copies
        self._count_copies()

    def _count_copies(self) -> None:
        """Answer the appends that have enough copies; called in every turn of the group while appends wait."""
        core = self._group.core
        if core.role is not Role.LEADER:
            self._fail_copies(f"is committed, but the leadership was lost before enough replicas had it: {core.leader}")
            return
        held = _durable_indexes(core.status())
        while self._copied:
            committed, copies, answer, future = self._copied[0]
            if not future.done():
                if len(held) < copies or held[copies - 1] < committed.last_index:
                    self._group.send_deferred_appends()  # the quorum does not suffice
                    return
                future.set_result(answer(committed))
            self._copied.popleft()
        self._group.on_turn = None

    def _fail_copies(self, why: str) -> None:
        """Fail the appends that wait for copies with `OutcomeUnknown`."""
        self._group.on_turn = None
        while self._copied:
            committed, _, _, future = self._copied.popleft()
            if not future.done():
                future.set_exception(OutcomeUnknown(f"{self._name}: offset {committed.base_offset} {why}"))

    # stop

    def end(self, why: RaftlogError) -> None:
        """Fail all pending appends, because the replica stops."""
        while self._taken:
            *_, future = self._taken.popleft()
            if not future.done():
                future.set_exception(OutcomeUnknown(f"{self._name}: {why}"))
        self._fail_copies(f"is committed, but perhaps not on enough replicas: {why}")


def active_members(status: Status) -> list[ReplicaId]:
    """Return the leader and the replicas that answered recently; in a quiesced group, all replicas."""
    return [status.me, *(each.member for each in status.followers if each.is_active or status.is_quiesced)]


def _durable_indexes(status: Status) -> list[Index]:
    """Return the last durable index of each voter, highest first."""
    voters = status.configuration.voters
    held = [each.match_index for each in status.followers if each.member in voters]
    if status.me in voters:
        held.append(status.durable_index)
    return sorted(held, reverse=True)
