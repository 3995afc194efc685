"""`raftlog consume`: the records of a topic on standard output."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import click

from raftlog.cli import collector
from raftlog.cli.formatting import (
    FORMAT_HELP,
    Printer,
    format_printer,
    json_printer,
    keyed_printer,
    value_printer,
)
from raftlog.cli.options import bootstrap_option, json_option, option, read_separator
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.patience import PatientReader
from raftlog.cli.position import Position, Span, locate, read_position
from raftlog.client import BrokerClient, Fetched
from raftlog.client.decode import checked_batches, records_from
from raftlog.errors import UnknownPartition
from raftlog.records import Record

FETCH_BYTES = 2 * 1024 * 1024
FETCH_WAIT_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The command line."""

    topic: str
    bootstrap: list[str]
    position: Position
    count: int | None
    partition: int | None
    follow: bool
    format: str | None
    key_separator: bytes | None
    as_json: bool
    timeout: float | None
    give_up_after: float


@click.command()
@click.argument("topic")
@option(
    "--from",
    "position",
    default="start",
    callback=read_position,
    metavar="start|end|N|-N|@TIME",
    help="Where to begin: the first record, the end, offset N, N before the end, or the first record at or after "
    "a time (ms since 1970 or ISO 8601). Applies to each partition.",
)
@option("--count", "-n", type=click.IntRange(min=1), help="Stop after this many records in all.")
@option("--partition", "-p", type=click.IntRange(min=0), help="Only this partition.")
@option(
    "--follow/--no-follow", default=True, help="Wait for new records, or stop at the end offsets seen at the start."
)
@option(
    "--format",
    "-f",
    metavar="TEXT",
    help=f"What to print for each record: {FORMAT_HELP}, and \\n, \\t. Nothing is added.",
)
@option(
    "--key-separator",
    callback=read_separator,
    metavar="TEXT",
    help="Print KEY TEXT VALUE, or the value alone where there is no key.",
)
@json_option("Print a JSON object a line, as `produce --json-lines` reads it.")
@option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop when no record came for this long; with --count unfulfilled that is a failure.",
)
@option(
    "--give-up-after",
    type=click.FloatRange(min=0),
    default=30.0,
    metavar="SECONDS",
    help="How long to go on trying when the broker is away.",
)
@bootstrap_option
def consume(**options: Any) -> None:
    """Print the records of TOPIC, one value a line. It goes on waiting for more until it is stopped, unless --count,
    --no-follow or --timeout says otherwise. Order holds within each partition."""
    wanted = Wanted(**options)
    printer = _printer(wanted)
    collector.relax()
    try:
        asyncio.run(_Reading(wanted, printer, sys.stdout.buffer).run())
    except KeyboardInterrupt:
        sys.stdout.buffer.flush()


def _printer(wanted: Wanted) -> Printer:
    chosen = [wanted.as_json, wanted.format is not None, wanted.key_separator is not None]
    if sum(chosen) > 1:
        raise click.UsageError("--json, --format and --key-separator exclude each other")
    if wanted.as_json:
        return json_printer(wanted.topic)
    if wanted.format is not None:
        return format_printer(wanted.topic, wanted.format)
    return value_printer if wanted.key_separator is None else keyed_printer(wanted.key_separator)


class _Reading:
    """Reads all partitions at once; `left` counts down to the last record that is wanted."""

    def __init__(self, wanted: Wanted, printer: Printer, output: BinaryIO) -> None:
        self._wanted, self._printer, self._output = wanted, printer, output
        self._left = wanted.count
        self._printed = 0
        self._enough = asyncio.Event()
        self._last_arrival = 0.0

    async def run(self) -> None:
        wanted = self._wanted
        self._last_arrival = asyncio.get_running_loop().time()
        async with BrokerClient(wanted.bootstrap) as client:
            spans = await self._spans(client)
            reader = PatientReader(client, wanted.topic, wanted.give_up_after)
            tasks = [asyncio.create_task(self._read(reader, partition, span)) for partition, span in spans.items()]
            try:
                await self._until_done(tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._output.flush()
        if self._left:
            raise CommandFailed(
                f"only {self._printed} of {wanted.count} records came; {wanted.topic} has no more to offer "
                + ("for now" if wanted.follow else "up to the end seen at the start")
            )

    async def _spans(self, client: BrokerClient) -> dict[int, Span]:
        wanted = self._wanted
        count = (await client.describe_topic(wanted.topic)).partitions
        if wanted.partition is not None and wanted.partition >= count:
            raise UnknownPartition(f"{wanted.topic} has {count} partitions, numbered from 0: no {wanted.partition}")
        partitions = range(count) if wanted.partition is None else [wanted.partition]
        return {number: await locate(client, wanted.topic, number, wanted.position) for number in partitions}

    async def _until_done(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Until all readers ended, enough was printed, or nothing came for too long. Raises what a reader met."""
        pending: set[asyncio.Task[Any]] = set(tasks)
        enough = asyncio.create_task(self._enough.wait())
        try:
            while pending and not enough.done():
                left = self._silence_left()
                if left is not None and left <= 0:
                    return
                done, _ = await asyncio.wait({*pending, enough}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {enough}:
                    await task
                pending -= done
        finally:
            enough.cancel()

    def _silence_left(self) -> float | None:
        if self._wanted.timeout is None:
            return None
        return self._last_arrival + self._wanted.timeout - asyncio.get_running_loop().time()

    async def _read(self, reader: PatientReader, partition: int, span: Span) -> None:
        """One partition. The next fetch is under way while the last one is printed."""
        offset: int = span.begin
        end = None if self._wanted.follow else span.end
        if end is not None and offset >= end:
            return
        fetching = self._fetch(reader, partition, offset)
        try:
            while True:
                fetched = await fetching
                batches = list(checked_batches(fetched.body))
                asked, offset = offset, batches[-1][0].next_offset if batches else offset
                if end is None or offset < end:
                    fetching = self._fetch(reader, partition, offset)
                    # Let the request leave before the processor is busy with printing.
                    await asyncio.sleep(0)
                for header, batch in batches:
                    self._print(partition, records_from(header, batch, asked), end)
                self._output.flush()
                if self._left == 0 or (end is not None and offset >= end):
                    return
        finally:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)

    def _fetch(self, reader: PatientReader, partition: int, offset: int) -> asyncio.Task[Fetched]:
        fetch = reader.fetch(partition, offset, timeout_ms=FETCH_WAIT_MS, max_bytes=FETCH_BYTES)
        return asyncio.create_task(fetch)

    def _print(self, partition: int, records: list[Record], end: int | None) -> None:
        if end is not None and records and records[-1].offset >= end:
            records = [record for record in records if record.offset < end]
        if self._left is not None:
            records = records[: self._left]
            self._left -= len(records)
            if not self._left:
                self._enough.set()
        if not records:
            return
        self._printed += len(records)
        self._last_arrival = asyncio.get_running_loop().time()
        self._output.write(self._printer(partition, records))
