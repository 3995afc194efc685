"""What operators are told: frozen values, made from what the controller decided and what brokers say of themselves.

Partitions are named by topic and number. Numbers of bytes are about; None where nobody who knows answered. `reason` and
`reasons` are sentences: what is waited for or missing, and what to do. A `version` is that of the row that a change
would be compared with (`expected_version`).
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

MembershipStatus: TypeAlias = Literal["active", "draining"]
BalancerMode: TypeAlias = Literal["off", "node_add", "continuous"]
BalancerState: TypeAlias = Literal["off", "ready", "in_progress", "stalled", "starting"]
SettingType: TypeAlias = Literal["string", "integer", "boolean"]
SettingValue: TypeAlias = str | int | bool


class Maintenance(NamedTuple):
    """How far a broker in maintenance is. Not `draining`: it is not in maintenance, and the rest means nothing.

    `finished`: it leads nothing any more that another voter could lead. `partitions` = those that it leads still,
    `eligible` of them can be led by others, `transferring` are on their way, `failed` could not be handed over lately.
    `errors`: something keeps it from finishing; `reasons` say what.
    """

    node_id: int
    draining: bool
    finished: bool
    errors: bool
    partitions: int
    eligible: int
    transferring: int
    failed: int
    reasons: Sequence[str]
    version: int
    """Of the broker's maintenance; 0 when it never was in maintenance."""


class Move(NamedTuple):
    """A partition whose members are not what they shall be.

    `from_nodes` vote now (in a joint configuration those of before), `to_nodes` shall; `learners` are being filled.
    `bytes_left` + `bytes_moved` = `partition_bytes` for each learner, all learners taken together.
    """

    topic: str
    partition: int
    from_nodes: Sequence[int]
    to_nodes: Sequence[int]
    learners: Sequence[int]
    bytes_left: int | None
    bytes_moved: int | None
    partition_bytes: int | None
    bytes_per_s: int
    reason: str | None
    """What is waited for; None while it goes on."""
    version: int
    """Of the assignment."""


class Decommission(NamedTuple):
    """How far a broker is that shall go. `finished`: it holds nothing and was removed from the cluster."""

    node_id: int
    finished: bool
    replicas_left: int
    bytes_left: int | None
    allocation_failures: Sequence[str]
    """Partitions, as topic/number, for whose replicas there is no place elsewhere."""
    partitions: Sequence[Move]
    """Partitions that have a replica on it still; at most `MOVES_MAX`, those that move first."""
    reason: str | None
    """Why it does not go on, or what it waits for."""


class LocalReplica(NamedTuple):
    """A replica on the broker that was asked. `leader`: None when it knows none. `status`: in words."""

    topic: str
    partition: int
    leader: int | None
    is_leader: bool
    is_under_replicated: bool
    """As far as its leader is here."""
    replicas: Sequence[int]
    bytes: int
    status: str


class LocalSummary(NamedTuple):
    """Of the replicas on the broker that was asked."""

    count: int  # type: ignore[assignment]  # tuple.count is never wanted here
    leaderless: int
    under_replicated: int


class ConfigEntry(NamedTuple):
    """One setting of the cluster: what it is now, and what it can be."""

    value: SettingValue
    default: SettingValue
    is_default: bool
    type: SettingType
    doc: str
    allowed: str
    """The values that it can have, in words."""


class ClusterConfig(NamedTuple):
    """All settings of the cluster by name, sorted."""

    version: int
    """0 when none was ever changed."""
    entries: Mapping[str, ConfigEntry]


class BrokerConfig(NamedTuple):
    """Which version of the cluster's settings a broker has applied; None when it does not answer."""

    node_id: int
    version: int | None


class BalancerStatus(NamedTuple):
    """What the balancer of the controller's leader does. `stalled`: something should move and cannot; `reasons` why."""

    mode: BalancerMode
    status: BalancerState
    unavailable_nodes: Sequence[int]
    over_disk_limit_nodes: Sequence[int]
    seconds_since_last_tick: float | None
    current_reassignments_count: int
    reasons: Sequence[str]


class BrokerLevels(NamedTuple):
    """What a broker knows as it registered last; `version` is its release, None when it does not answer."""

    node_id: int
    level_min: int
    level_max: int
    version: str | None


class Levels(NamedTuple):
    """The cluster's feature level, and how high it could be. Above `feature_level`: the upgrade is not finished."""

    feature_level: int
    highest_known_by_all: int
    brokers: Sequence[BrokerLevels]
    absent_seeds: Sequence[int]
    """First brokers of the cluster that never registered: the level cannot rise before they do or are removed."""


MOVES_MAX = 1_000
"""Partitions named in one answer."""
