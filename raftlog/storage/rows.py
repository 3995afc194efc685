"""Index rows: one fixed-size row per batch, and their checks.

    position  size  field
           0     8  index        of the entry
           8     8  term
          16     8  offset       baseOffset of the batch
          24     8  position     in the `.log` file
          32     4  length       of the whole batch
          36     4  batch CRC    as in the header
          40     4  checksum     CRC-32C over the 40 bytes above and the batch's 61-byte header

The header's fields that Raft trusts (offset, length, term) lie outside the batch CRC; the row's checksum covers them.
Where row and header disagree one of them is damaged, and the row still identifies the entry."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from raftlog.records import HEADER_SIZE, BatchHeader, read_header
from raftlog.records.header import LENGTH_END, MAGIC, header_bytes
from raftlog.types import Buffer

ROW_SIZE = 44
_ROW = struct.Struct(">QQQQIII")
_CHECKED = struct.Struct(">QQQQII")
_CHECKSUM = struct.Struct(">I")
_CHECKED_SIZE = 40
assert _ROW.size == ROW_SIZE
assert _CHECKED.size == _CHECKED_SIZE


class Row(NamedTuple):
    """Decoded index row."""

    index: int  # type: ignore[assignment]  # the field is called so everywhere; tuple.index is never wanted here
    term: int
    offset: int
    position: int
    length: int
    crc: int
    checksum: int

    @property
    def end(self) -> int:
        """Position after the batch."""
        return self.position + self.length


def pack_row(index: int, term: int, offset: int, position: int, header: BatchHeader, stamped: Buffer) -> bytes:
    """Encode the row of a batch; `stamped` are its first 61 bytes, `header` may be from before the stamping."""
    checked = _CHECKED.pack(index, term, offset, position, header.batch_length + LENGTH_END, header.crc)
    return checked + _CHECKSUM.pack(crc32c(stamped, crc32c(checked)))


def unpack_rows(rows: Buffer) -> Iterator[Row]:
    """Decode all complete rows; bytes of an incomplete last row are ignored."""
    whole = len(rows) // ROW_SIZE * ROW_SIZE
    return map(Row._make, _ROW.iter_unpack(memoryview(rows)[:whole]))


def unpack_row(rows: Buffer, number: int = 0) -> Row:
    """Decode row `number` of `rows`."""
    return Row._make(_ROW.unpack_from(rows, number * ROW_SIZE))


def row_matches(row_bytes: Buffer, batch: Buffer) -> bool:
    """Return whether the row matches the header at the beginning of `batch`, so that neither is damaged."""
    row = memoryview(row_bytes)
    expected = crc32c(memoryview(batch)[:HEADER_SIZE], crc32c(row[:_CHECKED_SIZE]))
    return bool(_CHECKSUM.unpack_from(row, _CHECKED_SIZE)[0] == expected)


def restore_header(row_bytes: Buffer, damaged: Buffer) -> bytes | None:
    """Restore a header that may be damaged outside the batch CRC from its row; None if that is impossible.

    Offset, length, term and CRC, which the batch CRC does not cover, are copied from the row, and magic is set to 2. If
    the result does not match the row's checksum, the row or a field under the CRC is damaged."""
    row = unpack_row(row_bytes)
    header = read_header(damaged)._replace(
        base_offset=row.offset, batch_length=row.length - LENGTH_END, leader_epoch=row.term, magic=MAGIC, crc=row.crc
    )
    try:
        restored = header_bytes(header)
    except struct.error:
        return None
    return restored if row_matches(row_bytes, restored) else None
