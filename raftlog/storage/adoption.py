"""Opening of a replica's segment that a checkpoint synced: its rows are adopted as stored, up to a given entry.

A replica's journal lists the entries; below a checkpoint their bytes are in the segments and are not read (the scrub
reads them in the background). Rows come from the `.index`; where that is missing, short or implausible they are
rebuilt from the batches, which are then all read. A damaged batch keeps its place when a row identifies it *and* the
offset after it is known. Nothing is cut here. Lone logs, whose rows prove what was synced, are opened by `recovery`.

    adopted rows ≤ the given entry,   each next to the one before in index, position and offset"""

from collections.abc import Callable
from typing import NamedTuple

from raftlog.errors import CorruptBatch
from raftlog.records import HEADER_SIZE, BatchHeader, crc_matches, read_header
from raftlog.records.header import MAGIC
from raftlog.storage.disk import File
from raftlog.storage.gap import gap_error, last_index_of
from raftlog.storage.rows import ROW_SIZE, Row, restore_header, row_matches, unpack_row
from raftlog.storage.segment import Segment
from raftlog.storage.temporary_errors import TEMPORARY_ERRORS
from raftlog.storage.window import FileWindow
from raftlog.types import Index, Offset, Position, Term

_PUBLISH_ROWS = 16 * 1024
_SHORT = "the file ends too early"
_DISAGREE = "header and index row do not belong together"


class Damage(NamedTuple):
    """Damaged or missing entry. `term` is None if it is unknown; such an entry ends the log."""

    file: str
    position: Position
    offset: Offset
    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    term: Term | None
    reason: str

    def error(self) -> CorruptBatch:
        """Return the error that readers of this entry get."""
        return CorruptBatch(self.file, self.position, self.offset, self.reason)


def build_damage(file: File, row: Row, reason: str) -> Damage:
    """Return a `Damage` for the entry of an index row."""
    return Damage(file.path, Position(row.position), Offset(row.offset), Index(row.index), Term(row.term), reason)


class Start(NamedTuple):
    """Index and offset of the first entry of a file."""

    index: Index  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    offset: Offset


class AdoptionResult(NamedTuple):
    """Result of the adoption of one segment."""

    broken: str | None = None
    """Error in the first entry that was not adopted; None if all expected entries, or all in the file, were adopted."""
    pending: bytes | None = None
    """Row of the first entry that was not adopted, if it is the last one and only the offset after it is unknown."""
    is_rebuilt: bool = False
    """Whether the rows had to be rebuilt from the batches."""


