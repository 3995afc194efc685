"""Transactions of the client at a real broker: read, process, write; aborts, fencing, lost answers."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from raftlog.client import (
    BrokerClient,
    Consumer,
    Producer,
    ProducerIdentity,
    TopicPartition,
    TransactionAborted,
    TransactionalProducer,
    sync,
    transactions,
)
from raftlog.client.producers.transaction_identities import EPOCH_MAX
from raftlog.errors import InvalidArgument, OutcomeUnknown, ProducerFenced, RecordTooLarge, Unavailable
from raftlog.types import Offset
from tests.waiting import until_async

IN, OUT = "in", "out"
Client = transactions.TransactionClient


@pytest.fixture
async def client(live: str) -> AsyncIterator[BrokerClient]:
    async with BrokerClient(live) as client:
        for name in (IN, OUT):
            await client.create_topic(name, 2)
        yield client


@pytest.fixture
async def producer(live: str, client: BrokerClient) -> AsyncIterator[TransactionalProducer[bytes, bytes]]:
    async with TransactionalProducer[bytes, bytes](live, "tx", delivery_timeout_ms=20_000) as producer:
        yield producer


def consume(address: str, *, group: str | None = "g", **options: Any) -> Consumer[bytes, bytes]:
    return Consumer(address, IN, group=group, auto_commit=False, **options)


async def fill(address: str, count: int) -> None:
    async with Producer[bytes, bytes](address) as producer:
        for value in range(count):
            await producer.send(IN, b"%d" % value, partition=value % 2)


async def values_of(address: str, topic: str, count: int) -> list[bytes]:
    """Return the committed values of a topic, sorted, once there are `count`; more are an error."""
    values: list[bytes] = []
    async with Consumer[bytes, bytes](address, topic) as consumer, asyncio.timeout(20):
        while len(values) < count:
            values += [record.value or b"" for record in await consumer.poll(timeout_ms=200)]
        values += [record.value or b"" for record in await consumer.poll(timeout_ms=50)]
    return sorted(values)


async def poll_all(consumer: Consumer[bytes, bytes], count: int) -> list[Any]:
    """Return that many records of one poll."""
    async with asyncio.timeout(20):
        while True:
            records = await consumer.poll(timeout_ms=200)
            if len(records) == count:
                return records
            for each in consumer.assignment:
                consumer.seek(each, 0)


async def committed_offsets(client: BrokerClient, total: int) -> None:
    """Wait until the committed offsets of the group have this sum."""

    async def is_committed() -> bool:
        return sum(each.offset for each in (await client.groups.committed("g")).values()) == total

    await until_async(is_committed)


async def test_read_process_write(live: str, client: BrokerClient, producer: Any) -> None:
    await fill(live, 40)
    async with consume(live, max_poll_records=7) as consumer, asyncio.timeout(30):
        done = 0
        while done < 40:
            async with producer.transaction(consumer):
                records = await consumer.poll(timeout_ms=200)
                for record in records:
                    await producer.send(OUT, b"done " + (record.value or b""), key=record.value)
            done += len(records)
    assert await values_of(live, OUT, 40) == sorted(b"done %d" % value for value in range(40))
    await committed_offsets(client, 40)


async def test_exception_aborts_and_records_are_handed_out_again(
    live: str, client: BrokerClient, producer: Any
) -> None:
    await fill(live, 10)
    async with consume(live) as consumer, asyncio.timeout(30):

        async def fail() -> None:
            async with producer.transaction(consumer):
                for _ in await poll_all(consumer, 10):
                    await producer.send(OUT, b"lost")
                await producer.flush()
                raise ZeroDivisionError

        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await fail()
        polled = await poll_all(consumer, 10)  # also a poll before the transaction belongs to it
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction(consumer):
                raise ZeroDivisionError
        again = await poll_all(consumer, 10)
        assert sorted(again) == sorted(polled)
        async with producer.transaction(consumer):
            for record in again:
                await producer.send(OUT, record.value)
    assert await values_of(live, OUT, 10) == sorted(b"%d" % value for value in range(10))
    await committed_offsets(client, 10)


async def test_iteration_within_transaction_commits_what_it_handed_out(
    live: str, client: BrokerClient, producer: Any
) -> None:
    await fill(live, 6)
    async with consume(live) as consumer, asyncio.timeout(30):
        for total in (3, 6):
            async with producer.transaction(consumer):
                for _ in range(3):
                    await producer.send(OUT, (await anext(consumer)).value)
            await committed_offsets(client, total)
    assert len(await values_of(live, OUT, 6)) == 6


async def test_newer_producer_fences_older_one(live: str, client: BrokerClient, producer: Any) -> None:
    async with producer.transaction():
        await producer.send(OUT, b"first")
    with pytest.raises(ProducerFenced):  # noqa: PT012  # the block is a transaction
        async with producer.transaction():
            await producer.send_and_wait(OUT, b"lost")
            async with TransactionalProducer[bytes, bytes](live, "tx") as newer, newer.transaction():
                await newer.send(OUT, b"second")
    with pytest.raises(ProducerFenced):
        async with producer.transaction():
            await producer.send(OUT, b"lost")
    assert await values_of(live, OUT, 2) == [b"first", b"second"]


async def test_offsets_of_replaced_member_are_refused(live: str, client: BrokerClient, producer: Any) -> None:
    await fill(live, 10)
    async with consume(live) as consumer, asyncio.timeout(30):
        while not (records := await consumer.poll(timeout_ms=200)):
            pass
        with pytest.raises(TransactionAborted):  # noqa: PT012  # the block is a transaction
            async with producer.transaction(consumer):
                await producer.send(OUT, records[0].value)
                [member] = await client.groups.consumers("g")
                await client.groups.leave("g", [(member.member_id, None)])
        assert await client.groups.committed("g") == {}
        async with producer.transaction(consumer):  # the consumer joins again inside its poll
            while not (records := await consumer.poll(timeout_ms=200)):
                pass
            await producer.send(OUT, b"kept")
    assert await values_of(live, OUT, 1) == [b"kept"]


async def test_no_records_are_handed_out_in_a_transaction_after_a_rebalance(
    live: str, client: BrokerClient, producer: Any
) -> None:
    await fill(live, 10)
    async with consume(live) as consumer, asyncio.timeout(30):
        with pytest.raises(TransactionAborted, match="rebalanced during the transaction"):  # noqa: PT012  # the block is a transaction
            async with producer.transaction(consumer):
                while not (records := await consumer.poll(1, timeout_ms=200)):
                    pass
                await producer.send(OUT, records[0].value)
                consumer.subscribe([IN])  # joins again
                while True:
                    await consumer.poll(timeout_ms=200)
    assert await client.groups.committed("g") == {}


async def test_a_new_member_waits_for_transactions_with_offsets_of_its_partitions(
    live: str, client: BrokerClient
) -> None:
    """F53: a member before it has processed these records, and its transaction is not ended everywhere."""
    await fill(live, 2)
    identity = await client.transactions.initialize("of the member before", 60_000)
    places = {TopicPartition(IN, 0): Offset(1)}
    await client.transactions.add_offsets("of the member before", identity, "g", places, None)
    async with consume(live) as consumer, asyncio.timeout(30):

        async def poll() -> list[bytes | None]:
            while not (records := await consumer.poll(timeout_ms=200)):
                pass
            return [record.value for record in records]

        async def has_joined() -> bool:
            return any(each.state == "STABLE" for each in await client.groups.describe_all())

        polled = asyncio.ensure_future(poll())
        await until_async(has_joined)
        await client.transactions.end("of the member before", identity, is_commit=True)
        assert await polled == [b"1"]


async def test_a_rebalance_ends_the_wait_of_a_new_member(live: str, client: BrokerClient) -> None:
    await fill(live, 2)
    identity = await client.transactions.initialize("of the member before", 60_000)
    places = {TopicPartition(IN, 0): Offset(1)}
    await client.transactions.add_offsets("of the member before", identity, "g", places, None)
    async with consume(live, session_timeout_ms=1_000) as first, consume(live, session_timeout_ms=1_000) as second:
        polls = [asyncio.ensure_future(_poll_for_ever(each)) for each in (first, second)]

        async def have_joined() -> bool:
            members = await client.groups.consumers("g") if "g" in await client.groups.names() else []
            return len(members) == 2

        await until_async(have_joined)  # the second one joins while the first one waits for the transaction
        await client.transactions.end("of the member before", identity, is_commit=False)
        await until_async(lambda: _are_all_assigned(first, second))
        for each in polls:
            each.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def _poll_for_ever(consumer: Consumer[bytes, bytes]) -> None:
    while True:
        await consumer.poll(timeout_ms=200)


async def _are_all_assigned(*consumers: Consumer[bytes, bytes]) -> bool:
    return [len(each.assignment) for each in consumers] == [1, 1]


async def test_lost_answer_to_commit_is_repeated(
    live: str, client: BrokerClient, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Client.end, []

    async def end(self: Client, *args: Any, **options: Any) -> ProducerIdentity:
        found = await real(self, *args, **options)
        calls.append(found)
        if len(calls) % 2 == 1:
            raise OutcomeUnknown("the answer was lost")
        return found

    monkeypatch.setattr(Client, "end", end)
    for value in (b"a", b"b"):
        async with producer.transaction():
            await producer.send(OUT, value)
    assert calls[0] == calls[1] != calls[2]
    assert await values_of(live, OUT, 2) == [b"a", b"b"]


async def test_unknown_commit_ends_the_producer(
    live: str, client: BrokerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(self: Client, *args: Any, **options: Any) -> ProducerIdentity:
        raise OutcomeUnknown("the answer was lost")

    async with TransactionalProducer[bytes, bytes](live, "tx", delivery_timeout_ms=300) as producer:
        with pytest.raises(OutcomeUnknown):  # noqa: PT012  # the block is a transaction
            async with producer.transaction():
                await producer.send_and_wait(OUT, b"a")
                monkeypatch.setattr(Client, "end", end)
        with pytest.raises(OutcomeUnknown):
            async with producer.transaction():
                pass


async def test_refusal_of_a_record_or_offset_is_raised(
    live: str, client: BrokerClient, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producer.transaction():
        await producer.send(OUT, b"first")
    await client.alter_topic_config(OUT, {"max.message.bytes": "1024"})  # the producer knows the limit before
    with pytest.raises(RecordTooLarge):  # noqa: PT012  # the block is a transaction
        async with producer.transaction():
            await producer.send(OUT, b"lost", partition=0)
            await producer.send(OUT, bytes(5_000), partition=1)

    async def add_offsets(self: Client, *args: Any, **options: Any) -> None:
        raise InvalidArgument("refused")

    await fill(live, 4)
    async with consume(live) as consumer:
        with pytest.raises(InvalidArgument, match="refused"), monkeypatch.context() as patched:  # noqa: PT012
            async with producer.transaction(consumer):
                await producer.send(OUT, (await anext(consumer)).value)
                patched.setattr(Client, "add_offsets", add_offsets)
    async with producer.transaction():
        await producer.send(OUT, b"second")
    assert await values_of(live, OUT, 2) == [b"first", b"second"]


async def test_cancelled_commit_ends_the_producer(
    live: str, client: BrokerClient, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, decided = Client.end, asyncio.Event()

    async def end(self: Client, *args: Any, **options: Any) -> ProducerIdentity:
        await real(self, *args, **options)
        decided.set()
        return await asyncio.Future[ProducerIdentity]()

    async def run() -> None:
        async with producer.transaction():
            await producer.send(OUT, b"a")

    with monkeypatch.context() as patched:
        patched.setattr(Client, "end", end)
        running = asyncio.create_task(run())
        await decided.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    with pytest.raises(OutcomeUnknown, match="cancelled"):
        await run()
    assert await values_of(live, OUT, 1) == [b"a"]


async def test_transaction_cancelled_while_its_records_are_stored_is_aborted(
    live: str, client: BrokerClient, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sent = BrokerClient.produce_batches, asyncio.Event()

    async def produce(self: BrokerClient, *args: Any, **options: Any) -> Any:
        await real(self, *args, **options)
        sent.set()
        return await asyncio.Future[Any]()

    async def run(value: bytes) -> None:
        async with producer.transaction():
            await producer.send(OUT, value)

    with monkeypatch.context() as patched:
        patched.setattr(BrokerClient, "produce_batches", produce)
        running = asyncio.create_task(run(b"lost"))
        await sent.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await run(b"kept")
    assert await values_of(live, OUT, 1) == [b"kept"]


async def test_timeout_during_the_abort_of_a_refused_transaction_is_a_timeout(
    live: str, client: BrokerClient, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(self: Client, *args: Any, **options: Any) -> ProducerIdentity:
        timeout.reschedule(asyncio.get_running_loop().time())
        return await asyncio.Future[ProducerIdentity]()

    async with producer.transaction():
        await producer.send(OUT, b"first")
    await client.alter_topic_config(OUT, {"max.message.bytes": "1024"})  # the producer knows the limit before
    with monkeypatch.context() as patched, pytest.raises(TimeoutError):  # noqa: PT012  # the block is a transaction
        async with asyncio.timeout(None) as timeout, producer.transaction():
            await producer.send(OUT, bytes(5_000))
            patched.setattr(Client, "end", end)
    async with producer.transaction():
        await producer.send(OUT, b"second")
    assert await values_of(live, OUT, 2) == [b"first", b"second"]


async def test_send_that_outlives_its_transaction_is_refused(live: str, client: BrokerClient) -> None:
    async with TransactionalProducer[bytes, bytes](live, "tx", buffer_records=5) as producer:
        late: list[asyncio.Task[Any]] = []
        with pytest.raises(ZeroDivisionError):  # noqa: PT012  # the block is a transaction
            async with producer.transaction():
                await producer.send(OUT, b"first")
                late += [asyncio.create_task(producer.send(OUT, b"late")) for _ in range(20)]
                late.append(asyncio.create_task(producer.send(IN, b"late")))  # waits for the metadata of its topic
                await asyncio.sleep(0)
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send(OUT, b"kept")
        results = await asyncio.gather(*late, return_exceptions=True)
        assert {type(each) for each in results[-16:]} == {InvalidArgument}
        with pytest.raises(InvalidArgument, match="no transaction is open"):
            await producer.send(IN, b"late")
    assert await values_of(live, OUT, 1) == [b"kept"]
    assert await values_of(live, IN, 0) == []


async def test_close_aborts_the_open_transaction(live: str, client: BrokerClient, producer: Any) -> None:
    with pytest.raises(TransactionAborted, match="closed"):  # noqa: PT012  # the block is a transaction
        async with producer.transaction():
            await producer.send_and_wait(OUT, b"lost")
            await producer.close()
            assert (await client.admin.transaction("tx")).state in ("PrepareAbort", "CompleteAbort")


async def test_failed_abort_is_made_up_for_by_the_next_begin(
    live: str, client: BrokerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(self: Client, *args: Any, **options: Any) -> ProducerIdentity:
        raise Unavailable("no coordinator")

    async with TransactionalProducer[bytes, bytes](live, "tx", delivery_timeout_ms=300) as producer:
        with pytest.raises(ZeroDivisionError) as raised, monkeypatch.context() as patched:  # noqa: PT012  # the block is a transaction
            async with producer.transaction():
                await producer.send_and_wait(OUT, b"lost")
                patched.setattr(Client, "end", end)
                raise ZeroDivisionError
        assert "aborted only before the next one" in raised.value.__notes__[0]
        async with producer.transaction():
            await producer.send_and_wait(OUT, b"kept")
    assert await values_of(live, OUT, 1) == [b"kept"]


async def test_epochs_are_used_up(live: str, client: BrokerClient, monkeypatch: pytest.MonkeyPatch) -> None:
    real_end, initialized = Client.end, []
    real = Client.initialize

    async def end(self: Client, *args: Any, **options: Any) -> ProducerIdentity:
        return (await real_end(self, *args, **options))._replace(epoch=EPOCH_MAX)

    async def initialize(self: Client, name: str, transaction_timeout_ms: int, present: Any, **options: Any) -> Any:
        initialized.append(present)
        return await real(self, name, transaction_timeout_ms, None, **options)

    monkeypatch.setattr(Client, "end", end)
    monkeypatch.setattr(Client, "initialize", initialize)
    async with TransactionalProducer[bytes, bytes](live, "tx") as producer:
        for value in (b"a", b"b"):
            async with producer.transaction():
                await producer.send(OUT, value)
    assert initialized[0] is None
    assert initialized[1].epoch == EPOCH_MAX
    assert await values_of(live, OUT, 2) == [b"a", b"b"]


async def test_many_batches_of_one_partition_keep_their_order(live: str, client: BrokerClient) -> None:
    async with TransactionalProducer[bytes, bytes](live, "tx", batch_records=10) as producer:
        for first in (0, 100):
            async with producer.transaction():
                for value in range(first, first + 100):
                    await producer.send(OUT, b"%d" % value, partition=0)
    async with Consumer[bytes, bytes](live) as consumer, asyncio.timeout(20):
        await consumer.assign({TopicPartition(OUT, 0): 0})
        values: list[bytes | None] = []
        while len(values) < 200:
            values += [record.value for record in await consumer.poll(timeout_ms=200)]
    assert values == [b"%d" % value for value in range(200)]


async def test_begin_and_empty_transaction_send_nothing(
    client: BrokerClient, producer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producer.transaction():
        await producer.send(OUT, b"a")

    async def request(self: Any, *args: Any, **options: Any) -> None:
        raise AssertionError(f"a request was sent: {args}")

    monkeypatch.setattr("raftlog.client.transport.HttpTransport.request", request)
    async with producer.transaction():
        pass
    monkeypatch.undo()


async def test_misuse_is_refused(live: str, client: BrokerClient, producer: Any) -> None:
    with pytest.raises(InvalidArgument, match="no transaction is open"):
        await producer.send(OUT, b"a")
    async with producer.transaction():
        with pytest.raises(InvalidArgument, match="one at a time"):
            async with producer.transaction():
                pass
        await producer.send(OUT, b"a")
    with pytest.raises(InvalidArgument, match="no transaction is open"):
        await producer.send(OUT, b"b")
    with pytest.raises(RecordTooLarge):
        async with producer.transaction():
            await producer.send(OUT, bytes(9 << 20))
    async with consume(live, group=None) as consumer:
        with pytest.raises(InvalidArgument, match="group"):
            producer.transaction(consumer)
    async with Consumer(live, IN, group="g") as automatic:
        with pytest.raises(InvalidArgument, match="auto_commit=False"):
            producer.transaction(automatic)
    with pytest.raises(InvalidArgument, match="idempotent"):
        TransactionalProducer(live, "tx", idempotent=False)
    assert await values_of(live, OUT, 1) == [b"a"]


async def test_synchronous_clients(live: str, client: BrokerClient) -> None:
    def join() -> sync.Consumer[bytes, bytes]:
        consumer = sync.Consumer[bytes, bytes](live, IN, group="g", auto_commit=False)
        while len(consumer.assignment) < 2:
            assert not consumer.poll(timeout_ms=100)
        return consumer

    def run() -> None:
        with consumer, sync.TransactionalProducer[bytes, bytes](live, "tx") as producer:
            with pytest.raises(ZeroDivisionError), producer.transaction(consumer):  # noqa: PT012  # the transaction
                producer.send(OUT, next(consumer).value)
                raise ZeroDivisionError
            with producer.transaction(consumer):
                for _ in range(4):
                    producer.send(OUT, next(consumer).value)

    consumer = await asyncio.to_thread(join)
    await fill(live, 4)
    await asyncio.to_thread(run)
    assert await values_of(live, OUT, 4) == [b"0", b"1", b"2", b"3"]
    await committed_offsets(client, 4)
