"""Operations of topics, as REST Proxy's v2 shows them and its v3 changes them."""

from raftlog.api.http.openapi.operation import Method, answer
from raftlog.api.http.requests import NewTopicBody, TopicSettingsBody
from raftlog.values.topics import PartitionDescription, TopicDescription
from raftlog.values.v3 import ClusterLinks, ClusterPartition, ObjectList, TopicSetting, TopicSummary

TAG = "topics"
_V3 = "/v3/clusters/{cluster}"
_TOPIC = _V3 + "/topics/{topic}"

ROWS = (
    Method("GET /topics", "Return the names of the topics.", "topicNames", list[str], ()),
    Method("GET /topics/{topic}", "Return a topic with settings and partitions.", "topic", TopicDescription),
    Method(
        "GET /topics/{topic}/partitions", "Return the partitions of a topic.", "partitions", list[PartitionDescription]
    ),
    Method("GET /topics/{topic}/partitions/{partition}", "Return a partition.", "partition", PartitionDescription),
    Method("GET /v3/clusters", "Return this cluster, in a list.", "clusters", ObjectList[ClusterLinks], ()),
    Method(f"GET {_V3}", "Return this cluster.", "cluster", ClusterLinks, ()),
    Method(f"GET {_V3}/topics", "Return the topics.", "clusterTopics", ObjectList[TopicSummary], ()),
    Method(
        f"POST {_V3}/topics",
        "Create a topic.",
        "createTopic",
        TopicSummary,
        body=NewTopicBody,
        text="Valid (`validate_only`).",
        more={"201": answer("Created.", TopicSummary)},
    ),
    Method(f"GET {_TOPIC}", "A topic.", "clusterTopic", TopicSummary),
    Method(f"DELETE {_TOPIC}", "Delete a topic with its records.", "deleteTopic"),
    Method(f"GET {_TOPIC}/configs", "Return the settings of a topic.", "configs", ObjectList[TopicSetting]),
    Method(f"GET {_TOPIC}/configs/{{name}}", "Return a setting of a topic.", "config", TopicSetting),
    Method(f"POST {_TOPIC}/configs:alter", "Change settings, all or none.", "alterConfigs", body=TopicSettingsBody),
    Method(
        f"GET {_TOPIC}/partitions",
        "Return the partitions of a topic.",
        "clusterPartitions",
        ObjectList[ClusterPartition],
    ),
    Method(f"GET {_TOPIC}/partitions/{{partition}}", "Return a partition.", "clusterPartition", ClusterPartition),
)
