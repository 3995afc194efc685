"""Validation of entries that another process sent, before they reach the core.

Each must be one whole record batch with a matching CRC, stamped with the entry's term, and follow the one before it in
offset; control batches that the log itself reads (rolls, configurations, trims) must be readable. So entries that the
network or another disk corrupted never reach a log."""

import uuid
from collections.abc import Sequence

from raftlog.errors import FormatError, InvalidBatch
from raftlog.raft import Entry, EntryId
from raftlog.raft.messages import AppendRequest
from raftlog.records import (
    HEADER_SIZE,
    MARKER_KINDS,
    BatchHeader,
    ControlKind,
    crc_matches,
    decode_marker_value,
    read_control,
    read_header,
)
from raftlog.records.header import MAGIC, base_offset_of
from raftlog.runtime.log.control_entries import decode_compacted_to, decode_trim, entry_of, is_control
from raftlog.runtime.log.group_log import GroupLog
from raftlog.storage.roll import decode_roll
from raftlog.types import Index, Offset


class Admission:
    """Validation of the entries that one replica receives; it keeps the end offsets of entries not in the log yet."""

    def __init__(self, group_id: uuid.UUID) -> None:
        self._group_id = group_id
        self.ahead: dict[EntryId, Offset] = {}
        """Offset after the last entry of each message of this turn, by the entry's id; cleared by the driver."""

    def admits(self, request: AppendRequest, log: GroupLog) -> bool:
        """Return whether the entries are valid and, if the entry before them is in the log, follow it.

        The core refuses the append if that entry is missing. Raises `CorruptBatch` where the log itself is damaged."""
        entries = request.entries
        next_offset = end_of_entries(entries, self._group_id)
        if next_offset is None:
            return False
        expected = self._offset_after(request.previous, log)
        if expected is not None and base_offset_of(entries[0].payload) != expected:
            return False
        last = entries[-1]
        self.ahead[EntryId(last.index, last.term)] = next_offset
        return True

    def _offset_after(self, previous: EntryId, log: GroupLog) -> Offset | None:
        """Return the offset after an entry of the log or of this turn; None if neither has the entry."""
        ahead = self.ahead.get(previous)
        if ahead is not None:
            return ahead
        if not log.boundary.index <= previous.index <= log.last_index or log.term_at(previous.index) != previous.term:
            return None
        return log.offset_of(Index(previous.index + 1))


def end_of_entries(entries: Sequence[Entry], group_id: uuid.UUID) -> Offset | None:
    """Return the offset after the entries; `None` unless they are valid and consecutive."""
    next_offset = -1
    for entry in entries:
        batch = entry.payload
        if len(batch) < HEADER_SIZE:
            return None
        header = read_header(batch)
        is_next = header.base_offset == next_offset if next_offset >= 0 else header.base_offset >= 0
        if not (
            is_next
            and header.magic == MAGIC
            and header.size == len(batch) == entry.size_bytes
            and header.leader_epoch == entry.term
            and header.last_offset_delta >= -1
            and crc_matches(batch, header)
        ):
            return None
        if is_control(batch) and not _is_readable(entry, header, group_id):
            return None
        next_offset = header.base_offset + header.last_offset_delta + 1
    return Offset(next_offset)


def _is_readable(entry: Entry, header: BatchHeader, group_id: uuid.UUID) -> bool:
    """Return whether a control entry has the kind that the message states, and the log can apply it."""
    try:
        if entry_of(entry.index, entry.term, entry.payload).kind is not entry.kind:
            return False
        kind, payload = read_control(entry.payload, header)
        if kind is ControlKind.TRIM:
            return decode_trim(payload).log_start_offset <= header.base_offset
        if kind is ControlKind.COMPACTED_TO:
            return decode_compacted_to(payload).compacted_to <= header.base_offset
        if kind in MARKER_KINDS:
            decode_marker_value(payload)
            return header.last_offset_delta == 0 and header.producer_id >= 0
        if kind is not ControlKind.ROLL:
            return True
        roll = decode_roll(payload)
    except (InvalidBatch, FormatError):
        return False
    return roll.base_index == entry.index and roll.group_id == group_id
