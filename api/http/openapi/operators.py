"""Paths that programs of operators look at. What operators order is in `admin`."""

from raftlog.api.http.describing import LINKS
from raftlog.api.http.openapi.derived import of
from raftlog.api.http.openapi.parts import (
    TIMEOUT,
    Json,
    answer,
    errors,
    obj,
    operation,
    string,
)
from raftlog.values.brokers import ClusterHealth
from raftlog.values.topics import BrokerIds

_READ = errors(400, 404, 503, 504)


def _get(tag: str, summary: str, name: str, schema: Json, *parameters: Json) -> Json:
    answers = {"200": answer("What there is.", schema), **_READ}
    return {"get": operation(summary, tag, name, answers, parameters)}


PATHS: Json = {
    "/": {
        "get": operation(
            "Where to begin.",
            "operators",
            "root",
            {
                "200": answer(
                    "Program, documents, and paths that answer GET without parameters.",
                    obj(
                        {
                            "name": string(const="raftlog"),
                            "version": string(),
                            "documentation": string(),
                            "links": obj({name: string(const=path) for name, path in LINKS.items()}),
                        }
                    ),
                )
            },
        )
    },
    "/brokers": _get("operators", "Node ids of the brokers.", "brokerIds", of(BrokerIds)),
    "/v1/status/ready": {
        "get": operation(
            "Whether this broker serves.",
            "operators",
            "ready",
            {
                "200": answer("It does.", obj({"status": string(const="ready")})),
                "503": answer(
                    "It starts or stops, or has no file descriptors left; then `reason` says so.",
                    obj(
                        {"status": string(enum=["booting", "no_file_descriptors"]), "reason": string()},
                        optional=["reason"],
                    ),
                ),
            },
        )
    },
    "/v1/cluster/health_overview": _get("operators", "The cluster in one look.", "health", of(ClusterHealth), TIMEOUT),
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
