"""`raftlog group list`, `describe` and `lag`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import click
import orjson

from raftlog.cli.operator_verbs import OperatorVerb, operator_command, watch_option
from raftlog.cli.tables import Columns, escape_text, format_count, show, show_properties, table_of
from raftlog.client import BrokerClient, ConsumerDescription, GroupDescription, PartitionLag
from raftlog.errors import UnknownGroup

Json = dict[str, object]


@operator_command("Print a JSON array with an object for each group.", name="list")
def list_groups(verb: OperatorVerb) -> None:
    """List all groups with members or committed offsets."""
    groups = verb.ask(lambda client: client.groups.describe_all())
    if verb.as_json:
        click.echo(orjson.dumps([_pick_fields(found, _GROUP) for found in groups]))
    elif groups:
        show(table_of(groups, _LISTED))


@operator_command("Print it as a JSON object, with --watch a line for each change.")
@click.argument("name", metavar="GROUP")
@watch_option("Print it again whenever it changes, until Ctrl-C.")
def describe(name: str, watches: bool, verb: OperatorVerb) -> None:
    """Show the state of GROUP, its members, and committed offset, end and lag of each partition."""
    verb.show_or_watch(watches, lambda client: _fetch_report(client, name), lambda found: _show(found, verb.as_json))


@operator_command("Print it as a JSON object.")
@click.argument("name", metavar="GROUP")
def lag(name: str, verb: OperatorVerb) -> None:
    """Show the number of records that GROUP has not read yet, by partition and in total."""
    lags = verb.ask(lambda client: client.groups.lag(name))
    if verb.as_json:
        click.echo(orjson.dumps({"group": name, **_lags_as_json(lags)}))
        return
    show(table_of(lags, _PARTITION))
    click.echo(f"\n{_describe_lag(lags)}")


_GROUP: Final = ("group", "state", "is_simple", "partition_assignor", "generation", "coordinator")
_CONSUMER: Final = ("member_id", "instance_id", "client_id", "client_host")
_LAG: Final = ("current_offset", "log_end_offset", "lag", "member_id", "instance_id", "client_id")


class _GroupReport(NamedTuple):
    """State of a consumer group, with its consumers and their lags."""

    group: GroupDescription
    consumers: list[ConsumerDescription]
    lags: list[PartitionLag]


async def _fetch_report(client: BrokerClient, name: str) -> _GroupReport:
    """Return a group with its consumers and lags."""
    group = await client.groups.describe(name)
    try:
        return _GroupReport(group, await client.groups.consumers(name), await client.groups.lag(name))
    except UnknownGroup:  # it was deleted between two requests
        return _GroupReport(group, [], [])


def _show(found: _GroupReport, as_json: bool) -> None:
    """Print a group, its members and the lag of its partitions."""
    group, consumers, lags = found
    if as_json:
        members = [
            {**_pick_fields(consumer, _CONSUMER), "partitions": [place._asdict() for place in consumer.partitions]}
            for consumer in consumers
        ]
        click.echo(orjson.dumps({**_pick_fields(group, _GROUP), "members": members, **_lags_as_json(lags)}))
        return
    show_properties(
        ("group", escape_text(group.group)),
        ("state", _describe_state(group)),
        ("assignor", escape_text(group.partition_assignor)),
        ("generation", group.generation),
        ("coordinator", group.coordinator),
        ("members", len(consumers)),
        ("lag", _describe_lag(lags)),
    )
    if consumers:
        click.echo()
        show(table_of(consumers, _MEMBER))
    if lags:
        click.echo()
        show(table_of(lags, _PARTITION))


def _lags_as_json(lags: Sequence[PartitionLag]) -> Json:
    """Return lags as JSON, with their sum."""
    rows = [{**found.place._asdict(), **_pick_fields(found, _LAG)} for found in lags]
    return {"partitions": rows, "total_lag": sum(found.lag or 0 for found in lags)}


def _pick_fields(value: object, names: Sequence[str]) -> Json:
    """Return the named attributes of a value."""
    return {name: getattr(value, name) for name in names}


def _describe_lag(lags: Sequence[PartitionLag]) -> str:
    """Return the sum of lags in words."""
    records = format_count(sum(found.lag or 0 for found in lags), "record")
    text = f"{records} behind in {format_count(len(lags), 'partition')}"
    unknown = sum(found.lag is None for found in lags)
    return f"{text}, lag of {unknown:,} of them is unknown" if unknown else text


def _describe_state(group: GroupDescription) -> str:
    """Return a group's state as text; "offsets only" for a group that never had members."""
    return "offsets only" if group.is_simple else group.state.lower().replace("_", " ")


_LISTED: Columns[GroupDescription] = {
    "group": lambda found: escape_text(found.group),
    "state": _describe_state,
    "assignor": lambda found: escape_text(found.partition_assignor),
    "coordinator": lambda found: found.coordinator,
}
_MEMBER: Columns[ConsumerDescription] = {
    "member": lambda consumer: escape_text(consumer.member_id),
    "instance": lambda consumer: escape_text(consumer.instance_id),
    "client": lambda consumer: escape_text(consumer.client_id),
    "host": lambda consumer: escape_text(consumer.client_host),
    "partitions": lambda consumer: ", ".join(map(str, consumer.partitions)) or None,
}
_PARTITION: Columns[PartitionLag] = {
    "partition": lambda found: found.place,
    "committed": lambda found: found.current_offset,
    "end": lambda found: found.log_end_offset,
    "lag": lambda found: found.lag,
    "member": lambda found: escape_text(found.member_id),
}
