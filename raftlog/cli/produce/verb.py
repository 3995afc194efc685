"""`raftlog produce`: lines, JSON lines or files to a topic."""

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson

from raftlog.cli.options import bootstrap_option, give_up_option, json_option, option, separator_option
from raftlog.cli.outcome import EXIT_UNKNOWN, CommandFailed, exit_code_of
from raftlog.cli.produce import resume
from raftlog.cli.produce.routing import RecordLayout, make_router
from raftlog.cli.produce.sender import LineSender, Records
from raftlog.cli.produce.source import InputSource
from raftlog.cli.produce.summary import Summary
from raftlog.cli.serve import collector
from raftlog.client import BrokerClient, Producer
from raftlog.client.addresses import BrokerAddresses
from raftlog.client.producers.producer_settings import BATCH_BYTES_MAX, Acks
from raftlog.errors import RaftlogError
from raftlog.records import Compression, NewRecord
from raftlog.records.partitioner import PARTITIONERS

BATCH_BYTES_DEFAULT = 512 * 1024
CHUNK_BYTES_MAX = 256 * 1024
BUFFER_RECORDS = 1 << 30
"""Maximum number of buffered records; so high that only the limit in bytes counts."""
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of records in incomplete batches of all partitions; above this all batches are sent incomplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceCommandLine:
    """Parsed command line of `raftlog produce`."""

    topic: str
    files: tuple[str, ...]
    bootstrap: BrokerAddresses
    json_lines: bool
    whole_file: bool
    key_separator: bytes | None
    number_keys: bool
    partition: int | None
    partitioner: str
    compression: str
    acks: Acks
    batch_bytes: int
    in_flight: int
    timeout_ms: int
    resume: str | None
    give_up_after: float
    as_json: bool


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(exists=True, dir_okay=False, readable=True))
@option(
    "--json-lines",
    is_flag=True,
    help='Read a JSON object per line: {"key", "value", "headers", "timestamp", "partition"}.',
)
@option("--whole-file", is_flag=True, help="Send each FILE as one record.")
@separator_option(
    "Separator of key and value: the key ends at its first occurrence in a line; \\t is a tab. Lines without it have "
    "no key."
)
@option("--number-keys", is_flag=True, help="Use the line number, from 1, as the key.")
@option("--partition", "-p", type=click.IntRange(min=0), help="Send all records to this partition.")
@option(
    "--partitioner",
    type=click.Choice(list(PARTITIONERS)),
    default="murmur2",
    help="Hash of the key that chooses the partition; records without a key go to the partitions in turn.",
)
@option(
    "--compression",
    "-z",
    type=click.Choice([codec.name.lower() for codec in Compression]),
    default="none",
    help="Codec of the batches.",
)
@option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    help="When the broker answers: all = once durable, 1 = once written, 0 = at once.",
)
@option(
    "--batch-bytes",
    type=click.IntRange(min=1),
    default=BATCH_BYTES_DEFAULT,
    help="Size in bytes at which a batch is sent; a pause of the input sends it earlier.",
)
@option(
    "--in-flight",
    type=click.IntRange(min=1, max=64),
    default=4,
    help="Maximum number of batches in flight, of all partitions together; the order in a partition is kept.",
)
@option("--timeout-ms", type=click.IntRange(min=1), default=10_000, help="Timeout of a request, in milliseconds.")
@option(
    "--resume",
    metavar="STATE_FILE",
    type=click.Path(dir_okay=False),
    help="Load FILE exactly once: after a crash, the same command continues. No other producer may write to the "
    "topic meanwhile.",
)
@give_up_option("Seconds to retry while no broker answers or all are overloaded.")
@json_option("Print the summary as JSON on stdout.")
@bootstrap_option
def produce(**options: Any) -> None:
    """Write each line of FILE..., or of standard input, to TOPIC as a record.

    A summary is printed on stderr. If the outcome is unknown, the exit code is 3 and the error has the number of
    confirmed records.
    """
    wanted = ProduceCommandLine(**options)
    _check_flags(wanted)
    collector.collect_less_often()
    run = _ProduceRun(wanted)
    try:
        asyncio.run(run.run())
    except KeyboardInterrupt:
        raise run.add_outcome(CommandFailed("interrupted")) from None
    except (RaftlogError, CommandFailed) as error:
        raise run.add_outcome(error) from error
    run.summary.show(wanted.as_json)


