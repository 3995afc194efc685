"""Start position of `consume`: `start`, `end`, an offset, a number of records before the end, or a time."""

from typing import NamedTuple

import click

from raftlog.cli.json_lines import parse_time_ms
from raftlog.client import BrokerClient
from raftlog.errors import OffsetOutOfRange
from raftlog.types import READ_COMMITTED, IsolationName, Offset

ANSWER_MS = 10_000


class StartPosition(NamedTuple):
    """Start position; `number` is the offset, the distance from the end, or the time in milliseconds."""

    kind: str
    number: int = 0


def read_position(_context: click.Context, _parameter: click.Parameter, text: str) -> StartPosition:
    """Parse a start position: `start|end|N|-N|@timestamp`."""
    if text in ("start", "end"):
        return StartPosition(text)
    try:
        if text.startswith("@"):
            return StartPosition("time", parse_time_ms(text[1:]))
        number = int(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not start, end, an offset, -N (N records before the end), or @TIME with "
            "milliseconds since 1970 or ISO 8601, such as @2026-01-31T12:00:00Z"
        ) from None
    return StartPosition("before-end", -number) if text.startswith("-") else StartPosition("offset", number)


class OffsetSpan(NamedTuple):
    """First offset to read in a partition, and the partition's end offset when this was determined."""

    begin: Offset
    end: Offset


async def locate(
    client: BrokerClient,
    topic: str,
    partition: int,
    position: StartPosition,
    isolation: IsolationName = READ_COMMITTED,
    timeout_ms: int = ANSWER_MS,
) -> OffsetSpan:
    """Resolve a start position to offsets; a time after the last record resolves to the end.

    Raises `OffsetOutOfRange`."""
    beginning, end = await client.offsets(topic, partition, timeout_ms=timeout_ms, isolation=isolation)
    if position.kind == "start":
        begin = beginning
    elif position.kind == "end":
        begin = end
    elif position.kind == "before-end":
        begin = Offset(max(beginning, end - position.number))
    elif position.kind == "offset":
        begin = Offset(position.number)
        if not beginning <= begin <= end:
            error = OffsetOutOfRange(begin, beginning, end)
            error.args = (f"{topic}/{partition}: {error}",)
            raise error
    else:
        found = await client.offset_for_timestamp(topic, partition, position.number, isolation=isolation)
        begin = end if found is None else found[0]
    return OffsetSpan(begin, end)
