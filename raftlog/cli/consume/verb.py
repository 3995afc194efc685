"""`raftlog consume`: the records of a topic on standard output."""

import asyncio
import signal
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, BinaryIO, get_args

import click

from raftlog.cli.consume.formatting import (
    FORMAT_HELP,
    Printer,
    format_printer,
    format_values,
    json_printer,
    keyed_printer,
)
from raftlog.cli.consume.position import OffsetSpan, StartPosition, locate, read_position
from raftlog.cli.options import NumberRange, bootstrap_option, give_up_option, json_option, option, separator_option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.serve import collector
from raftlog.client import BrokerClient, Consumer, ConsumerRecord, RebalanceListener
from raftlog.client.addresses import BrokerAddresses
from raftlog.errors import Unavailable, UndecodableBatch, UnknownPartition
from raftlog.types import READ_COMMITTED, IsolationName, Offset, TopicPartition

FETCH_BYTES = 2 * 1024 * 1024
POLL_RECORDS = 5_000
POLL_MS = 1_000
FIRST_NOTICE_S = 1.0
NOTICE_S = 60.0
LEADER_MS = 3_000
"""Time for a partition without a leader to elect one."""
OFFSET_MAX = Offset((1 << 63) - 1)
"""Value in place of the end of a partition whose end is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeCommandLine:
    """Parsed command line of `raftlog consume`."""

    topic: str
    group: str | None
    bootstrap: BrokerAddresses
    position: StartPosition
    count: int | None
    partition: int | None
    follow: bool
    format: str | None
    key_separator: bytes | None
    as_json: bool
    timeout: float | None
    give_up_after: float
    skip_undecodable: bool
    isolation: IsolationName


@click.command()
@click.argument("topic")
@option(
    "--from",
    "position",
    default="start",
    callback=read_position,
    metavar="start|end|N|-N|@TIME",
    help="Start position in each partition: first record, end, offset N, N records before the end, or the first "
    "record at or after a time (ms since 1970 or ISO 8601).",
)
@option("--count", "-n", type=click.IntRange(min=1), help="Stop after this many records in total.")
@option("--partition", "-p", type=click.IntRange(min=0), help="Read only this partition.")
@option(
    "--group",
    "-g",
    help="Join this consumer group: read the assigned partitions from the committed offsets, and commit printed "
    "records. --from start or end applies to partitions without a committed offset.",
)
@option(
    "--follow/--no-follow", default=True, help="Wait for new records, or stop at the end offsets seen at the start."
)
@option(
    "--format",
    "-f",
    metavar="TEXT",
    help=f"Format of each record: {FORMAT_HELP}, and \\n, \\t. No newline is added.",
)
@separator_option("Print KEY TEXT VALUE; records without a key print the value alone.")
@json_option("Print a JSON object a line, as `produce --json-lines` reads it.")
@option(
    "--timeout",
    type=NumberRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after this time without a record; a failure if --count is not reached.",
)
@give_up_option("Seconds to retry while no broker answers.")
@option(
    "--skip-undecodable",
    is_flag=True,
    help="Skip batches whose records cannot be decoded, with a line on standard error that names the offsets. "
    "Without it the command stops there.",
)
@option(
    "--isolation",
    type=click.Choice(get_args(IsolationName)),
    default=READ_COMMITTED,
    help="Print records of committed transactions only, up to the first open transaction; or all records, also of "
    "open and aborted transactions.",
)
@bootstrap_option
def consume(**options: Any) -> None:
    """Print the records of TOPIC, one value a line, and wait for more.

    It runs until it is stopped, unless --count, --no-follow or --timeout ends it. Records of a partition are in order.
    """
    wanted = ConsumeCommandLine(**options)
    if wanted.group is not None and (wanted.partition is not None or wanted.position.kind not in ("start", "end")):
        raise click.UsageError(
            "--group assigns partitions and start offsets: leave out --partition, and --from unless it is "
            "start or end; `raftlog group reset-offsets` moves a group"
        )
    printer = _choose_printer(wanted)
    collector.collect_less_often()
    try:
        asyncio.run(_ConsumeRun(wanted, printer, sys.stdout.buffer).run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.stdout.buffer.flush()


def _choose_printer(wanted: ConsumeCommandLine) -> Printer:
    """Return the printer that the flags choose; raises `click.UsageError` if they choose several."""
    chosen = [wanted.as_json, wanted.format is not None, wanted.key_separator is not None]
    if sum(chosen) > 1:
        raise click.UsageError("--json, --format and --key-separator exclude each other")
    if wanted.as_json:
        return json_printer(wanted.topic)
    if wanted.format is not None:
        return format_printer(wanted.topic, wanted.format)
    return format_values if wanted.key_separator is None else keyed_printer(wanted.key_separator)


class _ConsumeRun:
    """Run that prints the records of a `Consumer`."""

    def __init__(self, wanted: ConsumeCommandLine, printer: Printer, output: BinaryIO) -> None:
        """Prepare to read the wanted records and print them to `output`."""
        self._wanted, self._printer, self._output = wanted, printer, output
        self._left = wanted.count
        """Number of records still to print; None for all."""
        self._printed = 0
        self._last_arrival = 0.0
        self._notice = QuietNotice(f"waiting for records of {wanted.topic}", time.monotonic())
        self._ends: dict[TopicPartition, int] = {}
        """End offset of each partition at the start, at which a run without `--follow` ends."""

    async def run(self) -> None:
        """Print the wanted records. Raises `CommandFailed` if there are fewer than `--count`."""
        wanted = self._wanted
        self._last_arrival = time.monotonic()
        if wanted.group is not None and (reading := asyncio.current_task()) is not None:
            # as Ctrl-C: a member that did not leave holds its partitions until its session expires
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, reading.cancel)
        async with Consumer(
            wanted.bootstrap,
            group=wanted.group,
            auto_offset_reset="latest" if wanted.group and wanted.position.kind == "end" else "earliest",
            fetch_bytes=FETCH_BYTES,
            give_up_after_s=wanted.give_up_after,
            isolation=wanted.isolation,
        ) as consumer:
            async with BrokerClient(wanted.bootstrap) as client:
                count = (await client.describe_topic(wanted.topic)).partitions
                if wanted.group is None:
                    await consumer.assign(await self._find_start_offsets(client, count))
            if wanted.group is not None:
                consumer.subscribe([wanted.topic], listener=_EndOffsets(self._ends, wanted))
            try:
                await self._print_all(consumer)
            finally:
                self._output.flush()
        if self._left:
            found = f"only {self._printed} of {wanted.count} records of {wanted.topic} were found"
            raise CommandFailed(
                f"{found} within --timeout {wanted.timeout:g}"
                if wanted.follow
                else f"{found} up to the end offsets at the start; give --follow to wait for more"
            )

    async def _find_start_offsets(self, client: BrokerClient, count: int) -> dict[TopicPartition, int]:
        """Return the start offset of each partition; without `--follow` only of those with records."""
        wanted = self._wanted
        if wanted.partition is not None and wanted.partition >= count:
            raise UnknownPartition(f"topic {wanted.topic} has no partition {wanted.partition}; it has 0 to {count - 1}")
        partitions = range(count) if wanted.partition is None else [wanted.partition]
        places = [TopicPartition(wanted.topic, number) for number in partitions]
        try:
            async with asyncio.TaskGroup() as group:
                asked = {place: group.create_task(self._find_span(client, place)) for place in places}
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        spans = {place: task.result() for place, task in asked.items()}
        self._ends.update((place, span.end) for place, span in spans.items())
        return {place: span.begin for place, span in spans.items() if wanted.follow or span.begin < span.end}

    async def _find_span(self, client: BrokerClient, place: TopicPartition) -> OffsetSpan:
        """Return the start offset and the end of a partition.

        Without a leader the end is unknown, and committed records can be read from the start or an offset."""
        position = self._wanted.position
        if position.kind not in ("start", "offset"):
            return await locate(client, *place, position, self._wanted.isolation)
        try:
            return await locate(client, *place, position, self._wanted.isolation, LEADER_MS)
        except Unavailable as error:
            if type(error) is not Unavailable:  # no broker is reachable, or the broker refuses for another reason
                raise
            click.echo(f"{error}; printing the committed records that can be read, there may be more", err=True)
        return OffsetSpan(Offset(position.number if position.kind == "offset" else 0), OFFSET_MAX)

    async def _print_all(self, consumer: Consumer) -> None:
        """Poll and print until all wanted records are printed, the end is reached, or `--timeout` has passed."""
        while self._left != 0 and not await self._is_at_end(consumer):
            timeout_ms = POLL_MS
            if self._wanted.timeout is not None:
                silence_s = self._last_arrival + self._wanted.timeout - time.monotonic()
                if silence_s <= 0:
                    return
                timeout_ms = min(POLL_MS, round(silence_s * 1000) + 1)
            records = await self._poll(consumer, min(POLL_RECORDS, self._left or POLL_RECORDS), timeout_ms)
            for partition, some in groupby(records, attrgetter("partition")):
                self._print(partition, list(some))
            self._output.flush()
            if self._wanted.follow:
                self._notice.update(time.monotonic(), has_records=bool(records))

    async def _poll(self, consumer: Consumer, count: int, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records. With `--skip-undecodable`, an undecodable batch is reported and skipped."""
        try:
            return await consumer.poll(count, timeout_ms)
        except UndecodableBatch as error:
            if not self._wanted.skip_undecodable or error.place is None:
                raise CommandFailed(f"{error}, or use --skip-undecodable") from None
            click.echo(f"skipped: {error}", err=True)
            consumer.seek(error.place, error.next_offset)
            return []

    async def _is_at_end(self, consumer: Consumer) -> bool:
        """Return whether, without `--follow`, all records before the end offsets in `_ends` are printed."""
        if self._wanted.follow or (self._wanted.group is not None and not consumer.assignment):
            return False
        for place in consumer.assignment:
            if await consumer.position(place) < self._ends[place]:
                return False
        return True

    def _print(self, partition: int, records: list[ConsumerRecord]) -> None:
        """Print records of one partition, and count them.

        Without `--follow`, records after the end offset are left out."""
        if not self._wanted.follow and self._wanted.group is None:
            end = self._ends[TopicPartition(self._wanted.topic, partition)]
            if records[-1].offset >= end:
                records = [record for record in records if record.offset < end]
        if not records:
            return
        if self._left is not None:
            self._left -= len(records)
        self._printed += len(records)
        self._last_arrival = time.monotonic()
        self._output.write(self._printer(partition, records))


class QuietNotice:
    """Notice on stderr that no record arrives: after one second, and then after each quiet minute."""

    def __init__(self, text: str, now_s: float) -> None:
        """Prepare to report `text` when no record arrives for a while, from `now_s` on."""
        self._text = text
        self._pause_s = FIRST_NOTICE_S
        self._due_s = now_s + self._pause_s

    def update(self, now_s: float, *, has_records: bool) -> None:
        """Record the result of a poll; print the line when it is due."""
        if not has_records and now_s < self._due_s:
            return
        if not has_records:
            click.echo(self._text, err=True)
            self._pause_s = NOTICE_S
        self._due_s = now_s + self._pause_s


class _EndOffsets(RebalanceListener):
    """Rebalance listener that stores the end offset of each newly assigned partition in `ends`."""

    def __init__(self, ends: dict[TopicPartition, int], wanted: ConsumeCommandLine) -> None:
        self._ends, self._wanted = ends, wanted

    async def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Read the end offsets of partitions at their first assignment."""
        isolation = self._wanted.isolation
        async with BrokerClient(self._wanted.bootstrap) as client:
            for place in partitions:
                self._ends.setdefault(place, (await client.offsets(*place, isolation=isolation)).end)
