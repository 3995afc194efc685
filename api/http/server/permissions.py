"""Permissions that endpoints declare as data. Those for names in the path are checked before the handler is called.

named in the path        checked in `HttpApp.handle`: 403 for a topic or group, whether or not it exists
`IN_REQUEST`             named in the body or the query: the handler checks them, through `Handlers`
`LISTED`                 the answer contains only what the caller may describe
of the cluster           checked in `HttpApp.handle`
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from raftlog.partitions.caller import Caller
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import CLUSTER, AclOperation, AclResourceType, Resource

IN_REQUEST: Final = "request"
"""Place of resources that the body or the query names."""
LISTED: Final = "listed"
"""Place of resources that the answer lists."""
HIDDEN_TEXT: Final = "a partition of a topic that you may not describe has a problem"
"""Text that replaces a text with the name of a hidden partition."""
_CLUSTER_PLACE: Final = ""


class EndpointPermission(NamedTuple):
    """Permission that an endpoint requires: an operation on the resource whose name is in the request.

    `place` is the name of a parameter of the path, `IN_REQUEST`, `LISTED`, or empty for the cluster."""

    operation: AclOperation
    type: AclResourceType
    place: str = _CLUSTER_PLACE


class RoutePermission(NamedTuple):
    """Permission that a route requires. `argument`: number of the path's argument with the name; None: the cluster."""

    operation: AclOperation
    type: AclResourceType
    argument: int | None


def on_topic(operation: AclOperation, place: str = "topic") -> tuple[EndpointPermission]:
    """Return the permission for an operation on a topic, in the path unless another place is given."""
    return (EndpointPermission(operation, AclResourceType.TOPIC, place),)


def on_group(operation: AclOperation, place: str = "group") -> tuple[EndpointPermission]:
    """Return the permission for an operation on a consumer group, in the path unless another place is given."""
    return (EndpointPermission(operation, AclResourceType.GROUP, place),)


def on_transactional_id(operation: AclOperation, place: str = "transactional_id") -> tuple[EndpointPermission]:
    """Return the permission for an operation on a transactional id, in the path unless another place is given."""
    return (EndpointPermission(operation, AclResourceType.TRANSACTIONAL_ID, place),)


def on_cluster(operation: AclOperation) -> tuple[EndpointPermission]:
    """Return the permission for an operation on the cluster."""
    return (EndpointPermission(operation, AclResourceType.CLUSTER),)


DESCRIBE_TOPIC: Final = on_topic(AclOperation.DESCRIBE)
LISTED_TOPICS: Final = on_topic(AclOperation.DESCRIBE, LISTED)
TOPICS_READ: Final = on_topic(AclOperation.READ, IN_REQUEST)
"""READ on the topics that the request names."""
DESCRIBE_GROUP: Final = on_group(AclOperation.DESCRIBE)
READ_GROUP: Final = on_group(AclOperation.READ)
DELETE_GROUP: Final = on_group(AclOperation.DELETE)
LISTED_GROUPS: Final = on_group(AclOperation.DESCRIBE, LISTED)
DESCRIBE_TRANSACTION: Final = on_transactional_id(AclOperation.DESCRIBE)
WRITE_TRANSACTION: Final = on_transactional_id(AclOperation.WRITE)
LISTED_TRANSACTIONS: Final = on_transactional_id(AclOperation.DESCRIBE, LISTED)
DESCRIBE_CLUSTER: Final = on_cluster(AclOperation.DESCRIBE)
ALTER_CLUSTER: Final = on_cluster(AclOperation.ALTER)
DESCRIBE_CLUSTER_CONFIGS: Final = on_cluster(AclOperation.DESCRIBE_CONFIGS)
ALTER_CLUSTER_CONFIGS: Final = on_cluster(AclOperation.ALTER_CONFIGS)


def route_permissions(permissions: Sequence[EndpointPermission], pattern: str) -> tuple[RoutePermission, ...]:
    """Return the permissions that are checked before the handler of a path's pattern."""
    arguments = [segment[1:-1] for segment in pattern.split("/") if segment.startswith("{")]
    return tuple(
        RoutePermission(operation, type_, None if place == _CLUSTER_PLACE else arguments.index(place))
        for operation, type_, place in permissions
        if place not in (IN_REQUEST, LISTED)
    )


def authorize_route(
    authorizer: Authorizer, caller: Caller, permissions: Sequence[RoutePermission], args: Sequence[str]
) -> None:
    """Raise `NotAuthorized` unless the caller has all permissions of a route."""
    for operation, type_, argument in permissions:
        resource = CLUSTER if argument is None else Resource(type_, args[argument])
        authorizer.authorize(caller, operation, resource)


class Visibility:
    """Topics and groups that a caller may describe, for answers that list them."""

    def __init__(self, authorizer: Authorizer, caller: Caller) -> None:
        self._authorizer, self._caller = authorizer, caller
        self.is_limited = authorizer.is_on
        """Whether anything may be hidden."""

    def has_topic(self, name: str) -> bool:
        """Return whether the caller may describe a topic."""
        return self._has(AclResourceType.TOPIC, name)

    def has_group(self, name: str) -> bool:
        """Return whether the caller may describe a consumer group."""
        return self._has(AclResourceType.GROUP, name)

    def has_transactional_id(self, name: str) -> bool:
        """Return whether the caller may describe a transactional id."""
        return self._has(AclResourceType.TRANSACTIONAL_ID, name)

    def _has(self, type_: AclResourceType, name: str) -> bool:
        """Return whether the caller may describe a resource."""
        return self._authorizer.allows(self._caller, AclOperation.DESCRIBE, Resource(type_, name))

    def topics(self, names: Iterable[str]) -> list[str]:
        """Return the names of the topics that the caller may describe."""
        return [name for name in names if self.has_topic(name)]

    def partitions(self, names: Iterable[str]) -> list[str]:
        """Return the partitions, as topic/number, of the topics that the caller may describe."""
        return [name for name in names if self.has_topic(name.rpartition("/")[0])]

    def texts(self, texts: Iterable[str], topics: Iterable[str]) -> list[str]:
        """Return texts for operators; `HIDDEN_TEXT` replaces each that names a partition of a hidden topic."""
        hidden = [f"{topic}/" for topic in topics if not self.has_topic(topic)]
        return [HIDDEN_TEXT if any(name in text for name in hidden) else text for text in texts]
