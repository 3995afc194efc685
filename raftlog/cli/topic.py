"""`raftlog topic …`: topics and their settings."""

import asyncio
from collections.abc import Sequence

import click
import orjson
from rich.table import Table

from raftlog.cli.options import bootstrap_option, json_option, option, settings_option
from raftlog.cli.tables import show, times
from raftlog.client import BrokerClient, OffsetRange, TopicDescription
from raftlog.config import TopicConfig
from raftlog.errors import RaftlogError, TopicExists


@click.group()
def topic() -> None:
    """Create, list, describe, alter and delete topics."""


@topic.command()
@click.argument("name")
@option("--partitions", "-p", type=click.IntRange(min=1), default=1, help="How many partitions.")
@option(
    "--replication-factor",
    "-r",
    type=click.IntRange(min=1),
    help="Copies of each partition; without it, as many as the brokers allow, at most 3.",
)
@settings_option("A setting of the topic, such as retention.ms=3600000; may be repeated.", "--config", "-c", "config")
@option("--if-not-exists", is_flag=True, help="A topic that exists already is no error; it stays as it is.")
@json_option("Print the topic as JSON.")
@bootstrap_option
def create(
    name: str,
    partitions: int,
    replication_factor: int | None,
    config: dict[str, str],
    if_not_exists: bool,
    as_json: bool,
    bootstrap: list[str],
) -> None:
    """Create the topic NAME."""
    TopicConfig.from_strings(config)
    asyncio.run(_create(bootstrap, name, partitions, replication_factor, config, if_not_exists, as_json))


async def _create(
    bootstrap: Sequence[str],
    name: str,
    partitions: int,
    replication_factor: int | None,
    config: dict[str, str],
    if_not_exists: bool,
    as_json: bool,
) -> None:
    async with BrokerClient(bootstrap) as client:
        created = True
        try:
            await client.create_topic(name, partitions, replication_factor, config)
        except RaftlogError as error:
            if not if_not_exists or not await _is_there(client, name, error):
                raise
            created = False
        description = await client.describe_topic(name)
    if as_json:
        click.echo(orjson.dumps({**_as_json(description), "created": created}))
    else:
        click.echo(f"{'created' if created else 'exists:'} {name}, {times(description.partitions, 'partition')}")


async def _is_there(client: BrokerClient, name: str, error: RaftlogError) -> bool:
    """Whether creation failed because the topic exists; older brokers say so only by a general code."""
    return isinstance(error, TopicExists) or (error.outcome == "failed" and name in await client.topics())


@topic.command(name="list")
@json_option("Print the names as a JSON array.")
@bootstrap_option
def list_topics(as_json: bool, bootstrap: list[str]) -> None:
    """List all topics."""
    names = sorted(asyncio.run(_topics(bootstrap)))
    if as_json:
        click.echo(orjson.dumps(names))
    elif names:
        click.echo("\n".join(names))


async def _topics(bootstrap: Sequence[str]) -> list[str]:
    async with BrokerClient(bootstrap) as client:
        return await client.topics()


@topic.command()
@click.argument("name")
@json_option("Print the topic as JSON.")
@bootstrap_option
def describe(name: str, as_json: bool, bootstrap: list[str]) -> None:
    """Show partitions, offsets and settings of the topic NAME."""
    description, ranges = asyncio.run(_describe(bootstrap, name))
    if as_json:
        rows = [{"partition": p, "beginning_offset": r.beginning, "end_offset": r.end} for p, r in enumerate(ranges)]
        click.echo(orjson.dumps({**_as_json(description), "partitions": rows}))
        return
    click.echo(
        f"{name}: {times(description.partitions, 'partition')}, replication factor {description.replication_factor}\n"
    )
    show(_offsets_table(ranges))
    click.echo()
    show(_settings_table(description.configs))


async def _describe(bootstrap: Sequence[str], name: str) -> tuple[TopicDescription, list[OffsetRange]]:
    async with BrokerClient(bootstrap) as client:
        description = await client.describe_topic(name)
        return description, [await client.offsets(name, number) for number in range(description.partitions)]


@topic.command()
@click.argument("name")
@settings_option("A setting to change; may be repeated.", "--config", "-c", "config")
@option("--reset", "resets", multiple=True, metavar="KEY", help="A setting to put back to its default.")
@bootstrap_option
def alter(name: str, config: dict[str, str], resets: tuple[str, ...], bootstrap: list[str]) -> None:
    """Change settings of the topic NAME."""
    if not config and not resets:
        raise click.UsageError("nothing to change: give --config KEY=VALUE or --reset KEY")
    TopicConfig.from_strings(config)
    changes: dict[str, str | None] = {**config, **dict.fromkeys(resets)}
    asyncio.run(_alter(bootstrap, name, changes))
    click.echo(f"altered {name}: {', '.join(changes)}")


async def _alter(bootstrap: Sequence[str], name: str, changes: dict[str, str | None]) -> None:
    async with BrokerClient(bootstrap) as client:
        await client.alter_topic_config(name, changes)


@topic.command()
@click.argument("name")
@bootstrap_option
def delete(name: str, bootstrap: list[str]) -> None:
    """Delete the topic NAME and all its records."""
    asyncio.run(_delete(bootstrap, name))
    click.echo(f"deleted {name}")


async def _delete(bootstrap: Sequence[str], name: str) -> None:
    async with BrokerClient(bootstrap) as client:
        await client.delete_topic(name)


def _as_json(description: TopicDescription) -> dict[str, object]:
    return {
        "name": description.name,
        "partitions_count": description.partitions,
        "replication_factor": description.replication_factor,
        "configs": description.configs,
    }


def _offsets_table(ranges: Sequence[OffsetRange]) -> Table:
    table = Table("partition", "first offset", "end offset", "records", box=None, header_style="bold")
    for number, (beginning, end) in enumerate(ranges):
        table.add_row(str(number), str(beginning), str(end), f"{end - beginning:,}")
    return table


def _settings_table(configs: dict[str, str]) -> Table:
    table = Table("setting", "value", box=None, header_style="bold")
    for key, value in sorted(configs.items()):
        table.add_row(key, value)
    return table
