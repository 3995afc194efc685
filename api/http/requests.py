"""Declarations of request bodies, which `json_body` parses and from which OpenAPI schemas are derived.

A field with the value null counts as absent. Bounds of numbers, and lengths of lists and texts, are checked when a body
is read. `with_schema` declares narrower bounds for the OpenAPI document, which the operation itself checks. Bodies with
records have no declaration here: `records.new_records` parses them.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from raftlog.api.http import bounds
from raftlog.api.http.bounds import INT32_MAX, ROWS_MAX, TEXT_LENGTH_MAX
from raftlog.api.http.openapi.parts import INT64_MAX, Json
from raftlog.partitions.controller.machine.schema import REPLICAS_MAX
from raftlog.partitions.groups.joins import PROTOCOLS_MAX
from raftlog.security.permissions import WILDCARD
from raftlog.types import TopicPartition
from raftlog.values.security import EffectName, OperationName, PatternTypeName, ResourceTypeName


def with_schema(schema: Json, **checked: Any) -> Meta:
    """Return constraints for a field: `checked` at run time, and the narrower `schema` in the OpenAPI document."""
    return Meta(**checked, extra_json_schema={"shown": schema})


Int32: TypeAlias = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Int64: TypeAlias = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_LENGTH_MAX)]
GroupText: TypeAlias = Annotated[str, with_schema(bounds.GROUP_TEXT, max_length=TEXT_LENGTH_MAX)]
ClientId: TypeAlias = Annotated[str, with_schema(bounds.CLIENT_ID, max_length=TEXT_LENGTH_MAX)]
OffsetMetadata: TypeAlias = Annotated[str, with_schema(bounds.OFFSET_METADATA, max_length=TEXT_LENGTH_MAX)]
MemberBytes: TypeAlias = Annotated[bytes, with_schema(bounds.SUBSCRIPTION)]
Places: TypeAlias = Annotated[list["PartitionPlace"], with_schema({"maxItems": bounds.PLACES_MAX}, max_length=ROWS_MAX)]
Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=32_767)]
Timeout: TypeAlias = Annotated[int, Meta(ge=1, le=INT32_MAX)]


_POSITIONS = with_schema({"maxItems": bounds.PLACES_MAX // 2}, max_length=ROWS_MAX)
_SETTINGS = with_schema({"maxItems": ROWS_MAX})
SESSION_TIMEOUT_MS: Final = 10_000
TRANSACTION_TIMEOUT_MS: Final = 60_000
REBALANCE_TIMEOUT_MS: Final = 60_000
ASSIGNED_BY: Final = "leader"
PROTOCOL_TYPE: Final = "consumer"
RESET_EDGES: Final = ("earliest", "latest")


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of bodies; fields that are not declared are refused."""


class PartitionPlace(Body, frozen=True, kw_only=True):
    """Topic and partition in a body; they need not exist."""

    topic: Text
    partition: Int32

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


# consumer groups


class MemberBody(Body, frozen=True, kw_only=True):
    """Group member in a body, with its generation."""

    member_id: Text
    generation: Int32
    instance_id: Text | None = None


class NewOffset(PartitionPlace, frozen=True, kw_only=True):
    """Offset to commit: that of the next record to read."""

    offset: Int64
    metadata: OffsetMetadata | None = None
    leader_epoch: Int32 | None = None


class CommitBody(Body, frozen=True, kw_only=True):
    """Offsets to commit; with `member_id` and `generation` as a group member, otherwise without both."""

    offsets: Annotated[list[NewOffset], Meta(min_length=1, max_length=ROWS_MAX)]
    member_id: Text | None = None
    generation: Int32 | None = None
    instance_id: Text | None = None


class ResetPoint(Body, frozen=True, kw_only=True):
    """New point of a group's offsets, one of these fields; `timestamp` is in milliseconds since 1970."""

    timestamp: Int64 | None = None
    shift: Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    offset: Int64 | None = None


class ResetBody(Body, frozen=True, kw_only=True):
    """New offsets of a group without members; without topics and partitions, all partitions with a committed offset."""

    to: Annotated[str, with_schema({"enum": [*RESET_EDGES]})] | ResetPoint
    topics: Annotated[list[Text], Meta(max_length=ROWS_MAX)] | None = None
    partitions: Annotated[list[PartitionPlace], Meta(max_length=ROWS_MAX)] | None = None
    dry_run: bool | None = False


class ProtocolOfMember(Body, frozen=True, kw_only=True):
    """Assignor that a group member supports, with the member's subscription."""

    name: GroupText
    metadata: MemberBytes


