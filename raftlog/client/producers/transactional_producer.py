"""`TransactionalProducer`: records and offsets of a consumer group, all or none, in one transaction after another.

    async with TransactionalProducer(["127.0.0.1:8082"], "billing-1") as producer:
        async with producer.transaction(consumer):
            for record in await consumer.poll():
                await producer.send("bills", bill(record))

The transaction is committed at the end of the block, with the offsets of the consumer's records, and aborted by an
exception; the consumer then hands out its records again. Readers see committed records only, by default. The begin of a
transaction needs no request, and batches are sent as by `Producer`. A later producer with the same transactional id
fences this one, so a process that was replaced cannot commit.

    begin → Open → sent and stored → offsets added → committed
            Open → aborted           an exception, or a record or offset that was not stored (`TransactionAborted`)
            any  → fenced            `ProducerFenced`, from then on

A record belongs to the transaction in which its `send` began: a `send` that still waits when the block ends raises
`InvalidArgument`, and its record is not sent.

Not thread-safe: one event loop, one transaction at a time."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Protocol, Unpack

from raftlog.client.consumers.consumed_offsets import OffsetsOfGroup
from raftlog.client.consumers.consumer import Consumer
from raftlog.client.producers.partition_chooser import PartitionChooser
from raftlog.client.producers.producer import Producer
from raftlog.client.producers.producer_settings import ProducerOptions
from raftlog.client.producers.transaction_identities import TransactionIdentities, is_fatal
from raftlog.client.serializers import K, Serializer, V
from raftlog.errors import (
    InvalidArgument,
    InvalidTransactionState,
    LogClosed,
    OutcomeUnknown,
    OutOfOrderSequence,
    RaftlogError,
    StaleGeneration,
    Unavailable,
    UnknownMember,
)

TRANSACTION_TIMEOUT_MS: Final = 60_000
_log = logging.getLogger("raftlog.client")
_ABORTING: Final = (
    Unavailable,
    OutcomeUnknown,
    StaleGeneration,
    UnknownMember,
    OutOfOrderSequence,
    InvalidTransactionState,
)
"""Errors after which the transaction can be repeated."""


class TransactionAborted(Unavailable):
    """Transaction that was not committed; its consumer hands out the same records again, so it can be repeated.

    The reason is the `__cause__`."""


class OffsetSource(Protocol):
    """Source of the offsets that a transaction commits: see `ConsumedOffsets`."""

    async def begin(self) -> None:
        """Begin a transaction at the present positions."""
        ...

    async def collect(self) -> OffsetsOfGroup:
        """Return the offsets of processed records that are to be committed with the transaction; may be none.

        Raises `StaleGeneration` if the group rebalanced since `begin`, and `UnknownMember`."""
        ...

    async def set_committed(self, offsets: OffsetsOfGroup) -> None:
        """Record the offsets as committed after the transaction."""
        ...

    async def rewind(self) -> None:
        """Return to the positions at the begin of the transaction, after an abort."""
        ...


class TransactionalProducer(Producer[K, V]):
    """Producer whose records all belong to transactions."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        transactional_id: str,
        *,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """Check the settings; raise `InvalidArgument`. Options are those of `Producer`; it is always idempotent.

        The cluster aborts a transaction that lasts longer than `transaction_timeout_ms`, and fences its producer."""
        if not options.get("idempotent", True) or not options.get("stops_at_failure", True):
            raise InvalidArgument("a transactional producer is idempotent, and stops at failures")
        options["stops_at_failure"] = True
        super().__init__(bootstrap, key_serializer=key_serializer, value_serializer=value_serializer, **options)
        self._transactional_id = transactional_id
        self._session = TransactionIdentities(self._client, transactional_id, transaction_timeout_ms, self.settings)
        self._identities = self._session
        self._parked: dict[str, PartitionChooser] = {}
        """Choosers of partitions between transactions, so that nothing can be sent then."""
        self._is_open = False
        """Whether a transaction has begun, and its commit or abort has not ended."""
        self._block: object | None = None
        """Block of the open transaction; None once its end has begun, from when on it accepts no records."""
        self._failure: RaftlogError | None = None
        """Error after which no transaction can begin."""

    def transaction(self, consumer: Consumer[Any, Any] | None = None) -> AbstractAsyncContextManager[None]:
        """Return a context manager for one transaction, which commits the offsets of the consumer's records as well.

        The consumer has a group, and `auto_commit=False`. The block's end raises `TransactionAborted` when the
        transaction can be repeated, `ProducerFenced` when another producer has the transactional id, and
        `OutcomeUnknown` when the commit may have happened: then begin again with another producer."""
        return self.transaction_of(None if consumer is None else consumer.consumed_offsets())

    def transaction_of(self, source: OffsetSource | None) -> AbstractAsyncContextManager[None]:
        """Return a context manager for a transaction with the offsets of any source."""
        return _Transaction(self, source)

    async def close(self, timeout_s: float | None = None) -> None:
        """Close; abort the open transaction, in one attempt, so that readers need not wait for its timeout."""
        if not self._is_closed and self._block is not None:
            error = await self.abort(None, is_urgent=True)
            if error is not None:
                _log.warning("%s", f"the transaction of {self._transactional_id!r} ends with its timeout: {error}")
        self._session.is_closed = True
        await super().close(timeout_s)

    async def _get_chooser(self, topic: str) -> PartitionChooser:
        """Return the chooser of a topic's partitions for the open transaction. Raises `InvalidArgument` without one."""
        block = self._block
        if block is None:
            raise InvalidArgument("no transaction is open: send records inside `async with producer.transaction():`")
        chooser = await super()._get_chooser(topic)
        if self._block is None:
            del self._choosers[topic]
        self._check_block(block)
        return chooser

    async def _wait_for_room(self, size: int) -> None:
        """Wait for room as `Producer` does. Raises `InvalidArgument` if the transaction ended meanwhile."""
        block = self._block
        await super()._wait_for_room(size)
        self._check_block(block)

    def _check_block(self, block: object | None) -> None:
        """Raise `InvalidArgument` unless `block` is the open transaction: a later one must not get its records."""
        if block is None or self._block is not block:
            raise InvalidArgument("the transaction ended while a record waited to be accepted: await each send in it")

    # parts of a transaction

    async def begin(self, source: OffsetSource | None) -> None:
        """Begin a transaction; only the first one, and one after a failed abort, send a request."""
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise LogClosed("the producer is closed")
        if self._is_open:
            raise InvalidArgument("a transaction of this producer is open; it has one at a time")
        self._is_open = True
        try:
            await self._session.prepare()
            if source is not None:
                await source.begin()
        except BaseException as error:
            self._is_open = False
            self._note_failure(error)
            raise
        self._choosers, self._parked = self._parked, {}
        self._block = object()
        self._handle_metadata_change()

    async def commit(self, source: OffsetSource | None) -> OffsetsOfGroup | None:
        """Store all records and offsets, then commit; return the offsets. Raises the error that prevents it.

        After an error the caller must call `abort`. If `failure` is set then, the transaction may be committed."""
        if self._is_closed:
            raise LogClosed("the producer was closed during the transaction")
        self._end_block()
        collected = None if source is None else await source.collect()
        has_records = bool(self._lanes)
        await self._store(collected)
        if has_records or (collected is not None and collected.offsets):
            try:
                await self._session.commit()
            except OutcomeUnknown as error:
                self._failure = error
                raise
            except asyncio.CancelledError:
                self._failure = OutcomeUnknown(
                    f"the commit of the transaction of {self._transactional_id!r} was cancelled, and may have happened"
                )
                raise
        self._close_lanes()
        return collected

    async def _store(self, collected: OffsetsOfGroup | None) -> None:
        """Store all records and offsets, at the same time; raise the first error.

        Without a task group: in Python 3.11 one counts its own cancellation as its caller's, which then gets
        `CancelledError` in place of `TimeoutError` from `asyncio.timeout`."""
        running = [asyncio.create_task(self._store_records())]
        if collected is not None and collected.offsets:
            running.append(asyncio.create_task(self._session.add_offsets(collected)))
        try:
            await asyncio.gather(*running)
        finally:
            for each in running:
                each.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _store_records(self) -> None:
        """Wait until all records are stored. Raises the error of the first that is not."""
        await self._wait_until_ended(None)
        for lane in self._lanes.values():
            if lane.failure is not None:
                raise lane.failure

    async def abort(self, source: OffsetSource | None, *, is_urgent: bool) -> RaftlogError | None:
        """Drop records that are not sent, and abort; return the abort's error, or None. `is_urgent`: in one attempt."""
        self._end_block()
        self._session.needs_renewal = True
        try:
            for lane in self._lanes.values():
                await lane.abandon()
            self._unseen = []
            if self._failure is None and not self._is_closed:
                await self._session.abort(0.0 if is_urgent else None)
        except RaftlogError as error:
            self._note_failure(error)
            return error
        finally:
            self._close_lanes()
            if source is not None:
                await source.rewind()
        return None

    def _end_block(self) -> None:
        """Accept no more records in the transaction."""
        if self._block is not None:
            self._block = None
            self._parked, self._choosers = self._choosers, {}

    def _close_lanes(self) -> None:
        """End the transaction in this process: the next one begins with new lanes and sequences."""
        self._is_open = False
        self._lanes.clear()
        for chooser in self._parked.values():
            chooser.forget_lanes()

    def _note_failure(self, error: BaseException) -> None:
        """Set `failure` if the producer cannot continue after this error."""
        if isinstance(error, RaftlogError) and is_fatal(error):
            self._failure = error

    @property
    def failure(self) -> RaftlogError | None:
        """Error after which no transaction can begin; None while the producer works."""
        return self._failure


