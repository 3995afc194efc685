"""Encoding of large stored keys and values as JSON in steps; each appends or scans about 128 KiB.

A value that needs escapes in JSON becomes up to six times as long. Called by `json_records`, whose module docstring
describes how keys and values are represented."""

import binascii
import codecs
from collections.abc import Generator
from typing import Final, TypeAlias

import orjson

from raftlog.records.json_slices import check_json

STEP_BYTES: Final = 128 * 1024
_BASE64_STEP_BYTES: Final = 3 * 64 * 1024
"""Bytes of a step; a multiple of three, so that the base64 of consecutive pieces can be concatenated."""

Steps: TypeAlias = Generator[None, None, None]


def append_json(out: bytearray, raw: bytes) -> Generator[None, None, str | None]:
    """Append a value that is JSON as it is, any other as a string; return the string's encoding, None for JSON."""
    try:
        yield from check_json(raw)
    except ValueError:
        return (yield from _append_string(out, raw))
    yield from append_bytes(out, raw)
    return None


def append_bytes(out: bytearray, raw: bytes) -> Steps:
    """Append bytes unchanged, in steps."""
    for start in range(0, len(raw), STEP_BYTES):
        out += raw[start : start + STEP_BYTES]
        yield


def append_base64(out: bytearray, raw: bytes) -> Steps:
    """Append a JSON string of base64, in steps."""
    out += b'"'
    for start in range(0, len(raw), _BASE64_STEP_BYTES):
        out += binascii.b2a_base64(raw[start : start + _BASE64_STEP_BYTES], newline=False)
        yield
    out += b'"'


def _append_string(out: bytearray, raw: bytes) -> Generator[None, None, str]:
    """Append a value as a JSON string of UTF-8, or of base64 if it is not UTF-8; return the encoding's name."""
    before = len(out)
    decoder = codecs.getincrementaldecoder("utf-8")()
    out += b'"'
    try:
        for start in range(0, len(raw), STEP_BYTES):
            text = decoder.decode(raw[start : start + STEP_BYTES], final=start + STEP_BYTES >= len(raw))
            out += orjson.dumps(text)[1:-1]
            yield
    except UnicodeDecodeError:
        del out[before:]
        yield from append_base64(out, raw)
        return "base64"
    out += b'"'
    return "text"
