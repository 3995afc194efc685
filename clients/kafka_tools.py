"""Checks with the command-line tools of Kafka 3.9 from Maven Central.

Each check creates its own topics through `kafka-topics`. The tools that move many records are in `kafka_load`."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from clients import packages
from clients.checks import Check, CheckFailed, output_of, require
from clients.java import java
from raftlog.testing import Cluster
from raftlog.testing.http import ask

CLIENT: Final = "kafka tools 3.9"
TOOLS: Final = "org.apache.kafka.tools"
_TOPICS: Final = f"{TOOLS}.TopicCommand"
GROUPS: Final = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
CONSUMER: Final = f"{TOOLS}.consumer.ConsoleConsumer"
PRODUCER: Final = "kafka.tools.ConsoleProducer"
CONFIGS: Final = "kafka.admin.ConfigCommand"
_PARTITIONS: Final = 6
_RECORDS: Final = 2_000
_CREATED: Final = 201
_MOVE_S_MAX: Final = 60.0


def libraries() -> Path:
    """Return the folder with Kafka's jars; install them if necessary."""
    return packages.jars("kafka-3.9")


def tool(at: Cluster | str, main: str, *arguments: str) -> list[str]:
    """Return the command line of a Kafka tool with the addresses of the brokers."""
    servers = at if isinstance(at, str) else at.kafka
    return java(libraries(), main, "--bootstrap-server", servers, *arguments)


def create_topic(at: Cluster | str, topic: str, *more: str, partitions: int = _PARTITIONS, replicas: int = 3) -> None:
    """Create a topic with `kafka-topics`."""
    size = ("--partitions", str(partitions), "--replication-factor", str(replicas))
    output_of(tool(at, _TOPICS, "--create", "--topic", topic, *size, *more))


def create_topics(cluster: Cluster, topics: Iterable[str], partitions: int) -> None:
    """Create topics, with a replica on each broker, over HTTP, which is faster than `kafka-topics` for each."""
    for topic in topics:
        wanted = {"topic_name": topic, "partitions_count": partitions, "replication_factor": len(cluster.nodes)}
        status, answer = ask(cluster.addresses[0], "/v3/clusters/-/topics", method="POST", body=wanted)
        require(status == _CREATED, f"{topic} was not created: {status} {answer}")


def _require_texts(output: str, *wanted: str) -> None:
    for text in wanted:
        require(text in output, f"no {text!r} in:\n{output}")


def check_topics(cluster: Cluster) -> str:
    """Create, list, describe, grow and delete a topic."""
    create_topic(cluster, "tools-topics", "--config", "retention.ms=3600000", "--config", "cleanup.policy=compact")
    output_of(tool(cluster, _TOPICS, "--create", "--if-not-exists", "--topic", "tools-topics"))
    _require_texts(output_of(tool(cluster, _TOPICS, "--list")), "tools-topics")
    about = ("--topic", "tools-topics")
    described = output_of(tool(cluster, _TOPICS, "--describe", *about))
    _require_texts(
        described, "PartitionCount: 6", "ReplicationFactor: 3", "retention.ms=3600000", "cleanup.policy=compact"
    )
    output_of(tool(cluster, _TOPICS, "--alter", "--partitions", "8", *about))
    _require_texts(output_of(tool(cluster, _TOPICS, "--describe", *about)), "PartitionCount: 8")
    under = output_of(tool(cluster, _TOPICS, "--describe", "--under-replicated-partitions"))
    require("Topic:" not in under, f"under-replicated partitions: {under}")
    output_of(tool(cluster, _TOPICS, "--delete", *about))
    require("tools-topics" not in output_of(tool(cluster, _TOPICS, "--list")), "the deleted topic is listed")
    return "create, list, describe, alter, delete"


