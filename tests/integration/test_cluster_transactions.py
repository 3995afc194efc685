"""Read, process, write on a cluster: a program killed in its middle, and the crash of a broker."""

import asyncio
import sys

from raftlog.client import BrokerClient, Consumer, Producer, TransactionAborted, TransactionalProducer
from raftlog.testing import Cluster
from tests.waiting import until_async

RECORDS = 400


async def fill(bootstrap: str) -> None:
    async with BrokerClient(bootstrap) as client:
        for name in ("in", "out"):
            await client.create_topic(name, 3, 3)
    async with Producer[bytes, bytes](bootstrap) as producer:
        for value in range(RECORDS):
            await producer.send("in", b"%d" % value, partition=value % 3)


async def copy(bootstrap: str, stop_after: int | None = None) -> int:
    """Copy records from `in` to `out` until all are copied; return the number of transactions.

    After `stop_after` transactions leave one open, print a line, and wait to be killed."""
    consumer = Consumer[bytes, bytes](
        bootstrap, "in", group="g", auto_commit=False, max_poll_records=20, session_timeout_ms=6_000
    )
    producer = TransactionalProducer[bytes, bytes](bootstrap, "copy")
    done = 0
    async with consumer, producer:
        while sum(each.offset for each in (await consumer.committed()).values()) < RECORDS:
            try:
                async with producer.transaction(consumer):
                    for record in await consumer.poll(timeout_ms=200):
                        await producer.send("out", record.value, key=record.value)
                        if done == stop_after:
                            await producer.flush()
                            print("open", flush=True)
                            await asyncio.Future[None]()
            except TransactionAborted:
                continue
            done += 1
    return done


async def read_out(bootstrap: str) -> list[int]:
    """Return the committed values of `out`, sorted, once there are as many as records."""
    values: list[int] = []
    async with Consumer[bytes, bytes](bootstrap, "out") as consumer:
        while len(values) < RECORDS:
            values += [int(record.value or b"") for record in await consumer.poll(timeout_ms=500)]
        values += [int(record.value or b"") for record in await consumer.poll(timeout_ms=300)]
    return sorted(values)


async def test_successor_of_a_killed_program_continues_without_duplicates() -> None:
    with Cluster(3) as cluster:
        async with asyncio.timeout(120):
            await fill(cluster.bootstrap)
            program = f"import asyncio; from {__name__} import copy; asyncio.run(copy({cluster.bootstrap!r}, 3))"
            killed = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
            assert killed.stdout is not None
            assert await killed.stdout.readline() == b"open\n"
            killed.kill()
            await killed.wait()
            await copy(cluster.bootstrap)
            assert await read_out(cluster.bootstrap) == list(range(RECORDS))


async def test_crash_of_the_coordinator_loses_and_repeats_nothing() -> None:
    with Cluster(3) as cluster:
        async with asyncio.timeout(180):
            await fill(cluster.bootstrap)
            copying = asyncio.ensure_future(copy(cluster.bootstrap))
            async with BrokerClient(cluster.bootstrap) as client:
                rows = await until_async(client.admin.transactions)
            node = rows[0].coordinator_id
            await asyncio.to_thread(cluster.nodes[node].kill)
            await asyncio.to_thread(cluster.nodes[node].start)
            await copying
            assert await read_out(cluster.bootstrap) == list(range(RECORDS))
