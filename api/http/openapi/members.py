"""Paths of who is up and what is where."""

from raftlog.api.http.openapi.derived import of
from raftlog.api.http.openapi.parts import Json, answer, errors, in_header, operation, string
from raftlog.values.brokers import ClusterMembers
from raftlog.values.cluster import ClusterView

_TAG = {"ETag": string("Names what the answer says.")}

PATHS: Json = {
    "/v1/cluster/members": {
        "get": operation(
            "Brokers as gossip has them at this one.",
            "operators",
            "members",
            {"200": answer("Registered brokers, and others that gossip.", of(ClusterMembers)), **errors(503)},
        )
    },
    "/v1/cluster_view": {
        "get": operation(
            "Which brokers are up and which partitions are where, as this broker knows it, at most a second old.",
            "operators",
            "clusterView",
            {
                "200": answer("The picture.", of(ClusterView), headers=_TAG),
                "304": answer("Nothing that `If-None-Match` does not know.", None, headers=_TAG),
                **errors(503),
            },
            [in_header("If-None-Match", string(), "Tags of answers that are known.")],
        )
    },
}
