"""Permissions on resources, with Kafka's model and numbers (KIP-11, KIP-290).

    superuser → allowed; a matching DENY → denied; a matching ALLOW → allowed; no match → denied

An entry of an access control list (ACL) allows or denies one operation to one principal from one host on the resources
of one pattern. `ALL` means every operation; READ, WRITE, DELETE and ALTER allow DESCRIBE as well, and
ALTER_CONFIGS allows DESCRIBE_CONFIGS. Denials imply nothing: a denied READ does not deny DESCRIBE."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""Name of a literal pattern that matches every resource; host of an entry for every address."""
USER_PREFIX: Final = "User:"
"""Prefix of every principal in entries, such as `User:alice`: the only type of principals."""
EVERY_PRINCIPAL: Final = USER_PREFIX + WILDCARD
CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the one resource of the type CLUSTER."""


class AclOperation(IntEnum):
    """Operations, with Kafka's numbers. ANY is for filters only."""

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
    """Types of resources, with Kafka's numbers. ANY is for filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class PatternType(IntEnum):
    """Types of name patterns, with Kafka's numbers. ANY and MATCH are for filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclEffect(IntEnum):
    """Effects of an entry, with Kafka's numbers for permission types. ANY is for filters only."""

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
"""Operations that entries can name, for each type of resource."""
IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: frozenset({AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}),
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}
"""For an operation, the other operations whose permission includes it."""


class Resource(NamedTuple):
    """Resource on which an operation needs a permission."""

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
    """Filter of entries; a field that is None or ANY matches everything.

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
        """Return whether the name pattern of an entry matches that of the filter."""
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
