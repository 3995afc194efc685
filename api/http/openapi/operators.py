"""Operations of operators: state of the cluster and its brokers, and orders to them."""

from collections.abc import Sequence
from typing import Any

from raftlog.api.http.entry_points import LINKS
from raftlog.api.http.openapi.operation import ETAG, Method, answer, in_query, parameter
from raftlog.api.http.openapi.parts import BOOLEAN, NODE, Json, integer, obj, string
from raftlog.api.http.requests import ClusterSettingsBody, FeatureLevelBody, RecoveryBody, ReplicasBody
from raftlog.values.brokers import (
    BrokerDescription,
    BrokerNamed,
    BrokerUuid,
    ClusterHealth,
    ClusterMembers,
    ClusterUuid,
    Decommission,
    Features,
    Logger,
    LogLevel,
    Maintenance,
    MaintenanceOrdered,
    Readiness,
)
from raftlog.values.cluster import (
    ClusterSettingsChanged,
    ClusterSettingsSchema,
    ClusterSettingsStatus,
    ClusterView,
    SettingValue,
)
from raftlog.values.placement import (
    BalancerStatus,
    Cancelled,
    LeaderNow,
    ListedPartition,
    LocalReplica,
    LocalSummary,
    MovesPlanned,
    NamespacePartition,
    Ordered,
    PartitionRecovery,
    Reconfiguration,
)
from raftlog.values.topics import BrokerIds

TAG = "operators"
_BROKER = "/v1/brokers/{broker}"
_PARTITIONS = "/v1/partitions"
_TOPIC = _PARTITIONS + "/{namespace}/{topic}"
_PARTITION = _TOPIC + "/{partition}"
_CONFIG = "/v1/cluster_config"
_ORDERED = "Ordered, now or before."
_VERSIONED = ("expected_version", "timeout")
_ROOT = obj(
    {
        "name": string(const="raftlog"),
        "version": string(),
        "documentation": string(),
        "links": obj({name: string(const=path) for name, path in LINKS.items()}),
    }
)
_TAG_OF_VIEW = {"ETag": string("Tag of the answer's content.")}
_KNOWN = parameter("header", "If-None-Match", string(), "Tags of answers that the client has.")
_TARGET = in_query("target", NODE, "Node id of the next leader; without it, any that can lead.")
_ONE_TOPIC = in_query("topic", string(minLength=1), "Only this topic.")
_KEY = in_query("key", string(examples=["balancer.mode"]), "Only this setting.")
_DEFAULTS = in_query("include_defaults", BOOLEAN | {"default": True}, "Include settings that were never set.")
_LEVEL = in_query("level", string(enum=["debug", "info", "warning", "error"]), "Lowest level to log.", is_required=True)
_EXPIRES = in_query(
    "expires", integer(0, 604_800) | {"default": 600}, "Seconds until the previous level is restored; 0: never."
)
_LOGGER = {"name": string(examples=["raftlog", "raftlog.partitions"])}


def _order(
    route: str, summary: str, name: str, found: Any, query: Sequence[str | Json] = ("timeout",), body: Any = None
) -> Method:
    return Method(route, summary, name, found, query, body, text=_ORDERED)


def _maintenance(path: str, whose: str, name: str) -> tuple[Method, ...]:
    path = f"{path}/maintenance"
    return (
        Method(f"GET {path}", f"Return the progress of the maintenance {whose}.", name, Maintenance, headers=ETAG),
        _order(f"PUT {path}", f"Begin the maintenance {whose}.", f"{name}Begin", MaintenanceOrdered, _VERSIONED),
        _order(f"DELETE {path}", f"End the maintenance {whose}.", f"{name}End", MaintenanceOrdered, _VERSIONED),
    )


