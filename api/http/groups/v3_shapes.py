"""Consumer groups as objects of Confluent's v3 API. Pure: descriptions in, JSON values out.

In addition to Confluent's members a group has `generation`, and a consumer has `client_host` and `partitions`,
so that one list has all assignments. -1 is an unknown offset, and "" a consumer that does not exist."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from raftlog.partitions.groups.results import GroupDetails, GroupListing, LagReport, MemberDescription
from raftlog.values.groups import (
    ConsumerAssignment,
    ConsumerDescription,
    GroupDescription,
    GroupLagSummary,
    GroupPartition,
    GroupStateName,
    PartitionLag,
)
from raftlog.values.v3 import Related, ResourceMetadata

_STATES: Final[dict[str, GroupStateName]] = {
    "Empty": "EMPTY",
    "PreparingRebalance": "PREPARING_REBALANCE",
    "CompletingRebalance": "COMPLETING_REBALANCE",
    "Stable": "STABLE",
    "Dead": "DEAD",
}


class GroupShapes:
    """Builder of v3 objects for the consumer groups of one cluster; `cluster_url` has the host of the request."""

    def __init__(self, cluster_url: str, cluster_id: str) -> None:
        self.groups_url = f"{cluster_url}/consumer-groups"
        self._cluster_url = cluster_url
        self._cluster_id = cluster_id

    def url(self, group: str) -> str:
        """Return the URL of a group."""
        return f"{self.groups_url}/{_segment(group)}"

    def group(self, found: GroupListing | GroupDetails) -> GroupDescription:
        """Return a group in the form of the REST Proxy's v3: `KafkaConsumerGroup`."""
        url, coordinator = self.url(found.group), found.coordinator
        return GroupDescription(
            **self._head("KafkaConsumerGroup", url, found.group),
            is_simple=found.protocol_type == "",
            partition_assignor=found.protocol,
            state=_STATES.get(found.state, "UNKNOWN"),
            generation=found.generation,
            coordinator_link=Related(f"{self._cluster_url}/brokers/{coordinator}") if coordinator >= 0 else None,
            consumers=Related(url + "/consumers"),
            lag_summary=Related(url + "/lag-summary"),
        )

    def consumer(self, group: str, member: MemberDescription) -> ConsumerDescription:
        """Return a group member as a `KafkaConsumer`."""
        url = self._consumer_url(group, member.member_id)
        return ConsumerDescription(
            **self._head("KafkaConsumer", url, group, f"/consumer={member.member_id}"),
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            partition_rows=[GroupPartition(*place) for place in list_assigned_partitions(member)],
            assignments=Related(self.assignments_url(group, member.member_id)),
        )

    def assignments_url(self, group: str, member_id: str) -> str:
        """Return the URL of a group member's assignments."""
        return self._consumer_url(group, member_id) + "/assignments"

    def assignment(self, group: str, member_id: str, topic: str, partition: int) -> ConsumerAssignment:
        """Return the assignment of one partition to a member as a `KafkaConsumerAssignment`."""
        url = f"{self.assignments_url(group, member_id)}/{_segment(topic)}/partitions/{partition}"
        name = f"/consumer={member_id}/assignment={topic}/partition={partition}"
        return ConsumerAssignment(
            **self._head("KafkaConsumerAssignment", url, group, name),
            member_id=member_id,
            topic_name=topic,
            partition_id=partition,
            partition=Related(self._partition_url(topic, partition)),
            lag=Related(self._lag_url(group, topic, partition)),
        )

    def lag(self, group: str, found: LagReport) -> PartitionLag:
        """Return the lag in one partition as a `KafkaConsumerLag`."""
        topic, partition, member = found.topic, found.partition, found.member
        url = self._lag_url(group, topic, partition)
        return PartitionLag(
            **self._head("KafkaConsumerLag", url, group, f"/lag={topic}/partition={partition}"),
            topic_name=topic,
            partition_id=partition,
            member_id=member.member_id if member else "",
            instance_id=member.instance_id if member else None,
            client_id=member.client_id if member else "",
            committed=found.current_offset,
            end=found.log_end_offset,
            records=found.lag,
        )

    def lag_summary(self, group: str, lags: Sequence[LagReport]) -> GroupLagSummary:
        """Return the lags of a group in the form of the REST Proxy's v3: `KafkaConsumerGroupLagSummary`.

        Empty without partitions; an unknown lag counts as 0."""
        most = max((found for found in lags if found.lag >= 0), key=lambda found: found.lag, default=None)
        member = most.member if most else None
        topic, partition = (most.topic, most.partition) if most else ("", -1)
        return GroupLagSummary(
            **self._head("KafkaConsumerGroupLagSummary", self.url(group) + "/lag-summary", group, "/lag-summary"),
            max_lag_consumer_id=member.member_id if member else "",
            max_lag_instance_id=member.instance_id if member else None,
            max_lag_client_id=member.client_id if member else "",
            max_lag_topic_name=topic,
            max_lag_partition_id=partition,
            max_lag=most.lag if most else 0,
            total_lag=sum(max(0, found.lag) for found in lags),
            max_lag_consumer=Related(self._consumer_url(group, member.member_id)) if member else None,
            max_lag_partition=Related(self._partition_url(topic, partition)) if most else None,
        )

    def _head(self, kind: str, url: str, group: str, more: str = "") -> dict[str, Any]:
        """Return the fields that all objects about a group have; `more`: end of the resource name."""
        name = f"crn:///kafka={self._cluster_id}/consumer-group={group}{more}"
        metadata = ResourceMetadata(url, name)
        return {"kind": kind, "metadata": metadata, "cluster_id": self._cluster_id, "group": group}

    def _consumer_url(self, group: str, member_id: str) -> str:
        return f"{self.url(group)}/consumers/{_segment(member_id)}"

    def _lag_url(self, group: str, topic: str, partition: int) -> str:
        return f"{self.url(group)}/lags/{_segment(topic)}/partitions/{partition}"

    def _partition_url(self, topic: str, partition: int) -> str:
        return f"{self._cluster_url}/topics/{_segment(topic)}/partitions/{partition}"


def list_assigned_partitions(member: MemberDescription) -> list[tuple[str, int]]:
    """Return the topics and partitions that are assigned to a group member, sorted."""
    return sorted((topic, partition) for topic, partitions in member.assignment.items() for partition in partitions)


def _segment(name: str) -> str:
    """Return a name encoded as one segment of a URL path."""
    return quote(name, safe="")
