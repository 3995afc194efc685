"""Gaps: control batches in place of removed or lost entries. docs/FORMATS.md, section 5, has the bytes.

A gap has the index of the first entry that it replaces and spans the offsets of all of them, so that the chain of index
and offset continues after it. A gap of compaction (`REASON_COMPACTED`) may replace many entries, and occurs only in a
compacted segment below its mark; a gap for damage that was accepted as lost (`REASON_LOST`) replaces one entry, or a
gap of compaction. Pure functions."""

import struct
from typing import Final, NamedTuple

from raftlog.errors import FormatError, InvalidBatch
from raftlog.records import BatchHeader, ControlKind, build_control_batch, read_control, stamp
from raftlog.types import Buffer, Offset, Term

GAP: Final = struct.Struct(">BQQqqQB")
"""Version, first and last index, first offset, offset after the last, term, reason."""
GAP_VERSION: Final = 1
REASON_COMPACTED: Final = 1
REASON_LOST: Final = 2
SPAN_MAX: Final = (1 << 31) - 1
"""Maximum number of offsets that one gap can span, because lastOffsetDelta is an int32."""


class Gap(NamedTuple):
    """Content of a gap. `term` is that of the last entry that it replaces."""

    first_index: int
    last_index: int
    first_offset: int
    end_offset: int
    term: int
    reason: int


def build_gap_batch(gap: Gap, timestamp_ms: int = 0) -> bytes:
    """Build the stamped batch of a gap."""
    offset = Offset(gap.first_offset)
    payload = GAP.pack(GAP_VERSION, *gap)
    spanned = gap.end_offset - gap.first_offset
    batch = build_control_batch(ControlKind.GAP, payload, timestamp_ms, next_offset=offset, offsets_spanned=spanned)
    stamp(batch, offset, Term(gap.term))
    return bytes(batch)


def decode_gap(payload: bytes) -> Gap:
    """Read a gap's payload; raises `FormatError`."""
    if len(payload) != GAP.size or payload[0] != GAP_VERSION:
        raise FormatError(
            f"gap of {len(payload)} bytes; this program reads version {GAP_VERSION}, which has {GAP.size}"
        )
    _, *fields = GAP.unpack(payload)
    return Gap(*fields)


def read_gap(batch: Buffer, header: BatchHeader) -> Gap | None:
    """Return the gap in a batch whose CRC was checked; None if the batch is no gap, or an unreadable one."""
    if not header.is_control:
        return None
    try:
        kind, payload = read_control(batch, header)
        return decode_gap(payload) if kind is ControlKind.GAP else None
    except (InvalidBatch, FormatError):
        return None


def last_index_of(batch: Buffer, header: BatchHeader, index: int) -> int:
    """Return the last index that the batch at `index` of a compacted segment has or replaces."""
    gap = read_gap(batch, header)
    return gap.last_index if gap else index


def gap_error(batch: Buffer, header: BatchHeader, index: int, compacted_to: int) -> str | None:
    """Return the error in a gap at `index`; None if the gap is correct, or the batch is no gap."""
    gap = read_gap(batch, header)
    if gap is None:
        return None
    if (gap.first_index, gap.first_offset, gap.end_offset) != (index, header.base_offset, header.next_offset):
        return f"it is a gap from entry {gap.first_index} at offset {gap.first_offset}, found at entry {index}"
    if gap.last_index < gap.first_index:
        return f"it is a gap from entry {gap.first_index} to {gap.last_index}"
    is_of_compaction = gap.reason == REASON_COMPACTED or gap.last_index > gap.first_index
    if is_of_compaction and gap.end_offset > compacted_to:
        return f"it is a gap up to offset {gap.end_offset}, and compaction ran only below {compacted_to}"
    return None