def _check_flags(wanted: ProduceCommandLine) -> None:
    """Raise `click.UsageError` if flags exclude each other."""
    if wanted.json_lines and (wanted.key_separator is not None or wanted.number_keys):
        raise click.UsageError("lines of --json-lines have their own keys; omit --key-separator and --number-keys")
    if wanted.number_keys and wanted.key_separator is not None:
        raise click.UsageError("--number-keys and --key-separator exclude each other")
    if wanted.whole_file and (wanted.json_lines or wanted.key_separator is not None or wanted.resume):
        raise click.UsageError("--whole-file cannot be combined with --json-lines, --key-separator or --resume")
    if wanted.whole_file and not wanted.files:
        raise click.UsageError("--whole-file needs at least one FILE")
    if wanted.resume and len(wanted.files) != 1:
        raise click.UsageError("--resume needs exactly one FILE: standard input cannot be read again")
    if wanted.resume and wanted.acks != "all":
        raise click.UsageError("--resume needs --acks all")


class _ProduceRun:
    """One run of `raftlog produce`, from the first request to the summary."""

    def __init__(self, wanted: ProduceCommandLine) -> None:
        self._wanted = wanted
        self._waiting: dict[int, tuple[list[bytes | NewRecord], int]] = {}
        self._waiting_bytes = 0
        self.summary = Summary(wanted.topic)

    async def run(self) -> None:
        """Send all records. Wait for the outstanding answers also after an error, so that the counts are right."""
        wanted = self._wanted
        async with BrokerClient(wanted.bootstrap) as client:
            description = await client.describe_topic(wanted.topic)
            limit = int(description.configs.get("max.message.bytes", 1 << 20))
            layout = RecordLayout(
                description.partitions,
                wanted.partition,
                wanted.partitioner,
                wanted.key_separator,
                wanted.number_keys,
                wanted.json_lines,
            )
            progress, lock = await self._read_progress(client, layout, limit)
            try:
                async with self._make_producer() as producer:
                    sender = LineSender(producer, wanted.topic, wanted.in_flight, progress)
                    self.summary.begin(sender.lanes, progress.already if progress else None)
                    await self._send_all(sender, layout, limit, progress)
            finally:
                if lock is not None:
                    os.close(lock)

    def _make_producer(self) -> Producer:
        """Return a producer that sends the batches as they are given, with retries up to the deadline."""
        wanted = self._wanted
        return Producer(
            wanted.bootstrap,
            acks=wanted.acks,
            idempotent=wanted.acks == "all",
            compression=wanted.compression,
            batch_bytes=BATCH_BYTES_MAX,
            buffer_records=BUFFER_RECORDS,
            buffer_bytes=WAITING_BYTES_MAX,
            request_timeout_ms=wanted.timeout_ms,
            delivery_timeout_ms=max(wanted.timeout_ms, round(wanted.give_up_after * 1000)),
            stops_at_failure=True,
        )

    async def _read_progress(
        self, client: BrokerClient, layout: RecordLayout, limit: int
    ) -> tuple[resume.ResumePoint | None, int | None]:
        """Return the progress of an earlier run and the locked state file; None without `--resume`."""
        wanted = self._wanted
        if wanted.resume is None:
            return None, None
        reader = resume.StoredRecords(client, wanted.topic, wanted.give_up_after)
        progress, lock = await resume.begin_or_resume(wanted.resume, reader, wanted.files[0], layout)
        await resume.verify(reader, layout, progress, self._open_source(limit).lines())
        return progress, lock

    async def _send_all(
        self, sender: LineSender, layout: RecordLayout, limit: int, progress: resume.ResumePoint | None
    ) -> None:
        """Send the whole input, and wait until every record is acknowledged or has failed."""
        meter = self._make_meter()
        try:
            if self._wanted.whole_file:
                await self._send_files(sender, layout, limit)
            else:
                skips = list(progress.already) if progress else None
                await self._send_lines(sender, layout, self._open_source(limit).lines(), skips, meter)
            await self._flush(sender)
        finally:
            try:
                await sender.finish()
            finally:
                self.summary.end()
                if meter is not None:
                    meter.close()

    async def _send_lines(
        self,
        sender: LineSender,
        layout: RecordLayout,
        source: AsyncIterator[list[bytes]],
        skips: list[int] | None,
        meter: Any,
    ) -> None:
        """Send the records of lines, except those that are stored already."""
        router = make_router(layout)
        done = 0
        async for lines in source:
            if not lines:
                await self._flush(sender)
                continue
            done += sum(map(len, lines)) + len(lines)
            for partition, records in router.route(lines):
                left = records if skips is None else resume.skip_stored(records, skips, partition)
                if left:
                    await self._add_to_batch(sender, partition, left)
            if meter is not None:
                meter.update(done)

    async def _send_files(self, sender: LineSender, layout: RecordLayout, limit: int) -> None:
        """Send each file as one record."""
        router = make_router(layout)
        for path in self._wanted.files:
            for partition, records in router.route([await asyncio.to_thread(_read_file, path, limit)]):
                await self._add_to_batch(sender, partition, records)

    async def _add_to_batch(self, sender: LineSender, partition: int, records: Records) -> None:
        """Add records to the batch of their partition; send it once it is full, or all if they take too much memory."""
        size = _count_bytes(records)
        held, held_bytes = self._waiting.pop(partition, ([], 0))
        held.extend(records)
        if held_bytes + size >= self._wanted.batch_bytes:
            self._waiting_bytes -= held_bytes
            await sender.send(partition, held, held_bytes + size)
            return
        self._waiting[partition] = (held, held_bytes + size)
        self._waiting_bytes += size
        if self._waiting_bytes >= WAITING_BYTES_MAX:
            await self._flush(sender)

    async def _flush(self, sender: LineSender) -> None:
        """Send all batches that are not full."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        for partition, (records, size) in waiting.items():
            await sender.send(partition, records, size)

    def _open_source(self, limit: int) -> InputSource:
        """Return the input of the command line; `limit` is the size of the longest line."""
        wanted = self._wanted
        return InputSource(wanted.files, max(1, min(CHUNK_BYTES_MAX, wanted.batch_bytes)), limit)

    def _make_meter(self) -> Any:
        """Return a progress bar; None without a terminal, where its module is not imported."""
        if not sys.stderr.isatty():
            return None
        total = self._open_source(1).size_bytes
        return importlib.import_module("raftlog.cli.progress").ByteProgressBar(f"produce {self._wanted.topic}", total)

    def add_outcome(self, error: RaftlogError | CommandFailed) -> CommandFailed:
        """Return the error with the outcome of the records sent before it in its text."""
        code = exit_code_of(error) if isinstance(error, RaftlogError) else error.exit_code
        if self.summary.unconfirmed and self._wanted.acks != "0":
            code = EXIT_UNKNOWN if isinstance(error, RaftlogError) or str(error) == "interrupted" else code
        if self._wanted.as_json:
            click.echo(orjson.dumps(self.summary.as_json("unknown" if code == EXIT_UNKNOWN else "failed", str(error))))
        advice = " Run the same command again to continue." if self._wanted.resume and code == EXIT_UNKNOWN else ""
        return CommandFailed(
            f"{error}. {self.summary.confirmed_text()}{advice}" if self.summary.begun else str(error), code
        )


def _read_file(path: str, limit: int) -> bytes:
    """Return the content of a file; raises `CommandFailed` if it is larger than the limit."""
    if os.path.getsize(path) > limit:
        raise CommandFailed(
            f"{path} is larger than the topic's max.message.bytes, {limit}; `raftlog topic alter` can raise it"
        )
    return Path(path).read_bytes()


def _count_bytes(records: Records) -> int:
    """Return the bytes of keys and values. A list from a router has either only values or only records."""
    if type(records[0]) is bytes:
        return sum(map(len, records))
    return sum([len(record[0] or b"") + len(record[1] or b"") for record in records])  # type: ignore[misc, arg-type]
