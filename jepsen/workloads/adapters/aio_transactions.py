"""Transactions of aiokafka.

When the library commits offsets in a transaction, the request names no group member. So a chain (a loop that reads,
processes and writes in transactions) consumes fixed partitions. Its transactional id belongs to these partitions, and
fences an earlier chain."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import KafkaError

from jepsen.workloads.adapters.aio import START_S, AioConsumer, close_producer, common_settings
from jepsen.workloads.adapters.library import ConsumedRecord
from jepsen.workloads.adapters.transactional import ChainConsumer, ChainSettings, TransactionSettings
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition

_STATE_ERRORS: Final = (KafkaError, TimeoutError, AssertionError)
"""Errors of the library; it raises the last one when its state does not allow a call."""
T = TypeVar("T")


class AioTransactional:
    """Transactional producer of aiokafka behind the interface `TransactionalProducer`."""

    def __init__(self, common: Mapping[str, Any], settings: TransactionSettings) -> None:
        """Create a transactional producer with the settings `common` of all clients; `start` connects it."""
        self._settings = settings
        more = {
            "transactional_id": settings.transactional_id,
            "transaction_timeout_ms": settings.timeout_ms,
            "request_timeout_ms": settings.request_ms,
        }
        self._producer = AIOKafkaProducer(**{**common, **more})

    async def _call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Await a call of the library. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await work
        except _STATE_ERRORS as error:
            raise Unavailable(repr(error)) from error

    @property
    def _timeout_s(self) -> float:
        """Limit of each call in seconds: the transaction's timeout."""
        return self._settings.timeout_ms / 1000

    async def start(self) -> None:
        """Start the producer, which fences earlier producers of its transactional id."""
        await self._call(self._producer.start(), START_S)

    async def begin(self, consumer: ChainConsumer | None = None) -> None:
        await self._call(self._producer.begin_transaction(), self._timeout_s)

    async def append(self, place: TopicPartition, value: bytes) -> Offset:
        """Append a record in the transaction and return its offset.

        Raises `OutcomeUnknown` if the answer has no offset."""
        sent = self._producer.send_and_wait(place.topic, value, partition=place.partition)
        found = await self._call(sent, self._timeout_s)
        if found is None or found.offset < 0:
            raise OutcomeUnknown("stored, at an offset without an answer")
        return Offset(found.offset)

    async def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: ChainConsumer) -> None:
        """Add the offsets to the transaction, for the group of `consumer`."""
        assert isinstance(consumer, AioChainConsumer), consumer
        rows = {KafkaPartition(*place): offset for place, offset in offsets.items()}
        await self._call(self._producer.send_offsets_to_transaction(rows, consumer.group), self._timeout_s)

    async def commit(self) -> None:
        """Commit the transaction. Raises `OutcomeUnknown` if the library did not confirm the commit."""
        try:
            await self._call(self._producer.commit_transaction(), self._timeout_s)
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from error

    async def abort(self) -> None:
        await self._call(self._producer.abort_transaction(), self._timeout_s)

    async def close(self) -> None:
        """Close the connections without ending the transaction; the library's `stop` would wait for it."""
        await close_producer(self._producer)


class AioChainConsumer(AioConsumer):
    """Consumer of aiokafka behind the interface `ChainConsumer`, of fixed partitions."""

    def __init__(self, configuration: Mapping[str, Any], settings: ChainSettings) -> None:
        super().__init__((), {**configuration, "isolation_level": "read_committed"})
        self._owned = [KafkaPartition(settings.topic, number) for number in settings.partitions]
        self.group: Final = settings.group

    async def start(self) -> None:
        """Start the consumer, with its fixed partitions assigned."""
        consumer = await self._ensure_started()
        consumer.assign(self._owned)

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        return await self._poll(await self._ensure_started(), timeout_ms)

    async def stable(self, timeout_ms: int) -> dict[TopicPartition, Offset | None]:
        """Return no offsets: the library cannot ask for stable offsets only."""
        return {}


class _ShortErrors(logging.Formatter):
    """Formatter that prints errors without their tracebacks, which in a client's log count as findings."""

    def formatException(  # noqa: N802  # the name of the method in `logging`
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return repr(ei[1])


class AioTransactions:
    """Factory of aiokafka's transactional clients, with the interface `TransactionalLibrary`."""

    names_members: Final = False

    def __init__(self, bootstrap: str) -> None:
        """Prepare clients of the brokers `bootstrap`; the event loop runs.

        A lost connection can end the task in which a producer sends. Its next call raises the error of the task, so the
        loop does not report it as well, and the library's log shows it in one line."""
        self._common = common_settings(bootstrap)
        loop = asyncio.get_running_loop()
        report = loop.get_exception_handler() or (lambda loop, context: loop.default_exception_handler(context))

        def report_others(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            """Report an error to the earlier handler unless it is one of the library."""
            is_unclosed = context["message"].startswith("Unclosed AIOKafka")  # its `stop` was cancelled
            if not is_unclosed and not isinstance(context.get("exception"), KafkaError):
                report(loop, context)

        loop.set_exception_handler(report_others)
        handler = logging.StreamHandler()
        handler.setFormatter(_ShortErrors())
        library = logging.getLogger("aiokafka")
        library.addHandler(handler)
        library.propagate = False

    def new_producer(self, settings: TransactionSettings) -> AioTransactional:
        return AioTransactional(self._common, settings)

    def new_consumer(self, settings: ChainSettings) -> AioChainConsumer:
        more = {"group_id": settings.group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        return AioChainConsumer({**self._common, **more}, settings)

    async def close(self) -> None:
        """Do nothing: producers and consumers share nothing."""
