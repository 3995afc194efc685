"""Idempotent producers: five requests in flight, each retried until its outcome is known.

A producer has an id and an epoch, writes to one partition for a while, and numbers its values from 0 there. A request
that gets no answer, or a refusal, is sent again with the same number through any broker. The record must be in the log
once, and every answer must have its offset. A refusal that is not permitted ends the run (`retry-refused`). After a
long time without an answer the producer gives up, and begins anew with another epoch or id, as after a restart.

Where partitions keep few producers (`producers_max`), idle ones expire: such a producer continues with another id, and
old requests are repeated at times, which must never append an acknowledged batch again.

`answers-differ` when two answers to one request have different offsets, whether the client still waits for them or not;
`producer-id-twice` when two producers get one id; `given-id-refused` when an allocated id is refused as never
allocated."""

from collections import deque
from functools import partial
from random import Random
from typing import Final

from jepsen.checkers import Op, Send, Sequenced
from jepsen.checkers.history import SEND
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.workload.clients import RETRY_NS, Attempt, Client, KnownTopic, known_topic
from jepsen.simulation.brokers.workload.uses import PRODUCERS_MAX
from jepsen.simulation.brokers.workload.values import Values
from jepsen.simulation.network.links import MILLISECOND_NS, SECOND_NS
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import (
    DuplicateSequence,
    OutOfOrderSequence,
    ProducerFenced,
    RaftlogError,
    UnknownProducer,
    UnknownTopic,
)
from raftlog.partitions.broker import Broker
from raftlog.partitions.results import ALL
from raftlog.records import BatchBuilder
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Offset

IN_FLIGHT: Final = 5
"""Largest number of open requests of one producer to one partition: as many as a broker remembers."""
TIMEOUTS_MS: Final = (150, 300, 800)
"""Timeouts of one attempt; short, because later requests wait for an unanswered one."""
PAUSE_PROBABILITY: Final = 0.02
"""Chance, before each request of a lane, that its producer is silent for a while."""
PAST_MAX: Final = 30
"""Number of ended requests that are kept, and may be repeated."""
DELIVERY_TIMEOUT_NS: Final = 12 * SECOND_NS
"""Time for one request with all its retries."""


class Request:
    """Batch of values with one sequence number.

    `is_done` is set once the client received an answer; `first_offset` is the offset in the first answer of any broker.
    `rank` counts the requests of the stream."""

    __slots__ = ("batch", "began_ns", "first_offset", "is_done", "op", "rank", "send")

    def __init__(self, send: Send, op: Op, batch: bytes, began_ns: int, rank: int) -> None:
        self.send, self.op, self.batch, self.began_ns = send, op, batch, began_ns
        self.rank = rank
        self.first_offset: int | None = None
        self.is_done = False

    @property
    def number(self) -> int:
        """Sequence number of the first record."""
        assert self.send.sequenced is not None, self.send
        return self.send.sequenced.sequence


class BatchStream:
    """Batches of one producer epoch in one partition. `has_ended`: no further batch is sent."""

    def __init__(self, producer: int, epoch: int, topic: KnownTopic, number: int) -> None:
        self.producer, self.epoch, self.topic, self.number = producer, epoch, topic, number
        self.next_sequence = self.next_rank = 0
        self.open: list[Request] = []
        self.has_ended = False

    def __str__(self) -> str:
        return f"{self.topic.partition(self.number)} by producer {self.producer}/{self.epoch}"

    def may_send(self) -> bool:
        """Return whether another request may follow: all open ones must be within the last `IN_FLIGHT` requests.

        A broker stores the last `IN_FLIGHT` batches of a producer."""
        return all(self.next_rank - each.rank < IN_FLIGHT for each in self.open)

    def has_earlier(self, request: Request) -> bool:
        """Return whether an earlier request of the stream may not be in the log yet."""
        return any(each.number < request.number for each in self.open)


