"""Operations of operators: state of the cluster and its brokers, and orders to them."""

from collections.abc import Sequence
from typing import Any

from raftlog.api.http.describing import LINKS
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
_ORDERED = "It is ordered, or was before."
_VERSIONED = ("expected_version", "timeout")
_ROOT = obj(
    {
        "name": string(const="raftlog"),
        "version": string(),
        "documentation": string(),
        "links": obj({name: string(const=path) for name, path in LINKS.items()}),
    }
)
_TAG_OF_VIEW = {"ETag": string("Names what the answer says.")}
_KNOWN = parameter("header", "If-None-Match", string(), "Tags of answers that are known.")
_TARGET = in_query("target", NODE, "Node id of the next leader; without it, any that can lead.")
_ONE_TOPIC = in_query("topic", string(minLength=1), "Only this one's.")
_KEY = in_query("key", string(examples=["balancer.mode"]), "Only this one.")
_DEFAULTS = in_query("include_defaults", BOOLEAN | {"default": True}, "Also those that were never set.")
_LEVEL = in_query("level", string(enum=["debug", "info", "warning", "error"]), "From this up.", is_required=True)
_EXPIRES = in_query("expires", integer(0, 604_800) | {"default": 600}, "Seconds until it is as before; 0: for good.")
_LOGGER = {"name": string(examples=["raftlog", "raftlog.partitions"])}


def _order(
    route: str, summary: str, name: str, found: Any, query: Sequence[str | Json] = ("timeout",), body: Any = None
) -> Method:
    return Method(route, summary, name, found, query, body, text=_ORDERED)


def _maintenance(path: str, whose: str, name: str) -> tuple[Method, ...]:
    path = f"{path}/maintenance"
    return (
        Method(f"GET {path}", f"How far the maintenance {whose} is.", name, Maintenance, headers=ETAG),
        _order(f"PUT {path}", f"Begin the maintenance {whose}.", f"{name}Begin", MaintenanceOrdered, _VERSIONED),
        _order(f"DELETE {path}", f"End the maintenance {whose}.", f"{name}End", MaintenanceOrdered, _VERSIONED),
    )


