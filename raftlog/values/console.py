"""Answers that only the console requests: rows of its lists, and the session of its user.

A list has `total` rows that the caller may see, `matching` of which pass the filter; `next` is the value of `after`
for the next page, None at the end. None in place of a number: the leaders do not answer, or there are too many
partitions for one answer."""

from collections.abc import Mapping, Sequence
from typing import Literal

from raftlog.values.brokers import BrokerDescription, BrokerLoad, ClusterHealth, GossipState
from raftlog.values.placement import BalancerStatus, NamespaceReplica, Reconfiguration
from raftlog.values.security import AclDescription, UserDescription
from raftlog.values.transactions import TransactionSummary
from raftlog.values.value import Count, LeaderNumber, NodeNumber, Value, Version


class AllowedOperations(Value, frozen=True):
    """Operations on the cluster that a user may perform."""

    describe_cluster: bool
    alter_cluster: bool
    describe_cluster_configs: bool
    alter_cluster_configs: bool
    create_topics: bool


class ConsoleSession(Value, frozen=True, kw_only=True):
    """User, broker and allowed operations. `user`: None without a login. `time_ms`: the broker's clock."""

    principal: str
    user: str | None
    node_id: NodeNumber
    cluster_id: str
    version: str
    time_ms: Count
    is_ready: bool
    writes_allowed: bool
    has_authorization: bool
    may: AllowedOperations


class ListPage(Value, frozen=True, kw_only=True):
    """Base of the pages of lists: total numbers of rows, and the position of the next page."""

    total: Count
    matching: Count
    next: str | None


# topics


class ListedTopic(Value, frozen=True, kw_only=True):
    """Topic with sums over its partitions, which are None if a leader does not answer.

    `records`: an upper bound unless `is_records_exact`, because compaction or transactions leave offsets without one.
    `bytes`: of the leaders' logs. `problem`: the first one of a partition."""

    name: str
    topic_id: str
    partitions: Count
    replication_factor: Count
    is_internal: bool
    created_ms: int
    records: Count | None
    is_records_exact: bool
    bytes: Count | None
    leaderless: Count | None
    under_replicated: Count | None
    problem: str | None


class TopicPage(ListPage, frozen=True, kw_only=True):
    """Page of the list of topics."""

    topics: Sequence[ListedTopic]


class ConfigRow(Value, frozen=True):
    """Setting of a topic; `is_default`: it is not set on the topic."""

    name: str
    value: str
    is_default: bool


class ConsoleTopic(Value, frozen=True):
    """Topic with its settings, which are None if the caller may not describe them."""

    topic: ListedTopic
    configs: Sequence[ConfigRow] | None


class PartitionRow(Value, frozen=True, kw_only=True):
    """Partition, as its leader reports it; without an answer of a leader its numbers are None."""

    partition: NodeNumber
    leader_id: LeaderNumber
    leader_epoch: Count | None
    log_start_offset: Count | None
    high_watermark: Count | None
    records: Count | None
    is_records_exact: bool
    bytes: Count | None
    replicas: Sequence[NamespaceReplica]
    problem: str | None
    version: Version | None


class PartitionPage(ListPage, frozen=True, kw_only=True):
    """Page of the partitions of a topic."""

    partitions: Sequence[PartitionRow]


# consumer groups


class GroupRow(Value, frozen=True, kw_only=True):
    """Consumer group. `state`: Kafka's name. `lag`: sum over its partitions; None if it is not known in time."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    members: Count
    generation: Count
    coordinator_id: LeaderNumber
    lag: Count | None


class GroupPage(ListPage, frozen=True, kw_only=True):
    """Page of the list of consumer groups, at most some seconds old."""

    groups: Sequence[GroupRow]


class OwnedPartition(Value, frozen=True):
    """Partition that is assigned to a group member."""

    topic: str
    partition: NodeNumber


class MemberRow(Value, frozen=True, kw_only=True):
    """Group member with the first of its `partition_count` partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partition_count: Count
    partitions: Sequence[OwnedPartition]


class ConsoleGroup(Value, frozen=True, kw_only=True):
    """Consumer group with the first of its `member_count` members. `leader`: member id of the group leader."""

    group: GroupRow
    is_simple: bool
    leader: str
    member_count: Count
    members: Sequence[MemberRow]


