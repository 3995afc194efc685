"""Batches of Raft's own entries: configurations and no-ops, and entries made from stored batches.

A configuration is in its own control entries and in the roll of every segment; both name members by node id and
disk uuid. docs/FORMATS.md, sections 4 and 5, has the bytes. Batches made here have offset 0 and term 0: the log stamps
both when it appends the entry. Data batches are never opened. Pure; called by the group log and by recovery."""

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from raftlog.errors import FormatError, InvalidBatch
from raftlog.raft import Configuration, ControlPayloads, Entry, EntryKind, Proposal, ReplicaId
from raftlog.records import ControlKind, build_control_batch, read_control
from raftlog.records.header import CONTROL_BIT
from raftlog.storage.roll import Roll, RollMember, decode_members, decode_roll, encode_members
from raftlog.types import Buffer, Index, NodeId, Offset, Term

CONFIGURATION_VERSION: Final = 1
TRIM_VERSION: Final = 1
COMPACTED_TO_VERSION: Final = 2
_CONFIGURATION = struct.Struct(">BQ")
_TRIM = struct.Struct(">BqQ")
_COMPACTED_TO = struct.Struct(">Bqq")
_NO_OP: Final = b"\x01"
"""Payload of version 1, without content."""
_ATTRIBUTES_LOW: Final = 22
_FIRST: Final = Index(1)
"""Index of the first entry of a log."""
_UNSTAMPED: Final = Offset(0)


def member_of(replica: ReplicaId) -> RollMember:
    """Return the member by which files name a replica: node id and disk uuid."""
    return RollMember(replica.node_id, replica.disk_uuid)


def members_of(
    configuration: Configuration,
) -> tuple[tuple[RollMember, ...], tuple[RollMember, ...], tuple[RollMember, ...]]:
    """Return a configuration's voters, learners and outgoing voters in the form of rolls and configuration entries."""
    voters, learners, outgoing = (
        tuple(map(member_of, each)) for each in (configuration.voters, configuration.learners, configuration.outgoing)
    )
    return voters, learners, outgoing


@lru_cache(maxsize=4096)
def replica_of(member: RollMember) -> ReplicaId:
    """Return the replica id of a member that a file names.

    The result is cached, so that equal members usually share one object."""
    return ReplicaId(NodeId(member.node_id), member.disk_uuid)


def configuration_of_roll(roll: Roll) -> Configuration:
    """Return the configuration in a roll; its index is that of the configuration entry that the roll repeats."""
    return _build_configuration(Index(roll.configuration_index), roll.voters, roll.learners, roll.outgoing_voters)


def encode_configuration(configuration: Configuration, replaces_index: Index) -> bytes:
    """Return the payload of a configuration entry. The configuration's index is not in it: it is the entry's index."""
    members = b"".join(map(encode_members, members_of(configuration)))
    return _CONFIGURATION.pack(CONFIGURATION_VERSION, replaces_index) + members


def decode_configuration(payload: bytes, index: Index) -> tuple[Configuration, Index]:
    """Return the configuration in the entry at `index`, and the index of the one that it replaces.

    Raises `FormatError`."""
    try:
        version, replaces_index = _CONFIGURATION.unpack_from(payload)
        if version != CONFIGURATION_VERSION:
            raise FormatError(
                f"configuration entry {index} of version {version}; this program reads version {CONFIGURATION_VERSION}"
            )
        voters, position = decode_members(payload, _CONFIGURATION.size)
        learners, position = decode_members(payload, position)
        outgoing, position = decode_members(payload, position)
    except struct.error as error:
        raise FormatError(f"configuration entry {index} of {len(payload)} bytes cannot be read: {error}") from None
    if position != len(payload):
        raise FormatError(f"configuration entry {index} has {len(payload)} bytes, of which {position} are read")
    return _build_configuration(index, voters, learners, outgoing), Index(replaces_index)


def _build_configuration(
    index: Index, voters: tuple[RollMember, ...], learners: tuple[RollMember, ...], outgoing: tuple[RollMember, ...]
) -> Configuration:
    """Return the configuration of stored members, in ascending order."""
    replicas = (tuple(sorted(map(replica_of, members))) for members in (voters, learners, outgoing))
    return Configuration(index, *replicas)


def build_no_op_batch(wall_ms: int) -> bytearray:
    """Build the batch of a no-op, the first entry of a new leader; it is not stamped yet."""
    return build_control_batch(ControlKind.NO_OP, _NO_OP, wall_ms, next_offset=_UNSTAMPED)


