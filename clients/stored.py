"""Reader of all records of a topic through `kafka-console-consumer`, for topics of raftlog and of Kafka."""

import re
from typing import Final, NamedTuple

from clients.checks import CheckFailed, output_of, require
from clients.kafka_tools import CONSUMER, TOOLS, tool

_PRINTED: Final = ("timestamp", "partition", "offset", "headers", "key", "value")
_READ_S_MAX: Final = 300.0
_OFFSETS: Final = f"{TOOLS}.GetOffsetShell"


class StoredLine(NamedTuple):
    """Record as the console consumer prints it; `headers` and `key` are text."""

    timestamp: str
    partition: int
    offset: int
    headers: str
    key: str
    value: str


def end_offsets(servers: str, topic: str) -> dict[int, int]:
    """Return the end offset of each partition."""
    return _list_offsets(servers, topic, "latest")


def _list_offsets(servers: str, topic: str, time: str) -> dict[int, int]:
    """Return the offset of each partition at a time, as Kafka's tool prints it."""
    printed = output_of(tool(servers, _OFFSETS, "--topic", topic, "--time", time))
    found = re.findall(rf"^{re.escape(topic)}:(\d+):(\d+)$", printed, re.MULTILINE)
    require(bool(found), f"no offsets of {topic} in:\n{printed}")
    return {int(partition): int(offset) for partition, offset in found}


def read_topic(servers: str, topic: str) -> dict[int, list[StoredLine]]:
    """Return all records of each partition, in the order of their offsets."""
    begins, ends = _list_offsets(servers, topic, "earliest"), end_offsets(servers, topic)
    count = sum(ends.values()) - sum(begins.values())
    found: dict[int, list[StoredLine]] = {partition: [] for partition in ends}
    if count:
        shown = [flag for name in _PRINTED for flag in ("--property", f"print.{name}=true")]
        limits = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "120000")
        command = tool(servers, CONSUMER, "--topic", topic, *shown, *limits)
        for line in output_of(command, seconds=_READ_S_MAX).splitlines():
            record = _parse(line)
            found[record.partition].append(record)
    for partition, records in found.items():
        expected = list(range(begins[partition], ends[partition]))
        require([each.offset for each in records] == expected, f"offsets of {topic}/{partition} are not contiguous")
    return found


def _parse(line: str) -> StoredLine:
    """Return the record in a line of the console consumer. Raises `CheckFailed` for another form."""
    fields = line.split("\t")
    if len(fields) != len(_PRINTED):
        raise CheckFailed(f"unexpected line of the console consumer: {line!r}")
    timestamp, partition, offset, headers, key, value = fields
    numbers = int(partition.removeprefix("Partition:")), int(offset.removeprefix("Offset:"))
    return StoredLine(timestamp, *numbers, headers, key, value)
