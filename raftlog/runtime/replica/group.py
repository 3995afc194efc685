"""One replica of one group in its process: its core, its log, and those who wait for an outcome.

    applied ≤ high watermark's entry = last delivered entry,   durable parts are reported in order

The driver calls `take_ready`, `persist`, `note_durable` and `finish`; requests come from above and only mark the group
as dirty. What became of a proposal is `proposals`' business, where segments begin `rolling`'s, and how the log loses
its beginning `trimming`'s.
"""

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
from raftlog.records import ControlKind, build_control_batch
from raftlog.runtime.config import GroupLimits
from raftlog.runtime.histogram import stopwatch
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.committed_entries import CommittedEntry
from raftlog.runtime.log.control_entries import TrimEntry, encode_trim
from raftlog.runtime.log.damaged import DamagedEntry
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.replica.admission import Admission
from raftlog.runtime.replica.disk_room import why_no_room
from raftlog.runtime.replica.host import Host
from raftlog.runtime.replica.part import Part
from raftlog.runtime.replica.proposals import Committed, Proposals, error_of
from raftlog.runtime.replica.readable_replica import ReadableReplica
from raftlog.runtime.replica.rolling import Rolling
from raftlog.runtime.replica.trimming import Trimming
from raftlog.types import Index, Offset

_T = TypeVar("_T")
_PROPOSED: Final = (ControlKind.EXPIRE_PRODUCERS, ControlKind.COMPACTED_TO, ControlKind.SNAPSHOT)
"""Control entries that come from above; all others have ways of their own."""
_UNSTAMPED: Final = Offset(0)
_NO_SNAPSHOT: Final = Index(0)
__all__ = ["Committed", "CommittedEntry", "Group", "Host"]


