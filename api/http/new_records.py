"""Records out of request bodies: `{"records": [{"key", "value", "partition", "headers", "timestamp"}]}`.

In the JSON format a key or value is any JSON and is stored as compact JSON text, `null` as null; in the binary format
it is a base64 string. Headers are `[{"name": "…", "value": base64 | null}]`; a timestamp is milliseconds or RFC 3339.
"""

import binascii
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn, TypeAlias

import orjson

from raftlog.api.codes import EMPTY_REQUEST, INVALID_JSON, TOO_LARGE
from raftlog.api.http.bodies import json_object
from raftlog.api.http.media import Format
from raftlog.api.http.problems import HttpProblem
from raftlog.records import NewRecord

Encode: TypeAlias = Callable[[Any], bytes]

RECORDS_MAX = 200_000
"""Records in one JSON request: a bound on the objects that its bytes turn into."""


def _dumps(value: Any) -> bytes:
    """JSON text in a buffer of its own size: what orjson gives keeps a page of memory for the smallest value."""
    return bytes(memoryview(orjson.dumps(value)))


_TIMESTAMP_MAX = (1 << 62) - 1
_FIELDS = frozenset({"key", "value", "partition", "headers", "timestamp"})


def parse_records(body: bytes | bytearray, format_: Format) -> tuple[list[NewRecord], list[int | None] | None]:
    """The records and, when any names one, the partition of each. Raises `HttpProblem` 422."""
    records = json_object(body).get("records")
    if type(records) is not list:
        raise HttpProblem(INVALID_JSON, 'the body has no list "records"')
    if not records:
        raise HttpProblem(EMPTY_REQUEST, 'the list "records" is empty')
    if len(records) > RECORDS_MAX:
        raise HttpProblem(TOO_LARGE, f"{len(records)} records in one request; send at most {RECORDS_MAX} at once")
    encode = _dumps if format_ is Format.JSON else _from_base64
    parsed: list[NewRecord] = []
    partitions: list[int | None] | None = None
    for number, record in enumerate(records):
        try:
            if len(record) == 1 and "value" in record:
                value = record["value"]
                parsed.append(NewRecord(None if value is None else encode(value)))
                continue
            parsed.append(_parse_record(record, encode))
            partition = record.get("partition")
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            _refuse(number, record, error)
        if partition is not None:
            if type(partition) is not int:
                raise HttpProblem(INVALID_JSON, f"record {number}: the partition is no whole number")
            partitions = partitions or [None] * len(records)
            partitions[number] = partition
    return parsed, partitions


def _parse_record(record: dict[str, Any], encode: Encode) -> NewRecord:
    if not record.keys() <= _FIELDS:
        unknown = ", ".join(sorted(record.keys() - _FIELDS))
        raise ValueError(f"unknown field {unknown}; a record can have {', '.join(sorted(_FIELDS))}")
    key, value = record.get("key"), record.get("value")
    headers, timestamp = record.get("headers"), record.get("timestamp")
    return NewRecord(
        None if value is None else encode(value),
        None if key is None else encode(key),
        None if timestamp is None else _timestamp(timestamp),
        () if headers is None else [_header(header) for header in headers],
    )


def _from_base64(text: Any) -> bytes:
    if type(text) is not str:
        raise ValueError("a key or value is no base64 string")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"data={text[:40]!r} is no base64 string ({error})") from None


def _header(header: Any) -> tuple[str, bytes | None]:
    name, value = header["name"], header.get("value")
    if type(name) is not str:
        raise ValueError("a header's name is no string")
    return name, None if value is None else _from_base64(value)


def _timestamp(value: Any) -> int:
    if type(value) is str:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError(f"timestamp {value!r} has no time zone; write it like 2024-05-01T12:00:00Z")
        value = round(moment.timestamp() * 1000)
    if type(value) is not int or not 0 <= value <= _TIMESTAMP_MAX:
        raise ValueError("the timestamp is neither milliseconds since 1970 nor RFC 3339")
    return value


def _refuse(number: int, record: Any, error: Exception) -> NoReturn:
    if type(record) is not dict:
        raise HttpProblem(INVALID_JSON, f"record {number} is no object")
    if isinstance(error, ValueError):
        raise HttpProblem(INVALID_JSON, f"record {number}: {error}")
    raise HttpProblem(INVALID_JSON, f'record {number}: headers are a list of {{"name": …, "value": base64 or null}}')