def build_configuration_batch(configuration: Configuration, replaces_index: Index, wall_ms: int) -> bytearray:
    """Build the batch of a configuration entry; it is not stamped yet."""
    payload = encode_configuration(configuration, replaces_index)
    return build_control_batch(ControlKind.CONFIGURATION, payload, wall_ms, next_offset=_UNSTAMPED)


class TrimEntry(NamedTuple):
    """Content of a trim entry: records below `log_start_offset` are deleted.

    `snapshot_index` is the index of the roll after which the log has a snapshot of the state of idempotent producers
    in the deleted entries; 0 without such a snapshot."""

    log_start_offset: Offset
    snapshot_index: Index


def encode_trim(trim: TrimEntry) -> bytes:
    """Return the payload of a trim entry."""
    return _TRIM.pack(TRIM_VERSION, *trim)


def decode_trim(payload: bytes) -> TrimEntry:
    """Read a trim entry's payload; raises `FormatError`."""
    return TrimEntry(*_unpack_numbers("trim", _TRIM, TRIM_VERSION, payload))


class CompactionMark(NamedTuple):
    """Content of a compaction mark.

    Compaction may run below offset `compacted_to`, where a committed roll begins a segment, and may drop tombstones
    below `tombstones_to`."""

    compacted_to: Offset
    tombstones_to: Offset


def encode_compacted_to(mark: CompactionMark) -> bytes:
    """Return the payload of a compacted_to entry."""
    return _COMPACTED_TO.pack(COMPACTED_TO_VERSION, *mark)


def decode_compacted_to(payload: bytes) -> CompactionMark:
    """Read a compacted_to entry's payload; raises `FormatError`."""
    return CompactionMark(*_unpack_numbers("compacted_to", _COMPACTED_TO, COMPACTED_TO_VERSION, payload))


def _unpack_numbers(name: str, layout: struct.Struct, version: int, payload: bytes) -> tuple[Any, ...]:
    """Return the numbers in a payload of fixed layout; raises `FormatError` for another size or version."""
    if len(payload) != layout.size or payload[0] != version:
        found = payload[0] if payload else None
        raise FormatError(
            f"{name} entry of version {found} with {len(payload)} bytes; this program reads version {version}, "
            f"which has {layout.size}"
        )
    return layout.unpack(payload)[1:]


def is_control(batch: Buffer) -> bool:
    """Return whether a batch is a control batch, from the control bit alone."""
    return bool(batch[_ATTRIBUTES_LOW] & CONTROL_BIT)


def is_trim(batch: Buffer) -> bool:
    """Return whether a batch is a trim; false for an unreadable one."""
    try:
        return is_control(batch) and read_control(batch)[0] is ControlKind.TRIM
    except InvalidBatch:
        return False


def entry_of(index: Index, term: Term, batch: Buffer) -> Entry:
    """Return the Raft entry of a stored batch whose CRC was checked.

    Only configurations, no-ops and the log's first entry, a roll, are more than data to Raft. Raises `InvalidBatch` and
    `FormatError` for a control batch that this version cannot read."""
    if not is_control(batch):
        return Entry(index, term, EntryKind.DATA, len(batch), batch)
    kind, payload = read_control(batch)
    if kind is ControlKind.CONFIGURATION:
        configuration, _ = decode_configuration(payload, index)
        return Entry(index, term, EntryKind.CONFIGURATION, len(batch), batch, configuration)
    if kind is ControlKind.ROLL and index == _FIRST:
        return Entry(index, term, EntryKind.DATA, len(batch), batch, configuration_of_roll(decode_roll(payload)))
    return Entry(index, term, EntryKind.NO_OP if kind is ControlKind.NO_OP else EntryKind.DATA, len(batch), batch)


class BatchPayloads(ControlPayloads):
    """Factory of the control batches that a Raft core appends. `wall_ms` returns milliseconds since 1970."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms

    def no_op(self) -> Proposal:
        """Return the proposal of a no-op batch."""
        batch = build_no_op_batch(self._wall_ms())
        return Proposal(batch, len(batch))

    def configuration(self, configuration: Configuration, replaces_index: Index) -> Proposal:
        """Return the proposal of a configuration batch."""
        batch = build_configuration_batch(configuration, replaces_index, self._wall_ms())
        return Proposal(batch, len(batch))
