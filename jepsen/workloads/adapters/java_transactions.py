"""Transactions of Kafka's Java client, which runs in a process of its own (`java_process`)."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from jepsen.workloads.adapters.java_process import JavaProcess, java_command
from jepsen.workloads.adapters.library import ConsumedRecord
from jepsen.workloads.adapters.transactional import ChainConsumer, ChainSettings, TransactionSettings, abort_after
from raftlog.errors import OutcomeUnknown, Unavailable
from raftlog.types import Offset, TopicPartition

_ATTEMPTS: Final = 3
"""Number of attempts of a call that the library permits to repeat after a timeout."""
_TIMEOUT: Final = "TimeoutException:"
"""Begin of the text of a timeout."""
_NULL: Final = "-"
_RECORD_FIELDS, _OFFSET_FIELDS = 6, 3


class JavaTransactional:
    """Transactional producer of Java behind the interface `TransactionalProducer`."""

    def __init__(self, process: JavaProcess, settings: TransactionSettings) -> None:
        """Name a producer; `start` creates it in the process."""
        self._process, self._settings = process, settings
        self._name = process.new_name()

    async def _try(self, verb: str) -> None:
        """Execute a call that may be repeated after a timeout. Raises `Unavailable`."""
        for attempt in range(_ATTEMPTS):
            try:
                await self._process.call(self._name, verb)
            except Unavailable as error:
                if attempt + 1 == _ATTEMPTS or not str(error).startswith(_TIMEOUT):
                    raise
            else:
                return

    async def start(self) -> None:
        """Create the producer and initialize its transactional id, which fences earlier producers."""
        await self._process.call(self._name, "producer", *self._settings)
        await self._try("initialize")

    async def begin(self, consumer: ChainConsumer | None = None) -> None:
        await self._process.call(self._name, "begin")

    async def append(self, place: TopicPartition, value: bytes) -> Offset:
        """Append a record in the transaction and return its offset. Raises `OutcomeUnknown`."""
        try:
            (offset,) = await self._process.call(self._name, "append", *place, b64encode(value).decode())
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from error
        if int(offset) < 0:
            raise OutcomeUnknown("stored, at an offset without an answer")
        return Offset(int(offset))

    async def commit_offsets(self, offsets: Mapping[TopicPartition, int], consumer: ChainConsumer) -> None:
        """Add the offsets to the transaction, for the member and generation of `consumer`."""
        assert isinstance(consumer, JavaChainConsumer), consumer
        rows = [field for place, offset in offsets.items() for field in (*place, offset)]
        await self._process.call(self._name, "offsets", consumer.name, *rows)

    async def commit(self) -> None:
        """Commit the transaction, with up to `_ATTEMPTS` attempts.

        Raises `Unavailable` if the transaction had to be aborted, and `OutcomeUnknown`."""
        try:
            await self._try("commit")
        except Unavailable as error:
            if str(error).startswith(_TIMEOUT):
                raise OutcomeUnknown(str(error)) from error
            await abort_after(self, error)

    async def abort(self) -> None:
        """Abort the transaction. Raises `Unavailable`.

        After a failed commit, a complete abort proves that nothing was committed (`KafkaProducer` and
        `TransactionManager` of Kafka 4.1):

        - After a fatal error (fenced, unauthorized, invalid state) and after a commit, `abortTransaction` throws.
        - After another error of a record or of offsets, the library has not sent the commit: it is sent last, and only
          if all before it succeeded.
        - If the coordinator refused the commit, the library sends an abort. The answer would be the fatal error
          INVALID_TXN_STATE if an earlier attempt had committed.
        - An abort without a request to the coordinator is complete if the coordinator knows neither partitions nor
          groups of the transaction. (After a commit this occurs only while a cluster changes to TV2.)"""
        await self._try("abort")

    async def close(self) -> None:
        """Drop queued records and close the connections; the open transaction is not ended."""
        with suppress(Unavailable):
            await self._process.call(self._name, "close")


class JavaChainConsumer:
    """Group member of Java behind `ChainConsumer`, which fences its commits by the group's generation."""

    def __init__(self, process: JavaProcess, settings: ChainSettings) -> None:
        """Name a consumer; `start` creates it in the process."""
        self._process, self._settings = process, settings
        self.name: Final = process.new_name()

    async def start(self) -> None:
        """Create the consumer and subscribe to the input topic; it joins the group with the first poll."""
        settings = self._settings
        await self._process.call(
            self.name, "consumer", settings.group, settings.session_timeout_ms, settings.records_max
        )
        await self._process.call(self.name, "subscribe", settings.topic)

    async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        """Return the next committed records, without headers; empty if none arrives within the timeout."""
        fields = await self._process.call(self.name, "poll", timeout_ms)
        return [
            ConsumedRecord(topic, int(partition), int(offset), int(timestamp), _bytes(key), _bytes(value), [])
            for topic, partition, offset, timestamp, key, value in _rows(fields, _RECORD_FIELDS)
        ]

    async def stable(self, timeout_ms: int) -> dict[TopicPartition, Offset | None]:
        """Return the committed offsets of all owned partitions, without pending ones."""
        fields = await self._process.call(self.name, "stable", timeout_ms)
        return {
            TopicPartition(topic, int(partition)): None if offset == _NULL else Offset(int(offset))
            for topic, partition, offset in _rows(fields, _OFFSET_FIELDS)
        }

    async def close(self) -> None:
        """Leave the group, and close."""
        with suppress(Unavailable):
            await self._process.call(self.name, "close")


def _rows(fields: list[str], width: int) -> list[list[str]]:
    """Return the fields of a result as rows."""
    return [fields[start : start + width] for start in range(0, len(fields), width)]


def _bytes(text: str) -> bytes | None:
    """Return the bytes of a field."""
    return None if text == _NULL else b64decode(text)


class JavaTransactions:
    """Factory of Java's transactional clients, with the interface `TransactionalLibrary`."""

    names_members: Final = True

    def __init__(self, bootstrap: str) -> None:
        self._process = JavaProcess(java_command(), bootstrap)

    def new_producer(self, settings: TransactionSettings) -> JavaTransactional:
        return JavaTransactional(self._process, settings)

    def new_consumer(self, settings: ChainSettings) -> JavaChainConsumer:
        return JavaChainConsumer(self._process, settings)

    async def close(self) -> None:
        """End the process of all clients."""
        await self._process.close()
