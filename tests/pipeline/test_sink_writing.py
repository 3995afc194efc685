"""Tasks that write to a real broker: attempts that fail, overlap, or are repeated."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from raftlog.api.http.server.server import HttpServer
from raftlog.client import BrokerClient, Producer
from raftlog.client.decode import read_batches
from raftlog.errors import (
    InvalidArgument,
    OutcomeUnknown,
    OutOfOrderSequence,
    ProducerFenced,
    UnknownProducer,
    UnknownTopic,
)
from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.pipeline.errors import InputChanged, WriteForgotten
from raftlog.pipeline.rows import HEADERS_TYPE
from raftlog.pipeline.sink.attempt import AttemptOutcome, write_rows
from raftlog.pipeline.sink.columns import Columns
from raftlog.pipeline.sink.identity import WriteIdentity
from raftlog.pipeline.sink.marks import Recorder
from raftlog.pipeline.sink.settings import SinkSettings
from raftlog.pipeline.sink.writers import WrittenTask, batch_writer
from raftlog.records import build_columns, read_records
from raftlog.types import TopicPartition
from tests.pipeline.stored_records import stored_numbers, stored_records
from tests.small_journal import SMALL_JOURNAL
from tests.waiting import block_until, until_async

KEYED = Columns(value=1, key=0)
FIRST = WriteIdentity("q", 0, 0)
COUNT = 3_000
PARTITIONS = 3


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    """Start a real broker in this process, alone; yield its address."""
    broker = await Broker.open(
        BrokerSettings(data_dir=str(tmp_path / "data"), retention_interval_s=0.02, driver=SMALL_JOURNAL)
    )
    server = HttpServer(broker)
    host, port = await server.start("127.0.0.1", 0)
    await broker.start(f"{host}:{port}")
    yield f"{host}:{port}"
    await server.stop(1.0)
    await broker.close()


@pytest.fixture
async def client(address: str) -> AsyncIterator[BrokerClient]:
    async with BrokerClient([address]) as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        yield client


@pytest.fixture
def settings(address: str, client: BrokerClient) -> SinkSettings:
    """Return settings with small batches, so that there are many."""
    return SinkSettings((address,), topic="orders", batch_bytes=4_000, delivery_timeout_ms=20_000)


def batches_of(keys: Iterable[int], size: int = 500) -> Iterator[pa.RecordBatch]:
    """Return rows whose key and value have the same number."""
    numbers = list(keys)
    for start in range(0, len(numbers), size):
        values = [str(number).encode() for number in numbers[start : start + size]]
        yield pa.record_batch([pa.array(values, pa.binary()), pa.array(values, pa.binary())], names=["key", "value"])


async def write(
    batches: Iterable[pa.RecordBatch],
    settings: SinkSettings,
    identity: WriteIdentity = FIRST,
    run: str = "run",
    columns: Columns = KEYED,
) -> AttemptOutcome:
    return await asyncio.to_thread(write_rows, batches, columns, settings, identity, run)


async def finish(client: BrokerClient, epoch: int, outcome: AttemptOutcome) -> None:
    await Recorder(client, "q").finish(epoch, outcome.ends, {"orders"})


ONCE = Counter(range(COUNT))


def fail_after(batches: Iterator[pa.RecordBatch], after: int, settings: SinkSettings) -> Iterator[pa.RecordBatch]:
    """Yield `after` batches; then raise an error once some rows are stored."""
    for number, batch in enumerate(batches):
        if number == after:
            block_until(lambda: asyncio.run(stored_numbers(settings.bootstrap, "orders")))
            raise RuntimeError("the executor failed")
        yield batch


async def test_rows_become_records(client: BrokerClient, settings: SinkSettings) -> None:
    await client.create_topic("other", partitions=2)
    batch = pa.record_batch(
        {
            "value": pa.array(["a", None, "c", "d"], pa.string()),
            "key": pa.array([b"k1", b"k2", None, None], pa.binary()),
            "timestamp": pa.array([1_500_999, None, 3_000_000, 0], pa.timestamp("us", tz="UTC")),
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None, [], None], HEADERS_TYPE
            ),
            "topic": pa.array(["orders", "orders", "other", "other"]),
            "partition": pa.array([None, None, 1, 0], pa.int32()),
        }
    )
    columns = Columns(value=0, key=1, timestamp=2, headers=3, topic=4, partition=5)
    by_row = SinkSettings(settings.bootstrap)
    outcome = await write([batch], by_row, columns=columns)
    assert outcome.rows == 4
    orders = [record for records in (await stored_records(settings.bootstrap, "orders")).values() for record in records]
    first, second = sorted(orders, key=lambda record: record.key or b"")
    assert (first.value, first.timestamp, first.headers) == (b"a", 1_500, [("h", b"1"), ("n", None)])
    marks = await Recorder(client, "q").read()
    beginning = marks.start_of_epoch("orders", 0)
    assert beginning is not None
    assert (second.value, second.timestamp, second.headers) == (None, beginning.ms, [])
    other = await stored_records(settings.bootstrap, "other")
    assert {partition: [(r.value, r.timestamp) for r in records] for partition, records in other.items()} == {
        0: [(b"d", 0)],
        1: [(b"c", 3_000)],
    }


async def test_keys_go_where_other_producers_send_them(client: BrokerClient, settings: SinkSettings) -> None:
    await write(batches_of(range(50)), settings)
    places = {
        record.key: partition
        for partition, records in (await stored_records(settings.bootstrap, "orders")).items()
        for record in records
    }
    assert len(places) == 50
    async with Producer(settings.bootstrap) as producer:
        for key in places:
            delivered = await (await producer.send("orders", b"", key))
            assert delivered.partition == places[key]


async def test_rows_of_a_partition_keep_their_order(client: BrokerClient, settings: SinkSettings) -> None:
    await write(batches_of(range(COUNT)), settings)
    for records in (await stored_records(settings.bootstrap, "orders")).values():
        numbers = [int(record.value or b"") for record in records]
        assert numbers == sorted(numbers) != []


async def test_a_failed_task_can_be_repeated_in_another_order(client: BrokerClient, settings: SinkSettings) -> None:
    for after in (3, 5):
        with pytest.raises(RuntimeError, match="executor failed"):
            await write(fail_after(batches_of(range(COUNT)), after, settings), settings)
    begun = await stored_numbers(settings.bootstrap, "orders")
    assert 0 < begun.total() < COUNT
    outcome = await write(batches_of(random.Random(1).sample(range(COUNT), COUNT)), settings, run="after a restart")
    assert outcome.rows == COUNT
    assert await stored_numbers(settings.bootstrap, "orders") == ONCE
    assert outcome.ends == {TopicPartition("orders", p): (await client.offsets("orders", p)).end for p in range(3)}


async def test_two_attempts_at_the_same_time_write_each_row_once(client: BrokerClient, settings: SinkSettings) -> None:
    shuffled = random.Random(2).sample(range(COUNT), COUNT)
    outcomes = await asyncio.gather(
        write(batches_of(range(COUNT)), settings),
        write(batches_of(shuffled), settings),
        write(batches_of(reversed(shuffled)), settings, run="another driver"),
    )
    assert [outcome.rows for outcome in outcomes] == [COUNT] * 3
    assert await stored_numbers(settings.bootstrap, "orders") == ONCE


async def test_lost_answers_change_nothing(
    client: BrokerClient, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, produce = random.Random(3), BrokerClient.produce_batches

    async def produce_with_losses(self: BrokerClient, *args: Any, **settings: Any) -> Any:
        fate = rng.random()
        if fate < 0.1:
            raise OutcomeUnknown("the connection broke")
        answer = await produce(self, *args, **settings)
        if fate < 0.3:
            raise OutcomeUnknown("the connection broke")
        return answer

    monkeypatch.setattr(BrokerClient, "produce_batches", produce_with_losses)
    await write(batches_of(range(1_000)), settings)
    assert await stored_numbers(settings.bootstrap, "orders") == Counter(range(1_000))


async def test_a_committed_epoch_is_not_written_again(client: BrokerClient, settings: SinkSettings) -> None:
    rows = list(range(100))
    first = await write(batches_of(rows), settings)
    await finish(client, 0, first)
    assert await write(batches_of(rows), settings, run="restarted") == AttemptOutcome(0, {})
    second = await write(batches_of(rows), settings, WriteIdentity("q", 0, 1), run="restarted")
    await finish(client, 1, second)
    assert await stored_numbers(settings.bootstrap, "orders") == Counter(rows * 2)
    for _ in range(2):  # without rows, and repeated
        await finish(client, 2, await write([], settings, WriteIdentity("q", 0, 2)))
    assert (await Recorder(client, "q").read()).newest_complete() == 2
    assert (await write(batches_of(rows), settings, WriteIdentity("q", 0, 3))).rows == 100


async def test_epochs_without_rows_and_topics_can_be_committed(client: BrokerClient, settings: SinkSettings) -> None:
    """A stream with a filter, whose rows name their topics, has such epochs."""
    for epoch in range(2):
        await Recorder(client, "q").finish(epoch, {}, set())
    assert (await Recorder(client, "q").read()).newest_complete() == 1
    assert (await write(batches_of(range(10)), settings, WriteIdentity("q", 0, 1))).rows == 0
    assert (await write(batches_of(range(10)), settings, WriteIdentity("q", 0, 2))).rows == 10


async def test_an_attempt_of_an_older_epoch_is_fenced(client: BrokerClient, settings: SinkSettings) -> None:
    """The driver has abandoned such an attempt, since an epoch begins after the previous one is committed."""

    def next_epoch_meanwhile() -> Iterator[pa.RecordBatch]:
        yield from batches_of(range(1_000))
        write_rows(batches_of(range(1_000)), KEYED, settings, WriteIdentity("q", 0, 1), "run")
        yield from batches_of(range(1_000, 2_000))

    with pytest.raises(ProducerFenced, match="given up"):
        await write(next_epoch_meanwhile(), settings)


async def test_a_missing_commit_record_is_an_error_unless_accepted(
    client: BrokerClient, settings: SinkSettings
) -> None:
    with pytest.raises(WriteForgotten, match="acceptMissingRecord=true"):
        await write(batches_of(range(10)), settings, WriteIdentity("q", 0, 7))
    accepting = SinkSettings(settings.bootstrap, topic="orders", accepts_missing_record=True)
    assert (await write(batches_of(range(10)), accepting, WriteIdentity("q", 0, 7))).rows == 10
    await client.groups.commit("raftlog-sink.theirs", {TopicPartition("orders", 0): 5})
    with pytest.raises(WriteForgotten, match="another client commits"):
        await write(batches_of(range(10)), settings, WriteIdentity("theirs", 0, 0))


async def test_a_write_continues_once_after_its_producer_expired(client: BrokerClient, settings: SinkSettings) -> None:
    with pytest.raises(RuntimeError, match="executor failed"):
        await write(fail_after(batches_of(range(COUNT)), 5, settings), settings)
    begun = await stored_numbers(settings.bootstrap, "orders")
    assert begun
    await client.alter_topic_config("orders", {"producer.id.expiration.ms": "1"})
    await wait_until_expired(client, FIRST)
    await client.alter_topic_config("orders", {"producer.id.expiration.ms": "86400000"})
    await write(batches_of(reversed(range(COUNT))), settings, run="a day later")
    assert await stored_numbers(settings.bootstrap, "orders") == ONCE


async def test_an_attempt_delayed_for_a_day_scans_before_it_writes(
    client: BrokerClient, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Meanwhile another attempt wrote all rows, and the partitions expired the producer."""
    monkeypatch.setattr("raftlog.pipeline.sink.attempt._LEASE_S_MIN", 0.01)
    await client.alter_topic_config("orders", {"producer.id.expiration.ms": "100"})

    def yield_after_the_other_attempt() -> Iterator[pa.RecordBatch]:
        yield from batches_of(range(30))  # not enough for a batch
        write_rows(batches_of(range(COUNT)), KEYED, settings, FIRST, "run")
        asyncio.run(expire_everywhere())
        yield from batches_of(range(30, COUNT))

    async def expire_everywhere() -> None:
        async with BrokerClient(settings.bootstrap) as other:
            await wait_until_expired(other, FIRST)

    await write(yield_after_the_other_attempt(), settings)
    assert await stored_numbers(settings.bootstrap, "orders") == ONCE


