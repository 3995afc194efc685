"""Parser of bodies that are too large to be parsed in one step: it works in steps of a few milliseconds.

A value of more than `VALUE_BYTES_MAX` of JSON text is checked and stored as it was sent, with its white space; no
Python objects are made of it. The other records are parsed by `new_records`, in groups, with the same result."""

import re
from collections.abc import Generator
from typing import Any, Final, TypeAlias

import orjson

from raftlog.api.codes import INVALID_JSON, TOO_LARGE
from raftlog.api.http.records.new_records import RECORDS_MAX, ParsedRecords, RecordList, producer_of
from raftlog.api.http.server.bodies import ReceivedBody
from raftlog.api.http.server.held_memory import RECORD_MEMORY_BYTES
from raftlog.api.http.server.media import Format
from raftlog.api.http.server.problems import HttpProblem
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.routing.partition import CALL_BYTES_MAX
from raftlog.records import NewRecord
from raftlog.records.json_record import BY_NAME, Encode, read_partition, read_record, stores_json_text
from raftlog.records.json_slices import Span, Text, check_json, split_items
from raftlog.runtime.slices import run_in_slices

PARSED_BYTES_MAX: Final = 256 * 1024
"""Bodies up to this size are parsed in one step."""
VALUE_BYTES_MAX: Final = 256 * 1024
"""Keys and values with longer JSON text are checked, but not parsed."""
_COUNTED_BYTES: Final = 1024 * 1024
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_SPACE_STEP: Final = 64 * 1024
_QUOTE: Final = 0x22
_MEMBER_BYTES_MAX: Final = 1024 * 1024
"""Maximum bytes of a record's other members, such as its headers."""
_RECORD_TEXT_MAX: Final = 2 * CALL_BYTES_MAX
"""Bound on the text of a record; a larger one is not parsed, because it could not be stored."""

Parts: TypeAlias = Generator[None, None, None]


async def parse_large(body: ReceivedBody, format_: Format, deadline: Deadline) -> ParsedRecords:
    """Parse a body of any size with the result of `parse_records`; other tasks run meanwhile. Empties `body`.

    Raises the errors of `parse_records`, and `MemoryBudgetExceeded`."""
    data, held = body
    objects = RECORD_MEMORY_BYTES * min(RECORDS_MAX, await run_in_slices(_count_objects(data)))
    await held.cover(2 * len(data) + objects, deadline)
    parsed = await run_in_slices(parse_in_steps(data, format_))
    if isinstance(data, bytearray):
        held.shrink(len(data) + objects)
        data.clear()
    return parsed


def _count_objects(data: Text) -> Generator[None, None, int]:
    """Return an upper bound of the number of JSON objects in a text."""
    count = 0
    for start in range(0, len(data), _COUNTED_BYTES):
        count += data.count(b"}", start, start + _COUNTED_BYTES)
        yield
    return count


def parse_in_steps(body: Text, format_: Format) -> Generator[None, None, ParsedRecords]:
    """Parse a body of any size as `parse_records` does; yields between steps."""
    try:
        return (yield from _parse(body, format_))
    except ValueError as error:
        raise HttpProblem(INVALID_JSON, f"the body is not JSON: {error}") from None


def _parse(body: Text, format_: Format) -> Generator[None, None, ParsedRecords]:
    """Parse a body and its list of records; yields between steps. Raises `HttpProblem`, `ValueError`."""
    members, large = yield from _members(
        body, *_span_inside(body, 0, len(body), b"{}", "the body is JSON, but not an object")
    )
    found = RecordList(format_)
    for name, (start, end) in large.items():
        if name != "records":
            yield from check_json(body, start, end)
            members[name] = None
            continue
        inside = _span_inside(body, start, end, b"[]", 'the body has no list "records"')
        for span in split_items(body, *inside):
            if span is not None:
                yield from _add_records(found, body, *span)
            yield
    if "records" not in large:
        found.add_all(members.get("records"))
    return ParsedRecords(*found.result(), producer_of(members))


def _add_records(found: RecordList, body: Text, start: int, end: int) -> Parts:
    """Add the records in a span of the list to `found`."""
    if end - start <= PARSED_BYTES_MAX:
        found.add_all(orjson.loads(b"[" + body[start:end] + b"]"))
        return
    if end - start > _RECORD_TEXT_MAX:
        raise HttpProblem(
            TOO_LARGE, f"record {found.count} has {end - start} bytes of JSON; at most {_RECORD_TEXT_MAX}"
        )
    inside = _span_inside(body, start, end, b"{}", f"record {found.count}: it is not a JSON object")
    members, large = yield from _members(body, *inside)
    try:
        record, partition = yield from read_large_record(members, large, body, found.encode)
    except ValueError as error:
        raise HttpProblem(INVALID_JSON, f"record {found.count}: {error}") from None
    found.add(record, partition)