ROWS = (
    Method(
        "GET /",
        "Where to begin.",
        "root",
        _ROOT,
        (),
        text="Program, documents, and paths that answer GET without parameters.",
        fails=(),
    ),
    Method("GET /openapi.json", "This document.", "openapi", {"type": "object"}, (), text="OpenAPI 3.1.", fails=()),
    Method(
        "GET /metrics",
        "Metrics for Prometheus.",
        "metrics",
        string(),
        (),
        text="Of this broker.",
        content_types=("text/plain",),
        fails=(),
    ),
    Method(
        "GET /v1/status/ready",
        "Whether this broker serves.",
        "ready",
        Readiness,
        (),
        text="It does.",
        fails=(),
        more={"503": answer("It starts or stops, or has no file descriptors left; then `reason` says so.", Readiness)},
    ),
    Method("GET /brokers", "Node ids of the brokers.", "brokerIds", BrokerIds, ()),
    Method("GET /v1/cluster/health_overview", "The cluster in one look.", "health", ClusterHealth),
    Method("GET /v1/cluster/uuid", "The cluster's id.", "clusterUuid", ClusterUuid, ()),
    Method(
        "GET /v1/cluster/members",
        "Brokers as gossip has them at this one.",
        "members",
        ClusterMembers,
        (),
        text="Registered brokers, and others that gossip.",
        fails=(503,),
    ),
    Method(
        "GET /v1/cluster_view",
        "Which brokers are up and which partitions are where, as this broker knows it, at most a second old.",
        "clusterView",
        ClusterView,
        (_KNOWN,),
        headers=_TAG_OF_VIEW,
        text="The picture.",
        fails=(503,),
        more={"304": answer("Nothing that `If-None-Match` does not know.", headers=_TAG_OF_VIEW)},
    ),
    Method("GET /v1/brokers", "All brokers of the cluster.", "brokers", list[BrokerDescription]),
    Method(f"GET {_BROKER}", "One of them.", "broker", BrokerDescription),
    Method("GET /v1/broker_uuids", "Their disks.", "brokerUuids", list[BrokerUuid]),
    Method(f"GET {_BROKER}/decommission", "How far it is.", "decommissionStatus", Decommission),
    _order(
        f"PUT {_BROKER}/decommission",
        "Move all replicas of a broker to others, and then remove it for good.",
        "decommission",
        BrokerNamed,
    ),
    _order(f"PUT {_BROKER}/recommission", "Keep a broker that was to go.", "recommission", BrokerNamed),
    *_maintenance(_BROKER, "of a broker", "maintenance"),
    *_maintenance("/v1", "of the broker that is asked", "ownMaintenance"),
    _order(
        f"POST {_BROKER}/cancel_partition_moves",
        "Call off what moves from or to a broker.",
        "cancelPartitionMoves",
        list[Cancelled],
    ),
    Method(f"GET {_PARTITIONS}", "The replicas on this broker.", "localReplicas", list[LocalReplica]),
    Method(f"GET {_PARTITIONS}/local_summary", "How many, and how they are.", "localSummary", LocalSummary),
    Method(
        f"GET {_PARTITIONS}/reconfigurations",
        "Partitions whose replicas are not where they shall be.",
        "reconfigurations",
        list[Reconfiguration],
    ),
    _order(f"POST {_PARTITIONS}/rebalance", "Spread replicas evenly now.", "rebalance", MovesPlanned),
    Method(f"GET {_TOPIC}", "The partitions of a topic.", "namespacePartitions", list[NamespacePartition]),
    Method(f"GET {_PARTITION}", "One of them.", "namespacePartition", NamespacePartition),
    Method(
        f"POST {_PARTITION}/recover",
        "How the replicas stand of a partition that cannot go on; with accept_loss let it go on.",
        "recoverPartition",
        PartitionRecovery,
        body=RecoveryBody,
        text="What was found, planned and done.",
    ),
    _order(
        f"POST {_PARTITION}/replicas",
        "Where the replicas of a partition shall be, the preferred leader first.",
        "setReplicas",
        Ordered,
        _VERSIONED,
        ReplicasBody,
    ),
    _order(
        f"POST {_PARTITION}/transfer_leadership",
        "Let another replica lead, and prefer it from now on.",
        "transferLeadership",
        LeaderNow,
        (_TARGET, "timeout"),
    ),
    _order(
        f"POST {_PARTITION}/cancel_reconfiguration",
        "Let the replicas stay where they are.",
        "cancelReconfiguration",
        Ordered,
    ),
    _order(
        "POST /v1/cluster/cancel_reconfigurations",
        "Call off everything that moves.",
        "cancelReconfigurations",
        list[Cancelled],
    ),
    Method(
        "GET /v1/cluster/partitions",
        "All partitions, or those of a topic, with their leaders.",
        "allPartitions",
        list[ListedPartition],
        (_ONE_TOPIC, "timeout"),
    ),
    Method("GET /v1/cluster/partition_balancer/status", "What the balancer does.", "balancerStatus", BalancerStatus),
    Method(
        f"GET {_CONFIG}",
        "The cluster's settings.",
        "clusterConfig",
        dict[str, SettingValue],
        (_KEY, _DEFAULTS, "timeout"),
        headers=ETAG,
    ),
    _order(
        f"PUT {_CONFIG}",
        "Set some settings, and let others have their default again; all or none.",
        "alterClusterConfig",
        ClusterSettingsChanged,
        ("dry_run", *_VERSIONED),
        ClusterSettingsBody,
    ),
    Method(
        f"GET {_CONFIG}/schema",
        "What the settings are, their defaults, and what they can be.",
        "clusterConfigSchema",
        ClusterSettingsSchema,
    ),
    Method(
        f"GET {_CONFIG}/status",
        "Which version of the settings each broker has.",
        "clusterConfigStatus",
        list[ClusterSettingsStatus],
    ),
    Method(
        "GET /v1/loggers",
        "The loggers of this broker, and from which level up they log.",
        "loggers",
        list[Logger],
        (),
        fails=(400,),
    ),
    Method(
        "GET /v1/config/log_level/{name}",
        "From which level up this broker logs.",
        "logLevel",
        LogLevel,
        (),
        fails=(400, 404),
        path=_LOGGER,
    ),
    Method(
        "PUT /v1/config/log_level/{name}",
        "Log more or less on this broker, for a while.",
        "setLogLevel",
        LogLevel,
        (_LEVEL, _EXPIRES, "timeout"),
        fails=(400, 404),
        path=_LOGGER,
    ),
    Method("GET /v1/features", "The cluster's feature level, and what its brokers know.", "features", Features),
    _order(
        "PUT /v1/features",
        "Finish an upgrade: raise the feature level.",
        "finishUpgrade",
        Features,
        body=FeatureLevelBody,
    ),
)
