"""`raftlog acl create|list|delete`: entries that allow or deny users operations on topics, groups and the cluster."""

from typing import Any, Final, get_args

import click

from raftlog.cli.operator_verbs import OperatorVerb, confirm, operator_command, yes_option
from raftlog.cli.options import F, combine_decorators, option
from raftlog.cli.tables import Columns, show, table_of
from raftlog.values.security import AclDescription, EffectName, OperationName

CLUSTER_NAME: Final = "kafka-cluster"
USER_PREFIX: Final = "User:"
_OPERATIONS: Final = [name.lower().replace("_", "-") for name in get_args(OperationName)]
_COLUMNS: Columns[AclDescription] = {
    "permission": lambda acl: acl.permission.lower(),
    "principal": lambda acl: acl.principal,
    "host": lambda acl: acl.host,
    "operation": lambda acl: acl.operation.lower().replace("_", "-"),
    "resource": lambda acl: acl.resource_type.lower().replace("_", "-"),
    "name": lambda acl: acl.resource_name + ("…" if acl.pattern_type == "PREFIXED" else ""),
}


@click.group()
def acl() -> None:
    """Create, list and delete entries of the access control list."""


def _resource_options(function: F) -> F:
    """Add the options that name a resource."""
    return combine_decorators(
        option("--topic", help="Topic, or * for all."),
        option("--group", help="Consumer group, or * for all."),
        option("--cluster", is_flag=True, help="The cluster itself."),
        option("--transactional-id", help="Transactional id, or * for all."),
        option("--prefixed", is_flag=True, help="The name stands for all names that begin with it."),
    )(function)


def _parse_resource(
    topic: str | None, group: str | None, cluster: bool, transactional_id: str | None, prefixed: bool
) -> dict[str, str]:
    """Return the named resource as parameters of a request; empty if none is named. Raises `UsageError` for several."""
    named = [
        (kind, name)
        for kind, name in (
            ("TOPIC", topic),
            ("GROUP", group),
            ("CLUSTER", CLUSTER_NAME if cluster else None),
            ("TRANSACTIONAL_ID", transactional_id),
        )
        if name is not None
    ]
    if len(named) > 1:
        raise click.UsageError("give only one of --topic, --group, --cluster and --transactional-id")
    if not named:
        if prefixed:
            raise click.UsageError("--prefixed needs --topic, --group or --transactional-id")
        return {}
    [(kind, name)] = named
    pattern = "PREFIXED" if prefixed else "LITERAL"
    return {"resource_type": kind, "resource_name": name, "pattern_type": pattern}


def _make_principal(name: str) -> str:
    """Return the principal of a user's name, which may be one already."""
    return name if name.startswith(USER_PREFIX) else USER_PREFIX + name


@operator_command("Print the created entries as JSON.", group=acl)
@option("--allow", "allowed", multiple=True, metavar="USER", help="User to allow it to; may be repeated, * for all.")
@option("--deny", "denied", multiple=True, metavar="USER", help="User to deny it to; may be repeated, * for all.")
@_resource_options
@option("--host", "hosts", multiple=True, default=["*"], help="Address of the clients; may be repeated.")
@option("--operation", "operations", type=click.Choice(_OPERATIONS), multiple=True, required=True, help="Operation.")
def create(
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    verb: OperatorVerb,
    **resource: Any,
) -> None:
    """Create entries that allow or deny operations to users."""
    found: Any = _parse_resource(**resource)
    if not found:
        raise click.UsageError("name the resource with --topic, --group, --cluster or --transactional-id")
    if not allowed and not denied:
        raise click.UsageError("name the users with --allow or --deny")
    users: list[tuple[EffectName, str]] = [("ALLOW", name) for name in allowed]
    users += [("DENY", name) for name in denied]
    acls = [
        AclDescription(
            principal=_make_principal(name), host=host, operation=_parse_operation(each), permission=effect, **found
        )
        for effect, name in users
        for host in hosts
        for each in operations
    ]
    verb.ask(lambda client: client.admin.security.create_acls(acls))
    verb.output(acls, lambda created: show(table_of(created, _COLUMNS)))


def _filter_options(function: F) -> F:
    """Add the options that select entries."""
    return combine_decorators(
        option("--principal", metavar="USER", help="Only entries of this user."),
        option("--allow", "is_allow", is_flag=True, help="Only entries that allow."),
        option("--deny", "is_deny", is_flag=True, help="Only entries that deny."),
        _resource_options,
        option("--host", help="Only entries for this address."),
        option("--operation", type=click.Choice(_OPERATIONS), help="Only entries of this operation."),
    )(function)


def _parse_filters(
    principal: str | None, is_allow: bool, is_deny: bool, host: str | None, operation: str | None, **resource: Any
) -> dict[str, str]:
    """Return the filters that the flags give, as parameters; raises `click.UsageError` if flags exclude each other."""
    if is_allow and is_deny:
        raise click.UsageError("give --allow or --deny, not both")
    selected = {
        "principal": None if principal is None else _make_principal(principal),
        "permission": "ALLOW" if is_allow else "DENY" if is_deny else None,
        "host": host,
        "operation": None if operation is None else str(_parse_operation(operation)),
        **_parse_resource(**resource),
    }
    return {name: value for name, value in selected.items() if value is not None}


@operator_command("Print the entries as a JSON array.", name="list", group=acl)
@_filter_options
def list_acls(verb: OperatorVerb, **filters: Any) -> None:
    """List entries of access control."""
    selected = _parse_filters(**filters)
    verb.output(
        verb.ask(lambda client: client.admin.security.acls(selected)), lambda found: show(table_of(found, _COLUMNS))
    )


@operator_command("Print the deleted entries as a JSON array.", group=acl)
@_filter_options
@option("--dry-run", is_flag=True, help="Only show the entries that would be deleted.")
@yes_option
def delete(dry_run: bool, yes: bool, verb: OperatorVerb, **filters: Any) -> None:
    """Delete the entries of access control that the flags select."""
    selected = _parse_filters(**filters)
    if not selected:
        raise click.UsageError("select the entries to delete, for example with --principal or --topic")
    found = verb.ask(lambda client: client.admin.security.delete_acls(selected, dry_run=True))
    if not dry_run and found:
        confirm(f"Delete these entries ({len(found)})?", yes)
        found = verb.ask(lambda client: client.admin.security.delete_acls(selected))
    verb.output(found, lambda acls: show(table_of(acls, _COLUMNS)))


def _parse_operation(name: str) -> Any:
    """Return the enumeration name of an operation."""
    return name.upper().replace("-", "_")