def read_large_line(line: bytes, encode: Encode) -> Generator[None, None, tuple[NewRecord, int | None]]:
    """Return the record of a long NDJSON line, and the partition that it names. Raises `ValueError`."""
    text = line.strip()
    if text[:1] != b"{" or text[-1:] != b"}":
        raise ValueError("it is not a JSON object")
    members, large = yield from _members(text, 1, len(text) - 1)
    return (yield from read_large_record(members, large, text, encode))


def read_large_record(
    members: dict[str, Any], large: dict[str, Span], text: Text, encode: Encode
) -> Generator[None, None, tuple[NewRecord, int | None]]:
    """Return a record and the partition that it names (None: none).

    `members` has the parsed small members of the record's object, `large` the spans of the large ones in `text`.
    Raises `ValueError`."""
    encodings = members.get("encoding")
    stored: dict[str, bytes] = {}
    for name, (start, end) in large.items():
        named = encodings.get(name) if type(encodings) is dict else None
        stored_as = BY_NAME.get(named, encode) if type(named) is str else encode
        is_string = text[start] == _QUOTE
        if name in ("key", "value") and stores_json_text(stored_as, is_string=is_string):
            yield from check_json(text, start, end)
            stored[name] = bytes(memoryview(text)[start:end])
            members[name] = None
        elif end - start <= _MEMBER_BYTES_MAX or (is_string and name in ("key", "value")):
            members[name] = orjson.loads(memoryview(text)[start:end])
        else:
            raise ValueError(f"{name} has {end - start} bytes; at most {_MEMBER_BYTES_MAX}")
        yield
    record = read_record(members, encode)
    record = record._replace(key=stored.get("key", record.key), value=stored.get("value", record.value))
    return record, read_partition(members)


def _members(text: Text, start: int, end: int) -> Generator[None, None, tuple[dict[str, Any], dict[str, Span]]]:
    """Return the parsed small members, and the spans of the values of the large members, of an object in `text`.

    `start` is the position after its opening brace, `end` that of its closing brace. Raises `ValueError`."""
    members: dict[str, Any] = {}
    large: dict[str, Span] = {}
    for span in split_items(text, start, end):
        if span is not None:
            if span[1] - span[0] <= PARSED_BYTES_MAX:
                found = orjson.loads(b"{" + text[span[0] : span[1]] + b"}")
                members |= found
            else:
                name, value = _split_member(text, *span)
                large[name] = value
        yield
    return members, large


def _split_member(text: Text, start: int, end: int) -> tuple[str, Span]:
    """Return the name of a large member, and the span of its value."""
    quote = text.find(b'"', start, end)
    if quote < 0 or text[start:quote].strip():
        raise ValueError(f"a member has no name, at byte {start}")
    # A name has no escapes here: none of the known names needs one.
    closing = text.find(b'"', quote + 1, min(end, quote + _MEMBER_BYTES_MAX))
    colon = text.find(b":", closing + 1, end)
    if closing < 0 or colon < 0 or text[closing + 1 : colon].strip():
        raise ValueError(f"a member has no name, or one that is too long or has escapes, at byte {start}")
    name = orjson.loads(text[quote : closing + 1])
    assert type(name) is str, f"{name!r} is between quotes"
    return name, _trim(text, colon + 1, end)


def _trim(text: Text, start: int, end: int) -> Span:
    """Return the span without white space at its ends."""
    start = _SPACE.match(text, start, end).end()  # type: ignore[union-attr]
    while start < end:
        last = text[max(start, end - _SPACE_STEP) : end]
        left = len(last.rstrip(b" \t\r\n"))
        end -= len(last) - left
        if left:
            break
    return start, end


def _span_inside(text: Text, start: int, end: int, brackets: bytes, otherwise: str) -> Span:
    """Return the span between the two `brackets` of a list or object.

    Raises `HttpProblem` 422 with the message `otherwise` if the text is not in these brackets."""
    start, end = _trim(text, start, end)
    if end - start < len(brackets) or text[start] != brackets[0] or text[end - 1] != brackets[1]:
        raise HttpProblem(INVALID_JSON, otherwise)
    return start + 1, end - 1
