"""Options of `raftlog serve` about permissions; they are fields of `BrokerSettings`."""

import click

from raftlog.cli.options import broker_option, combine_decorators
from raftlog.errors import InvalidArgument
from raftlog.partitions.settings import AUTHORIZATIONS
from raftlog.security.credentials import check_user_name


def _parse_user(name: str) -> str:
    """Return the name of a user. Raises `BadParameter` if it cannot be one."""
    try:
        check_user_name(name)
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from None
    return name


authorization_options = combine_decorators(
    broker_option(
        "--authorization",
        type=click.Choice(list(AUTHORIZATIONS)),
        help="Check of permissions; acl: by the entries of `raftlog acl`, so that what none allows is denied. "
        "[default: acl if a listener requires logins, otherwise none]",
    ),
    broker_option(
        "--superuser",
        "superusers",
        metavar="NAME",
        multiple=True,
        callback=lambda _context, _parameter, names: tuple(map(_parse_user, names)),
        help="User that may do everything, besides the superusers of the cluster; may be repeated.",
    ),
)
