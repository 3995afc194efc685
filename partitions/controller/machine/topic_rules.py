"""Rules and effects of commands about topics.

Every function checks first and changes last: it raises a `RaftlogError` with nothing changed, or it changes
everything and returns the result. Values of settings were checked by the proposer (`check_configs`); here only
`min.insync.replicas` is compared with the number of replicas. Called by `ControllerState.apply` only."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from raftlog.errors import InvalidArgument, TopicExists, UnknownBroker, UnknownTopic, VersionConflict
from raftlog.partitions.controller.machine.cluster import ClusterState
from raftlog.partitions.controller.machine.commands import (
    AddPartitions,
    AlterTopicConfigs,
    CreateTopic,
    DeleteTopic,
    SetAssignment,
)
from raftlog.partitions.controller.machine.errors import check_version
from raftlog.partitions.controller.machine.rows import AddedPartitions, ReplicaAssignment, TopicRow
from raftlog.partitions.controller.machine.schema import PARTITIONS_MAX, settings_of
from raftlog.raft import ReplicaId
from raftlog.types import Index

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def create(cluster: ClusterState, command: CreateTopic, index: Index) -> int:
    """Create a topic; return its version."""
    if command.topic_id in cluster.deleted:
        raise InvalidArgument(f"the topic with the uuid {command.topic_id} was deleted; it is never created again")
    if cluster.has_topic(command.name):
        raise TopicExists(f"topic {command.name!r} exists already")
    if command.topic_id in cluster.topics:
        raise TopicExists(f"a topic with the uuid {command.topic_id} exists already")
    _check_placement(cluster, command.partitions, 0)
    _check_insync(dict(command.configs), command.replication_factor)
    cluster.put_topic(TopicRow(command, index, command.configs, index))
    return index


def add_partitions(cluster: ClusterState, command: AddPartitions, index: Index) -> int:
    """Add partitions to a topic; return its version."""
    topic = _find_topic(cluster, command)
    if topic.creation.is_internal:
        raise InvalidArgument(f"topic {topic.name} is internal; its number of partitions never changes")
    if topic.partition_count != command.partition_count:
        raise VersionConflict(
            f"topic {topic.name} has {topic.partition_count} partitions, not {command.partition_count}: read it again"
        )
    if command.total > PARTITIONS_MAX:
        raise InvalidArgument(f"topic {topic.name} would have {command.total} of at most {PARTITIONS_MAX} partitions")
    _check_placement(cluster, command.partitions, command.partition_count)
    _check_insync(dict(topic.configs), len(command.partitions[0]))
    added = AddedPartitions(command.partitions, topic.configs, command.created_ms, index)
    cluster.put_topic(replace(topic, version=index, added=(*topic.added, added)))
    return index


def delete(cluster: ClusterState, command: DeleteTopic, index: Index) -> int:
    """Delete a topic; return the index of the deletion."""
    cluster.remove_topic(_find_topic(cluster, command), index)
    return index


def alter(cluster: ClusterState, command: AlterTopicConfigs, index: Index) -> int:
    """Change a topic's settings; return its version."""
    topic = _find_topic(cluster, command)
    check_version(f"topic {topic.name}", topic.version, command.expected_version)
    unset = frozenset(command.unset)
    configs = {name: value for name, value in topic.configs if name not in unset} | dict(command.configs)
    _check_insync(configs, min(map(len, cluster.replicas_of(topic))))
    cluster.put_topic(replace(topic, configs=settings_of(configs), version=index))
    return index


def set_assignment(cluster: ClusterState, command: SetAssignment, index: Index) -> int:
    """Assign replicas to a partition; return the assignment's version.

    A present replica may stay although its disk was retired: it can be moved after the others."""
    current = cluster.assignment(command.group)
    check_version(f"the assignment of {command.group}", current.version, command.expected_version)
    new = [replica for replica in command.replicas if replica not in current.replicas]
    hosts = _find_hosts(cluster, new)
    staying = map(cluster.broker_of, (replica for replica in command.replicas if replica not in hosts))
    _check_hosts(command.partition, [*hosts.values(), *(broker.host for broker in staying if broker is not None)])
    _check_insync(dict(cluster.topic_by_id(command.topic_id).configs), len(command.replicas))
    cluster.put_assignment(ReplicaAssignment(command.topic_id, command.partition, command.replicas, index))
    return index


def _find_topic(cluster: ClusterState, command: AddPartitions | DeleteTopic | AlterTopicConfigs) -> TopicRow:
    """Return the topic of this uuid. Raises `UnknownTopic` if it does not exist, or has another name."""
    topic = cluster.topic_by_id(command.topic_id)
    if topic.name != command.name:
        raise UnknownTopic(f"the topic with the uuid {command.topic_id} is {topic.name!r}, not {command.name!r}")
    return topic


def _find_hosts(cluster: ClusterState, replicas: Iterable[ReplicaId]) -> dict[ReplicaId, str]:
    """Return the host of each replica. Raises `UnknownBroker` for a disk that belongs to no present broker."""
    hosts = {}
    for replica in replicas:
        broker = cluster.broker_of(replica)
        if broker is None:
            raise UnknownBroker(f"there is no broker {replica.node_id} with the disk {replica.disk_uuid}")
        hosts[replica] = broker.host
    return hosts


def _check_placement(cluster: ClusterState, partitions: tuple[tuple[ReplicaId, ...], ...], first: int) -> None:
    """Raise unless each new partition, from number `first` on, has replicas on brokers on different hosts."""
    objects = {id(replica): replica for replicas in partitions for replica in replicas}
    hosts = _find_hosts(cluster, sorted(set(objects.values())))
    host_of = {identity: hosts[replica] for identity, replica in objects.items()}
    for partition, replicas in enumerate(partitions, first):
        _check_hosts(partition, [host_of[id(replica)] for replica in replicas])


def _check_hosts(partition: int, hosts: list[str]) -> None:
    """Raise `InvalidArgument` if two replicas of a partition would be on one host."""
    if len(set(hosts)) != len(hosts):
        raise InvalidArgument(
            f"partition {partition} would have two replicas on one host ({', '.join(sorted(hosts))}): "
            "replicas are put on different hosts"
        )


def _check_insync(configs: Mapping[str, str], replica_count: int) -> None:
    """Raise `InvalidArgument` if `min.insync.replicas` exceeds the number of replicas."""
    wanted = _read_number(configs.get(MIN_INSYNC_REPLICAS, ""))
    if wanted > replica_count:
        raise InvalidArgument(f"{MIN_INSYNC_REPLICAS}={wanted} can never be met with {replica_count} replicas")


def _read_number(text: str) -> int:
    """Return a number that the proposer has checked; 0 for any other text.

    Only ASCII counts, because the set of Unicode digits changes."""
    try:
        return int(text) if text.isascii() else 0
    except ValueError:
        return 0
