"""`raftlog topic alter` and `delete`: both ask before they delete records; `alter` also adds partitions."""

from collections.abc import Mapping

import click

from raftlog.cli.operator_verbs import OperatorVerb, confirm, operator_command, yes_option
from raftlog.cli.options import option, settings_option
from raftlog.cli.tables import format_count
from raftlog.topic_config import TopicConfig


@operator_command()
@click.argument("name")
@settings_option("Setting to change; may be repeated.", "--config", "-c", "config")
@option("--reset", "resets", multiple=True, metavar="KEY", help="Setting to reset to its default; may be repeated.")
@option("--partitions", "-p", type=click.IntRange(min=1), help="New number of partitions, above the present one.")
@yes_option
def alter(
    name: str,
    config: dict[str, str],
    resets: tuple[str, ...],
    partitions: int | None,
    yes: bool,
    verb: OperatorVerb,
) -> None:
    """Change settings of the topic NAME, or add partitions.

    Changes that may delete present records (less retention, another cleanup.policy) ask for confirmation. Records of
    one key go to one partition; with more partitions it can be another one, so the order of a key's records before and
    after is lost.
    """
    if not config and not resets and partitions is None:
        raise click.UsageError("nothing to change: give --config KEY=VALUE, --reset KEY or --partitions N")
    TopicConfig.from_strings(config)
    if config or resets:
        _alter_settings(name, config, resets, yes, verb)
    if partitions is not None:
        verb.ask(lambda client: client.create_partitions(name, partitions))
        click.echo(f"altered {name}: {format_count(partitions, 'partition')}")
        click.echo("later records of a key can go to another partition than its earlier ones", err=True)


def _alter_settings(name: str, config: dict[str, str], resets: tuple[str, ...], yes: bool, verb: OperatorVerb) -> None:
    """Change settings of a topic, after a confirmation if the change may delete records."""
    changes: dict[str, str | None] = {**config, **dict.fromkeys(resets)}
    if not yes:
        known = verb.ask(lambda client: client.describe_topic(name)).configs
        deleting = describe_deleting_changes(known, changes)
        if deleting:
            confirm(f"Change {name}, which deletes records within minutes: {', '.join(deleting)}?", yes)
    verb.ask(lambda client: client.alter_topic_config(name, changes))
    click.echo(f"altered {name}: {', '.join(changes)}")


def describe_deleting_changes(known: Mapping[str, str], changes: Mapping[str, str | None]) -> list[str]:
    """Return a description of each change that may delete records that are kept now. Pure."""
    found = []
    for key in ("retention.ms", "retention.bytes", "cleanup.policy"):
        if key not in changes or changes[key] == known.get(key):
            continue
        before, after = known.get(key, "-"), changes[key]
        if after is None or key == "cleanup.policy" or _is_less(after, before):
            found.append(f"{key} from {before} to {'its default' if after is None else after}")
    return found


def _is_less(after: str, before: str) -> bool:
    """Return whether the new bound may delete records kept by the old one; -1 keeps everything."""
    return int(after) >= 0 and (before == "-1" or not before.isdecimal() or int(after) < int(before))


@operator_command()
@click.argument("name")
@yes_option
def delete(name: str, yes: bool, verb: OperatorVerb) -> None:
    """Delete the topic NAME and all its records, on all replicas and for good."""
    if not yes:
        found = verb.ask(lambda client: client.describe_topic(name))
        confirm(f"Delete {name}, {format_count(found.partitions, 'partition')}, and all its records, for good?", yes)
    verb.ask(lambda client: client.delete_topic(name))
    click.echo(f"deleted {name}")
