"""Idempotent producers over Kafka's protocol: each request is repeated unchanged until its outcome is known.

`retry-refused`: the next batch of a producer was refused as out of order, as a duplicate, or by its epoch;
`given-id-refused`: an id that a broker allocated was refused as never allocated."""

import asyncio
from typing import Any, Final

from jepsen.checkers import Op, Send, Sequenced
from jepsen.checkers.history import SEND
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.kafka.roles import ASK_S, PARTITIONS, RETRY_S, TOPIC, KafkaRole, code_in
from jepsen.simulation.brokers.kafka.wire_client import NoAnswer
from jepsen.simulation.brokers.workload.clients import KnownTopic
from jepsen.simulation.brokers.workload.values import Values
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.wire import schemas
from raftlog.records import BatchBuilder
from raftlog.types import Offset

DELIVERY_TIMEOUT_S: Final = 12.0
"""Seconds for one batch with all its retries."""
RESTARTS: Final = 0.02
_TIMEOUTS_MS: Final = (100, 500, 1_000)
_RETRIED_CODES: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
"""Codes after which a client repeats the batch."""


class _Lane:
    """Sender of batches of one producer to one partition, one at a time.

    `sequence` is the sequence number of the next record."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sequence = 0


class KafkaProducer(KafkaRole):
    """Idempotent producer with one sender for each partition; the senders share connections."""

    def __init__(self, cluster: BrokerCluster, name: str) -> None:
        super().__init__(cluster, name)
        self.acknowledged = 0
        self._processes = [cluster.new_process() for _ in range(PARTITIONS)]
        self._values = [Values(process, self.random, cluster.options) for process in self._processes]

    async def step(self) -> None:
        """Allocate a producer id, and write batches until the id is abandoned."""
        request = schemas.request_class(ApiKey.INIT_PRODUCER_ID)
        host = self.client.any_host()
        given = await self.client.ask(host, request(transactional_id=None, transaction_timeout_ms=1_000), 1, 2 * ASK_S)
        if code_in(given.error_code) is not ErrorCode.NONE:
            await asyncio.sleep(RETRY_S)
            return
        self.cluster.record_producer_id(given.producer_id, host)
        identity = given.producer_id, given.producer_epoch
        has_ended = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for number in range(PARTITIONS):
                tasks.create_task(self._write(_Lane(number), identity, has_ended))

    async def _write(self, lane: _Lane, identity: tuple[int, int], has_ended: asyncio.Event) -> None:
        """Write batches to one partition until any partition's batch is abandoned, or a new id is needed."""
        while not (self.is_stopped or has_ended.is_set()):
            topic = self.topic()
            if topic is not None:
                if not await self._send(lane, identity, topic):
                    has_ended.set()
                    return
                if self.random.random() < RESTARTS:
                    has_ended.set()
            await asyncio.sleep(self.random.expovariate(1.0) * self.cluster.options.pause_ms / 1000)

    async def _send(self, lane: _Lane, identity: tuple[int, int], topic: KnownTopic) -> bool:
        """Send one batch; return whether its outcome is known."""
        partition = topic.partition(lane.number)
        sequenced = Sequenced(*identity, lane.sequence)
        send, records = self._values[lane.number].draw(partition, is_compacted=False)
        send = send._replace(sequenced=sequenced)
        builder = BatchBuilder(producer_id=identity[0], producer_epoch=identity[1], base_sequence=sequenced.sequence)
        for record in records:
            builder.append(record, self.loop.now_ns // 1_000_000)
        lane.sequence += len(records)
        op = self.recorder.invoke(self._processes[lane.number], SEND, send)
        return await self._send_until_answered(lane, topic, send, op, bytes(builder.build()))

    async def _send_until_answered(self, lane: _Lane, topic: KnownTopic, send: Send, op: Op, batch: bytes) -> bool:
        """Repeat the batch until it is acknowledged; return false if it is not within `DELIVERY_TIMEOUT_S`."""
        until_ns = self.loop.now_ns + int(DELIVERY_TIMEOUT_S * 1e9)
        while self.loop.now_ns < until_ns:
            try:
                answer = await self._produce(lane.number, batch)
            except NoAnswer:
                self.client.forget(TOPIC, lane.number)
                await asyncio.sleep(RETRY_S)
                continue
            code = code_in(answer.error_code)
            if code is ErrorCode.NONE:
                self._record_success(lane, topic, send, op, Offset(answer.base_offset))
                return True
            self._check_refusal(code, send)
            self.client.forget(TOPIC, lane.number)
            await asyncio.sleep(RETRY_S)
        self.recorder.info(op, "given up")
        return False

    async def _produce(self, number: int, batch: bytes) -> Any:
        """Send the batch to the partition's leader; return the partition's row of the answer. Raises `NoAnswer`."""
        leader = await self.leader(number)
        request = schemas.request_class(ApiKey.PRODUCE)
        row = request.TopicProduceData.PartitionProduceData(index=number, records=batch)
        topic = request.TopicProduceData(name=TOPIC, partition_data=[row])
        wanted = request(
            transactional_id=None, acks=-1, timeout_ms=self.random.choice(_TIMEOUTS_MS), topic_data=[topic]
        )
        answer = await self.client.ask(leader.host, wanted, 8, ASK_S)
        found = answer.responses[0].partition_responses[0]
        if (answer.responses[0].name, found.index) != (TOPIC, number):
            raise PropertyBroken("answer-of-another", {"wanted": number, "got": found.index})
        return found

    def _check_refusal(self, code: ErrorCode, send: Send) -> None:
        """Raise `PropertyBroken` if the refusal is not one after which a client repeats the batch."""
        numbers = {"of": send, "code": code.name}
        if code is ErrorCode.UNKNOWN_PRODUCER_ID:
            raise PropertyBroken("given-id-refused", numbers)
        if code not in _RETRIED_CODES:
            raise PropertyBroken("retry-refused", numbers)

    def _record_success(self, lane: _Lane, topic: KnownTopic, send: Send, op: Op, first: Offset) -> None:
        """Check that the batch is committed, and record its offsets from `first` on."""
        offsets = tuple(Offset(first + at) for at in range(len(send.values)))
        self.watch.observe_acknowledgement(
            topic.key(lane.number), str(send.partition), first, Offset(first + len(offsets))
        )
        self.recorder.ok(op, send._replace(offsets=offsets))
        self.acknowledged += len(offsets)
