"""Objects of Confluent's v3 API. Pure: descriptions in, declared values out."""

from collections.abc import Sequence
from typing import Any, TypeVar

from raftlog.partitions.results import PartitionState, TopicState
from raftlog.values.v3 import (
    ClusterLinks,
    ClusterPartition,
    ListMetadata,
    ObjectList,
    Related,
    ResourceMetadata,
    TopicSetting,
    TopicSummary,
)
from raftlog.values.value import UNSET

T = TypeVar("T")


def cluster_url(base: str, cluster_id: str) -> str:
    return f"{base}/v3/clusters/{cluster_id}"


def object_list(kind: str, url: str, data: Sequence[T]) -> ObjectList[T]:
    """Return the v3 object for a list of objects; `kind` is its name in v3, such as `KafkaTopicList`."""
    return ObjectList(kind=kind, metadata=ListMetadata(url), data=data)


def cluster(base: str, cluster_id: str, controller_id: int | None) -> ClusterLinks:
    """Return the cluster in the form of the REST Proxy's v3: `KafkaCluster`."""
    url = cluster_url(base, cluster_id)
    return ClusterLinks(
        **_head("KafkaCluster", url, cluster_id),
        controller=None if controller_id is None else Related(f"{url}/brokers/{controller_id}"),
        brokers=Related(url + "/brokers"),
        topics=Related(url + "/topics"),
        consumer_groups=Related(url + "/consumer-groups"),
    )


def topic(url: str, cluster_id: str, described: TopicState) -> TopicSummary:
    """Return a topic in the form of the REST Proxy's v3: `KafkaTopic`; `url` is that of the topic."""
    return TopicSummary(
        **_head("KafkaTopic", url, cluster_id, f"/topic={described.name}"),
        name=described.name,
        topic_id=described.topic_id,
        is_internal=described.is_internal,
        replication_factor=described.replication_factor,
        partitions=len(described.partitions),
        partitions_link=Related(url + "/partitions"),
        configs=Related(url + "/configs"),
        partition_reassignments=Related(url + "/partitions/-/reassignment"),
    )


def config(topic_url: str, cluster_id: str, described: TopicState, name: str) -> TopicSetting:
    """Return the setting `name` of a topic in the form of the REST Proxy's v3: `KafkaTopicConfig`."""
    is_own = name in described.overrides
    return TopicSetting(
        **_head(
            "KafkaTopicConfig", f"{topic_url}/configs/{name}", cluster_id, f"/topic={described.name}/config={name}"
        ),
        topic_name=described.name,
        name=name,
        value=described.config[name],
        is_default=not is_own,
        source="DYNAMIC_TOPIC_CONFIG" if is_own else "DEFAULT_CONFIG",
    )


def partition(topic_url: str, cluster_id: str, topic_name: str, described: PartitionState) -> ClusterPartition:
    """Return a partition as a `KafkaPartition`."""
    number = described.partition
    url = f"{topic_url}/partitions/{number}"
    return ClusterPartition(
        **_head("KafkaPartition", url, cluster_id, f"/topic={topic_name}/partition={number}"),
        topic_name=topic_name,
        partition_id=number,
        leader=None if described.leader is None else Related(f"{url}/replicas/{described.leader}"),
        replicas=Related(url + "/replicas"),
        reassignment=Related(url + "/reassignment"),
        problem=UNSET if described.problem is None else described.problem,
    )


def _head(kind: str, url: str, cluster_id: str, name: str = "") -> dict[str, Any]:
    """Return the fields with which every v3 object begins."""
    metadata = ResourceMetadata(url, f"crn:///kafka={cluster_id}{name}")
    return {"kind": kind, "metadata": metadata, "cluster_id": cluster_id}