class IdempotentProducer:
    """Idempotent producer: the state that its concurrent senders (lanes) share."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        self.cluster, self.random = cluster, random
        self.stream: BatchStream | None = None
        self.acknowledged = 0
        self.acknowledged_ns: dict[GroupKey, int] = {}
        self.lanes = [Lane(cluster, random, self) for _ in range(IN_FLIGHT)]
        self._identity: tuple[int, int] | None = None
        self._is_asking = False
        self._paused_until_ns = 0
        self.past: deque[tuple[BatchStream, Request]] = deque(maxlen=PAST_MAX)
        """Requests that were answered or given up."""

    def pause_ns(self) -> int:
        """Return the nanoseconds for which all lanes pause; at times a producer pauses for seconds."""
        if self.random.random() < PAUSE_PROBABILITY:
            self._paused_until_ns = self.cluster.loop.now_ns + int(self.random.uniform(1, 4) * SECOND_NS)
        return max(0, self._paused_until_ns - self.cluster.loop.now_ns)

    def may_request_id(self) -> bool:
        """Return whether the calling lane shall request the producer id; true for one lane at a time."""
        is_first, self._is_asking = not self._is_asking, True
        return is_first

    def end_id_request(self, identity: tuple[int, int] | None) -> None:
        """End the request for an id; `identity` is the new id and epoch, None after an error."""
        self._is_asking = False
        if identity is not None:
            self._identity = identity

    def begin_stream(self, broker: Broker) -> BatchStream | None:
        """Begin a stream in a random partition of a topic in this broker's metadata.

        Returns None without an id or without such a topic."""
        if self._identity is None:
            return None
        wanted = list(self.cluster.wanted.values())
        name, number = self.random.choice(wanted) if wanted else (self.random.choice(self.cluster.names), 0)
        topic = known_topic(broker, name)
        if topic is None:
            return None
        number = number if wanted else self.random.randrange(topic.partitions)
        self.stream = BatchStream(*self._identity, topic, number % topic.partitions)
        return self.stream

    def end_stream(self, *, is_expired: bool = False) -> None:
        """End the stream; its open requests get an unknown outcome.

        The producer continues with the next epoch or a new id; with `is_expired` always with a new id."""
        if self.stream is None or self._identity is None:
            return
        for request in self.stream.open:
            self.cluster.recorder.info(request.op, "given up")
            self.past.append((self.stream, request))
        self.stream.open.clear()
        self.stream.has_ended = True
        self.stream = None
        producer, epoch = self._identity
        self._identity = (producer, epoch + 1) if self.random.random() < 0.5 and not is_expired else None


class Lane(Client):
    """Sender of an idempotent producer with one request at a time; several of them send concurrently."""

    def __init__(self, cluster: BrokerCluster, random: Random, producer: IdempotentProducer) -> None:
        super().__init__(cluster, random)
        self.timeouts_ms = TIMEOUTS_MS
        self._producer = producer
        self._values = Values(self.process, random, cluster.options)
        self._stream: BatchStream | None = None
        self._request: Request | None = None
        self._is_asking = False

    def step(self) -> None:
        """Send the next request or repeat the present one; at times repeat an old one, pause, or end the stream."""
        stream = self._stream
        if stream is not None and stream.has_ended:
            self._stream = self._request = None
        if self.random.random() < self.cluster.options.uses.restarts:
            self._producer.end_stream()
            self._stream = self._request = None
        replays = self.cluster.options.uses.replays
        if replays and self._request is None and self._producer.past and self.random.random() < replays:
            stream, request = self.random.choice(self._producer.past)
            self.ask(partial(self._repeat, stream, request))
            return
        pause_ns = 0 if self._request is not None else self._producer.pause_ns()
        if pause_ns:
            self.step_later(pause_ns)
        else:
            self.ask(self._send_next)

    def on_timeout(self, attempt: Attempt) -> None:
        """Let another lane request the producer id."""
        if self._is_asking:
            self._is_asking = False
            self._producer.end_id_request(None)

    async def _send_next(self, attempt: Attempt, broker: Broker) -> None:
        """Send the present request again, or a new one; without a producer id request one."""
        stream = self._producer.stream or self._producer.begin_stream(broker)
        if stream is None:
            await self._ask_for_id(attempt, broker)
            return
        is_new = self._request is None or self._stream is not stream
        if is_new and not stream.may_send():
            self.finish(attempt, RETRY_NS)
            return
        if self._request is None or self._stream is not stream:
            self._stream, self._request = stream, self._next_request(stream, attempt)
        await self._send(stream, self._request, attempt, broker)

    async def _ask_for_id(self, attempt: Attempt, broker: Broker) -> None:
        """Allocate a producer id, unless another lane does so."""
        if not self._producer.may_request_id():
            self.finish(attempt, RETRY_NS)
            return
        self._is_asking = True
        try:
            producer, epoch = await broker.producers.allocate(attempt.deadline())
        except RaftlogError:
            if not attempt.has_ended:
                self.on_timeout(attempt)
                self.finish(attempt, RETRY_NS)
            return
        self.cluster.record_producer_id(producer, attempt.machine.name)
        if not attempt.has_ended:
            self._is_asking = False
            self._producer.end_id_request((producer, epoch))
            self.finish(attempt, 0)

    def _next_request(self, stream: BatchStream, attempt: Attempt) -> Request:
        """Return the next request of the stream, with new values, and record it."""
        partition = stream.topic.partition(stream.number)
        sequenced = Sequenced(stream.producer, stream.epoch, stream.next_sequence)
        send, records = self._values.draw(partition, is_compacted=stream.topic.is_compacted)
        send = send._replace(sequenced=sequenced)
        stream.next_sequence += len(records)
        builder = BatchBuilder(
            producer_id=stream.producer, producer_epoch=stream.epoch, base_sequence=sequenced.sequence
        )
        for record in records:
            builder.append(record, attempt.machine.wall_ms())
        op = self.recorder.invoke(self.process, SEND, send)
        request = Request(send, op, bytes(builder.build()), self.loop.now_ns, stream.next_rank)
        stream.next_rank += 1
        stream.open.append(request)
        return request

    async def _send(self, stream: BatchStream, request: Request, attempt: Attempt, broker: Broker) -> None:
        """Send a request once; handle the answer or the refusal."""
        if known_topic(broker, stream.topic.name) != stream.topic:
            self._wait_or_end(stream, request, attempt)  # another topic of this name, or none: it may be there later
            return
        is_next = not stream.has_earlier(request)
        try:
            done = await broker.produce_batches(
                stream.topic.name, stream.number, bytearray(request.batch), acks=ALL, deadline=attempt.deadline()
            )
        except RaftlogError as error:
            if self.is_answer_received(attempt):
                self._on_refusal(stream, request, error, attempt, is_next=is_next)
            return
        if known_topic(broker, stream.topic.name) == stream.topic:
            self._check_answer(stream, request, done.base_offset)
        if self.is_answer_received(attempt):
            self._on_answer(stream, request, done.base_offset, attempt)

    async def _repeat(self, stream: BatchStream, request: Request, attempt: Attempt, broker: Broker) -> None:
        """Send a request again that was acknowledged long ago."""
        if known_topic(broker, stream.topic.name) == stream.topic:
            try:
                done = await broker.produce_batches(
                    stream.topic.name, stream.number, bytearray(request.batch), acks=ALL, deadline=attempt.deadline()
                )
            except RaftlogError as error:
                _check_id_error(error, stream)
            else:
                if known_topic(broker, stream.topic.name) == stream.topic:
                    self._check_answer(stream, request, done.base_offset)
        if self.is_answer_received(attempt):
            self.finish(attempt, RETRY_NS)

    def _check_answer(self, stream: BatchStream, request: Request, offset: Offset) -> None:
        """Check an answer, even if the client no longer waits for it."""
        after = Offset(offset + len(request.send.values))
        self.watch.observe_acknowledgement(stream.topic.key(stream.number), str(stream), offset, after)
        if request.first_offset is None:
            request.first_offset = offset
        elif request.first_offset != offset:
            numbers = {"of": stream, "sequence": request.number, "first": request.first_offset, "later": offset}
            raise PropertyBroken("answers-differ", numbers)

    def _on_answer(self, stream: BatchStream, request: Request, first: Offset, attempt: Attempt) -> None:
        """Record the first answer of a request, and schedule the next one."""
        if not request.is_done and not stream.has_ended:
            request.is_done = True
            stream.open.remove(request)
            offsets = tuple(Offset(first + at) for at in range(len(request.send.values)))
            self.recorder.ok(request.op, request.send._replace(offsets=offsets))
            self._producer.acknowledged += len(offsets)
            self._producer.acknowledged_ns[stream.topic.key(stream.number)] = self.loop.now_ns
            self._producer.past.append((stream, request))
        self._request = None
        pause_ns = int(self.random.expovariate(1.0) * self.cluster.options.pause_ms * MILLISECOND_NS)
        self.finish(attempt, pause_ns)

    def _on_refusal(
        self, stream: BatchStream, request: Request, error: RaftlogError, attempt: Attempt, *, is_next: bool
    ) -> None:
        """Retry a refused request later, or end its stream.

        `is_next`: no earlier request of the stream was open when this one was sent. Raises `PropertyBroken` for a
        refusal that is not permitted."""
        _check_id_error(error, stream)
        if self.cluster.options.uses.producers_max < PRODUCERS_MAX and isinstance(error, UnknownProducer) and is_next:
            if not stream.has_ended:
                self._producer.end_stream(is_expired=True)
            self.finish(attempt, RETRY_NS)
            return
        is_wrong = isinstance(error, DuplicateSequence | ProducerFenced) or (
            isinstance(error, OutOfOrderSequence | UnknownProducer) and is_next
        )
        if is_wrong and not stream.has_ended and not request.is_done:
            open_numbers = [each.number for each in stream.open]
            numbers = {"of": stream, "sequence": request.number, "open": open_numbers, "error": repr(error)}
            raise PropertyBroken("retry-refused", {**numbers, "broker": attempt.machine.name})
        self._wait_or_end(stream, request, attempt, is_gone=isinstance(error, UnknownTopic))

    def _wait_or_end(self, stream: BatchStream, request: Request, attempt: Attempt, *, is_gone: bool = False) -> None:
        """Retry later; end the stream if the topic was deleted or the request is too old."""
        is_late = self.loop.now_ns - request.began_ns > DELIVERY_TIMEOUT_NS
        if (is_late or is_gone or self.watch.is_deleted(stream.topic.topic_id)) and not stream.has_ended:
            self._producer.end_stream()
        self.finish(attempt, RETRY_NS)


def _check_id_error(error: RaftlogError, stream: BatchStream) -> None:
    """Raise `PropertyBroken` if an allocated id is refused as never allocated.

    A broker that does not know an id asks the controller before it refuses the id."""
    if isinstance(error, UnknownProducer) and "never given out" in str(error):
        raise PropertyBroken("given-id-refused", {"of": stream, "error": repr(error)})
