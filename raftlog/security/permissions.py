"""Permissions on resources, with Kafka's model and numbers (KIP-11, KIP-290).

    superuser → allowed; a matching DENY → denied; a matching ALLOW → allowed; no match → denied

An entry of an access control list (ACL) allows or denies one operation to one principal from one host on the resources
of one pattern. `ALL` stands for every operation; READ, WRITE, DELETE and ALTER allow DESCRIBE as well, and
ALTER_CONFIGS allows DESCRIBE_CONFIGS. Denials imply nothing: a denied READ does not deny DESCRIBE."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""Name of a literal pattern that matches every resource; host of an entry for every address."""
USER_PREFIX: Final = "User:"
"""Type of all principals in entries: `User:alice`."""
EVERY_PRINCIPAL: Final = USER_PREFIX + WILDCARD
CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the one resource of the type CLUSTER."""


class AclOperation(IntEnum):
    """Operations, by Kafka's numbers. ANY is for filters only."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class AclResourceType(IntEnum):
    """Types of resources, by Kafka's numbers. ANY is for filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class PatternType(IntEnum):
    """Types of name patterns, by Kafka's numbers. ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclEffect(IntEnum):
    """Effects of an entry, by Kafka's numbers for permission types. ANY is for filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS: Final[Mapping[AclResourceType, frozenset[AclOperation]]] = {
    AclResourceType.TOPIC: frozenset(
        {
            AclOperation.ALL,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResourceType.GROUP: frozenset({AclOperation.ALL, AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE}),
    AclResourceType.CLUSTER: frozenset(
        {
            AclOperation.ALL,
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        }
    ),
    AclResourceType.TRANSACTIONAL_ID: frozenset({AclOperation.ALL, AclOperation.WRITE, AclOperation.DESCRIBE}),
}
"""Operations that entries for each type of resource can name."""
_IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}


class Resource(NamedTuple):
    """Resource of an operation."""

    type: AclResourceType
    name: str


CLUSTER: Final = Resource(AclResourceType.CLUSTER, CLUSTER_NAME)


class Acl(NamedTuple):
    """Entry of the access control list. `principal` is `User:NAME` or `User:*`, `host` an IP address or `*`."""

    resource_type: AclResourceType
    pattern_type: PatternType
    resource_name: str
    principal: str
    host: str
    operation: AclOperation
    effect: AclEffect


class AclFilter(NamedTuple):
    """Filter of entries: a field that is None or ANY matches everything.

    The pattern type MATCH selects the entries that apply to a resource named `resource_name`."""

    resource_type: AclResourceType = AclResourceType.ANY
    pattern_type: PatternType = PatternType.ANY
    resource_name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    effect: AclEffect = AclEffect.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter selects an entry."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.effect in (AclEffect.ANY, acl.effect)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        return self.pattern_type is PatternType.MATCH and _applies(acl, self.resource_name)


def _applies(acl: Acl, name: str) -> bool:
    """Return whether the pattern of an entry matches a resource of its type."""
    if acl.pattern_type is PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


class AclIndex:
    """Entries for look-up by resource; immutable.

    The cost of a decision grows with the length of the resource's name, not with the number of resources."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._literal: dict[tuple[AclResourceType, str], list[Acl]] = {}
        self._prefixed: dict[tuple[AclResourceType, str], list[Acl]] = {}
        self._by_type: dict[AclResourceType, list[Acl]] = {}
        for acl in acls:
            patterns = self._prefixed if acl.pattern_type is PatternType.PREFIXED else self._literal
            patterns.setdefault((acl.resource_type, acl.resource_name), []).append(acl)
            self._by_type.setdefault(acl.resource_type, []).append(acl)

    def allows(self, principal: str, host: str, operation: AclOperation, resource: Resource) -> bool:
        """Return whether the entries allow an operation; `principal` is a name without its type."""
        own = USER_PREFIX + principal
        is_allowed = False
        granting = _granting(operation)
        for acl in self._matching(resource):
            if acl.principal not in (own, EVERY_PRINCIPAL) or acl.host not in (host, WILDCARD):
                continue
            if acl.effect is AclEffect.DENY:
                if acl.operation in (operation, AclOperation.ALL):
                    return False
            elif acl.operation in granting:
                is_allowed = True
        return is_allowed

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Return whether the entries allow an operation on any resource of a type, existing or not (KIP-679).

        An allowed pattern that a denial covers completely does not count."""
        own = (USER_PREFIX + principal, EVERY_PRINCIPAL)
        relevant = [
            acl for acl in self._by_type.get(resource_type, ()) if acl.principal in own and acl.host in (host, WILDCARD)
        ]
        denied = [
            acl for acl in relevant if acl.effect is AclEffect.DENY and acl.operation in (operation, AclOperation.ALL)
        ]
        granting = _granting(operation)
        return any(
            acl.effect is AclEffect.ALLOW
            and acl.operation in granting
            and not any(_covers(deny, acl) for deny in denied)
            for acl in relevant
        )

    def _matching(self, resource: Resource) -> Iterable[Acl]:
        type_, name = resource
        yield from self._literal.get((type_, name), ())
        if name != WILDCARD:
            yield from self._literal.get((type_, WILDCARD), ())
        if self._prefixed:
            for end in range(1, len(name) + 1):
                yield from self._prefixed.get((type_, name[:end]), ())


def _granting(operation: AclOperation) -> frozenset[AclOperation]:
    """Return the operations whose permission includes this one."""
    return _IMPLIED_BY.get(operation, frozenset()) | {operation, AclOperation.ALL}


def _covers(wide: Acl, narrow: Acl) -> bool:
    """Return whether the pattern of one entry matches every resource that the pattern of another one matches."""
    if wide.pattern_type is PatternType.PREFIXED:
        return narrow.resource_name != WILDCARD and narrow.resource_name.startswith(wide.resource_name)
    if wide.resource_name == WILDCARD:
        return True
    return narrow.pattern_type is PatternType.LITERAL and narrow.resource_name == wide.resource_name