ROWS = (
    Method(
        "GET /",
        "Return entry points.",
        "root",
        _ROOT,
        (),
        text="Program, documents, and paths that answer GET without parameters.",
        fails=(),
    ),
    Method(
        "GET /openapi.json", "Return this document.", "openapi", {"type": "object"}, (), text="OpenAPI 3.1.", fails=()
    ),
    Method(
        "GET /metrics",
        "Return metrics for Prometheus.",
        "metrics",
        string(),
        (),
        text="Metrics of this broker.",
        content_types=("text/plain",),
        fails=(),
    ),
    Method(
        "GET /v1/status/ready",
        "Check whether this broker is ready.",
        "ready",
        Readiness,
        (),
        text="It does.",
        fails=(),
        more={"503": answer("Starting, stopping, or out of file descriptors, with the `reason`.", Readiness)},
    ),
    Method("GET /brokers", "Return the node ids of the brokers.", "brokerIds", BrokerIds, ()),
    Method("GET /v1/cluster/health_overview", "Return the health of the cluster.", "health", ClusterHealth),
    Method("GET /v1/cluster/uuid", "Return the cluster's id.", "clusterUuid", ClusterUuid, ()),
    Method(
        "GET /v1/cluster/members",
        "Return the brokers in this broker's gossip.",
        "members",
        ClusterMembers,
        (),
        text="Registered brokers, and others that gossip.",
        fails=(503,),
    ),
    Method(
        "GET /v1/cluster_view",
        "Return states of brokers and replicas of partitions in this broker's view, at most a second old.",
        "clusterView",
        ClusterView,
        (_KNOWN,),
        headers=_TAG_OF_VIEW,
        text="The picture.",
        fails=(503,),
        more={"304": answer("Unchanged: the tag is in `If-None-Match`.", headers=_TAG_OF_VIEW)},
    ),
    Method("GET /v1/brokers", "Return all brokers of the cluster.", "brokers", list[BrokerDescription]),
    Method(f"GET {_BROKER}", "Return a broker.", "broker", BrokerDescription),
    Method("GET /v1/broker_uuids", "Return the disks of the brokers.", "brokerUuids", list[BrokerUuid]),
    Method(f"GET {_BROKER}/decommission", "Return the progress of a decommission.", "decommissionStatus", Decommission),
    _order(
        f"PUT {_BROKER}/decommission",
        "Move all replicas of a broker to others, then remove it permanently.",
        "decommission",
        BrokerNamed,
    ),
    _order(f"PUT {_BROKER}/recommission", "Cancel a decommission.", "recommission", BrokerNamed),
    *_maintenance(_BROKER, "of a broker", "maintenance"),
    *_maintenance("/v1", "of the broker that is asked", "ownMaintenance"),
    _order(
        f"POST {_BROKER}/cancel_partition_moves",
        "Cancel reassignments from or to a broker.",
        "cancelPartitionMoves",
        list[Cancelled],
    ),
    Method(f"GET {_PARTITIONS}", "Return the replicas on this broker.", "localReplicas", list[LocalReplica]),
    Method(
        f"GET {_PARTITIONS}/local_summary",
        "Return a summary of the replicas on this broker.",
        "localSummary",
        LocalSummary,
    ),
    Method(
        f"GET {_PARTITIONS}/reconfigurations",
        "Return partitions with a reassignment pending.",
        "reconfigurations",
        list[Reconfiguration],
    ),
    _order(f"POST {_PARTITIONS}/rebalance", "Spread replicas evenly now.", "rebalance", MovesPlanned),
    Method(f"GET {_TOPIC}", "Return the partitions of a topic.", "namespacePartitions", list[NamespacePartition]),
    Method(f"GET {_PARTITION}", "Return a partition.", "namespacePartition", NamespacePartition),
    Method(
        f"POST {_PARTITION}/recover",
        "Plan the recovery of a partition without a majority; with accept_loss, recover it.",
        "recoverPartition",
        PartitionRecovery,
        body=RecoveryBody,
        text="State, plan and result.",
    ),
    _order(
        f"POST {_PARTITION}/replicas",
        "Reassign the replicas of a partition, the preferred leader first.",
        "setReplicas",
        Ordered,
        _VERSIONED,
        ReplicasBody,
    ),
    _order(
        f"POST {_PARTITION}/transfer_leadership",
        "Transfer the leadership to another replica, which becomes the preferred leader.",
        "transferLeadership",
        LeaderNow,
        (_TARGET, "timeout"),
    ),
    _order(
        f"POST {_PARTITION}/cancel_reconfiguration",
        "Cancel the reassignment of a partition.",
        "cancelReconfiguration",
        Ordered,
    ),
    _order(
        "POST /v1/cluster/cancel_reconfigurations",
        "Cancel all reassignments.",
        "cancelReconfigurations",
        list[Cancelled],
    ),
    Method(
        "GET /v1/cluster/partitions",
        "Return all partitions, or those of a topic, with their leaders.",
        "allPartitions",
        list[ListedPartition],
        (_ONE_TOPIC, "timeout"),
    ),
    Method(
        "GET /v1/cluster/partition_balancer/status", "Return the balancer's state.", "balancerStatus", BalancerStatus
    ),
    Method(
        f"GET {_CONFIG}",
        "Return the cluster's settings.",
        "clusterConfig",
        dict[str, SettingValue],
        (_KEY, _DEFAULTS, "timeout"),
        headers=ETAG,
    ),
    _order(
        f"PUT {_CONFIG}",
        "Set some settings, and reset others to their defaults; all or none.",
        "alterClusterConfig",
        ClusterSettingsChanged,
        ("dry_run", *_VERSIONED),
        ClusterSettingsBody,
    ),
    Method(
        f"GET {_CONFIG}/schema",
        "Return the settings with defaults and allowed values.",
        "clusterConfigSchema",
        ClusterSettingsSchema,
    ),
    Method(
        f"GET {_CONFIG}/status",
        "Return the version of the settings on each broker.",
        "clusterConfigStatus",
        list[ClusterSettingsStatus],
    ),
    Method(
        "GET /v1/loggers",
        "Return the loggers of this broker with their levels.",
        "loggers",
        list[Logger],
        (),
        fails=(400,),
    ),
    Method(
        "GET /v1/config/log_level/{name}",
        "Return the level of a logger of this broker.",
        "logLevel",
        LogLevel,
        (),
        fails=(400, 404),
        path=_LOGGER,
    ),
    Method(
        "PUT /v1/config/log_level/{name}",
        "Set the level of a logger of this broker for a time.",
        "setLogLevel",
        LogLevel,
        (_LEVEL, _EXPIRES, "timeout"),
        fails=(400, 404),
        path=_LOGGER,
    ),
    Method(
        "GET /v1/features",
        "Return the cluster's feature level and those that its brokers support.",
        "features",
        Features,
    ),
    _order(
        "PUT /v1/features",
        "Finish an upgrade: raise the feature level.",
        "finishUpgrade",
        Features,
        body=FeatureLevelBody,
    ),
)
