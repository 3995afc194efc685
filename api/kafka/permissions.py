"""Permissions that Kafka's APIs need, and the operations that a caller may perform on a resource (KIP-430).

Handlers check them for each topic, group or transactional id of a request, before they look it up, as Kafka does. A
refusal becomes the error code of the answer's row. Lists contain only resources that the caller may describe."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from raftlog.api.kafka.api import ApiKey
from raftlog.partitions.caller import Caller
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import OPERATIONS, AclOperation, AclResourceType, Resource

_TOPIC, _GROUP, _CLUSTER = AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER
_TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID


class ApiPermission(NamedTuple):
    """Operation that the caller of an API must be allowed to perform, on resources of a type."""

    operation: AclOperation
    type: AclResourceType


def _permissions(*pairs: tuple[AclOperation, AclResourceType]) -> tuple[ApiPermission, ...]:
    """Return permissions for pairs of operation and resource type."""
    return tuple(ApiPermission(*pair) for pair in pairs)


API_PERMISSIONS: Final[Mapping[ApiKey, tuple[ApiPermission, ...]]] = {
    ApiKey.PRODUCE: _permissions((AclOperation.WRITE, _TOPIC)),
    ApiKey.FETCH: _permissions((AclOperation.READ, _TOPIC)),
    ApiKey.LIST_OFFSETS: _permissions((AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.METADATA: _permissions((AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.OFFSET_COMMIT: _permissions((AclOperation.READ, _GROUP), (AclOperation.READ, _TOPIC)),
    ApiKey.OFFSET_FETCH: _permissions((AclOperation.DESCRIBE, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.FIND_COORDINATOR: _permissions((AclOperation.DESCRIBE, _GROUP)),
    ApiKey.JOIN_GROUP: _permissions((AclOperation.READ, _GROUP)),
    ApiKey.HEARTBEAT: _permissions((AclOperation.READ, _GROUP)),
    ApiKey.LEAVE_GROUP: _permissions((AclOperation.READ, _GROUP)),
    ApiKey.SYNC_GROUP: _permissions((AclOperation.READ, _GROUP)),
    ApiKey.DESCRIBE_GROUPS: _permissions((AclOperation.DESCRIBE, _GROUP)),
    ApiKey.LIST_GROUPS: _permissions((AclOperation.DESCRIBE, _GROUP)),
    ApiKey.CREATE_TOPICS: _permissions((AclOperation.CREATE, _CLUSTER), (AclOperation.CREATE, _TOPIC)),
    ApiKey.DELETE_TOPICS: _permissions((AclOperation.DELETE, _TOPIC)),
    ApiKey.DELETE_RECORDS: _permissions((AclOperation.DELETE, _TOPIC)),
    ApiKey.INIT_PRODUCER_ID: _permissions((AclOperation.IDEMPOTENT_WRITE, _CLUSTER), (AclOperation.WRITE, _TOPIC)),
    ApiKey.ADD_PARTITIONS_TO_TXN: _permissions((AclOperation.WRITE, _TRANSACTIONAL_ID), (AclOperation.WRITE, _TOPIC)),
    ApiKey.ADD_OFFSETS_TO_TXN: _permissions((AclOperation.WRITE, _TRANSACTIONAL_ID), (AclOperation.READ, _GROUP)),
    ApiKey.END_TXN: _permissions((AclOperation.WRITE, _TRANSACTIONAL_ID)),
    ApiKey.WRITE_TXN_MARKERS: _permissions((AclOperation.ALTER, _CLUSTER)),
    ApiKey.TXN_OFFSET_COMMIT: _permissions(
        (AclOperation.WRITE, _TRANSACTIONAL_ID), (AclOperation.READ, _GROUP), (AclOperation.READ, _TOPIC)
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: _permissions((AclOperation.DESCRIBE, _TRANSACTIONAL_ID)),
    ApiKey.LIST_TRANSACTIONS: _permissions((AclOperation.DESCRIBE, _TRANSACTIONAL_ID)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _permissions((AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.DESCRIBE_ACLS: _permissions((AclOperation.DESCRIBE, _CLUSTER)),
    ApiKey.CREATE_ACLS: _permissions((AclOperation.ALTER, _CLUSTER)),
    ApiKey.DELETE_ACLS: _permissions((AclOperation.ALTER, _CLUSTER)),
    ApiKey.DESCRIBE_CONFIGS: _permissions(
        (AclOperation.DESCRIBE_CONFIGS, _TOPIC), (AclOperation.DESCRIBE_CONFIGS, _CLUSTER)
    ),
    ApiKey.ALTER_CONFIGS: _permissions((AclOperation.ALTER_CONFIGS, _TOPIC), (AclOperation.ALTER_CONFIGS, _CLUSTER)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _permissions(
        (AclOperation.ALTER_CONFIGS, _TOPIC), (AclOperation.ALTER_CONFIGS, _CLUSTER)
    ),
    ApiKey.DESCRIBE_LOG_DIRS: _permissions((AclOperation.DESCRIBE, _CLUSTER)),
    ApiKey.CREATE_PARTITIONS: _permissions((AclOperation.ALTER, _TOPIC)),
    ApiKey.DELETE_GROUPS: _permissions((AclOperation.DELETE, _GROUP)),
    ApiKey.ELECT_LEADERS: _permissions((AclOperation.ALTER, _CLUSTER)),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _permissions((AclOperation.ALTER, _CLUSTER)),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _permissions((AclOperation.DESCRIBE, _CLUSTER)),
    ApiKey.OFFSET_DELETE: _permissions((AclOperation.DELETE, _GROUP), (AclOperation.READ, _TOPIC)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _permissions((AclOperation.DESCRIBE_CONFIGS, _CLUSTER)),
    ApiKey.ALTER_CLIENT_QUOTAS: _permissions((AclOperation.ALTER_CONFIGS, _CLUSTER)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _permissions((AclOperation.DESCRIBE, _CLUSTER)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _permissions((AclOperation.ALTER, _CLUSTER)),
    ApiKey.DESCRIBE_CLUSTER: _permissions((AclOperation.DESCRIBE, _CLUSTER)),
    ApiKey.DESCRIBE_PRODUCERS: _permissions((AclOperation.READ, _TOPIC)),
}
"""Permissions that each API needs; for CREATE_TOPICS and INIT_PRODUCER_ID one of the two is enough.

