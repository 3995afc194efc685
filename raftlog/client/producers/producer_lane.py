"""Lane of a producer to one partition: records collect in batches, and batches are sent in order.

Called by `Producer` alone. `unsettled` are sent batches without a result, in the order of their sequences, at most the
broker's window of batches from the first of them on. Behind them is `waiting`, whose last batch is open for more
records. A batch is sent when no other of the partition is in flight, when it has `batch_records`, or after `linger_ms`;
while the window is full it grows up to `batch_bytes`.

After a failed attempt the lane recovers: it sends nothing new, waits for the answers in flight, and then sends the
unsettled batches again one at a time, in order, each with its old sequence. So the broker detects duplicates, and the
order of the records is kept. When the chain of sequences is broken for good, because a batch ended without being
stored, later batches that are certainly not stored continue under a new producer id; those that may be stored end as
unknown, because their duplicates could no longer be detected."""

import asyncio
from collections import deque
from collections.abc import Callable

from raftlog.client.answers import Produced, ProducerIdentity
from raftlog.client.broker import BrokerClient
from raftlog.client.outage import Outage
from raftlog.client.producers.delivery import Batch, Delivery, RecordHeaders
from raftlog.client.producers.identities import Identities
from raftlog.client.producers.producer_settings import ProducerSettings
from raftlog.errors import (
    DuplicateSequence,
    OutcomeUnknown,
    OutOfOrderSequence,
    RaftlogError,
    Unavailable,
    UnknownProducer,
)
from raftlog.records import build_columns
from raftlog.types import TopicPartition

SEQUENCES = 1 << 31
"""Number of sequences, after which they begin at 0 again."""
RETRY_PAUSE_S_MAX = 1.0


