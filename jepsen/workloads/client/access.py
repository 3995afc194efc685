"""Access of the workload to brokers: to one of them, or to all by a bootstrap list, as programs do."""

from collections.abc import Mapping
from random import Random
from typing import Any, Final, Self

import orjson

from jepsen.checkers.history import Value, name_and_id
from jepsen.workloads.client.values import parse_record
from jepsen.workloads.incarnations import incarnation_partition, shorten_id, without_topic_id
from raftlog.client.decode import read_batches, records_at_or_above
from raftlog.client.transport import HttpAnswer, HttpTransport
from raftlog.errors import OutcomeUnknown
from raftlog.types import Offset, TopicPartition

BATCHES: Final = "application/vnd.raftlog.batches"
TOPIC_ID: Final = "X-Raftlog-Topic-Id"
BINARY: Final = "application/vnd.kafka.binary.v2+json"
_JSON: Final = "application/json"
ANY_NODE: Final = 0
"""Value in place of a node id for the client that has all addresses and finds leaders."""
_GRACE_S: Final = 3.0
"""Additional wait, in seconds, for the answer to a change beyond the broker's own deadline."""
_READ_GRACE_S: Final = 2.0
"""Additional wait of a read, in seconds; a read blocks its process, and its failure is definite."""
_FETCH_BYTES: Final = 1 << 20


class Access:
    """HTTP client for single requests and for reads (`LogAccess`). Create it inside a running event loop."""

    member_of_commits: Final = ""

    def __init__(self, addresses: Mapping[int, str]) -> None:
        self.nodes = sorted(addresses)
        self._transports = {node: HttpTransport([addresses[node]]) for node in self.nodes}
        self._transports[ANY_NODE] = HttpTransport([addresses[node] for node in self.nodes])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for transport in self._transports.values():
            await transport.close()

    def draw_node(self, random: Random) -> int:
        """Return a random node, or sometimes `ANY_NODE`."""
        return random.choice([ANY_NODE, *self.nodes])

    async def post(
        self,
        node: int,
        path: str,
        body: bytes | bytearray,
        content_type: str,
        timeout_ms: int,
        query: Mapping[str, object] | None = None,
        place: TopicPartition | None = None,
    ) -> HttpAnswer:
        """Send a write once and return the answer. Raises the error of the broker or of the connection."""
        return await self._transports[node].request(
            "POST",
            path,
            query={"timeout": timeout_ms, **(query or {})},
            headers={"Content-Type": content_type},
            body=body,
            timeout_s=timeout_ms / 1000 + _GRACE_S,
            repeatable=False,
            target=_leader_hint(node, place),
        )

    async def delete(
        self,
        node: int,
        path: str,
        timeout_ms: int,
        query: Mapping[str, object] | None = None,
        place: TopicPartition | None = None,
    ) -> HttpAnswer:
        """Send a DELETE request once, as `post` does, without a body."""
        return await self._transports[node].request(
            "DELETE",
            path,
            query={"timeout": timeout_ms, **(query or {})},
            timeout_s=timeout_ms / 1000 + _GRACE_S,
            repeatable=False,
            target=_leader_hint(node, place),
        )

    async def get(
        self,
        node: int,
        path: str,
        timeout_ms: int,
        query: Mapping[str, object] | None = None,
        accept: str | None = None,
        place: TopicPartition | None = None,
    ) -> HttpAnswer:
        """Send a GET request and return the answer; its failure is definite."""
        return await self._transports[node].request(
            "GET",
            path,
            query=query,
            headers={"Accept": accept} if accept is not None else None,
            timeout_s=timeout_ms / 1000 + _READ_GRACE_S,
            repeatable=True,
            target=_leader_hint(node, place),
        )

    async def offsets(self, node: int, place: TopicPartition, linearizable: bool, timeout_ms: int) -> tuple[int, int]:
        """Return the log start and the end offset of a partition."""
        query = {"linearizable": "true"} if linearizable else {}
        answer = await self.get(
            node, f"{partition_path(place)}/offsets", timeout_ms, {"timeout": timeout_ms, **query}, place=place
        )
        fields = parse_fields(answer)
        return int(fields["beginning_offset"]), int(fields["end_offset"])

    async def commit(self, node: int, group: str, offsets: Mapping[TopicPartition, int], timeout_ms: int) -> None:
        """Commit offsets of a group without members."""
        rows = [
            {"topic": place.topic, "partition": place.partition, "offset": offset} for place, offset in offsets.items()
        ]
        await self.post(node, _offsets_path(group), orjson.dumps({"offsets": rows}), _JSON, timeout_ms)

    async def committed(self, node: int, group: str, timeout_ms: int) -> dict[TopicPartition, Offset]:
        """Return the committed offsets of a group."""
        fields = parse_fields(await self.get(node, _offsets_path(group), timeout_ms, {"timeout": timeout_ms}))
        return {TopicPartition(row["topic"], row["partition"]): Offset(row["offset"]) for row in fields["offsets"]}

    async def trim(self, node: int, place: TopicPartition, before: int, timeout_ms: int) -> int:
        """Delete the records below an offset and return the new log start."""
        query = {"before": before}
        answer = await self.delete(node, f"{partition_path(place)}/records", timeout_ms, query, place)
        return int(parse_fields(answer)["log_start_offset"])

    def fetcher(self) -> "Access":
        """Return the source of a reader's records: this object, which holds no state of a reader."""
        return self

    async def fetch(self, node: int, place: TopicPartition, offset: int, timeout_ms: int) -> "FoundBatches":
        """Fetch records from an offset on with a long poll. Raises `InvalidBatch` for a damaged batch."""
        query = {"offset": offset, "timeout": timeout_ms, "max_bytes": _FETCH_BYTES}
        answer = await self.get(node, f"{partition_path(place)}/records", timeout_ms, query, BATCHES, place)
        found = FoundBatches(place, offset)
        if (incarnation := name_and_id(place)) is not None:
            topic_id = shorten_id(answer.headers.get(TOPIC_ID, ""))
            found.place = incarnation_partition(incarnation[0], topic_id, place.partition)
        for header, batch in read_batches(answer.body):
            found.next_offset = header.next_offset
            if header.is_control:
                continue
            records = records_at_or_above(header, batch, offset)
            # A batch without records can cover several epochs, and has the last one.
            at = header.base_offset if header.record_count else header.next_offset - 1
            found.epochs.append((int(at), header.leader_epoch))
            found.offsets += [Offset(record.offset) for record in records]
            found.values += map(parse_record, records)
        return found


