"""`raftlog backup`: copy of all topics and committed offsets to a directory or an object store."""

import click

from raftlog.backup.backup import BackupResult, run_backup
from raftlog.backup.partition_copy import CopyOptions
from raftlog.backup.stores import BackupStore, open_store
from raftlog.cli.backup.progress import MIB, offset_progress
from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import give_up_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import format_count
from raftlog.client import BrokerClient


@operator_command("Print the result as JSON.")
@click.argument("store", metavar="STORE")
@option(
    "--parallel",
    type=click.IntRange(1, 64),
    default=4,
    metavar="N",
    help="Partitions to copy at a time; each takes up to twice --file-mib of memory.",
)
@option("--file-mib", type=click.IntRange(1, 1024), default=16, metavar="MIB", help="Size of files in STORE.")
@option("--prune", "prunes", is_flag=True, help="Remove saved records and topics that the cluster has deleted since.")
@give_up_option("Fail after this time without an answer of the brokers.")
def backup(store: str, parallel: int, file_mib: int, prunes: bool, give_up_after: float, verb: OperatorVerb) -> None:
    """Save all topics and the committed offsets of all groups in STORE, a directory or s3://BUCKET/PATH.

    Further runs add only what is new. Brokers may be used meanwhile: each partition is saved up to its end at the begin
    of the run. A second run at the same time is refused, and an interrupted one is continued. Only topics and groups
    that the user may describe are saved; internal topics, users, permissions and quotas are not."""
    place = open_store(store)
    options = CopyOptions(file_mib * MIB, parallel, give_up_after)
    result = verb.ask(lambda client: _run(client, place, options, prunes))
    verb.output(result, _describe)
    if result.incomplete:
        name, error = next(iter(result.incomplete.items()))
        raise CommandFailed(
            f"{format_count(len(result.incomplete), 'partition')} could not be saved up to the end, the others are: "
            f"{name}: {error}; run the command again"
        )


async def _run(client: BrokerClient, store: BackupStore, options: CopyOptions, prunes: bool) -> BackupResult:
    """Run the backup with a progress display."""
    with offset_progress(f"backup to {store.address}") as show:
        return await run_backup(client, store, options, lambda progress: show(*progress), prunes=prunes)


def _describe(result: BackupResult) -> None:
    """Print the totals of a backup, with a warning about records that were deleted before they were saved."""
    click.echo(
        f"saved {format_count(result.records, 'record')}, {result.bytes / MIB:,.1f} MiB in "
        f"{format_count(result.files, 'new file')}; {format_count(result.topics, 'topic')}, "
        f"{format_count(result.partitions, 'partition')} and {format_count(result.groups, 'group')} in total"
    )
    if result.renewed:
        click.echo(
            f"saved {format_count(result.renewed, 'compacted partition')} again as a whole, since tombstones may have "
            "been removed since the last run"
        )
    if result.pruned:
        click.echo(f"removed {format_count(result.pruned, 'file')} of deleted or replaced records")
    for name in result.deleted:
        click.echo(f"left out topic {name}, which was deleted during the run", err=True)
    lost = sum(row.end - row.first for row in result.lost)
    if lost:
        click.echo(
            f"{format_count(lost, 'offset')} were deleted before a run saved them: run `raftlog backup` more "
            "often than retention deletes records",
            err=True,
        )
