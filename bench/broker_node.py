"""Process of one broker of a cluster under measurement: `python -m bench.broker_node` (see `node_commands`).

Its load is a client in the same process, on the façade, without HTTP. It writes to the partitions that are led here.
Every value is different, and `verify` reads all of them back through the façade.
"""

import asyncio
import time
from itertools import cycle, islice

from bench.measure import require
from bench.node_commands import StallTimer, process_costs, run
from bench.node_load import KEY_BYTES, Load
from bench.shared_secret import SECRET
from bench.syncs import SyncCount
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord, build_batch, read_records

TOPIC = "bench"
_READ_BYTES = 4 << 20
_START_MS_MAX = 20_000
_WRITE_S_MAX = 10.0


class Commands:
    """Handlers of the commands that this process accepts."""

    broker: Broker

    def __init__(self, syncs: SyncCount) -> None:
        self._syncs = syncs
        self._loads = 0
        self._stalls = StallTimer()

    async def open(self, data_dir: str, number: int, port: int, seeds: list[int]) -> dict[str, float]:
        """Found a cluster with the brokers at the ports `seeds`; returns once this broker has joined it."""
        begin = time.perf_counter()
        settings = BrokerSettings(
            data_dir=data_dir,
            node_id=number,
            host_label=f"host-{number}",
            rpc=("127.0.0.1", port),
            seeds=tuple(("127.0.0.1", seed) for seed in seeds),
            secret=SECRET,
        )
        self.broker = await Broker.open(settings)
        await self.broker.start()
        self._stalls.start()
        return {"seconds": time.perf_counter() - begin}

    async def create_topic(self, partitions: int, replicas: int) -> dict[str, float]:
        """Create the topic; return the seconds that it took."""
        begin = time.perf_counter()
        await self.broker.create_topic(TOPIC, partitions, replicas, deadline=_start_deadline())
        return {"seconds": time.perf_counter() - begin}

    async def list_led(self) -> dict[str, list[int]]:
        """Return the partitions that this broker leads; waits until it has the topic's metadata."""
        topic = await self.broker.describe_topic(TOPIC, deadline=_start_deadline())
        return {"led": [each.partition for each in topic.partitions if each.leader == self.broker.node_id]}

    async def load(
        self, partitions: list[int], in_flight: int, seconds: float, batch_bytes: int, record_bytes: int
    ) -> dict[str, float]:
        """Produce single records, or, with `batch_bytes`, prepared batches of one record of that size."""
        self._loads += 1
        targets = list(islice(cycle(partitions), in_flight))
        load = Load(in_flight, seconds, self.broker.node_id * 100 + self._loads, self._syncs)
        loop, broker = asyncio.get_running_loop(), self.broker

        async def write_record(writer: int, value: bytes) -> None:
            """Append one record to the writer's partition. Raises the error of a refused record."""
            results = await broker.produce_records(
                TOPIC, targets[writer], [NewRecord(value)], deadline=Deadline(loop.time() + _WRITE_S_MAX)
            )
            if results[0].error is not None:
                raise results[0].error

        async def write_batch(writer: int, value: bytes) -> None:
            body = build_batch([value])
            await broker.produce_batches(TOPIC, targets[writer], body, deadline=Deadline(loop.time() + _WRITE_S_MAX))

        return await load.run(write_batch if batch_bytes else write_record, batch_bytes or record_bytes)

    async def verify(self, partitions: list[int]) -> dict[str, int]:
        """Read partitions back; return the number of records, and the number of different ones."""
        records, seen = 0, set()
        for partition in partitions:
            offset = 0
            end = (await self.broker.offsets(TOPIC, partition, linearizable=True, deadline=_start_deadline())).end
            while offset < end:
                found = await self.broker.fetch(
                    TOPIC, partition, offset, max_bytes=_READ_BYTES, deadline=_start_deadline()
                )
                require(
                    bool(found.batches), f"nothing at offset {offset} of partition {partition}, which ends at {end}"
                )
                for record in (record for batch in found.batches for record in read_records(batch)):
                    require(record.offset == offset, f"offset {record.offset} follows {offset - 1}")
                    seen.add((record.value or b"")[:KEY_BYTES])
                    offset += 1
            records += offset
        return {"records": records, "different": len(seen)}

    async def costs(self) -> dict[str, float]:
        return {**process_costs(), "stall_ms": self._stalls.take_longest_s() * 1000}


def _start_deadline() -> Deadline:
    return deadline_in(_START_MS_MAX)


if __name__ == "__main__":
    run(Commands)
