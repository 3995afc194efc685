"""State of every group according to the journal: its operations folded in order, cuts applied.

The fold holds no entry bytes, only their addresses (32 bytes for each append that no later cut removed), so its size
is bounded by the journal's. For a group:

    keep_to ≤ index of `end`        entries up to keep_to are in the segments, as the checkpoint left them
    extents: first ≤ last, each first > keep_to and > the last before it

Recovery makes the segments equal to the extents that follow `keep_to` without a gap; entries after a gap were
never promised (a large append whose id is missing), and are dropped. Pure: `recovery` hands in the frames."""

import struct
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from raftlog.errors import FormatError
from raftlog.records.header import LENGTH_END, read_header
from raftlog.runtime.journal.operations import (
    OPERATION_HEAD,
    GroupKey,
    GroupState,
    LogEnd,
    LostEnd,
    Mark,
    OperationKind,
    decode_group_state,
    decode_lost_end,
    decode_vote,
)
from raftlog.runtime.journal.stream import FrameTable, PayloadReader
from raftlog.storage.roll import RollMember
from raftlog.storage.rows import ROW_SIZE
from raftlog.types import Index, Offset, Term

_STRIDE: Final = 4
_IDS: Final = 1 << 63


class Extent(NamedTuple):
    """Entries `first` to `last`, whose bytes (or rows, with `is_ids`) begin at `address`.

    `length` is the number of bytes that were written there. A cut may have removed some of these entries, which
    `Fold.read_batches` and `Fold.read_rows` leave out.
    """

    first: Index
    last: Index
    address: int
    length: int
    is_ids: bool


@dataclass(slots=True, eq=False)
class FoldedGroup:
    """State of one Raft group that results from replaying the journal. Only `Fold` changes it."""

    group: GroupKey
    mark: Mark = Mark.NONE
    term: Term = Term(0)
    vote: RollMember | None = None
    log_start_offset: Offset = Offset(0)
    commit_hint: Index = Index(0)
    """Commit index as last journaled; not yet clamped to the log's end."""
    configuration_index: Index | None = Index(0)
    """Index of the latest configuration entry up to `keep_to`; 0 when only a roll has the configuration.

    None when it is unknown: a cut removed the entry that the checkpoint named, or the log was installed. Entries after
    `keep_to` are never opened here, and one of them may be a later configuration."""
    voting_position: LostEnd | None = None
    """Id of the lost entry with which the group votes."""
    end: LogEnd | None = None
    """Last entry at the checkpoint, creation or installation, with its file and position."""
    keep_to: Index = Index(0)
    """Last entry of the segments that no cut removed; at most the index of `end`."""
    tail: Index = Index(0)
    """Last entry of `end` or of any extent; `keep_to ≤ tail`."""
    dropped: int = 0
    """Entries that were dropped because one before them is missing; set once the fold is complete."""
    _extents: "array[int]" = field(default_factory=lambda: array("Q"))
    """Four numbers each: first, last, address, and the length with the bit `_IDS` for `is_ids`."""
    append_number: Callable[[int], None] = field(init=False)
    """Appends one number of an extent that begins after `tail`; for the hot path of the fold."""
    _has_gap: bool = False
    """Whether an append was replayed before the entries that precede it, which may have been replayed since."""

    def __post_init__(self) -> None:
        self.append_number = self._extents.append

    @property
    def last_index(self) -> Index:
        """The last entry that the segments must hold; valid once the fold is complete."""
        return self.tail

    def extents(self) -> Iterator[Extent]:
        """Yield the entries that the segments must hold after `keep_to`, in order of index."""
        cells = self._extents
        for at in range(0, len(cells), _STRIDE):
            first, last, address, length = cells[at : at + _STRIDE]
            yield Extent(Index(first), Index(last), address, length & ~_IDS, bool(length & _IDS))

    def add(self, first: int, last: int, address: int, length: int, is_ids: bool) -> str | None:
        """Replay an append of entries; return the reason if it contradicts earlier operations, else None.

        The ids of a large append may come after smaller appends that follow it, and after a checkpoint whose `end`
        covers some of them: the checkpoint has synced those, so they need no recovery."""
        if is_ids and first <= self.keep_to:
            covered = min(last, self.keep_to) + 1 - first
            first, address, length = first + covered, address + covered * ROW_SIZE, length - covered * ROW_SIZE
            if first > last:
                return None
        if first <= self.keep_to or first > last:
            return f"entries {first} to {last} are appended where {self.keep_to} is the last one"
        cells = self._extents
        at = len(cells)
        while at and cells[at - _STRIDE] > last:
            at -= _STRIDE
        if at and cells[at - _STRIDE + 1] >= first:
            return f"entries {first} to {last} are appended over {cells[at - _STRIDE]} to {cells[at - _STRIDE + 1]}"
        self._has_gap = self._has_gap or first != self.tail + 1
        cells[at:at] = array("Q", (first, last, address, length | _IDS if is_ids else length))
        self.tail = max(self.tail, Index(last))
        return None

    def cut(self, index: int) -> str | None:
        """Replay a cut: remove the entries from `index` on; return the reason when the index is invalid, else None."""
        if index < 1:
            return f"a cut at index {index}"
        cells = self._extents
        while cells and cells[-_STRIDE] >= index:
            del cells[-_STRIDE:]
        if cells and cells[1 - _STRIDE] >= index:
            cells[1 - _STRIDE] = index - 1
        self.keep_to = min(self.keep_to, Index(index - 1))
        if self.configuration_index is not None and self.configuration_index >= index:
            self.configuration_index = None
        self.tail = max(self.keep_to, Index(cells[1 - _STRIDE] if cells else 0))
        return None

    def restart_at(self, end: LogEnd | None, log_start_offset: int, configuration_index: Index | None) -> None:
        """Replay a replacement of the log: it has exactly the segments' entries up to `end`, and no extents."""
        del self._extents[:]
        self.end = end
        self.configuration_index = configuration_index
        self.log_start_offset = Offset(log_start_offset)
        self.keep_to = self.tail = Index(end.id.index if end else 0)

    def drop_after_gap(self) -> None:
        """Drop the entries after the first missing one; called once, after the last frame."""
        if not self._has_gap:
            return
        cells = self._extents
        reached: int = self.keep_to
        for at in range(0, len(cells), _STRIDE):
            if cells[at] != reached + 1:
                self.dropped = sum(cells[cell + 1] - cells[cell] + 1 for cell in range(at, len(cells), _STRIDE))
                del cells[at:]
                break
            reached = cells[at + 1]
        self.tail = Index(reached)

    def set_hard_state(self, term: int, vote: RollMember | None) -> str | None:
        """Set term and vote; return the reason if they are invalid, else None.

        Terms never fall, and there is one vote in a term."""
        if term < self.term:
            return f"term {term} follows term {self.term}"
        if term == self.term and self.vote is not None and vote != self.vote:
            return f"two votes in term {term}"
        self.term, self.vote = Term(term), vote
        return None

    def load(self, state: GroupState) -> None:
        """Replace the state of the group by its state in a checkpoint."""
        self.restart_at(state.end, state.log_start_offset, state.configuration_index)
        self.voting_position = LostEnd(*state.voting_position) if state.voting_position else None
        self.mark, self.term, self.vote, self.commit_hint = state.mark, state.term, state.vote, state.commit_hint


