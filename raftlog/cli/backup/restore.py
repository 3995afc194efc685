"""`raftlog restore`: topics and committed offsets of a backup in a cluster, at the same offsets."""

import asyncio
from datetime import UTC, datetime

import click

from raftlog.backup.restore import (
    RestoreOptions,
    RestorePlan,
    RestoreResult,
    check_backup,
    run_restore,
)
from raftlog.backup.state import format_time
from raftlog.backup.stores import open_store
from raftlog.cli.backup.progress import MIB, offset_progress
from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import give_up_option, option
from raftlog.cli.tables import format_count
from raftlog.client import BrokerClient


def _read_names(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return the new names of topics by their names. Raises `BadParameter`."""
    names: dict[str, str] = {}
    for text in texts:
        old, _, new = text.partition("=")
        if not old or not new:
            raise click.BadParameter(f"{text!r} is not NAME=NEW")
        if names.setdefault(old, new) != new:
            raise click.BadParameter(
                f"topic {old!r} gets two names, {names[old]!r} and {new!r}; a run restores it once"
            )
    return names


def _read_time(_context: click.Context, _parameter: click.Parameter, found: datetime | None) -> int | None:
    """Return the last millisecond of the second of a time in UTC; None if it was omitted."""
    return None if found is None else int(found.replace(tzinfo=UTC).timestamp()) * 1000 + 999


@operator_command("Print the result as JSON.")
@click.argument("store", metavar="STORE")
@option("--topic", "-t", "topics", multiple=True, metavar="NAME", help="Restore only this topic; may be repeated.")
@option(
    "--rename",
    "renamed",
    multiple=True,
    metavar="NAME=NEW",
    callback=_read_names,
    help="Restore the topic NAME under the name NEW; may be repeated.",
)
@option(
    "--before",
    "before",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]),
    callback=_read_time,
    metavar="TIME",
    help="Restore the newest run that was completed by this time (UTC), such as '2026-01-31 03:00:00'. [default: the "
    "last run]",
)
@option(
    "--replication-factor",
    type=click.IntRange(1, 15),
    metavar="N",
    help="Replicas of the restored topics. [default: as saved, at most the number of brokers]",
)
@option("--keep-deleted", "keeps_deleted", is_flag=True, help="Restore also saved records that were deleted later.")
@option("--continue", "continues", is_flag=True, help="Continue an interrupted restoration: the topics may exist.")
@option("--compare/--no-compare", "compares", default=True, help="Read everything back, and compare it.")
@option("--groups/--no-groups", "with_groups", default=True, help="Restore the committed offsets of groups.")
@option("--check", "only_checks", is_flag=True, help="Read and check the backup; needs no broker, changes nothing.")
@option("--parallel", type=click.IntRange(1, 64), default=4, metavar="N", help="Partitions to restore at a time.")
@give_up_option("Fail after this time without an answer of the brokers.")
def restore(
    store: str,
    topics: tuple[str, ...],
    renamed: dict[str, str],
    before: int | None,
    replication_factor: int | None,
    keeps_deleted: bool,
    continues: bool,
    compares: bool,
    with_groups: bool,
    only_checks: bool,
    parallel: int,
    give_up_after: float,
    verb: OperatorVerb,
) -> None:
    """Restore the topics in STORE, which must not exist, with their offsets, and the offsets of groups.

    Every batch is checked before it is appended, and compared afterwards. Retention and compaction begin when all is
    restored; do not write to the topics before."""
    options = RestoreOptions(
        topics,
        renamed,
        replication_factor,
        keeps_deleted,
        continues,
        compares,
        with_groups,
        parallel,
        give_up_after,
        before,
    )
    plan = RestorePlan(open_store(store), options)
    result = asyncio.run(_check(plan)) if only_checks else verb.ask(lambda client: _run(client, plan))
    what = "checked" if only_checks else "restored and compared" if compares else "restored"
    verb.output(result, lambda done: _describe(done, what))


async def _check(plan: RestorePlan) -> RestoreResult:
    """Check the backup with a progress display."""
    with offset_progress(f"check of {plan.store.address}") as show:
        return await check_backup(plan, lambda progress: show(*progress))


async def _run(client: BrokerClient, plan: RestorePlan) -> RestoreResult:
    """Run the restoration with a progress display."""
    with offset_progress(f"restoration from {plan.store.address}") as show:
        return await run_restore(client, plan, lambda progress: show(*progress))


def _describe(result: RestoreResult, what: str) -> None:
    """Print the totals of a restoration; `what` names it."""
    click.echo(
        f"{what}: {format_count(result.records, 'record')}, {result.bytes / MIB:,.1f} MiB of "
        f"{format_count(result.topics, 'topic')}, {format_count(result.partitions, 'partition')}; "
        f"{format_count(result.groups, 'group')}; saved {format_time(result.time_ms)} UTC"
    )
    for text in result.notes:
        click.echo(text, err=True)
