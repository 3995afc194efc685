"""Helpers that fill a fake broker's partition and poll a consumer for a number of records."""

import asyncio

from raftlog.client import Consumer, ConsumerRecord
from raftlog.records import NewRecord, build_batch
from raftlog.types import TopicPartition
from tests.client.fake_broker import Partition

FIRST = TopicPartition("orders", 0)


def fill(partition: Partition, values: range, batch: int = 10, codec: int = 0) -> None:
    for first in range(values.start, values.stop, batch):
        some = range(first, min(first + batch, values.stop))
        partition.append(bytes(build_batch([NewRecord(b"%d" % value, None, 1000 + value) for value in some])))


async def poll_records(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(20):
        while len(records) < count:
            records += await consumer.poll(count - len(records))
    return records


def offsets_of(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]
