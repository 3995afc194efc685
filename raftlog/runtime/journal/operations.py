"""Operations of the journal, and their bytes.

A frame's payload is a count, a table of 40-byte heads, then the operations' bodies in the same order:

    uint32 operations · uint32 reserved · operations × head · bodies
    head: uint8 kind · 3 reserved · uuid group · uint64 a · uint64 b · uint32 body length

Heads of one size lie together so that recovery decodes them in C, without touching the bodies. The docstring of each
operation defines `a`, `b` and the body. Groups are the 16 bytes of their uuid: they key dictionaries here on the hot
path. The driver decides which operations a replica may write. Pure: no files here."""

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from raftlog.storage.roll import RollMember
from raftlog.storage.rows import ROW_SIZE, Row, unpack_row
from raftlog.types import Buffer, Index, Offset, Term, intern_uuid

GroupKey: TypeAlias = bytes
"""The 16 bytes of a group's uuid."""

FRAME_HEAD: Final = struct.Struct(">II")
OPERATION_HEAD: Final = struct.Struct(">B3x16sQQI")
VOTE: Final = struct.Struct(">I16s")
GROUP_STATE: Final = struct.Struct(">BBBxQQQQQ20s44s")
FRAME_HEAD_SIZE: Final = FRAME_HEAD.size
OPERATION_HEAD_SIZE: Final = OPERATION_HEAD.size
NO_GROUP: Final = bytes(16)
_NO_ENTRY: Final = (0, 0)


class OperationKind(IntEnum):
    """Kind of an operation. The numbers are part of the format and are never reused."""

    HARD_STATE = 1
    APPEND = 2
    APPEND_IDS = 3
    CUT = 4
    TRIM = 5
    INSTALL = 6
    CREATED = 7
    REMOVED = 8
    COMMIT_HINT = 9
    CHECKPOINT_BEGIN = 10
    GROUP_STATE = 11
    CHECKPOINT_END = 12
    VOTING_POSITION = 13


class Mark(IntEnum):
    """Mark of a group that was created here, or removed; kept until its topic is deleted."""

    NONE = 0
    CREATED = 1
    REMOVED = 2


class LogEnd(NamedTuple):
    """Last entry that the segments of a group are known to hold: base offset of the file, index row of the entry."""

    segment: Offset
    row: bytes

    @property
    def id(self) -> Row:
        """Decoded index row of the entry: index, term and position in the file; the entry ends at `id.end`."""
        return unpack_row(self.row)


class LostEnd(NamedTuple):
    """Id of a last entry that was lost to damage: the replica votes with it until its log is as up to date again."""

    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    term: Term


class JournaledHardState(NamedTuple):
    """Term and vote. Head: `a` = term; body: the vote as node id and disk uuid, or nothing."""

    group: GroupKey
    term: Term
    vote: RollMember | None


class Append(NamedTuple):
    """Entries with their bytes. Head: `a` = first index, `b` = last index; body: their batches as stored, in order."""

    group: GroupKey
    first_index: Index
    last_index: Index
    batches: Sequence[Buffer]


class AppendIds(NamedTuple):
    """Entries of a large append, journaled after their segment's sync. Head as in `Append`; body: index rows."""

    group: GroupKey
    first_index: Index
    rows: bytes


class Cut(NamedTuple):
    """Removal of the entries from an index on. Head: `a` = index. Synced before a byte that it frees is touched."""

    group: GroupKey
    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here


class Trim(NamedTuple):
    """Rise of the log start. Head: `a` = log start offset. Segments are unlinked once the operation is durable."""

    group: GroupKey
    log_start_offset: Offset


class Install(NamedTuple):
    """Replacement of the log by received and synced segments.

    Head: `a` = log start offset, `b` = base offset of the last segment; body: its last row."""

    group: GroupKey
    log_start_offset: Offset
    end: LogEnd


class Created(NamedTuple):
    """Creation of a group: directory, meta file and first roll, if any, are synced. Encoded as `Install` is."""

    group: GroupKey
    log_start_offset: Offset
    end: LogEnd | None
    """`None` for a replica that begins with an empty log; then the body is empty."""


