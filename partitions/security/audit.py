"""Audit events of logins, and of changes to users, permissions and quotas, with their origin. They hold no secrets."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from raftlog.events import event
from raftlog.partitions.caller import Caller
from raftlog.security.permissions import Acl

_logger = logging.getLogger(__name__)
SHOWN_MAX: Final = 20
"""Entries of access control that one event names; its `count` has their number."""
USER_SHOWN_MAX: Final = 256
"""Characters of a name that a client claimed."""


def write_user_changed(caller: Caller, user: str, change: str) -> None:
    """Write the event of a user; `change` is created, deleted, password or credentials."""
    event(_logger, "user_changed", **_origin(caller), user=user, change=change)


def write_authenticated(origin: Caller, principal: str, mechanism: str) -> None:
    """Write the event of a login; `origin` is the connection before it."""
    event(_logger, "authenticated", **_origin(origin._replace(principal=principal)), mechanism=mechanism)


def write_authentication_failed(origin: Caller, user: str, mechanism: str, why: str) -> None:
    """Write the event of a refused login; `user` is the name that the client claimed."""
    shown = user[:USER_SHOWN_MAX]
    event(_logger, "authentication_failed", **_origin(origin), user=shown, mechanism=mechanism, why=why)


def write_acls_changed(caller: Caller, change: str, acls: Sequence[Acl]) -> None:
    """Write the event of entries that were created or deleted."""
    shown = [acl_text(acl) for acl in acls[:SHOWN_MAX]]
    event(_logger, "acls_changed", **_origin(caller), change=change, count=len(acls), acls=shown)


def write_quotas_changed(
    caller: Caller, entity: Iterable[tuple[str, str]], set_: Mapping[str, str], unset: Sequence[str]
) -> None:
    """Write the event of quotas."""
    event(_logger, "quotas_changed", **_origin(caller), entity=dict(entity), set=dict(set_), unset=list(unset))


def acl_text(acl: Acl) -> str:
    """Return an entry as one line: `ALLOW User:alice READ TOPIC LITERAL orders from *`."""
    return (
        f"{acl.effect.name} {acl.principal} {acl.operation.name} {acl.resource_type.name} {acl.pattern_type.name} "
        f"{acl.resource_name} from {acl.host}"
    )


def _origin(caller: Caller) -> dict[str, str]:
    return {"principal": caller.principal, "address": caller.address, "listener": caller.listener}
