"""Replica of one Raft group in its process: its core, its log, and the callers that wait for an outcome.

    applied ≤ high watermark's entry = last delivered entry,   durable parts are reported in order

The driver calls `take_ready`, `persist`, `note_durable` and `finish`; requests from higher layers only mark the group
as dirty. Outcomes of proposals are in `proposals`, the beginning of segments in `rolls`, trims in `trims`."""

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from raftlog.errors import (
    CorruptBatch,
    DescriptorsExhausted,
    InvalidArgument,
    LogClosed,
    NotLeader,
    RaftlogError,
    Unavailable,
)
from raftlog.raft import (
    Accepted,
    ConfigurationChange,
    HardState,
    Message,
    Proposal,
    RaftCore,
    Ready,
    RefusedProposal,
    ReplicaId,
    Role,
)
from raftlog.raft.ready import IndexRange
from raftlog.records import ControlKind, TransactionMarker, build_control_batch, build_marker_batch
from raftlog.runtime.config import GroupLimits
from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.committed_entries import CommittedEntry
from raftlog.runtime.log.control_entries import TrimEntry, encode_trim
from raftlog.runtime.log.damaged_entry import DamagedEntry
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.replica.admission import Admission
from raftlog.runtime.replica.disk_room import room_error
from raftlog.runtime.replica.host import Host
from raftlog.runtime.replica.part import Part
from raftlog.runtime.replica.proposals import Committed, Proposals, error_of, return_unchanged
from raftlog.runtime.replica.readable_replica import ReadableReplica
from raftlog.runtime.replica.rolls import Rolls
from raftlog.runtime.replica.trims import Trims
from raftlog.types import Index, Offset

_T = TypeVar("_T")
_PROPOSED: Final = (ControlKind.EXPIRE_PRODUCERS, ControlKind.COMPACTED_TO, ControlKind.SNAPSHOT)
"""Kinds of control batches that higher layers propose; all others have methods of their own."""
_UNSTAMPED: Final = Offset(0)
_NO_SNAPSHOT: Final = Index(0)
__all__ = ["Committed", "CommittedEntry", "Host", "PartitionReplica"]


