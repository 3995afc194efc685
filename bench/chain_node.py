"""Process of one read-process-write chain under measurement: `python -m bench.chain_node` (see `node_commands`).

A transaction copies `RECORDS` records of the consumer's partitions to the partitions of the same number in another
topic, with their offsets."""

import time
from contextlib import suppress
from typing import Any, Final

from bench.cluster_http import TOPIC
from bench.measure import MeasureFailed
from bench.node_commands import run
from bench.syncs import SyncCount
from raftlog.client import BrokerClient, Consumer, ConsumerRecord, TransactionAborted, TransactionalProducer

COPIES: Final = "copies"
GROUP: Final = "chains"
RECORDS: Final = 100
"""Records of one transaction."""


class Commands:
    """Handlers of the commands that this process accepts: `open`, `run`, `close`."""

    consumer: Consumer[bytes, bytes]
    producer: TransactionalProducer[bytes, bytes]

    def __init__(self, syncs: SyncCount) -> None:
        """Begin without a chain; a client syncs nothing."""

    async def open(self, addresses: list[str], number: int, chains: int) -> dict[str, Any]:
        """Join the group, and copy until it is stable with `chains` members; return the number of partitions."""
        self.consumer = Consumer(addresses, TOPIC, group=GROUP, auto_commit=False)
        self.producer = TransactionalProducer(addresses, f"chain-{number}")
        async with BrokerClient(addresses) as client:
            while True:
                with suppress(TransactionAborted):  # the group has rebalanced, because another chain joined
                    await self._copy()
                    described = await client.groups.describe(GROUP)
                    if described.state == "STABLE" and len(await client.groups.consumers(GROUP)) == chains:
                        return {"partitions": len(self.consumer.assignment)}

    async def run(self, seconds: float) -> dict[str, Any]:
        """Run transactions one after another; return the time of each in milliseconds, and the CPU seconds."""
        took_ms: list[float] = []
        begin, cpu = time.perf_counter(), time.process_time()
        begun = begin
        while begun < begin + seconds:
            await self._copy()
            ended = time.perf_counter()
            took_ms.append((ended - begun) * 1000)
            begun = ended
        return {"took_ms": took_ms, "cpu_s": time.process_time() - cpu, "seconds": begun - begin}

    async def close(self) -> None:
        """Leave the group."""
        await self.producer.close()
        await self.consumer.close()

    async def _copy(self) -> None:
        """Run one transaction."""
        async with self.producer.transaction(self.consumer):
            for record in await self._take():
                await self.producer.send(COPIES, record.value, partition=record.partition)

    async def _take(self) -> list[ConsumerRecord[bytes, bytes]]:
        """Poll until `RECORDS` records are there, and return them. Raises `MeasureFailed` if they run out."""
        records: list[ConsumerRecord[bytes, bytes]] = []
        while len(records) < RECORDS:
            some = await self.consumer.poll(RECORDS - len(records))
            if not some and records:
                raise MeasureFailed("there are no more records to copy")
            records += some
        return records


if __name__ == "__main__":
    run(Commands)
