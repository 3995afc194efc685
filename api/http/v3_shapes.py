"""The objects of Confluent's v3 API. Pure: descriptions in, JSON values out."""

from collections.abc import Sequence
from typing import Any

from raftlog.partitions.results import PartitionDescription, TopicDescription

Json = dict[str, Any]


def cluster_url(base: str, cluster_id: str) -> str:
    return f"{base}/v3/clusters/{cluster_id}"


def many(kind: str, url: str, data: Sequence[object]) -> Json:
    """A list object."""
    return {"kind": kind, "metadata": {"self": url, "next": None}, "data": list(data)}


def cluster(base: str, cluster_id: str, controller_id: int | None) -> Json:
    url = cluster_url(base, cluster_id)
    return {
        **head("KafkaCluster", url, f"kafka={cluster_id}"),
        "cluster_id": cluster_id,
        "controller": None if controller_id is None else related(f"{url}/brokers/{controller_id}"),
        "brokers": related(url + "/brokers"),
        "topics": related(url + "/topics"),
        "consumer_groups": related(url + "/consumer-groups"),
    }


def topic(url: str, cluster_id: str, described: TopicDescription) -> Json:
    return {
        **head("KafkaTopic", url, f"kafka={cluster_id}/topic={described.name}"),
        "cluster_id": cluster_id,
        "topic_name": described.name,
        "topic_id": described.topic_id,
        "is_internal": described.is_internal,
        "replication_factor": described.replication_factor,
        "partitions_count": len(described.partitions),
        "partitions": related(url + "/partitions"),
        "configs": related(url + "/configs"),
        "partition_reassignments": related(url + "/partitions/-/reassignment"),
    }


def config(topic_url: str, cluster_id: str, described: TopicDescription, name: str) -> Json:
    is_own = name in described.overrides
    return {
        **head(
            "KafkaTopicConfig",
            f"{topic_url}/configs/{name}",
            f"kafka={cluster_id}/topic={described.name}/config={name}",
        ),
        "cluster_id": cluster_id,
        "topic_name": described.name,
        "name": name,
        "value": described.config[name],
        "is_read_only": False,
        "is_sensitive": False,
        "is_default": not is_own,
        "source": "DYNAMIC_TOPIC_CONFIG" if is_own else "DEFAULT_CONFIG",
        "synonyms": [],
    }


def partition(topic_url: str, cluster_id: str, topic_name: str, described: PartitionDescription) -> Json:
    url = f"{topic_url}/partitions/{described.partition}"
    shape = {
        **head("KafkaPartition", url, f"kafka={cluster_id}/topic={topic_name}/partition={described.partition}"),
        "cluster_id": cluster_id,
        "topic_name": topic_name,
        "partition_id": described.partition,
        "leader": None if described.leader is None else related(f"{url}/replicas/{described.leader}"),
        "replicas": related(url + "/replicas"),
        "reassignment": related(url + "/reassignment"),
    }
    if described.problem is not None:
        shape["problem"] = described.problem
    return shape


def head(kind: str, url: str, name: str) -> Json:
    """What every object begins with."""
    return {"kind": kind, "metadata": {"self": url, "resource_name": f"crn:///{name}"}}


def related(url: str) -> Json:
    """A link to another resource."""
    return {"related": url}
