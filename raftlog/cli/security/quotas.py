"""`raftlog quota set|list|delete`: limits for the clients of a user, a client id or an address."""

from typing import Any, Final

import click

from raftlog.cli.operator_verbs import OperatorVerb, operator_command
from raftlog.cli.options import F, combine_decorators, option
from raftlog.cli.tables import Columns, show, table_of
from raftlog.values.security import QuotaDescription

DEFAULT: Final = "*"


@click.group()
def quota() -> None:
    """Set, list and delete client quotas."""


def _entity_options(function: F) -> F:
    """Add the options that name the clients of a quota."""
    return combine_decorators(
        option("--user", help="User, or * for the default of users."),
        option("--client-id", help="Client id, or * for the default of client ids."),
        option("--ip", help="Address, or * for the default of addresses."),
    )(function)


def _parse_entity(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str]:
    """Return the named clients by kind of name; an empty name: the default. Raises `click.UsageError` without any."""
    found = {
        kind: "" if name == DEFAULT else name
        for kind, name in (("user", user), ("client-id", client_id), ("ip", ip))
        if name is not None
    }
    if not found:
        raise click.UsageError("name the clients with --user, --client-id or --ip")
    return found


@operator_command(name="set", group=quota)
@click.argument("quotas", metavar="NAME=VALUE…", nargs=-1, required=True)
@_entity_options
def set_quotas(quotas: tuple[str, ...], verb: OperatorVerb, **entity: Any) -> None:
    """Set quotas, such as producer_byte_rate=1000000, consumer_byte_rate or request_percentage."""
    named = _parse_entity(**entity)
    values = dict(map(_parse_limit, quotas))
    verb.ask(lambda client: client.admin.security.alter_quotas(named, values))
    click.echo(f"set {', '.join(quotas)} for {_format_entity(named)}")


@operator_command(group=quota)
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@_entity_options
def delete(names: tuple[str, ...], verb: OperatorVerb, **entity: Any) -> None:
    """Delete quotas by name."""
    named = _parse_entity(**entity)
    verb.ask(lambda client: client.admin.security.alter_quotas(named, {}, names))
    click.echo(f"deleted {', '.join(names)} of {_format_entity(named)}")


@operator_command("Print a JSON array with an object for each entity.", name="list", group=quota)
def list_quotas(verb: OperatorVerb) -> None:
    """List all client quotas."""
    columns: Columns[QuotaDescription] = {
        "clients": lambda each: _format_entity(dict(each.entity)),
        "quotas": lambda each: ", ".join(f"{name}={value:g}" for name, value in each.quotas.items()),
    }
    found = verb.ask(lambda client: client.admin.security.quotas())
    verb.output(found, lambda rows: show(table_of(rows, columns)))


def _parse_limit(text: str) -> tuple[str, float]:
    """Return the name and number of `NAME=NUMBER`; raises `click.UsageError` for anything else."""
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise click.UsageError(f"{text!r} is not NAME=NUMBER, such as producer_byte_rate=1000000") from None


def _format_entity(entity: dict[str, str]) -> str:
    """Return the text of a quota's entity."""
    return ", ".join(f"{kind} {name or '(default)'}" for kind, name in entity.items())
