"""Conversion of bulk requests (`raftlog.runtime.transfer.bulk`) and their results to `Call`s and `Answer`s, and back.

The request determines the form of its answer. Batches are the pieces of the payload."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from raftlog.errors import FormatError, InvalidBatch
from raftlog.raft import Entry, EntryId
from raftlog.runtime.log.control_entries import entry_of
from raftlog.runtime.rpc.calls import Answer, Call
from raftlog.runtime.rpc.errors import BadFrame
from raftlog.runtime.rpc.frames.columns import pack_numbers, unpack_numbers
from raftlog.runtime.transfer.bulk import (
    BulkRequest,
    EntriesRequest,
    EntriesResult,
    FetchResult,
    FilesRequest,
    FilesResult,
    LogFetchRequest,
    LogRequest,
    LogResult,
    LogsDiverge,
    PieceRequest,
    PieceResult,
    StoredEntry,
)
from raftlog.types import Buffer, Index, Offset, Term

LOG: Final = "bulk.log"
ENTRIES: Final = "bulk.entries"
APPEND: Final = "bulk.append"
FILES: Final = "bulk.files"
PIECE: Final = "bulk.piece"
BulkResult = LogResult | EntriesResult | FetchResult | LogsDiverge | FilesResult | PieceResult
_GROUP_SIZE: Final = 16
_NUMBER_MAX: Final = (1 << 63) - 1


class _RequestForm(NamedTuple):
    """Encoding of one type of bulk request: the count of numbers after its group, and its constructor."""

    type: type[BulkRequest]
    numbers: int
    make: Callable[..., BulkRequest]


_FORMS: Final[Mapping[str, _RequestForm]] = {
    LOG: _RequestForm(LogRequest, 0, LogRequest),
    ENTRIES: _RequestForm(EntriesRequest, 3, EntriesRequest),
    APPEND: _RequestForm(
        LogFetchRequest,
        5,
        lambda group, term, sequence, index, index_term, bytes_max: LogFetchRequest(
            group, term, sequence, EntryId(index, index_term), bytes_max
        ),
    ),
    FILES: _RequestForm(FilesRequest, 1, FilesRequest),
    PIECE: _RequestForm(
        PieceRequest, 5, lambda group, epoch, generation, *rest: PieceRequest(group, (epoch, generation), *rest)
    ),
}
NAMES: Final = tuple(_FORMS)
_NAMES_BY_TYPE: Final = {form.type: name for name, form in _FORMS.items()}


def call_of(request: BulkRequest, timeout_ms: int) -> Call:
    """Return the `Call` that carries a bulk request."""
    fields: Sequence[Any] = request
    flat = chain.from_iterable(field if isinstance(field, tuple) else (field,) for field in fields)
    value = request.group if isinstance(request, LogRequest) else list(flat)
    return Call(_NAMES_BY_TYPE[type(request)], value, (), timeout_ms)


def request_of(call: Call) -> BulkRequest | None:
    """Return the bulk request in a call; None if the call has another name. Raises `BadFrame`."""
    form = _FORMS.get(call.name)
    if form is None:
        return None
    match call.value if form.numbers else [call.value]:
        case [bytes(group), *numbers] if len(group) == _GROUP_SIZE and _are_numbers(numbers, form.numbers):
            return form.make(group, *numbers)
    raise BadFrame(f"a request {call.name} that cannot be read")


def answer_of(result: object) -> Answer:
    """Return the `Answer` that carries a result of `Driver.serve`."""
    if isinstance(result, LogResult):
        boundary, base_offset, first, files = result
        # Only a compacted log has such files; without any the answer has four numbers.
        return Answer([*boundary, base_offset, first.term, *([files] if files else [])], (first.batch,))
    if isinstance(result, FilesResult):
        return Answer(
            [
                *result.version,
                result.below,
                *result.boundary,
                result.log_start_offset,
                pack_numbers("q", result.base_offsets),
            ]
        )
    if isinstance(result, PieceResult):
        return Answer(True, result.batches)
    if isinstance(result, LogsDiverge):
        return Answer(None)
    if isinstance(result, FetchResult):
        terms = pack_numbers("i", [entry.term for entry in result.entries])
        return Answer([result.committed, result.last_index, terms], tuple(entry.payload for entry in result.entries))
    assert isinstance(result, EntriesResult), f"a bulk request was answered with {type(result).__name__}"
    indices = pack_numbers("q", [entry.index for entry in result.entries])
    terms = pack_numbers("i", [entry.term for entry in result.entries])
    return Answer([indices, terms], tuple(entry.batch for entry in result.entries))


def result_of(request: BulkRequest, answer: Answer) -> BulkResult:
    """Return the result in an answer; raises `FormatError` if it does not match the request."""
    try:
        match request, answer.value:
            case LogRequest(), [_, _, _, _, *files] if _are_numbers(answer.value[:5], 4 + len(files[:1])):
                index, term, base_offset, first_term = answer.value[:4]
                first = StoredEntry(Index(index + 1), Term(first_term), bytes(answer.payload[0]))
                return LogResult(EntryId(Index(index), Term(term)), Offset(base_offset), first, *files[:1])
            case FilesRequest(), [_, _, _, _, _, _, bytes(bases), *_] if _are_numbers(answer.value[:6], 6):
                boot_epoch, generation, below, index, term, log_start = answer.value[:6]
                offsets = tuple(map(Offset, unpack_numbers("q", bases, len(bases) // 8)))
                boundary = EntryId(Index(index), Term(term))
                return FilesResult((boot_epoch, generation), Offset(below), boundary, Offset(log_start), offsets)
            case PieceRequest(), True:
                return PieceResult(tuple(map(bytes, answer.payload)))
            case EntriesRequest(), [bytes(indices), bytes(terms), *_]:
                return EntriesResult(_stored_entries(indices, terms, answer.payload))
            case LogFetchRequest(), None:
                return LogsDiverge()
            case LogFetchRequest(), [committed, last_index, bytes(terms), *_] if _are_numbers(
                [committed, last_index], 2
            ):
                entries = _entries_after(request.after.index, terms, answer.payload)
                return FetchResult(Index(committed), Index(last_index), entries)
    except (BadFrame, InvalidBatch, ValueError, IndexError) as error:
        raise FormatError(f"a node answered {type(request).__name__} with something else: {error}") from None
    raise FormatError(f"a node answered {type(request).__name__} with something else")


def _stored_entries(indices: bytes, terms: bytes, batches: Sequence[Buffer]) -> tuple[StoredEntry, ...]:
    """Return entries from columns of their indexes and terms, and their batches."""
    count = len(batches)
    numbers = zip(unpack_numbers("q", indices, count), unpack_numbers("i", terms, count), strict=True)
    return tuple(
        StoredEntry(Index(index), Term(term), bytes(batch))
        for (index, term), batch in zip(numbers, batches, strict=True)
    )


def _entries_after(index: int, terms: bytes, batches: Sequence[Buffer]) -> tuple[Entry, ...]:
    """Return the Raft entries that follow `index`, from a column of their terms and their batches."""
    unpacked = unpack_numbers("i", terms, len(batches))
    return tuple(
        entry_of(Index(at), Term(term), batch)
        for at, (term, batch) in enumerate(zip(unpacked, batches, strict=True), index + 1)
    )


def _are_numbers(values: Sequence[Any], count: int) -> bool:
    """Return whether the values are `count` numbers that fit their fields."""
    return len(values) == count and all(type(value) is int and 0 <= value <= _NUMBER_MAX for value in values)
