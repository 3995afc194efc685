"""Paths of groups' offsets, and what programs of operators look at. What operators order is in `admin`."""

from raftlog.api.http.media import JSON_TYPE
from raftlog.api.http.openapi.parts import (
    NODE,
    TIMEOUT,
    Json,
    answer,
    array,
    errors,
    in_path,
    obj,
    operation,
    ref,
    string,
)

_GROUP = in_path("group", string(minLength=1, maxLength=255), "Name of the group: no slash, no control characters.")
_READ = errors(400, 404, 503, 504)


def _get(tag: str, summary: str, name: str, schema: Json, *parameters: Json) -> Json:
    answers = {"200": answer("What there is.", schema), **_READ}
    return {"get": operation(summary, tag, name, answers, parameters)}


PATHS: Json = {
    "/groups": _get("groups", "Groups that committed something.", "groups", obj({"groups": array(string())}), TIMEOUT),
    "/groups/{group}/offsets": {
        **_get("groups", "A group's committed offsets.", "committedOffsets", ref("GroupOffsets"), _GROUP, TIMEOUT),
        "post": operation(
            "Raise a group's committed offsets.",
            "groups",
            "commitOffsets",
            {
                "200": answer("All its offsets as they are now.", ref("GroupOffsets")),
                **errors(400, 404, 408, 413, 415, 422, 429, 503, 504, 507),
            },
            [_GROUP, TIMEOUT],
            {JSON_TYPE: {"schema": ref("NewGroupOffsets")}},
        ),
    },
    "/brokers": _get("operators", "Node ids of the brokers.", "brokerIds", obj({"brokers": array(NODE)})),
    "/v1/status/ready": {
        "get": operation(
            "Whether this broker serves.",
            "operators",
            "ready",
            {
                "200": answer("It does.", obj({"status": string(const="ready")})),
                "503": answer("It starts or stops.", obj({"status": string(const="booting")})),
            },
        )
    },
    "/v1/cluster/health_overview": _get("operators", "The cluster in one look.", "health", ref("Health"), TIMEOUT),
    "/v1/cluster/uuid": _get(
        "operators", "The cluster's id.", "clusterUuid", obj({"cluster_uuid": string(format="uuid")})
    ),
    "/metrics": {
        "get": operation(
            "Metrics for Prometheus.",
            "operators",
            "metrics",
            {"200": answer("Of this broker.", string(), ("text/plain",))},
        )
    },
    "/openapi.json": {
        "get": operation("This document.", "operators", "openapi", {"200": answer("OpenAPI 3.1.", {"type": "object"})})
    },
}