class Removed(NamedTuple):
    """Removal of the group from this disk; its term, its vote and its voting position stay."""

    group: GroupKey


class CommitHint(NamedTuple):
    """Commit index of a group. Head: `a` = index. It never forces a sync, and recovery clamps it to the log's end."""

    group: GroupKey
    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here


class VotingPosition(NamedTuple):
    """Id of a lost entry with which the group votes. Head: `a` = index, `b` = term; both 0: it votes with its log.

    It stays in effect through checkpoints, cuts, installations and removals, until another one is journaled.
    """

    group: GroupKey
    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    term: Term


class GroupState(NamedTuple):
    """State of one group in a checkpoint. Head: `a` = term, `b` = log start offset; body: the rest, of fixed size."""

    group: GroupKey
    mark: Mark
    term: Term
    vote: RollMember | None
    log_start_offset: Offset = Offset(0)
    end: LogEnd | None = None
    """Last entry and its place; `None` for a log without entries. Synced before the checkpoint is completed."""
    commit_hint: Index = Index(0)
    configuration_index: Index | None = Index(0)
    """Index of the latest configuration entry in the log, at most that of `end`.

    0 when only a roll has the configuration; None when it is unknown because of damage."""
    voting_position: tuple[Index, Term] | None = None
    """Index and term of the lost entry with which the group votes, if there is one."""


Operation: TypeAlias = (
    JournaledHardState | Append | AppendIds | Cut | Trim | Install | Created | Removed | VotingPosition | GroupState
)

Encoded: TypeAlias = tuple[bytes, Sequence[Buffer], int]
"""One operation as bytes: its head, the parts of its body, and the body's size."""

_CONFIGURATION_UNKNOWN: Final = 1
"""Configuration index in a checkpoint of a log whose latest configuration entry is not known.

The first entry of a log is never a later configuration than the roll with which the log begins."""

_pack = OPERATION_HEAD.pack


def _encode_hard_state(operation: JournaledHardState) -> Encoded:
    """Return the encoded term and vote of a Raft group."""
    vote = encode_vote(operation.vote)
    return (_pack(OperationKind.HARD_STATE, operation.group, operation.term, 0, len(vote)), (vote,), len(vote))


def _encode_append(operation: Append) -> Encoded:
    """Return the encoded entries of a Raft group, with their batches."""
    group, first, last, batches = operation
    assert first <= last, f"entries {first} to {last}"
    size = len(batches[0]) if len(batches) == 1 else sum(map(len, batches))
    return (_pack(OperationKind.APPEND, group, first, last, size), batches, size)


def _encode_append_ids(operation: AppendIds) -> Encoded:
    """Return the encoded index rows of appended entries, whose batches are in the segment only."""
    group, first, rows = operation
    count, rest = divmod(len(rows), ROW_SIZE)
    assert count > 0, "no row"
    assert rest == 0, f"{len(rows)} bytes are not whole rows of {ROW_SIZE}"
    return (_pack(OperationKind.APPEND_IDS, group, first, first + count - 1, len(rows)), (rows,), len(rows))


def _encode_cut(operation: Cut) -> Encoded:
    """Return the encoded cut of a log."""
    assert operation.index > 0, f"cut at index {operation.index}"
    return (_pack(OperationKind.CUT, operation.group, operation.index, 0, 0), (), 0)


def _encode_trim(operation: Trim) -> Encoded:
    """Return the encoded new start of a log."""
    return (_pack(OperationKind.TRIM, operation.group, operation.log_start_offset, 0, 0), (), 0)


def _encode_install(operation: Install | Created) -> Encoded:
    """Encode the start of a log that was created, or installed with the row of its last entry."""
    group, log_start, end = operation
    kind = OperationKind.CREATED if isinstance(operation, Created) else OperationKind.INSTALL
    if end is None:
        return (_pack(kind, group, log_start, 0, 0), (), 0)
    segment, row = end
    assert len(row) == ROW_SIZE, f"{len(row)} bytes are not a row of {ROW_SIZE}"
    return (_pack(kind, group, log_start, segment, ROW_SIZE), (row,), ROW_SIZE)


