"""Measures of `Producer` and `Consumer` in one process, with three brokers that sync every write."""

import asyncio
import time
from typing import Any

from bench.child import run_in_child
from bench.cluster_http import TOPIC, cluster_of_three, cpu_of, create_topic, port_of, restart_all
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.read_back import require_read_back
from bench.samples import RECORDS_PER_BATCH, VALUE_BYTES, batches, percentile
from raftlog.client import BrokerClient, Consumer, Delivery, Producer

PARTITIONS = 3
SECONDS = 6.0
WARM_S = 1.0
BATCHED = {"batch_records": 2_000, "buffer_records": 20_000}
"""Settings for the required figure; all others have their defaults."""
SAMPLED_EVERY = 500
RECORDS = 1_500_000
_TAIL = b"x" * (VALUE_BYTES - 16)


def send(addresses: list[str], topic: str, seconds: float, settings: dict[str, Any]) -> dict[str, Any]:
    """Send records as fast as the producer accepts them; in a child process."""
    return asyncio.run(_send(addresses, topic, seconds, settings))


async def _send(addresses: list[str], topic: str, seconds: float, settings: dict[str, Any]) -> dict[str, Any]:
    """Send records for `seconds` after a warm-up; return their rate, and the latencies of a sample of them."""
    latencies: list[float] = []
    sampled: set[asyncio.Task[None]] = set()

    async def sample(delivery: Delivery, begun: float) -> None:
        await delivery
        latencies.append((time.perf_counter() - begun) * 1000)

    async with Producer(addresses, **settings) as producer:
        number = 0
        until = time.perf_counter() + WARM_S
        while time.perf_counter() < until:
            await producer.send(topic, b"%016d%b" % (number, _TAIL))
            number += 1
        await producer.flush()
        warm, begin, cpu = number, time.perf_counter(), time.process_time()
        while (now := time.perf_counter()) - begin < seconds:
            delivery = await producer.send(topic, b"%016d%b" % (number, _TAIL))
            if number % SAMPLED_EVERY == 0:
                task = asyncio.ensure_future(sample(delivery, now))
                sampled.add(task)
                task.add_done_callback(sampled.discard)
            number += 1
        await producer.flush()  # raises when any was not delivered
        elapsed, cpu = time.perf_counter() - begin, time.process_time() - cpu
        await asyncio.gather(*sampled)
    latencies.sort()
    return {
        "sent": number,
        "per_s": (number - warm) / elapsed,
        "p50_ms": percentile(latencies, 50),
        "p99_ms": percentile(latencies, 99),
        "client_cpu_us": cpu / (number - warm) * 1e6,
    }


