"""`raftlog topic …`: topics and their settings."""

import asyncio

import click
import orjson

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import option, settings_option
from raftlog.cli.tables import Columns, format_count, format_nodes, red, show, table_of
from raftlog.cli.topic.change import alter, delete
from raftlog.cli.topic.trim import trim
from raftlog.client import BrokerClient, OffsetRange, PartitionDescription, TopicDescription
from raftlog.errors import RaftlogError, TopicExists, Unavailable
from raftlog.topic_config import TopicConfig
from raftlog.values.v3 import TopicSummary

OFFSETS_ASKED_MAX = 64
"""Maximum number of partitions whose offsets are asked for at once."""
OFFSETS_ANSWER_MS = 2_000


@click.group()
def topic() -> None:
    """Create, list, describe, alter, trim and delete topics."""


topic.add_command(alter)
topic.add_command(delete)
topic.add_command(trim)


@operator_command("Print the topic as JSON.", group=topic)
@click.argument("name")
@option("--partitions", "-p", type=click.IntRange(min=1), default=1, help="Number of partitions.")
@option(
    "--replication-factor",
    "-r",
    type=click.IntRange(min=1),
    help="Replicas of each partition. [default: as many as the brokers allow, at most 3]",
)
@settings_option("Setting of the topic, such as retention.ms=3600000; may be repeated.", "--config", "-c", "config")
@option("--if-not-exists", is_flag=True, help="Succeed without a change if the topic exists.")
def create(
    name: str,
    partitions: int,
    replication_factor: int | None,
    config: dict[str, str],
    if_not_exists: bool,
    verb: OperatorVerb,
) -> None:
    """Create the topic NAME."""
    TopicConfig.from_strings(config)

    async def create(client: BrokerClient) -> tuple[bool, TopicDescription]:
        """Return whether the topic was created, and its description."""
        created = True
        try:
            await client.create_topic(name, partitions, replication_factor, config)
        except RaftlogError as error:
            if not if_not_exists or not await _exists(client, name, error):
                raise
            created = False
        return created, await client.describe_topic(name)

    created, description = verb.ask(create)
    if verb.as_json:
        click.echo(orjson.dumps({**_as_json(description), "created": created}))
    else:
        click.echo(f"{'created' if created else 'exists:'} {name}, {format_count(description.partitions, 'partition')}")


async def _exists(client: BrokerClient, name: str, error: RaftlogError) -> bool:
    """Return whether creation failed because the topic exists, which older brokers report with a general code only."""
    return isinstance(error, TopicExists) or (error.outcome == "failed" and name in await client.topics())


@operator_command("Print a JSON array with an object for each topic.", name="list", group=topic)
def list_topics(verb: OperatorVerb) -> None:
    """List all topics, with their numbers of partitions and replicas."""
    topics = verb.ask(lambda client: client.list_topics())
    if verb.as_json:
        rows = [
            {"name": each.name, "partitions_count": each.partitions, "replication_factor": each.replication_factor}
            for each in topics
        ]
        click.echo(orjson.dumps(rows))
    elif topics:
        show(table_of(topics, _TOPIC))


@operator_command("Print the topic as JSON.", group=topic)
@click.argument("name")
def describe(name: str, verb: OperatorVerb) -> None:
    """Show partitions with their leaders, replicas and offsets, and settings of the topic NAME."""
    description, ranges, overrides = verb.ask(lambda client: _fetch_description(client, name))
    rows = list(zip(description.replicas, ranges, strict=True))
    if verb.as_json:
        shown = [_partition_as_json(partition, offsets) for partition, offsets in rows]
        click.echo(orjson.dumps({**_as_json(description), "partitions": shown, "overrides": sorted(overrides)}))
        return
    click.echo(
        f"{name}: {format_count(description.partitions, 'partition')}, "
        f"replication factor {description.replication_factor}\n"
    )
    has_problems = any(partition.problem for partition, _ in rows)
    show(table_of(rows, _PARTITION_TABLE | _PROBLEM if has_problems else _PARTITION_TABLE))
    click.echo()
    columns: Columns[tuple[str, str]] = {
        "setting": lambda row: row[0],
        "value": lambda row: row[1],
        "from": lambda row: "topic" if row[0] in overrides else "default",
    }
    show(table_of(sorted(description.configs.items()), columns))


async def _fetch_description(
    client: BrokerClient, name: str
) -> tuple[TopicDescription, list[OffsetRange | None], set[str]]:
    """Return a topic's description, the offsets of its partitions, and the names of the settings that it overrides."""
    description = await client.describe_topic(name)
    return description, await _fetch_offsets(client, description), await client.topic_overrides(name)


async def _fetch_offsets(client: BrokerClient, description: TopicDescription) -> list[OffsetRange | None]:
    """Return the offsets of each partition; None for a partition whose leader does not answer."""
    window = asyncio.Semaphore(OFFSETS_ASKED_MAX)

    async def fetch_range(partition: PartitionDescription) -> OffsetRange | None:
        """Return the offsets of a partition; None if no leader answers."""
        if partition.leader is None:
            return None
        async with window:
            try:
                return await client.offsets(description.name, partition.partition, timeout_ms=OFFSETS_ANSWER_MS)
            except Unavailable:
                return None

    return list(await asyncio.gather(*map(fetch_range, description.replicas)))


def _as_json(description: TopicDescription) -> dict[str, object]:
    """Return the description of a topic as JSON."""
    return {
        "name": description.name,
        "partitions_count": description.partitions,
        "replication_factor": description.replication_factor,
        "configs": description.configs,
    }


_PARTITION = ("partition", "leader", "replicas", "in_sync", "high_watermark", "problem")


def _partition_as_json(partition: PartitionDescription, offsets: OffsetRange | None) -> dict[str, object]:
    """Return the description of a partition as JSON; offsets are null if unknown."""
    beginning, end = offsets if offsets is not None else (None, None)
    return {**{name: getattr(partition, name) for name in _PARTITION}, "beginning_offset": beginning, "end_offset": end}


_TOPIC: Columns[TopicSummary] = {
    "topic": lambda each: each.name,
    "partitions": lambda each: each.partitions,
    "replicas": lambda each: each.replication_factor,
}
_PARTITION_TABLE: Columns[tuple[PartitionDescription, OffsetRange | None]] = {
    "partition": lambda row: row[0].partition,
    "leader": lambda row: row[0].leader,
    "replicas": lambda row: ", ".join(map(str, row[0].replicas)),
    "in sync": lambda row: format_nodes(row[0].in_sync),
    "first offset": lambda row: row[1] and row[1].beginning,
    "high watermark": lambda row: row[1].end if row[1] is not None else row[0].high_watermark,
    "records": lambda row: row[1] and f"{row[1].end - row[1].beginning:,}",
}
_PROBLEM: Columns[tuple[PartitionDescription, OffsetRange | None]] = {"problem": lambda row: red(row[0].problem or "")}
