"""`raftlog cluster config list|get|set|unset|schema`: settings that all brokers follow, without a restart."""

from collections.abc import Mapping, Sequence
from typing import Final

import click
from rich.table import Table

from raftlog.cli.operating import operate
from raftlog.cli.options import bootstrap_option, json_option, option
from raftlog.cli.outcome import CommandFailed
from raftlog.cli.tables import show
from raftlog.client import BrokerClient
from raftlog.values.cluster import ClusterSettingsChanged, SettingDescription, SettingValue
from raftlog.values.value import to_json

WIDTH: Final = 100

_dry_run = option("--dry-run", is_flag=True, help="Only look whether it could be done; nothing is changed.")
_expected = option(
    "--expected-version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Do nothing when somebody else changed one meanwhile.",
)


@click.group()
def config() -> None:
    """Show and change settings of the cluster, which all brokers follow at once, without a restart."""


@config.command(name="list")
@json_option("Print the settings as a JSON object.")
@bootstrap_option
def list_settings(as_json: bool, bootstrap: list[str]) -> None:
    """List all settings with their values and defaults."""
    values, schema = operate(bootstrap, _values_and_schema)
    if as_json:
        click.echo(to_json(values))
        return
    table = Table("setting", "value", "default", box=None, header_style="bold")
    for name, value in sorted(values.items()):
        default = schema[name].default if name in schema else None
        table.add_row(name, _text(value), "-" if default is None else _text(default))
    show(table)


async def _values_and_schema(
    client: BrokerClient,
) -> tuple[Mapping[str, SettingValue], Mapping[str, SettingDescription]]:
    return await client.admin.cluster_config(), await client.admin.cluster_config_schema()


@config.command()
@click.argument("name")
@json_option("Print the value as JSON.")
@bootstrap_option
def get(name: str, as_json: bool, bootstrap: list[str]) -> None:
    """Print the value of the setting NAME."""
    values = operate(bootstrap, lambda client: client.admin.cluster_config())
    if name not in values:
        raise CommandFailed(f"there is no setting {name!r}; `raftlog cluster config list` shows those that there are")
    click.echo(to_json(values[name]) if as_json else _text(values[name]))


@config.command(name="set")
@click.argument("settings", metavar="NAME=VALUE…", nargs=-1, required=True)
@_dry_run
@_expected
@json_option("Print the version of the settings as JSON.")
@bootstrap_option
def set_settings(
    settings: tuple[str, ...], dry_run: bool, expected_version: int | None, as_json: bool, bootstrap: list[str]
) -> None:
    """Set settings of the cluster, all or none of them."""
    texts = _read(settings)

    async def change(client: BrokerClient) -> ClusterSettingsChanged:
        schema = await client.admin.cluster_config_schema()
        values = {name: _value(name, text, schema.get(name)) for name, text in texts.items()}
        return await client.admin.alter_cluster_config(values, expected_version=expected_version, dry_run=dry_run)

    _say(operate(bootstrap, change), f"set {', '.join(settings)}", dry_run, as_json)


@config.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@_dry_run
@_expected
@json_option("Print the version of the settings as JSON.")
@bootstrap_option
def unset(
    names: tuple[str, ...], dry_run: bool, expected_version: int | None, as_json: bool, bootstrap: list[str]
) -> None:
    """Let settings of the cluster have their defaults again."""
    told = operate(
        bootstrap,
        lambda client: client.admin.alter_cluster_config({}, names, expected_version=expected_version, dry_run=dry_run),
    )
    _say(told, f"unset {', '.join(names)}", dry_run, as_json)


@config.command()
@json_option("Print it as a JSON object, as /v1/cluster_config/schema has it.")
@bootstrap_option
def schema(as_json: bool, bootstrap: list[str]) -> None:
    """Show what each setting does, its default, and the values that it can have."""
    found = operate(bootstrap, lambda client: client.admin.cluster_config_schema())
    if as_json:
        click.echo(to_json(found))
        return
    for name, each in sorted(found.items()):
        click.echo(f"{name}: {each.type}, {each.allowed}; default {_text(each.default)}")
        click.echo(click.wrap_text(each.description, WIDTH, "    ", "    ") + "\n")


def _say(told: ClusterSettingsChanged, done: str, dry_run: bool, as_json: bool) -> None:
    if as_json:
        click.echo(to_json(told))
    else:
        click.echo(f"could be done: {done}" if dry_run else f"{done}; version {told.config_version}")


def _read(settings: Sequence[str]) -> dict[str, str]:
    texts = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{setting!r} is not NAME=VALUE")
        if name in texts:
            raise click.UsageError(f"{name} is set twice")
        texts[name] = text
    return texts


def _value(name: str, text: str, known: SettingDescription | None) -> object:
    """As the setting's type has it. A name that is not known here is left to the broker, which knows what there is."""
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


def _text(value: object) -> str:
    """As `set` reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
