"""Contents of a topic, read by the client record by record."""

from collections import Counter
from collections.abc import Sequence

from raftlog.client import BrokerClient
from raftlog.client.decode import read_batches
from raftlog.records import Record, read_records


async def stored_records(bootstrap: Sequence[str], topic: str) -> dict[int, list[Record]]:
    """Return all records by partition, in order."""
    found: dict[int, list[Record]] = {}
    async with BrokerClient(bootstrap) as client:
        for partition in range((await client.describe_topic(topic)).partitions):
            end, at = (await client.offsets(topic, partition)).end, 0
            found[partition] = []
            while at < end:
                for header, batch in read_batches((await client.fetch_batches(topic, partition, at)).body):
                    found[partition].extend(record for record in read_records(batch) if record.offset >= at)
                    at = header.next_offset
    return found


async def stored_numbers(bootstrap: Sequence[str], topic: str) -> Counter[int]:
    """Return the count of records for each number as their value."""
    found = await stored_records(bootstrap, topic)
    return Counter(int(record.value or b"") for records in found.values() for record in records)
