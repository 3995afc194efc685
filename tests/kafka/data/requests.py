"""Requests to the handlers for records as a client sends them: encoded and decoded by kafka-python's classes."""

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest, RequestConnection
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.handlers import data
from raftlog.api.kafka.settings import DEFAULTS, KafkaSettings
from raftlog.api.kafka.wire import schemas
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.records import BatchBuilder, NewRecord, build_batch, read_records
from raftlog.runtime.memory_budget import MemoryBudget

CALLER = Caller(ANONYMOUS, "tests", "127.0.0.1", "kafka")
MIB = 1024 * 1024
CLASSES: dict[ApiKey, tuple[Any, Any]] = {
    ApiKey.PRODUCE: (ProduceRequest, ProduceResponse),
    ApiKey.FETCH: (FetchRequest, FetchResponse),
    ApiKey.LIST_OFFSETS: (ListOffsetsRequest, ListOffsetsResponse),
    ApiKey.METADATA: (MetadataRequest, MetadataResponse),
    ApiKey.DELETE_RECORDS: (DeleteRecordsRequest, DeleteRecordsResponse),
    ApiKey.INIT_PRODUCER_ID: (InitProducerIdRequest, InitProducerIdResponse),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
}


class Handlers:
    """Handlers of one broker."""

    def __init__(self, broker: Broker, settings: KafkaSettings = DEFAULTS, answers: MemoryBudget | None = None) -> None:
        self.broker = broker
        self.caller = CALLER
        self.connection: RequestConnection | None = None
        """Connection of further requests."""
        context = KafkaContext(broker, "kafka", settings, answers)
        self.apis: dict[ApiKey, KafkaApi] = {api.key: api for api in data.apis(context)}

    async def send(self, key: ApiKey, version: int, **fields: Any) -> Any:
        """Send a request through both codecs; return the answer as the client decodes it, or None if there is none."""
        request, response = CLASSES[key]
        api = self.apis[key]
        body = memoryview(bytearray(request(version=version, **fields).encode(version=version)))
        message = schemas.decode(key, body, version) if api.decode is None else api.decode(body, version)
        answer = await api.handle(KafkaRequest(key, version, message, self.caller, connection=self.connection))
        if answer is None:
            return None
        pieces = schemas.encode(answer, version) if api.encode is None else api.encode(answer, version)
        return response.decode(b"".join(bytes(piece) for piece in pieces), version=version)

    async def produce(
        self,
        records: bytes | None,
        partition: int = 0,
        *,
        topic: str = "t",
        version: int = 9,
        acks: int = -1,
        **more: Any,
    ) -> Any:
        """Produce to one partition; return its result."""
        answer = await self.produce_all({(topic, partition): records}, version=version, acks=acks, **more)
        return None if answer is None else answer.responses[0].partition_responses[0]

    async def produce_all(
        self,
        records: dict[tuple[str, int], bytes | None],
        *,
        version: int = 9,
        acks: int = -1,
        timeout_ms: int = 10_000,
        transactional_id: str | None = None,
    ) -> Any:
        """Produce to several partitions; return the answer."""
        request, _ = CLASSES[ApiKey.PRODUCE]
        part = request.TopicProduceData
        topics = [
            part(name=topic, partition_data=[part.PartitionProduceData(index=number, records=batches)])
            for (topic, number), batches in records.items()
        ]
        return await self.send(
            ApiKey.PRODUCE,
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=topics,
        )

    async def fetch(self, offsets: dict[tuple[str, int], int], *, version: int = 12, **more: Any) -> Any:
        """Fetch from partitions; return the rows by topic and partition."""
        answer = await self.send(ApiKey.FETCH, version, **fetch_fields(offsets, **more))
        assert answer.session_id == 0
        return {(topic.topic, row.partition_index): row for topic in answer.responses for row in topic.partitions}

    async def fetch_one(self, offset: int, partition: int = 0, *, topic: str = "t", **more: Any) -> Any:
        """Fetch from one partition; return its result."""
        return (await self.fetch({(topic, partition): offset}, **more))[topic, partition]

    async def list_offset(
        self, timestamp: int, partition: int = 0, *, topic: str = "t", version: int = 6, epoch: int = -1
    ) -> Any:
        """Look up one offset; return its result."""
        part = ListOffsetsRequest.ListOffsetsTopic
        row = part.ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
        answer = await self.send(
            ApiKey.LIST_OFFSETS,
            version,
            replica_id=-1,
            isolation_level=0,
            topics=[part(name=topic, partitions=[row])],
        )
        return answer.topics[0].partitions[0]

    async def end_of_epoch(self, asked: int, *, topic: str = "t", version: int = 4, epoch: int = -1) -> Any:
        """Look up the end of an epoch of partition 0; return its result."""
        part = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        row = part.OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=asked)
        answer = await self.send(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=[part(topic=topic, partitions=[row])]
        )
        return answer.topics[0].partitions[0]

    async def delete_records(self, offset: int, partition: int = 0, *, topic: str = "t", version: int = 2) -> Any:
        """Delete the records below an offset; return the result."""
        part = DeleteRecordsRequest.DeleteRecordsTopic
        row = part.DeleteRecordsPartition(partition_index=partition, offset=offset)
        answer = await self.send(
            ApiKey.DELETE_RECORDS, version, topics=[part(name=topic, partitions=[row])], timeout_ms=10_000
        )
        return answer.topics[0].partitions[0]

    async def metadata(self, names: list[str] | None, *, version: int = 9, may_create: bool = False) -> Any:
        """Return the answer to Metadata."""
        topics = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        return await self.send(ApiKey.METADATA, version, topics=topics, allow_auto_topic_creation=may_create)

    async def new_producer(self) -> int:
        """Return the id of a new producer."""
        answer = await self.send(
            ApiKey.INIT_PRODUCER_ID,
            4,
            transactional_id=None,
            transaction_timeout_ms=1,
            producer_id=-1,
            producer_epoch=-1,
        )
        assert answer.error_code == 0
        return int(answer.producer_id)


