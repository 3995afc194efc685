"""One replica of one group in its process: its core, its log, and those who wait for an outcome.

    applied ≤ high watermark's entry = last delivered entry,   durable parts are reported in order

The driver calls `take_ready`, `persist`, `note_durable` and `finish`; requests come from above and only mark the group
as dirty. A proposal ends as done when its last entry is delivered with its term, as failed when another one is
committed in the place of its first, as unknown when that cannot be told any more; until then it is open, and its caller
may stop waiting whenever he likes.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from raftlog.errors import (
    ChangeRefused,
    CorruptBatch,
    InvalidArgument,
    LogClosed,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    RaftlogError,
    StorageFull,
)
from raftlog.raft import (
    Accepted,
    ConfigurationChange,
    HardState,
    Message,
    Proposal,
    RaftCore,
    Ready,
    Refusal,
    Refused,
    ReplicaId,
    Role,
)
from raftlog.raft.ready import IndexRange
from raftlog.records import ControlKind, build_control_batch
from raftlog.runtime.admission import Admission
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.control_entries import member_of
from raftlog.runtime.group_log import GroupLog
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.operations import GroupKey
from raftlog.storage.roll import Roll, encode_roll
from raftlog.types import Index, Offset, Term

_PENDING_CHECKED = 10_000
"""Past so many open proposals those whose callers have gone are dropped."""


class Committed(NamedTuple):
    """A proposal that is done: entries `first_index` … `last_index`, records `base_offset` … `next_offset − 1`."""

    term: Term
    first_index: Index
    last_index: Index
    base_offset: Offset
    next_offset: Offset


class Host(Protocol):
    """What a group needs of its driver."""

    config: DriverConfig
    loop: asyncio.AbstractEventLoop
    wall_ms: Callable[[], int]

    def mark_dirty(self, group: "Group") -> None:
        """There is something to do for the group in the next turn."""
        ...

    def why_refused(self, size_bytes: int) -> RaftlogError | None:
        """Why no entries of that size can be taken now."""
        ...

    def damage_found(self, group: "Group") -> None:
        """The group is quarantined now and wants repair."""
        ...

    def note_admitted(self, size_bytes: int) -> None:
        """Entries of that size are on their way to the journal."""
        ...

    def trim(self, group: "Group", offset: Offset) -> None:
        """Journal a trim and delete the segments once that is durable."""
        ...


class Part:
    """A Ready on its way to the disk."""

    __slots__ = ("messages", "number", "sequence")

    def __init__(self, number: int, messages: tuple[Message, ...]) -> None:
        self.number = number
        self.messages = messages
        self.sequence: JournalSequence | None = None
        """Durable once the journal is; unknown while the segment of a large append is being synced."""


class _Open(NamedTuple):
    """A proposal without an outcome yet."""

    accepted: Accepted
    future: "asyncio.Future[Committed]"


class Group:
    """See the module. Made by the driver."""

    def __init__(
        self, host: Host, group_id: uuid.UUID, path: str, core: RaftCore, log: GroupLog, hard_state: HardState
    ) -> None:
        self._host = host
        self.group_id = group_id
        self.key: GroupKey = group_id.bytes
        self.path = path
        self.core = core
        self.log = log
        self.hard_state = hard_state
        """What was handed to the journal last."""
        self.parts: deque[Part] = deque()
        """Readys that are not durable, oldest first."""
        self.configuration_index = core.configuration.index
        """Where the configuration stands that the log says last, committed or not."""
        self.has_voting_position = False
        """The journal holds a voting position of this replica."""
        self.cut_sequence: JournalSequence | None = None
        """Where the newest cut stands in the journal, while its bytes must not be touched."""
        self.high_watermark = log.offset_of(Index(core.committed_index + 1))
        """The offset after the last committed record that is durable here; never falls."""
        self.applied_index = core.committed_index
        self.damage: CorruptBatch | None = None
        """What is wrong in the files, until it is repaired; the group is quarantined while it is set."""
        self.damage_count = 0
        """How often damage was met: a repair that began before the last time does not lift the quarantine."""
        self.admission = Admission(group_id)
        self.is_dirty = False
        self.is_closed = False
        self.is_disk_full = False
        """Entries wait for room on the disk: nothing more is taken."""
        self.is_gone = False
        """Removed, and the journal says so durably."""
        self.is_deaf = False
        """Another log is taking the place of this one: nothing may happen to it."""
        self.pinned_until = 0.0
        """By the loop's clock: another replica is copying the log, so nothing is trimmed."""
        self.trim_to: Offset | None = None
        """A trim that is on its way to the journal."""
        self._open: deque[_Open] = deque()
        """Ascending by last index."""
        self._reads: set[asyncio.Future[Index]] = set()
        """Reads that the core has not answered."""
        self._roll_index = Index(0)
        """The newest roll that was proposed here."""

    # requests

    def propose(self, batches: Sequence[bytearray]) -> "asyncio.Future[Committed]":
        """Append valid batches, in this order, all or nothing; they are stamped in place and must not change any more.

        The future fails with `NotLeader`, `Overloaded`, `StorageFull` or `LogClosed` (it did not happen), or
        `OutcomeUnknown`.
        """
        size = sum(map(len, batches))
        refusal = self._why_refused(size)
        if refusal is None:
            self._maybe_roll(size)
            self._host.note_admitted(size)
            return self._ask(self.core.propose([Proposal(batch, len(batch)) for batch in batches]))
        return self._refuse(refusal)

    def change_members(self, change: ConfigurationChange) -> "asyncio.Future[Committed]":
        """Change who belongs to the group; done when the first configuration of the change is committed.

        A change of voters goes on from there by itself, through the joint configuration (thesis 4.3). Fails like
        `propose`, and with `ChangeRefused` and `InvalidArgument`.
        """
        if self.is_closed:
            return self._refuse(LogClosed(f"{self.path} is closed"))
        return self._ask(self.core.propose_configuration(change))

    def read_index(self) -> "asyncio.Future[Index]":
        """Done when what is delivered here is at least as new as everything acknowledged before the call."""
        future: asyncio.Future[Index] = self._host.loop.create_future()
        if self.is_closed:
            future.set_exception(LogClosed(f"{self.path} is closed"))
            return future
        refused = self.core.read_index(future)
        self._host.mark_dirty(self)
        if refused:
            future.set_exception(self._error(refused))
        else:
            self._reads.add(future)
            future.add_done_callback(self._reads.discard)
        return future

    def transfer_leadership(self, target: ReplicaId) -> None:
        """Begin to hand over; raises `NotLeader`, `Overloaded`, `InvalidArgument` or `LogClosed`."""
        if self.is_closed:
            raise LogClosed(f"{self.path} is closed")
        refused = self.core.transfer_leadership(target)
        self._host.mark_dirty(self)
        if refused:
            raise self._error(refused)

    def read(self, offset: int, max_bytes: int) -> list[memoryview]:
        """Stored, committed client batches; raises `OffsetOutOfRange` and `CorruptBatch`."""
        segments = self.log.segments
        if segments.next_offset < offset <= self.high_watermark:
            return []  # it waits in memory for room in the files
        try:
            return segments.read(offset, max_bytes, self.high_watermark)
        except CorruptBatch as error:
            self.note_damage(error)
            raise

    def trim(self, offset: int) -> None:
        """Let this replica delete closed segments that lie wholly below `offset` (≤ high watermark)."""
        if offset > self.high_watermark:
            raise InvalidArgument(f"cannot trim at {offset}: only offsets below {self.high_watermark} are committed")
        is_pinned = self._host.loop.time() < self.pinned_until
        if self.damage or self.is_deaf or is_pinned or self.trim_to is not None or self.log.is_cut_waiting:
            return
        target = self.log.trim_target(offset, self.applied_index)
        if target is not None:
            self._host.trim(self, target)

    @property
    def log_start_offset(self) -> Offset:
        return self.log.segments.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self.log.next_offset

    def _why_refused(self, size: int) -> RaftlogError | None:
        if self.is_closed:
            return LogClosed(f"{self.path} is closed")
        if self.is_disk_full:
            return StorageFull(f"{self.path}: no space left; delete records or add space, and try again")
        if self.is_deaf:
            return NotLeader(f"{self.path}: another log is being installed", self.core.leader)
        return self._host.why_refused(size)

    def _refuse(self, error: RaftlogError) -> "asyncio.Future[Committed]":
        future: asyncio.Future[Committed] = self._host.loop.create_future()
        future.set_exception(error)
        return future

    def _ask(self, answer: Accepted | Refused) -> "asyncio.Future[Committed]":
        future: asyncio.Future[Committed] = self._host.loop.create_future()
        self._host.mark_dirty(self)
        if isinstance(answer, Refused):
            future.set_exception(self._error(answer))
            return future
        is_in_order = not self._open or self._open[-1].accepted.last_index < answer.first_index
        self._open.append(_Open(answer, future))
        if not is_in_order or len(self._open) > _PENDING_CHECKED:
            waiting = [each for each in self._open if not each.future.done()]
            self._open = deque(sorted(waiting, key=lambda each: each.accepted.last_index))
        return future

    def _error(self, refused: Refused) -> RaftlogError:
        leads = f"; {refused.leader} leads" if refused.leader else ""
        text = f"{self.path}: {refused.why.value}{leads}{': ' + refused.detail if refused.detail else ''}"
        if refused.why in (Refusal.NOT_LEADER, Refusal.TRANSFERRING):
            return NotLeader(text, refused.leader)
        if refused.why in (Refusal.OVERLOADED, Refusal.NOT_CAUGHT_UP):
            return Overloaded(text)
        if refused.why in (Refusal.INVALID_CHANGE, Refusal.NO_SUCH_VOTER):
            return InvalidArgument(text)
        return ChangeRefused(text)

    # rolls

    def _maybe_roll(self, size: int) -> None:
        """Propose a roll when the active segment would grow too large; never a segment that holds no offset."""
        log, config = self.log, self._host.config
        if self.core.role is not Role.LEADER or log.written_index < log.last_index or self._roll_index > log.last_index:
            return
        active = log.segments.active
        is_due = active.end_position + size > config.segment_bytes or active.rows >= config.segment_rows_max
        if not is_due or log.next_offset == active.base_offset:
            return
        last, configuration, now_ms = self.core.last_id, self.core.configuration, self._host.wall_ms()
        roll = Roll(
            self.group_id,
            last.index + 1,
            last.term,
            log.segments.log_start_offset,
            -1,
            now_ms,
            configuration.index,
            tuple(map(member_of, configuration.voters)),
            tuple(map(member_of, configuration.learners)),
            tuple(map(member_of, configuration.outgoing)),
        )
        batch = build_control_batch(ControlKind.ROLL, encode_roll(roll), now_ms, next_offset=log.next_offset)
        answer = self.core.propose([Proposal(batch, len(batch))])
        if isinstance(answer, Accepted):
            assert answer.first_index == roll.base_index, f"roll for {roll.base_index} at {answer.first_index}"
            self._roll_index = answer.first_index

    # what the driver does

    def take_ready(self) -> Ready | None:
        """The core's next Ready. A damaged entry that it wanted to send ends its leadership first."""
        try:
            return self.core.ready()
        except CorruptBatch as error:
            self.note_damage(error)
            return self.core.ready()

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
        assert watermark >= self.high_watermark, f"high watermark {watermark} < {self.high_watermark}"
        self.high_watermark = watermark
        while self._open and self._open[0].accepted.last_index <= entries.last:
            accepted, future = self._open.popleft()
            if not future.done():
                self._settle(accepted, future)
        self.log.release(entries.last)
        self.core.advance(applied=entries.last)
        self._host.mark_dirty(self)

    def _settle(self, accepted: Accepted, future: "asyncio.Future[Committed]") -> None:
        term, first, last = accepted
        log = self.log
        if first <= log.boundary.index:
            future.set_exception(OutcomeUnknown(f"{self.path}: entry {first} was trimmed before its outcome was known"))
        elif log.term_at(last) == term:
            future.set_result(Committed(term, first, last, log.offset_of(first), log.offset_of(Index(last + 1))))
        elif log.term_at(first) == term:
            future.set_exception(OutcomeUnknown(f"{self.path}: only the beginning of entries {first}–{last} was kept"))
        else:
            future.set_exception(NotLeader(f"{self.path}: another leader's entry took its place", self.core.leader))

    def settle_trim(self) -> None:
        """The trim is durable: the files go."""
        offset, self.trim_to = self.trim_to, None
        assert offset is not None, f"{self.path} trims nothing"
        try:
            self.log.trim(offset)
        except CorruptBatch as error:
            self.note_damage(error)

    def restart_at(self, applied: Index) -> None:
        """The log was replaced by one that was fetched, delivered up to `applied`."""
        self.applied_index = applied
        self.high_watermark = max(self.high_watermark, self.log.offset_of(Index(applied + 1)))
        for accepted, future in self._open:
            if accepted.last_index <= applied and not future.done():
                self._settle(accepted, future)
        self._open = deque(each for each in self._open if not each.future.done())

    def end(self, why: RaftlogError) -> None:
        """The replica stops: what has no outcome yet stays unknown."""
        self.is_closed = True
        for _, future in self._open:
            if not future.done():
                future.set_exception(OutcomeUnknown(f"{self.path}: {why}"))
        self._open.clear()
        for read in list(self._reads):
            read.set_exception(LogClosed(f"{self.path}: {why}"))
