"""Client of a cluster: topics, offsets, stored batches, consumer groups, administration.

Every call raises the error that the broker reported (`raftlog.errors`), `Unavailable` when no broker could be reached,
and `OutcomeUnknown` when a change was sent and its answer lost. Only requests that change nothing are retried
automatically. Times are in milliseconds."""

from collections.abc import Mapping, Sequence
from typing import Any

from raftlog.client.admin import AdminClient
from raftlog.client.answers import (
    Fetched,
    Produced,
    ProducerIdentity,
)
from raftlog.client.calls import ANSWER_MS, Calls, answer_timeout_s, decode_value, quote_segment
from raftlog.client.failures import failure_of
from raftlog.client.groups import GroupClient
from raftlog.client.topic_names import check_name
from raftlog.client.transactions import TransactionClient
from raftlog.client.transport import HttpAnswer, HttpTransport
from raftlog.context import AsyncClosedAtExit
from raftlog.errors import RaftlogError, Unavailable
from raftlog.types import READ_COMMITTED, Buffer, IsolationName, Offset, OffsetRange, TopicPartition
from raftlog.values.brokers import BrokerDescription, ClusterHealth
from raftlog.values.cluster import ClusterView
from raftlog.values.placement import PartitionRecovery
from raftlog.values.records import RestoredBatches
from raftlog.values.topics import TopicDescription
from raftlog.values.v3 import ObjectList, TopicSetting, TopicSummary

BATCHES = "application/vnd.raftlog.batches"
_CLUSTER = "/v3/clusters/-"


