"""Paths of what operators ask and order."""

from raftlog.api.http.openapi.parts import (
    BOOLEAN,
    INT64_MAX,
    NODE,
    PARTITION,
    TIMEOUT,
    TOPIC,
    Json,
    answer,
    array,
    errors,
    in_header,
    in_path,
    in_query,
    integer,
    obj,
    operation,
    ref,
    string,
)
from raftlog.api.http.server.media import JSON_TYPE

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
    ordered = ref("MaintenanceOrdered")
    return {
        **_read(f"How far the maintenance {whose} is.", name, ref("Maintenance"), *parameters, TIMEOUT, headers=_ETAG),
        **_order("put", f"Begin the maintenance {whose}.", f"{name}Begin", ordered, *parameters, *_COMPARED),
        **_order("delete", f"End the maintenance {whose}.", f"{name}End", ordered, *parameters, *_COMPARED),
    }


PATHS: Json = {
    "/v1/brokers": _read("All brokers of the cluster.", "brokers", array(ref("Broker")), TIMEOUT),
    "/v1/brokers/{broker}": _read("One of them.", "broker", ref("Broker"), _BROKER, TIMEOUT),
    "/v1/broker_uuids": _read("Their disks.", "brokerUuids", ref("BrokerUuids"), TIMEOUT),
    "/v1/brokers/{broker}/decommission": {
        **_read("How far it is.", "decommissionStatus", ref("Decommission"), _BROKER, TIMEOUT),
        **_order(
            "put",
            "Move all replicas of a broker to others, and then remove it for good.",
            "decommission",
            ref("BrokerNamed"),
            _BROKER,
        ),
    },
    "/v1/brokers/{broker}/recommission": _order(
        "put", "Keep a broker that was to go.", "recommission", ref("BrokerNamed"), _BROKER
    ),
    "/v1/brokers/{broker}/maintenance": _maintenance("of a broker", "maintenance", _BROKER),
    "/v1/maintenance": _maintenance("of the broker that is asked", "ownMaintenance"),
    "/v1/brokers/{broker}/cancel_partition_moves": _order(
        "post", "Call off what moves from or to a broker.", "cancelPartitionMoves", ref("Cancelled"), _BROKER
    ),
    "/v1/partitions": _read("The replicas on this broker.", "localReplicas", array(ref("LocalReplica")), TIMEOUT),
    "/v1/partitions/local_summary": _read("How many, and how they are.", "localSummary", ref("LocalSummary"), TIMEOUT),
    "/v1/partitions/reconfigurations": _read(
        "Partitions whose replicas are not where they shall be.",
        "reconfigurations",
        array(ref("Reconfiguration")),
        TIMEOUT,
    ),
    "/v1/partitions/rebalance": _order(
        "post", "Spread replicas evenly now.", "rebalance", obj({"partitions_to_move": integer()})
    ),
    "/v1/partitions/{namespace}/{topic}": _read(
        "The partitions of a topic.",
        "namespacePartitions",
        array(ref("NamespacePartition")),
        _NAMESPACE,
        TOPIC,
        TIMEOUT,
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}": _read(
        "One of them.",
        "namespacePartition",
        ref("NamespacePartition"),
        *_PLACE,
        TIMEOUT,
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}/recover": {
        "post": operation(
            "How the replicas stand of a partition that cannot go on; with accept_loss let it go on.",
            _TAG,
            "recoverPartition",
            {
                "200": answer("What was found, planned and done.", ref("Recovery")),
                **errors(400, 404, 408, 413, 415, 422, 429, 503, 504, 507),
            },
            [*_PLACE, TIMEOUT],
            {JSON_TYPE: {"schema": ref("NewRecovery")}},
        )
    },
    "/v1/partitions/{namespace}/{topic}/{partition}/replicas": _order(
        "post",
        "Where the replicas of a partition shall be, the preferred leader first.",
        "setReplicas",
        ref("Ordered"),
        *_PLACE,
        *_COMPARED,
        body=ref("NewReplicas"),
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}/transfer_leadership": _order(
        "post",
        "Let another replica lead, and prefer it from now on.",
        "transferLeadership",
        obj({"leader_id": NODE}),
        *_PLACE,
        in_query("target", NODE, "Who; without it, whichever can."),
    ),
    "/v1/partitions/{namespace}/{topic}/{partition}/cancel_reconfiguration": _order(
        "post", "Let the replicas stay where they are.", "cancelReconfiguration", ref("Ordered"), *_PLACE
    ),
    "/v1/cluster/cancel_reconfigurations": _order(
        "post", "Call off everything that moves.", "cancelReconfigurations", ref("Cancelled")
    ),
    "/v1/cluster/partitions": _read(
        "All partitions, or those of a topic, with their leaders.",
        "allPartitions",
        ref("ClusterPartitions"),
        in_query("topic", string(minLength=1), "Only this one's."),
        TIMEOUT,
    ),
    "/v1/cluster/partition_balancer/status": _read(
        "What the balancer does.", "balancerStatus", ref("Balancer"), TIMEOUT
    ),
    "/v1/cluster_config": {
        **_read(
            "The cluster's settings.",
            "clusterConfig",
            ref("ClusterSettings"),
            in_query("key", string(examples=["balancer.mode"]), "Only this one."),
            in_query("include_defaults", BOOLEAN | {"default": True}, "Also those that were never set."),
            TIMEOUT,
            headers=_ETAG,
        ),
        **_order(
            "put",
            "Set some settings, and let others have their default again; all or none.",
            "alterClusterConfig",
            obj({"config_version": integer()}),
            in_query("dry_run", BOOLEAN | {"default": False}, "Only look whether it could be done."),
            *_COMPARED,
            body=ref("NewClusterSettings"),
        ),
    },
    "/v1/cluster_config/schema": _read(
        "What the settings are, their defaults, and what they can be.",
        "clusterConfigSchema",
        ref("ClusterSettingsSchema"),
        TIMEOUT,
    ),
    "/v1/cluster_config/status": _read(
        "Which version of the settings each broker has.", "clusterConfigStatus", ref("ClusterSettingsStatus"), TIMEOUT
    ),
    "/v1/loggers": {
        "get": operation(
            "The loggers of this broker, and from which level up they log.",
            _TAG,
            "loggers",
            {"200": answer("By name.", array(obj({"name": string(), "level": string()}))), **errors(400)},
        )
    },
    "/v1/config/log_level/{name}": {
        "get": operation(
            "From which level up this broker logs.",
            _TAG,
            "logLevel",
            {"200": answer("As it is.", ref("LogLevel")), **errors(400, 404)},
            [_LOGGER],
        ),
        "put": operation(
            "Log more or less on this broker, for a while.",
            _TAG,
            "setLogLevel",
            {"200": answer("As it is now.", ref("LogLevel")), **errors(400, 404)},
            [_LOGGER, _LEVEL, _EXPIRES, TIMEOUT],
        ),
    },
    "/v1/features": {
        **_read("The cluster's feature level, and what its brokers know.", "features", ref("Features"), TIMEOUT),
        **_order(
            "put",
            "Finish an upgrade: raise the feature level.",
            "finishUpgrade",
            ref("Features"),
            body=ref("NewFeatures"),
        ),
    },
}
