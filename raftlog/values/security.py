"""Users, entries of access control and client quotas, as HTTP and the commands show them. None holds a secret."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from raftlog.values.value import Value

MechanismName: TypeAlias = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
ResourceTypeName: TypeAlias = Literal["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"]
PatternTypeName: TypeAlias = Literal["LITERAL", "PREFIXED"]
OperationName: TypeAlias = Literal[
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
]
EffectName: TypeAlias = Literal["ALLOW", "DENY"]


class UserDescription(Value, frozen=True):
    """User; with any mechanism it can use PLAIN and HTTP's Basic as well."""

    name: str
    mechanisms: Sequence[MechanismName]
    is_superuser: bool


class AclDescription(Value, frozen=True):
    """Entry of access control, with the field names of the REST Proxy."""

    resource_type: ResourceTypeName
    resource_name: str
    pattern_type: PatternTypeName
    principal: str
    host: str
    operation: OperationName
    permission: EffectName


class QuotaDescription(Value, frozen=True):
    """Quotas of an entity: names by `user`, `client-id` or `ip`; an empty name is the default of its type."""

    entity: Mapping[str, str]
    quotas: Mapping[str, float]
