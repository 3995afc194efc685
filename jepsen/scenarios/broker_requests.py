"""Requests of scripts to brokers, beside the load: reads, and writes to a topic of the script's own."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from jepsen.runner.stage import ASK_S_MAX, Stage
from raftlog.types import TopicPartition

READ_S_MAX: Final = 30.0
TOPIC: Final = "aside"
NO_ROOM: Final = 507


def partition_path(place: TopicPartition) -> str:
    """Return the HTTP path of a partition."""
    return f"/topics/{place.topic}/partitions/{place.partition}"


def read_metrics(address: str) -> dict[str, float]:
    """Return a broker's metrics that have no labels, by name. Raises `OSError` when it does not answer."""
    host, _, port = address.rpartition(":")
    with closing(HTTPConnection(host, int(port), timeout=ASK_S_MAX)) as connection:
        connection.request("GET", "/metrics")
        with connection.getresponse() as answer:
            families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def read_bounds(stage: Stage, node: int, place: TopicPartition) -> tuple[int, int] | None:
    """Return first offset and high watermark by a linearizable request; None unless it is answered with 200."""
    status, answer = stage.ask(node, f"{partition_path(place)}/offsets?linearizable=true&timeout=1000")
    return (int(answer["beginning_offset"]), int(answer["end_offset"])) if status == 200 else None


def wait_for_end(stage: Stage, node: int, place: TopicPartition) -> int:
    """Return the node's high watermark, below which all records are acknowledged.

    Without an answer in time a finding is added, and 0 is returned."""
    found: list[int] = []

    def is_reported() -> bool:
        """Return whether the node reports the end offset; store it in `found`."""
        bounds = read_bounds(stage, node, place)
        if bounds is not None:
            found.append(bounds[1])
        return bounds is not None

    stage.wait_until(is_reported, f"node {node} says where {place} ends", READ_S_MAX)
    return found[-1] if found else 0


def read_records_through(stage: Stage, node: int, place: TopicPartition, end: int) -> list[Any]:
    """Read the records from the first offset to `end` through one node.

    Expects that no answer of the node is empty, and that no end it reports is below `end`."""
    read: list[Any] = []
    position, empty, short = 0, 0, 0

    def is_read() -> bool:
        """Read the next records through the node; return whether the end was reached."""
        nonlocal position, empty, short
        bounds = read_bounds(stage, node, place)
        short += bounds is not None and bounds[1] < end
        status, records = stage.ask(
            node, f"{partition_path(place)}/records?offset={position}&timeout=0&max_bytes=16777216"
        )
        if status == 200:
            empty += not records
            read.extend(records)
            position = max((int(record["offset"]) + 1 for record in records), default=position)
        return position >= end

    stage.wait_until(is_read, f"node {node} shows {place} up to {end}", READ_S_MAX)
    stage.expect(not short, f"no end that node {node} named was below {end}, {place}: {short} were")
    stage.expect(not empty, f"no answer of node {node} below {end} was empty, {place}: {empty} were")
    return read


class OwnTopic:
    """Topic of the script with one partition, which the clients of the load do not use."""

    def __init__(self, stage: Stage, configs: Mapping[str, str]) -> None:
        """Create the topic `TOPIC` with one partition and these settings, and wait until it exists."""
        self._stage, self.place = stage, TopicPartition(TOPIC, 0)
        body = {"topic_name": TOPIC, "configs": [{"name": name, "value": value} for name, value in configs.items()]}

        def is_created() -> bool:
            """Request the topic again; return whether it exists."""
            stage.ask(stage.nodes[0], "/v3/clusters/-/topics", "POST", body)
            return stage.ask(stage.nodes[0], f"/topics/{TOPIC}")[0] == 200

        stage.wait_until(is_created, f"topic {TOPIC} is made")

    def write(self, node: int, records: int = 1, size: int = 10, *, acks: str = "all") -> tuple[int, Any]:
        """Write records by one request and return its status and answer."""
        return self.write_values(node, ["x" * size] * records, acks=acks)

    def write_values(
        self, node: int, values: Sequence[str], *, acks: str = "all", keys: Sequence[str] = ()
    ) -> tuple[int, Any]:
        """Write a record for each value, with its key if `keys` are given."""
        records = [{"value": value} for value in values]
        body = {
            "records": [{**record, "key": key} for record, key in zip(records, keys, strict=True)] if keys else records
        }
        return self._stage.ask(node, f"{partition_path(self.place)}?timeout=1500&acks={acks}", "POST", body)

    def values(self, node: int) -> list[Any] | None:
        """Return the values of the records in one answer of the node; None without an answer."""
        status, records = self._stage.ask(node, f"{partition_path(self.place)}/records?offset=0&timeout=0")
        return [record["value"] for record in records] if status == 200 else None

    def trim(self, node: int, before: int) -> tuple[int, Any]:
        """Request the deletion of records below offset `before`; return status and answer."""
        return self._stage.ask(node, f"{partition_path(self.place)}/records?before={before}", "DELETE")

    def set_retention(self, node: int, retention_ms: int) -> tuple[int, Any]:
        """Set the topic's `retention.ms`; return status and answer."""
        body = {"data": [{"name": "retention.ms", "value": str(retention_ms)}]}
        return self._stage.ask(node, f"/v3/clusters/-/topics/{TOPIC}/configs:alter", "POST", body)

    def delete(self, node: int) -> tuple[int, Any]:
        """Request the topic's deletion; return status and answer."""
        return self._stage.ask(node, f"/v3/clusters/-/topics/{TOPIC}", "DELETE")
