"""Fetch and ListOffsets with isolation read_committed: open, committed and aborted transactions of one partition."""

import asyncio
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.client.decode import read_batches
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.replica import AppendPermission
from raftlog.partitions.results import ALL
from raftlog.records import TransactionMarker, drop_hidden, read_records
from tests.kafka.data.requests import Handlers
from tests.kafka.data.session_client import SessionClient
from tests.replica.transacting import confirm, transactional_batch
from tests.waiting import until

LATEST = -1
PRODUCER = 7


class Participant:
    """Transactions in partition 0 of `t`, without a coordinator."""

    def __init__(self, lone: Handlers) -> None:
        replica = lone.broker.parts.topics.find("t").partition(0).replica
        assert replica is not None
        self.replica = replica
        self._sequences: dict[int, int] = {}

    async def write(self, *values: bytes, producer: int = PRODUCER) -> None:
        await self.replica.transactions.enlist(producer, AppendPermission(0, "tx"), confirm, deadline_in(5_000))
        sequence = self._sequences.get(producer, 0)
        batch = transactional_batch(sequence, *values, producer=producer)
        self._sequences[producer] = sequence + len(values)
        await self.replica.append([batch], ALL)

    async def end(self, *, is_commit: bool, producer: int = PRODUCER) -> None:
        marker = TransactionMarker(producer, 0, is_commit, 1)
        await self.replica.transactions.end_transaction(marker, deadline_in(5_000))


@pytest.fixture
def participant(lone: Handlers) -> Participant:
    return Participant(lone)


def visible(row: Any) -> list[bytes]:
    """Return the values that a client of committed records shows."""
    batches = [batch for _, batch in read_batches(bytes(row.records or b""))]
    aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()]
    return [record.value or b"" for batch in drop_hidden(batches, aborted) for record in read_records(batch)]


async def list_latest(lone: Handlers, isolation: int) -> int:
    part = ListOffsetsRequest.ListOffsetsTopic
    rows = [part.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)]
    topics = [part(name="t", partitions=rows)]
    answer = await lone.send(ApiKey.LIST_OFFSETS, 6, replica_id=-1, isolation_level=isolation, topics=topics)
    return int(answer.topics[0].partitions[0].offset)


@pytest.mark.parametrize("version", range(4, 13))
async def test_a_read_of_committed_records_ends_at_an_open_transaction(lone, participant, version):
    await participant.write(b"kept")
    await participant.end(is_commit=True)
    await participant.write(b"open")
    committed = await lone.fetch_one(0, version=version, isolation_level=1)
    assert (committed.error_code, committed.high_watermark, committed.last_stable_offset) == (0, 3, 2)
    assert visible(committed) == [b"kept"]
    uncommitted = await lone.fetch_one(0, version=version)
    assert (uncommitted.high_watermark, uncommitted.last_stable_offset) == (3, 3)
    assert visible(uncommitted) == [b"kept", b"open"]
    assert [await list_latest(lone, isolation) for isolation in (0, 1)] == [3, 2]


@pytest.mark.parametrize("version", range(4, 13))
async def test_aborted_transactions_are_listed_with_their_records(lone, participant, version):
    await participant.write(b"one", b"two")
    await participant.write(b"other", producer=8)
    await participant.end(is_commit=True, producer=8)
    await participant.end(is_commit=False)
    committed = await lone.fetch_one(0, version=version, isolation_level=1)
    assert [(each.producer_id, each.first_offset) for each in committed.aborted_transactions] == [(PRODUCER, 0)]
    assert visible(committed) == [b"other"]
    assert committed.last_stable_offset == committed.high_watermark == 5
    uncommitted = await lone.fetch_one(0, version=version)
    assert uncommitted.aborted_transactions is None
    assert visible(uncommitted) == [b"one", b"two", b"other"]
    assert (await lone.fetch_one(5, version=version, isolation_level=1)).aborted_transactions == []


async def test_a_long_poll_of_committed_records_waits_for_the_end_of_the_transaction(lone, participant):
    await participant.write(b"value")
    waiting = asyncio.create_task(lone.fetch_one(0, isolation_level=1, min_bytes=1, max_wait_ms=10_000))
    await until(lambda: participant.replica.waiting_count == 1)
    await participant.write(b"more")
    assert not waiting.done()
    await participant.end(is_commit=True)
    assert visible(await waiting) == [b"value", b"more"]


async def test_a_session_returns_records_once_they_are_stable_and_keeps_its_isolation(lone, participant):
    client = SessionClient(lone, {("t", 0): 0})
    await participant.write(b"value")
    for _ in range(2):
        rows = await client.fetch(isolation_level=1)
        assert [visible(row) for row in rows.values()] in ([], [[]])
    await participant.end(is_commit=True)
    rows = await client.fetch(isolation_level=1, min_bytes=1, max_wait_ms=5_000)
    assert [visible(row) for row in rows.values()] == [[b"value"]]
    answer = await client.send({}, [], isolation_level=0)
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
