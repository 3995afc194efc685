"""Entries of a history as rows for Spark SQL: what an entry says of one partition is one row, a *part*.

An entry of several partitions has several parts, numbered from 0; each entry has a part 0, which counts for the entry.
Faults are left out. Values are written as Python writes them, so that 7 and '7' differ and reports read as those of
`raftlog.checkers` do. A line that is no entry ends its piece with a row that says so in `problem`; everything that
one entry alone proves to be malformed is found here, the rest in `malformed`.

Called in tasks by `judging`. Memory: a batch of rows, of at most `ROWS_MAX` parts and about `RECORDS_MAX` records.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from raftlog.checkers.history import (
    COMMIT,
    COMMITTED,
    HANDLE,
    INVOKE,
    LIST,
    NEMESIS,
    OK,
    POLL,
    SEND,
    TRIM,
    Assign,
    GroupOffsets,
    Handle,
    ListOffsets,
    Op,
    Poll,
    Send,
    Trim,
)
from raftlog.checkers.json_lines import read_lines
from raftlog.errors import InvalidArgument
from raftlog.pipeline.histories.files import Piece, lines_of

SCHEMA: Final = (
    "run int, seq bigint, part int, process bigint, type string, kind string, partition string, "
    "offsets array<bigint>, values array<string>, keys array<string>, tombstones array<string>, "
    "producer string, number bigint, begin bigint, end bigint, current boolean, team string, member string, "
    "problem string"
)
ARROW_SCHEMA: Final = pa.schema(
    [
        ("run", pa.int32()),
        ("seq", pa.int64()),
        ("part", pa.int32()),
        ("process", pa.int64()),
        ("type", pa.string()),
        ("kind", pa.string()),
        ("partition", pa.string()),
        ("offsets", pa.list_(pa.int64())),
        ("values", pa.list_(pa.string())),
        ("keys", pa.list_(pa.string())),
        ("tombstones", pa.list_(pa.string())),
        ("producer", pa.string()),
        ("number", pa.int64()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
        ("current", pa.bool_()),
        ("team", pa.string()),
        ("member", pa.string()),
        ("problem", pa.string()),
    ]
)
ROWS_MAX: Final = 20_000
RECORDS_MAX: Final = 200_000
_LONG_MAX: Final = (1 << 63) - 1
_MUST_SAY_WHAT: Final = frozenset((SEND, COMMIT, COMMITTED, HANDLE))
_MUST_ANSWER: Final = frozenset((POLL, LIST, TRIM))


class Part(NamedTuple):
    """What an entry says of one partition; `begin` is where a consumer, a log or a group stands."""

    partition: str | None = None
    offsets: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tombstones: tuple[str, ...] = ()
    producer: str | None = None
    number: int | None = None
    begin: int | None = None
    end: int | None = None
    current: bool = False
    team: str | None = None
    member: str = ""


def batches_of(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """All parts of the pieces, in order."""
    rows: list[tuple[Any, ...]] = []
    records = 0
    for piece in pieces:
        for row in rows_of(piece):
            rows.append(row)
            records += len(row[8])
            if len(rows) >= ROWS_MAX or records >= RECORDS_MAX:
                yield _batch(rows)
                rows, records = [], 0
    if rows:
        yield _batch(rows)


def rows_of(piece: Piece) -> Iterator[tuple[Any, ...]]:
    """Up to the first line that cannot be judged."""
    lines = Lines(piece)
    time = piece.time
    sequence = piece.sequence
    try:
        for op in read_lines(lines):
            sequence = piece.sequence + op.sequence
            if (problem := problem_of(op, time)) is not None:
                raise InvalidArgument(problem)
            if op.kind != NEMESIS or op.type == INVOKE:
                for number, part in enumerate(parts_of(op)):
                    yield (piece.run, sequence, number, op.process, op.type, op.kind, *part, None)
            time = op.time_ns
            sequence += 1
    except InvalidArgument as error:
        why = f"not an entry of a history: {error.__cause__!r}" if error.__cause__ is not None else str(error)
        yield (piece.run, sequence, 0, 0, "", "", *Part(), f"{piece.path} line {lines.number}: {why}")


class Lines:
    """The lines of a piece; `number` is that of the last one in its file, counted from 1."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self.number = piece.lines

    def __iter__(self) -> Iterator[bytes]:
        for line in lines_of(self._piece):
            self.number += 1
            yield line