class Fold:
    """State that results from replaying a journal: its Raft groups, in the order of their first operations.

    Extents stay readable until the first checkpoint after the opening is completed: then their files are recycled."""

    def __init__(self, reader: PayloadReader, start: int, end: int) -> None:
        """Begin a fold at the checkpoint with frame number `start`; `reader` returns payloads."""
        self.groups: dict[GroupKey, FoldedGroup] = {}
        self.start = start
        """Number of the checkpoint's frame, where the fold began."""
        self.end = end
        """The sequence after the last block of the valid range."""
        self.last_frame = 0
        """Number of the last frame; whether its sync returned is not known."""
        self.operations = 0
        self.torn_blocks = 0
        """Number of blocks of an unfinished write, whose sync never returned; they are cut off."""
        self._reader = reader
        self._loading = True

    def read_batches(self, extent: Extent) -> list[memoryview]:
        """Return the batches of the extent's entries, one for each index. Raises `JournalDamaged`."""
        assert not extent.is_ids, f"{extent} has rows, no batches"
        data = memoryview(self._reader.read(extent.address, extent.length))
        found = []
        at = 0
        for _ in range(extent.last - extent.first + 1):
            size = LENGTH_END + read_header(data, at).batch_length
            found.append(data[at : at + size])
            at += size
        assert at <= len(data), f"{extent} needs {at} bytes"
        return found

    def read_rows(self, extent: Extent) -> bytes:
        """Return the index rows of a large append's entries, which the segment must match. Raises `JournalDamaged`."""
        assert extent.is_ids, f"{extent} has batches, no rows"
        return self._reader.read(extent.address, (extent.last - extent.first + 1) * ROW_SIZE)

    # folding

    def take(self, frame: FrameTable) -> None:
        """Replay the operations of one frame. Raises `FormatError` for operations that cannot follow.

        Recovery spends most of its time in this loop: four calls of an array's `append` cost less than one of
        `extend`."""
        address = frame.bodies
        groups = self.groups
        append = int(OperationKind.APPEND)
        for kind, key, a, b, length in OPERATION_HEAD.iter_unpack(frame.heads):
            if kind == append:
                try:
                    group = groups[key]
                except KeyError:
                    group = groups[key] = FoldedGroup(key)
                if a == group.tail + 1 and b >= a:
                    append_number = group.append_number
                    append_number(a)
                    append_number(b)
                    append_number(address)
                    append_number(length)
                    group.tail = b
                else:
                    self._check(frame, group.add(a, b, address, length, False))
            else:
                self._fold_other(frame, kind, key, a, b, address, length)
            address += length
        self.last_frame = frame.number
        self.operations += len(frame.heads) // OPERATION_HEAD.size
        self._check(frame, None if address <= frame.end else "its operations are longer than itself")

    def _fold_other(self, frame: FrameTable, kind: int, key: GroupKey, a: int, b: int, at: int, length: int) -> None:
        """Replay an operation that is no append; `a` and `b` are fields of its head, `at` is its body's address."""
        if kind in _BORDERS:
            self._fold_border(frame, kind, a)
            return
        if kind == OperationKind.GROUP_STATE:
            if self._loading:
                self._load(frame, key, a, b, at, length)
            return
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = FoldedGroup(key)
        if kind == OperationKind.HARD_STATE:
            try:
                vote = decode_vote(self._reader.read(at, length))
            except struct.error as error:
                raise self._make_error(frame, str(error)) from None
            self._check(frame, group.set_hard_state(a, vote))
        elif kind == OperationKind.APPEND_IDS:
            self._check(frame, group.add(a, b, at, length, True))
        elif kind == OperationKind.CUT:
            self._check(frame, group.cut(a))
        elif kind == OperationKind.TRIM:
            group.log_start_offset = max(group.log_start_offset, Offset(a))
        elif kind in (OperationKind.INSTALL, OperationKind.CREATED):
            configuration_index = Index(0) if kind == OperationKind.CREATED else None
            end = LogEnd(Offset(b), self._reader.read(at, ROW_SIZE)) if length else None
            group.restart_at(end, a, configuration_index)
            group.mark = Mark.CREATED if kind == OperationKind.CREATED else group.mark
        elif kind == OperationKind.REMOVED:
            group.restart_at(None, 0, Index(0))
            group.mark, group.commit_hint = Mark.REMOVED, Index(0)
        elif kind == OperationKind.VOTING_POSITION:
            group.voting_position = decode_lost_end(a, b)
        elif kind == OperationKind.COMMIT_HINT:
            group.commit_hint = max(group.commit_hint, Index(a))
        else:
            raise self._make_error(
                frame, f"operation kind {kind} is unknown: use the release that wrote it, or a newer one"
            )

    def _fold_border(self, frame: FrameTable, kind: int, count: int) -> None:
        """Replay the begin or the end of a checkpoint, by `kind`; `count` is the number of the checkpoint's groups.

        A checkpoint that was not completed repeats the replayed state and is skipped."""
        if not self._loading:
            return
        if kind == OperationKind.CHECKPOINT_END:
            found = len(self.groups)
            self._check(frame, None if found == count else f"the checkpoint names {found} of {count} groups")
            self._loading = False

    def _load(self, frame: FrameTable, key: GroupKey, term: int, log_start: int, at: int, length: int) -> None:
        """Set a group's state from the checkpoint at which the replay begins."""
        try:
            state = decode_group_state(key, term, log_start, self._reader.read(at, length))
        except (struct.error, ValueError) as error:
            raise self._make_error(frame, f"a checkpoint's state cannot be read: {error}") from None
        group = self.groups[key] = FoldedGroup(key)
        group.load(state)

    def finish(self) -> None:
        """End the replay: drop entries after gaps. Raises `FormatError` inside an incomplete checkpoint."""
        if self._loading:
            raise FormatError(f"the journal ends inside the checkpoint of frame {self.start}")
        for group in self.groups.values():
            group.drop_after_gap()

    def _check(self, frame: FrameTable, reason: str | None) -> None:
        """Raise `FormatError` with the frame's number for a reason; do nothing for None."""
        if reason:
            raise self._make_error(frame, reason)

    @staticmethod
    def _make_error(frame: FrameTable, reason: str) -> FormatError:
        """Return the error for a frame that cannot be folded."""
        return FormatError(f"frame {frame.number} of the journal cannot be folded: {reason}")


_BORDERS: Final = (OperationKind.CHECKPOINT_BEGIN, OperationKind.CHECKPOINT_END)
