"""Replicas in memory that journal their operations, and a naive computation of the state that must survive.

`history` keeps every operation with its number; the expected state after a crash is the whole history below the
journal's end, done again from the beginning. Nothing of the fold (extents, checkpoints, order of arrival) is used."""

import struct
import uuid
from dataclasses import dataclass, field
from random import Random

from raftlog.records import NewRecord, build_batch
from raftlog.runtime.journal.config import JournalConfig
from raftlog.runtime.journal.fold import Fold, FoldedGroup
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import (
    Append,
    AppendIds,
    CommitHint,
    Created,
    Cut,
    GroupState,
    Install,
    JournaledHardState,
    LogEnd,
    Mark,
    Operation,
    Removed,
    Trim,
    VotingPosition,
)
from raftlog.storage.roll import RollMember
from raftlog.types import Index, Offset, Term

PATH = "/data/journal"
DISK = uuid.UUID(int=77)
GROUPS = [uuid.UUID(int=number).bytes for number in (1, 2, 3)]
SMALL = JournalConfig(
    file_bytes=24 * 4096,
    write_bytes_max=12 * 4096,
    reserve_bytes=4 * 4096,
    pending_bytes_max=1 << 20,
    checkpoint_bytes=40 * 4096,
    spare_files_max=3,
)


def row_of(index: int, salt: int) -> bytes:
    return struct.pack(">QQQQIII", index, 1, index, index * 100, 100, salt, 0)


def end_of(entries: dict[int, bytes]) -> LogEnd | None:
    return LogEnd(Offset(0), row_of(max(entries), 0)) if entries else None


@dataclass
class Known:
    """Entries covered by a completed checkpoint although the journal has no operation for them."""

    group: bytes
    entries: dict[int, bytes]
    configuration_index: Index | None


