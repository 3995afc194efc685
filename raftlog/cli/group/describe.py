"""`raftlog group list`, `describe` and `lag`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import click
import orjson
from rich.table import Table

from raftlog.cli.operating import operate, until_ctrl_c, watch
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.tables import foreign, or_dash, properties, show, times
from raftlog.client import BrokerClient, ConsumerDescription, GroupDescription, PartitionLag
from raftlog.errors import UnknownGroup

Json = dict[str, object]


@click.command(name="list")
@json_option("Print a JSON array with an object for each group.")
@bootstrap_option
def list_groups(as_json: bool, bootstrap: list[str]) -> None:
    """List all groups: those that have members, and those that have committed something."""
    groups = operate(bootstrap, lambda client: client.groups.describe_all())
    if as_json:
        click.echo(orjson.dumps([_named(found, _GROUP) for found in groups]))
    elif groups:
        table = Table("group", "state", "assignor", "coordinator", box=None, header_style="bold")
        for found in groups:
            row = (foreign(found.group), _state(found), foreign(found.partition_assignor), or_dash(found.coordinator))
            table.add_row(*row)
        show(table)


@click.command()
@click.argument("name", metavar="GROUP")
@option("--watch", "-w", "watches", is_flag=True, help="Print it again whenever it has changed; Ctrl-C ends it.")
@json_option("Print it as a JSON object, with --watch a line each time.")
@bootstrap_option
def describe(name: str, watches: bool, as_json: bool, bootstrap: list[str]) -> None:
    """Show the state of GROUP, its members, and for each partition what is committed, the end and the lag."""

    async def look(client: BrokerClient) -> None:
        if watches:
            await watch(lambda: _looked(client, name), lambda found: _show(found, as_json))
        _show(await _looked(client, name), as_json)

    with until_ctrl_c(watches):
        operate(bootstrap, look)


@click.command()
@click.argument("name", metavar="GROUP")
@json_option("Print it as a JSON object.")
@bootstrap_option
def lag(name: str, as_json: bool, bootstrap: list[str]) -> None:
    """Show how many records GROUP has still to read, by partition and in all."""
    lags = operate(bootstrap, lambda client: client.groups.lag(name))
    if as_json:
        click.echo(orjson.dumps({"group": name, **_lags_as_json(lags)}))
        return
    show(_partitions(lags))
    click.echo(f"\n{_total(lags)}")


_GROUP: Final = ("group", "state", "is_simple", "partition_assignor", "generation", "coordinator")
_CONSUMER: Final = ("member_id", "instance_id", "client_id", "client_host")
_LAG: Final = ("current_offset", "log_end_offset", "lag", "member_id", "instance_id", "client_id")


class _Looked(NamedTuple):
    group: GroupDescription
    consumers: list[ConsumerDescription]
    lags: list[PartitionLag]


async def _looked(client: BrokerClient, name: str) -> _Looked:
    group = await client.groups.describe(name)
    try:
        return _Looked(group, await client.groups.consumers(name), await client.groups.lag(name))
    except UnknownGroup:  # it ended between two questions
        return _Looked(group, [], [])


def _show(found: _Looked, as_json: bool) -> None:
    group, consumers, lags = found
    if as_json:
        members = [
            {**_named(consumer, _CONSUMER), "partitions": [place._asdict() for place in consumer.partitions]}
            for consumer in consumers
        ]
        click.echo(orjson.dumps({**_named(group, _GROUP), "members": members, **_lags_as_json(lags)}))
        return
    rows = (
        ("group", foreign(group.group)),
        ("state", _state(group)),
        ("assignor", foreign(group.partition_assignor)),
        ("generation", group.generation),
        ("coordinator", group.coordinator),
        ("members", len(consumers)),
        ("lag", _total(lags)),
    )
    show(properties(rows))
    if consumers:
        click.echo()
        show(_members(consumers))
    if lags:
        click.echo()
        show(_partitions(lags))


def _members(consumers: Sequence[ConsumerDescription]) -> Table:
    table = Table("member", "instance", "client", "host", "partitions", box=None, header_style="bold")
    for consumer in consumers:
        table.add_row(
            foreign(consumer.member_id),
            foreign(consumer.instance_id),
            foreign(consumer.client_id),
            foreign(consumer.client_host),
            ", ".join(map(str, consumer.partitions)) or "-",
        )
    return table


def _partitions(lags: Sequence[PartitionLag]) -> Table:
    table = Table("partition", "committed", "end", "lag", "member", box=None, header_style="bold")
    for found in lags:
        numbers = (found.current_offset, found.log_end_offset, found.lag)
        table.add_row(str(found.place), *map(or_dash, numbers), foreign(found.member_id))
    return table


def _lags_as_json(lags: Sequence[PartitionLag]) -> Json:
    rows = [{**found.place._asdict(), **_named(found, _LAG)} for found in lags]
    return {"partitions": rows, "total_lag": sum(found.lag or 0 for found in lags)}


def _named(value: object, names: Sequence[str]) -> Json:
    return {name: getattr(value, name) for name in names}


def _total(lags: Sequence[PartitionLag]) -> str:
    text = f"{times(sum(found.lag or 0 for found in lags), 'record')} behind in {times(len(lags), 'partition')}"
    unknown = sum(found.lag is None for found in lags)
    return f"{text}, not known of {unknown:,} of them" if unknown else text


def _state(group: GroupDescription) -> str:
    """As people write it; a group that only committed offsets has no members to speak of."""
    return "offsets only" if group.is_simple else group.state.lower().replace("_", " ")
