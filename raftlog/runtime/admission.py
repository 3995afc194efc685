"""Whether entries that another process sent are what they say: checked before the core hears of them.

Each must be one whole record batch with a matching CRC, stamped with the entry's term, and follow the one before it in
offset. What the network or a peer's disk spoiled never reaches a log.
"""

from collections.abc import Iterable

from raftlog.raft import Entry
from raftlog.records import HEADER_SIZE, crc_matches, read_header
from raftlog.records.header import MAGIC


def are_sound(entries: Iterable[Entry]) -> bool:
    """Whether every entry holds together, and they hold together."""
    next_offset = -1
    for entry in entries:
        batch = entry.payload
        if len(batch) < HEADER_SIZE:
            return False
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
            return False
        next_offset = header.base_offset + header.last_offset_delta + 1
    return True
