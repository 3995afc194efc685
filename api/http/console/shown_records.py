"""Records as the console shows them: bounded texts of keys, values and headers, and the filter. Pure.

Bytes that are not UTF-8 become base64, and nothing is interpreted: a page renders all of it as text."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Final, NamedTuple

import orjson

from raftlog.records import Record
from raftlog.values.console import ShownBytes, ShownHeader, ShownRecord

HEADERS_MAX: Final = 100
"""Headers of a record that are shown."""
_UTF8_LENGTH_MAX: Final = 4
KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
ALL: Final = "all"


class RecordFilter(NamedTuple):
    """Filter that selects records with `needle` in one of their parts; an empty needle selects every record."""

    needle: bytes
    part: str = ALL

    def matches(self, record: Record) -> bool:
        """Return whether the filter selects a record."""
        return not self.needle or any(self.needle in part for part in self._parts(record))

    def _parts(self, record: Record) -> Iterator[bytes]:
        """Yield the bytes of the record in which the filter searches."""
        part = self.part
        if part in (ALL, KEY):
            yield record.key or b""
        if part in (ALL, VALUE):
            yield record.value or b""
        if part in (ALL, HEADERS):
            for name, value in record.headers:
                yield name.encode()
                yield value or b""


def show_record(record: Record, partition: int, bytes_max: int) -> ShownRecord:
    """Return a record with at most `bytes_max` bytes of each key, value and header."""
    key, value, headers = record.key, record.value, record.headers
    sizes = [len(name.encode()) + len(content or b"") for name, content in headers]
    return ShownRecord(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        size=len(key or b"") + len(value or b"") + sum(sizes),
        key=show_bytes(key, bytes_max),
        value=show_bytes(value, bytes_max),
        headers=[ShownHeader(name, show_bytes(content, bytes_max)) for name, content in headers[:HEADERS_MAX]],
        headers_left_out=max(0, len(headers) - HEADERS_MAX),
    )


def show_bytes(raw: bytes | None, bytes_max: int) -> ShownBytes | None:
    """Return the first `bytes_max` bytes as text or base64; None if `raw` is None."""
    if raw is None:
        return None
    size = len(raw)
    if size > bytes_max:
        text = _decode_start(raw[:bytes_max])
        if text is not None:
            return ShownBytes("text", text, size, is_truncated=True)
        return ShownBytes("base64", b64encode(raw[:bytes_max]).decode(), size, is_truncated=True)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ShownBytes("base64", b64encode(raw).decode(), size, is_truncated=False)
    return ShownBytes("json" if _is_json(raw) else "text", text, size, is_truncated=False)


def _decode_start(raw: bytes) -> str | None:
    """Return bytes that may be cut as text, without an incomplete last character; None if they are not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        is_cut = error.reason == "unexpected end of data" and error.start > len(raw) - _UTF8_LENGTH_MAX
        return raw[: error.start].decode() if is_cut else None


def _is_json(raw: bytes) -> bool:
    """Return whether the bytes are valid JSON."""
    try:
        orjson.loads(raw)
    except ValueError:
        return False
    return True


def shown_size(record: ShownRecord) -> int:
    """Return an estimate of the bytes that a shown record needs in an answer."""
    parts = (record.key, record.value, *(header.value for header in record.headers))
    return _RECORD_BYTES + sum(len(each.data) for each in parts if each is not None)


_RECORD_BYTES: Final = 200