class PartitionReplica(ReadableReplica):
    """Replica of one Raft group; created by the driver."""

    def __init__(
        self,
        host: Host["PartitionReplica"],
        group_id: uuid.UUID,
        path: str,
        core: RaftCore,
        log: GroupLog,
        hard_state: HardState,
    ) -> None:
        self._host = host
        self.group_id = group_id
        self.key: GroupKey = group_id.bytes
        self.path = path
        self.name = "/".join(path.rsplit("/", 2)[-2:])
        """Name in messages to clients: the end of the path, which is topic and partition."""
        self.core = core
        self.log = log
        self.hard_state = hard_state
        """Term and vote that were journaled last."""
        self.parts: deque[Part] = deque()
        """Readys that are not durable, oldest first."""
        self.configuration_index = core.configuration.index
        """Index of the newest Raft configuration in the log, committed or not."""
        self.are_configurations_known = True
        """Whether no damage may hide a configuration of the log; otherwise a checkpoint must not name the newest."""
        self._members = core.configuration
        self.has_voting_position = False
        """Whether the journal holds a voting position of this replica."""
        self.cut_sequence: JournalSequence | None = None
        """Journal sequence of the newest cut, while its bytes must not be touched."""
        self.rolls = Rolls(group_id, log, GroupLimits.from_config(host.config))
        self.high_watermark = max(log.offset_of(Index(core.committed_index + 1)), log.segments.log_start_offset)
        """Offset after the last committed record that is durable here; never falls."""
        self.applied_index = core.committed_index
        self.damage: CorruptBatch | None = None
        """Damage found in the files, until it is repaired; the group is quarantined while it is set."""
        self.damaged: Sequence[DamagedEntry] | None = None
        """Damaged entries that the last repair could fetch from no replica; `None` while that is unknown."""
        self.repair_note: str | None = None
        """Progress of the repair, or the reason why it is blocked, in words."""
        self.damage_count = 0
        """Number of damages found: a repair that began before the last one does not lift the quarantine."""
        self.proposed_at: float | None = None
        """Stopwatch time of the oldest proposal that is not in the log yet."""
        self.admission = Admission(group_id)
        self.is_dirty = self.is_closed = False
        self.closed_by: RaftlogError | None = None
        """Error that ended the replica."""
        self.on_turn: Callable[[], None] | None = None
        """Callback in every turn of the group, even one without a Ready: members may have acknowledged more."""
        self.on_end: Callable[[], None] | None = None
        self.unreadable: dict[str, str] = {}
        """Reasons, by part of the replica, why it stopped applying the log: this release cannot read an entry."""
        self.is_disk_full = False
        """Whether entries wait for room on the disk: no more are accepted."""
        self.is_essential = False
        """Whether a full disk accepts this group's entries, if the journal has room, because they may free room."""
        self.is_majority_full = False
        """Whether too few voters' disks are known to have room: appended entries would not be committed."""
        self.is_removed = False
        """Whether the replica was removed, durably in the journal."""
        self.is_frozen = False
        """Whether another log is replacing this one, which must not change meanwhile."""
        self.is_leaving = False
        """Whether no message is sent or handled, until other members answer whether they removed the replica."""
        self.stopped: str | None = None
        """Reason why the replica does not take part until the process restarts; set by `stop`."""
        self.trim_to: Offset | None = None
        """Newest trim that is not durable in the journal yet."""
        self._trims = Trims(self, host)
        self._open = Proposals(self.name, log, host.commit_times)
        self._reads: dict[asyncio.Future[Index], None] = {}
        """Reads that the core has not answered."""

    # requests

    def propose(self, batches: Sequence[bytearray]) -> "asyncio.Future[Committed]":
        """Append all of these valid batches in this order, or none; they are stamped in place and must stay unchanged.

        The future fails with `NotLeader`, `Overloaded`, `StorageFull` or `LogClosed` (nothing was appended), or
        `OutcomeUnknown`."""
        return self.propose_as(batches, return_unchanged)

    def propose_as(self, batches: Sequence[bytearray], answer: Callable[[Committed], _T]) -> "asyncio.Future[_T]":
        """Append like `propose`; the future's result is `answer(outcome)`."""
        try:
            accepted = self.append(batches)
        except RaftlogError as error:
            return self._fail(error)
        return self._add_future(accepted, answer)

    def append(self, batches: Sequence[bytearray]) -> Accepted:
        """Append like `propose`, without a future for the outcome; raise the refusal if nothing was appended."""
        return self._append(batches, self.roll_if_due(sum(map(len, batches))))

    def append_marker(self, marker: TransactionMarker) -> Accepted:
        """Append a marker like `append`, also on a disk with little room: retention stops at open transactions."""
        batch = build_marker_batch(marker, self._host.wall_ms())
        return self._append([batch], self.roll_if_due(len(batch)), is_essential=True)

    def propose_control(
        self, entries: Sequence[tuple[ControlKind, bytes]], *, is_essential: bool = False
    ) -> "asyncio.Future[Committed]":
        """Append control batches with all of these payloads in this order, or none; they take no offsets.

        `is_essential`: also on a disk with little room, because a trim waits for them. Fails like `propose`. No roll
        comes between them."""
        assert all(kind in _PROPOSED for kind, _ in entries), f"not proposed so: {[kind.name for kind, _ in entries]}"
        return self._propose_control(entries, is_essential=is_essential)

    def propose_trim(self, offset: int, snapshot_index: Index = _NO_SNAPSHOT) -> "asyncio.Future[Committed]":
        """Append a trim: every replica then drops the records below `offset`, and closed segments wholly below it.

        The caller decides which records are not needed: `snapshot_index` names the roll of a committed snapshot that
        the log still needs. The last committed record stays, unless a committed roll follows it. Fails like `propose`,
        and with `InvalidArgument` above the high watermark."""
        if not 0 <= offset <= self.high_watermark:
            return self._fail(self._trim_error(offset))
        trim = TrimEntry(self._trims.find_trimmable_offset(offset), snapshot_index)
        return self._propose_control([(ControlKind.TRIM, encode_trim(trim))], is_essential=True)

    def roll_now(self) -> "asyncio.Future[Committed]":
        """Begin a new segment, also on a disk with little room: only closed segments can be deleted to free space.

        Fails like `propose`, and with `Unavailable` while the newest segment holds no record."""
        self.write_entries()
        if self.core.role is Role.LEADER and not self.rolls.may_roll():
            return self._fail(Unavailable(f"{self.name}: the newest segment holds no record yet that is written"))
        try:
            return self._add_future(self._propose_roll(is_essential=True), return_unchanged)
        except RaftlogError as error:
            return self._fail(error)

    def _propose_control(
        self, entries: Sequence[tuple[ControlKind, bytes]], *, is_essential: bool = False
    ) -> "asyncio.Future[Committed]":
        """Append control batches of any kind; the future resolves once they are committed."""
        now_ms = self._host.wall_ms()
        batches = [build_control_batch(kind, payload, now_ms, next_offset=_UNSTAMPED) for kind, payload in entries]
        try:
            accepted = self._append(batches, sum(map(len, batches)), is_essential=is_essential)
            return self._add_future(accepted, return_unchanged)
        except RaftlogError as error:
            return self._fail(error)

    def _append(self, batches: Sequence[bytearray], size: int, *, is_essential: bool = False) -> Accepted:
        """Propose batches after the admission checks; `size` counts against the bytes in flight."""
        refusal = self._append_error(size, is_essential or self.is_essential)
        if refusal is not None:
            raise refusal
        self._host.note_admitted(size)
        self.rolls.ahead_bytes += size
        accepted = self._check_accepted(self.core.propose([Proposal(batch, len(batch)) for batch in batches]))
        if self.proposed_at is None:
            self.proposed_at = stopwatch()
        return accepted

    def change_members(self, change: ConfigurationChange) -> "asyncio.Future[Committed]":
        """Change the Raft configuration; done when the first configuration of the change is committed.

        A change of voters continues from there without a call, through the joint configuration (thesis 4.3). Fails like
        `propose`, and with `ChangeRefused` and `InvalidArgument`."""
        if self.is_closed or self.stopped:
            return self._fail(self._closed_error() if self.is_closed else self._stopped_error())
        try:
            accepted = self._check_accepted(self.core.propose_configuration(change))
        except RaftlogError as error:
            return self._fail(error)
        return self._add_future(accepted, return_unchanged)

    def read_index(self) -> "asyncio.Future[Index]":
        """Return a future that is done when all entries acknowledged before the call are delivered."""
        if self.is_closed or self.stopped:
            return self._fail(self._closed_error() if self.is_closed else self._stopped_error())
        future: asyncio.Future[Index] = self._host.loop.create_future()
        refused = self.core.read_index(future)
        self._host.mark_dirty(self)
        if refused:
            future.set_exception(error_of(self.name, refused))
        else:
            self._reads[future] = None
            future.add_done_callback(self._reads.pop)
        return future

    def transfer_leadership(self, target: ReplicaId) -> None:
        """Begin a leadership transfer; raises `NotLeader`, `Overloaded`, `InvalidArgument` or `LogClosed`."""
        if self.is_closed:
            raise self._closed_error()
        self._check_accepted(self.core.transfer_leadership(target))

    def send_deferred_appends(self) -> None:
        """Send, with the next turn, append requests held back from followers beyond the quorum."""
        if self.core.are_appends_deferred:
            self.core.send_deferred_appends()
            self._host.mark_dirty(self)

    def trim(self, offset: int) -> None:
        """Schedule a move of the log start to `offset`, or just before it, and the deletion of closed segments below.

        Raises `InvalidArgument` above the high watermark. Every replica does this with a committed trim."""
        if offset > self.high_watermark:
            raise self._trim_error(offset)
        self._trims.schedule(self._trims.find_trimmable_offset(offset))
        self._host.mark_dirty(self)

    def trim_damaged(self, offset: Offset) -> bool:
        """Delete damaged entries below `offset`, where all other logs begin; return False if impossible now."""
        return self._trims.trim_damaged(offset)

    def _trim_error(self, offset: int) -> InvalidArgument:
        return InvalidArgument(f"cannot trim at {offset}: only offsets up to {self.high_watermark} are committed")

    @property
    def committed_start_offset(self) -> Offset:
        return self._trims.start

    def write_entries(self) -> None:
        self._host.write_entries(self)

    def _append_error(self, size: int, is_essential: bool) -> RaftlogError | None:
        """Return the error that refuses an append of `size` bytes now, or None."""
        if self.is_closed or self.stopped:
            return self._closed_error() if self.is_closed else self._stopped_error()
        if self.is_frozen:
            return NotLeader(f"{self.name}: another log is being installed", self.core.leader)
        no_room = None if is_essential else room_error(self, self._host.room)
        return no_room or self._host.append_error(size, is_essential=is_essential)

    def _stopped_error(self) -> Unavailable:
        return Unavailable(f"{self.name}: its replica here was stopped: {self.stopped}")

    def _fail(self, error: RaftlogError) -> "asyncio.Future[Any]":
        """Return a future that fails with `error`."""
        future: asyncio.Future[Any] = self._host.loop.create_future()
        future.set_exception(error)
        return future

    def _check_accepted(self, answer: _T | RefusedProposal) -> _T:
        """Return the core's answer to a request, or raise its refusal; schedule the group for the next turn."""
        self._host.mark_dirty(self)
        if isinstance(answer, RefusedProposal):
            raise error_of(self.name, answer)
        return answer

    def _add_future(self, accepted: Accepted, answer: Callable[[Committed], _T]) -> "asyncio.Future[_T]":
        """Return a future that gets `answer` of the committed entries, or fails with the proposal."""
        future: asyncio.Future[_T] = self._host.loop.create_future()
        self._open.add(accepted, future, answer)
        return future

    def answer(self, accepted: Accepted, answer: Callable[[Committed], _T], future: "asyncio.Future[_T]") -> None:
        """Complete `future` later with `answer(outcome)` for entries that were accepted and are not delivered yet."""
        self._open.add(accepted, future, answer)

    # rolls

    def roll_if_due(self, size: int = 0) -> int:
        """Propose a roll if the active segment is too old, or too small for `size` bytes more; return `size`."""
        if self.core.role is Role.LEADER and self.rolls.is_due(size, self._host.wall_ms):
            self.write_entries()
            if self.rolls.may_roll():
                with suppress(Unavailable):  # the next append is refused for the same reason
                    self._propose_roll()
        return size

    def _propose_roll(self, *, is_essential: bool = False) -> Accepted:
        """Propose a roll as leader; return its acceptance. Fails like `propose`."""
        core, rolls = self.core, self.rolls
        batch = rolls.build_roll_batch(core.last_id, core.configuration, self._host.wall_ms())
        accepted = self._append([batch], len(batch), is_essential=is_essential)
        rolls.proposed_index = accepted.first_index
        return accepted

    # called by the driver

    def take_ready(self) -> Ready | None:
        """Return the core's next Ready; step down first if an entry to send cannot be read."""
        self.rolls.ahead_bytes = 0
        if self._trims.is_waiting:
            self._trims.advance()
        try:
            ready = self.core.ready()
        except CorruptBatch as error:
            self.note_damage(error)
            ready = self.core.ready()
        except DescriptorsExhausted as error:
            self.core.step_down(str(error))  # other replicas can read the entries to send
            ready = self.core.ready()
        if self.on_turn is not None:
            self.on_turn()
        return ready

    def has_other_members(self) -> bool:
        """Return whether the Raft configuration has changed since the last call of this method."""
        held, self._members = self._members, self.core.configuration
        self.configuration_index = self._members.index
        return held is not self._members

    def note_damage(self, error: CorruptBatch) -> None:
        """Quarantine the replica because a file is damaged: no campaigns and no trims until it is repaired."""
        self.damage_count += 1
        if self.damage is None:
            self.damage = error
            self.core.quarantine()
            self._host.on_damage(self)
            self._host.mark_dirty(self)

    def note_durable(self, sequence: JournalSequence) -> list[Message]:
        """Report the durable parts to the core, and return the messages that waited for `sequence`."""
        messages: list[Message] = []
        part = None
        while self.parts and self.parts[0].sequence is not None and self.parts[0].sequence <= sequence:
            part = self.parts.popleft()
            messages.extend(part.messages)
        if part:
            self.core.advance(durable=part.number)
            self.log.note_durable(self.core.durable_index)
        return messages

    def deliver(self, entries: IndexRange) -> None:
        """Apply entries that are committed and durable here: move the high watermark and settle proposals."""
        assert entries.first == self.applied_index + 1, f"{entries} after {self.applied_index}"
        self.applied_index = entries.last
        watermark = self.log.offset_of(Index(entries.last + 1))
        if watermark < self.high_watermark:  # a durable trim is known, the commits below it not yet
            assert self.high_watermark <= self.log_start_offset, f"high watermark {watermark} < {self.high_watermark}"
        else:
            self.high_watermark = watermark
        if self.log.noted or self._trims.is_waiting:
            self._trims.advance()
        self._open.settle(entries.last, self.core.leader)
        self.log.release(entries.last)
        self.core.advance(applied=entries.last)
        if self.core.is_dirty or self._trims.is_waiting or self.on_turn is not None:
            self._host.mark_dirty(self)

    def settle_committed(self) -> None:
        """Settle proposals that another leader committed, even if they are not durable here: no stall delays them."""
        if self.core.role is not Role.LEADER and not self.is_frozen:
            self._open.settle(self.core.committed_index, self.core.leader)

    def step_down(self, reason: str) -> bool:
        """Step down without a transfer target; return False when the replica does not lead."""
        has_stepped_down = self.core.role is Role.LEADER and self.core.step_down(reason)
        if has_stepped_down:
            self._host.mark_dirty(self)
        return has_stepped_down

    def stop(self, reason: str) -> None:
        """Stop the replica: it handles no message, request or tick any more; files, term and vote on disk stay.

        Open proposals have the outcome `unknown`, as after a lost leadership."""
        if self.stopped is None:
            self.core.step_down("stopped")
            self.stopped = reason
            error = self._stopped_error()
            self._open.end(error)
            for read in self._reads:
                if not read.done():
                    read.set_exception(error)

    def settle_trim(self, offset: Offset) -> None:
        """Move the log start to a trim that is durable, and delete files below it."""
        self._trims.settle(offset)

    def restart_at(self, applied: Index) -> None:
        """Continue with a log that was fetched and is delivered up to `applied`."""
        self.applied_index = applied
        self._trims.restart_at(applied)
        self.high_watermark = max(
            self.high_watermark, self.log.offset_of(Index(applied + 1)), self.log.segments.log_start_offset
        )
        self._open.settle(applied, self.core.leader)

    def end(self, reason: RaftlogError) -> None:
        """Close the replica: open proposals have the outcome `unknown`."""
        self.is_closed = True
        self.closed_by = self.closed_by or reason
        self._open.end(reason)
        for read in self._reads:
            if not read.done():
                read.set_exception(LogClosed(f"{self.name}: {reason}"))
        if self.on_end is not None:
            self.on_end()
