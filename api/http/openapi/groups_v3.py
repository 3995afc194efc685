"""Paths and schemas of consumer groups as REST Proxy's v3 has them."""

from raftlog.api.http.openapi.groups import GROUP
from raftlog.api.http.openapi.parts import (
    BOOLEAN,
    NODE,
    PARTITION,
    RELATED,
    TIMEOUT,
    TOPIC,
    Json,
    answer,
    array,
    errors,
    in_path,
    integer,
    nullable,
    obj,
    operation,
    ref,
    string,
    v3_list,
    v3_object,
)

_CLUSTER = in_path("cluster", string(minLength=1) | {"examples": ["-"]}, "The cluster's id, or `-`.")
_CONSUMER = in_path("consumer", string(minLength=1), "Member id of the consumer.")
_GROUPS = "/v3/clusters/{cluster}/consumer-groups"
_GROUP = _GROUPS + "/{group}"
_ONE = _GROUP + "/consumers/{consumer}"
_OFFSET = integer(-1, text="-1: not known.")


def _get(summary: str, name: str, schema: Json, *parameters: Json) -> Json:
    answers = {"200": answer("What there is.", schema), **errors(400, 404, 503, 504)}
    return {"get": operation(summary, "groups", name, answers, [_CLUSTER, *parameters, TIMEOUT])}


PATHS: Json = {
    _GROUPS: _get("The groups.", "consumerGroups", ref("ConsumerGroupList")),
    _GROUP: {
        **_get("A group.", "consumerGroup", ref("ConsumerGroup"), GROUP),
        "delete": operation(
            "Delete a group without members, and what it committed.",
            "groups",
            "deleteConsumerGroup",
            {"204": answer("It is deleted.", None), **errors(400, 404, 409, 429, 503, 504, 507)},
            [_CLUSTER, GROUP, TIMEOUT],
        ),
    },
    _GROUP + "/consumers": _get("Its members.", "consumers", ref("ConsumerList"), GROUP),
    _ONE: _get("One of them.", "consumer", ref("Consumer"), GROUP, _CONSUMER),
    _ONE + "/assignments": _get(
        "Its partitions.", "consumerAssignments", ref("ConsumerAssignmentList"), GROUP, _CONSUMER
    ),
    _ONE + "/assignments/{topic}/partitions/{partition}": _get(
        "One of them.", "consumerAssignment", ref("ConsumerAssignment"), GROUP, _CONSUMER, TOPIC, PARTITION
    ),
    _GROUP + "/lag-summary": _get("How far it is behind.", "lagSummary", ref("ConsumerGroupLagSummary"), GROUP),
    _GROUP + "/lags": _get("How far, by partition.", "lags", ref("ConsumerLagList"), GROUP),
    _GROUP + "/lags/{topic}/partitions/{partition}": _get(
        "How far in one.", "lag", ref("ConsumerLag"), GROUP, TOPIC, PARTITION
    ),
}

_PLACE: Json = {"topic_name": string(), "partition_id": NODE}


def _of_group(members: Json) -> Json:
    return v3_object({"consumer_group_id": string(), **members})


SCHEMAS: Json = {
    "ConsumerGroup": _of_group(
        {
            "is_simple": {**BOOLEAN, "description": "It never had members: offsets are committed, and that is all."},
            "partition_assignor": string(),
            "state": string(enum=["EMPTY", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE", "DEAD", "UNKNOWN"]),
            "type": string(const="CLASSIC"),
            "is_mixed_consumer_group": BOOLEAN,
            "generation": integer(),
            "coordinator": nullable(RELATED),
            "consumers": RELATED,
            "lag_summary": RELATED,
        }
    ),
    "ConsumerGroupList": v3_list("ConsumerGroup"),
    "Consumer": _of_group(
        {
            "consumer_id": string(),
            "instance_id": nullable(string()),
            "client_id": string(),
            "client_host": string(),
            "partitions": array(obj(_PLACE)),
            "assignments": RELATED,
        }
    ),
    "ConsumerList": v3_list("Consumer"),
    "ConsumerAssignment": _of_group({"consumer_id": string(), **_PLACE, "partition": RELATED, "lag": RELATED}),
    "ConsumerAssignmentList": v3_list("ConsumerAssignment"),
    "ConsumerLag": _of_group(
        {
            **_PLACE,
            "consumer_id": string("Empty: nobody reads it."),
            "instance_id": nullable(string()),
            "client_id": string(),
            "current_offset": _OFFSET,
            "log_end_offset": _OFFSET,
            "lag": _OFFSET,
        }
    ),
    "ConsumerLagList": v3_list("ConsumerLag"),
    "ConsumerGroupLagSummary": _of_group(
        {
            "max_lag_consumer_id": string(),
            "max_lag_instance_id": nullable(string()),
            "max_lag_client_id": string(),
            "max_lag_topic_name": string(),
            "max_lag_partition_id": integer(-1),
            "max_lag": integer(),
            "total_lag": integer(),
            "max_lag_consumer": nullable(RELATED),
            "max_lag_partition": nullable(RELATED),
        }
    ),
}
