"""`raftlog cluster config list|get|set|unset|schema`: settings that all brokers follow, without a restart."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import click

from raftlog.cli.operator_verbs import OperatorVerb, expected_version_option, operator_command
from raftlog.cli.options import option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import Columns, show, table_of
from raftlog.client import BrokerClient
from raftlog.values.cluster import ClusterSettingsVersion, SettingDescription, SettingValue

WIDTH: Final = 100

_dry_run = option("--dry-run", is_flag=True, help="Check the change without making it.")
_expected = expected_version_option("Refuse unless the settings still have this version.")


@click.group()
def config() -> None:
    """Show and change settings of the cluster. All brokers apply changes at once, without a restart."""


@operator_command("Print the settings as a JSON object.", name="list", group=config)
def list_settings(verb: OperatorVerb) -> None:
    """List all settings with their values and defaults."""
    values, schema = verb.ask(_fetch_values_and_schema)
    defaults = {name: _format_value(each.default) for name, each in schema.items() if each.default is not None}
    columns: Columns[str] = {"setting": str, "value": lambda name: _format_value(values[name]), "default": defaults.get}
    verb.output(values, lambda _: show(table_of(sorted(values), columns)))


async def _fetch_values_and_schema(
    client: BrokerClient,
) -> tuple[Mapping[str, SettingValue], Mapping[str, SettingDescription]]:
    """Return the values of all settings, and their descriptions."""
    return await client.admin.cluster_config(), await client.admin.cluster_config_schema()


@operator_command("Print the value as JSON.", group=config)
@click.argument("name")
def get(name: str, verb: OperatorVerb) -> None:
    """Print the value of the setting NAME."""
    values = verb.ask(lambda client: client.admin.cluster_config())
    if name not in values:
        raise CommandFailed(f"setting {name!r} does not exist; `raftlog cluster config list` shows all settings")
    verb.output(values[name], _format_value(values[name]))


@operator_command("Print the version of the settings as JSON.", name="set", group=config)
@click.argument("settings", metavar="NAME=VALUE…", nargs=-1, required=True)
@_dry_run
@_expected
def set_settings(settings: tuple[str, ...], dry_run: bool, expected_version: int | None, verb: OperatorVerb) -> None:
    """Set settings of the cluster, all or none of them."""
    texts = _parse_settings(settings)

    async def change(client: BrokerClient) -> ClusterSettingsVersion:
        """Set the cluster's settings; return their version."""
        schema = await client.admin.cluster_config_schema()
        values = {name: _parse_value(name, text, schema.get(name)) for name, text in texts.items()}
        return await client.admin.alter_cluster_config(values, expected_version=expected_version, dry_run=dry_run)

    _output_change(verb, change, f"set {', '.join(settings)}", dry_run)


@operator_command("Print the version of the settings as JSON.", group=config)
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@_dry_run
@_expected
def unset(names: tuple[str, ...], dry_run: bool, expected_version: int | None, verb: OperatorVerb) -> None:
    """Reset settings of the cluster to their defaults."""

    async def change(client: BrokerClient) -> ClusterSettingsVersion:
        """Reset the settings to their defaults; return the version of the settings."""
        return await client.admin.alter_cluster_config({}, names, expected_version=expected_version, dry_run=dry_run)

    _output_change(verb, change, f"unset {', '.join(names)}", dry_run)


@operator_command("Print it as a JSON object, as /v1/cluster_config/schema has it.", group=config)
def schema(verb: OperatorVerb) -> None:
    """Show description, default and allowed values of each setting."""
    verb.output(verb.ask(lambda client: client.admin.cluster_config_schema()), _show_schema)


def _show_schema(found: Mapping[str, SettingDescription]) -> None:
    """Print the name, type, allowed values and description of each setting."""
    for name, each in sorted(found.items()):
        click.echo(f"{name}: {each.type}, {each.allowed}; default {_format_value(each.default)}")
        click.echo(click.wrap_text(each.description, WIDTH, "    ", "    ") + "\n")


def _output_change(
    verb: OperatorVerb, change: Callable[[BrokerClient], Awaitable[ClusterSettingsVersion]], done: str, dry_run: bool
) -> None:
    """Call `change`, and print that it was made; with `dry_run` print that it is valid."""
    answer = verb.ask(change)
    dry_text = f"valid, nothing was changed: {done}"
    verb.output(answer, dry_text if dry_run else f"{done}; version {answer.config_version}")


def _parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """Return the settings of `NAME=VALUE` arguments; raises `click.UsageError` if one is wrong or given twice."""
    texts = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{setting!r} is not NAME=VALUE, such as balancer.mode=off")
        if name in texts:
            raise click.UsageError(f"{name} is given twice; give each setting once")
        texts[name] = text
    return texts


def _parse_value(name: str, text: str, known: SettingDescription | None) -> object:
    """Parse a value by the setting's type; leave one of an unknown setting to the broker."""
    kind = "string" if known is None else known.type
    if kind == "boolean":
        if text not in ("true", "false"):
            raise CommandFailed(f"{name} cannot be {text!r}; it can be true or false")
        return text == "true"
    if known is not None and kind == "integer":
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
            raise CommandFailed(f"{name} cannot be {text!r:.60}; it is a whole number: {known.allowed}")
        return int(text)
    return text


def _format_value(value: object) -> str:
    """Format a value as `set` accepts it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
