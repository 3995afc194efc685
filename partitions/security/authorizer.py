"""Authorizer: decides whether a caller may perform an operation, for every API of the broker.

    off (no configuration)   everything is allowed
    on                       superusers, then the entries of the controller's state (`raftlog.security.permissions`)

Decisions are kept until the entries change, so one costs a look-up. Requests that wait are checked again at each
change (`permission_watch`). Used by the façade and the API servers."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from raftlog.errors import (
    ClusterNotAuthorized,
    GroupNotAuthorized,
    NotAuthorized,
    TopicNotAuthorized,
    TransactionalIdNotAuthorized,
)
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.permission_watch import PermissionWatch, PermissionWatches
from raftlog.security.acl_index import AclIndex
from raftlog.security.permissions import CLUSTER, Acl, AclOperation, AclResourceType, Resource

DECISIONS_MAX: Final = 10_000
"""Decisions that are kept; when there are more, all are made again."""
NAME_KEPT_MAX: Final = 300
"""Characters of a resource's name up to which its decisions are kept."""
_REFUSALS: Final[dict[AclResourceType, tuple[type[NotAuthorized], str]]] = {
    AclResourceType.TOPIC: (TopicNotAuthorized, "topic"),
    AclResourceType.GROUP: (GroupNotAuthorized, "consumer group"),
    AclResourceType.CLUSTER: (ClusterNotAuthorized, "cluster"),
    AclResourceType.TRANSACTIONAL_ID: (TransactionalIdNotAuthorized, "transactional id"),
}


class Authorizer:
    """Decisions of one broker whether a caller may perform an operation.

    `on_denied` is called with each refusal of `authorize`, for the audit log. `check_ready` raises `Unavailable` while
    the broker starts: its copy of the entries may then be old, so it allows operations by them, but denies none."""

    def __init__(
        self,
        *,
        is_on: bool = False,
        superusers: Iterable[str] = (),
        on_denied: Callable[[Caller, AclOperation, Resource], None] = lambda caller, operation, resource: None,
        check_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Create an authorizer without ACLs; `is_on` is whether permissions are checked.

        `on_denied` is called with each refusal, and `check_ready` raises an error while the ACLs are not known here."""
        self.is_on = is_on
        self._configured_superusers = frozenset(superusers)
        self._superusers = self._configured_superusers
        self._on_denied, self._check_ready = on_denied, check_ready
        self._index = AclIndex()
        self._decisions: dict[tuple[str, str, AclOperation, Resource], bool] = {}
        self._any_decisions: dict[tuple[str, str, AclOperation, AclResourceType], bool] = {}
        self._watches = PermissionWatches(self.authorize)

    def refresh(self, acls: Iterable[Acl], superusers: Iterable[str]) -> None:
        """Replace the entries and the superusers of the controller's state."""
        self._index = AclIndex(acls)
        self._follow(superusers)

    def update(self, added: Iterable[Acl], removed: Iterable[Acl], superusers: Iterable[str]) -> None:
        """Add and remove entries of the controller's state, and replace the superusers."""
        for acl in removed:
            self._index.remove(acl)
        for acl in added:
            self._index.add(acl)
        self._follow(superusers)

    def _follow(self, superusers: Iterable[str]) -> None:
        """Use the changed entries and these superusers from now on, also for requests that wait."""
        self._superusers = self._configured_superusers | frozenset(superusers)
        self._decisions.clear()
        self._any_decisions.clear()
        self._watches.check_all()

    def close(self) -> None:
        """Stop a running check of the waiting requests."""
        self._watches.close()

    def allows(self, caller: Caller, operation: AclOperation, resource: Resource) -> bool:
        """Return whether the caller may perform an operation on a resource."""
        if not self.is_on or caller.principal in self._superusers:
            return True
        key = (caller.principal, caller.address, operation, resource)
        decision = self._decisions.get(key)
        if decision is None:
            if len(resource.name) > NAME_KEPT_MAX:
                return self._index.allows(*key)
            if len(self._decisions) >= DECISIONS_MAX:
                self._decisions.clear()
            decision = self._decisions[key] = self._index.allows(*key)
        return decision

    def allows_any(self, caller: Caller, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Return whether the caller may perform an operation on some resource of a type, existing or not."""
        if not self.is_on or caller.principal in self._superusers:
            return True
        key = (caller.principal, caller.address, operation, resource_type)
        decision = self._any_decisions.get(key)
        if decision is None:
            if len(self._any_decisions) >= DECISIONS_MAX:
                self._any_decisions.clear()
            decision = self._any_decisions[key] = self._index.allows_any(*key)
        return decision

    def while_allowed(
        self,
        caller: Caller,
        operation: AclOperation,
        type_: AclResourceType,
        names: Collection[str],
        *,
        is_checked: bool = False,
    ) -> AbstractAsyncContextManager[None]:
        """Return a context that raises `NotAuthorized` if the operation is not, or no longer, allowed on all resources.

        `is_checked`: the caller was found to be allowed just now."""
        if not self.is_on:
            return nullcontext()
        return PermissionWatch(self._watches, caller, operation, type_, names, is_checked=is_checked)

    def authorize(self, caller: Caller, operation: AclOperation, resource: Resource) -> None:
        """Raise `NotAuthorized` of the resource's type, and report it, unless the caller may perform the operation.

        Also raises as `permits`."""
        if not self.permits(caller, operation, resource):
            raise _refusal(caller, operation, resource)

    def permits(self, caller: Caller, operation: AclOperation, resource: Resource) -> bool:
        """Return whether the caller may perform an operation, and report a denial; for requests about many resources.

        Raises `Unavailable` in place of a denial while the broker starts."""
        if self.allows(caller, operation, resource):
            return True
        self._check_ready()
        self._on_denied(caller, operation, resource)
        return False

    def authorize_creation(self, caller: Caller, topic: str) -> None:
        """Raise `TopicNotAuthorized` unless the caller may create the topic: CREATE on it, or on the cluster."""
        if not self.allows(caller, AclOperation.CREATE, CLUSTER):
            self.authorize(caller, AclOperation.CREATE, Resource(AclResourceType.TOPIC, topic))

    def authorize_producer(self, caller: Caller) -> None:
        """Raise `ClusterNotAuthorized` unless the caller may have a producer id.

        It needs WRITE on any topic, or IDEMPOTENT_WRITE."""
        if not self.allows_any(caller, AclOperation.WRITE, AclResourceType.TOPIC):
            self.authorize(caller, AclOperation.IDEMPOTENT_WRITE, CLUSTER)

    def authorize_topics(self, caller: Caller, operation: AclOperation, topics: Iterable[str]) -> None:
        """Raise `TopicNotAuthorized` unless the caller may perform an operation on each of the topics."""
        if self.is_on:
            for topic in dict.fromkeys(topics):
                self.authorize(caller, operation, Resource(AclResourceType.TOPIC, topic))


def _refusal(caller: Caller, operation: AclOperation, resource: Resource) -> NotAuthorized:
    """Return the error for a caller who may not perform an operation."""
    error, kind = _REFUSALS[resource.type]
    name = "" if resource.type is AclResourceType.CLUSTER else f" {resource.name!r}"
    return error(
        f"{caller.principal} may not {operation.name} the {kind}{name}: an administrator can allow it with "
        "`raftlog acl create`"
    )