class _Transaction(AbstractAsyncContextManager[None]):
    """Context manager of one transaction: commits at its end, or aborts after an error."""

    def __init__(self, producer: TransactionalProducer[Any, Any], source: OffsetSource | None) -> None:
        self._producer, self._source = producer, source

    async def __aenter__(self) -> None:
        await self._producer.begin(self._source)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            offsets = await self._producer.commit(self._source)
        except BaseException as cause:
            await self._abort(cause)
            raise
        if self._source is not None and offsets is not None:
            await self._source.set_committed(offsets)

    async def _abort(self, cause: BaseException) -> None:
        """Abort because of an error, and raise its consequence; return to let the error of the block continue.

        A cancellation, Ctrl-C and the like wait for one attempt only, and always continue."""
        producer = self._producer
        unknown, is_urgent = producer.failure, not isinstance(cause, Exception)
        left = await producer.abort(self._source, is_urgent=is_urgent)
        if is_urgent:
            return
        if unknown is not None:
            raise unknown
        if is_fatal(cause):
            raise cause
        if producer.failure is not None:
            raise producer.failure from cause
        if isinstance(cause, _ABORTING):
            rest = "" if left is None else f"; it is aborted before the next one begins ({left})"
            raise TransactionAborted(f"the transaction was not committed: {cause}{rest}") from cause
        if left is not None:
            cause.add_note(f"besides, the transaction is aborted only before the next one begins: {left}")
