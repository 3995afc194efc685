"""Paths of topics, as REST Proxy's v2 shows them and its v3 changes them."""

from raftlog.api.http.openapi.derived import of
from raftlog.api.http.openapi.parts import (
    PARTITION,
    TIMEOUT,
    TOPIC,
    Json,
    answer,
    array,
    errors,
    in_path,
    operation,
    ref,
    string,
)
from raftlog.api.http.server.media import JSON_TYPE
from raftlog.values.topics import PartitionDescription, TopicDescription
from raftlog.values.v3 import ClusterLinks, ClusterPartition, ObjectList, TopicSetting, TopicSummary

_TAG = "topics"
_CLUSTER = in_path("cluster", string(minLength=1) | {"examples": ["-"]}, "The cluster's id, or `-`.")
_READ = errors(400, 404, 503)
_CHANGED = errors(400, 404, 408, 413, 415, 422, 429, 503, 504, 507)
_V3 = "/v3/clusters/{cluster}"
_V3_TOPIC = _V3 + "/topics/{topic}"


def _get(summary: str, name: str, schema: Json, *parameters: Json) -> Json:
    answers = {"200": answer("What there is.", schema), **_READ}
    return {"get": operation(summary, _TAG, name, answers, parameters)}


def _body(name: str) -> Json:
    return {JSON_TYPE: {"schema": ref(name)}}


PATHS: Json = {
    "/topics": _get("Names of the topics.", "topicNames", array(string())),
    "/topics/{topic}": _get("A topic with settings and partitions.", "topic", of(TopicDescription), TOPIC, TIMEOUT),
    "/topics/{topic}/partitions": _get("Its partitions.", "partitions", of(list[PartitionDescription]), TOPIC, TIMEOUT),
    "/topics/{topic}/partitions/{partition}": _get(
        "One of them.", "partition", of(PartitionDescription), TOPIC, PARTITION, TIMEOUT
    ),
    "/v3/clusters": _get("This cluster, in a list.", "clusters", of(ObjectList[ClusterLinks])),
    _V3: _get("This cluster.", "cluster", of(ClusterLinks), _CLUSTER),
    _V3 + "/topics": {
        **_get("The topics.", "clusterTopics", of(ObjectList[TopicSummary]), _CLUSTER),
        "post": operation(
            "Create a topic.",
            _TAG,
            "createTopic",
            {
                "200": answer("It could be created (`validate_only`).", of(TopicSummary)),
                "201": answer("It is created.", of(TopicSummary)),
                **_CHANGED,
                **errors(400, schema="CreateTopicError"),
            },
            [_CLUSTER, TIMEOUT],
            _body("NewTopic"),
        ),
    },
    _V3_TOPIC: {
        **_get("A topic.", "clusterTopic", of(TopicSummary), _CLUSTER, TOPIC, TIMEOUT),
        "delete": operation(
            "Delete a topic with its records.",
            _TAG,
            "deleteTopic",
            {"204": answer("It is deleted.", None), **errors(400, 404, 503, 504, 507)},
            [_CLUSTER, TOPIC, TIMEOUT],
        ),
    },
    _V3_TOPIC + "/configs": _get("Its settings.", "configs", of(ObjectList[TopicSetting]), _CLUSTER, TOPIC, TIMEOUT),
    _V3_TOPIC + "/configs/{name}": _get(
        "One of them.",
        "config",
        of(TopicSetting),
        _CLUSTER,
        TOPIC,
        in_path("name", string(minLength=1), "Such as `retention.ms`."),
        TIMEOUT,
    ),
    _V3_TOPIC + "/configs:alter": {
        "post": operation(
            "Change settings, all or none.",
            _TAG,
            "alterConfigs",
            {"204": answer("They are changed.", None), **_CHANGED, **errors(409)},
            [_CLUSTER, TOPIC, TIMEOUT],
            _body("ConfigChanges"),
        )
    },
    _V3_TOPIC + "/partitions": _get(
        "Its partitions.", "clusterPartitions", of(ObjectList[ClusterPartition]), _CLUSTER, TOPIC, TIMEOUT
    ),
    _V3_TOPIC + "/partitions/{partition}": _get(
        "One of them.", "clusterPartition", of(ClusterPartition), _CLUSTER, TOPIC, PARTITION, TIMEOUT
    ),
}
