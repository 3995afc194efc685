"""Paths and schemas of who is up and what is where."""

from raftlog.api.http.openapi.parts import (
    BOOLEAN,
    NODE,
    Json,
    answer,
    array,
    errors,
    in_header,
    integer,
    nullable,
    obj,
    operation,
    ref,
    string,
)

_STATE = string("As gossip has it, a hint.", enum=["alive", "suspect", "dead", "left", "unknown"])
_ADDRESS = nullable(string("HOST:PORT."))
_TAG = {"ETag": string("Names what the answer says.")}

PATHS: Json = {
    "/v1/cluster/members": {
        "get": operation(
            "Brokers as gossip has them at this one.",
            "operators",
            "members",
            {"200": answer("Registered brokers, and others that gossip.", ref("Members")), **errors(503)},
        )
    },
    "/v1/cluster_view": {
        "get": operation(
            "Which brokers are up and which partitions are where, as this broker knows it, at most a second old.",
            "operators",
            "clusterView",
            {
                "200": answer("The picture.", ref("ClusterView"), headers=_TAG),
                "304": answer("Nothing that `If-None-Match` does not know.", None, headers=_TAG),
                **errors(503),
            },
            [in_header("If-None-Match", string(), "Tags of answers that are known.")],
        )
    },
}

SCHEMAS: Json = {
    "Members": obj(
        {
            "node_id": NODE,
            "gossip_address": nullable(string("Where this broker gossips; null: it does not.")),
            "members": array(
                obj(
                    {
                        "node_id": NODE,
                        "state": _STATE,
                        "state_s": nullable({"type": "number", "minimum": 0, "description": "Seconds in this state."}),
                        "is_registered": {**BOOLEAN, "description": "The controller knows it, with this disk."},
                        "disk_uuid": string(),
                        "incarnation": nullable(integer()),
                        "http_address": _ADDRESS,
                        "rpc_address": _ADDRESS,
                        "gossip_address": _ADDRESS,
                        "host": nullable(string()),
                        "rack": nullable(string()),
                        "version": nullable(string()),
                        "load": nullable(
                            obj(
                                {
                                    "replicas": integer(),
                                    "leaders": integer(),
                                    "disk_free": integer(-1),
                                    "disk_total": integer(-1),
                                    "bytes_in_per_s": integer(),
                                }
                            )
                        ),
                    }
                )
            ),
        }
    ),
    "ClusterView": obj(
        {
            "cluster_id": nullable(string()),
            "controller_id": nullable(NODE),
            "version": integer(text="How far this broker's copy of the controller's state is."),
            "brokers": array(
                obj(
                    {
                        "node_id": NODE,
                        "state": _STATE,
                        "http_address": _ADDRESS,
                        "rpc_address": _ADDRESS,
                        "host": string(),
                        "is_draining": BOOLEAN,
                    }
                )
            ),
            "topics": array(
                obj(
                    {
                        "name": string(),
                        "topic_id": string(format="uuid"),
                        "partitions": array(
                            obj({"partition": NODE, "replicas": array(NODE), "leader_hint": nullable(NODE)})
                        ),
                    }
                )
            ),
        }
    ),
}
