"""`raftlog topic trim`: deletion of the records before an offset, for good, after a preview."""

from collections.abc import Sequence
from typing import NamedTuple

import click
import orjson

from raftlog.cli.consume.position import StartPosition, locate, read_position
from raftlog.cli.operator_verbs import OperatorVerb, confirm, operator_command, yes_option
from raftlog.cli.options import option
from raftlog.cli.outcome import CommandFailed, exit_code_of
from raftlog.cli.tables import Columns, format_count, show, table_of
from raftlog.client import BrokerClient
from raftlog.errors import OffsetOutOfRange, RaftlogError
from raftlog.types import Offset


class _Cut(NamedTuple):
    """Planned trim of one partition, which moves its first offset from `first` to `before`."""

    partition: int
    first: Offset
    before: Offset

    @property
    def records(self) -> int:
        return max(0, self.before - self.first)


def _parse_before(context: click.Context, parameter: click.Parameter, text: str) -> StartPosition:
    """Parse the end of the records to delete; `start` is a usage error."""
    if text == "start":
        raise click.BadParameter("no record is before the start; give an offset, end, -N or @TIME")
    return read_position(context, parameter, text)


@operator_command("Print the first offset of each partition as JSON; needs --yes.")
@click.argument("name", metavar="TOPIC")
@option(
    "--before",
    required=True,
    metavar="OFFSET|end|-N|@TIME",
    callback=_parse_before,
    help="First offset to keep: offset N, the end (keep nothing), N records before the end, or the first record at "
    "or after TIME.",
)
@option(
    "--partition",
    "-p",
    "partitions",
    type=click.IntRange(min=0),
    multiple=True,
    help="Partition to trim; may be repeated.",
)
@option("--all", "all_partitions", is_flag=True, help="Trim all partitions.")
@yes_option
def trim(
    name: str,
    before: StartPosition,
    partitions: tuple[int, ...],
    all_partitions: bool,
    yes: bool,
    verb: OperatorVerb,
) -> None:
    """Delete the records of TOPIC before an offset, on all replicas and for good.

    Reads of deleted records fail: the offset is out of range. Disk space is freed in whole segment files, once all
    records of a file are deleted.
    """
    if all_partitions == bool(partitions):
        raise click.UsageError("give either --partition P, once or several times, or --all")
    if verb.as_json and not yes:
        raise click.UsageError("--json cannot ask for confirmation: give --yes")

    cuts = verb.ask(lambda client: _find_cuts(client, name, None if all_partitions else partitions, before))
    records = sum(cut.records for cut in cuts)
    if records and not yes:
        show(table_of(cuts, _CUT))
        confirm(f"Delete {format_count(records, 'record')} of {name}, for good?", yes)
    done = verb.ask(lambda client: _trim(client, name, cuts))
    if verb.as_json:
        rows = [{"partition": cut.partition, "log_start_offset": cut.before, "deleted": cut.records} for cut in done]
        click.echo(orjson.dumps({"topic": name, "partitions": rows}))
    else:
        for cut in done:
            fewer = f", {format_count(cut.records, 'record')} fewer" if cut.records else " already"
            click.echo(f"{name}/{cut.partition} begins at {cut.before}{fewer}")


async def _find_cuts(
    client: BrokerClient, topic: str, partitions: Sequence[int] | None, before: StartPosition
) -> list[_Cut]:
    """Return the planned trims of the given partitions; None: of all."""
    description = await client.describe_topic(topic)
    numbers = range(description.partitions) if partitions is None else sorted({*partitions})
    return [await _find_cut(client, topic, number, before) for number in numbers]


async def _find_cut(client: BrokerClient, topic: str, partition: int, before: StartPosition) -> _Cut:
    """Return the planned trim of a partition. Raises `OffsetOutOfRange` for an offset beyond the end."""
    first, end = await client.offsets(topic, partition)
    if before.kind != "offset":
        return _Cut(partition, first, (await locate(client, topic, partition, before)).begin)
    if before.number > end:
        error = OffsetOutOfRange(before.number, first, end)
        error.args = (f"{topic}/{partition}: {error}; nothing was deleted",)
        raise error
    return _Cut(partition, first, Offset(max(first, before.number)))


async def _trim(client: BrokerClient, topic: str, cuts: Sequence[_Cut]) -> list[_Cut]:
    """Trim the partitions one after another; the message of an error lists the trimmed partitions."""
    done: list[_Cut] = []
    for cut in cuts:
        try:
            start = await client.delete_records(topic, cut.partition, cut.before) if cut.records else cut.first
        except RaftlogError as error:
            if not done:
                raise
            earlier = ", ".join(f"{topic}/{each.partition} begins at {each.before}" for each in done)
            raise CommandFailed(
                f"{topic}/{cut.partition}: {error}; before that, {earlier}", exit_code_of(error)
            ) from None
        done.append(cut._replace(before=start))
    return done


_CUT: Columns[_Cut] = {
    "partition": lambda cut: cut.partition,
    "first offset": lambda cut: cut.first,
    "new first offset": lambda cut: cut.before,
    "records to delete": lambda cut: f"{cut.records:,}",
}