def fetch_fields(
    offsets: dict[tuple[str, int], int],
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * MIB,
    partition_max_bytes: int = MIB,
    epoch: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
    isolation_level: int = 0,
    forgotten: Iterable[tuple[str, int]] = (),
) -> dict[str, Any]:
    """Return the fields of a Fetch request."""
    part = FetchRequest.FetchTopic
    forgotten_topic = FetchRequest.ForgottenTopic
    names = dict.fromkeys(name for name, _ in forgotten)
    by_topic: dict[str, list[Any]] = {}
    for (topic, number), offset in offsets.items():
        row = part.FetchPartition(
            partition=number,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_max_bytes,
        )
        by_topic.setdefault(topic, []).append(row)
    return {
        "replica_id": -1,
        "max_wait_ms": max_wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "isolation_level": isolation_level,
        "session_id": session_id,
        "session_epoch": session_epoch,
        "topics": [part(topic=topic, partitions=rows) for topic, rows in by_topic.items()],
        "forgotten_topics_data": [
            forgotten_topic(topic=name, partitions=[number for each, number in forgotten if each == name])
            for name in names
        ],
        "rack_id": "",
    }


def make_batch(*values: bytes | None, key: bytes | None = None, timestamp: int = 1_000) -> bytes:
    """Return a batch of records with these values."""
    return bytes(build_batch([NewRecord(value, key, timestamp) for value in values], now_ms=timestamp))


def make_sequenced_batch(producer: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    """Return a batch of an idempotent producer."""
    builder = BatchBuilder(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    for value in values:
        builder.append(NewRecord(value), 1_000)
    return bytes(builder.build())


def decode_values(records: bytes | None) -> list[bytes | None]:
    """Return the values of fetched batches."""
    found, rest = [], memoryview(records or b"")
    while rest:
        size = 12 + int.from_bytes(rest[8:12], "big")
        found += [record.value for record in read_records(rest[:size])]
        rest = rest[size:]
    return found
