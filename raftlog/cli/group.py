"""`raftlog group …`: what consumer groups have committed."""

import asyncio
from collections.abc import Mapping, Sequence

import click
import orjson

from raftlog.cli.options import bootstrap_option, json_option, option, partition_place
from raftlog.client import BrokerClient
from raftlog.types import Offset, TopicPartition


@click.group()
def group() -> None:
    """Show and commit the offsets of consumer groups."""


@group.command(name="list")
@json_option("Print the names as a JSON array.")
@bootstrap_option
def list_groups(as_json: bool, bootstrap: list[str]) -> None:
    """List the groups that have committed something."""
    names = sorted(asyncio.run(_groups(bootstrap)))
    if as_json:
        click.echo(orjson.dumps(names))
    elif names:
        click.echo("\n".join(names))


async def _groups(bootstrap: Sequence[str]) -> list[str]:
    async with BrokerClient(bootstrap) as client:
        return await client.groups.names()


@group.command()
@click.argument("name", metavar="GROUP")
@option(
    "--commit",
    "commits",
    multiple=True,
    metavar="TOPIC/PARTITION=OFFSET",
    help="Commit this offset first; an offset below the committed one changes nothing. May be repeated.",
)
@json_option("Print the offsets as JSON.")
@bootstrap_option
def offsets(name: str, commits: tuple[str, ...], as_json: bool, bootstrap: list[str]) -> None:
    """Show what GROUP has committed."""
    committed = asyncio.run(_offsets(bootstrap, name, _read_commits(commits)))
    rows = sorted(committed.items())
    if as_json:
        shaped = [{"topic": place.topic, "partition": place.partition, "offset": offset} for place, offset in rows]
        click.echo(orjson.dumps({"offsets": shaped}))
    else:
        for place, offset in rows:
            click.echo(f"{place} {offset}")


async def _offsets(
    bootstrap: Sequence[str], name: str, commits: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Offset]:
    async with BrokerClient(bootstrap) as client:
        if commits:
            await client.groups.commit(name, commits)
        committed = await client.groups.committed(name)
    return {place: found.offset for place, found in committed.items()}


def _read_commits(texts: Sequence[str]) -> dict[TopicPartition, int]:
    commits = {}
    for text in texts:
        place, equals, offset = text.rpartition("=")
        if not equals or not offset.isdecimal():
            raise click.UsageError(f"--commit {text!r} is not TOPIC/PARTITION=OFFSET")
        commits[TopicPartition(*partition_place(place))] = int(offset)
    return commits
