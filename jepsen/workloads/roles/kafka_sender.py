"""Plain requests over Kafka's protocol: one record, one request and one operation each.

If the library can disable retries, a refusal is definite; then some requests use weaker `acks`, and are recorded as
`info`. Otherwise producers are idempotent, and the outcome of every failure is unknown."""

import asyncio
from typing import Any, Final

from jepsen.checkers.history import SEND, Send
from jepsen.workloads.adapters.library import KafkaLibrary, PlainSettings
from jepsen.workloads.adapters.port import RecordProducer
from jepsen.workloads.client.values import make_payload
from jepsen.workloads.roles.load_share import LoadShare
from jepsen.workloads.roles.plain_producer import LONG_TIMEOUT_MS, RECORDS_MAX, SIZES
from raftlog.errors import RaftlogError
from raftlog.types import TopicPartition

HASTY_MS: Final = 1_000
_LONG_TIMEOUT: Final = PlainSettings("all", LONG_TIMEOUT_MS, is_compressed=False)
_COMPRESSED: Final = PlainSettings("all", LONG_TIMEOUT_MS, is_compressed=True)
SENT_ONCE: Final = (
    *(_LONG_TIMEOUT,) * 8,
    *(_COMPRESSED,) * 4,
    *(PlainSettings("all", HASTY_MS, is_compressed=False),) * 5,
    *(PlainSettings("1", LONG_TIMEOUT_MS, is_compressed=False),) * 2,
    PlainSettings("0", LONG_TIMEOUT_MS, is_compressed=False),
)
REPEATED: Final = (_LONG_TIMEOUT, _LONG_TIMEOUT, _COMPRESSED)
_CLOSE_S: Final = 2.0


class KafkaSender:
    """Sender of plain requests, one for each client."""

    def __init__(self, library: KafkaLibrary, share: LoadShare) -> None:
        self._library = library
        self._history, self._partitions, self._values, self._senders, self._random = share
        self._producers: dict[PlainSettings, RecordProducer] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.not_offered = 0

    async def send(self) -> None:
        """Send a few records at once, each to a partition of its own choice."""
        settings = self._random.choice(SENT_ONCE if self._library.can_send_once else REPEATED)
        with self._senders.take(self._random.randint(1, RECORDS_MAX)) as processes:
            if not processes:
                self.not_offered += 1
                return
            producer = self._producer(settings)
            places = [self._random.choice(self._partitions) for _ in processes]
            try:
                await asyncio.gather(
                    *(
                        self._send(producer, settings, process, place)
                        for process, place in zip(processes, places, strict=True)
                    )
                )
            except asyncio.CancelledError:
                for process in processes:
                    self._history.crash(process)
                raise

    def _producer(self, settings: PlainSettings) -> RecordProducer:
        """Return the producer with these settings; create it at the first use."""
        if settings not in self._producers:
            self._producers[settings] = self._library.new_plain_producer(settings)
        return self._producers[settings]

    async def _send(
        self, producer: RecordProducer, settings: PlainSettings, process: int, place: TopicPartition
    ) -> None:
        """Send one value and record its outcome.

        Without `acks=all` an accepted record has an unknown outcome. A producer that does not accept the record is
        replaced."""
        value, acks = next(self._values), settings.acks
        send = Send(place, (value,))
        more: dict[str, Any] = {"hasty": True} if settings.timeout_ms < LONG_TIMEOUT_MS else {}
        invocation = self._history.invoke(process, SEND, send, acks=acks)
        payload = make_payload(value, self._random.choice(SIZES))
        try:
            accepted = await producer.send(place.topic, payload, partition=place.partition)
        except RaftlogError as error:
            self._history.record_refusal(invocation, error, acks=acks, **more)
            self._replace(settings, producer)
            return
        try:
            delivered = await accepted
        except RaftlogError as error:
            self._history.record_refusal(invocation, error, acks=acks, **more)
            return
        if acks == "all":
            self._history.ok(invocation, send._replace(offsets=(delivered.offset,)), acks=acks, **more)
        else:
            self._history.info(invocation, f"answered with acks={acks}", acks=acks, **more)

    def _replace(self, settings: PlainSettings, producer: RecordProducer) -> None:
        """Replace the producer, as a program does after a fatal error of its producer."""
        if self._producers.get(settings) is producer:
            del self._producers[settings]
            closing = asyncio.create_task(producer.close(_CLOSE_S))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the producers."""
        await asyncio.gather(*self._closing, *(producer.close(_CLOSE_S) for producer in self._producers.values()))
