"""Records as JSON objects, one a line: input of `produce --json-lines`, output of `consume --json`.

    {"key": …, "value": …, "headers": [{"name": "h", "value": "<base64>" | null}], "timestamp": ms, "partition": 0}

A key or value that is a JSON string is stored as its UTF-8 text, null as no key or value, any other JSON value as
compact JSON text. Bytes that are not UTF-8 are printed as base64, marked by `"encoding": {"value": "base64"}`;
`produce` reads such lines too."""

import base64
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from raftlog.cli.outcome import CommandFailed
from raftlog.records import NewRecord, Record
from raftlog.records.json_record import read_partition, read_record, text_or_json


class JsonRecord(NamedTuple):
    """A record and the partition that its line names."""

    record: NewRecord
    partition: int | None


def read_json_line(line: bytes, number: int) -> JsonRecord:
    """Parse one line; raise `CommandFailed` that names the line and the problem."""
    try:
        return _read_fields(orjson.loads(line))
    except ValueError as error:
        raise CommandFailed(f"line {number} is not a record: {error}") from None


def format_json_line(topic: str | None, partition: int | None, record: Record) -> bytes:
    """Format a record as JSON without a newline, as `read_json_line` reads it; a topic of None is left out."""
    encoding: dict[str, str] = {}
    place: dict[str, Any] = {} if topic is None else {"topic": topic, "partition": partition}
    fields: dict[str, Any] = {
        **place,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _decode_text("key", record.key, encoding),
        "value": _decode_text("value", record.value, encoding),
    }
    if record.headers:
        fields["headers"] = [
            {"name": name, "value": None if value is None else base64.b64encode(value).decode()}
            for name, value in record.headers
        ]
    if encoding:
        fields["encoding"] = encoding
    return orjson.dumps(fields)


def parse_time_ms(text: str) -> int:
    """Parse a time: milliseconds since 1970, or ISO 8601, which is local without an offset; raises `ValueError`."""
    try:
        return int(text)
    except ValueError:
        return round(datetime.fromisoformat(text).timestamp() * 1000)


def _read_fields(fields: Any) -> JsonRecord:
    """Return the record of a line's JSON; its timestamp may be a date."""
    if isinstance(fields, dict) and isinstance(when := fields.get("timestamp"), str):
        fields["timestamp"] = parse_time_ms(when)
    return JsonRecord(read_record(fields, text_or_json), read_partition(fields))


def _decode_text(field: str, content: bytes | None, encoding: dict[str, str]) -> str | None:
    """Return bytes as text. If they are not UTF-8, returns base64 and records this in `encoding`."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        encoding[field] = "base64"
        return base64.b64encode(content).decode()