async def test_slow_rows_do_not_wait_for_full_batches(
    client: BrokerClient, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.pipeline.sink.attempt._FLUSH_S", 0.01)
    slow = SinkSettings(settings.bootstrap, topic="orders", records_per_second=2_000)

    def yield_until_stored() -> Iterator[pa.RecordBatch]:
        for number in range(400):
            yield from batches_of([number])
            if asyncio.run(stored_numbers(settings.bootstrap, "orders")):
                return
        raise AssertionError("nothing was sent before the end")

    await write(yield_until_stored(), slow)


async def trim_all(client: BrokerClient) -> None:
    for partition in range(PARTITIONS):
        await client.delete_records("orders", partition, (await client.offsets("orders", partition)).end)


async def test_rows_that_were_trimmed_between_attempts_are_reported(
    client: BrokerClient, settings: SinkSettings
) -> None:
    """The second attempt repeats the same batches, which are duplicates for the partitions, and adds others."""
    await write(batches_of(range(COUNT)), settings)
    await trim_all(client)
    for again in (range(COUNT), reversed(range(COUNT))):
        with pytest.raises(WriteForgotten, match="deleted or compacted since"):
            await write(batches_of(again), settings, run="again")
    accepting = replace(settings, accepts_missing_record=True)
    await write(batches_of(range(COUNT)), accepting, run="again")
    assert (await stored_after_trim(client)).keys() == ONCE.keys()


async def stored_after_trim(client: BrokerClient) -> Counter[int]:
    """Return how often each number is stored above the log starts."""
    found = Counter[int]()
    for partition in range(PARTITIONS):
        at, end = await client.offsets("orders", partition)
        while at < end:
            for header, batch in read_batches((await client.fetch_batches("orders", partition, at)).body):
                found.update(int(record.value or b"") for record in read_records(batch))
                at = header.next_offset
    return found


async def test_rows_that_were_trimmed_and_expired_are_reported(
    client: BrokerClient, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.pipeline.sink.attempt._LEASE_S_MIN", 0.01)
    await client.alter_topic_config("orders", {"producer.id.expiration.ms": "50"})
    await write(batches_of(range(10)), settings)
    await trim_all(client)
    await wait_until_expired(client, FIRST)
    with pytest.raises(WriteForgotten, match="below the beginning of the log"):
        await write(batches_of(range(10)), settings, run="again")


async def test_a_topic_recreated_during_an_epoch_is_reported(client: BrokerClient, settings: SinkSettings) -> None:
    """The recorded state was deleted with the topic, and an attempt continued to write into the new one."""

    def yield_with_recreation() -> Iterator[pa.RecordBatch]:
        yield from batches_of(range(10))  # not enough for a batch
        asyncio.run(recreate_topic())
        yield from batches_of(range(10, 30))

    async def recreate_topic() -> None:
        async with BrokerClient(settings.bootstrap) as other:
            await other.delete_topic("orders")
            await other.create_topic("orders", partitions=PARTITIONS)

    await write(yield_with_recreation(), settings)
    with pytest.raises(WriteForgotten, match="at offsets below"):
        await write(batches_of(range(30)), settings, run="again")
    assert await stored_numbers(settings.bootstrap, "orders") == Counter(range(30))


async def test_a_write_id_names_one_write(client: BrokerClient, settings: SinkSettings) -> None:
    """A write id used again would write nothing to another topic."""
    await client.create_topic("other", partitions=1)
    named = replace(settings, write_id="q")
    await finish(client, 0, await write(batches_of(range(10)), named))
    assert await write(batches_of(range(10)), named) == AttemptOutcome(0, {})
    with pytest.raises(InvalidArgument, match="not one to other"):
        await write(batches_of(range(10)), replace(named, topic="other"))


async def test_a_repeated_finished_write_is_reported(
    client: BrokerClient, settings: SinkSettings, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"bootstrap": ",".join(settings.bootstrap), "topic": "orders", "writeId": "q"}
    writer = batch_writer(options, StructType().add("value", "binary"), False)
    for told in ("", "the write q (writeEpoch 0) was done before"):
        outcome = await write(batches_of(range(10)), replace(settings, write_id="q"))
        await asyncio.to_thread(writer.commit, [WrittenTask("q", 0, outcome.rows, outcome.ends)])
        assert told in caplog.text
        assert bool(told) == bool(caplog.text)


async def wait_until_expired(client: BrokerClient, identity: WriteIdentity) -> None:
    """Wait until no partition has the producer: a partition that has it refuses a jump of the sequence."""
    jump = build_columns(
        [b"x"], [None], [1], [[]], producer_id=identity.producer_id(), producer_epoch=0, base_sequence=1_000_000
    )

    async def has_expired(partition: int) -> bool:
        with pytest.raises((UnknownProducer, OutOfOrderSequence)) as refused:
            await client.produce_batches("orders", partition, jump)
        return refused.type is UnknownProducer

    for partition in range(PARTITIONS):
        await until_async(partial(has_expired, partition))


async def test_changed_rows_are_reported(client: BrokerClient, settings: SinkSettings) -> None:
    with pytest.raises(RuntimeError, match="executor failed"):
        await write(fail_after(batches_of(range(COUNT)), 5, settings), settings)
    stored = await stored_numbers(settings.bootstrap, "orders")
    missing = min(stored)
    with pytest.raises(InputChanged, match=r"orders/\d: .* 1 records .* at offsets \d+\)"):
        await write(batches_of(number for number in range(COUNT) if number != missing), settings, run="again")
    assert await stored_numbers(settings.bootstrap, "orders") == ONCE


async def test_write_errors_are_reported(client: BrokerClient, settings: SinkSettings) -> None:
    bootstrap = settings.bootstrap
    with pytest.raises(UnknownTopic, match="raftlog topic create nowhere"):
        await write(batches_of([1]), SinkSettings(bootstrap, topic="nowhere"))
    placed = pa.record_batch({"value": pa.array([b"a"]), "partition": pa.array([3], pa.int32())})
    with pytest.raises(InvalidArgument, match="the partition orders/3, and the topic has 3"):
        await write([placed], settings, columns=Columns(value=0, partition=1))
    nameless = pa.record_batch({"value": pa.array([b"a"]), "topic": pa.array([None], pa.string())})
    with pytest.raises(InvalidArgument, match="no topic"):
        await write([nameless], SinkSettings(bootstrap), columns=Columns(value=0, topic=1))
    early = pa.record_batch({"value": pa.array([b"a"]), "timestamp": pa.array([-1], pa.int64())})
    with pytest.raises(InvalidArgument, match="before 1970"):
        await write([early], settings, columns=Columns(value=0, timestamp=1))


async def test_partitions_added_during_an_epoch_do_not_move_rows(
    client: BrokerClient, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of partitions is recorded when the epoch begins."""
    with pytest.raises(RuntimeError, match="executor failed"):
        await write(fail_after(batches_of(range(COUNT)), 5, settings), settings)
    described = await client.describe_topic("orders")
    more = msgspec.structs.replace(described, replicas=([*described.replicas] * 5)[:5])

    async def describe(_: BrokerClient, __: str) -> Any:
        return more

    monkeypatch.setattr(BrokerClient, "describe_topic", describe)
    await write(batches_of(range(COUNT)), settings, run="again")
    monkeypatch.undo()
    assert await stored_numbers(settings.bootstrap, "orders") == ONCE


async def test_buffered_records_are_bounded_over_all_partitions(
    client: BrokerClient, settings: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftlog.pipeline.sink.attempt.BUFFER_BYTES_MAX", 5_000)
    large = SinkSettings(settings.bootstrap, topic="orders")
    await write(batches_of(range(COUNT), size=100), large)
    assert await stored_numbers(settings.bootstrap, "orders") == ONCE
    stored = [(await client.fetch_batches("orders", partition, 0)).body for partition in range(PARTITIONS)]
    assert sum(len(list(read_batches(body))) for body in stored) > COUNT * 36 // 5_000 / 2