class BrokerClient(AsyncClosedAtExit):
    """Client created inside a running event loop: `async with BrokerClient(["127.0.0.1:8082"]) as client`."""

    def __init__(self, bootstrap: str | Sequence[str]) -> None:
        """Connect on demand, to the brokers at `bootstrap` first. Raises `InvalidArgument`."""
        self._transport = HttpTransport(bootstrap)
        self._calls = Calls(self._transport)
        self.admin = AdminClient(self._calls)
        """Queries and orders of operators."""
        self.groups = GroupClient(self._calls)
        """Consumer groups: membership and committed offsets."""
        self.transactions = TransactionClient(self._calls)
        """Transactions of producers."""

    async def close(self) -> None:
        await self._transport.close()

    async def ready(self) -> bool:
        """Return whether at least one broker is ready to serve."""
        try:
            await self._calls.get("/v1/status/ready")
        except Unavailable:
            return False
        return True

    # The cluster

    async def cluster_id(self) -> str:
        """Return the cluster's uuid."""
        return str((await self._calls.get("/v1/cluster/uuid"))["cluster_uuid"])

    async def brokers(self) -> list[BrokerDescription]:
        """Return all brokers of the cluster, by node id, from the answering broker's metadata."""
        return await self.admin.brokers()

    async def cluster_view(self) -> ClusterView:
        """Return topics and the leaders of their partitions, at most a second old.

        Also add the addresses of all brokers in the answer to those that later requests may use."""
        view = await self._calls.read(ClusterView, "/v1/cluster_view")
        self._transport.add(view.http.values())
        return view

    async def find_all_brokers(self) -> list[BrokerDescription]:
        """Return all brokers, and use their addresses for later requests, so that the bootstrap brokers may stop."""
        brokers = await self.brokers()
        self._transport.add(broker.http for broker in brokers if broker.http)
        return brokers

    def learn_leader(self, target: TopicPartition, address: str) -> None:
        """Send requests about this partition to HOST:PORT first, until an answer names another leader."""
        self._transport.leaders.learn(target, address)

    async def health(self) -> ClusterHealth:
        """Return whether the cluster is healthy as the answering broker sees it, and the reasons if not."""
        return await self._calls.read(ClusterHealth, "/v1/cluster/health_overview")

    # Topics

    async def topics(self) -> list[str]:
        """Return the names of all topics."""
        return [str(name) for name in await self._calls.get("/topics")]

    async def list_topics(self) -> list[TopicSummary]:
        """Return all topics by name, with their numbers of partitions and replicas."""
        return list((await self._calls.read(ObjectList[TopicSummary], f"{_CLUSTER}/topics")).data)

    async def topic_overrides(self, name: str) -> set[str]:
        """Return the names of the settings that a topic overrides; raises `UnknownTopic`."""
        found = await self._calls.read(ObjectList[TopicSetting], f"{_CLUSTER}/topics/{quote_segment(name)}/configs")
        return {row.name for row in found.data if not row.is_default}

    async def describe_topic(self, name: str) -> TopicDescription:
        """Return settings, partitions and replicas of a topic; raises `UnknownTopic`."""
        return await self._calls.read(TopicDescription, f"/topics/{quote_segment(name)}")

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
        timeout_ms: int = ANSWER_MS,
    ) -> None:
        """Create a topic, unless `validate_only`; raises `InvalidTopic`, `InvalidArgument` or `TopicExists`."""
        fields: dict[str, Any] = {"topic_name": check_name(name), "partitions_count": partitions}
        if replication_factor is not None:
            fields["replication_factor"] = replication_factor
        if config:
            fields["configs"] = [{"name": key, "value": value} for key, value in config.items()]
        if validate_only:
            fields["validate_only"] = True
        path = f"{_CLUSTER}/topics"
        await self._calls.change("POST", path, fields, timeout_ms=timeout_ms, only_reads=validate_only)

    async def create_partitions(self, name: str, total: int, *, timeout_ms: int = ANSWER_MS) -> None:
        """Add partitions to a topic, so that it has `total`; keys are spread over all of them from then on.

        Raises `UnknownTopic`, and `InvalidArgument` unless the topic has fewer."""
        fields = {"partitions_count": total}
        await self._calls.change("PATCH", f"{_CLUSTER}/topics/{quote_segment(name)}", fields, timeout_ms=timeout_ms)

    async def delete_topic(self, name: str, *, timeout_ms: int = ANSWER_MS) -> None:
        """Delete a topic and its records; raises `UnknownTopic`."""
        await self._calls.change("DELETE", f"{_CLUSTER}/topics/{quote_segment(name)}", timeout_ms=timeout_ms)

    async def alter_topic_config(
        self, name: str, changes: Mapping[str, str | None], *, timeout_ms: int = ANSWER_MS
    ) -> None:
        """Set settings of a topic; the value `None` resets one to its default."""
        data = [
            {"name": key, "operation": "DELETE"} if value is None else {"name": key, "value": value}
            for key, value in changes.items()
        ]
        path = f"{_CLUSTER}/topics/{quote_segment(name)}/configs:alter"
        await self._calls.change("POST", path, {"data": data}, timeout_ms=timeout_ms)

    async def recover_partition(
        self, topic: str, partition: int, *, accept_loss: bool, survivor: int | None = None, timeout_ms: int
    ) -> PartitionRecovery:
        """Report the surviving replicas of a partition and the loss of a recovery; with `accept_loss` recover it.

        See docs/HTTP.md."""
        return await self._calls.change_as(
            PartitionRecovery,
            "POST",
            f"/v1/partitions/kafka/{quote_segment(topic)}/{partition}/recover",
            {"accept_loss": accept_loss, "survivor": survivor},
            timeout_ms=timeout_ms,
            only_reads=not accept_loss,
        )

    # Records

    async def offsets(
        self,
        topic: str,
        partition: int,
        *,
        linearizable: bool = False,
        timeout_ms: int = ANSWER_MS,
        isolation: IsolationName = READ_COMMITTED,
    ) -> OffsetRange:
        """Return the first offset of a partition, and the end of its records with this isolation.

        With `linearizable` every record acknowledged before the call is included."""
        target = TopicPartition(topic, partition)
        query: dict[str, object] = {"timeout": timeout_ms}
        if linearizable:
            query["linearizable"] = "true"
        if isolation != READ_COMMITTED:
            query["isolation"] = isolation
        path = f"{_partition_path(topic, partition)}/offsets"
        fields = await self._calls.get(path, query, target=target, timeout_ms=timeout_ms)
        return OffsetRange(Offset(fields["beginning_offset"]), Offset(fields["end_offset"]))

    async def offset_for_timestamp(
        self, topic: str, partition: int, timestamp_ms: int, *, isolation: IsolationName = READ_COMMITTED
    ) -> tuple[Offset, int] | None:
        """Return offset and timestamp of the first record at or after a timestamp, or None."""
        query: dict[str, object] = {"timestamp": timestamp_ms}
        if isolation != READ_COMMITTED:
            query["isolation"] = isolation
        path = f"{_partition_path(topic, partition)}/offsets"
        fields = await self._calls.get(path, query, target=TopicPartition(topic, partition))
        offset = fields.get("offset")
        return None if offset is None else (Offset(offset), int(fields["timestamp"]))

    async def produce_batches(
        self,
        topic: str,
        partition: int,
        body: Buffer,
        *,
        acks: str = "all",
        transactional_id: str | None = None,
        timeout_ms: int = ANSWER_MS,
    ) -> Produced:
        """Append encoded batches, in a transaction if they belong to one. With `acks="0"` the offsets are -1."""
        query: dict[str, object] = {"acks": acks, "timeout": timeout_ms}
        if transactional_id is not None:
            query["transactional_id"] = transactional_id
        answer = await self._transport.request(
            "POST",
            _partition_path(topic, partition),
            query=query,
            body=body,
            headers={"Content-Type": BATCHES},
            timeout_s=answer_timeout_s(timeout_ms),
            repeatable=False,
            target=TopicPartition(topic, partition),
        )
        return _read_offsets(answer)

    async def restore_batches(self, topic: str, partition: int, body: Buffer, *, timeout_ms: int = ANSWER_MS) -> Offset:
        """Append encoded batches at their own offsets, from the end of the log on; return the new end.

        Raises `VersionConflict` if the log ends elsewhere: see docs/HTTP.md."""
        answer = await self._transport.request(
            "POST",
            f"/v1/partitions/kafka/{quote_segment(topic)}/{partition}/restore",
            query={"timeout": timeout_ms},
            body=body,
            headers={"Content-Type": BATCHES},
            timeout_s=answer_timeout_s(timeout_ms),
            repeatable=False,
            target=TopicPartition(topic, partition),
        )
        return Offset(decode_value(RestoredBatches, answer.body).next_offset)

    async def new_producer(self, *, is_fresh: bool = False, timeout_ms: int = ANSWER_MS) -> ProducerIdentity:
        """Return a new producer id; an idempotent producer puts it into the headers of its batches.

        An unused id costs nothing. With `is_fresh` the id is greater than every earlier one, for a producer whose id a
        partition has expired."""
        query = {"fresh": "true"} if is_fresh else None
        fields = await self._calls.change("POST", "/producers", {}, timeout_ms=timeout_ms, only_reads=True, query=query)
        return ProducerIdentity(int(fields["producer_id"]), int(fields["producer_epoch"]))

    async def delete_records(self, topic: str, partition: int, before: int, *, timeout_ms: int = ANSWER_MS) -> Offset:
        """Delete the records below an offset for good; return the new first offset.

        Disk space is freed in whole segments, so later than the offset moves. Raises `OffsetOutOfRange` above the end.
        """
        fields = await self._calls.change(
            "DELETE",
            f"{_partition_path(topic, partition)}/records",
            timeout_ms=timeout_ms,
            repeatable=True,
            query={"before": before},
            target=TopicPartition(topic, partition),
        )
        return Offset(fields["log_start_offset"])

    async def fetch_batches(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        timeout_ms: int = 0,
        max_bytes: int = 1 << 20,
        isolation: IsolationName = READ_COMMITTED,
    ) -> Fetched:
        """Return stored batches from the one that holds `offset`; wait up to `timeout_ms` if there are none yet.

        Batches without records replace the records that the isolation level hides."""
        query: dict[str, object] = {"offset": offset, "timeout": timeout_ms, "max_bytes": max_bytes}
        if isolation != READ_COMMITTED:
            query["isolation"] = isolation
        answer = await self._transport.request(
            "GET",
            f"{_partition_path(topic, partition)}/records",
            headers={"Accept": BATCHES},
            repeatable=True,
            query=query,
            timeout_s=answer_timeout_s(timeout_ms),
            target=TopicPartition(topic, partition),
            wait_s=timeout_ms / 1000,
        )
        headers = answer.headers
        return Fetched(
            answer.body,
            Offset(int(headers["X-Raftlog-High-Watermark"])),
            Offset(int(headers["X-Raftlog-Log-Start"])),
            headers.get("X-Raftlog-Topic-Id"),
        )


def _partition_path(topic: str, partition: int) -> str:
    return f"/topics/{quote_segment(topic)}/partitions/{partition}"


def _read_offsets(answer: HttpAnswer) -> Produced:
    """Return the offsets in the answer to a produce request; raise the error of its first record."""
    fields = decode_value(dict[str, Any], answer.body)
    row = fields["offsets"][0]
    if row["error_code"] is not None:
        raise _record_failure(row)
    base = row["offset"]
    if base is None:
        return Produced(Offset(-1), Offset(-1))
    return Produced(Offset(base), Offset(fields["next_offset"]), row.get("duplicate") is True)


def _record_failure(row: Mapping[str, Any]) -> RaftlogError:
    """Return the error that the answer has for one record."""
    code = int(row["error_code"])
    status = code // 100 if code >= 10_000 else code
    return failure_of(code, status, str(row["error"]), row.get("outcome", "failed"), row)
