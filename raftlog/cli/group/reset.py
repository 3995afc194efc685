"""`raftlog group reset-offsets`: committed offsets of a consumer group, moved by an operator after a preview."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click
from rich.table import Table

from raftlog.cli.json_lines import parse_time_ms
from raftlog.cli.operator_verbs import OperatorVerb, confirm, operator_command, yes_option
from raftlog.cli.options import option
from raftlog.cli.tables import Columns, format_count, show, table_of
from raftlog.client import OffsetReset
from raftlog.types import TopicPartition
from raftlog.values.groups import OffsetsReset
from raftlog.values.value import to_json

ResetTarget = str | Mapping[str, int]


class ResetScope(NamedTuple):
    """Topics and partitions to reset; if both are empty, all partitions with committed offsets."""

    topics: list[str]
    partitions: list[TopicPartition]


def read_target(_context: click.Context, _parameter: click.Parameter, text: str) -> ResetTarget:
    """Parse `earliest|latest|@TIME|+N|-N|N` into the broker's format; raises `click.BadParameter`."""
    if text in ("earliest", "latest"):
        return text
    try:
        if text.startswith("@"):
            return {"timestamp": parse_time_ms(text[1:])}
        return {"shift" if text[:1] in ("+", "-") else "offset": int(text)}
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not earliest, latest, an offset, +N or -N (N records forward or back), or @TIME with "
            "milliseconds since 1970 or ISO 8601, such as @2026-01-31T12:00:00Z"
        ) from None


def read_scope(_context: click.Context, _parameter: click.Parameter, texts: Sequence[str]) -> ResetScope:
    """Parse texts of the form `TOPIC` or `TOPIC:PARTITION,…`; raises `click.BadParameter`."""
    scope = ResetScope([], [])
    for text in texts:
        topic, colon, numbers = text.partition(":")
        listed = numbers.split(",") if colon else []
        if not topic or not all(number.isdecimal() for number in listed):
            raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION,…, such as orders or orders:0,2")
        if listed:
            scope.partitions.extend(TopicPartition(topic, int(number)) for number in listed)
        else:
            scope.topics.append(topic)
    return scope


@operator_command("Print the offsets as JSON; needs --yes or --dry-run.")
@click.argument("name", metavar="GROUP")
@option(
    "--to",
    required=True,
    metavar="earliest|latest|@TIME|+N|-N|OFFSET",
    callback=read_target,
    help="Target: first offset, end, the first record at or after TIME, N records forward or back, or offset N. "
    "A target outside a partition becomes its nearest end.",
)
@option(
    "--topic",
    "scope",
    multiple=True,
    metavar="TOPIC[:P,…]",
    callback=read_scope,
    help="Topic or partitions to move; may be repeated. Without it, all committed offsets of GROUP.",
)
@option("--dry-run", is_flag=True, help="Show the new offsets without changing them.")
@yes_option
def reset_offsets(name: str, to: ResetTarget, scope: ResetScope, dry_run: bool, yes: bool, verb: OperatorVerb) -> None:
    """Move the committed offsets of GROUP, back or forth. It must have no members: stop them first."""
    if verb.as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask for confirmation: give --yes or --dry-run")

    def reset(*, dry_run: bool) -> list[OffsetReset]:
        """Reset the offsets, or with `dry_run` compute them; return the old and new offsets."""
        return verb.ask(
            lambda client: client.groups.reset(
                name, to, topics=scope.topics or None, partitions=scope.partitions or None, dry_run=dry_run
            )
        )

    if not (yes or dry_run):
        planned = reset(dry_run=True)
        show(_make_table(planned))
        confirm(f"Move the committed offsets of {name} in {format_count(len(planned), 'partition')}?", yes)
    done = reset(dry_run=dry_run)
    if verb.as_json:
        click.echo(to_json(OffsetsReset(done, dry_run)))
        return
    if yes or dry_run:
        show(_make_table(done))
    partitions = format_count(len(done), "partition")
    click.echo(
        f"{name} would continue at the new offsets of {partitions}; nothing was changed"
        if dry_run
        else f"{name} continues at the new offsets of {partitions}"
    )


_OFFSET: Columns[OffsetReset] = {
    "partition": lambda row: row.place,
    "committed": lambda row: row.before,
    "new": lambda row: row.after,
}
_REMARK: Columns[OffsetReset] = {"remark": lambda row: "outside the partition: its nearest end" if row.clamped else ""}


def _make_table(rows: Sequence[OffsetReset]) -> Table:
    """Return the table of old and new offsets, with remarks if an offset was out of range."""
    return table_of(rows, _OFFSET | _REMARK if any(row.clamped for row in rows) else _OFFSET)
