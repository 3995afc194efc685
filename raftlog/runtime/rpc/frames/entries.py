"""Entries inside appends: term and size of each follow the append's row, their batches are in the payload.

    index of an entry = that of its message's `previous` + 1 + its position  (so it is not sent)
    sizes of all entries of a frame = size of its payload

A batch is opaque except for one bit: control batches are read, because the core needs the configurations in them. The
driver checks whether a batch is sound (`raftlog.runtime.replica.admission`)."""

import struct
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Final

from raftlog.errors import RaftlogError
from raftlog.raft import Entry, EntryKind
from raftlog.raft.messages import AppendRequest
from raftlog.records import HEADER_SIZE
from raftlog.records.header import CONTROL_BIT
from raftlog.runtime.log.control_entries import entry_of
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.types import Buffer

_ENTRY = struct.Struct(">iI")
ENTRY_BYTES: Final = _ENTRY.size
"""Size of an entry without its batch."""
_ATTRIBUTES_LOW: Final = 22


def pack_entries(append: AppendRequest, rows: list[bytes], payload: list[Buffer]) -> None:
    """Append the entries' terms and sizes to the rows, and their batches to the payload."""
    index = append.previous.index
    for entry in append.entries:
        index += 1  # type: ignore[assignment]  # still one
        assert entry.index == index, f"entry {entry.index} where {index} follows {append.previous}"
        batch = entry.payload
        rows.append(_ENTRY.pack(entry.term, len(batch)))
        payload.append(batch)


class EntriesReader:
    """Reader of entries, whose batches follow each other in a payload.

    A batch that is kept must not keep a whole payload in memory: it is a view only when it is at least half of the
    payload, otherwise a copy. So memory in use is at most twice the size of the batches."""

    def __init__(self, payload: bytes | memoryview) -> None:
        self._payload = payload
        self._at = 0

    def take(self, body: Buffer, at: int, previous: int, count: int) -> tuple[Entry, ...]:
        """Return the next `count` entries, whose terms and sizes are at `at`; the first follows index `previous`.

        The driver checks whether a batch is sound (`runtime.replica.admission`); only control batches are read, because
        the core needs the configurations in them. Raises `BadFrame`."""
        stop = at + count * ENTRY_BYTES
        if stop > len(body):
            raise BadFrame(f"{count} entries in a body of {len(body)} bytes")
        payload, start, index, term_before = self._payload, self._at, previous, 0
        size_kept = len(payload) // 2  # of a payload that is not bytes, a smaller batch is copied
        entries = []
        for term, size in _ENTRY.iter_unpack(body[at:stop]):
            index += 1
            batch = payload[start : start + size]
            if size < HEADER_SIZE or term < term_before or len(batch) != size:
                raise BadFrame(
                    f"entry {index} of term {term} after term {term_before}, and of {size} bytes, {start} bytes into "
                    f"{len(payload)}"
                )
            term_before = term
            start += size
            if size < size_kept and type(batch) is not bytes:
                batch = bytes(batch)
            if batch[_ATTRIBUTES_LOW] & CONTROL_BIT:
                entries.append(_decode_control_entry(index, term, batch))
            else:
                entries.append(Entry(index, term, EntryKind.DATA, size, batch))  # type: ignore[arg-type]  # checked
        self._at = start
        return tuple(entries)

    def check_end(self) -> None:
        """Raise `BadFrame` unless the whole payload was read."""
        if self._at != len(self._payload):
            raise BadFrame(f"a payload of {len(self._payload)} bytes, of which {self._at} are entries")


def _decode_control_entry(index: Any, term: Any, batch: Buffer) -> Entry:
    """Return the Raft entry of a control batch. Raises `BadFrame`."""
    try:
        return entry_of(index, term, batch)
    except (RaftlogError, ValueError, IndexError, struct.error) as error:
        raise BadFrame(f"entry {index} is a control batch that cannot be read: {error}") from None


def cut_payload(payload: bytes | memoryview, sizes: Sequence[int]) -> list[bytes | memoryview]:
    """Cut the payload into pieces of these sizes; raises `BadFrame` if their sum is not its length.

    A piece that is kept must not keep a whole payload in memory: it is a view only when it is at least half of the
    payload, otherwise a copy. So memory in use is at most twice the size of the pieces."""
    size = len(payload)
    ends = list(accumulate(sizes))
    if (ends[-1] if ends else 0) != size:
        raise BadFrame(f"a payload of {size} bytes has pieces of {ends[-1] if ends else 0} bytes together")
    if len(sizes) == 1:
        return [payload]
    spans = map(slice, chain((0,), ends), ends)
    if isinstance(payload, bytes):
        return [payload[span] for span in spans]
    pieces = [payload[span] for span in spans]
    return [piece if 2 * len(piece) >= size else bytes(piece) for piece in pieces]