def parts_of(op: Op) -> list[Part]:
    """At least one."""
    payload = op.payload
    if isinstance(payload, Send):
        return [_part_of_send(payload)]
    parts: list[Part] = []
    if isinstance(payload, Poll):
        parts = [Part(str(f.partition), f.offsets, _written(f.values)) for f in payload.fetched]
    elif isinstance(payload, Assign):
        parts = [Part(str(partition), begin=offset) for partition, offset in payload.positions]
    elif isinstance(payload, ListOffsets):
        current = payload.linearizable
        parts = [Part(str(r.partition), begin=r.start, end=r.end, current=current) for r in payload.ranges]
        return parts or [Part(current=current)]
    elif isinstance(payload, Trim):
        parts = [Part(str(payload.partition), begin=payload.start)]
    elif isinstance(payload, Handle):
        return [Part(str(payload.partition), team=payload.group)]
    elif isinstance(payload, GroupOffsets):
        by = Part(team=payload.group, member=payload.member)
        return [by._replace(partition=str(p), begin=offset) for p, offset in payload.offsets] or [by]
    return parts or [Part()]


def _part_of_send(send: Send) -> Part:
    producer = number = None
    if send.sequenced is not None:
        producer, number = f"{send.sequenced.producer}/{send.sequenced.epoch}", send.sequenced.sequence
    gone = _written(send.tombstones)
    return Part(str(send.partition), send.offsets, _written(send.values), send.keys, gone, producer, number)


def _written(values: tuple[int | str, ...]) -> tuple[str, ...]:
    return tuple(map(repr, values))


def problem_of(op: Op, time: int) -> str | None:
    """Why the entry cannot stand in a history behind one of that time, or `None`."""
    payload = op.payload
    if not _are_longs((op.time_ns, op.process)):
        return "time and process are not whole numbers"
    if op.time_ns < time:
        return f"entries are in the order of time, and one of {time} ns stands before this"
    if payload is None and (op.kind in _MUST_SAY_WHAT or (op.kind in _MUST_ANSWER and op.type == OK)):
        return "it does not say what"
    if isinstance(payload, Send):
        return _problem_of_send(payload, op)
    if isinstance(payload, Poll):
        for fetched in payload.fetched:
            if fetched.offsets and len(fetched.offsets) != len(fetched.values):
                return f"a poll has {len(fetched.offsets)} offsets and {len(fetched.values)} values"
            if not _are_longs(fetched.offsets) or not _are_values(fetched.values):
                return "offsets are whole numbers, and values whole numbers or strings"
    elif not _are_longs(_numbers_of(payload)):
        return "offsets are whole numbers"
    return None


def _problem_of_send(send: Send, op: Op) -> str | None:
    if not send.values and op.type == INVOKE:
        return "a send has no value"
    if op.type == OK and len(send.offsets) != len(send.values):
        return f"{len(send.values)} values were acknowledged with {len(send.offsets)} offsets"
    if send.keys and len(send.keys) != len(send.values):
        return f"{len(send.values)} values have {len(send.keys)} keys"
    if len(set(send.values)) != len(send.values):
        return "a value is sent twice; values are unique per partition"
    is_sound = _are_longs(send.offsets) and _are_values(send.values) and set(map(type, send.keys)) <= {str}
    is_sound = is_sound and (send.sequenced is None or _are_longs(send.sequenced))
    return None if is_sound else "offsets are whole numbers, values whole numbers or strings, keys strings"


def _numbers_of(payload: Any) -> tuple[Any, ...]:
    if isinstance(payload, Trim):
        return (payload.start,)
    if isinstance(payload, ListOffsets):
        return tuple(number for listed in payload.ranges for number in listed[1:])
    positions: tuple[tuple[Any, Any], ...] = ()
    if isinstance(payload, Assign):
        positions = payload.positions
    elif isinstance(payload, GroupOffsets):
        positions = payload.offsets
    return tuple(offset for _, offset in positions if offset is not None)


def _are_longs(numbers: tuple[Any, ...]) -> bool:
    return not numbers or (set(map(type, numbers)) == {int} and max(map(abs, numbers)) <= _LONG_MAX)


def _are_values(values: tuple[Any, ...]) -> bool:
    return set(map(type, values)) <= {int, str}


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