class Adoption:
    """Adoption of one segment file at recovery: finds its valid entries, though the file may have changed since."""

    def __init__(
        self,
        segment: Segment,
        keep_to: Index,
        *,
        end_row: bytes | None,
        following: Callable[[], Start | None],
        term_min: Term,
        term_max: Term,
        damage: list[Damage],
    ) -> None:
        """Prepare to adopt entries up to `keep_to`, which is in this segment or a later one.

        `end_row` is the row of that entry, if the journal has it and the segment holds it. `following` returns the
        start of the next file, `term_min` is the term of the entry before the segment, `term_max` that of a later one.
        Damaged entries that keep their place are added to `damage`."""
        self.segment = segment
        self._keep_to = keep_to
        self._end_row = end_row
        self._following = following
        self._term = term_min
        self._term_max = term_max
        self._damage = damage
        self._log = segment.files.log
        self._window = FileWindow(self._log)
        self._size = self._window.size

    def run(self) -> AdoptionResult:
        """Adopt the entries up to `keep_to`, or all entries of a segment that was closed before `keep_to`."""
        segment = self.segment
        if adopted := self._adopt_up_to_entry():
            segment.keep_times()
            return adopted
        if self._end_row is None and self._adopt_closed():
            if not segment.times.adopt_last(segment.rows - 1):
                segment.keep_times()
            return AdoptionResult()
        return self._scan()

    # by the index

    def _adopt_up_to_entry(self) -> AdoptionResult | None:
        """Adopt the rows up to the row of entry `keep_to`; return None if there is no plausible one."""
        segment = self.segment
        number = self._keep_to - segment.base_index
        stored = self._read_row(number)
        packed = self._end_row or stored
        if len(packed) < ROW_SIZE or not self._follows(unpack_row(packed), number):
            return None
        row = unpack_row(packed)
        header = self._read_header(packed, row)
        if self._size < row.end or (header is None and self._end_row is None):
            return None
        segment.adopt(rows=number, end_position=row.position, next_offset=row.offset)
        if header is None:
            return AdoptionResult(_DISAGREE, pending=packed)
        if not row_matches(packed, self._log.read(row.position, HEADER_SIZE)):
            self._damage.append(build_damage(self._log, row, _DISAGREE))
        if packed == stored:
            segment.adopt(rows=number + 1, end_position=row.end, next_offset=header.next_offset)
        else:
            segment.adopt_by_row(packed, header.next_offset)
        return AdoptionResult()

    def _follows(self, row: Row, number: int) -> bool:
        """Return whether a row continues the row before it, by index and position."""
        if number == 0:
            return row.index == self.segment.base_index and row.position == 0 and row.length >= HEADER_SIZE
        packed = self._read_row(number - 1)
        if len(packed) < ROW_SIZE:
            return False
        before = unpack_row(packed)
        return (
            self._may_follow(before.index, row.index)
            and row.index - self.segment.base_index >= number
            and (row.index - self.segment.base_index == number or self.segment.is_compacted)
            and row.position == before.end
            and row.length >= HEADER_SIZE
            and row.offset >= before.offset
        )

    def _adopt_closed(self) -> bool:
        """Adopt a whole segment, if its last row ends where the file ends; return whether it was adopted."""
        segment = self.segment
        rows = segment.files.index.size() // ROW_SIZE
        packed = self._read_row(rows - 1) if rows else b""
        if len(packed) < ROW_SIZE or not self._follows(unpack_row(packed), rows - 1):
            return False
        row = unpack_row(packed)
        header = self._read_header(packed, row)
        if header is None or row.end != self._size or row.index > self._keep_to:
            return False
        if not row_matches(packed, self._log.read(row.position, HEADER_SIZE)):
            self._damage.append(build_damage(self._log, row, _DISAGREE))
        next_index = self._find_index_after(row, header)
        if next_index is None:
            return False
        segment.adopt(rows=rows, end_position=row.end, next_offset=header.next_offset, next_index=next_index)
        return True

    def _may_follow(self, index: int, following: int) -> bool:
        """Return whether `following` can be the index after an entry; a compacted entry may be a gap."""
        return following == index + 1 or (self.segment.is_compacted and following > index)

    def _find_index_after(self, row: Row, header: BatchHeader) -> int | None:
        """Return the index after the last batch of a closed segment; None if it is unknown.

        It comes from the next file, or from the batch if that is undamaged."""
        if not (self.segment.is_compacted and header.is_control):
            return row.index + 1
        start = self._following()
        if start and start.offset == header.next_offset and start.index > row.index:
            return start.index
        batch = self._log.read(row.position, row.length)
        return last_index_of(batch, header, row.index) + 1 if crc_matches(batch, header) else None

    def _read_row(self, number: int) -> bytes:
        """Return stored row `number`; shorter or empty if the file ends before."""
        return self.segment.files.index.read(number * ROW_SIZE, ROW_SIZE) if number >= 0 else b""

    def _read_header(self, packed: bytes, row: Row) -> BatchHeader | None:
        """Return the header of a row's batch, restored from the row if necessary; None if that is impossible."""
        if row.position + HEADER_SIZE > self._size:
            return None
        head = self._log.read(row.position, HEADER_SIZE)
        if row_matches(packed, head):
            return read_header(head)
        restored = restore_header(packed, head)
        return read_header(restored) if restored else None

    # by the batches

    def _scan(self) -> AdoptionResult:
        """Rebuild the rows from the batches; old rows are used only for damaged batches."""
        segment = self.segment
        segment.adopt(rows=0, end_position=0, next_offset=segment.base_offset)
        segment.times.restart()
        broken = pending = None
        while segment.next_index <= self._keep_to:
            position = segment.end_position
            hint = self._find_hint()
            batch, reason = self._read_next_batch()
            reason = reason or self._check_row(hint, batch)
            if reason is None:
                header = read_header(batch)
                segment.adopt_scanned(batch, header)
                self._term = Term(header.leader_epoch)
            elif hint is None:
                broken = reason if position < self._size or self._end_row else None
                break
            elif (start := self._find_start_after(hint)) is None:
                broken, pending = reason, hint if segment.next_index == self._keep_to else None
                break
            else:
                self._damage.append(build_damage(self._log, unpack_row(hint), reason))
                segment.adopt_by_row(hint, start.offset)
                segment.missing = start.index - segment.base_index - segment.rows
                self._term = Term(unpack_row(hint).term)
            if segment.rows - segment.rows_published >= _PUBLISH_ROWS:
                self._publish()
        if segment.rows > 0 and segment.next_index <= self._keep_to:
            segment.times.close(segment.rows - 1)
        return AdoptionResult(broken, pending, is_rebuilt=True)

    def _publish(self) -> None:
        """Write the adopted rows to the index file; on a full disk the rows wait in memory. Raises `OSError`."""
        try:
            self.segment.publish(self.segment.rows)
        except OSError as error:
            if error.errno not in TEMPORARY_ERRORS:
                raise  # on a full disk rows wait in memory

    def _read_next_batch(self) -> tuple[memoryview, str | None]:
        """Return the batch after the last adopted one, and the error in it or None."""
        segment = self.segment
        batch, header = self._read_batch(segment.end_position)
        if header is None:
            return batch, _SHORT if segment.end_position + HEADER_SIZE > self._size else "there is no sound batch"
        if header.base_offset != segment.next_offset:
            return batch, f"base offset is {header.base_offset} where {segment.next_offset} follows"
        if not self._term <= header.leader_epoch <= self._term_max:
            return batch, f"its term {header.leader_epoch} is none of {self._term} to {self._term_max}"
        if segment.is_compacted:
            return batch, gap_error(batch, header, segment.next_index, segment.compacted_to)
        return batch, None

    def _read_batch(self, position: int) -> tuple[memoryview, BatchHeader | None]:
        """Return the bytes of one batch, and its header if length, magic, delta and CRC are right."""
        head = self._window.read(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return head, None
        header = read_header(head)
        if header.magic != MAGIC or header.size < HEADER_SIZE or position + header.size > self._size:
            return head, None
        batch = self._window.read(position, header.size)
        if header.last_offset_delta < -1 or not crc_matches(batch, header):
            return batch, None
        return batch, header

    def _find_hint(self) -> bytes | None:
        """Return the row of the next entry, from the journal or an old index; None if no row fits."""
        segment = self.segment
        stored = segment.files.index.read(segment.rows * ROW_SIZE, ROW_SIZE)
        packed = self._end_row if self._end_row and segment.next_index == self._keep_to else stored
        if len(packed) < ROW_SIZE:
            return None
        row = unpack_row(packed)
        fits = (
            (row.index, row.position, row.offset) == (segment.next_index, segment.end_position, segment.next_offset)
            and row.length >= HEADER_SIZE
            and self._term <= row.term <= self._term_max
        )
        return packed if fits else None

    @staticmethod
    def _check_row(hint: bytes | None, batch: memoryview) -> str | None:
        """Return an error if an undamaged row contradicts the batch's header, whose term is in no CRC; else None."""
        if hint is None or row_matches(hint, batch) or restore_header(hint, batch) is None:
            return None
        return _DISAGREE

    def _find_start_after(self, hint: bytes) -> Start | None:
        """Return the start of the entry after a damaged batch, by its header, the next row, batch or file; or None.

        After a possible gap only the next row or file has the index as well."""
        row, is_compacted = unpack_row(hint), self.segment.is_compacted
        header = self._read_header(hint, row)
        if header and not (is_compacted and header.is_control):
            return Start(Index(row.index + 1), Offset(header.next_offset))
        after = self._end_row if self._end_row and row.index + 1 == self._keep_to else self._read_row_after()
        if len(after) == ROW_SIZE:
            following = unpack_row(after)
            is_next = self._may_follow(row.index, following.index)
            if is_next and following.position == row.end and following.offset >= row.offset:
                return Start(Index(following.index), Offset(following.offset))
        _, header = self._read_batch(row.end)
        if header and header.base_offset >= row.offset and not is_compacted:
            return Start(Index(row.index + 1), Offset(header.base_offset))
        start = self._following() if row.end == self._size or not is_compacted else None
        return start if start and self._may_follow(row.index, start.index) and start.offset >= row.offset else None

    def _read_row_after(self) -> bytes:
        """Return the stored row after that of the next entry to adopt."""
        return self._read_row(self.segment.rows + 1)