def run_producer(workspace: Workspace) -> Values:
    """Measure the producer with settings for large batches, and with the default ones.

    Checks that all records of the first run are stored."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster, PARTITIONS)
        addresses = cluster.addresses
        cpu_0 = cpu_of(cluster)
        done = run_in_child(send, addresses=addresses, topic=TOPIC, seconds=SECONDS, settings=BATCHED)
        cpu_1 = cpu_of(cluster)
        restart_all(cluster)
        port = port_of(cluster, cluster.leader(TOPIC))
        stored = require_read_back(port, TOPIC, done["sent"], done["sent"], partitions=PARTITIONS)
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster, PARTITIONS)
        usual = run_in_child(send, addresses=cluster.addresses, topic=TOPIC, seconds=SECONDS, settings={})
    return {
        **done,
        **stored,
        "brokers_cpu_us": (cpu_1 - cpu_0) / done["sent"] * 1e6,
        "usual_per_s": usual["per_s"],
        "usual_p50_ms": usual["p50_ms"],
        "usual_p99_ms": usual["p99_ms"],
    }


def fill(addresses: list[str], topic: str, records: int) -> dict[str, Any]:
    """Store random records in all partitions in turn; in a child process."""
    return asyncio.run(_fill(addresses, topic, records))


async def _fill(addresses: list[str], topic: str, records: int) -> dict[str, Any]:
    """Append `records` records to the partitions in turn, in requests of several batches."""
    pool = batches(50)
    per_request = 10
    async with BrokerClient(addresses) as client:
        for number in range(records // RECORDS_PER_BATCH // per_request):
            first = number * per_request % len(pool)
            body = b"".join(pool[first : first + per_request])
            await client.produce_batches(topic, number % PARTITIONS, body)
    return {}


def read(addresses: list[str], topic: str, records: int, group: str | None, iterates: bool) -> dict[str, Any]:
    """Read all records and check the offset of each; in a child process."""
    return asyncio.run(_read(addresses, topic, records, group, iterates))


async def _read(addresses: list[str], topic: str, records: int, group: str | None, iterates: bool) -> dict[str, Any]:
    """Read `records` records in a group, or without one; return the rate and the CPU time.

    `iterates`: by `async for` instead of `poll`."""
    expected = [0] * PARTITIONS
    count = 0
    begin = cpu = 0.0
    async with Consumer(addresses, topic, group=group) as consumer:
        while not count:  # joining is not reading
            count = _check_records(await consumer.poll(), expected)
        begin, cpu, already = time.perf_counter(), time.process_time(), count
        if iterates:
            async for record in consumer:
                count += _check_records([record], expected)
                if count == records:
                    break
        else:
            while count < records:
                count += _check_records(await consumer.poll(), expected)
        elapsed, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return {"per_s": (count - already) / elapsed, "client_cpu_us": cpu / (count - already) * 1e6}


def _check_records(records: list[Any], expected: list[int]) -> int:
    """Check the offsets and sizes of received records; return their number.

    `expected` has the next offset of each partition, and is advanced."""
    for record in records:
        require(record.offset == expected[record.partition], f"{record.offset} after {expected}")
        require(len(record.value) == VALUE_BYTES, "a record has another value")
        expected[record.partition] += 1
    return len(records)


def run_consumer(workspace: Workspace) -> Values:
    """Measure reads in a group, by iteration, and without a group; check the committed offsets."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster, PARTITIONS)
        given = {"addresses": cluster.addresses, "topic": TOPIC, "records": RECORDS}
        run_in_child(fill, **given)
        grouped = run_in_child(read, **given, group="bench", iterates=False)
        iterated = run_in_child(read, **given, group="bench-iteration", iterates=True)
        alone = run_in_child(read, **given, group=None, iterates=False)
        committed = asyncio.run(_sum_committed(cluster.addresses))
    require(committed == RECORDS, f"{RECORDS} records were read and {committed} are committed")
    return {
        "per_s": grouped["per_s"],
        "client_cpu_us": grouped["client_cpu_us"],
        "iterated_per_s": iterated["per_s"],
        "alone_per_s": alone["per_s"],
        "records_read": RECORDS,
    }


async def _sum_committed(addresses: list[str]) -> int:
    async with BrokerClient(addresses) as client:
        return sum(found.offset for found in (await client.groups.committed("bench")).values())


MEASURES = (
    Measure(
        "producer",
        "Producer: records of 100 bytes from one process",
        f"Three `raftlog serve`, a topic with {PARTITIONS} partitions and three replicas of each, every answer synced. "
        f"One process, one task that awaits `send` for {SECONDS:g} s with records of {VALUE_BYTES} bytes, all "
        f"different, idempotent, acks all, with {BATCHED}, and then `flush`, which raises if one was not delivered. "
        f"Latencies are from `send` to the delivery of every {SAMPLED_EVERY}th. Afterwards all brokers are killed and "
        "started again and everything is read back: each record once. Then the same with nothing set.",
        (
            Figure("per_s", "delivered", "records/s", at_least=100_000),
            Figure("p50_ms", "… p50 from send to delivery, buffer full", "ms"),
            Figure("p99_ms", "… p99", "ms"),
            Figure("client_cpu_us", "… CPU of the client", "µs/record"),
            Figure("brokers_cpu_us", "… CPU of all three brokers", "µs/record"),
            Figure("usual_per_s", "delivered, with nothing set", "records/s"),
            Figure("usual_p50_ms", "… p50 from send to delivery", "ms"),
            Figure("usual_p99_ms", "… p99", "ms"),
        ),
        run_producer,
    ),
    Measure(
        "consumer",
        "Consumer: records of 100 bytes in one process",
        f"{RECORDS:,} records of {VALUE_BYTES} random bytes ({RECORDS_PER_BATCH:,} a batch) in {PARTITIONS} partitions "
        "of three brokers, read by one process that polls with nothing set, alone in its group, and looks at the "
        "offset and value of each record; it counts from the first records to the last, commits included, and what is "
        "committed in the end has to be everything. Then with `async for`, and without a group.",
        (
            Figure("per_s", "polled in a group", "records/s", at_least=250_000),
            Figure("client_cpu_us", "… CPU of the client", "µs/record"),
            Figure("iterated_per_s", "iterated in a group", "records/s"),
            Figure("alone_per_s", "polled without a group", "records/s"),
        ),
        run_consumer,
    ),
)
