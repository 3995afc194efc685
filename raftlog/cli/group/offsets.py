"""`raftlog group offsets`, `delete-offsets` and `delete`."""

from collections.abc import Mapping, Sequence

import click
import orjson

from raftlog.cli.operator_verbs import OperatorVerb, confirm, operator_command, yes_option
from raftlog.cli.options import option, parse_partition
from raftlog.client import BrokerClient, CommittedOffset
from raftlog.types import TopicPartition


@operator_command("Print the offsets as JSON.")
@click.argument("name", metavar="GROUP")
@option(
    "--commit",
    "commits",
    multiple=True,
    metavar="TOPIC/PARTITION=OFFSET",
    help="Commit this offset first; one below the committed offset has no effect (use `reset-offsets`). "
    "May be repeated.",
)
def offsets(name: str, commits: tuple[str, ...], verb: OperatorVerb) -> None:
    """Show the committed offsets of GROUP."""
    wanted = _parse_commits(commits)
    committed = verb.ask(lambda client: _commit_and_fetch(client, name, wanted))
    rows = sorted(committed.items())
    if verb.as_json:
        click.echo(orjson.dumps({"offsets": [{**place._asdict(), **found._asdict()} for place, found in rows]}))
    else:
        for place, found in rows:
            click.echo(f"{place} {found.offset}")


async def _commit_and_fetch(
    client: BrokerClient, name: str, commits: Mapping[TopicPartition, int]
) -> dict[TopicPartition, CommittedOffset]:
    """Commit offsets of the group, if any; return all its committed offsets."""
    if commits:
        await client.groups.commit(name, commits)
    return await client.groups.committed(name)


def _parse_commits(texts: Sequence[str]) -> dict[TopicPartition, int]:
    """Return the offsets of `TOPIC/PARTITION=OFFSET` arguments; raises `click.UsageError` if one is wrong."""
    commits = {}
    for text in texts:
        place, equals, offset = text.rpartition("=")
        if not equals or not offset.isdecimal():
            raise click.UsageError(f"--commit {text!r} is not TOPIC/PARTITION=OFFSET, such as orders/0=42")
        commits[TopicPartition(*parse_partition(place))] = int(offset)
    return commits


@operator_command()
@click.argument("name", metavar="GROUP")
@click.argument("topic")
@yes_option
def delete_offsets(name: str, topic: str, yes: bool, verb: OperatorVerb) -> None:
    """Delete the committed offsets of GROUP in TOPIC. Later members start by their reset policy."""
    confirm(f"Delete all committed offsets of {name} in {topic}?", yes)
    verb.ask(lambda client: client.groups.delete_offsets(name, topic))
    click.echo(f"deleted the committed offsets of {name} in {topic}")


@operator_command()
@click.argument("name", metavar="GROUP")
@yes_option
def delete(name: str, yes: bool, verb: OperatorVerb) -> None:
    """Delete GROUP, which must have no members, and its committed offsets."""
    confirm(f"Delete the group {name} and all its committed offsets?", yes)
    verb.ask(lambda client: client.groups.delete(name))
    click.echo(f"deleted {name}")
