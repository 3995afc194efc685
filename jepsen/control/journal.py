"""Number of entries in the journal of a stopped node.

36 bytes ‖ end (4 bytes) ‖ (length (4) ‖ index, term, command ‖ length (4))*"""

import struct
from pathlib import Path
from typing import Final

NAME: Final = "journal"
_END_AT: Final = 36
_FIRST_RECORD_AT: Final = 40
_FRAME_BYTES: Final = 8


def count_entries(journal: Path) -> int:
    """Return the number of entries; 0 when there is no such file."""
    try:
        content = journal.read_bytes()
    except FileNotFoundError:
        return 0
    (end,) = struct.unpack_from("<I", content, _END_AT)
    count, at = 0, _FIRST_RECORD_AT
    while at < min(end, len(content) - _FRAME_BYTES):
        at += struct.unpack_from("<I", content, at)[0] + _FRAME_BYTES
        count += 1
    return count
