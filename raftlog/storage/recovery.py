"""Recovery of a lone log's segments after any stop: sound batches are kept, a torn end is cut, damage is reported.

Below the checkpoint files are adopted unread (the scrub reads them in the background). After it every batch is
read: header, CRC, and the chain of offset and term. Index rows are written only after the sync of their batch returned,
so:

- a bad batch with no row at or after it, short or with a zeroed 4 KiB block, is *torn*: its sync never returned. It
  and all that follows are cut off and kept in `.raftlog/damaged/`;
- every other bad batch is *damage*: the log is opened read-only, up to it and, where rows allow, after it.

No bytes are deleted that could have been acknowledged."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from raftlog.errors import CorruptBatch, FormatError, InvalidBatch
from raftlog.records import HEADER_SIZE, BatchHeader, ControlKind, crc_matches, read_control, read_header
from raftlog.records.header import LENGTH_END, MAGIC
from raftlog.storage.checkpoint import Checkpoint
from raftlog.storage.directory import DAMAGED, internal_path
from raftlog.storage.disk import Disk
from raftlog.storage.roll import Roll, decode_roll
from raftlog.storage.rows import ROW_SIZE, Row, row_matches, unpack_row, unpack_rows
from raftlog.storage.segment import Segment
from raftlog.storage.segment_files import SUFFIXES, open_segment_files, segment_stem
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS
from raftlog.types import Offset, Position

BLOCK = 4096
_LOG_NAME = re.compile(r"(\d{20})\.log")
_CHUNK_BYTES = 4 << 20
_PUBLISH_ROWS = 16 * 1024


class TornTail(NamedTuple):
    """Bytes at the end of `file`, from `position` on, that were cut off; `kept_in` is the file with a copy of them."""

    file: str
    position: int
    bytes_cut: int
    kept_in: str


@dataclass(slots=True)
class RecoveryReport:
    """Findings and repairs of a recovery: damage, torn ends and removed files."""

    batches_scanned: int = 0
    bytes_scanned: int = 0
    torn: list[TornTail] = field(default_factory=list)
    indexes_rebuilt: list[str] = field(default_factory=list)
    damage: list[CorruptBatch] = field(default_factory=list)


class BadBatch(NamedTuple):
    """First bytes that are no valid next batch, at `position`; the reading of a segment ends there."""

    position: int
    reason: str


def segment_bases(disk: Disk, path: str) -> list[int]:
    """Return the base offsets of the `.log` files in a directory, ascending."""
    matches = (_LOG_NAME.fullmatch(name) for name in disk.list_directory(path))
    return sorted(int(match[1]) for match in matches if match)


def read_roll(segment: Segment) -> Roll | None:
    """Return the roll at the beginning of a segment; None if it cannot be read."""
    head = segment.files.log.read(0, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return None
    header = read_header(head)
    if header.magic != MAGIC or not HEADER_SIZE < header.size <= _CHUNK_BYTES:
        return None
    batch = segment.files.log.read(0, header.size)
    if len(batch) < header.size or not crc_matches(batch, header):
        return None
    try:
        kind, payload = read_control(batch, header)
        return decode_roll(payload) if kind is ControlKind.ROLL else None
    except (InvalidBatch, FormatError):
        return None


class Recovery:
    """Recovery of one directory. `run` opens `segments` for use and fills `report`."""

    def __init__(self, disk: Disk, path: str, checkpoint: Checkpoint | None, *, write_again: bool = False) -> None:
        """Prepare a recovery.

        With `write_again`, after a failed sync, batches that are read are also written again: their pages in the page
        cache may not be on the disk, although they are marked clean."""
        self.disk = disk
        self._write_again = write_again
        self.path = path
        self.checkpoint = checkpoint if checkpoint and checkpoint.last_index else None
        self.report = RecoveryReport()
        self.segments: list[Segment] = []
        self._bases: list[int] = []

    def run(self) -> "Recovery":
        """Open all segments; afterwards all their batches are durable, unless damage was found."""
        self._bases = self._remove_leftovers(segment_bases(self.disk, self.path))
        if self.checkpoint and self._bases and self._bases[0] > self.checkpoint.log_start_offset:
            start = self.checkpoint.log_start_offset
            self._report_damage(start, 0, start, f"offsets {start} to {self._bases[0]} are missing")
        if self.checkpoint and self.checkpoint.segment not in self._bases:
            self._report_damage(self.checkpoint.segment, 0, self.checkpoint.segment, "the file is missing")
        for base in self._bases:
            if self.segments and self.segments[-1].next_offset != base:
                if not self._was_synced(base):
                    self._move_to_damaged(base)
                    continue
                self._report_damage(base, 0, base, f"offsets {self.segments[-1].next_offset} to {base} are missing")
            if not self._open(base):
                self._move_to_damaged(base)
        if not self.report.damage:
            self._settle()
        return self

    def _remove_leftovers(self, bases: list[int]) -> list[int]:
        """Delete segments below the log start of a durable trim; return the base offsets of the others."""
        checkpoint = self.checkpoint
        while checkpoint and len(bases) > 1 and bases[1] <= min(checkpoint.log_start_offset, checkpoint.segment):
            stem = f"{self.path}/{segment_stem(bases.pop(0))}"
            for suffix in reversed(SUFFIXES):
                if self.disk.exists(stem + suffix):
                    self.disk.unlink(stem + suffix)
        return bases

    # one segment

    def _open(self, base: int) -> bool:
        """Open one segment; return False if no part of it was ever synced."""
        segment = Segment(base, 0, open_segment_files(self.disk, self.path, base))
        roll = read_roll(segment)
        before = self.segments[-1] if self.segments else None
        if roll:
            segment.base_index, segment.created_ms = roll.base_index, roll.created_ms
            if before and roll.base_index != before.next_index and not self.report.damage:
                self._report_damage(
                    base, 0, base, f"it starts at index {roll.base_index} where {before.next_index} follows"
                )
        elif before:
            segment.base_index = before.next_index
        elif published := segment.files.index.read(0, ROW_SIZE):
            segment.base_index = unpack_row(published).index if len(published) == ROW_SIZE else 0
        if not self._adopt_checked(segment) and not self._scan(segment):
            segment.close()
            return False
        self.segments.append(segment)
        return True

    def _adopt_checked(self, segment: Segment) -> bool:
        """Adopt the batches that the checkpoint covers; return True if they are the whole segment."""
        checkpoint = self.checkpoint
        if checkpoint is None or segment.base_offset > checkpoint.segment:
            return False
        closed = segment.base_offset < checkpoint.segment
        rows = segment.files.index.size() // ROW_SIZE if closed else checkpoint.last_index + 1 - segment.base_index
        end = segment.files.log.size() if closed else checkpoint.end_position
        last = segment.files.index.read((rows - 1) * ROW_SIZE, ROW_SIZE) if rows > 0 else b""
        if len(last) < ROW_SIZE or (row := unpack_row(last)).end != end or row.index != segment.base_index + rows - 1:
            self.report.indexes_rebuilt.append(segment.files.index.path)
            return False
        head = segment.files.log.read(row.position, HEADER_SIZE)
        if len(head) < HEADER_SIZE or not row_matches(last, head):
            return False
        segment.adopt(rows=rows, end_position=end, next_offset=read_header(head).next_offset)
        if closed and not segment.times.adopt_last(rows - 1):
            segment.rebuild_times()
        elif not closed:
            segment.times.keep_below(rows, checkpoint.max_timestamp, end)
        return closed

    def _scan(self, segment: Segment) -> bool:
        """Read the batches after the adopted ones; return False if the segment's creation was never completed."""
        if segment.rows == 0:
            segment.times.restart()
        while True:
            bad = self._scan_sound(segment)
            if bad is None and not self._is_end_synced(segment):
                return segment.rows > 0
            position, reason = bad or BadBatch(segment.end_position, "the file ends before a batch that was synced")
            if not self._is_end_synced(segment) and looks_torn(segment, position, reason):
                return self._cut_torn(segment, position)
            self._report_damage(segment.base_offset, position, segment.next_offset, reason)
            if not self._step_over(segment):
                return True

    def _scan_sound(self, segment: Segment) -> BadBatch | None:
        """Adopt batches up to the first bad one, and return that one; None if all are undamaged."""
        for batch, header, reason in self._batches(segment):
            if reason:
                self._publish(segment)
                return BadBatch(segment.end_position, reason)
            if self._write_again:
                segment.files.log.write(segment.end_position, [bytes(batch)])
            segment.adopt_scanned(batch, header)
            self.report.batches_scanned += 1
            self.report.bytes_scanned += len(batch)
            if segment.rows - segment.rows_published >= _PUBLISH_ROWS:
                self._publish(segment)
        self._publish(segment)
        return None

    def _publish(self, segment: Segment) -> None:
        """Sync the batches, then write their rows, which prove the sync even if this opening is interrupted."""
        if segment.rows > segment.rows_published:
            self.disk.sync([segment.files.log], [self.path])
        try:
            segment.publish(segment.rows)
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise
            # Rows wait in memory: a log on a full disk opens, so that it can be trimmed.

    def _batches(self, segment: Segment) -> Iterator[tuple[memoryview, BatchHeader, str | None]]:
        """Yield the bytes after the segment's end position as batches, each with its header and error."""
        log = segment.files.log
        position = segment.end_position
        size = log.size()
        chunk, start = memoryview(b""), position
        nothing = read_header(bytes(HEADER_SIZE))
        while position < size:
            if position + HEADER_SIZE > start + len(chunk):
                chunk, start = memoryview(log.read(position, _CHUNK_BYTES)), position
            if position + HEADER_SIZE > size:
                yield chunk[:0], nothing, "the file ends inside a batch header"
                return
            header = read_header(chunk, position - start)
            reason = _header_error(header, segment.next_offset)
            if reason is None and position + header.size > size:
                reason = "the file ends inside the batch"
            if reason is None and position + header.size > start + len(chunk):
                chunk, start = memoryview(log.read(position, max(_CHUNK_BYTES, header.size))), position
            batch = chunk[position - start : position - start + header.size]
            if reason is None and not crc_matches(batch, header):
                reason = "the CRC does not match"
            yield batch, header, reason
            position += header.size

    # torn or damaged

    def _rows_after_end(self, segment: Segment) -> list[tuple[bytes, Row]]:
        """Return the rows in the index file after those of the adopted batches.

        Such rows prove that a sync of their batches succeeded."""
        packed = segment.files.index.read(segment.rows * ROW_SIZE, segment.files.index.size())
        return [
            (packed[at * ROW_SIZE : (at + 1) * ROW_SIZE], row)
            for at, row in enumerate(unpack_rows(packed))
            if row.index == segment.next_index + at
            and row.offset >= segment.next_offset
            and row.position >= segment.end_position
        ]

    def _is_end_synced(self, segment: Segment) -> bool:
        """Return whether a row proves that the batch at the segment's end, or a later one, was synced."""
        if self._rows_after_end(segment):
            return True
        checkpoint = self.checkpoint
        if checkpoint and segment.base_offset == checkpoint.segment and segment.end_position < checkpoint.end_position:
            return True
        newer = next((base for base in self._bases if base > segment.base_offset), None)
        return newer is not None and newer != segment.next_offset and self._was_synced(newer)

    def _was_synced(self, base: int) -> bool:
        """Return whether a part of the segment at `base`, or of a newer one, was ever synced."""
        is_in_checkpoint = self.checkpoint is not None and base <= self.checkpoint.segment
        return is_in_checkpoint or any(self._has_first_row(newer) for newer in self._bases if newer >= base)

    def _has_first_row(self, base: int) -> bool:
        """Return whether the index of the segment at `base` has a first row, which proves a sync of its batches."""
        name = f"{self.path}/{segment_stem(base)}.index"
        if not self.disk.exists(name):
            return False
        index = self.disk.open(name)
        try:
            row = index.read(0, ROW_SIZE)
            return len(row) == ROW_SIZE and unpack_row(row).offset == base
        finally:
            index.close()

    def _cut_torn(self, segment: Segment, position: int) -> bool:
        """Move the torn end to `.raftlog/damaged/`; return False if no batch of the segment is left."""
        log = segment.files.log
        self._keep_bytes(f"{segment_stem(segment.base_offset)}.log", log.path, position, log.read(position, log.size()))
        if segment.rows == 0:
            return False
        log.truncate(position)
        return True

    def _keep_bytes(self, name: str, file: str, position: int, data: bytes) -> None:
        """Copy bytes that will be cut off into `.raftlog/damaged/`, durably, and add them to the report."""
        directory = internal_path(self.path, DAMAGED)
        self.disk.make_directory(directory)
        number = len(self.disk.list_directory(directory))
        kept = f"{directory}/{name}.{position}.{number}"
        copy = self.disk.open(kept, create=True)
        copy.write(0, [data])
        self.disk.sync([copy], [directory, internal_path(self.path)])
        copy.close()
        self.report.torn.append(TornTail(file, position, len(data), kept))

    def _move_to_damaged(self, base: int) -> None:
        """Move the files of a segment that was never synced into `.raftlog/damaged/`."""
        stem = segment_stem(base)
        log = self.disk.open(f"{self.path}/{stem}.log")
        data = log.read(0, log.size())
        log.close()
        if data and not any(tail.position == 0 and tail.file == log.path for tail in self.report.torn):
            self._keep_bytes(f"{stem}.log", log.path, 0, data)
        for suffix in reversed(SUFFIXES):
            if self.disk.exists(f"{self.path}/{stem}{suffix}"):
                self.disk.unlink(f"{self.path}/{stem}{suffix}")
        self.disk.sync([], [self.path])

    def _report_damage(self, base: int, position: int, offset: int, reason: str) -> None:
        """Add damage in the segment at `base` to the report."""
        file = f"{self.path}/{segment_stem(base)}.log"
        self.report.damage.append(CorruptBatch(file, Position(position), Offset(offset), reason))

    def _step_over(self, segment: Segment) -> bool:
        """Keep a damaged batch at the position in its index row; return False if the start of the next is unknown."""
        following = self._rows_after_end(segment)
        if not following or following[0][1].position != segment.end_position:
            return False
        packed, row = following[0]
        head = segment.files.log.read(row.position, HEADER_SIZE)
        if len(head) == HEADER_SIZE and row_matches(packed, head):
            next_offset = read_header(head).next_offset
        elif len(following) > 1 and following[1][1].index == row.index + 1:
            next_offset = following[1][1].offset
        else:
            return False
        segment.adopt_by_row(packed, next_offset)
        segment.publish(segment.rows)
        return True

    # the end

    def _settle(self) -> None:
        """Cut index files to the rows in use, and make the scanned batches durable."""
        touched = [
            segment
            for segment in self.segments
            if not self.checkpoint or segment.base_offset >= self.checkpoint.segment
        ]
        for segment in touched:
            if segment.files.index.size() != segment.rows * ROW_SIZE:
                segment.files.index.truncate(segment.rows * ROW_SIZE)
        for segment in touched[:-1]:
            segment.times.close(segment.rows - 1)
            self._publish(segment)
        # Even if no batch was scanned: a killed process may have cut the file without a sync.
        self.disk.sync([file for segment in touched for file in segment.files], [self.path])


