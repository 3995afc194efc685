"""`raftlog log …`: tools on log files; no broker is needed. `recover` refuses a log that a process has open."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import click
import orjson

from raftlog.cli.json_lines import format_json_line
from raftlog.cli.log.compare import COMPARISON, compare_logs, comparison_json
from raftlog.cli.options import json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import Columns, format_count, show, table_of
from raftlog.errors import InvalidBatch
from raftlog.records import read_records
from raftlog.storage.disk import Disk
from raftlog.storage.dump import dump_file
from raftlog.storage.log_directories import find_log_directories
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.recovery import read_roll, segment_bases
from raftlog.storage.repair import RepairReport, repair_log
from raftlog.storage.segment import open_for_reading
from raftlog.storage.verify import LogCheck, verify_log


@click.group()
def log() -> None:
    """Dump, verify and recover log files; no broker is needed."""


@log.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@option("--records", "with_records", is_flag=True, help="Print the records of each batch as well.")
@json_option("Print a JSON object a line.")
def dump(file: str, with_records: bool, as_json: bool) -> None:
    """Show the batches of the segment FILE (20 digits and .log). Exit code 1 if some are damaged."""
    path = os.path.abspath(file)
    damaged = 0
    for batch, content in dump_file(_make_disk(), path):
        damaged += "problem" in batch
        click.echo(orjson.dumps(batch) if as_json else _format_batch(batch))
        if with_records and "problem" not in batch and "control" not in batch:
            for line in _format_records(content):
                click.echo(line if as_json else b"    " + line)
    if damaged:
        raise CommandFailed(
            f"{file} has {damaged} damaged {'batch' if damaged == 1 else 'batches'}; "
            "`raftlog log recover DIR` shows the repair"
        )


def _format_batch(batch: dict[str, Any]) -> str:
    """Return one line about a batch: where it is, its term, offsets, size and damage."""
    where = f"position {batch['position']:>10}  index {batch['index']:>8}"
    if "base_offset" not in batch:
        return f"{where}  {batch['size']} bytes: {batch.get('problem')}"
    control = batch.get("control")
    what = f"{batch['records']} records, {batch['compression']}" if control is None else _format_control(control)
    span = f"offsets {batch['base_offset']} to {batch['last_offset']}" if control is None else "no offset"
    damage = f"  DAMAGED: {batch['problem']}" if "problem" in batch else ""
    return f"{where}  term {batch['term']}  {span}  {batch['size']} bytes  crc {batch['crc']}  {what}{damage}"


def _format_control(control: dict[str, Any]) -> str:
    """Return the kind and fields of a control batch as text."""
    return f"{control.get('kind', 'control')} " + " ".join(f"{k}={v}" for k, v in control.items() if k != "kind")


def _format_records(content: memoryview) -> Iterator[bytes]:
    """Yield the records of a batch as JSON lines, then the problem if the batch is damaged."""
    try:
        for record in read_records(content):
            yield format_json_line(None, None, record)
    except InvalidBatch as error:
        yield orjson.dumps({"problem": str(error)})


@log.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, file_okay=False))
@option(
    "--compare",
    "compares",
    is_flag=True,
    help="Also compare the replicas of a partition in different DIRs, up to the offset that is committed in all.",
)
@json_option("Print the result as JSON.")
def verify(directories: tuple[str, ...], compares: bool, as_json: bool) -> None:
    """Read every byte of the logs in DIR..., each a data, partition or log directory, and check it.

    No file is changed; the broker may be running, except with --compare. Exit code 1 if a problem is found.
    """
    disk = _make_disk()
    logs = _find_logs(directories)
    reports = {path: verify_log(disk, path) for path in logs}
    comparisons = compare_logs(disk, logs) if compares else []
    if as_json:
        found: dict[str, Any] = {"logs": [_check_as_json(path, report) for path, report in reports.items()]}
        if compares:
            found["comparisons"] = [comparison_json(each) for each in comparisons]
        click.echo(orjson.dumps(found))
    else:
        show(table_of(reports.items(), _VERIFIED))
        if compares:
            show(table_of(comparisons, COMPARISON))
    problems = [problem for report in reports.values() for problem in report.problems]
    empty = [path for path, report in reports.items() if not report.segments]
    if not as_json:
        for problem in problems:
            click.echo(str(problem), err=True)
    if problems:
        raise CommandFailed(
            f"{format_count(len(problems), 'problem')} found; `raftlog log recover DIR` shows the repair"
        )
    differing = [each for each in comparisons if each.difference is not None]
    if differing:
        raise CommandFailed(f"{format_count(len(differing), 'group')} whose replicas differ: {differing[0].difference}")
    if empty:
        raise CommandFailed(f"{empty[0]} has no segment left; restore it from a copy")


def _check_as_json(path: str, report: LogCheck) -> dict[str, Any]:
    """Return the result of the check of one log as JSON."""
    return {
        "path": path,
        "sound": report.is_sound and report.segments > 0,
        "segments": report.segments,
        "batches": report.batches,
        "records": report.records,
        "bytes": report.bytes_read,
        "first_offset": report.first_offset,
        "end_offset": report.end_offset,
        "tail_bytes": report.tail_bytes,
        "problems": [str(problem) for problem in report.problems],
    }


def _describe_state(report: LogCheck) -> str:
    """Return whether a log is sound, or its number of problems."""
    state = format_count(len(report.problems), "problem") if report.problems else "sound"
    return state + (f", {report.tail_bytes:,} bytes of tail" if report.tail_bytes else "")


_VERIFIED: Columns[tuple[str, LogCheck]] = {
    "log": lambda row: row[0],
    "segments": lambda row: f"{row[1].segments:,}",
    "batches": lambda row: f"{row[1].batches:,}",
    "records": lambda row: f"{row[1].records:,}",
    "bytes": lambda row: f"{row[1].bytes_read:,}",
    "offsets": lambda row: f"{row[1].first_offset} … {row[1].end_offset}",
    "state": lambda row: _describe_state(row[1]),
}


@log.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, file_okay=False))
@option(
    "--accept-loss",
    is_flag=True,
    help="Replace damaged batches by gaps; their bytes are kept in .raftlog/damaged. Without it no file is changed.",
)
@json_option("Print the result as JSON.")
def recover(directories: tuple[str, ...], accept_loss: bool, as_json: bool) -> None:
    """Repair damaged logs in DIR..., to accept records again. Without --accept-loss, show the records it would lose.

    Exit code 1 if damage remains.
    """
    disk = _make_disk()
    paths = _find_logs(directories)
    for path in paths:
        _refuse_replicated(disk, path)
    reports = {path: repair_log(disk, path, accept_loss=accept_loss) for path in paths}
    if as_json:
        click.echo(orjson.dumps({"logs": [_repair_as_json(path, report) for path, report in reports.items()]}))
    else:
        for path, report in reports.items():
            click.echo(f"{path}: {_describe_repair(report)}")
    left = [path for path, report in reports.items() if report.problems and not report.done]
    if left:
        raise CommandFailed(
            f"{format_count(len(left), 'log')} damaged and unchanged; repeat with --accept-loss to repair without "
            "these records"
        )


def _refuse_replicated(disk: Disk, path: str) -> None:
    """Raise `CommandFailed` for a replica with peers: the peers repair it, and gaps would make it differ from them."""
    for base in reversed(segment_bases(disk, path)):
        segment = open_for_reading(disk, path, base)
        try:
            roll = read_roll(segment)
        finally:
            segment.close()
        if roll is not None:
            if len(roll.voters) > 1:
                raise CommandFailed(
                    f"{path} is one of {len(roll.voters)} replicas, which a running broker repairs from the others: "
                    "start the broker. Nothing was changed"
                )
            return


def _repair_as_json(path: str, report: RepairReport) -> dict[str, Any]:
    """Return the result of the repair of one log as JSON."""
    return {
        "path": path,
        "problems": [str(problem) for problem in report.problems],
        "lost": report.lost,
        "cut_from": report.cut_from,
        "kept_in": report.kept_in,
        "done": report.done,
    }


def _describe_repair(report: RepairReport) -> str:
    """Return one line about a repair: the lost offsets, and where their bytes are kept."""
    if not report.problems:
        return "sound, nothing to do"
    verb = "lost" if report.done else "would lose"
    losses = [f"offsets {first} to {end - 1}" for first, end in report.lost]
    if report.cut_from is not None:
        losses.append(f"everything from offset {report.cut_from} on")
    kept = f"; the bytes are kept in {', '.join(report.kept_in)}" if report.kept_in else ""
    return f"{verb} {', '.join(losses) or 'no record: only indexes are damaged'}{kept}"


def _find_logs(directories: Iterable[str]) -> list[str]:
    """Return the log directories in and below these; raise `CommandFailed` for a directory without any."""
    found: dict[str, None] = {}
    for directory in directories:
        logs = list(find_log_directories(os.path.abspath(directory)))
        if not logs:
            raise CommandFailed(
                f"{directory} holds no log: neither it nor a directory in it has segment files; "
                "give a data, partition or log directory"
            )
        found |= dict.fromkeys(logs)
    return list(found)


def _make_disk() -> Disk:
    """Return the file system with blocking calls, without threads for syncs."""
    return RealDisk(lambda job: job(), lambda job: job())
