"""Output formats of `consume`: one function per format, over the records of one batch at a time.

The formats of values and of keys with values are a single comprehension over the records, because that is fast."""

import base64
import re
from collections.abc import Callable, Iterable, Sequence

import click

from raftlog.cli.json_lines import format_json_line
from raftlog.cli.options import unescape
from raftlog.records import Record

Printer = Callable[[int, Sequence[Record]], bytes]
"""Function from a partition number and records to the bytes to print, newlines included."""

_Piece = Callable[[int, Record], bytes]
_TOKENS = re.compile(r"%(.)", re.DOTALL)

FORMAT_HELP = "%t topic, %p partition, %o offset, %d timestamp (ms), %k key, %v value, %h headers, %% a percent sign"


def format_values(_partition: int, records: Sequence[Record]) -> bytes:
    """Format records as their values, one a line; a record without a value is an empty line."""
    return b"\n".join([record.value or b"" for record in records]) + b"\n"


def keyed_printer(separator: bytes) -> Printer:
    """Return a printer of key, separator and value, or of the value alone for a record without a key."""

    def format_records(_partition: int, records: Sequence[Record]) -> bytes:
        """Return a line for each record: key, separator and value, without the key if it has none."""
        lines = [
            record.value or b"" if (key := record.key) is None else key + separator + (record.value or b"")
            for record in records
        ]
        return b"\n".join(lines) + b"\n"

    return format_records


def json_printer(topic: str) -> Printer:
    """Return a printer of one JSON object a line."""

    def format_records(partition: int, records: Sequence[Record]) -> bytes:
        """Return a line of JSON for each record."""
        return b"\n".join([format_json_line(topic, partition, record) for record in records]) + b"\n"

    return format_records


def format_printer(topic: str, text: str) -> Printer:
    """Return a printer for the format `text`, as `FORMAT_HELP` describes it; raises `BadParameter`."""
    pieces = list(_parse_format(topic, text))

    def format_records(partition: int, records: Sequence[Record]) -> bytes:
        """Return the records in the format of the command line."""
        return b"".join([piece(partition, record) for record in records for piece in pieces])

    return format_records


def _parse_format(topic: str, text: str) -> Iterable[_Piece]:
    """Return functions that make the parts of one line, in order.

    Raises `click.BadParameter` for an unknown `%` code."""
    fields: dict[str, _Piece] = {
        "t": lambda _partition, _record: topic.encode(),
        "p": lambda partition, _record: b"%d" % partition,
        "o": lambda _partition, record: b"%d" % record.offset,
        "d": lambda _partition, record: b"%d" % record.timestamp,
        "k": lambda _partition, record: record.key or b"",
        "v": lambda _partition, record: record.value or b"",
        "h": lambda _partition, record: _format_headers(record),
        "%": lambda _partition, _record: b"%",
    }
    # Escapes are resolved in the literal parts only, so that "%%n" stays a percent sign and an n.
    for number, part in enumerate(_TOKENS.split(text)):
        if number % 2:
            if part not in fields:
                raise click.BadParameter(f"%{part} is not a placeholder; use {FORMAT_HELP}", param_hint="--format")
            yield fields[part]
        elif part:
            yield _make_literal(unescape(part).encode("utf-8", "surrogateescape"))


def _make_literal(content: bytes) -> _Piece:
    """Return a piece of a format that is always the same text."""
    return lambda _partition, _record: content


def _format_headers(record: Record) -> bytes:
    """Return the headers of a record as text."""
    return b",".join(name.encode() + b"=" + _format_header_value(value) for name, value in record.headers)


def _format_header_value(value: bytes | None) -> bytes:
    """Return a header's value unchanged if it is UTF-8, else `base64:` and its base64; empty for None."""
    if value is None:
        return b""
    try:
        value.decode()
    except UnicodeDecodeError:
        return b"base64:" + base64.b64encode(value)
    return value
