"""Entries inside appends: their numbers in columns, their batches as they are, one after another in the payload.

    index of an entry = that of its message's `previous` + 1 + its place     (so it does not travel)
    sizes of all entries of a frame = size of its payload

A batch is opaque but for one bit: control batches are read, because the core must know configurations. Whether a batch
is sound is the driver's question (`raftlog.runtime.admission`).
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice, repeat
from typing import Any, Final

from raftlog.errors import RaftlogError
from raftlog.raft import Entry, EntryId, EntryKind
from raftlog.records import HEADER_SIZE
from raftlog.records.header import CONTROL_BIT
from raftlog.runtime.control_entries import entry_of
from raftlog.runtime.rpc.columns import pack_numbers, rows, unpack_numbers
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.types import Buffer

PARTS: Final = 3
_ATTRIBUTES_LOW: Final = 22


def pack_entries(
    previous: Sequence[EntryId], entries_of: Sequence[Sequence[Entry]]
) -> tuple[list[bytes], Sequence[Buffer]]:
    """The columns and the batches of the entries of several messages."""
    counts = list(map(len, entries_of))
    entries = list(chain.from_iterable(entries_of))
    indices: Sequence[int] = ()
    terms: Sequence[int] = ()
    batches: Sequence[Buffer] = ()
    if entries:
        indices, terms, _, _, batches, _ = zip(*entries, strict=True)
    assert list(indices) == list(_indices(previous, counts)), f"entries that do not follow {previous}: {indices}"
    sizes = list(map(len, batches))
    return [pack_numbers("I", counts), pack_numbers("i", terms), pack_numbers("I", sizes)], batches


def unpack_entries(
    parts: Sequence[Any], previous: Iterable[EntryId], count: int, payload: bytes | memoryview
) -> Iterable[tuple[Entry, ...]]:
    """The entries of `count` messages; raises `BadFrame`."""
    counts = unpack_numbers("I", parts[0], count)
    total = sum(counts)
    if total > len(payload) // HEADER_SIZE:
        raise BadFrame(f"{total} entries in a payload of {len(payload)} bytes")
    terms, sizes = unpack_numbers("i", parts[1], total), unpack_numbers("I", parts[2], total)
    if total and min(sizes) < HEADER_SIZE:
        raise BadFrame(f"an entry of {min(sizes)} bytes is no batch")
    batches = slices(payload, sizes)
    fields = zip(_indices(previous, counts), terms, repeat(EntryKind.DATA), sizes, batches, repeat(None), strict=False)
    entries: list[Entry] = list(rows(Entry, fields))
    for at, batch in enumerate(batches):
        if batch[_ATTRIBUTES_LOW] & CONTROL_BIT:
            entries[at] = _control_entry(entries[at])
    if total == count and max(counts, default=1) == 1:
        return zip(entries, strict=True)
    rest = iter(entries)
    return [tuple(islice(rest, length)) for length in counts]


def slices(payload: bytes | memoryview, sizes: Sequence[int]) -> list[bytes | memoryview]:
    """The payload cut into pieces of these sizes; raises `BadFrame` when they are not its length together.

    What is kept of a payload must not keep all of it alive: a piece is a view only when it is at least half of it,
    otherwise a copy. So memory in use is at most twice what the pieces hold.
    """
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


def _indices(previous: Iterable[EntryId], counts: Iterable[int]) -> Iterable[int]:
    return chain.from_iterable(
        range(before.index + 1, before.index + 1 + count) for before, count in zip(previous, counts, strict=True)
    )


def _control_entry(entry: Entry) -> Entry:
    try:
        return entry_of(entry.index, entry.term, entry.payload)
    except (RaftlogError, ValueError, IndexError) as error:
        raise BadFrame(f"entry {entry.index} is a control batch that cannot be read: {error}") from None
