"""Check of MirrorMaker 2 of Kafka 3.9, from a real Kafka into raftlog.

MirrorMaker copies at least once and in order: apart from repeated records, each partition of the copy has the records
of the original, with key, headers and timestamp. MirrorMaker keeps its offsets in topics of raftlog. It copies the
configurations of topics, except for one that has a fixed value in raftlog. It also translates the committed offsets of
groups, never beyond what the group has read."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from clients import faults
from clients.checks import Check, Program, output_of, require, wait_until
from clients.java import java
from clients.kafka_broker import KafkaBroker, write_properties
from clients.kafka_tools import CONFIGS, CONSUMER, GROUPS, PRODUCER, create_topic, libraries, tool
from clients.numbered_lines import NumberedLines
from clients.stored import StoredLine, read_topic
from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask

CLIENT: Final = "mirrormaker 3.9"
_MAIN: Final = "org.apache.kafka.connect.mirror.MirrorMaker"
_TOPIC: Final = "lines"
_COPY: Final = "kafka.lines"
_GROUP: Final = "readers"
_PARTITIONS: Final = 3
_PER_S: Final = 100
_READ: Final = 500
"""Number of records that the group reads at the source."""
_OK: Final = 200
_COPIED_S_MAX: Final = 300.0
_RETENTION: Final = "7200000"


def _start_mirror(directory: Path, source: str, target: str) -> Program:
    """Start MirrorMaker for one direction, with short pauses between its refreshes."""
    settings = {
        "clusters": "kafka, raftlog",
        "kafka.bootstrap.servers": source,
        "raftlog.bootstrap.servers": target,
        "kafka->raftlog.enabled": "true",
        "kafka->raftlog.topics": _TOPIC,
        "kafka->raftlog.groups": _GROUP,
        "kafka->raftlog.config.properties.exclude": "compression.type",
        "kafka->raftlog.sync.group.offsets.enabled": "true",
        "raftlog->kafka.enabled": "false",
        "replication.factor": -1,
        "checkpoints.topic.replication.factor": -1,
        "heartbeats.topic.replication.factor": -1,
        "offset-syncs.topic.replication.factor": 1,
        "offset.storage.replication.factor": -1,
        "status.storage.replication.factor": -1,
        "config.storage.replication.factor": -1,
        "raftlog.offset.flush.interval.ms": 1_000,
        "refresh.topics.interval.seconds": 2,
        "refresh.groups.interval.seconds": 2,
        "sync.topic.configs.interval.seconds": 2,
        "sync.group.offsets.interval.seconds": 2,
        "emit.checkpoints.interval.seconds": 2,
    }
    properties = directory / "mirror.properties"
    write_properties(properties, settings)
    return Program(java(libraries(), _MAIN, str(properties), "--clusters", "raftlog", flags=("-Xmx512m",)))


def check_mirror(cluster: Cluster) -> str:
    """Copy a topic while it is written, under faults of raftlog's brokers, and restart MirrorMaker."""
    with KafkaBroker(cluster.directory / "kafka") as kafka:
        create_topic(kafka.servers, _TOPIC, "--config", "compression.type=zstd", partitions=_PARTITIONS, replicas=1)
        parsed = ("--property", "parse.key=true", "--property", "parse.headers=true")
        producer = Program(tool(kafka.servers, PRODUCER, "--topic", _TOPIC, *parsed), given=None)
        mirror = _start_mirror(cluster.directory, kafka.servers, cluster.kafka)
        try:
            lines = NumberedLines(producer.write, lambda number: f"h:{number}\tk{number % 100}\t{number}", _PER_S)
            _wait_until_copied(cluster, mirror, 1)
            for fault in (faults.kill_leader, faults.restart_broker):
                fault(cluster, _COPY)
                _wait_until_copied(cluster, mirror, lines.count)
            offsets = _read_with_group(kafka.servers, cluster, mirror)
            copied = _count_copied(cluster)
            mirror.kill()
            mirror = _start_mirror(cluster.directory, kafka.servers, cluster.kafka)
            _wait_until_copied(cluster, mirror, lines.count)
            count = lines.stop()
            producer.finish()
            producer.end()
            repeated = _compare(kafka.servers, cluster, mirror, count)
            require(repeated < copied // 2, f"MirrorMaker has lost its offsets: it repeats {repeated} records")
            _check_configuration(kafka.servers, cluster, mirror)
            _verify_translation(kafka.servers, cluster, offsets)
        finally:
            mirror.kill()
            producer.kill()
    return f"{count} records, {repeated} of them twice; configuration and group offsets"


def _wait_until_copied(cluster: Cluster, mirror: Program, count: int) -> None:
    """Wait until raftlog has at least `count` records of the topic."""
    wait_until(
        lambda: _count_copied(cluster) >= count,
        lambda: f"{_count_copied(cluster)} of {count} records are copied{mirror.describe_output()}",
        _COPIED_S_MAX,
    )


def _count_copied(cluster: Cluster) -> int:
    """Return the number of records in the copy, 0 while it does not exist or has no leader."""
    total = 0
    for partition in range(_PARTITIONS):
        try:
            status, offsets = ask(cluster.addresses[0], f"/topics/{_COPY}/partitions/{partition}/offsets")
        except BrokerFailed:
            return 0
        if status != _OK:
            return 0
        total += int(offsets["end_offset"])
    return total


def _compare(source: str, cluster: Cluster, mirror: Program, count: int) -> int:
    """Verify that both topics have the same records in the same order; return how many records the copy repeats."""
    originals = read_topic(source, _TOPIC)
    require(sum(map(len, originals.values())) == count, f"Kafka has {sum(map(len, originals.values()))} of {count}")
    copies: dict[int, list[StoredLine]] = {}

    def list_missing() -> set[tuple[str, str, str, str]]:
        copies.update(read_topic(cluster.kafka, _COPY))
        return _contents(originals) - _contents(copies)

    wait_until(
        lambda: not list_missing(),
        lambda: f"{len(list_missing())} records are missing: {sorted(list_missing())[:3]}{mirror.describe_output()}",
        _COPIED_S_MAX,
    )
    require(copies.keys() == originals.keys(), f"the copy has {len(copies)} partitions")
    for partition, records in originals.items():
        found = list(dict.fromkeys(map(_content, copies[partition])))
        require(found == list(map(_content, records)), f"partition {partition} has other records, or in another order")
    return sum(map(len, copies.values())) - count


def _contents(topic: dict[int, list[StoredLine]]) -> set[tuple[str, str, str, str]]:
    return {_content(record) for records in topic.values() for record in records}


def _content(record: StoredLine) -> tuple[str, str, str, str]:
    return record.timestamp, record.headers, record.key, record.value


def _check_configuration(source: str, cluster: Cluster, mirror: Program) -> None:
    """Alter a configuration at the source, and wait until the copy has it."""
    entity = ("--entity-type", "topics", "--entity-name")
    output_of(tool(source, CONFIGS, "--alter", *entity, _TOPIC, "--add-config", f"retention.ms={_RETENTION}"))
    wait_until(
        lambda: f"retention.ms={_RETENTION}" in output_of(tool(cluster, CONFIGS, "--describe", *entity, _COPY)),
        lambda: f"the copy does not have the source's retention.ms{mirror.describe_output()}",
        _COPIED_S_MAX,
    )


class GroupOffsets(NamedTuple):
    """Offsets of the group by partition: those committed at the source, and MirrorMaker's translations for the copy."""

    committed: dict[int, int]
    translated: dict[int, int]


def _read_with_group(source: str, cluster: Cluster, mirror: Program) -> GroupOffsets:
    """Read a part of the source with a group, and wait until its offsets are translated.

    MirrorMaker translates no offsets from before its own start, so this comes before its restart."""
    limits = ("--from-beginning", "--max-messages", str(_READ), "--timeout-ms", "120000")
    output_of(tool(source, CONSUMER, "--topic", _TOPIC, "--group", _GROUP, *limits), seconds=_COPIED_S_MAX)
    committed: dict[int, int] = {}

    def is_committed() -> bool:
        committed.update(_committed(source, _TOPIC))
        return sum(committed.values()) == _READ

    wait_until(is_committed, lambda: f"the group has committed {committed} at the source", _COPIED_S_MAX)
    translated: dict[int, int] = {}

    def is_translated() -> bool:
        translated.update(_committed(cluster.kafka, _COPY))
        return bool(translated)

    wait_until(is_translated, lambda: f"the group has no offsets of the copy{mirror.describe_output()}", _COPIED_S_MAX)
    return GroupOffsets(committed, translated)


def _verify_translation(source: str, cluster: Cluster, offsets: GroupOffsets) -> None:
    """Verify that a reader that continues with the copy gets all records that the group has not read at the source."""
    copies = read_topic(cluster.kafka, _COPY)
    for partition, offset in offsets.translated.items():
        require(offset <= len(copies[partition]), f"the group's offset {offset} is not in partition {partition}")
    unread = set(map(_content, _from(read_topic(source, _TOPIC), offsets.committed)))
    again = set(map(_content, _from(copies, offsets.translated)))
    require(again >= unread, f"a reader that continues at the copy misses {len(unread - again)} records")


def _from(topic: dict[int, list[StoredLine]], offsets: dict[int, int]) -> list[StoredLine]:
    """Return the records that a group with these offsets has not read."""
    return [record for partition, records in topic.items() for record in records[offsets.get(partition, 0) :]]


def _committed(servers: str, topic: str) -> dict[int, int]:
    """Return the offsets that the group has committed, by partition."""
    described = Program(tool(servers, GROUPS, "--describe", "--group", _GROUP)).end(code=None)
    rows = re.findall(rf"^{_GROUP}\s+{re.escape(topic)}\s+(\d+)\s+(\d+)\s", described, re.MULTILINE)
    return {int(partition): int(offset) for partition, offset in rows}


CHECKS: Final = (Check(CLIENT, "mirror", "leader kill, broker restart, MirrorMaker kill", check_mirror),)