class JoinBody(Body, frozen=True, kw_only=True):
    """Body of a request to join a consumer group.

    `member_id` is empty for a new member; a static member has an `instance_id`."""

    member_id: Text | None = None
    instance_id: GroupText | None = None
    client_id: ClientId | None = None
    session_timeout_ms: Annotated[Timeout, with_schema(bounds.SESSION_TIMEOUT)] | None = SESSION_TIMEOUT_MS
    rebalance_timeout_ms: Annotated[Timeout, with_schema(bounds.REBALANCE_TIMEOUT)] | None = REBALANCE_TIMEOUT_MS
    protocol_type: GroupText | None = PROTOCOL_TYPE
    protocols: Annotated[
        list[ProtocolOfMember], with_schema({"maxItems": PROTOCOLS_MAX}, min_length=1, max_length=ROWS_MAX)
    ]
    assigned_by: Annotated[Literal["leader", "broker"], with_schema({"enum": ["leader", "broker"]})] | None = (
        ASSIGNED_BY
    )


class AssignmentOfMember(Body, frozen=True, kw_only=True):
    """Assignment of one member in a sync of the group leader; the bytes are a ConsumerProtocolAssignment."""

    member_id: Text
    assignment: MemberBytes


class SyncBody(MemberBody, frozen=True, kw_only=True):
    """Member that requests its assignment; the group leader sends the assignments of all members."""

    assignments: Annotated[list[AssignmentOfMember], Meta(max_length=ROWS_MAX)] | None = None


class HeartbeatBody(MemberBody, frozen=True, kw_only=True):
    """Heartbeat, answered after `wait_ms` or when a rebalance begins."""

    wait_ms: Annotated[int, Meta(ge=0, le=bounds.HEARTBEAT_WAIT_MS_MAX)] | None = 0


class MemberThatLeaves(Body, frozen=True, kw_only=True):
    """Member that leaves, by its id, or a static one by its instance id."""

    member_id: Text | None = None
    instance_id: Text | None = None


class LeaveBody(Body, frozen=True, kw_only=True):
    """Body of a request that removes members from a consumer group."""

    members: Annotated[list[MemberThatLeaves], Meta(min_length=1, max_length=ROWS_MAX)]


# producers


class TransactionalProducerBody(Body, frozen=True, kw_only=True):
    """Body of a request to initialize a transactional producer.

    `producer_id` and `producer_epoch` are its present identity. If they are sent and another producer has replaced this
    identity meanwhile, the request fails (KIP-360)."""

    timeout_ms: Annotated[Timeout, with_schema(bounds.TRANSACTION_TIMEOUT)] | None = TRANSACTION_TIMEOUT_MS
    producer_id: Int64 | None = None
    producer_epoch: Epoch | None = None


class ProducerBody(Body, frozen=True, kw_only=True):
    """Identity of a transactional producer."""

    producer_id: Int64
    producer_epoch: Epoch


class TransactionOffsetsBody(ProducerBody, frozen=True, kw_only=True):
    """Offsets of a consumer group to commit with the transaction; a member's `generation` fences it."""

    group: Annotated[str, with_schema(bounds.NAME, max_length=TEXT_LENGTH_MAX)]
    offsets: Annotated[list[NewOffset], Meta(min_length=1, max_length=ROWS_MAX)]
    member_id: Text | None = None
    generation: Int32 | None = None
    instance_id: Text | None = None


class TransactionEndBody(ProducerBody, frozen=True, kw_only=True):
    """Body of a request that commits or aborts a transaction."""

    commit: bool


class ProducerFields(Body, frozen=True, kw_only=True):
    """Identity of an idempotent producer, and the sequence of the first record; partitions count separately."""

    producer_id: Int64
    producer_epoch: Epoch
    sequence: Int32


# consumer instances


class SubscribeBody(Body, frozen=True, kw_only=True):
    """Topics, which need not exist, or a pattern in RE2's syntax for whole names."""

    topics: Annotated[list[Text], with_schema(bounds.SUBSCRIBED_TOPICS, max_length=ROWS_MAX)] | None = None
    topic_pattern: Annotated[str, with_schema(bounds.TOPIC_PATTERN, max_length=TEXT_LENGTH_MAX)] | None = None


class PartitionsBody(Body, frozen=True, kw_only=True):
    """Body with partitions of a consumer instance."""

    partitions: Places | None = None


class AssignBody(Body, frozen=True, kw_only=True):
    """Partitions that a consumer instance shall read; an empty list removes all."""

    partitions: Places


class PositionOffset(PartitionPlace, frozen=True, kw_only=True):
    """Offset at which an instance continues; `metadata` is ignored."""

    offset: Int64
    metadata: Any = None


class PositionTime(PartitionPlace, frozen=True, kw_only=True):
    """Timestamp from which on an instance reads; `metadata` is ignored."""

    timestamp: Annotated[Any, with_schema(bounds.TIMESTAMP)]
    metadata: Any = None


class SeekBody(Body, frozen=True, kw_only=True):
    """Positions of an instance, at least one, and each partition once."""

    offsets: Annotated[list[PositionOffset], _POSITIONS] | None = None
    timestamps: Annotated[list[PositionTime], _POSITIONS] | None = None


