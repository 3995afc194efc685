"""The questions of `raftlog.runtime.bulk` as requests by name, and their answers.

What an answer must be is known from its question. Batches are the pieces of the payload.
"""

from collections.abc import Sequence
from typing import Any, Final

from raftlog.errors import FormatError, InvalidBatch
from raftlog.raft import Entry, EntryId
from raftlog.runtime.bulk import (
    AppendAsked,
    AppendFound,
    BulkRequest,
    EntriesAsked,
    EntriesFound,
    LogAsked,
    LogFound,
    LogsPart,
    StoredEntry,
)
from raftlog.runtime.control_entries import entry_of
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.columns import pack_numbers, unpack_numbers
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.types import Buffer, Index, Offset, Term

LOG: Final = "bulk.log"
ENTRIES: Final = "bulk.entries"
APPEND: Final = "bulk.append"
BulkFound = LogFound | EntriesFound | AppendFound | LogsPart
_GROUP_SIZE: Final = 16
_NUMBER_MAX: Final = (1 << 63) - 1


def call_of(request: BulkRequest, timeout_ms: int) -> Call:
    if isinstance(request, LogAsked):
        return Call(LOG, request.group, (), timeout_ms)
    if isinstance(request, AppendAsked):
        group, term, sequence, after, bytes_max = request
        return Call(APPEND, [group, term, sequence, *after, bytes_max], (), timeout_ms)
    return Call(ENTRIES, list(request), (), timeout_ms)


def request_of(call: Call) -> BulkRequest | None:
    """The question, or None when the call is another one; raises `BadFrame`."""
    match call:
        case Call(name=name) if name not in (LOG, ENTRIES, APPEND):
            return None
        case Call(name="bulk.log", value=bytes(group)) if len(group) == _GROUP_SIZE:
            return LogAsked(group)
        case Call(name="bulk.entries", value=[bytes(group), *numbers]) if len(group) == _GROUP_SIZE and _are_numbers(
            numbers, 3
        ):
            first_index, last_index, bytes_max = numbers
            return EntriesAsked(group, Index(first_index), Index(last_index), bytes_max)
        case Call(name="bulk.append", value=[bytes(group), *numbers]) if len(group) == _GROUP_SIZE and _are_numbers(
            numbers, 5
        ):
            term, sequence, after_index, after_term, bytes_max = numbers
            after = EntryId(Index(after_index), Term(after_term))
            return AppendAsked(group, Term(term), sequence, after, bytes_max)
    raise BadFrame(f"a request {call.name} that cannot be read")


def answer_of(found: object) -> Answer:
    """What `Driver.serve` gave, to be sent."""
    if isinstance(found, LogFound):
        boundary, base_offset, first = found
        return Answer([*boundary, base_offset, first.term], (first.batch,))
    if isinstance(found, LogsPart):
        return Answer(None)
    if isinstance(found, AppendFound):
        terms = pack_numbers("i", [entry.term for entry in found.entries])
        return Answer([found.committed, found.last_index, terms], tuple(entry.payload for entry in found.entries))
    assert isinstance(found, EntriesFound), f"a bulk request was answered with {type(found).__name__}"
    indices = pack_numbers("q", [entry.index for entry in found.entries])
    terms = pack_numbers("i", [entry.term for entry in found.entries])
    return Answer([indices, terms], tuple(entry.batch for entry in found.entries))


def found_of(request: BulkRequest, answer: Answer) -> BulkFound:
    """What was found; raises `FormatError` when the answer does not belong to the question."""
    try:
        match request, answer.value:
            case LogAsked(), [*numbers] if _are_numbers(numbers, 4) and len(answer.payload) == 1:
                index, term, base_offset, first_term = numbers
                first = StoredEntry(Index(index + 1), Term(first_term), bytes(answer.payload[0]))
                return LogFound(EntryId(Index(index), Term(term)), Offset(base_offset), first)
            case EntriesAsked(), [bytes(indices), bytes(terms)]:
                return EntriesFound(_stored_entries(indices, terms, answer.payload))
            case AppendAsked(), None:
                return LogsPart()
            case AppendAsked(), [committed, last_index, bytes(terms)] if _are_numbers([committed, last_index], 2):
                entries = _entries_behind(request.after.index, terms, answer.payload)
                return AppendFound(Index(committed), Index(last_index), entries)
    except (BadFrame, InvalidBatch, ValueError, IndexError) as error:
        raise FormatError(f"a node answered {type(request).__name__} with something else: {error}") from None
    raise FormatError(f"a node answered {type(request).__name__} with something else")


def _stored_entries(indices: bytes, terms: bytes, batches: Sequence[Buffer]) -> tuple[StoredEntry, ...]:
    count = len(batches)
    numbers = zip(unpack_numbers("q", indices, count), unpack_numbers("i", terms, count), strict=True)
    return tuple(
        StoredEntry(Index(index), Term(term), bytes(batch))
        for (index, term), batch in zip(numbers, batches, strict=True)
    )


def _entries_behind(index: int, terms: bytes, batches: Sequence[Buffer]) -> tuple[Entry, ...]:
    unpacked = unpack_numbers("i", terms, len(batches))
    return tuple(
        entry_of(Index(at), Term(term), batch)
        for at, (term, batch) in enumerate(zip(unpacked, batches, strict=True), index + 1)
    )


def _are_numbers(values: Sequence[Any], count: int) -> bool:
    return len(values) == count and all(type(value) is int and 0 <= value <= _NUMBER_MAX for value in values)
