"""`raftlog user create|list|password|delete`: passwords come from standard input or a prompt, never from arguments."""

import sys

import click

from raftlog.cli.operator_verbs import OperatorVerb, confirm, operator_command, yes_option
from raftlog.cli.options import option
from raftlog.cli.tables import Columns, show, table_of
from raftlog.values.security import UserDescription

_stdin_option = option(
    "--password-stdin", "from_stdin", is_flag=True, help="Read the password from standard input, its first line."
)


@click.group()
def user() -> None:
    """Create, list and delete users, and change their passwords."""


@operator_command(group=user)
@click.argument("name")
@_stdin_option
@option("--superuser", "is_superuser", is_flag=True, help="Allow the user everything.")
def create(name: str, from_stdin: bool, is_superuser: bool, verb: OperatorVerb) -> None:
    """Create the user NAME."""
    password = _read_password(from_stdin)
    verb.ask(lambda client: client.admin.security.create_user(name, password, is_superuser=is_superuser))
    click.echo(f"created user {name}{', a superuser' if is_superuser else ''}")


@operator_command("Print a JSON array with an object for each user.", name="list", group=user)
def list_users(verb: OperatorVerb) -> None:
    """List all users with their mechanisms."""
    users = verb.ask(lambda client: client.admin.security.users())
    columns: Columns[UserDescription] = {
        "user": lambda each: each.name,
        "mechanisms": lambda each: ", ".join(each.mechanisms),
        "superuser": lambda each: "yes" if each.is_superuser else "",
    }
    verb.output(users, lambda found: show(table_of(found, columns)))


@operator_command(group=user)
@click.argument("name")
@_stdin_option
def password(name: str, from_stdin: bool, verb: OperatorVerb) -> None:
    """Change the password of the user NAME."""
    new = _read_password(from_stdin)
    verb.ask(lambda client: client.admin.security.set_password(name, new))
    click.echo(f"changed the password of {name}")


@operator_command(group=user)
@click.argument("name")
@yes_option
def delete(name: str, yes: bool, verb: OperatorVerb) -> None:
    """Delete the user NAME; entries of access control that name it stay."""
    confirm(f"Delete user {name}?", yes)
    verb.ask(lambda client: client.admin.security.delete_user(name))
    click.echo(f"deleted user {name}")


def _read_password(from_stdin: bool) -> str:
    """Return the password from standard input or from a prompt on a terminal. Raises `UsageError` without either."""
    if from_stdin:
        found = sys.stdin.readline().rstrip("\r\n")
    elif sys.stdin.isatty():
        found = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        raise click.UsageError("give the password on standard input with --password-stdin")
    if not found:
        raise click.UsageError("the password is empty; give it as the first line of standard input")
    return found
