"""Producers: they write unique values through any broker, never again what may have been written."""

from random import Random
from typing import Final

from jepsen.simulation.brokers.clients import RETRY_NS, Attempt, Client, Known, known_topic
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.links import MILLISECOND_NS
from raftlog.checkers import Send
from raftlog.checkers.history import SEND
from raftlog.errors import OutcomeUnknown, RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.results import ALL, Acks
from raftlog.records import NewRecord, build_batch
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Offset

VALUES_PER_CLIENT: Final = 1_000_000


class Producer(Client):
    """One request at a time, to any partition of any topic that the asked broker knows."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        super().__init__(cluster, random)
        self.acknowledged = 0
        self.acknowledged_ns: dict[GroupKey, int] = {}
        """When a request was answered well last."""
        self._next_value = self.process * VALUES_PER_CLIENT

    def step(self) -> None:
        self.ask(self._produce)

    async def _produce(self, attempt: Attempt, broker: Broker) -> None:
        name, number = self._target()
        topic = known_topic(broker, name)
        if topic is None:
            self.done(attempt, RETRY_NS)
            return
        number %= topic.partitions
        values = self._values()
        acks: Acks = ALL if self.random.random() < 0.9 else 1
        attempt.op = self.recorder.invoke(self.process, SEND, Send(topic.partition(number), values))
        records = [NewRecord(self._text(value)) for value in values]
        try:
            if self.random.random() < 0.7:
                first = await self._produce_records(broker, topic, number, records, acks, attempt)
            else:
                first = await self._produce_batches(broker, topic, number, records, acks, attempt)
        except RaftlogError as error:
            if self.hears(attempt):
                self.failed(attempt, error)
            return
        self._answered(attempt, topic, number, values, first, acks)

    def _target(self) -> tuple[str, int]:
        wanted = list(self.cluster.wanted.values())
        if wanted:
            return self.random.choice(wanted)
        return self.random.choice(self.cluster.names), self.random.randrange(self.cluster.options.partitions_max)

    def _values(self) -> tuple[int, ...]:
        first = self._next_value
        self._next_value += self.random.choice((1, 1, 2, 3, 8))
        return tuple(range(first, self._next_value))

    def _text(self, value: int) -> bytes:
        return b"%d " % value + bytes(self.random.randint(0, self.cluster.options.value_bytes))

    async def _produce_records(
        self, broker: Broker, topic: Known, number: int, records: list[NewRecord], acks: Acks, attempt: Attempt
    ) -> int:
        """The offset of the first one, when all went well and follow one another."""
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
        self, broker: Broker, topic: Known, number: int, records: list[NewRecord], acks: Acks, attempt: Attempt
    ) -> int:
        batch = build_batch(records, now_ms=attempt.machine.wall_ms())
        done = await broker.produce_batches(topic.name, number, batch, acks=acks, deadline=attempt.deadline())
        return done.base_offset

    def _answered(
        self, attempt: Attempt, topic: Known, number: int, values: tuple[int, ...], first: int, acks: Acks
    ) -> None:
        partition = topic.partition(number)
        after = Offset(first + len(values))
        if acks == ALL:
            self.watch.saw_acknowledgement(topic.key(number), str(partition), Offset(first), after)
        if not self.hears(attempt) or attempt.op is None:
            return
        if acks == ALL:
            offsets = tuple(Offset(first + at) for at in range(len(values)))
            self.recorder.ok(attempt.op, Send(partition, values, offsets))
            self.acknowledged += len(values)
            self.acknowledged_ns[topic.key(number)] = self.loop.now_ns
        else:
            self.recorder.info(attempt.op, "not committed yet")
        self.done(attempt, int(self.random.expovariate(1.0) * self.cluster.options.pause_ms * MILLISECOND_NS))