class ConsumedOffset(PartitionPlace, frozen=True, kw_only=True):
    """Offset of the last consumed record of a partition."""

    offset: Annotated[int, Meta(ge=0, le=INT64_MAX - 1)]
    metadata: OffsetMetadata | None = None


class ConsumedBody(Body, frozen=True, kw_only=True):
    """Consumed records; without offsets, all delivered records."""

    offsets: (
        Annotated[list[ConsumedOffset], with_schema({"maxItems": bounds.PLACES_MAX}, min_length=1, max_length=ROWS_MAX)]
        | None
    ) = None


# topics and operators


class SettingOfTopic(Body, frozen=True, kw_only=True):
    """Setting of a topic; a number is converted to its text."""

    name: str
    value: Any = None


class NewTopicBody(Body, frozen=True, kw_only=True):
    """Topic to create; the cluster chooses the brokers."""

    topic_name: Annotated[str, with_schema(bounds.NEW_TOPIC_NAME)]
    partitions_count: Annotated[int, with_schema(bounds.PARTITIONS_COUNT)] | None = None
    replication_factor: Annotated[int, with_schema(bounds.REPLICATION_FACTOR)] | None = None
    replicas_assignments: Annotated[Any, with_schema({"enum": [None, []]})] = None
    configs: Annotated[list[SettingOfTopic], _SETTINGS] | None = None
    validate_only: bool = False


class GrownTopicBody(Body, frozen=True, kw_only=True):
    """New number of partitions of a topic, greater than the present one."""

    partitions_count: Annotated[int, with_schema(bounds.GROWN_PARTITIONS_COUNT)]
    validate_only: bool = False


class SettingChange(SettingOfTopic, frozen=True, kw_only=True):
    """Change of a setting: `SET` its value, or `DELETE` it, which restores the default."""

    operation: Any = None


class TopicSettingsBody(Body, frozen=True, kw_only=True):
    """Changes of a topic's settings, all or none."""

    data: Annotated[list[SettingChange], _SETTINGS]
    validate_only: bool = False


class NewReplica(Body, frozen=True, kw_only=True):
    """Broker that is to have a replica of a partition; `core` is ignored."""

    node_id: Int32
    core: Any = None


ReplicasBody: TypeAlias = Annotated[list[NewReplica], with_schema({"minItems": 1, "maxItems": REPLICAS_MAX})]
"""Replicas that a partition shall have, the preferred leader first."""


class RecoveryBody(Body, frozen=True, kw_only=True):
    """Consent to the loss of records, and the node id of the survivor if it is chosen explicitly."""

    accept_loss: bool
    survivor: Int32 | None = None


class ClusterSettingsBody(Body, frozen=True, kw_only=True):
    """Cluster settings to set, and names of settings to reset to their defaults."""

    upsert: Annotated[dict[str, Any], with_schema(bounds.CLUSTER_SETTINGS)] = field(default_factory=dict)
    remove: Annotated[list[str], with_schema(bounds.CLUSTER_SETTING_NAMES)] = field(default_factory=list)


class FeatureLevelBody(Body, frozen=True, kw_only=True):
    """Feature level to raise the cluster to; by default the highest that all brokers support."""

    feature_level: Annotated[int, with_schema(bounds.FEATURE_LEVEL)] | UnsetType = UNSET


# security


class NewUserBody(Body, frozen=True, kw_only=True):
    """Body of a request that creates a user."""

    name: Annotated[str, with_schema(bounds.USER_NAME, max_length=TEXT_LENGTH_MAX)]
    password: Annotated[str, with_schema(bounds.PASSWORD, max_length=TEXT_LENGTH_MAX)]
    is_superuser: bool = False


class PasswordBody(Body, frozen=True, kw_only=True):
    """Body of a request that changes the password of a user."""

    password: Annotated[str, with_schema(bounds.PASSWORD, max_length=TEXT_LENGTH_MAX)]


class NewAcl(Body, frozen=True, kw_only=True):
    """Entry of access control to create."""

    resource_type: ResourceTypeName
    resource_name: Annotated[str, with_schema(bounds.ACL_NAME, max_length=TEXT_LENGTH_MAX)]
    pattern_type: PatternTypeName = "LITERAL"
    principal: Annotated[str, with_schema(bounds.PRINCIPAL, max_length=TEXT_LENGTH_MAX)]
    host: Text = WILDCARD
    operation: OperationName
    permission: EffectName


class AclsBody(Body, frozen=True, kw_only=True):
    """Entries of access control to create."""

    acls: Annotated[list[NewAcl], Meta(min_length=1, max_length=ROWS_MAX)]


class QuotasBody(Body, frozen=True, kw_only=True):
    """Quotas of an entity to set and to remove."""

    entity: Annotated[dict[str, Any], with_schema(bounds.QUOTA_ENTITY)]
    upsert: Annotated[dict[str, Any], with_schema(bounds.QUOTAS)] = field(default_factory=dict)
    remove: Annotated[list[str], with_schema(bounds.QUOTA_NAMES)] = field(default_factory=list)
