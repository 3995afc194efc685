"""Answers about brokers: state, maintenance, decommission, feature levels, gossip, loggers; health of the cluster.

Sizes are approximate; None if no answering broker has them. `reason` and `reasons` are sentences: the missing or
awaited condition, and the next step."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from raftlog.values.placement import LeavingPartition
from raftlog.values.value import NO_LEADER, Count, LeaderNumber, NodeNumber, Value, Version

MembershipStatus: TypeAlias = Literal["active", "draining"]
GossipState: TypeAlias = Literal["alive", "suspect", "dead", "left", "unknown"]
HEALTH_NAMES_MAX = 128
"""Maximum number of partitions of one kind in an answer about health."""


class MaintenanceStatus(Value, frozen=True):
    """Progress of a broker's maintenance. Without `draining` it is not in maintenance; other fields are void.

    `finished`: the broker leads no partition that another voter could lead. `partitions`: number that it still leads;
    `eligible` of them can be led by others, `transferring` are being transferred, `failed` transfers failed
    recently. `errors`: a condition prevents the end of the transfers; `reasons` describe it."""

    draining: bool = False
    finished: bool = False
    errors: bool = False
    partitions: Count = 0
    eligible: Count = 0
    transferring: Count = 0
    failed: Count = 0
    reasons: Sequence[str] = ()


class Maintenance(MaintenanceStatus, frozen=True, kw_only=True):
    """Maintenance of one broker; `version` is 0 if the broker was never in maintenance."""

    node_id: NodeNumber
    version: Version = 0

    @property
    def status(self) -> MaintenanceStatus:
        """The progress alone, without `node_id` and `version`, as in the list of brokers."""
        return msgspec.convert(self, MaintenanceStatus, from_attributes=True)


class RequestedMaintenance(Value, frozen=True):
    """Maintenance mode that a broker was ordered to enter or leave, and the version of that order."""

    node_id: NodeNumber
    draining: bool
    version: Version


class BrokerReference(Value, frozen=True):
    """Broker to which a request applies."""

    node_id: NodeNumber


class BrokerUuid(Value, frozen=True):
    """Id of a broker's disk."""

    node_id: NodeNumber
    uuid: str | None


class DiskSpace(Value, frozen=True):
    """Space on the disk of a broker's directory, in bytes; -1 if the file system does not report a number.

    With less than `reserve` free, the broker accepts no records. `filling_per_s`: bytes per second by which the free
    space shrank in the last two minutes, negative if it grew, None if it was not measured yet."""

    path: str
    free: int = -1
    total: int = -1
    reserve: Count = 0
    filling_per_s: int | None = None


class LevelRange(Value, frozen=True):
    """Lowest and highest feature level that a broker supports."""

    min: int = 0
    max: int = 0


class BrokerDescription(Value, frozen=True, kw_only=True):
    """Broker of the cluster. `is_alive`: it answered just now. `problem`: reason why it does not work properly.

    `host`: replicas of a partition are on distinct hosts. `row_version` is that of the controller's row of the broker.
    """

    node_id: NodeNumber
    host: str | None = None
    rack: str | None = None
    http_address: str | None = None
    kafka_addresses: Mapping[str, str] = field(default_factory=dict)
    """HOST:PORT for Kafka's clients by the name of the listener."""
    internal_rpc_address: str | None = None
    internal_rpc_port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    version: str | None = None
    """Release; None while the broker does not answer."""
    membership_status: MembershipStatus = "active"
    disk_uuid: str | None = None
    """Id of the disk; a replacement disk has another id."""
    is_alive: bool
    disk_space: Sequence[DiskSpace] = ()
    maintenance_status: MaintenanceStatus = MaintenanceStatus()
    boot_epoch: Count = 0
    """Number of starts of the broker's disk."""
    uptime_s: float | None = None
    feature_levels: LevelRange = LevelRange()
    row_version: Count = 0
    problem: str | None = None

    @property
    def http(self) -> str | None:
        """HOST:PORT of the broker's HTTP API."""
        return self.http_address

    @property
    def rpc(self) -> str | None:
        """HOST:PORT for RPC from other brokers."""
        host, port = self.internal_rpc_address, self.internal_rpc_port
        if not host or not port:
            return None
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def is_draining(self) -> bool:
        """Whether the broker's replicas are moved to other brokers."""
        return self.membership_status == "draining"

    @property
    def in_maintenance(self) -> bool:
        """Whether the broker is in maintenance mode: it leads no partition and gets no new replicas."""
        return self.maintenance_status.draining


