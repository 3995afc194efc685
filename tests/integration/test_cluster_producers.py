"""More idempotent producers than a partition stores, on three real brokers: new ones continue, without duplicates."""

import asyncio

import aiohttp

from raftlog.client import BrokerClient, Producer
from raftlog.client.decode import read_batches, records_at_or_above
from raftlog.records import BatchBuilder, NewRecord
from raftlog.testing import Cluster

KNOWN, MANY = 100, 300
BATCHES = {"Content-Type": "application/vnd.raftlog.batches"}
JSON = {"Content-Type": "application/json"}


def make_batch(producer: int, sequence: int, value: bytes) -> bytes:
    builder = BatchBuilder(producer_id=producer, producer_epoch=0, base_sequence=sequence)
    builder.append(NewRecord(value), 1_000)
    return bytes(builder.build())


class ManyIdsClient:
    """Client that allocates one producer id after another."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session, self._address = session, address
        self.ids: list[int] = []

    async def post(self, producer: int, sequence: int, value: bytes) -> tuple[int, int]:
        """Return status, and error code or offset."""
        url = f"http://{self._address}/topics/t/partitions/0?timeout=20000"
        async with self._session.post(url, data=make_batch(producer, sequence, value), headers=BATCHES) as response:
            answer = await response.json()
            return response.status, answer.get("error_code") or answer["offsets"][0]["offset"]

    async def write_once(self) -> None:
        async with self._session.post(f"http://{self._address}/producers", data=b"{}", headers=JSON) as response:
            producer = (await response.json())["producer_id"]
        self.ids.append(producer)
        status, _ = await self.post(producer, 0, b"attack %d" % producer)
        assert status == 200


async def fetch_values(client: BrokerClient) -> list[bytes]:
    values: list[bytes] = []
    while (await client.offsets("t", 0, linearizable=True)).end > len(values):
        fetched = await client.fetch_batches("t", 0, len(values))
        for header, body in read_batches(fetched.body):
            values += [record.value or b"" for record in records_at_or_above(header, body, len(values))]
    return values


async def write_with_many_producers(cluster: Cluster) -> None:
    addresses = list(cluster.addresses)
    async with aiohttp.ClientSession() as session, BrokerClient(addresses) as client:
        await client.create_topic("t", 1)
        attacker = ManyIdsClient(session, addresses[0])
        async with Producer(addresses) as producer:
            await producer.send_and_wait("t", b"mine 0")
            for invented in range(5_000_000, 5_000_000 + KNOWN // 10):
                assert await attacker.post(invented, 0, b"invented") == (409, 40911)
            for _ in range(MANY):
                await attacker.write_once()
            await producer.send_and_wait("t", b"mine 1")  # it was expired meanwhile, and takes another id
            oldest = attacker.ids[0]
            cluster.nodes[cluster.leader("t", 0)].kill()
            survivor = next(node.http for number, node in cluster.nodes.items() if node.is_running)
            after = ManyIdsClient(session, survivor)
            for sequence in (0, 1):
                answer = await after.post(oldest, sequence, b"attack %d" % oldest)
                if answer == (504, 50401):  # sent to the dead leader first, whose answer is unknown
                    answer = await after.post(oldest, sequence, b"attack %d" % oldest)
                assert answer == (409, 40911)
            await producer.send_and_wait("t", b"mine 2")
        values = await fetch_values(client)
    expected = [b"mine 0", *(b"attack %d" % each for each in attacker.ids), b"mine 1", b"mine 2"]
    assert values == expected


def test_a_client_with_many_producer_ids_does_not_lock_out_others() -> None:
    with Cluster(serve_flags=["--producers-max", str(KNOWN)]) as cluster:
        asyncio.run(write_with_many_producers(cluster))