With a transactional id, PRODUCE also needs WRITE on the id, INIT_PRODUCER_ID needs only WRITE on the id, and
FIND_COORDINATOR needs DESCRIBE on the id instead of the group."""
OPEN_APIS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""APIs that need no permission."""


def topic_resource(name: str) -> Resource:
    """Return a topic as a resource."""
    return Resource(_TOPIC, name)


def transactional_id_resource(name: str) -> Resource:
    """Return a transactional id as a resource."""
    return Resource(_TRANSACTIONAL_ID, name)


def group_resource(name: str) -> Resource:
    """Return a consumer group as a resource."""
    return Resource(_GROUP, name)


def denied_topics(
    authorizer: Authorizer, caller: Caller, operation: AclOperation, topics: Iterable[str]
) -> frozenset[str]:
    """Return the topics on which the caller may not perform an operation; the authorizer reports each denial."""
    if not authorizer.is_on:
        return frozenset()
    return frozenset(
        topic for topic in dict.fromkeys(topics) if not authorizer.permits(caller, operation, topic_resource(topic))
    )


def authorized_operations(authorizer: Authorizer, caller: Caller, resource: Resource) -> frozenset[int]:
    """Return the numbers of the operations that the caller may perform on a resource; answers have them as a bitmap."""
    return frozenset(
        int(operation)
        for operation in OPERATIONS[resource.type]
        if operation is not AclOperation.ALL and authorizer.allows(caller, operation, resource)
    )