def _header_error(header: BatchHeader, next_offset: int) -> str | None:
    """Return the error in a header that should begin at `next_offset`, or None. A lone log has term 0."""
    if header.magic != MAGIC:
        return f"magic is {header.magic}"
    if header.base_offset != next_offset:
        return f"base offset is {header.base_offset} where {next_offset} follows"
    if header.leader_epoch != 0:
        return f"leader epoch is {header.leader_epoch} in a log of term 0"
    if header.size < HEADER_SIZE or header.last_offset_delta < -1:
        return "its length or offset delta is impossible"
    return None


def looks_torn(segment: Segment, position: int, reason: str) -> bool:
    """Return whether bad bytes at the segment's end look like an unfinished write: too short, or a missing block."""
    if reason.startswith("the file ends"):
        return True
    size = segment.files.log.size()
    header = read_header(segment.files.log.read(position, HEADER_SIZE))
    end = size if _header_error(header, segment.next_offset) else min(size, position + header.size)
    span = segment.files.log.read(position, end - position)
    first_block_end = min(len(span), BLOCK - position % BLOCK)
    if first_block_end < LENGTH_END and not any(segment.next_offset.to_bytes(8)[:first_block_end]):
        span, first_block_end = span[first_block_end:], min(len(span) - first_block_end, BLOCK)  # zeros belong there
    borders = [0, *range(first_block_end, len(span), BLOCK), len(span)]
    return any(not any(span[low:high]) for low, high in pairwise(borders) if high > low)