class Group(ReadableReplica):
    """See the module. Made by the driver."""

    def __init__(
        self, host: Host["Group"], group_id: uuid.UUID, path: str, core: RaftCore, log: GroupLog, hard_state: HardState
    ) -> None:
        self._host = host
        self.group_id = group_id
        self.key: GroupKey = group_id.bytes
        self.path = path
        self.name = "/".join(path.rsplit("/", 2)[-2:])
        """What messages to clients call it: the end of its path, which is topic and partition."""
        self.core = core
        self.log = log
        self.hard_state = hard_state
        """What was handed to the journal last."""
        self.parts: deque[Part] = deque()
        """Readys that are not durable, oldest first."""
        self.configuration_index = core.configuration.index
        """Where the configuration stands that the log says last, committed or not."""
        self._members = core.configuration
        self.has_voting_position = False
        """The journal holds a voting position of this replica."""
        self.cut_sequence: JournalSequence | None = None
        """Where the newest cut stands in the journal, while its bytes must not be touched."""
        self.rolling = Rolling(group_id, log, GroupLimits.of(host.config))
        self.high_watermark = max(log.offset_of(Index(core.committed_index + 1)), log.segments.log_start_offset)
        """The offset after the last committed record that is durable here; never falls."""
        self.applied_index = core.committed_index
        self.damage: CorruptBatch | None = None
        """What is wrong in the files, until it is repaired; the group is quarantined while it is set."""
        self.damaged: Sequence[DamagedEntry] | None = None
        """What nobody could give, as the last repair found it; `None` while that is not known."""
        self.repair_note: str | None = None
        """How far the repair is, or why it does not get on, in words."""
        self.damage_count = 0
        """How often damage was met: a repair that began before the last time does not lift the quarantine."""
        self.proposed_at: float | None = None
        """When the oldest proposal was taken that is not in the log yet, by the stopwatch."""
        self.admission = Admission(group_id)
        self.is_dirty = False
        self.is_closed = False
        self.closed_by: RaftlogError | None = None
        """Why the replica ended."""
        self.on_turn: Callable[[], None] | None = None
        """Called in every turn of the group, also one without a Ready: members may have acknowledged more."""
        self.on_end: Callable[[], None] | None = None
        self.unreadable: dict[str, str] = {}
        """Why parts of the replica apply nothing more of its log, by part: this release does not know what it holds."""
        self.is_disk_full = False
        """Entries wait for room on the disk: nothing more is taken."""
        self.is_essential = False
        """A full disk takes its entries all the same, as far as the journal goes: they may be what frees room."""
        self.is_majority_full = False
        """Too few of the voters' disks have room, as far as the node knows: what is appended would not be committed."""
        self.is_gone = False
        """Removed, and the journal says so durably."""
        self.is_deaf = False
        """Another log is taking the place of this one: nothing may happen to it."""
        self.is_leaving = False
        """It says nothing and hears nothing while it is asked whether its members have let it go."""
        self.stopped: str | None = None
        """Why it takes part in nothing until the next start of the process; moved by `stop`."""
        self.trim_to: Offset | None = None
        """The newest trim that is on its way to the journal."""
        self._trimming = Trimming(self, host)
        self._open = Proposals(self.name, log, host.commit_times)
        self._reads: dict[asyncio.Future[Index], None] = {}
        """Reads that the core has not answered."""

    # requests

    def propose(self, batches: Sequence[bytearray]) -> "asyncio.Future[Committed]":
        """Append valid batches, in this order, all or nothing; they are stamped in place and must not change any more.

        The future fails with `NotLeader`, `Overloaded`, `StorageFull` or `LogClosed` (it did not happen), or
        `OutcomeUnknown`.
        """
        return self.propose_as(batches, _as_it_is)

    def propose_as(self, batches: Sequence[bytearray], answer: Callable[[Committed], _T]) -> "asyncio.Future[_T]":
        """The same; the future's result is what `answer` makes of the outcome when it is known."""
        try:
            accepted = self.enter(batches)
        except RaftlogError as error:
            return self._refuse(error)
        return self._wait_for(accepted, answer)

    def enter(self, batches: Sequence[bytearray]) -> Accepted:
        """Append like `propose`, and let nobody wait for what becomes of it. Raises what definitely refuses it."""
        size = sum(map(len, batches))
        self.roll_if_due(size)
        return self._append(batches, size)

    def propose_control(
        self, entries: Sequence[tuple[ControlKind, bytes]], *, is_essential: bool = False
    ) -> "asyncio.Future[Committed]":
        """Append control entries with these payloads, in this order, all or nothing; they take no offsets.

        `is_essential`: also on a disk with little room, because a trim waits for them. Fails like `propose`. Nothing
        rolls between them.
        """
        assert all(kind in _PROPOSED for kind, _ in entries), (
            f"{[kind.name for kind, _ in entries]} are not proposed so"
        )
        return self._propose_own(entries, is_essential=is_essential)

    def propose_trim(self, offset: int, snapshot_index: Index = _NO_SNAPSHOT) -> "asyncio.Future[Committed]":
        """Let every replica give up the records below `offset`, and delete closed segments that lie wholly below it.

        What is dropped with them is the caller's to know: `snapshot_index` names the roll of a committed snapshot that
        the log still needs. The last committed record stays, unless a committed roll follows it. Fails like `propose`,
        and with `InvalidArgument` above the high watermark.
        """
        if not 0 <= offset <= self.high_watermark:
            return self._refuse(self._no_trim(offset))
        trim = TrimEntry(self._trimming.trimmable(offset), snapshot_index)
        return self._propose_own([(ControlKind.TRIM, encode_trim(trim))], is_essential=True)

    def roll_now(self) -> "asyncio.Future[Committed]":
        """Begin a new segment, also on a disk with little room: what is deleted next stands before it. Fails like
        `propose`, and with `Unavailable` while the newest one holds no record."""
        self.write_entries()
        if self.core.role is Role.LEADER and not self.rolling.may_roll():
            return self._refuse(Unavailable(f"{self.name}: the newest segment holds no record yet that is written"))
        try:
            return self._wait_for(self._propose_roll(is_essential=True), _as_it_is)
        except RaftlogError as error:
            return self._refuse(error)

    def _propose_own(
        self, entries: Sequence[tuple[ControlKind, bytes]], *, is_essential: bool = False
    ) -> "asyncio.Future[Committed]":
        now_ms = self._host.wall_ms()
        batches = [build_control_batch(kind, payload, now_ms, next_offset=_UNSTAMPED) for kind, payload in entries]
        try:
            accepted = self._append(batches, sum(map(len, batches)), is_essential=is_essential)
            return self._wait_for(accepted, _as_it_is)
        except RaftlogError as error:
            return self._refuse(error)

    def _append(self, batches: Sequence[bytearray], size: int, *, is_essential: bool = False) -> Accepted:
        refusal = self._why_refused(size, is_essential or self.is_essential)
        if refusal is not None:
            raise refusal
        self._host.note_admitted(size)
        self.rolling.ahead_bytes += size
        accepted = self._accepted(self.core.propose([Proposal(batch, len(batch)) for batch in batches]))
        if self.proposed_at is None:
            self.proposed_at = stopwatch()
        return accepted

    def change_members(self, change: ConfigurationChange) -> "asyncio.Future[Committed]":
        """Change who belongs to the group; done when the first configuration of the change is committed.

        A change of voters goes on from there by itself, through the joint configuration (thesis 4.3). Fails like
        `propose`, and with `ChangeRefused` and `InvalidArgument`.
        """
        if self.is_closed or self.stopped:
            return self._refuse(self._closed() if self.is_closed else self._not_taking_part())
        try:
            accepted = self._accepted(self.core.propose_configuration(change))
        except RaftlogError as error:
            return self._refuse(error)
        return self._wait_for(accepted, _as_it_is)

    def read_index(self) -> "asyncio.Future[Index]":
        """Done when what is delivered here is at least as new as everything acknowledged before the call."""
        future: asyncio.Future[Index] = self._host.loop.create_future()
        if self.is_closed or self.stopped:
            future.set_exception(self._closed() if self.is_closed else self._not_taking_part())
            return future
        refused = self.core.read_index(future)
        self._host.mark_dirty(self)
        if refused:
            future.set_exception(error_of(self.name, refused))
        else:
            self._reads[future] = None
            future.add_done_callback(self._reads.pop)
        return future

    def transfer_leadership(self, target: ReplicaId) -> None:
        """Begin to hand over; raises `NotLeader`, `Overloaded`, `InvalidArgument` or `LogClosed`."""
        if self.is_closed:
            raise self._closed()
        refused = self.core.transfer_leadership(target)
        self._host.mark_dirty(self)
        if refused:
            raise error_of(self.name, refused)

    def trim(self, offset: int) -> None:
        """Move this replica's log start to `offset` (≤ high watermark), and delete closed segments wholly below it.

        That is what every replica does with a committed trim; nothing above it is promised to others.
        """
        if offset > self.high_watermark:
            raise self._no_trim(offset)
        self._trimming.owe(self._trimming.trimmable(offset))
        self._host.mark_dirty(self)

    def trim_damaged(self, offset: Offset) -> bool:
        """Every other replica's log begins at `offset`: delete what is damaged below it. False: not possible now."""
        return self._trimming.trim_damaged(offset)

    def _no_trim(self, offset: int) -> InvalidArgument:
        return InvalidArgument(f"cannot trim at {offset}: only offsets up to {self.high_watermark} are committed")

    @property
    def committed_start_offset(self) -> Offset:
        return self._trimming.start

    def write_entries(self) -> None:
        self._host.write_entries(self)

    def _why_refused(self, size: int, is_essential: bool) -> RaftlogError | None:
        if self.is_closed:
            return self._closed()
        if self.stopped:
            return self._not_taking_part()
        if self.is_deaf:
            return NotLeader(f"{self.name}: another log is being installed", self.core.leader)
        no_room = None if is_essential else why_no_room(self, self._host.room)
        return no_room or self._host.why_refused(size, is_essential=is_essential)

    def _not_taking_part(self) -> Unavailable:
        return Unavailable(f"{self.name}: its replica here was stopped: {self.stopped}")

    def _refuse(self, error: RaftlogError) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = self._host.loop.create_future()
        future.set_exception(error)
        return future

    def _accepted(self, answer: Accepted | RefusedProposal) -> Accepted:
        """What the core was asked gives it something to do, also when it refused. Raises the refusal."""
        self._host.mark_dirty(self)
        if isinstance(answer, RefusedProposal):
            raise error_of(self.name, answer)
        return answer

    def _wait_for(self, accepted: Accepted, answer: Callable[[Committed], _T]) -> "asyncio.Future[_T]":
        future: asyncio.Future[_T] = self._host.loop.create_future()
        self._open.add(accepted, future, answer)
        return future

    def answer(self, accepted: Accepted, answer: Callable[[Committed], _T], future: "asyncio.Future[_T]") -> None:
        """Let one more wait for what becomes of entries that were accepted before and are not delivered."""
        self._open.add(accepted, future, answer)

    # rolls

    def roll_if_due(self, size: int = 0) -> None:
        """Propose a roll when the active segment is too old, or would grow too large with `size` bytes more."""
        if self.core.role is not Role.LEADER or not self.rolling.is_due(size, self._host.wall_ms):
            return
        self.write_entries()
        if self.rolling.may_roll():
            with suppress(Unavailable):  # what is to be appended now is refused for the same reason
                self._propose_roll()

    def _propose_roll(self, *, is_essential: bool = False) -> Accepted:
        core, rolling = self.core, self.rolling
        batch = rolling.next_roll(core.last_id, core.configuration, self._host.wall_ms())
        accepted = self._append([batch], len(batch), is_essential=is_essential)
        rolling.proposed_index = accepted.first_index
        return accepted

    # what the driver does

    def take_ready(self) -> Ready | None:
        """The core's next Ready. An entry that it wanted to send and cannot read ends its leadership first."""
        self.rolling.ahead_bytes = 0
        if self._trimming.is_waiting:
            self._trimming.go_on()
        try:
            ready = self.core.ready()
        except CorruptBatch as error:
            self.note_damage(error)
            ready = self.core.ready()
        except DescriptorsExhausted as error:
            self.core.step_down(str(error))  # others can read what is to be sent
            ready = self.core.ready()
        if self.on_turn is not None:
            self.on_turn()
        return ready

    def has_other_members(self) -> bool:
        """Whether another configuration holds than when this was asked before."""
        held, self._members = self._members, self.core.configuration
        self.configuration_index = self._members.index
        return held is not self._members

    def note_damage(self, error: CorruptBatch) -> None:
        """Something in the files is not what was written: no campaigns, no trims, until it is repaired."""
        self.damage_count += 1
        if self.damage is None:
            self.damage = error
            self.core.quarantine()
            self._host.damage_found(self)
            self._host.mark_dirty(self)

    def note_durable(self, sequence: JournalSequence) -> list[Message]:
        """The journal is durable up to `sequence`: the messages that waited for that."""
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
        """Entries are committed, and durable here: the high watermark moves, and proposals have their outcome."""
        assert entries.first == self.applied_index + 1, f"{entries} after {self.applied_index}"
        self.applied_index = entries.last
        watermark = self.log.offset_of(Index(entries.last + 1))
        if watermark < self.high_watermark:  # a durable trim told us before the commits below it were known again
            assert self.high_watermark <= self.log_start_offset, f"high watermark {watermark} < {self.high_watermark}"
        else:
            self.high_watermark = watermark
        if self.log.noted or self._trimming.is_waiting:
            self._trimming.go_on()
        self._open.settle(entries.last, self.core.leader)
        self.log.release(entries.last)
        self.core.advance(applied=entries.last)
        self._host.mark_dirty(self)

    def settle_committed(self) -> None:
        """What others have committed is done, durable here or not: a stalled disk must not hold up its answer."""
        if self.core.role is not Role.LEADER and not self.is_deaf:
            self._open.settle(self.core.committed_index, self.core.leader)

    def give_leadership_up(self, why: str) -> bool:
        """Stop leading without an heir; false when it does not lead."""
        is_given_up = self.core.role is Role.LEADER and self.core.step_down(why)
        if is_given_up:
            self._host.mark_dirty(self)
        return is_given_up

    def stop(self, why: str) -> None:
        """Take part in nothing any more: no message, no request, no tick. What is on disk, and promised, stays.

        What has no outcome yet stays unknown, as after a lost leadership.
        """
        if self.stopped is None:
            self.core.step_down("stopped")
            self.stopped = why
            error = self._not_taking_part()
            self._open.end(error)
            for read in self._reads:
                if not read.done():
                    read.set_exception(error)

    def settle_trim(self, offset: Offset) -> None:
        """A trim is durable: the log start moves, and files go."""
        self._trimming.settle(offset)

    def restart_at(self, applied: Index) -> None:
        """The log was replaced by one that was fetched, delivered up to `applied`."""
        self.applied_index = applied
        self._trimming.restart_at(applied)
        self.high_watermark = max(
            self.high_watermark, self.log.offset_of(Index(applied + 1)), self.log.segments.log_start_offset
        )
        self._open.settle(applied, self.core.leader)

    def end(self, why: RaftlogError) -> None:
        """The replica stops: what has no outcome yet stays unknown."""
        self.is_closed = True
        self.closed_by = self.closed_by or why
        self._open.end(why)
        for read in self._reads:
            if not read.done():
                read.set_exception(LogClosed(f"{self.name}: {why}"))
        if self.on_end is not None:
            self.on_end()


def _as_it_is(committed: Committed) -> Committed:
    return committed
