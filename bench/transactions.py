"""Measure of read-process-write chains of `raftlog.client` on three brokers; each chain is a `chain_node` process."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from bench.chain_node import COPIES, GROUP, RECORDS
from bench.child import run_in_child
from bench.cluster import NodeProcess
from bench.cluster_http import TOPIC, cluster_of_three, cpu_of, create_topic, restart_all
from bench.measure import Figure, Measure, Values, Workspace, require
from bench.samples import VALUE_BYTES, percentile
from raftlog.client import BrokerClient, Consumer, Producer
from raftlog.types import TopicPartition

CHAINS: Final = 4
FILLED: Final = 150_000
"""Number of records in each partition that is copied."""
SECONDS: Final = 10.0
_TAIL: Final = b"x" * (VALUE_BYTES - 16)


def fill(addresses: list[str], records: int) -> dict[str, Any]:
    """Write numbered records to each partition; in a child process."""
    return asyncio.run(_fill(addresses, records))


async def _fill(addresses: list[str], records: int) -> dict[str, Any]:
    """Append numbered records to each partition of the source topic."""
    async with Producer(addresses, batch_records=1_000) as producer:
        for first in range(0, records, 1_000):
            values = [_value_of(number) for number in range(first, min(records, first + 1_000))]
            for partition in range(CHAINS):
                await producer.send_batch(TOPIC, partition, values)
        await producer.flush()
    return {}


def _value_of(number: int) -> bytes:
    return b"%016d%b" % (number, _TAIL)


def check_copies(addresses: list[str]) -> dict[str, Any]:
    """Compare the copies with the originals and with the committed offsets; in a child process."""
    return asyncio.run(_check_copies(addresses))


async def _check_copies(addresses: list[str]) -> dict[str, Any]:
    """Check that the copies are exactly the records below the committed offsets, each once and in order."""
    found = [0] * CHAINS
    async with BrokerClient(addresses) as client, Consumer(addresses) as consumer:
        committed = await client.groups.committed(GROUP)
        wanted = [int(committed[TopicPartition(TOPIC, number)].offset) for number in range(CHAINS)]
        await consumer.assign([(COPIES, number) for number in range(CHAINS)])
        while sum(found) < sum(wanted):
            records = await consumer.poll(5_000, timeout_ms=10_000)
            require(bool(records), f"{sum(found)} records were copied, and offsets of {sum(wanted)} are committed")
            for record in records:
                expected = _value_of(found[record.partition])
                require(record.value == expected, f"{COPIES}/{record.partition}: {record.value!r} is not {expected!r}")
                found[record.partition] += 1
        require(found == wanted, f"copied are {found}, and {wanted} are committed")
        require(not await consumer.poll(timeout_ms=500), "more records were copied than offsets are committed")
    return {"copied": sum(found)}


@contextmanager
def _run_chains(addresses: list[str], pool: ThreadPoolExecutor) -> Iterator[list[NodeProcess]]:
    """Run the processes of all chains while the block runs, at whose beginning each has a partition."""
    chains = [NodeProcess(number, "bench.chain_node") for number in range(CHAINS)]
    try:
        opened = pool.map(
            lambda chain: chain.send_command("open", addresses=addresses, number=chain.number, chains=CHAINS), chains
        )
        shares = [each["partitions"] for each in opened]
        require(shares == [1] * CHAINS, f"the chains have {shares} partitions")
        yield chains
    finally:
        for chain in chains:
            chain.kill()


def run_chains(workspace: Workspace) -> Values:
    """Run one chain of transactions for each partition; check the copies after a restart."""
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        addresses = cluster.addresses
        create_topic(cluster, CHAINS)
        create_topic(cluster, CHAINS, name=COPIES)
        run_in_child(fill, addresses=addresses, records=FILLED)
        with ThreadPoolExecutor(CHAINS) as pool, _run_chains(addresses, pool) as chains:
            before = cpu_of(cluster)
            done = list(pool.map(lambda chain: chain.send_command("run", seconds=SECONDS), chains))
            brokers_s = cpu_of(cluster) - before
            for chain in chains:
                chain.send_command("close")
        restart_all(cluster)
        checked = run_in_child(check_copies, addresses=addresses)
    took_ms = sorted(each for chain in done for each in chain["took_ms"])
    transactions = len(took_ms)
    return {
        "records_per_s": sum(len(each["took_ms"]) * RECORDS / each["seconds"] for each in done),
        "p50_ms": percentile(took_ms, 50),
        "p99_ms": percentile(took_ms, 99),
        "client_cpu_ms": sum(each["cpu_s"] for each in done) / transactions * 1000,
        "brokers_cpu_ms": brokers_s / transactions * 1000,
        "transactions": transactions,
        "slowest_chain": min(len(each["took_ms"]) for each in done),
        **checked,
    }


MEASURES = (
    Measure(
        "transaction-chains",
        f"{CHAINS} read-process-write chains of the Python client side by side, three brokers",
        f"{CHAINS} processes, each with a consumer of one group and a transactional producer, copy a partition each to "
        f"another topic, in transactions of {RECORDS} records of {VALUE_BYTES} bytes with their offsets, one after the "
        f"other for {SECONDS:g} s once the group is stable; a transaction counts once its commit has returned. Then "
        "all brokers are killed with SIGKILL and started again, and the copies have to be the originals up to the "
        "committed offsets, each once and in order.",
        (
            Figure("records_per_s", f"records, {CHAINS} chains", "/s", at_least=20_000),
            Figure("p50_ms", "… one transaction, half within", "ms"),
            Figure("p99_ms", "… 99 % within", "ms"),
            Figure("client_cpu_ms", "… CPU of its client for each", "ms"),
            Figure("brokers_cpu_ms", "… CPU of all brokers for each", "ms"),
        ),
        run_chains,
    ),
)
