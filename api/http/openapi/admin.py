"""Paths of what operators ask and order."""

from raftlog.api.http.admin.settings import CHANGES_MAX, TEXT_MAX
from raftlog.api.http.openapi.bounds import rows
from raftlog.api.http.openapi.derived import of
from raftlog.api.http.openapi.parts import (
    ANY,
    BOOLEAN,
    INT64_MAX,
    NODE,
    PARTITION,
    TIMEOUT,
    TOPIC,
    Json,
    answer,
    errors,
    in_header,
    in_path,
    in_query,
    integer,
    nullable,
    obj,
    operation,
    string,
)
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.partitions.controller.machine.schema import REPLICAS_MAX
from raftlog.values.brokers import (
    BrokerDescription,
    BrokerNamed,
    BrokerUuid,
    Decommission,
    Features,
    Logger,
    LogLevel,
    Maintenance,
    MaintenanceOrdered,
)
from raftlog.values.cluster import ClusterSettingsChanged, ClusterSettingsSchema, ClusterSettingsStatus, SettingValue
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

_SETTING: Json = {"type": ["string", "integer", "boolean"]}
_NEW_RECOVERY = obj({"accept_loss": BOOLEAN, "survivor": nullable(NODE)}, optional=["survivor"])
_NEW_REPLICAS = rows(obj({"node_id": NODE, "core": ANY}, optional=["core"]), 1, REPLICAS_MAX)
_NEW_SETTINGS = obj(
    {
        "upsert": {
            "type": "object",
            "additionalProperties": _SETTING | {"maxLength": TEXT_MAX, "minimum": 0, "maximum": INT64_MAX},
            "propertyNames": {"maxLength": TEXT_MAX},
            "maxProperties": CHANGES_MAX // 2,
            "examples": [{"balancer.mode": "off"}],
        },
        "remove": rows(string(maxLength=TEXT_MAX), 0, CHANGES_MAX // 2),
    },
    optional=["upsert", "remove"],
)
_NEW_FEATURES = obj({"feature_level": integer(1, 1_000)}, optional=["feature_level"])
_TAG = "operators"
_NAMESPACE = in_path("namespace", string(const="kafka"), "There is one.")
_BROKER = in_path("broker", NODE, "Node id.")
_PLACE = (_NAMESPACE, TOPIC, PARTITION)
_LOGGER = in_path("name", string(examples=["raftlog", "raftlog.partitions"]), "Of a logger, such as `raftlog`.")
_EXPECTED = in_query(
    "expected_version", integer(0, INT64_MAX), "Nothing is done (409) when it has another version by then."
)
_IF_MATCH = in_header("If-Match", string(pattern=r'^("[0-9]{1,18}"|\*)$'), "The same, as an `ETag` gave it.")
_LEVEL = in_query("level", string(enum=["debug", "info", "warning", "error"]), "From this up.", is_required=True)
_EXPIRES = in_query("expires", integer(0, 604_800) | {"default": 600}, "Seconds until it is as before; 0: for good.")
_COMPARED = (_EXPECTED, _IF_MATCH)
_ETAG = {"ETag": string("The version, in quotes.")}
_DECIDED = (400, 404, 503, 504)
_WITH_BODY = (400, 404, 408, 413, 415, 422, 429, 503, 504)


def _read(summary: str, name: str, schema: Json, *parameters: Json, headers: Json | None = None) -> Json:
    found = answer("What there is.", schema, headers=headers)
    return {"get": operation(summary, _TAG, name, {"200": found, **errors(*_DECIDED)}, parameters)}


def _order(method: str, summary: str, name: str, schema: Json, *parameters: Json, body: Json | None = None) -> Json:
    """An order; one that is compared with a version can be refused for it, and answers the new one."""
    is_compared = _EXPECTED in parameters
    statuses = (_DECIDED if body is None else _WITH_BODY) + ((409,) if is_compared else ())
    done = answer("It is ordered, or was before.", schema, headers=_ETAG if is_compared else None)
    content = None if body is None else {JSON_TYPE: {"schema": body}}
    answers = {"200": done, **errors(*sorted(statuses))}
    return {method: operation(summary, _TAG, name, answers, [*parameters, TIMEOUT], content)}


def _maintenance(whose: str, name: str, *parameters: Json) -> Json:
    ordered = of(MaintenanceOrdered)
    return {
        **_read(f"How far the maintenance {whose} is.", name, of(Maintenance), *parameters, TIMEOUT, headers=_ETAG),
        **_order("put", f"Begin the maintenance {whose}.", f"{name}Begin", ordered, *parameters, *_COMPARED),
        **_order("delete", f"End the maintenance {whose}.", f"{name}End", ordered, *parameters, *_COMPARED),
    }


PATHS: Json = {
    "/v1/brokers": _read("All brokers of the cluster.", "brokers", of(list[BrokerDescription]), TIMEOUT),
    "/v1/brokers/{broker}": _read("One of them.", "broker", of(BrokerDescription), _BROKER, TIMEOUT),
    "/v1/broker_uuids": _read("Their disks.", "brokerUuids", of(list[BrokerUuid]), TIMEOUT),
    "/v1/brokers/{broker}/decommission": {
        **_read("How far it is.", "decommissionStatus", of(Decommission), _BROKER, TIMEOUT),
        **_order(
            "put",
            "Move all replicas of a broker to others, and then remove it for good.",
            "decommission",
            of(BrokerNamed),
            _BROKER,
        ),
    },
    "/v1/brokers/{broker}/recommission": _order(
        "put", "Keep a broker that was to go.", "recommission", of(BrokerNamed), _BROKER
    ),
    "/v1/brokers/{broker}/maintenance": _maintenance("of a broker", "maintenance", _BROKER),
    "/v1/maintenance": _maintenance("of the broker that is asked", "ownMaintenance"),
    "/v1/brokers/{broker}/cancel_partition_moves": _order(
        "post", "Call off what moves from or to a broker.", "cancelPartitionMoves", of(list[Cancelled]), _BROKER
    ),
    "/v1/partitions": _read("The replicas on this broker.", "localReplicas", of(list[LocalReplica]), TIMEOUT),
    "/v1/partitions/local_summary": _read("How many, and how they are.", "localSummary", of(LocalSummary), TIMEOUT),
    "/v1/partitions/reconfigurations": _read(
        "Partitions whose replicas are not where they shall be.",
        "reconfigurations",
        of(list[Reconfiguration]),
        TIMEOUT,
    ),
    "/v1/partitions/rebalance": _order("post", "Spread replicas evenly now.", "rebalance", of(MovesPlanned)),
    "/v1/partitions/{namespace}/{topic}": _read(
        "The partitions of a topic.",
        "namespacePartitions",
        of(list[NamespacePartition]),
        _NAMESPACE,
        TOPIC,
        TIMEOUT,
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}": _read(
        "One of them.",
        "namespacePartition",
        of(NamespacePartition),
        *_PLACE,
        TIMEOUT,
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}/recover": {
        "post": operation(
            "How the replicas stand of a partition that cannot go on; with accept_loss let it go on.",
            _TAG,
            "recoverPartition",
            {
                "200": answer("What was found, planned and done.", of(PartitionRecovery)),
                **errors(400, 404, 408, 413, 415, 422, 429, 503, 504, 507),
            },
            [*_PLACE, TIMEOUT],
            {JSON_TYPE: {"schema": _NEW_RECOVERY}},
        )
    },
    "/v1/partitions/{namespace}/{topic}/{partition}/replicas": _order(
        "post",
        "Where the replicas of a partition shall be, the preferred leader first.",
        "setReplicas",
        of(Ordered),
        *_PLACE,
        *_COMPARED,
        body=_NEW_REPLICAS,
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}/transfer_leadership": _order(
        "post",
        "Let another replica lead, and prefer it from now on.",
        "transferLeadership",
        of(LeaderNow),
        *_PLACE,
        in_query("target", NODE, "Who; without it, whichever can."),
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}/cancel_reconfiguration": _order(
        "post", "Let the replicas stay where they are.", "cancelReconfiguration", of(Ordered), *_PLACE
    ),
    "/v1/cluster/cancel_reconfigurations": _order(
        "post", "Call off everything that moves.", "cancelReconfigurations", of(list[Cancelled])
    ),
    "/v1/cluster/partitions": _read(
        "All partitions, or those of a topic, with their leaders.",
        "allPartitions",
        of(list[ListedPartition]),
        in_query("topic", string(minLength=1), "Only this one's."),
        TIMEOUT,
    ),
    "/v1/cluster/partition_balancer/status": _read(
        "What the balancer does.", "balancerStatus", of(BalancerStatus), TIMEOUT
    ),
    "/v1/cluster_config": {
        **_read(
            "The cluster's settings.",
            "clusterConfig",
            of(dict[str, SettingValue]),
            in_query("key", string(examples=["balancer.mode"]), "Only this one."),
            in_query("include_defaults", BOOLEAN | {"default": True}, "Also those that were never set."),
            TIMEOUT,
            headers=_ETAG,
        ),
        **_order(
            "put",
            "Set some settings, and let others have their default again; all or none.",
            "alterClusterConfig",
            of(ClusterSettingsChanged),
            in_query("dry_run", BOOLEAN | {"default": False}, "Only look whether it could be done."),
            *_COMPARED,
            body=_NEW_SETTINGS,
        ),
    },
    "/v1/cluster_config/schema": _read(
        "What the settings are, their defaults, and what they can be.",
        "clusterConfigSchema",
        of(ClusterSettingsSchema),
        TIMEOUT,
    ),
    "/v1/cluster_config/status": _read(
        "Which version of the settings each broker has.",
        "clusterConfigStatus",
        of(list[ClusterSettingsStatus]),
        TIMEOUT,
    ),
    "/v1/loggers": {
        "get": operation(
            "The loggers of this broker, and from which level up they log.",
            _TAG,
            "loggers",
            {"200": answer("By name.", of(list[Logger])), **errors(400)},
        )
    },
    "/v1/config/log_level/{name}": {
        "get": operation(
            "From which level up this broker logs.",
            _TAG,
            "logLevel",
            {"200": answer("As it is.", of(LogLevel)), **errors(400, 404)},
            [_LOGGER],
        ),
        "put": operation(
            "Log more or less on this broker, for a while.",
            _TAG,
            "setLogLevel",
            {"200": answer("As it is now.", of(LogLevel)), **errors(400, 404)},
            [_LOGGER, _LEVEL, _EXPIRES, TIMEOUT],
        ),
    },
    "/v1/features": {
        **_read("The cluster's feature level, and what its brokers know.", "features", of(Features), TIMEOUT),
        **_order(
            "put",
            "Finish an upgrade: raise the feature level.",
            "finishUpgrade",
            of(Features),
            body=_NEW_FEATURES,
        ),
    },
}