def check_configs(cluster: Cluster) -> str:
    """Describe all configurations of a topic and of a broker, set one, and delete it."""
    create_topic(cluster, "tools-configs")
    entity = ("--entity-type", "topics", "--entity-name", "tools-configs")
    output_of(
        tool(cluster, CONFIGS, "--alter", *entity, "--add-config", "retention.ms=7200000,max.message.bytes=90000")
    )
    described = output_of(tool(cluster, CONFIGS, "--describe", *entity))
    _require_texts(described, "retention.ms=7200000", "max.message.bytes=90000")
    output_of(tool(cluster, CONFIGS, "--alter", *entity, "--delete-config", "max.message.bytes"))
    described = output_of(tool(cluster, CONFIGS, "--describe", *entity))
    require("max.message.bytes" not in described, f"the deleted setting is described: {described}")
    everything = output_of(tool(cluster, CONFIGS, "--describe", "--all", *entity))
    _require_texts(everything, "cleanup.policy=delete", "min.insync.replicas", "segment.bytes")
    broker = output_of(tool(cluster, CONFIGS, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"))
    _require_texts(broker, "num.partitions=", "auto.create.topics.enable=")
    return f"{everything.count('sensitive=')} of a topic, {broker.count('sensitive=')} of a broker"


def check_console(cluster: Cluster) -> str:
    """Write lines with keys and headers by the console producer, and read them by the console consumer."""
    create_topic(cluster, "tools-console")
    lines = "".join(f"h:{number}\tk{number}\tvalue {number}\n" for number in range(_RECORDS))
    parsed = ("--property", "parse.key=true", "--property", "parse.headers=true")
    output_of(tool(cluster, PRODUCER, "--topic", "tools-console", *parsed), lines)
    compressed = ("--topic", "tools-console", "--compression-codec", "zstd")
    output_of(tool(cluster, PRODUCER, *compressed), "plain\n" * _RECORDS)
    shown = [f for name in ("key", "headers", "offset", "partition") for f in ("--property", f"print.{name}=true")]
    ended = ("--from-beginning", "--max-messages", str(2 * _RECORDS), "--timeout-ms", "30000")
    read = output_of(tool(cluster, CONSUMER, "--topic", "tools-console", "--group", "tools-console", *shown, *ended))
    found = read.splitlines()
    keyed = sorted(int(line.rpartition(" ")[2]) for line in found if "\tvalue " in line)
    require(keyed == list(range(_RECORDS)), f"{len(keyed)} keyed records, {len(set(keyed))} different")
    require(sum(line.endswith("\tplain") for line in found) == _RECORDS, "the compressed records differ")
    _require_texts(read, "h:17\tk17\tvalue 17")
    return f"{len(found)} records, keys, headers, zstd"


def check_consumer_groups(cluster: Cluster) -> str:
    """Describe a group, reset its offsets, and delete them and the group."""
    topic, group = "tools-groups", "tools-group"
    create_topic(cluster, topic, partitions=1)
    output_of(tool(cluster, PRODUCER, "--topic", topic), "line\n" * 100)
    read = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "100", "--timeout-ms", "30000")
    output_of(tool(cluster, CONSUMER, *read))
    _require_texts(output_of(tool(cluster, GROUPS, "--list", "--state")), group)
    require(_read_offset(cluster, group, topic) == (100, 100), f"offsets {_read_offset(cluster, group, topic)}")
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--execute")
    output_of(tool(cluster, GROUPS, *reset, "--shift-by", "-40"))
    require(_read_offset(cluster, group, topic)[0] == 60, "the offset was not shifted")
    output_of(tool(cluster, GROUPS, *reset, "--to-datetime", "2020-01-01T00:00:00.000"))
    require(_read_offset(cluster, group, topic)[0] == 0, "the offset was not reset to a time")
    _require_texts(output_of(tool(cluster, GROUPS, "--describe", "--group", group, "--state")), "Empty")
    output_of(tool(cluster, GROUPS, "--delete-offsets", "--group", group, "--topic", topic))
    output_of(tool(cluster, GROUPS, "--delete", "--group", group))
    require(group not in output_of(tool(cluster, GROUPS, "--list")), "the deleted group is listed")
    return "list, describe, reset by shift and time, delete-offsets, delete"


def _read_offset(cluster: Cluster, group: str, topic: str) -> tuple[int, int]:
    """Return the group's committed offset in partition 0, and the end of the partition."""
    described = output_of(tool(cluster, GROUPS, "--describe", "--group", group))
    found = re.search(rf"{group}\s+{topic}\s+0\s+(\d+)\s+(\d+)", described)
    if found is None:
        raise CheckFailed(f"no offset of {topic}/0 in:\n{described}")
    return int(found[1]), int(found[2])


def check_administration(cluster: Cluster) -> str:
    """Run the tools for offsets, records, log directories, leaders, reassignments and the cluster."""
    topic = "tools-administration"
    create_topic(cluster, topic, partitions=1)
    output_of(tool(cluster, PRODUCER, "--topic", topic), "line\n" * 100)
    _require_texts(output_of(tool(cluster, f"{TOOLS}.GetOffsetShell", "--topic", topic)), f"{topic}:0:100")
    cluster.directory.joinpath("delete.json").write_text(
        f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "offset": 30}}]}}'
    )
    removed = ("--offset-json-file", str(cluster.directory / "delete.json"))
    _require_texts(output_of(tool(cluster, f"{TOOLS}.DeleteRecordsCommand", *removed)), "low_watermark: 30")
    earliest = output_of(tool(cluster, f"{TOOLS}.GetOffsetShell", "--topic", topic, "--time", "earliest"))
    _require_texts(earliest, f"{topic}:0:30")
    _require_texts(
        output_of(tool(cluster, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic)), f"{topic}-0"
    )
    elected = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    output_of(tool(cluster, f"{TOOLS}.LeaderElectionCommand", *elected))
    _require_texts(output_of(tool(cluster, f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list")), "No partition")
    server = ("--bootstrap-server", cluster.kafka)
    identity = output_of(java(libraries(), f"{TOOLS}.ClusterTool", "cluster-id", *server))
    _require_texts(identity, "Cluster ID")
    versions = output_of(tool(cluster, "kafka.admin.BrokerApiVersionsCommand"))
    require(versions.count("Produce(0): 0 to 9") == len(cluster.nodes), f"versions of the brokers:\n{versions}")
    return "offsets, delete-records, log-dirs, leader-election, reassign, cluster-id, broker-api-versions"


def check_reassign(cluster: Cluster) -> str:
    """Move the only replica of a partition to another broker, with records in it."""
    topic = "tools-reassign"
    output_of(tool(cluster, _TOPICS, "--create", "--topic", topic, "--replica-assignment", "1"))
    output_of(tool(cluster, PRODUCER, "--topic", topic), "line\n" * 100)
    plan = cluster.directory / "reassign.json"
    plan.write_text(f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "replicas": [2]}}]}}')
    command = f"{TOOLS}.reassign.ReassignPartitionsCommand"
    output_of(tool(cluster, command, "--reassignment-json-file", str(plan), "--execute"))
    until = time.monotonic() + _MOVE_S_MAX
    while "Replicas: 2\t" not in (described := output_of(tool(cluster, _TOPICS, "--describe", "--topic", topic))):
        require(time.monotonic() < until, f"the replica did not move: {described}")
    output_of(tool(cluster, command, "--reassignment-json-file", str(plan), "--verify"))
    read = ("--from-beginning", "--max-messages", "100", "--timeout-ms", "30000")
    require(len(output_of(tool(cluster, CONSUMER, "--topic", topic, *read)).splitlines()) == 100, "records are lost")
    return "execute, verify; 100 records on another broker"


CHECKS: Final = tuple(
    Check(CLIENT, function.__name__.removeprefix("check_").replace("_", "-"), "", function)
    for function in (
        check_topics,
        check_configs,
        check_console,
        check_consumer_groups,
        check_administration,
        check_reassign,
    )
)