class ClusterHealth(Value, frozen=True):
    """Health of the cluster. Partitions are `topic/number`, at most 128 of each kind; the counts include all.

    `leaderless_partitions`: without a leader for longer than an election or a leadership transfer takes;
    `electing_partitions`: without a leader at this moment. `lagging_partitions`: with a replica that lacks committed
    records at this moment, though it may be in sync; a busy partition may be among them at any time.
    `reconfigurations_count`: partitions with a reassignment pending. `notes`: remarks for operators about a
    healthy cluster.
    """

    is_healthy: bool
    unhealthy_reasons: Sequence[str]
    controller: LeaderNumber = field(name="controller_id")
    all_nodes: Sequence[NodeNumber]
    nodes_down: Sequence[NodeNumber]
    leaderless_partitions: Sequence[str]
    leaderless_count: Count
    under_replicated_partitions: Sequence[str]
    under_replicated_count: Count
    nodes_in_maintenance: Sequence[NodeNumber] = ()
    nodes_draining: Sequence[NodeNumber] = ()
    reconfigurations_count: Count = 0
    lagging_partitions: Sequence[str] = ()
    lagging_count: Count = 0
    electing_partitions: Sequence[str] = ()
    electing_count: Count = 0
    notes: Sequence[str] = ()

    @property
    def controller_id(self) -> int | None:
        """Node id of the controller's leader; None while there is none."""
        return None if self.controller == NO_LEADER else self.controller


class Decommission(Value, frozen=True):
    """Progress of a decommission. `finished`: the broker holds no replicas and was removed from the cluster.

    `allocation_failures`: partitions, as topic/number, whose replicas cannot be placed elsewhere. `partitions`
    still have a replica on it: at most 1,000, those that move first. `reason`: cause of a standstill.
    """

    finished: bool
    replicas_left: Count
    bytes_left: Count | None
    allocation_failures: Sequence[str] = ()
    partitions: Sequence[LeavingPartition] = ()
    reason: str | None = None


class BrokerLevels(Value, frozen=True):
    """Feature levels that a broker supported when it registered. `version`: its release, None if it did not answer."""

    node_id: NodeNumber
    level_min: Count
    level_max: Count
    version: str | None


class Features(Value, frozen=True):
    """Feature level of the cluster, and the highest one that all brokers support.

    An upgrade is finished when both are equal. `absent_seeds`: first brokers of the cluster that never registered; the
    level rises after they do or are removed."""

    feature_level: Count
    highest_known_by_all: Count
    is_finished: bool
    brokers: Sequence[BrokerLevels]
    absent_seeds: Sequence[NodeNumber] = ()


class Logger(Value, frozen=True):
    """Logger of the answering broker, and the least level that it logs."""

    name: str
    level: str


class LogLevel(Logger, frozen=True):
    """Logger and level, and the seconds until the former level is restored; None: never."""

    expires: Count | None = None


class BrokerLoad(Value, frozen=True):
    """Load of a broker, as the broker reports it by gossip.

    `disk_free` and `disk_total` in bytes, -1 if the file system does not report them. `bytes_in_per_s`: rate
    at which records were appended on the broker."""

    replicas: Count = 0
    leaders: Count = 0
    disk_free: int = -1
    disk_total: int = -1
    bytes_in_per_s: Count = 0


class ClusterMember(Value, frozen=True, kw_only=True):
    """Broker according to another broker's gossip: a hint. `is_registered`: the controller has it, with this disk.

    `state_s`: seconds in this state. Addresses are HOST:PORT."""

    node_id: NodeNumber
    state: GossipState
    state_s: float | None = None
    is_registered: bool
    disk_uuid: str = ""
    incarnation: Count | None = None
    http_address: str | None = None
    rpc_address: str | None = None
    gossip_address: str | None = None
    host: str | None = None
    rack: str | None = None
    version: str | None = None
    load: BrokerLoad | None = None


class ClusterMembers(Value, frozen=True):
    """Brokers in the answering broker's gossip; without a `gossip_address` that broker does not gossip."""

    node_id: NodeNumber
    gossip_address: str | None
    members: Sequence[ClusterMember]


class Readiness(Value, frozen=True):
    """State of a broker: ready, starting, stopping, or out of file descriptors, with the `reason`.

    A ready broker reports how it syncs commits: `aio` or `threads`."""

    status: Literal["ready", "booting", "no_file_descriptors"]
    reason: str | UnsetType = UNSET
    sync_method: str | UnsetType = UNSET


class ClusterUuid(Value, frozen=True):
    """Answer with the id of the cluster."""

    cluster_uuid: Annotated[str, Meta(extra_json_schema={"format": "uuid"})]
