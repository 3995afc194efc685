"""Block of an NDJSON body: the records of consecutive lines, which become one append.

    size_bytes ≤ the stream's threshold + one line,   len(records) ≤ BLOCK_RECORDS_MAX + the lines of one piece

A line is either a record object, as in a JSON body, or any JSON value, which becomes the record's value byte for byte.
Lines of more than `PARSED_BYTES_MAX` are parsed in steps, like large bodies. Used by
`ndjson_ingest`.
"""

from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import orjson

from raftlog.api.codes import INVALID_JSON
from raftlog.api.http.records.large_records import PARSED_BYTES_MAX, read_large_line
from raftlog.api.http.records.line_splitter import LineSplitter
from raftlog.api.http.server.held_memory import RECORD_MEMORY_BYTES
from raftlog.api.http.server.problems import HttpProblem
from raftlog.partitions.produce.shares import Streamed
from raftlog.records import NewRecord
from raftlog.records.json_record import Encode, json_text, read_partition, read_record, text_or_json
from raftlog.records.json_slices import check_json

BLOCK_BYTES_MAX = 2 * 1024 * 1024
"""Bytes of lines from which on a block is full and is appended."""
BLOCK_RECORDS_MAX = 20_000
"""Records from which on a block is full: as objects, short lines need many times their bytes."""

ReadLine: TypeAlias = Callable[[bytes], tuple[Streamed, int | None]]
"""Parser of a line: returns its record and the partition that the record names (None: none); raises `ValueError`."""
ReadLineInSteps: TypeAlias = Callable[[bytes], Generator[None, None, tuple[Streamed, int | None]]]


class LineReader(NamedTuple):
    """Pair of parsers for the lines of a body: for normal lines and, in steps, for large ones."""

    read: ReadLine
    read_large: ReadLineInSteps


def read_value(line: bytes) -> tuple[Streamed, int | None]:
    """Return a line of JSON as a record: the text of the line is the value."""
    return (line if orjson.loads(line) is not None else NewRecord(None)), None


def _read_large_value(line: bytes) -> Generator[None, None, tuple[Streamed, int | None]]:
    """Check in steps that a long line is JSON, and return its text as the record. Raises `HttpProblem` 422."""
    try:
        yield from check_json(line)
    except ValueError as error:
        raise HttpProblem(INVALID_JSON, f"it is not JSON: {error}") from None
    return line, None


def _make_record_reader(encode: Encode) -> ReadLine:
    """Return a function that parses a line to a record and the partition that it names, if any."""

    def read_line(line: bytes) -> tuple[Streamed, int | None]:
        """Return the record of a line, and the partition that it names, if any."""
        fields = orjson.loads(line)
        if type(fields) is dict and len(fields) == 1 and (value := fields.get("value")) is not None:
            return encode(value), None
        return read_record(fields, encode), read_partition(fields)

    return read_line


def _make_large_record_reader(encode: Encode) -> ReadLineInSteps:
    """Return a function that parses a large line in steps, to a record and its partition, if any."""

    def read_line_in_steps(line: bytes) -> Generator[None, None, tuple[Streamed, int | None]]:
        """Read a large line in several steps; return the record and the partition that it names, if any."""
        try:
            return (yield from read_large_line(line, encode))
        except orjson.JSONDecodeError as error:  # its position is that in a piece
            raise HttpProblem(INVALID_JSON, f"it is not JSON: {error.msg}") from None

    return read_line_in_steps


LINE_READERS: Mapping[str, LineReader] = {
    "records": LineReader(_make_record_reader(json_text), _make_large_record_reader(json_text)),
    "text-records": LineReader(_make_record_reader(text_or_json), _make_large_record_reader(text_or_json)),
    "values": LineReader(read_value, _read_large_value),
}
"""Parsers of lines, by the value of the query parameter `lines`."""


class BadLine(Exception):
    """A line cannot be stored; no later line is stored either."""

    def __init__(self, number: int, problem: HttpProblem) -> None:
        super().__init__(number)
        self.number, self.problem = number, problem


class Block:
    """Records of consecutive lines of a body, which are appended together.

    `began` is the loop's time of the first record."""

    __slots__ = ("_bytes_max", "_numbers", "began", "named", "records", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        """Create an empty block that is full at `bytes_max` bytes."""
        self._bytes_max = bytes_max
        self._numbers = array("Q")
        self.records: list[Streamed] = []
        self.named: list[int | None] | None = None
        self.size_bytes = 0
        self.began = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the block has reached its limit of bytes or records."""
        return self.size_bytes >= self._bytes_max or len(self.records) >= BLOCK_RECORDS_MAX

    @property
    def memory_bytes(self) -> int:
        """Bytes that the records occupy as objects."""
        return self.size_bytes + RECORD_MEMORY_BYTES * len(self.records)

    def line_of(self, place: int) -> int:
        """Return the line number of the record with this index in the block."""
        return self._numbers[place]

    def add(
        self, lines: Sequence[bytes], number: int, reader: LineReader, splitter: LineSplitter
    ) -> Generator[None, None, None]:
        """Add the records of lines, whose numbers begin with `number`; skip empty lines.

        Yields None at points where other tasks may run. Raises `BadLine`, after the lines before it were added."""
        add_record, add_number, read = self.records.append, self._numbers.append, reader.read
        unchecked_max = splitter.line_bytes_max
        for line in lines:
            if line:
                try:
                    if len(line) > unchecked_max:
                        splitter.check_length(len(line))
                    if len(line) > PARSED_BYTES_MAX:
                        record, partition = yield from reader.read_large(line)
                    else:
                        record, partition = read(line)
                except HttpProblem as problem:
                    raise BadLine(number, problem) from None
                except ValueError as error:
                    raise BadLine(number, HttpProblem(INVALID_JSON, _reason_of(error))) from None
                if partition is not None or self.named is not None:
                    self._add_partition(partition)
                add_record(record)
                add_number(number)
                self.size_bytes += len(line)
            number += 1

    def _add_partition(self, partition: int | None) -> None:
        """Add the partition that the next record names; None: it names none. Earlier records get None first."""
        if self.named is None:
            self.named = [None] * len(self.records)
        self.named.append(partition)


def _reason_of(error: ValueError) -> str:
    """Return why a line is not a record, for the sender."""
    if isinstance(error, orjson.JSONDecodeError):
        return f"it is not JSON: {error.msg} at character {error.pos + 1}"
    return f"it is not a record: {error}; with ?lines=values every line is stored as a JSON value"
