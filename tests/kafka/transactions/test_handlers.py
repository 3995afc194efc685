"""Transactions over Kafka's protocol at a single broker: records, offsets, fencing, late requests, administration."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.dispatcher import ConnectionRefused
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.listener import served_apis
from raftlog.api.kafka.settings import DEFAULTS
from raftlog.api.kafka.wire import schemas
from raftlog.errors import NoLeader
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import ANONYMOUS, Caller
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import BatchBuilder, NewRecord, read_header, read_records
from raftlog.records.header import TRANSACTIONAL_BIT, batch_crc
from tests.kafka.admin.conftest import make_message
from tests.small_journal import SMALL_JOURNAL

CALLER = Caller(ANONYMOUS, "tests", "127.0.0.1", "kafka")
ID = "tx"


class Connection:
    """Connection of a client that was opened at this time."""

    def __init__(self, opened_at: float) -> None:
        self.opened_at = opened_at
        self.lost_callbacks: list[Any] = []


class Client:
    """Client of all handlers of one broker; each request and answer passes as Kafka's bytes."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        context = KafkaContext(broker, "kafka", DEFAULTS)
        self.apis: dict[ApiKey, KafkaApi] = {each.key: each for each in served_apis(context)}
        self.connection = Connection(1.0)
        self.producer_id = self.epoch = -1
        self.sequences: dict[int, int] = {}

    async def call(self, key: ApiKey, version: int | None = None, /, **fields: Any) -> Any:
        api = self.apis[key]
        version = api.versions[1] if version is None else version
        body = memoryview(bytearray(make_message(schemas.request_class(key), fields).encode(version=version)))
        message = schemas.decode(key, body, version) if api.decode is None else api.decode(body, version)
        answer = await api.handle(KafkaRequest(key, version, message, CALLER, connection=self.connection))
        pieces = schemas.encode(answer, version) if api.encode is None else api.encode(answer, version)
        return schemas.answer_class(key).decode(b"".join(map(bytes, pieces)), version=version)

    async def initialize(self, version: int = 4, *, timeout_ms: int = 60_000, is_expected: bool = False) -> int:
        """Initialize the producer; return the error code."""
        expected = (self.producer_id, self.epoch) if is_expected else (-1, -1)
        answer = await self.call(
            ApiKey.INIT_PRODUCER_ID,
            version,
            transactional_id=ID,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        if answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        return int(answer.error_code)

    @property
    def producer(self) -> dict[str, Any]:
        return {"transactional_id": ID, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    async def add(self, *partitions: int, topic: str = "t", version: int = 3) -> list[int]:
        """Add partitions; return their error codes."""
        answer = await self.call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            **{f"v3_and_below_{name}": value for name, value in self.producer.items()},
            v3_and_below_topics=[{"name": topic, "partitions": list(partitions)}],
        )
        [row] = answer.results_by_topic_v3_and_below
        return [each.partition_error_code for each in row.results_by_partition]

    async def produce(self, value: bytes, partition: int = 0, *, transactional_id: str | None = ID) -> int:
        """Produce a record of the producer's transaction; return the error code."""
        sequence = self.sequences.get(partition, 0)
        builder = BatchBuilder(producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence)
        builder.append(NewRecord(value), 1_700_000_000_000)
        batch = mark_transactional(builder.build())
        answer = await self.call(
            ApiKey.PRODUCE,
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[{"name": "t", "partition_data": [{"index": partition, "records": batch}]}],
        )
        [row] = answer.responses[0].partition_responses
        if row.error_code == ErrorCode.NONE:
            self.sequences[partition] = sequence + 1
        return int(row.error_code)

    async def end(self, *, is_commit: bool = True, version: int = 3) -> int:
        return int((await self.call(ApiKey.END_TXN, version, **self.producer, committed=is_commit)).error_code)

    async def values(self, partition: int = 0, *, max_wait_ms: int = 0) -> list[bytes]:
        """Return the records of a partition outside of aborted transactions, up to the first open one."""
        answer = await self.call(
            ApiKey.FETCH,
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            session_epoch=-1,
            topics=[
                {
                    "topic": "t",
                    "partitions": [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
                }
            ],
            forgotten_topics_data=[],
        )
        [row] = answer.responses[0].partitions
        return list(_committed_values(bytes(row.records or b""), row.aborted_transactions or ()))


def mark_transactional(batch: bytearray) -> bytearray:
    """Set the bit of batches that belong to a transaction, and the CRC."""
    batch[22] |= TRANSACTIONAL_BIT
    batch[17:21] = batch_crc(batch).to_bytes(4)
    return batch


def _committed_values(records: bytes, aborted: Any) -> Iterator[bytes]:
    """Yield the values that a client returns, which drops aborted records and markers by itself."""
    first = sorted((each.first_offset, each.producer_id) for each in aborted)
    dropped: set[int] = set()
    position = 0
    while position < len(records):
        size = int.from_bytes(records[position + 8 : position + 12]) + 12
        batch = records[position : position + size]
        position += size
        header = read_header(batch)
        while first and first[0][0] <= header.base_offset:
            dropped.add(first.pop(0)[1])
        if header.attributes & 0x20:
            dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            yield from (record.value or b"" for record in read_records(batch))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
    await broker.start("127.0.0.1:1", {"kafka": "127.0.0.1:9092"})
    await broker.create_topic("t", 2, deadline=deadline_in(10_000))
    made = Client(broker)
    found = await made.call(ApiKey.FIND_COORDINATOR, key=ID, key_type=1)
    assert (found.error_code, found.node_id, found.port) == (0, 1, 9092)
    yield made
    await broker.close()


async def test_committed_records_are_read_and_aborted_ones_are_not(client: Client) -> None:
    assert await client.initialize() == 0
    assert await client.add(0, 1) == [0, 0]
    assert [await client.produce(b"a"), await client.produce(b"b", 1)] == [0, 0]
    assert await client.values() == []
    assert await client.end() == 0
    assert await client.add(0) == [0]
    assert await client.produce(b"dropped") == 0
    assert await client.end(is_commit=False) == 0
    assert await client.add(0) == [0]
    assert await client.produce(b"c") == 0
    assert await client.end() == 0
    assert await client.add(1) == [0], "the markers of the last transaction are written then"
    assert (await client.values(), await client.values(1)) == ([b"a", b"c"], [b"b"])


async def test_records_need_an_open_transaction_with_their_partition(client: Client) -> None:
    assert await client.initialize() == 0
    assert await client.produce(b"x") == ErrorCode.INVALID_TXN_STATE
    assert await client.add(1) == [0]
    assert await client.produce(b"x") == ErrorCode.INVALID_TXN_STATE
    assert await client.produce(b"x", transactional_id="another") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await client.produce(b"y", 1) == 0
    assert await client.end() == 0
    assert await client.produce(b"late", 1) in (ErrorCode.INVALID_TXN_STATE, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert await client.add(0) == [0]
    assert (await client.values(), await client.values(1)) == ([], [b"y"])


async def test_a_first_batch_whose_transaction_is_not_confirmed_is_not_overtaken(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients send further batches before they know; a retry after those would be lost as a duplicate."""

    async def fail(*_: Any, **__: Any) -> None:
        raise NoLeader("no coordinator answers")

    assert await client.initialize() == 0
    assert await client.add(0) == [0]
    with monkeypatch.context() as patch:
        patch.setattr(client.broker.leader.appends._enlistments, "_verify", fail)
        assert await client.produce(b"a") != 0
    client.sequences[0] = 1
    assert await client.produce(b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    client.sequences[0] = 0
    assert [await client.produce(value) for value in (b"a", b"b")] == [0, 0]
    assert await client.end() == 0
    assert await client.add(1) == [0], "the markers of the last transaction are written then"
    assert await client.values() == [b"a", b"b"]


async def test_an_older_producer_is_fenced(client: Client) -> None:
    assert await client.initialize() == 0
    assert await client.add(0) == [0]
    assert await client.produce(b"old") == 0
    newer = Client(client.broker)
    assert await newer.initialize() == 0
    assert (newer.producer_id, newer.epoch) == (client.producer_id, client.epoch + 2)
    assert [await client.end(version=1), await client.end(version=2)] == [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    ]
    assert [*await client.add(0, version=1), *await client.add(0)] == [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    ]
    assert await client.produce(b"old") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert await client.initialize(is_expected=True) == ErrorCode.PRODUCER_FENCED
    assert await newer.add(0) == [0]
    assert await newer.produce(b"new") == 0
    assert await newer.end() == 0
    assert await newer.initialize(is_expected=True) == 0
    assert await client.values() == [b"new"]


async def test_a_late_request_on_an_older_connection_ends_nothing(client: Client) -> None:
    """KAFKA-17754: a commit arrives after the client has aborted and begun the next transaction."""
    assert await client.initialize() == 0
    assert await client.add(0) == [0]
    old, client.connection = client.connection, Connection(2.0)
    assert await client.end(is_commit=False) == 0
    assert await client.add(0) == [0]
    assert await client.produce(b"half") == 0
    new, client.connection = client.connection, old
    for request in (
        client.end(),
        client.add(1),
        client.call(ApiKey.ADD_OFFSETS_TO_TXN, **client.producer, group_id="g"),
    ):
        with pytest.raises(ConnectionRefused):
            await request
    client.connection = new
    assert await client.produce(b"whole") == 0
    assert await client.end() == 0
    assert await client.add(1) == [0]
    assert await client.values() == [b"half", b"whole"]


async def test_partitions_are_added_all_or_none(client: Client) -> None:
    assert await client.initialize() == 0
    assert await client.add(0, 7) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert await client.add(0, topic="__transaction_state") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert await client.produce(b"x") == ErrorCode.INVALID_TXN_STATE


async def test_invalid_requests_get_their_codes(client: Client) -> None:
    assert await client.initialize(timeout_ms=900_001) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await client.initialize(timeout_ms=0) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert await client.end() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await client.initialize() == 0
    assert await client.end() == ErrorCode.INVALID_TXN_STATE
    refused = await client.call(ApiKey.FIND_COORDINATOR, key="", key_type=1)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    refused = await client.call(ApiKey.FIND_COORDINATOR, key="x", key_type=2)
    assert refused.error_code == ErrorCode.INVALID_REQUEST


async def commit_offset(client: Client, offset: int) -> int:
    answer = await client.call(
        ApiKey.TXN_OFFSET_COMMIT,
        2,
        **client.producer,
        group_id="g",
        topics=[{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": offset}]}],
    )
    return int(answer.topics[0].partitions[0].error_code)


async def committed_offset(client: Client) -> tuple[int, int]:
    """Return the committed offset of the group, and the error code."""
    answer = await client.call(
        ApiKey.OFFSET_FETCH, group_id="g", topics=[{"name": "t", "partition_indexes": [0]}], require_stable=True
    )
    [row] = answer.topics[0].partitions
    return row.committed_offset, row.error_code


async def test_offsets_are_committed_with_the_transaction(client: Client) -> None:
    await client.call(ApiKey.FIND_COORDINATOR, key="g", key_type=0)
    assert await client.initialize() == 0
    assert await commit_offset(client, 5) == ErrorCode.INVALID_TXN_STATE
    for is_commit, expected in ((False, -1), (True, 5)):
        assert (await client.call(ApiKey.ADD_OFFSETS_TO_TXN, **client.producer, group_id="g")).error_code == 0
        assert await commit_offset(client, 5) == 0
        assert await committed_offset(client) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await client.end(is_commit=is_commit) == 0
        assert await client.add(0) == [0]
        assert await client.end() == 0
        assert await client.add(0) == [0]
        assert await committed_offset(client) == (expected, 0)
        assert await client.end(is_commit=False) == 0


async def test_f52_readers_continue_after_the_timeout_of_a_dead_producer(client: Client) -> None:
    assert await client.initialize(timeout_ms=200) == 0
    assert await client.add(0, 1) == [0, 0]
    assert await client.produce(b"of the dead") == 0
    living = Client(client.broker)
    builder = BatchBuilder()
    builder.append(NewRecord(b"later"), 1_700_000_000_000)
    await living.call(
        ApiKey.PRODUCE,
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[{"name": "t", "partition_data": [{"index": 0, "records": builder.build()}]}],
    )
    async with asyncio.timeout(20):
        while (values := await living.values(max_wait_ms=10_000)) == []:
            pass
    assert values == [b"later"]
    assert await client.end() == ErrorCode.PRODUCER_FENCED


async def test_the_second_version_of_transactions_is_not_offered(client: Client) -> None:
    """KIP-890: its clients use the first one then, also with a transaction under way (KAFKA-18227)."""
    second = {
        ApiKey.PRODUCE: 12,
        ApiKey.INIT_PRODUCER_ID: 6,
        ApiKey.ADD_PARTITIONS_TO_TXN: 4,
        ApiKey.END_TXN: 5,
        ApiKey.TXN_OFFSET_COMMIT: 5,
    }
    assert [key for key, version in second.items() if client.apis[key].versions[1] >= version] == []


async def test_late_offsets_on_an_older_connection_do_not_join_the_next_transaction(client: Client) -> None:
    """Otherwise the committed offset would go back, and records would be processed again (F53)."""
    await client.call(ApiKey.FIND_COORDINATOR, key="g", key_type=0)
    assert await client.initialize() == 0
    old = client.connection
    for offset in (5, 9):
        assert (await client.call(ApiKey.ADD_OFFSETS_TO_TXN, **client.producer, group_id="g")).error_code == 0
        client.connection = Connection(2.0)
        assert await commit_offset(client, offset) == 0
        if offset == 5:
            assert await client.end() == 0
    new, client.connection = client.connection, old
    with pytest.raises(ConnectionRefused):
        await commit_offset(client, 5)
    client.connection = new
    assert await client.end() == 0
    assert await client.add(0) == [0], "the markers of the last transaction are written then"
    assert await committed_offset(client) == (9, 0)


async def test_transactions_are_listed_and_described(client: Client) -> None:
    assert await client.initialize() == 0
    assert await client.add(1) == [0]
    described = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[ID, "unknown"])
    first, second = described.transaction_states
    assert (first.error_code, first.transaction_state, first.producer_id) == (0, "Ongoing", client.producer_id)
    assert [(each.topic, each.partitions) for each in first.topics] == [("t", [1])]
    assert first.transaction_timeout_ms == 60_000
    assert first.transaction_start_time_ms > 0
    assert second.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    async def listed(*states: str, **more: Any) -> list[str]:
        fields = {"state_filters": list(states), "producer_id_filters": [], "duration_filter": -1} | more
        answer = await client.call(ApiKey.LIST_TRANSACTIONS, **fields)
        return [each.transactional_id for each in answer.transaction_states]

    assert await listed() == await listed("Ongoing") == [ID]
    assert await listed("Empty") == await listed(duration_filter=60_000) == await listed(producer_id_filters=[99]) == []
    answer = await client.call(ApiKey.LIST_TRANSACTIONS, state_filters=["None"], producer_id_filters=[])
    assert answer.unknown_state_filters == ["None"]


async def write_marker(client: Client, *, coordinator_epoch: int = 0, topic: str = "t", **more: int) -> int:
    answer = await client.call(
        ApiKey.WRITE_TXN_MARKERS,
        markers=[
            {
                "producer_id": client.producer_id,
                "producer_epoch": client.epoch,
                "transaction_result": False,
                "topics": [{"name": topic, "partition_indexes": [0]}],
                "coordinator_epoch": coordinator_epoch,
            }
            | more
        ],
    )
    return int(answer.markers[0].topics[0].partitions[0].error_code)


async def describe_producer(client: Client) -> tuple[int, int]:
    """Return the epoch of the newest coordinator, and the first offset of the open transaction."""
    answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, topics=[{"name": "t", "partition_indexes": [0]}])
    (found,) = answer.topics[0].partitions[0].active_producers
    return found.coordinator_epoch, found.current_txn_start_offset


async def test_an_operator_ends_a_transaction_that_hangs(client: Client) -> None:
    assert await client.initialize() == 0
    assert await client.add(0) == [0]
    assert await client.produce(b"committed") == 0
    assert await client.end() == 0
    assert await client.add(0) == [0], "the markers of the last transaction are written then"
    assert await client.produce(b"hangs") == 0
    epoch, offset = await describe_producer(client)
    assert (epoch > 0, offset) == (True, 2)
    assert await write_marker(client, topic="__transaction_state") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await write_marker(client, coordinator_epoch=epoch - 1) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert await write_marker(client, coordinator_epoch=epoch) == 0
    assert await describe_producer(client) == (epoch, -1)
    assert await client.values() == [b"committed"]
    assert await client.end() == 0, "the coordinator is not fenced"
    assert await client.add(0) == [0]


async def test_an_addition_of_no_partitions_begins_no_transaction(client: Client) -> None:
    assert await client.initialize() == 0
    answer = await client.call(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        **{f"v3_and_below_{name}": value for name, value in client.producer.items()},
        v3_and_below_topics=[],
    )
    assert answer.results_by_topic_v3_and_below == []
    assert await client.end() == ErrorCode.INVALID_TXN_STATE


async def test_a_marker_that_no_coordinator_sends_is_refused(client: Client) -> None:
    """Followers would refuse the entry of a negative producer id, and nothing could follow it."""
    assert await client.initialize() == 0
    assert await client.add(0) == [0]
    for field, value in (("producer_id", -1), ("producer_id", -(1 << 63)), ("producer_epoch", -1)):
        assert await write_marker(client, **{field: value}) == ErrorCode.INVALID_REQUEST
    assert await write_marker(client, coordinator_epoch=1) == ErrorCode.INVALID_REQUEST
    assert await write_marker(client, producer_epoch=1) == ErrorCode.INVALID_REQUEST
    assert await client.produce(b"a") == 0
    assert await client.end() == 0
    assert await client.values(max_wait_ms=5_000) == [b"a"]
