"""Index rows that rotted while their batches are whole: they are written again from the batches.

A row is written anew only when its neighbours, the batch's header, its CRC and the chain of offset and position all
agree on what it must be; so a healed row never makes damage look sound.
"""

from raftlog.records import HEADER_SIZE, crc_matches, read_header
from raftlog.storage.rows import ROW_SIZE, Row, pack_row, restored_header, row_matches, unpack_row
from raftlog.storage.segment import Segment


def heal_index(segment: Segment) -> int:
    """Compare every row with its batch's header and heal those that are damaged; returns how many were."""
    healed = 0
    for number in range(segment.rows):
        packed = segment.row_bytes(number, 1)
        head = segment.files.log.read(unpack_row(packed).position, HEADER_SIZE)
        if (len(head) < HEADER_SIZE or not row_matches(packed, head)) and heal_row(segment, number):
            healed += 1
    return healed


def heal_row(segment: Segment, number: int) -> bool:
    """Write row `number` again when its neighbours and a whole batch say what it must be; false otherwise."""
    position, offset, index = 0, segment.base_offset, segment.base_index + number
    if number > 0:
        before = segment.row(number - 1)
        position, offset = before.end, segment.header(before).next_offset
    head = segment.files.log.read(position, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return False
    if restored_header(segment.row_bytes(number, 1), head):
        return False
    header = read_header(head)
    following = _row_after(segment, number)
    if header.base_offset != offset or header.size < HEADER_SIZE or header.size > segment.end_position - position:
        return False
    if following and (following.position != position + header.size or following.offset != header.next_offset):
        return False
    if not crc_matches(segment.files.log.read(position, header.size), header):
        return False
    segment.files.index.write(number * ROW_SIZE, [pack_row(index, header.leader_epoch, offset, position, header, head)])
    return True


def _row_after(segment: Segment, number: int) -> Row | None:
    packed = segment.row_bytes(number + 1, 1)
    return unpack_row(packed) if packed else None
