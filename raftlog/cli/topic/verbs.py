"""`raftlog topic …`: topics and their settings."""

import asyncio
from collections.abc import Mapping, Sequence

import click
import orjson
from rich.table import Table

from raftlog.cli.operating import operate
from raftlog.cli.options import bootstrap_option, json_option, option, settings_option
from raftlog.cli.tables import bad, or_dash, show, times
from raftlog.cli.topic.change import alter, delete
from raftlog.cli.topic.trim import trim
from raftlog.client import BrokerClient, OffsetRange, PartitionDescription, TopicDescription
from raftlog.config import TopicConfig
from raftlog.errors import RaftlogError, TopicExists, Unavailable

OFFSETS_ASKED_MAX = 64
"""Partitions whose offsets are asked for at once."""
OFFSETS_ANSWER_MS = 2_000


@click.group()
def topic() -> None:
    """Create, list, describe, alter, trim and delete topics."""


topic.add_command(alter)
topic.add_command(delete)
topic.add_command(trim)


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
@json_option("Print a JSON array with an object for each topic.")
@bootstrap_option
def list_topics(as_json: bool, bootstrap: list[str]) -> None:
    """List all topics, with their numbers of partitions and replicas."""
    topics = operate(bootstrap, lambda client: client.list_topics())
    if as_json:
        rows = [
            {"name": each.name, "partitions_count": each.partitions, "replication_factor": each.replication_factor}
            for each in topics
        ]
        click.echo(orjson.dumps(rows))
    elif topics:
        table = Table("topic", "partitions", "replicas", box=None, header_style="bold")
        for each in topics:
            table.add_row(each.name, str(each.partitions), str(each.replication_factor))
        show(table)


@topic.command()
@click.argument("name")
@json_option("Print the topic as JSON.")
@bootstrap_option
def describe(name: str, as_json: bool, bootstrap: list[str]) -> None:
    """Show partitions with their leaders, replicas and offsets, and settings of the topic NAME."""
    description, ranges, overrides = asyncio.run(_describe(bootstrap, name))
    rows = list(zip(description.replicas, ranges, strict=True))
    if as_json:
        shown = [_partition_as_json(partition, offsets) for partition, offsets in rows]
        click.echo(orjson.dumps({**_as_json(description), "partitions": shown, "overrides": sorted(overrides)}))
        return
    click.echo(
        f"{name}: {times(description.partitions, 'partition')}, replication factor {description.replication_factor}\n"
    )
    show(_partitions_table(rows))
    click.echo()
    show(_settings_table(description.configs, overrides))


async def _describe(bootstrap: Sequence[str], name: str) -> tuple[TopicDescription, list[OffsetRange | None], set[str]]:
    async with BrokerClient(bootstrap) as client:
        description = await client.describe_topic(name)
        return description, await _offsets(client, description), await client.topic_overrides(name)


async def _offsets(client: BrokerClient, description: TopicDescription) -> list[OffsetRange | None]:
    """Of each partition; None where nobody can say, which must not keep the others from being shown."""
    window = asyncio.Semaphore(OFFSETS_ASKED_MAX)

    async def ask(partition: PartitionDescription) -> OffsetRange | None:
        if partition.leader is None:
            return None
        async with window:
            try:
                return await client.offsets(description.name, partition.partition, timeout_ms=OFFSETS_ANSWER_MS)
            except Unavailable:
                return None

    return list(await asyncio.gather(*map(ask, description.replicas)))


def _as_json(description: TopicDescription) -> dict[str, object]:
    return {
        "name": description.name,
        "partitions_count": description.partitions,
        "replication_factor": description.replication_factor,
        "configs": description.configs,
    }


_PARTITION = ("partition", "leader", "replicas", "in_sync", "high_watermark", "problem")


def _partition_as_json(partition: PartitionDescription, offsets: OffsetRange | None) -> dict[str, object]:
    beginning, end = offsets if offsets is not None else (None, None)
    return {**{name: getattr(partition, name) for name in _PARTITION}, "beginning_offset": beginning, "end_offset": end}


def _partitions_table(rows: Sequence[tuple[PartitionDescription, OffsetRange | None]]) -> Table:
    columns = ["partition", "leader", "replicas", "in sync", "first offset", "high watermark", "records"]
    has_problems = any(partition.problem for partition, _ in rows)
    table = Table(*columns, *(["problem"] if has_problems else []), box=None, header_style="bold")
    for partition, offsets in rows:
        cells = [
            str(partition.partition),
            or_dash(partition.leader),
            ", ".join(map(str, partition.replicas)),
            ", ".join(map(str, partition.in_sync)) or "-",
            or_dash(offsets and offsets.beginning),
            or_dash(offsets.end if offsets is not None else partition.high_watermark),
            or_dash(offsets and f"{offsets.end - offsets.beginning:,}"),
        ]
        table.add_row(*cells, *([bad(partition.problem or "")] if has_problems else []))
    return table


def _settings_table(configs: Mapping[str, str], overrides: set[str]) -> Table:
    table = Table("setting", "value", "from", box=None, header_style="bold")
    for key, value in sorted(configs.items()):
        table.add_row(key, value, "topic" if key in overrides else "default")
    return table
