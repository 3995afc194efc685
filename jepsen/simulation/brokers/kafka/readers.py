"""Readers over Kafka's protocol: each follows one partition at its leader, and lists its offsets at times.

High watermarks are checked against the committed offset; an offset that a reader has reached is never out of range."""

import asyncio
from typing import Any, Final

from jepsen.checkers import Assign, Fetched, ListOffsets, OffsetRange, Poll
from jepsen.checkers.history import ASSIGN, LIST, POLL
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.kafka.roles import ASK_S, RETRY_S, TOPIC, KafkaRole, code_in
from jepsen.simulation.brokers.kafka.wire_client import NoAnswer
from jepsen.simulation.brokers.workload.clients import KnownTopic
from jepsen.simulation.brokers.workload.readers import decode
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire import schemas
from raftlog.client.decode import read_batches
from raftlog.records import drop_hidden
from raftlog.types import Offset

LIST_SHARE: Final = 0.15
WAITS_MS: Final = (0, 100, 400)
BYTES: Final = (1, 2_000, 8_192)
"""Limits of an answer; the first batch may exceed them."""
PAUSE_S: Final = 0.1
_LATEST: Final = -1
_UNUSED: Final = -1


class KafkaReader(KafkaRole):
    """Reader of one partition from its first offset on."""

    def __init__(self, cluster: BrokerCluster, name: str, number: int) -> None:
        super().__init__(cluster, name)
        self._number = number
        self._position: Offset | None = None

    async def step(self) -> None:
        """Read from the position on, or list the offsets."""
        topic = self.topic()
        if topic is None:
            await asyncio.sleep(RETRY_S)
            return
        if self._position is None:
            self._position = Offset(0)
            assigned = Assign(((topic.partition(self._number), self._position),))
            self.recorder.ok(self.recorder.invoke(self.process, ASSIGN, assigned))
        if self.random.random() < LIST_SHARE:
            await self._list(topic)
        else:
            await self._poll(topic, self._position)
        await asyncio.sleep(self.random.uniform(0.2, 1) * PAUSE_S)

    async def _poll(self, topic: KnownTopic, position: Offset) -> None:
        """Fetch records from the position on, check and record them, and advance the position."""
        op = self.recorder.invoke(self.process, POLL, Poll())
        try:
            found = await self._fetch(position)
        except NoAnswer:
            self.client.forget(TOPIC, self._number)
            self.recorder.fail(op, "no answer")
            raise
        code, partition = code_in(found.error_code), topic.partition(self._number)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise PropertyBroken("known-offset-out-of-range", {"partition": partition, "offset": position})
        if code is not ErrorCode.NONE:
            self.client.forget(TOPIC, self._number)
            self.recorder.fail(op, code.name)
            await asyncio.sleep(RETRY_S)
            return
        self.watch.observe_end(topic.key(self._number), str(partition), Offset(found.high_watermark))
        batches = committed_batches(found)
        fetched, after = decode(partition, batches, position)
        self._check(fetched, found, batches)
        self.recorder.ok(op, Poll((fetched,) if fetched.offsets else ()))
        self._position = after

    def _check(self, fetched: Fetched, found: Any, batches: list[memoryview]) -> None:
        """Check that records lie below the high watermark, and that a non-empty answer has new records."""
        if fetched.offsets and fetched.offsets[-1] >= found.high_watermark:
            numbers = {"partition": fetched.partition, "last": fetched.offsets[-1], "end": found.high_watermark}
            raise PropertyBroken("uncommitted-shown", numbers)
        if batches and not fetched.offsets and not self.cluster.options.transactions:
            raise PropertyBroken("nothing-new", {"partition": fetched.partition, "position": self._position})

    async def _fetch(self, position: Offset) -> Any:
        """Fetch from the partition's leader; return the partition's row of the answer. Raises `NoAnswer`."""
        return await fetch_committed(self, self._number, position, self.random.choice(WAITS_MS))

    async def _list(self, topic: KnownTopic) -> None:
        """Record the end of the partition, as its leader lists it."""
        op = self.recorder.invoke(self.process, LIST, ListOffsets(linearizable=True))
        request = schemas.request_class(ApiKey.LIST_OFFSETS)
        try:
            leader = await self.leader(self._number)
            row = request.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=self._number, current_leader_epoch=leader.epoch, timestamp=_LATEST
            )
            topics = [request.ListOffsetsTopic(name=TOPIC, partitions=[row])]
            wanted = request(replica_id=-1, isolation_level=0, topics=topics)
            answer = await self.client.ask(leader.host, wanted, 4, ASK_S)
        except NoAnswer:
            self.client.forget(TOPIC, self._number)
            self.recorder.fail(op, "no answer")
            raise
        found = answer.topics[0].partitions[0]
        code, partition = code_in(found.error_code), topic.partition(self._number)
        if code is not ErrorCode.NONE:
            self.client.forget(TOPIC, self._number)
            self.recorder.fail(op, code.name)
            await asyncio.sleep(RETRY_S)
            return
        self.watch.observe_end(topic.key(self._number), str(partition), Offset(found.offset))
        ends = OffsetRange(partition, Offset(0), Offset(found.offset))
        self.recorder.ok(op, ListOffsets((ends,), linearizable=True))


async def fetch_committed(role: KafkaRole, number: int, position: Offset, wait_ms: int) -> Any:
    """Fetch from one partition and return its row of the answer; only committed records in a run with transactions."""
    leader = await role.leader(number)
    request = schemas.request_class(ApiKey.FETCH)
    row = request.FetchTopic.FetchPartition(
        partition=number,
        current_leader_epoch=leader.epoch,
        fetch_offset=position,
        log_start_offset=_UNUSED,
        partition_max_bytes=role.random.choice(BYTES),
    )
    wanted = request(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=role.random.choice((0, 1)),
        max_bytes=1 << 16,
        isolation_level=int(role.cluster.options.transactions),
        session_id=0,
        session_epoch=-1,
        topics=[request.FetchTopic(topic=TOPIC, partitions=[row])],
        forgotten_topics_data=[],
        rack_id="",
    )
    answer = await role.client.ask(leader.host, wanted, 11, ASK_S + wait_ms / 1000)
    return answer.responses[0].partitions[0]


def committed_batches(found: Any) -> list[memoryview]:
    """Return the batches in a partition's row of a fetch answer, without those of aborted transactions.

    Raises `PropertyBroken` if an aborted transaction begins at or above the last stable offset."""
    batches = [batch for _, batch in read_batches(bytes(found.records or b""))]
    aborted = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
    for producer_id, first in aborted:
        if not 0 <= first < found.last_stable_offset:
            raise PropertyBroken("aborted-above-stable", {"producer": producer_id, "offset": first})
    return drop_hidden(batches, aborted)
