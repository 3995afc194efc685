"""Format of one record as a JSON object, the same in every interface that reads records.

    {"key": …, "value": …, "headers": [{"name": "h", "value": "<base64>" | null}], "timestamp": ms | RFC 3339,
     "partition": 0, "encoding": {"key": "json" | "text" | "base64", "value": …}}

All fields are optional, and `null` counts as a missing one. For a key or value without `encoding` the caller's default
applies (`Encode`). `topic` and `offset`, which printed records have, are ignored, so printed records can be read again.
Called by `api/http` and `cli`."""

import binascii
import reprlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import orjson

from raftlog.records.build import NewRecord
from raftlog.records.field_names import describe_unknown_field

Encode: TypeAlias = Callable[[Any], bytes]
"""Function from a JSON value to the bytes that it represents; raises `ValueError`."""

_FIELDS = ("encoding", "headers", "key", "offset", "partition", "timestamp", "topic", "value")
_KNOWN = frozenset(_FIELDS)
_ENCODED = frozenset(("key", "value"))
_HEADER_FIELDS = ("name", "value")
_OF_HEADERS = frozenset(_HEADER_FIELDS)
_TIMESTAMP_MAX = (1 << 62) - 1


JSON_DEPTH_MAX = 254
"""Maximum depth of nested lists and objects in a JSON value that orjson serializes; it parses a depth of 1,024."""
_SHOWN_MAX = 60
_REPR = reprlib.Repr()


def json_text(value: Any) -> bytes:
    """Return compact JSON text in memory of its exact size; orjson's own result occupies at least a page.

    Raises `ValueError` for a value that is nested too deeply."""
    try:
        return bytes(memoryview(orjson.dumps(value)))
    except orjson.JSONEncodeError as error:
        raise ValueError(
            f"a JSON value nested deeper than {JSON_DEPTH_MAX} levels cannot be stored ({error})"
        ) from None


def shorten_json(value: Any) -> str:
    """Return a JSON value as a short text for an error message; its size and depth may be any."""
    text = _REPR.repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 1]}…"


def text_or_json(value: Any) -> bytes:
    """Return the UTF-8 text of a string, and the JSON text of any other value."""
    return value.encode() if type(value) is str else json_text(value)


def decode_base64(value: Any) -> bytes:
    """Return the bytes of a base64 string; raises `ValueError`."""
    if type(value) is not str:
        raise ValueError(f"{shorten_json(value)} is not a base64 string")
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{shorten_json(value)} is not base64 ({error})") from None


def _encode_text(value: Any) -> bytes:
    """Return the UTF-8 text of a string; raises `ValueError` for any other value."""
    if type(value) is not str:
        raise ValueError('a value with the encoding "text" must be a string')
    return value.encode()


BY_NAME: Mapping[str, Encode] = {"json": json_text, "text": _encode_text, "base64": decode_base64}


def stores_json_text(encode: Encode, *, is_string: bool) -> bool:
    """Return whether `encode` returns the JSON text of a value; `is_string`: the value is a string."""
    return encode is json_text or (encode is text_or_json and not is_string)


def read_record(fields: Any, encode: Encode) -> NewRecord:
    """Return the record of one JSON object; raises `ValueError` with the reason."""
    if type(fields) is not dict:
        raise ValueError("it is not a JSON object")
    if fields.keys() <= _ENCODED:  # the common case
        key, value = fields.get("key"), fields.get("value")
        return NewRecord(None if value is None else encode(value), None if key is None else encode(key), None, [])
    if not fields.keys() <= _KNOWN:
        raise ValueError(describe_unknown_field(fields.keys() - _KNOWN, _FIELDS))
    encoding = fields.get("encoding")
    encode_key = encode_value = encode
    if encoding is not None:
        named = _read_encodings(encoding)
        encode_key, encode_value = named.get("key", encode), named.get("value", encode)
    key, value = fields.get("key"), fields.get("value")
    headers, timestamp = fields.get("headers"), fields.get("timestamp")
    return NewRecord(
        None if value is None else encode_value(value),
        None if key is None else encode_key(key),
        None if timestamp is None else read_timestamp(timestamp),
        [] if headers is None else read_headers(headers),
    )


def read_partition(fields: Mapping[str, Any]) -> int | None:
    """Return the partition that an object names, or None. Raises `ValueError` for an invalid one."""
    partition = fields.get("partition")
    if partition is None:
        return None
    if type(partition) is not int or partition < 0:
        raise ValueError("the partition must be a whole number from 0")
    return partition


def read_headers(headers: Any) -> list[tuple[str, bytes | None]]:
    """Return the headers in `[{"name": …, "value": base64 | null}]`; raises `ValueError`."""
    if type(headers) is not list:
        raise ValueError('headers must be a list of {"name": …, "value": base64 or null}')
    return [_read_header(header) for header in headers]


def _read_header(header: Any) -> tuple[str, bytes | None]:
    """Return name and value of one header; raises `ValueError`."""
    if type(header) is not dict or type(header.get("name")) is not str:
        raise ValueError('a header must be {"name": …, "value": base64 or null}')
    if not header.keys() <= _OF_HEADERS:
        raise ValueError(f"a header: {describe_unknown_field(header.keys() - _OF_HEADERS, _HEADER_FIELDS)}")
    value = header.get("value")
    return header["name"], None if value is None else decode_base64(value)


def read_timestamp(value: Any) -> int:
    """Return milliseconds since 1970 from a number of them or from RFC 3339 text; raises `ValueError`."""
    if type(value) is str:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(
                f"timestamp {shorten_json(value)} is not RFC 3339; write it like 2024-05-01T12:00:00Z"
            ) from None
        if moment.tzinfo is None:
            raise ValueError(f"timestamp {shorten_json(value)} has no time zone; write it like 2024-05-01T12:00:00Z")
        value = round(moment.timestamp() * 1000)
    if type(value) is not int or not 0 <= value <= _TIMESTAMP_MAX:
        raise ValueError("the timestamp must be milliseconds since 1970 or RFC 3339")
    return value


def _read_encodings(encoding: Any) -> dict[str, Encode]:
    """Return the encoder of each field that an `encoding` object names; raises `ValueError`."""
    if type(encoding) is not dict:
        raise ValueError('encoding must be an object with "key", "value" or both')
    if not encoding.keys() <= _ENCODED:
        raise ValueError(f"encoding: {describe_unknown_field(encoding.keys() - _ENCODED, sorted(_ENCODED))}")
    unknown = [name for name in encoding.values() if type(name) is not str or name not in BY_NAME]
    if unknown:
        raise ValueError(f"unknown encoding {shorten_json(unknown[0])}; it can be {', '.join(BY_NAME)}")
    return {field: BY_NAME[name] for field, name in encoding.items()}
