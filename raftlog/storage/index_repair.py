"""Repair of damaged index rows whose batches are undamaged: rows are written again from the batches.

A row is rewritten only where the chain from the last undamaged row before it determines it: the batch's header fits the
chain of offset and position, its CRC is right, and the row was not an undamaged one that contradicts the header (then
the header is damaged). So a repaired row never hides damage."""

from typing import NamedTuple

from raftlog.records import HEADER_SIZE, BatchHeader, crc_matches, read_header
from raftlog.records.header import MAGIC
from raftlog.storage.gap import last_index_of
from raftlog.storage.rows import pack_row, restore_header, row_matches, unpack_row
from raftlog.storage.segment import Segment


class _ChainPoint(NamedTuple):
    """Position, offset and index of the next batch in the chain."""

    position: int
    offset: int
    index: int  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here


def repair_index(segment: Segment) -> int:
    """Compare every row with its batch's header and repair damaged ones; return their number."""
    return _repair_from(segment, 0, _first_point(segment), stops_at_sound=False)


def repair_row(segment: Segment, number: int) -> bool:
    """Repair row `number` and damaged neighbours; return whether `number` was repaired."""
    first, point = number, None
    while first > 0 and (point := _point_after(segment, first - 1)) is None:
        first -= 1
    before = segment.row_bytes(number, 1)
    _repair_from(segment, first, point or _first_point(segment), stops_at_sound=True, at_least=number)
    return segment.row_bytes(number, 1) != before


def _first_point(segment: Segment) -> _ChainPoint:
    """Return the point at the beginning of a segment."""
    return _ChainPoint(0, segment.base_offset, segment.base_index)


def _repair_from(segment: Segment, number: int, point: _ChainPoint, *, stops_at_sound: bool, at_least: int = 0) -> int:
    """Repair damaged rows from row `number` on, whose batch is at `point`; return the number of repaired rows.

    With `stops_at_sound` the repair ends at the first undamaged row after row `at_least`."""
    repaired = 0
    while number < segment.rows:
        after = _point_after(segment, number)
        if after is not None and unpack_row(segment.row_bytes(number, 1)).position == point.position:
            if stops_at_sound and number > at_least:
                break
        else:
            after = _write_row(segment, number, point)
            if after is None:
                break
            repaired += 1
        point = after
        number += 1
    return repaired


def _point_after(segment: Segment, number: int) -> _ChainPoint | None:
    """Return the point after a row that matches its batch's header; None if it does not match."""
    packed = segment.row_bytes(number, 1)
    row = unpack_row(packed)
    if not segment.can_be_row_of(number, row.index) or row.end > segment.end_position:
        return None
    head = segment.files.log.read(row.position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return None
    restored = head if row_matches(packed, head) else restore_header(packed, head)
    if restored is None:
        return None
    header = read_header(restored)
    return _ChainPoint(row.end, header.next_offset, _last_index(segment, header, row.position, row.index) + 1)


def _last_index(segment: Segment, header: BatchHeader, position: int, index: int) -> int:
    """Return the last index that the batch at a position has or replaces."""
    if not segment.missing or not header.is_control:
        return index
    return last_index_of(segment.files.log.read(position, header.size), header, index)


def _write_row(segment: Segment, number: int, point: _ChainPoint) -> _ChainPoint | None:
    """Write row `number` from the batch at `point`; return the next point, or None if that batch is damaged."""
    head = segment.files.log.read(point.position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return None
    header = read_header(head)
    end = point.position + header.size
    if header.magic != MAGIC or header.base_offset != point.offset or not header.size >= HEADER_SIZE:
        return None
    if end > segment.end_position or header.next_offset > segment.next_offset:
        return None
    if not crc_matches(segment.files.log.read(point.position, header.size), header):
        return None
    packed = pack_row(point.index, header.leader_epoch, point.offset, point.position, header, head)
    segment.replace_row(number, packed)
    return _ChainPoint(end, header.next_offset, _last_index(segment, header, point.position, point.index) + 1)
