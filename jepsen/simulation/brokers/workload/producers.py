"""Producers: write unique values through any broker, and never repeat a write with unknown outcome."""

from random import Random

from jepsen.checkers import Send
from jepsen.checkers.history import SEND
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.workload.clients import RETRY_NS, Attempt, Client, KnownTopic, known_topic
from jepsen.simulation.brokers.workload.values import Values
from jepsen.simulation.network.links import MILLISECOND_NS
from raftlog.errors import OutcomeUnknown, RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.results import ALL, Acks
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Offset


class Producer(Client):
    """Simulated client that writes, with one request at a time, to any partition in the called broker's metadata."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        super().__init__(cluster, random)
        self.acknowledged = 0
        self.acknowledged_ns: dict[GroupKey, int] = {}
        """Time of the latest acknowledgement of each partition."""
        self._values = Values(self.process, random, cluster.options)

    def step(self) -> None:
        """Send one request with records."""
        self.ask(self._produce)

    async def _produce(self, attempt: Attempt, broker: Broker) -> None:
        """Write new values to a random partition, as records or as a batch."""
        name, number = self._draw_partition()
        topic = known_topic(broker, name)
        if topic is None:
            self.finish(attempt, RETRY_NS)
            return
        number %= topic.partitions
        send, records = self._values.draw(topic.partition(number), is_compacted=topic.is_compacted)
        acks: Acks = ALL if self.random.random() < 0.9 else 1
        attempt.op = self.recorder.invoke(self.process, SEND, send)
        try:
            if self.random.random() < 0.7:
                first = await self._produce_records(broker, topic, number, records, acks, attempt)
            else:
                first = await self._produce_batches(broker, topic, number, records, acks, attempt)
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self.record_failure(attempt, error)
            return
        self._on_answer(attempt, topic, number, send, first, acks)

    def _draw_partition(self) -> tuple[str, int]:
        """Return a topic's name and a partition number, which the caller reduces to the topic's partitions."""
        wanted = list(self.cluster.wanted.values())
        if wanted:
            return self.random.choice(wanted)
        return self.random.choice(self.cluster.names), self.random.randrange(self.cluster.options.numbers_max)

    async def _produce_records(
        self, broker: Broker, topic: KnownTopic, number: int, records: list[NewRecord], acks: Acks, attempt: Attempt
    ) -> int:
        """Produce records, and return the offset of the first one if all are stored in sequence."""
        deadline = attempt.deadline()
        results = await broker.produce_records(topic.name, number, records, acks=acks, deadline=deadline)
        errors = [result.error for result in results if result.error is not None]
        if errors and len(errors) == len(results):
            raise next((error for error in errors if error.outcome == "unknown"), errors[0])
        offsets = [result.offset for result in results]
        first = offsets[0]
        if first is None or offsets != list(range(first, first + len(offsets))):
            raise OutcomeUnknown("they ended differently")
        return first

    async def _produce_batches(
        self, broker: Broker, topic: KnownTopic, number: int, records: list[NewRecord], acks: Acks, attempt: Attempt
    ) -> int:
        """Produce the records as one batch, and return the offset of the first one."""
        batch = build_batch(records, now_ms=attempt.machine.wall_ms())
        done = await broker.produce_batches(topic.name, number, batch, acks=acks, deadline=attempt.deadline())
        return done.base_offset

    def _on_answer(self, attempt: Attempt, topic: KnownTopic, number: int, send: Send, first: int, acks: Acks) -> None:
        """Check that acknowledged records are committed, and record the answer unless it is lost."""
        after = Offset(first + len(send.values))
        if acks == ALL:
            self.watch.observe_acknowledgement(topic.key(number), str(send.partition), Offset(first), after)
        if not self.is_answer_received(attempt) or attempt.op is None:
            return
        if acks == ALL:
            offsets = tuple(Offset(first + at) for at in range(len(send.values)))
            self.recorder.ok(attempt.op, send._replace(offsets=offsets))
            self.acknowledged += len(offsets)
            self.acknowledged_ns[topic.key(number)] = self.loop.now_ns
        else:
            self.recorder.info(attempt.op, "not committed yet")
        self.finish(attempt, int(self.random.expovariate(1.0) * self.cluster.options.pause_ms * MILLISECOND_NS))