class LagRow(Value, frozen=True, kw_only=True):
    """Lag of a group in one partition. Unknown offsets are -1; `member_id` is empty if no member owns the partition."""

    topic: str
    partition: NodeNumber
    current_offset: int
    log_start_offset: int
    log_end_offset: int
    lag: int
    member_id: str
    client_id: str


class LagPage(ListPage, frozen=True, kw_only=True):
    """Page of the lags of a group, and the sum of all that are known."""

    lag: Count
    lags: Sequence[LagRow]


# brokers


class HealthReason(Value, frozen=True):
    """Reason why the cluster is unhealthy, and the next step."""

    reason: str
    action: str


class ConsoleHealth(Value, frozen=True, kw_only=True):
    """Health of the cluster at `time_ms`, with the next step for each reason."""

    time_ms: Count
    health: ClusterHealth
    reasons: Sequence[HealthReason]


class BrokerGossip(Value, frozen=True):
    """State of a broker by the answering broker's gossip, and the seconds in it."""

    state: GossipState
    state_s: float | None


class BrokerRow(BrokerDescription, frozen=True, kw_only=True):
    """Broker with its state and load by gossip, which are None without gossip."""

    gossip: BrokerGossip | None
    load: BrokerLoad | None
    is_controller: bool


class ConsoleBrokers(Value, frozen=True):
    """All brokers, and the state of the balancer, which is None while the controller has no leader."""

    brokers: Sequence[BrokerRow]
    balancer: BalancerStatus | None


class MovePage(ListPage, frozen=True, kw_only=True):
    """Page of the pending reassignments, of which there are at most 1,000."""

    moves: Sequence[Reconfiguration]


# transactions, users, entries of access control


class TransactionPage(ListPage, frozen=True, kw_only=True):
    """Page of the transactional ids."""

    transactions: Sequence[TransactionSummary]


class UserPage(ListPage, frozen=True, kw_only=True):
    """Page of the users."""

    users: Sequence[UserDescription]


class AclPage(ListPage, frozen=True, kw_only=True):
    """Page of the entries of access control."""

    acls: Sequence[AclDescription]


# records


class ShownBytes(Value, frozen=True):
    """Bytes of a key, a value or a header's value, as text. `size`: their number in the record.

    `json`: `data` is JSON text as it is stored; `text`: UTF-8; `base64`: other bytes. Of truncated bytes `data` has the
    first."""

    encoding: Literal["json", "text", "base64"]
    data: str
    size: Count
    is_truncated: bool


class ShownHeader(Value, frozen=True):
    """Header of a record, as the console shows it."""

    name: str
    value: ShownBytes | None


class ShownRecord(Value, frozen=True, kw_only=True):
    """Record, as the console shows it. `timestamp_ms` is -1 without one. A tombstone has no value.

    `size`: bytes of key, value and headers."""

    partition: NodeNumber
    offset: Count
    timestamp_ms: int
    size: Count
    key: ShownBytes | None
    value: ShownBytes | None
    headers: Sequence[ShownHeader]
    headers_left_out: Count


class RecordPage(Value, frozen=True, kw_only=True):
    """Records from an offset on; reading continues at `next_offset`.

    `scanned`: records that were compared with the filter. `is_end`: there are no further ones now."""

    records: Sequence[ShownRecord]
    next_offset: Count
    log_start_offset: Count
    high_watermark: Count
    scanned: Count
    is_end: bool


class RecordCount(Value, frozen=True, kw_only=True):
    """Number of records from `first_offset` on and below `next_offset`; complete if that is the end of the log."""

    records: Count
    first_offset: Count
    next_offset: Count
    end_offset: Count
    is_complete: bool


# history


class GroupLagHistory(Value, frozen=True):
    """Lag of a consumer group at the times of the history."""

    group: str
    lag: Sequence[float | None]


class ConsoleHistory(Value, frozen=True, kw_only=True):
    """Samples of the answering broker. All columns have one value for each of `times_ms`; None: not sampled."""

    node_id: NodeNumber
    interval_ms: Count
    time_ms: Count
    times_ms: Sequence[int]
    series: Mapping[str, Sequence[float | None]]
    groups: Sequence[GroupLagHistory]
