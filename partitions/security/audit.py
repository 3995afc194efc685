"""Audit events of logins, denials, and changes to users, permissions and quotas, with their origin, without secrets."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from raftlog.events import event
from raftlog.partitions.caller import Caller
from raftlog.security.permissions import Acl, AclOperation, Resource

_logger = logging.getLogger(__name__)
DENIAL_INTERVAL_S: Final = 10.0
DENIALS_MAX: Final = 10_000
"""Denials that are remembered; when there are more, all are forgotten."""
NAME_MAX: Final = 300
"""Characters of a resource's name in an event."""
SHOWN_MAX: Final = 20
"""Entries of access control that one event names; its `count` has their number."""
USER_SHOWN_MAX: Final = 256
"""Characters of a name that a client claimed."""


def write_user_changed(caller: Caller, user: str, change: str) -> None:
    """Write the event `user_changed`; `change` is created, deleted, password or credentials."""
    event(_logger, "user_changed", **_origin(caller), user=user, change=change)


def write_authenticated(origin: Caller, principal: str, mechanism: str) -> None:
    """Write the event of a login; `origin` describes the connection before the login."""
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
    """Write the event `quotas_changed` about the quotas of one entity."""
    event(_logger, "quotas_changed", **_origin(caller), entity=dict(entity), set=dict(set_), unset=list(unset))


class Denials:
    """Writer of events about denied operations: one for each caller, operation and resource in `DENIAL_INTERVAL_S`.

    The next event has the number of denials in between. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[tuple[str, str, AclOperation, Resource], float] = {}
        self._left_out: Counter[tuple[str, str, AclOperation, Resource]] = Counter()

    def note(self, caller: Caller, operation: AclOperation, resource: Resource) -> None:
        """Write the event of a denial, or count it."""
        shown = Resource(resource.type, resource.name[:NAME_MAX])
        now, key = self._clock(), (caller.principal, caller.address, operation, shown)
        written = self._written.get(key)
        if written is not None and now - written < DENIAL_INTERVAL_S:
            self._left_out[key] += 1
            return
        if written is None and len(self._written) >= DENIALS_MAX:
            self._written.clear()
            self._left_out.clear()
        self._written[key] = now
        event(
            _logger,
            "authorization_denied",
            **_origin(caller),
            operation=operation.name,
            resource_type=resource.type.name,
            resource=shown.name,
            count=1 + self._left_out.pop(key, 0),
        )


def acl_text(acl: Acl) -> str:
    """Return an entry as one line: `ALLOW User:alice READ TOPIC LITERAL orders from *`."""
    return (
        f"{acl.effect.name} {acl.principal} {acl.operation.name} {acl.resource_type.name} {acl.pattern_type.name} "
        f"{acl.resource_name} from {acl.host}"
    )


def _origin(caller: Caller) -> dict[str, str]:
    """Return the fields of an event that describe the caller."""
    return {"principal": caller.principal, "address": caller.address, "listener": caller.listener}
