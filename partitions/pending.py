"""What waits in a partition: produce calls before their append, in the order in which they came.

Single records of neighbouring calls are put into one batch; ready-made batches stay as they are and keep their place.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence

from raftlog.errors import InvalidArgument
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import Acks
from raftlog.records import BatchBuilder, NewRecord
from raftlog.types import Buffer

RECORD_OVERHEAD_BYTES = 64
"""What a waiting record costs in memory and in its batch besides its key, value and headers; an upper bound."""


class Pending:
    """One produce call to one partition. `future` gets the offset of its first record; `None` with `acks=0`."""

    __slots__ = ("acks", "base_offset", "batches", "count", "deadline", "future", "records", "size")

    def __init__(
        self,
        records: Sequence[NewRecord],
        batches: Sequence[Buffer],
        count: int,
        size: int,
        acks: Acks,
        deadline: Deadline,
        future: "asyncio.Future[int] | None",
    ) -> None:
        self.records = records
        self.batches = batches
        self.count = count
        self.size = size
        self.acks = acks
        self.deadline = deadline
        self.future = future
        self.base_offset = -1

    def resolve(self) -> None:
        """Answer with the base offset, unless somebody gave up waiting."""
        future = self.future
        if future is not None and not future.done():
            future.set_result(self.base_offset)

    def fail(self, error: Exception) -> bool:
        """Answer with the error; says whether anybody heard it."""
        if self.future is None or self.future.done():
            return False
        self.future.set_exception(error)
        return True

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits any more: it expired, or its caller went away."""
        return self.future is not None and self.future.done()


def record_size(record: NewRecord) -> int:
    """Bytes that a record counts for; raises `InvalidArgument` when its fields are no bytes."""
    value, key, _, headers = record
    size = RECORD_OVERHEAD_BYTES
    try:
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        for name, header in headers:
            size += 10 + 4 * len(name) + (len(header) if header is not None else 0)
    except (TypeError, ValueError):
        raise InvalidArgument(
            "a record has a key and a value of bytes or None, and headers that are pairs of str and bytes"
        ) from None
    return size


def build_batches(pendings: list[Pending], bytes_max: int) -> tuple[list[Buffer], list[Pending]]:
    """The batches of these calls in their order, and the calls that are in them.

    A call whose records cannot be encoded is answered with `InvalidArgument` and left out.
    """
    now_ms = time.time_ns() // 1_000_000
    while True:
        batches: list[Buffer] = []
        culprit = _build(pendings, bytes_max, now_ms, batches)
        if culprit is None:
            return batches, pendings
        pendings = [pending for pending in pendings if pending is not culprit]


def _build(pendings: Iterable[Pending], bytes_max: int, now_ms: int, batches: list[Buffer]) -> Pending | None:
    builder: BatchBuilder | None = None
    room = 0
    for pending in pendings:
        if pending.batches:
            if builder is not None:
                batches.append(builder.build())
                builder = None
            batches.extend(pending.batches)
            continue
        try:
            for record in pending.records:
                size = pending.size if pending.count == 1 else record_size(record)
                if builder is None or size > room:
                    if builder is not None:
                        batches.append(builder.build())
                    builder, room = BatchBuilder(), bytes_max
                builder.append(record, now_ms)
                room -= size
        except InvalidArgument as error:
            pending.fail(error)
            return pending
    if builder is not None:
        batches.append(builder.build())
    return None
