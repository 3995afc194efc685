"""Fetched batches of one partition of a `Consumer`, decoded a few records at a time.

    position ≤ next_fetch;  between them lie the held records

`position` is the offset of the next record to hand out, None until the start is looked up. It follows the batch
headers, so that offsets removed by compaction are skipped."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

from raftlog.client.answers import Fetched
from raftlog.client.consumers.consumer_settings import ConsumerRecord
from raftlog.client.consumers.start_positions import Start
from raftlog.client.decode import read_batches
from raftlog.errors import RaftlogError, UndecodableBatch
from raftlog.records import BatchHeader, Record, read_records
from raftlog.types import Offset, TopicPartition

_record_of: Final[Callable[[tuple[Any, ...]], ConsumerRecord]] = partial(tuple.__new__, ConsumerRecord)
"""Constructor of a record from a tuple; faster than `ConsumerRecord._make`, as it is called for every record."""


class FetchedRecords:
    """Records of a partition that were fetched and not yet returned by `poll`; `error`, if set, follows them."""

    def __init__(self, topic_partition: TopicPartition, start: Start) -> None:
        """Read a partition from `start`: an offset, or the kind of a start that must be looked up."""
        self.topic_partition = topic_partition
        self.start = start
        """Start position, looked up while `position` is None."""
        self.position = start if isinstance(start, int) else None
        self.next_fetch = self.position
        self.high_watermark: Offset | None = None
        self.error: RaftlogError | None = None
        self.is_paused = False
        self.task: asyncio.Task[None] | None = None
        self.room = asyncio.Event()
        """Set while another answer may be fetched."""
        self.room.set()
        self.located = asyncio.Event()
        """Set when there is a position, or an error in its place."""
        if self.position is not None:
            self.located.set()
        self.held_bytes = 0
        self._batches: deque[tuple[BatchHeader, memoryview] | Offset] = deque()
        """Held batches; an offset among them is the start of a new fetch after it."""
        self._header: BatchHeader | None = None
        self._records: Iterator[Record] = iter(())

    def begin_at(self, position: Offset) -> None:
        """Continue the fetches at this offset; discard fetched records and an error."""
        self.position = self.next_fetch = position
        self.error = None
        self.held_bytes = 0
        self._batches.clear()
        self._header, self._records = None, iter(())
        self.located.set()
        self.room.set()

    def restart(self, start: Start) -> None:
        """Continue at a start position that may have to be looked up."""
        if isinstance(start, int):
            self.begin_at(start)
            return
        self.begin_at(Offset(0))
        self.start, self.position, self.next_fetch = start, None, None
        self.located.clear()

    def fail(self, error: RaftlogError) -> None:
        """Return no more records after this error, until a new start."""
        self.error = error
        self.located.set()

    def continue_at(self, offset: Offset) -> None:
        """Continue at this offset, once the fetched records are returned."""
        if self._header is not None or self._batches:
            self._batches.append(offset)
            self.next_fetch = offset
        else:
            self.begin_at(offset)

    def accept(self, fetched: Fetched) -> None:
        """Keep an answer that was fetched at `next_fetch`; raise `InvalidBatch` if it arrived damaged."""
        self.high_watermark = fetched.high_watermark
        for header, batch in read_batches(fetched.body):
            self._batches.append((header, batch))
            self.held_bytes += len(batch)
            self.next_fetch = Offset(header.next_offset)

    def take(self, count: int) -> list[ConsumerRecord]:
        """Return at most `count` of the fetched records; the position moves after them.

        Records before an undecodable batch are returned; after them its error is raised."""
        taken: list[ConsumerRecord] = []
        topic, partition = self.topic_partition
        while len(taken) < count and (self._header is not None or self._open_next()):
            header, wanted, position = self._header, count - len(taken), self.position
            assert header is not None, "a batch is open"
            assert position is not None, f"records of {self.topic_partition} are held without a position"
            opened: list[Record] = []
            broken: UndecodableBatch | None = None
            try:
                opened.extend(islice(self._records, wanted))  # `extend` keeps the records before an error
            except UndecodableBatch as error:
                broken = error.located_at(self.topic_partition)
            has_ended = len(opened) < wanted
            if opened and opened[0].offset < position:  # a fetch returns whole batches
                opened = [record for record in opened if record.offset >= position]
            taken += [
                _record_of((topic, partition, each.offset, each.timestamp, each.key, each.value, each.headers))
                for each in opened
            ]
            if broken is not None:
                self._stop_at(Offset(max(broken.offset, position)), broken)
            elif has_ended:
                self.position = Offset(max(header.next_offset, position))
                self._header = None
            elif opened:
                self.position = Offset(opened[-1].offset + 1)
        return taken

    def _stop_at(self, position: Offset, error: RaftlogError) -> None:
        """Stop at an error: drop batches that were fetched or requested, since they follow records not yet returned."""
        self.begin_at(position)
        self.error = error
        if self.task is not None:
            self.task.cancel()

    def _open_next(self) -> bool:
        """Decode the next fetched batch; return false if there is none."""
        while self._batches:
            first = self._batches.popleft()
            if isinstance(first, tuple):
                header, batch = first
                self.held_bytes -= len(batch)
                self._header, self._records = header, iter(()) if header.is_control else read_records(batch)
                return True
            self.position = first
        return False