def _encode_removed(operation: Removed) -> Encoded:
    """Return the encoded removal of a Raft group."""
    return (_pack(OperationKind.REMOVED, operation.group, 0, 0, 0), (), 0)


def _encode_voting_position(operation: VotingPosition) -> Encoded:
    """Return the encoded voting position of a replica; (0, 0) removes it."""
    group, index, term = operation
    assert index > 0 or (index, term) == (0, 0), f"voting position of index {index}, term {term}"
    return (_pack(OperationKind.VOTING_POSITION, group, index, term, 0), (), 0)


def _encode_group_state(operation: GroupState) -> Encoded:
    """Return the encoded state of a Raft group in a checkpoint."""
    group, mark, term, vote, log_start, end, hint, configuration, voting_position = operation
    last = end.id.index if end else 0
    named = _CONFIGURATION_UNKNOWN if configuration is None else configuration
    assert 0 <= named <= last, f"configuration entry {named}, last entry {last}"
    segment, row = end or (0, b"")
    body = GROUP_STATE.pack(
        mark, vote is not None, end is not None, hint, segment, named, *(voting_position or _NO_ENTRY),
        encode_vote(vote), row,
    )  # fmt: skip  # one line per field would hide that this is one call
    return (_pack(OperationKind.GROUP_STATE, group, term, log_start, len(body)), (body,), len(body))


ENCODERS: Final[dict[type, Callable[[Any], Encoded]]] = {
    JournaledHardState: _encode_hard_state,
    Append: _encode_append,
    AppendIds: _encode_append_ids,
    Cut: _encode_cut,
    Trim: _encode_trim,
    Install: _encode_install,
    Created: _encode_install,
    Removed: _encode_removed,
    VotingPosition: _encode_voting_position,
    GroupState: _encode_group_state,
}


def encode(operation: Operation) -> Encoded:
    """Return the bytes of one operation."""
    return ENCODERS[type(operation)](operation)


def encode_bare(kind: OperationKind, a: int = 0, group: GroupKey = NO_GROUP) -> Encoded:
    """Return the bytes of an operation without a body: a commit hint, or the begin or end of a checkpoint.

    `a`: the index of the hint, or the number of the checkpoint's groups."""
    return (_pack(kind, group, a, 0, 0), (), 0)


def encode_checkpoint(states: Sequence[Encoded]) -> tuple[list[Encoded], int]:
    """Return the operations of a checkpoint, with its begin and its end, and their size in bytes."""
    count = len(states)
    encoded = [
        encode_bare(OperationKind.CHECKPOINT_BEGIN, count),
        *states,
        encode_bare(OperationKind.CHECKPOINT_END, count),
    ]
    return encoded, sum(each[2] + OPERATION_HEAD_SIZE for each in encoded)


def encode_vote(vote: RollMember | None) -> bytes:
    """Return the bytes of a vote; none for None."""
    return VOTE.pack(vote.node_id, vote.disk_uuid.bytes) if vote else b""


def decode_vote(body: Buffer) -> RollMember | None:
    """Return the vote in a body, None for an empty one; raises `struct.error` for anything else."""
    if not len(body):
        return None
    node_id, disk = VOTE.unpack(body)
    return RollMember(node_id, intern_uuid(disk))


def decode_lost_end(index: int, term: int) -> LostEnd | None:
    """Return a voting position, None for index 0."""
    return LostEnd(Index(index), Term(term)) if index else None


def decode_group_state(group: GroupKey, term: int, log_start: int, body: Buffer) -> GroupState:
    """Return a group's state from a checkpoint; raises `struct.error` or `ValueError` for invalid bytes."""
    mark, has_vote, has_end, hint, segment, configuration, lost_index, lost_term, vote, row = GROUP_STATE.unpack(body)
    return GroupState(
        group,
        Mark(mark),
        Term(term),
        decode_vote(vote) if has_vote else None,
        Offset(log_start),
        LogEnd(Offset(segment), row) if has_end else None,
        Index(hint),
        None if configuration == _CONFIGURATION_UNKNOWN else Index(configuration),
        decode_lost_end(lost_index, lost_term),
    )