class FoundBatches:
    """Result of a fetch: parallel lists of offsets and values, and an offset of each batch with its leader epoch."""

    def __init__(self, place: TopicPartition, offset: int) -> None:
        """Create an empty result of a fetch from `offset` on."""
        self.place = place
        """Partition that the records belong to."""
        self.offsets: list[Offset] = []
        self.values: list[Value] = []
        self.epochs: list[tuple[int, int]] = []
        self.next_offset = offset
        """Offset of the next read; it may lie beyond the offset after the last record, if there is a gap."""


def _offsets_path(group: str) -> str:
    """Return the path of a group's committed offsets."""
    return f"/groups/{group}/offsets"


def partition_path(place: TopicPartition) -> str:
    """Return the path of a partition, by the topic's name without its topic id."""
    topic, partition = without_topic_id(place)
    return f"/topics/{topic}/partitions/{partition}"


def _leader_hint(node: int, place: TopicPartition | None) -> TopicPartition | None:
    """Return the partition as a hint to send directly to its leader; None for a request to one node."""
    return place if node == ANY_NODE else None


def parse_fields(answer: HttpAnswer) -> dict[str, Any]:
    """Return the JSON object of an answer. Raises `OutcomeUnknown` without one: the request may have been executed."""
    try:
        fields = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise OutcomeUnknown(f"HTTP {answer.status}, and no JSON object: {answer.body[:100]!r}")
    return fields
