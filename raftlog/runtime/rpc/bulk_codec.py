"""The questions of `raftlog.runtime.bulk` as requests by name, and their answers.

What an answer must be is known from its question. Batches are the pieces of the payload.
"""

from collections.abc import Sequence
from typing import Any, Final

from raftlog.errors import FormatError
from raftlog.raft import EntryId
from raftlog.runtime.bulk import EntriesAsked, EntriesFound, LogAsked, LogFound, StoredEntry
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.columns import pack_numbers, unpack_numbers
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.types import Index, Offset, Term

LOG: Final = "bulk.log"
ENTRIES: Final = "bulk.entries"
_GROUP_SIZE: Final = 16
_NUMBER_MAX: Final = (1 << 63) - 1
BulkRequest = LogAsked | EntriesAsked


def call_of(request: BulkRequest, timeout_ms: int) -> Call:
    if isinstance(request, LogAsked):
        return Call(LOG, request.group, (), timeout_ms)
    return Call(ENTRIES, list(request), (), timeout_ms)


def request_of(call: Call) -> BulkRequest | None:
    """The question, or None when the call is another one; raises `BadFrame`."""
    match call:
        case Call(name=name) if name not in (LOG, ENTRIES):
            return None
        case Call(name="bulk.log", value=bytes(group)) if len(group) == _GROUP_SIZE:
            return LogAsked(group)
        case Call(name="bulk.entries", value=[bytes(group), *numbers]) if len(group) == _GROUP_SIZE and _are_numbers(
            numbers, 3
        ):
            first_index, last_index, bytes_max = numbers
            return EntriesAsked(group, Index(first_index), Index(last_index), bytes_max)
    raise BadFrame(f"a request {call.name} that cannot be read")


def answer_of(found: object) -> Answer:
    """What `Driver.serve` gave, to be sent."""
    if isinstance(found, LogFound):
        return Answer([*found.boundary, found.base_offset, found.log_start_offset, found.committed_index])
    assert isinstance(found, EntriesFound), f"a bulk request was answered with {type(found).__name__}"
    indices = pack_numbers("q", [entry.index for entry in found.entries])
    terms = pack_numbers("i", [entry.term for entry in found.entries])
    return Answer([indices, terms], tuple(entry.batch for entry in found.entries))


def found_of(request: BulkRequest, answer: Answer) -> LogFound | EntriesFound:
    """What was found; raises `FormatError` when the answer does not belong to the question."""
    value, count = answer.value, len(answer.payload)
    match request, value:
        case LogAsked(), [*numbers] if _are_numbers(numbers, 5):
            index, term, base_offset, log_start_offset, committed = numbers
            boundary = EntryId(Index(index), Term(term))
            return LogFound(boundary, Offset(base_offset), Offset(log_start_offset), Index(committed))
        case EntriesAsked(), [bytes(indices), bytes(terms)]:
            return EntriesFound(_entries(indices, terms, answer, count))
    raise FormatError(f"a node answered {type(request).__name__} with something else")


def _entries(indices: bytes, terms: bytes, answer: Answer, count: int) -> tuple[StoredEntry, ...]:
    try:
        numbers = zip(unpack_numbers("q", indices, count), unpack_numbers("i", terms, count), strict=True)
    except BadFrame as error:
        raise FormatError(f"a node answered EntriesAsked with something else: {error}") from None
    return tuple(
        StoredEntry(Index(index), Term(term), bytes(batch))
        for (index, term), batch in zip(numbers, answer.payload, strict=True)
    )


def _are_numbers(values: Sequence[Any], count: int) -> bool:
    return len(values) == count and all(type(value) is int and 0 <= value <= _NUMBER_MAX for value in values)