class ProducerLane:
    """Sender of one producer's batches to one partition, in order; `on_result` gets each batch that has a result."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        client: BrokerClient,
        settings: ProducerSettings,
        identities: Identities | None,
        batch_bytes: int,
        on_result: Callable[[Batch], None],
        transactional_id: str | None = None,
    ) -> None:
        """Start without batches; not idempotent without `identities`.

        With a `transactional_id` the lane's records belong to one transaction."""
        self._topic_partition, self._client, self._settings = topic_partition, client, settings
        self._identities, self._on_result = identities, on_result
        self._identity: ProducerIdentity | None = None
        self._abandoned: ProducerIdentity | None = None
        """Producer id whose chain of sequences is broken; no batch is sent until there is a new id."""
        self._is_expired = False
        """Whether the partition has expired the abandoned id, so that the next must be greater than all earlier ids."""
        self._transactional_id = transactional_id
        self._has_first = transactional_id is None
        """Whether several batches may be in flight. A broker accepts any batch as the first of a transaction, so the
        first one is sent alone."""
        self._next_sequence = 0
        self._departed = 0
        """Number of batches sent so far."""
        self._batch_bytes = batch_bytes
        self._batch_records = settings.batch_records
        self._compression = settings.codec
        self._loop = asyncio.get_running_loop()
        self._open: Batch | None = None
        self._waiting: deque[Batch] = deque()
        self._unsettled: deque[Batch] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._recovery: asyncio.Task[None] | None = None
        self.failure: RaftlogError | None = None
        """Error that stopped the lane, if it stops at failures."""
        self._is_awake = False
        self._is_flush_requested = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    # calls of the producer

    @property
    def open_batch(self) -> Batch | None:
        """Batch that takes the next record if it has room."""
        return self._open

    def add(
        self, value: bytes | None, key: bytes | None, timestamp_ms: int, headers: RecordHeaders, size_bytes: int
    ) -> Delivery:
        """Add a checked record, for which the buffer has room."""
        batch = self._open
        if batch is None or batch.size_bytes + size_bytes > self._batch_bytes:
            batch = self._open = Batch(self._topic_partition, self._loop.time(), self._loop.create_future())
            self._waiting.append(batch)
            self._schedule_sending()
        delivery = batch.add(value, key, timestamp_ms, headers, size_bytes)
        if batch.count == self._batch_records:
            self._schedule_sending()
        return delivery

    def add_batch(self, batch: Batch) -> None:
        """Add a complete batch, which gets no more records."""
        self._open = None
        self._waiting.append(batch)
        self._schedule_sending()

    def send_now(self) -> list[Batch]:
        """Send waiting batches as soon as possible; return all batches without a result."""
        self._is_flush_requested = True
        self._schedule_sending()
        return [*self._unsettled, *self._waiting]

    async def abandon(self) -> None:
        """End all batches because the producer closes, as unknown if they may be stored."""
        tasks = [*self._under_way, *([self._recovery] if self._recovery is not None else [])]
        under_way = list(self._unsettled)[: None if self._under_way else 1]
        for task in tasks:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        for batch in (*self._unsettled, *waiting):
            self._end(batch, _make_closed_error(batch, batch.maybe_stored or batch in under_way))
        await asyncio.gather(*tasks, return_exceptions=True)

    # sending of batches

    def _schedule_sending(self) -> None:
        """Send waiting batches at the end of the loop turn."""
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon(self._send_waiting)

    def _send_waiting(self) -> None:
        """Send the waiting batches that may be sent now, and set the timer for the next one."""
        self._is_awake = False
        if self._recovery is not None:
            return
        now_s = self._loop.time()
        while self._waiting and self._has_window() and self._may_send(now_s):
            batch = self._waiting.popleft()
            batch.number, self._departed = self._departed, self._departed + 1
            if batch is self._open:
                self._open = None
            self._set_sequence(batch)
            self._unsettled.append(batch)
            task = self._loop.create_task(self._send_first(batch))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        if not self._waiting:
            self._is_flush_requested = False
        elif self._has_window() and self._timer_at <= now_s:
            self._timer_at = self._find_send_time(self._waiting[0])
            self._timer = self._loop.call_at(self._timer_at, self._schedule_sending)

    def _has_window(self) -> bool:
        """Return whether the broker would still know the oldest batch without a result if another one is sent.

        Brokers remember the last batches of a producer; answered batches count as well."""
        if not self._unsettled:
            return True
        return self._has_first and self._departed - self._unsettled[0].number < self._settings.in_flight_max

    def _may_send(self, now_s: float) -> bool:
        """Return whether the first waiting batch is complete, has lingered, or no other is in flight."""
        first = self._waiting[0]
        return (
            not self._unsettled
            or self._is_flush_requested
            or first is not self._open
            or first.count >= self._batch_records
            or now_s >= self._find_send_time(first)
        )

    def _find_send_time(self, batch: Batch) -> float:
        """Return the loop time at which `linger_ms` of a batch has passed."""
        return batch.created_s + self._settings.linger_ms / 1000

    def _set_sequence(self, batch: Batch) -> None:
        """Set the sequence of a batch that is sent for the first time, or again under another producer id."""
        if self._identities is None:
            return
        if self._identity is None:
            self._identity, self._next_sequence = self._identities.current, 0
        batch.sequence = self._next_sequence
        self._next_sequence = (self._next_sequence + batch.count) % SEQUENCES

    # attempts

    async def _send_first(self, batch: Batch) -> None:
        """Send a batch for the first time; begin a recovery if that fails."""
        try:
            await self._send(batch)
        except RaftlogError as error:
            # The batch may have overtaken others in flight; then it is sent again after them.
            is_overtaking = isinstance(error, OutOfOrderSequence | UnknownProducer)
            batch.last_error = None if is_overtaking else error
            if self._recovery is None:
                self._recovery = self._loop.create_task(self._recover())

    async def _send(self, batch: Batch) -> None:
        """Make one attempt, and end the batch if it is stored; raise the error if it is not, or perhaps not."""
        left_ms = round((self._find_deadline(batch) - self._loop.time()) * 1000)
        body = self._build(batch)
        try:
            produced = await self._client.produce_batches(
                self._topic_partition.topic,
                self._topic_partition.partition,
                body,
                acks=self._settings.acks,
                transactional_id=self._transactional_id,
                timeout_ms=max(1, min(self._settings.request_timeout_ms, left_ms)),
            )
        except OutcomeUnknown as error:
            if not isinstance(error, DuplicateSequence):
                batch.maybe_stored = True
            raise
        self._has_first = True
        self._end(batch, produced)

    def _build(self, batch: Batch) -> bytearray:
        """Encode a batch with the producer's present id and epoch."""
        identity = self._identity
        return build_columns(
            batch.values,
            batch.keys,
            batch.timestamps,
            batch.headers,
            self._compression,
            producer_id=-1 if identity is None else identity.producer_id,
            producer_epoch=-1 if identity is None else identity.epoch,
            base_sequence=batch.sequence,
            is_transactional=self._transactional_id is not None,
        )

    def _find_deadline(self, batch: Batch) -> float:
        """Return the loop time at which the delivery timeout of a batch passes."""
        return batch.created_s + self._settings.delivery_timeout_ms / 1000

    def _end(self, batch: Batch, result: Produced | RaftlogError) -> None:
        """Set the result of a batch, and remove it from the unsettled ones."""
        if batch in self._unsettled:
            self._unsettled.remove(batch)
        batch.end(result)
        self._on_result(batch)
        self._schedule_sending()

    # recovery after a failed attempt

    async def _recover(self) -> None:
        """Resend the unsettled batches in order, one at a time, then resume normal sending."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        with Outage(f"records for {self._topic_partition}", pause_s_max=RETRY_PAUSE_S_MAX) as outage:
            while self._unsettled or self._abandoned is not None:
                error = await self._retry_first()
                if error is None:
                    outage.end()
                else:
                    self._expire_waiting(error)
                    await outage.pause(error)
        self._recovery = None
        self._schedule_sending()

    async def _retry_first(self) -> RaftlogError | None:
        """Give up the first unsettled batch, or send it again; return the error of the attempt, or None."""
        batch = self._unsettled[0] if self._unsettled else None
        if batch is not None and batch.last_error is not None:
            if self._is_over(batch, batch.last_error):
                self._give_up(batch, batch.last_error)
                return None
            if isinstance(batch.last_error, UnknownProducer):
                self._break_chain(batch.last_error, is_expired=True)
        try:
            await self._renew_identity()
            if batch is not None:
                await self._send(batch)
        except RaftlogError as error:
            if batch is not None:
                batch.last_error = error
            return error
        return None

    def _is_over(self, batch: Batch, error: RaftlogError) -> bool:
        """Return whether another attempt can no longer store the batch."""
        if self._loop.time() >= self._find_deadline(batch):
            return True
        if isinstance(error, UnknownProducer):
            return batch.maybe_stored
        if error.outcome == "unknown":
            return self._identities is None or isinstance(error, DuplicateSequence)
        return not isinstance(error, Unavailable)

    def _give_up(self, batch: Batch, error: RaftlogError) -> None:
        """End a batch with an error; stop the lane, or continue under another producer id."""
        is_late = self._loop.time() >= self._find_deadline(batch)
        is_expired = isinstance(error, UnknownProducer)
        # A jump of the sequence proves that the batch is not stored: the broker would have detected a duplicate.
        is_unsure = batch.maybe_stored and not isinstance(error, OutOfOrderSequence)
        if is_late or (is_unsure and error.outcome == "failed"):
            kind = OutcomeUnknown if is_unsure else Unavailable
            waited = f" within {self._settings.delivery_timeout_ms} ms" if is_late else ""
            unsure = "; an earlier answer was lost, so they may be stored" if is_unsure else ""
            error = kind(
                f"{batch.count} records for {self._topic_partition} were not acknowledged{waited}{unsure}: {error}"
            )
        self._end(batch, error)
        if self._settings.stops_at_failure:
            self._stop(error)
        else:
            self._break_chain(error, is_expired=is_expired)

    def _stop(self, error: RaftlogError) -> None:
        """Fail all batches that follow a batch that was not stored: the broker would refuse the gap in the sequence."""
        self.failure = error
        waiting, self._waiting, self._open = self._waiting, deque(), None
        for batch in (*self._unsettled, *waiting):
            kind = OutcomeUnknown if batch.maybe_stored else Unavailable
            self._end(
                batch, kind(f"{batch.count} records for {self._topic_partition} follow a batch that failed: {error}")
            )

    def _break_chain(self, cause: RaftlogError, *, is_expired: bool) -> None:
        """Abandon the producer id: with their present sequences later batches could be taken for duplicates.

        `is_expired`: the partition no longer knows the id."""
        if self._identities is None:
            return
        if self._identity is not None:
            self._abandoned, self._identity = self._identity, None
            self._is_expired = is_expired
        for batch in list(self._unsettled):
            if batch.maybe_stored:
                self._end(
                    batch, OutcomeUnknown(f"{batch.count} records for {self._topic_partition} may be stored: {cause}")
                )

    async def _renew_identity(self) -> None:
        """Get a new producer id after a lost batch, and number the batches without a result again from 0."""
        if self._identities is None or self._abandoned is None:
            return
        self._identity = await self._identities.replace(self._abandoned, must_be_new=self._is_expired)
        self._next_sequence = 0
        self._abandoned = None
        for batch in self._unsettled:
            self._set_sequence(batch)

    def _expire_waiting(self, cause: RaftlogError) -> None:
        """Fail batches that were never sent and have waited too long."""
        now_s = self._loop.time()
        while self._waiting and now_s >= self._find_deadline(self._waiting[0]):
            batch = self._waiting.popleft()
            if batch is self._open:
                self._open = None
            why = f"were not sent within {self._settings.delivery_timeout_ms} ms"
            error = Unavailable(f"{batch.count} records for {self._topic_partition} {why}: {cause}")
            self._end(batch, error)
            if self._settings.stops_at_failure:
                self._stop(error)


def _make_closed_error(batch: Batch, is_sent: bool) -> RaftlogError:
    """Return the error of a batch without a result when the producer closes; unknown if it was sent."""
    if is_sent:
        return OutcomeUnknown(
            f"the producer was closed while {batch.count} records for {batch.topic_partition} were in flight"
        )
    return Unavailable(f"the producer was closed before {batch.count} records for {batch.topic_partition} were sent")
