"""Paths of consumer groups as REST Proxy's v3 has them."""

from raftlog.api.http.openapi.derived import of
from raftlog.api.http.openapi.groups import GROUP
from raftlog.api.http.openapi.parts import (
    PARTITION,
    TIMEOUT,
    TOPIC,
    Json,
    answer,
    errors,
    in_path,
    operation,
    string,
)
from raftlog.values.groups import (
    ConsumerAssignment,
    ConsumerDescription,
    GroupDescription,
    GroupLagSummary,
    PartitionLag,
)
from raftlog.values.v3 import ObjectList

_CLUSTER = in_path("cluster", string(minLength=1) | {"examples": ["-"]}, "The cluster's id, or `-`.")
_CONSUMER = in_path("consumer", string(minLength=1), "Member id of the consumer.")
_GROUPS = "/v3/clusters/{cluster}/consumer-groups"
_GROUP = _GROUPS + "/{group}"
_ONE = _GROUP + "/consumers/{consumer}"


def _get(summary: str, name: str, schema: Json, *parameters: Json) -> Json:
    answers = {"200": answer("What there is.", schema), **errors(400, 404, 503, 504)}
    return {"get": operation(summary, "groups", name, answers, [_CLUSTER, *parameters, TIMEOUT])}


PATHS: Json = {
    _GROUPS: _get("The groups.", "consumerGroups", of(ObjectList[GroupDescription])),
    _GROUP: {
        **_get("A group.", "consumerGroup", of(GroupDescription), GROUP),
        "delete": operation(
            "Delete a group without members, and what it committed.",
            "groups",
            "deleteConsumerGroup",
            {"204": answer("It is deleted.", None), **errors(400, 404, 409, 429, 503, 504, 507)},
            [_CLUSTER, GROUP, TIMEOUT],
        ),
    },
    _GROUP + "/consumers": _get("Its members.", "consumers", of(ObjectList[ConsumerDescription]), GROUP),
    _ONE: _get("One of them.", "consumer", of(ConsumerDescription), GROUP, _CONSUMER),
    _ONE + "/assignments": _get(
        "Its partitions.", "consumerAssignments", of(ObjectList[ConsumerAssignment]), GROUP, _CONSUMER
    ),
    _ONE + "/assignments/{topic}/partitions/{partition}": _get(
        "One of them.", "consumerAssignment", of(ConsumerAssignment), GROUP, _CONSUMER, TOPIC, PARTITION
    ),
    _GROUP + "/lag-summary": _get("How far it is behind.", "lagSummary", of(GroupLagSummary), GROUP),
    _GROUP + "/lags": _get("How far, by partition.", "lags", of(ObjectList[PartitionLag]), GROUP),
    _GROUP + "/lags/{topic}/partitions/{partition}": _get(
        "How far in one.", "lag", of(PartitionLag), GROUP, TOPIC, PARTITION
    ),
}
