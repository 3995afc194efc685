"""Records as JSON objects, one a line: what `produce --json-lines` reads and `consume --json` prints.

    {"key": …, "value": …, "headers": [{"name": "h", "value": "<base64>" | null}], "timestamp": ms, "partition": 0}

A key or value that is a JSON string is stored as its UTF-8 text, null as none, anything else as compact JSON.
Bytes that are not UTF-8 are printed as base64, and `"encoding": {"value": "base64"}` says so, here as well as there.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from raftlog.cli.outcome import CommandFailed
from raftlog.records import NewRecord, Record

_READ = {"key", "value", "headers", "timestamp", "partition", "encoding"}
_PRINTED_ONLY = {"topic", "offset"}


class JsonRecord(NamedTuple):
    """A record and the partition that its line names."""

    record: NewRecord
    partition: int | None


def read_json_line(line: bytes, number: int) -> JsonRecord:
    """One line; raises `CommandFailed` that names the line and what is wrong with it."""
    try:
        fields = orjson.loads(line)
        if not isinstance(fields, dict):
            raise ValueError("it is not a JSON object")
        return _record_of(fields)
    except ValueError as error:
        raise CommandFailed(f"line {number} is not a record: {error}") from None


def print_json_line(topic: str | None, partition: int | None, record: Record) -> bytes:
    """One record without its newline; `read_json_line` takes it back. A file names no topic: `None` leaves it out."""
    encoding: dict[str, str] = {}
    place: dict[str, Any] = {} if topic is None else {"topic": topic, "partition": partition}
    fields: dict[str, Any] = {
        **place,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _as_text("key", record.key, encoding),
        "value": _as_text("value", record.value, encoding),
    }
    if record.headers:
        fields["headers"] = [
            {"name": name, "value": None if value is None else base64.b64encode(value).decode()}
            for name, value in record.headers
        ]
    if encoding:
        fields["encoding"] = encoding
    return orjson.dumps(fields)


def milliseconds(text: str) -> int:
    """A time as milliseconds since 1970 or as ISO 8601, which without an offset is local; raises `ValueError`."""
    try:
        return int(text)
    except ValueError:
        return round(datetime.fromisoformat(text).timestamp() * 1000)


def _record_of(fields: Mapping[str, Any]) -> JsonRecord:
    if unknown := fields.keys() - _READ - _PRINTED_ONLY:
        raise ValueError(f"unknown field {', '.join(sorted(unknown))}; the fields are {', '.join(sorted(_READ))}")
    encoding, headers = fields.get("encoding") or {}, fields.get("headers") or ()
    if not isinstance(encoding, dict) or not isinstance(headers, list | tuple):
        raise ValueError("encoding is an object, and headers are an array")
    timestamp = fields.get("timestamp")
    partition = fields.get("partition")
    if partition is not None and (type(partition) is not int or partition < 0):
        raise ValueError("partition is not a number from 0")
    return JsonRecord(
        NewRecord(
            _as_bytes(fields.get("value"), encoding.get("value")),
            _as_bytes(fields.get("key"), encoding.get("key")),
            None if timestamp is None else milliseconds(str(timestamp)),
            [_header(header) for header in headers],
        ),
        partition,
    )


def _header(header: Any) -> tuple[str, bytes | None]:
    if not isinstance(header, dict) or not isinstance(header.get("name"), str):
        raise ValueError('a header is {"name": text, "value": base64 or null}')
    value = header.get("value")
    return header["name"], None if value is None else _from_base64(value)


def _as_bytes(value: Any, encoding: str | None) -> bytes | None:
    if value is None:
        return None
    if encoding == "base64":
        return _from_base64(value)
    return (
        value.encode() if isinstance(value, str) else bytes(memoryview(orjson.dumps(value)))
    )  # its own size, not a page


def _from_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError):
        raise ValueError(f"{text!r} is not base64") from None


def _as_text(field: str, content: bytes | None, encoding: dict[str, str]) -> str | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        encoding[field] = "base64"
        return base64.b64encode(content).decode()