@dataclass
class Replica:
    """State of one Raft group in memory, and large entries whose ids are not journaled yet."""

    mark: Mark = Mark.NONE
    term: int = 0
    vote: RollMember | None = None
    log_start: int = 0
    configuration_index: int | None = 0
    voting_position: tuple[int, int] | None = None
    entries: dict[int, bytes] = field(default_factory=dict)
    large: dict[int, bytes] = field(default_factory=dict)
    hints: list[int] = field(default_factory=lambda: [0])

    @property
    def last(self) -> int:
        return max(self.entries, default=0)

    @property
    def latest_configuration(self) -> Index | None:
        """Index that a checkpoint names: any entry of the log but the first, or None as if damage had hidden it."""
        return None if self.last in (2, 3) else Index(self.last // 2)

    def cut(self, index: int) -> None:
        self.entries = {at: entry for at, entry in self.entries.items() if at < index}
        self.large = {at: entry for at, entry in self.large.items() if at < index}

    def redo(self, operation: Operation | Known) -> None:
        """Apply a journaled operation to this replica."""
        match operation:
            case JournaledHardState():
                self.term, self.vote = operation.term, operation.vote
            case Append():
                self.entries |= {operation.first_index + at: bytes(b) for at, b in enumerate(operation.batches)}
            case AppendIds():
                count = len(operation.rows) // 44
                rows = {operation.first_index + at: operation.rows[44 * at : 44 * at + 44] for at in range(count)}
                self.entries |= rows
            case Cut():
                self.cut(operation.index)
                if self.configuration_index is not None and operation.index <= self.configuration_index:
                    self.configuration_index = None
            case Trim():
                self.log_start = max(self.log_start, operation.log_start_offset)
            case Install() | Created():
                self.log_start = operation.log_start_offset
                self.entries = dict.fromkeys(range(1, operation.end.id.index + 1), b"received")
                self.configuration_index = 0 if isinstance(operation, Created) else None
                self.mark = Mark.CREATED if isinstance(operation, Created) else self.mark
            case Removed():
                self.entries, self.mark, self.log_start = {}, Mark.REMOVED, 0
                self.configuration_index = 0
            case VotingPosition():
                self.voting_position = (operation.index, operation.term) if operation.index else None
            case Known():
                self.entries |= operation.entries
                self.configuration_index = operation.configuration_index

    def drop_after_gap(self) -> None:
        whole = 0
        while whole + 1 in self.entries:
            whole += 1
        self.cut(whole + 1)


class Twin:
    """Driver of a journal that records its operations."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.replicas = {group: Replica() for group in GROUPS}
        self.history: list[tuple[int, Operation | Known]] = []
        self.snapshots: dict[int, dict[bytes, dict[int, bytes]]] = {}
        self.begun: int | None = None
        self.salt = 0

    # doing

    def append_operation(self, journal: Journal, operation: Operation) -> None:
        number = journal.append([operation])
        assert number > journal.durable_sequence
        self.history.append((number, operation))

    def batch(self, size: int) -> bytes:
        self.salt += 1
        return bytes(build_batch([NewRecord(self.salt.to_bytes(4) + bytes(size), timestamp=0)]))

    def append(self, journal: Journal, group: bytes, sizes: list[int]) -> None:
        replica = self.replicas[group]
        first = replica.last + 1
        batches = [self.batch(size) for size in sizes]
        self.append_operation(journal, Append(group, Index(first), Index(first + len(sizes) - 1), batches))
        replica.entries |= {first + at: batch for at, batch in enumerate(batches)}

    def append_large(self, group: bytes, count: int) -> None:
        replica = self.replicas[group]
        for index in range(replica.last + 1, replica.last + 1 + count):
            self.salt += 1
            replica.entries[index] = replica.large[index] = row_of(index, self.salt)

    def sync_segment(self, journal: Journal, group: bytes) -> None:
        """Complete the sync of the segment of large entries: their ids are journaled, one run at a time."""
        replica = self.replicas[group]
        while replica.large:
            first = last = min(replica.large)
            while last + 1 in replica.large:
                last += 1
            rows = b"".join(replica.large[index] for index in range(first, last + 1))
            self.append_operation(journal, AppendIds(group, Index(first), rows))
            replica.large = {at: row for at, row in replica.large.items() if at > last}

    def cut(self, journal: Journal, group: bytes, index: int) -> None:
        self.append_operation(journal, Cut(group, Index(index)))
        self.replicas[group].cut(index)

    def append_other(self, journal: Journal, operation: Operation) -> None:
        self.append_operation(journal, operation)
        replica = self.replicas[operation.group]
        replica.redo(operation)
        if not isinstance(operation, JournaledHardState | Trim | VotingPosition):
            replica.large = {}

    def vote(self, journal: Journal, group: bytes) -> None:
        replica = self.replicas[group]
        vote = RollMember(self.random.randint(1, 3), DISK) if self.random.random() < 0.5 else None
        self.append_other(journal, JournaledHardState(group, Term(replica.term + 1), vote))

    def hint(self, journal: Journal, group: bytes) -> None:
        replica = self.replicas[group]
        replica.hints.append(max(replica.hints[-1], replica.last))
        journal.hint_commit(CommitHint(group, Index(replica.hints[-1])))

    def begin_checkpoint(self, journal: Journal) -> None:
        states = [self.state(group) for group in GROUPS]
        self.begun = number = journal.begin_checkpoint(states)
        self.snapshots[number] = {group: dict(replica.entries) for group, replica in self.replicas.items()}
        for group, replica in self.replicas.items():
            self.history.append((number, Known(group, dict(replica.large), replica.latest_configuration)))

    def state(self, group: bytes) -> GroupState:
        replica = self.replicas[group]
        lost = replica.voting_position
        return GroupState(
            group,
            replica.mark,
            Term(replica.term),
            replica.vote,
            Offset(replica.log_start),
            end_of(replica.entries),
            Index(replica.hints[-1]),
            replica.latest_configuration,
            (Index(lost[0]), Term(lost[1])) if lost else None,
        )

    def complete_checkpoint(self, journal: Journal) -> None:
        """Complete the owner's sync of its segments: their large entries are durable, with or without ids."""
        if self.begun is not None:
            journal.complete_checkpoint(self.begun)
            self.begun = None

    # judging

    def expected_replicas(self, fold: Fold) -> dict[bytes, Replica]:
        """Return the replicas after all operations that the fold must have read."""
        replicas = {group: Replica() for group in GROUPS}
        for number, operation in self.history:
            if number < fold.end and not (isinstance(operation, Known) and number > fold.start):
                replicas[operation.group].redo(operation)
        for group, replica in replicas.items():
            replica.drop_after_gap()
            replica.hints = self.replicas[group].hints
        return replicas

    def check(self, fold: Fold, durable: int) -> None:
        """Compare the recovered state with the history; all durable operations must be present."""
        assert fold.end > durable, f"block {durable} was durable, the journal ends before {fold.end}"
        for group, replica in self.expected_replicas(fold).items():
            folded = fold.groups.get(group) or FoldedGroup(group)
            assert (folded.mark, folded.term, folded.vote) == (replica.mark, replica.term, replica.vote)
            assert folded.log_start_offset == replica.log_start
            assert (folded.configuration_index, folded.voting_position) == (
                replica.configuration_index,
                replica.voting_position,
            )
            assert folded.last_index == replica.last
            assert folded.commit_hint in replica.hints
            self.check_entries(fold, folded, replica)

    def check_entries(self, fold: Fold, folded: FoldedGroup, replica: Replica) -> None:
        """Check that the extents of the folded group are contiguous and hold the replica's entries."""
        reached: int = folded.keep_to
        for extent in folded.extents():
            assert extent.first == reached + 1, (extent, reached)
            rows = fold.read_rows(extent) if extent.is_ids else b""
            batches = [] if extent.is_ids else fold.read_batches(extent)
            for at, index in enumerate(range(extent.first, extent.last + 1)):
                stored = rows[44 * at : 44 * at + 44] if extent.is_ids else batches[at]
                assert stored == replica.entries[index], f"entry {index}"
            reached = extent.last
        assert reached == replica.last
        assert folded.keep_to <= (folded.end.id.index if folded.end else 0)
        in_segments = self.snapshots.get(fold.start, {}).get(folded.group, {})
        for index in range(1, folded.keep_to + 1):
            assert replica.entries[index] in (in_segments.get(index), b"received"), f"entry {index} was replaced"

    def continue_from(self, fold: Fold) -> None:
        """Discard the operations that did not survive; the entries that the fold dropped were cut."""
        self.replicas = self.expected_replicas(fold)
        self.begun = None
        self.history = [
            (number, operation)
            for number, operation in self.history
            if number < fold.end and not (isinstance(operation, Known) and number > fold.start)
        ]
        for group, folded in fold.groups.items():
            if folded.dropped:
                self.history.append((fold.end, Cut(group, Index(folded.last_index + 1))))
