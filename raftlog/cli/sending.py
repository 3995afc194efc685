"""Records on their way to the partitions of one topic.

Each partition is a lane with at most one request under way, so its records stay in order; a few lanes are on the
road together. `base ≤ base + confirmed ≤ end offset` holds for a lane as long as nobody else writes.

A refusal that a broker marks as passing is repeated, because nothing happened. An answer that was lost is another
matter: without recovery it ends the run as unknown. With recovery (`--resume`) this producer is alone on the topic,
so the partition's end offset says what arrived: `Settler` waits until the lost request can no longer take effect,
looks, and goes on behind what is there.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from raftlog.cli.outcome import CommandFailed
from raftlog.cli.patience import Patience, is_passing
from raftlog.client import BrokerClient, NotListening, Produced
from raftlog.errors import OutcomeUnknown, RaftlogError, RecordTooLarge, Unavailable
from raftlog.records import Compression, NewRecord, build_batch

Records = Sequence[bytes | NewRecord]

SETTLE_GRACE_SECONDS = 1.0
"""A request whose deadline passed this long ago is not going to be appended any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How records are sent."""

    topic: str
    compression: Compression
    acks: str
    timeout_ms: int
    give_up_after_s: float
    lanes_under_way_max: int
    max_message_bytes: int


@dataclass(slots=True)
class Lane:
    """One partition. `base` is where this run's records began, known from the first answer or from the state file."""

    partition: int
    base: int | None = None
    confirmed: int = 0
    sent: int = 0
    confirmed_bytes: int = 0
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def next_offset(self) -> int | None:
        return None if self.base is None else self.base + self.confirmed


class Sender:
    """Sends records in order per partition; `finish` waits for the last answers."""

    def __init__(
        self,
        client: BrokerClient,
        sending: Sending,
        bases: Sequence[int] | None = None,
        already: Sequence[int] | None = None,
    ) -> None:
        """`bases` and `already` turn recovery on: the first offset of this producer's records in each partition, and
        how many of them are there."""
        self._client, self._sending = client, sending
        self._recovers = bases is not None
        self._failure: BaseException | None = None
        self._window = asyncio.Semaphore(sending.lanes_under_way_max)
        self.lanes: dict[int, Lane] = {}
        for partition, (base, count) in enumerate(zip(bases or (), already or (), strict=True)):
            self.lanes[partition] = Lane(partition, base, count, count)

    async def put(self, partition: int, records: Records, size_bytes: int) -> None:
        """Build a batch and start sending it, once the lane's previous one is answered. Raises what that one met."""
        lane = self.lanes.get(partition)
        if lane is None:
            lane = self.lanes[partition] = Lane(partition)
        body = self._build(records)
        if lane.task is not None:
            await lane.task
        if self._failure is not None:
            raise self._failure
        await self._window.acquire()
        lane.sent += len(records)
        lane.task = asyncio.create_task(self._deliver(lane, records, body, size_bytes))

    async def finish(self) -> None:
        """Wait for everything under way; raises the first failure, after all have ended."""
        tasks = [lane.task for lane in self.lanes.values() if lane.task is not None]
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _build(self, records: Records) -> bytes | bytearray:
        """One batch, or as many as the topic's size bound asks for."""
        limit = self._sending.max_message_bytes
        batch = build_batch(records, self._sending.compression)
        if len(batch) <= limit:
            return batch
        if len(records) == 1:
            raise RecordTooLarge(
                f"a record makes a batch of {len(batch)} bytes; max.message.bytes of topic {self._sending.topic} is "
                f"{limit}, and `raftlog topic alter` can raise it"
            )
        half = len(records) // 2
        return b"".join((self._build(records[:half]), self._build(records[half:])))

    async def _deliver(self, lane: Lane, records: Records, body: bytes | bytearray, size_bytes: int) -> None:
        try:
            next_offset = await self._until_done(lane, records, body)
            if lane.base is None and next_offset >= 0:
                lane.base = next_offset - len(records)
            elif self._recovers and lane.next_offset != next_offset - len(records):
                raise _foreign(self._sending.topic, lane, next_offset - len(records))
            lane.confirmed += len(records)
            lane.confirmed_bytes += size_bytes
        except BaseException as error:
            self._failure = error
            raise
        finally:
            self._window.release()

    async def _until_done(self, lane: Lane, records: Records, body: bytes | bytearray) -> int:
        """Send until all records are stored; the offset behind them."""
        patience = Patience(self._sending.give_up_after_s)
        arrived = 0
        while True:
            sent_at = time.monotonic()
            try:
                return (await self._send(lane, body)).next_offset
            except (Unavailable, OutcomeUnknown) as error:
                if error.outcome == "failed" and is_passing(error):
                    await patience.wait(error)
                    continue
                if error.outcome == "failed" or not self._recovers:
                    raise
                settled_at = sent_at + self._sending.timeout_ms / 1000 + SETTLE_GRACE_SECONDS
                there = await self._arrived(lane, arrived, len(records), settled_at, patience, error)
            if there == len(records):
                assert lane.next_offset is not None, "recovery knows where the lane began"
                return lane.next_offset + there
            if there > arrived:
                arrived = there
                body = self._build(records[arrived:])

    async def _send(self, lane: Lane, body: bytes | bytearray) -> Produced:
        sending = self._sending
        return await self._client.produce_batches(
            sending.topic, lane.partition, body, acks=sending.acks, timeout_ms=sending.timeout_ms
        )

    async def _arrived(
        self, lane: Lane, before: int, sent: int, settled_at: float, patience: Patience, cause: RaftlogError
    ) -> int:
        """How many of `sent` records are stored, `before` of them known to be, once that can no longer change."""
        assert lane.next_offset is not None, "recovery knows where the lane began"
        while True:
            try:
                end = (await self._client.offsets(self._sending.topic, lane.partition)).end
            except NotListening as error:
                # The process that had the request is gone, and what it had not appended is gone with it.
                settled_at = 0.0
                await patience.wait(error)
                continue
            except Unavailable as error:
                await patience.wait(error)
                continue
            there = end - lane.next_offset
            if not before <= there <= sent:
                raise _foreign(self._sending.topic, lane, end)
            if there == sent or time.monotonic() >= settled_at:
                return there
            await patience.wait(cause)


def _foreign(topic: str, lane: Lane, found: int) -> CommandFailed:
    return CommandFailed(
        f"{topic}/{lane.partition} stands at offset {found} where this producer left it at {lane.next_offset}: "
        "somebody else wrote to the topic, or it was cut or made anew; resuming needs a topic of its own"
    )
