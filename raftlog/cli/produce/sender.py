"""Records in flight to the partitions of one topic, and their outcomes.

`Producer` sends records in order, and stops sending to a partition at the first batch that is not stored. So the
confirmed records of a lane are a prefix of its sent ones: `base ≤ base + confirmed ≤ end offset` while no other
producer writes. With `expected` (`--resume`) no other producer may write to the topic: each answer must have the
expected offset."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from raftlog.cli.outcome import CommandFailed
from raftlog.cli.produce.resume import ResumePoint
from raftlog.client import Delivery, Producer
from raftlog.errors import RaftlogError
from raftlog.records import NewRecord

Records = Sequence[bytes | NewRecord]


@dataclass(slots=True)
class SendLane:
    """Counts of the records that one run sends to one partition.

    `base`: offset of this run's first record, from the first answer or the state file."""

    partition: int
    base: int | None = None
    confirmed: int = 0
    sent: int = 0
    refused: int = 0
    """Records that were certainly not stored."""
    confirmed_bytes: int = 0


class LineSender:
    """Sender of batches through a producer; `finish` waits for the last answers."""

    def __init__(self, producer: Producer, topic: str, in_flight_max: int, expected: ResumePoint | None = None) -> None:
        """Prepare a sender with at most `in_flight_max` batches in flight, of all partitions together."""
        self._producer, self._topic = producer, topic
        self._is_alone = expected is not None
        self._window = asyncio.Semaphore(in_flight_max)
        self._outcome_tasks: set[asyncio.Task[None]] = set()
        self._failure: RaftlogError | CommandFailed | None = None
        self.lanes: dict[int, SendLane] = {}
        if expected is not None:
            for partition, (base, count) in enumerate(zip(expected.bases, expected.already, strict=True)):
                self.lanes[partition] = SendLane(partition, base, count, count)

    async def send(self, partition: int, records: Records, size_bytes: int) -> None:
        """Wait for a free slot and begin to send records. Raises the error of earlier records."""
        await self._window.acquire()
        if self._failure is not None:
            raise self._failure
        lane = self.lanes.setdefault(partition, SendLane(partition))
        deliveries = await self._producer.send_batch(self._topic, partition, records)
        first, lane.sent = lane.sent, lane.sent + len(records)
        task = asyncio.create_task(self._count_outcome(lane, first, deliveries, size_bytes))
        self._outcome_tasks.add(task)
        task.add_done_callback(self._outcome_tasks.discard)

    async def finish(self) -> None:
        """Wait for all records in flight; raise the first failure after all have ended."""
        if self._outcome_tasks:
            await asyncio.wait(self._outcome_tasks)
        if self._failure is not None:
            raise self._failure

    async def _count_outcome(self, lane: SendLane, first: int, deliveries: Sequence[Delivery], size_bytes: int) -> None:
        """Count the outcome of records; `first` records of this lane were sent before them."""
        failure: RaftlogError | CommandFailed | None = None
        try:
            for delivery in deliveries:
                count = delivery.number_in_batch + 1
                try:
                    last_offset = (await delivery).offset
                    if failure is not None:
                        continue  # stored after a gap, so not part of the confirmed records, which are contiguous
                    if last_offset >= 0:
                        self._check_offset(lane, first, last_offset + 1 - count)
                except (RaftlogError, CommandFailed) as error:
                    failure = failure or error
                    if isinstance(error, RaftlogError) and error.outcome == "failed":
                        lane.refused += count
                    continue
                first += count
                lane.confirmed += count
            if failure is None:
                lane.confirmed_bytes += size_bytes
        finally:
            self._failure = self._failure or failure
            self._window.release()

    def _check_offset(self, lane: SendLane, first: int, offset: int) -> None:
        """Raise `CommandFailed` if records of another producer are between those of this lane, with `--resume`."""
        if lane.base is None:
            lane.base = offset - first
        elif self._is_alone and lane.base + first != offset:
            raise CommandFailed(
                f"{self._topic}/{lane.partition} is at offset {offset}, not at {lane.base + first} as expected: "
                "another producer wrote to the topic, or it was truncated or recreated; "
                "--resume needs a topic of its own"
            )
