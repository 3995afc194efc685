"""Entries of a produce queue: calls before their append, in the order of arrival.

Single records of neighbouring calls are put into one batch; ready-made batches stay as they are and keep their place.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final

from msgspec import Struct

from raftlog import errors
from raftlog.errors import InvalidArgument, NotLeader, OutcomeUnknown, RaftlogError
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.replica import ReplicaAppended
from raftlog.partitions.results import Acks, ProducerSequence
from raftlog.records import BatchBuilder, NewRecord
from raftlog.runtime.tracing.spans import Span

RECORD_OVERHEAD_BYTES = 64
"""Bytes of a waiting record besides key, value and headers, in memory and in its batch; an upper bound."""


_STEP_RECORDS: Final = 64

NO_PRODUCERS: frozenset[int] = frozenset()


class Pending(Struct, eq=False):
    """Produce call to one partition. `future` gets the offset of its first record; None with `acks=0`."""

    records: Sequence[NewRecord]
    batches: Sequence[bytearray]
    count: int
    size: int
    acks: Acks
    deadline: Deadline
    future: "asyncio.Future[int] | None"
    producers: frozenset[int] = NO_PRODUCERS
    """Idempotent producers of the batches."""
    maybe_appended: RaftlogError | None = None
    """Error of an earlier attempt that may have appended the call; only calls of idempotent producers are retried."""
    appended: ReplicaAppended | None = None
    """Result of the append that contained the call; set before `future` is done."""
    number: int = -1
    """Position in the queue."""
    arrived: float = 0.0
    """Time of arrival, by the stopwatch."""
    span: Span | None = None
    """Span of its wait in the queue; None unless the request is traced."""

    def renew_batches(self) -> None:
        """Copy the client's batches before a retry, because a log has stamped them and may still hold them."""
        self.batches = [bytearray(batch) for batch in self.batches]

    def fail(self, error: Exception) -> bool:
        """Set the error as the result; return whether the caller still waited."""
        if self.future is None or self.future.done():
            return False
        self.future.set_exception(error)
        return True

    @property
    def is_abandoned(self) -> bool:
        """Whether the caller no longer waits, because the call expired or was cancelled."""
        return self.future is not None and self.future.done()


def record_size(record: NewRecord) -> int:
    """Return the size of a record for budgets and batches. Raises `InvalidArgument` if its fields are not bytes."""
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
            "a record must have a key and a value of bytes or None, and headers that are pairs of str and bytes"
        ) from None
    return size


def build_batches(pendings: list[Pending], bytes_max: int, now_ms: int) -> tuple[list[bytearray], list[Pending]]:
    """Return the batches of these calls in order, and the calls in them; `now_ms` is for records without a timestamp.

    A call whose records cannot be encoded fails with `InvalidArgument` and is left out."""
    while True:
        batches: list[bytearray] = []
        invalid = _build(pendings, bytes_max, now_ms, batches)
        if invalid is None:
            return batches, pendings
        pendings = [pending for pending in pendings if pending is not invalid]


def _build(pendings: Iterable[Pending], bytes_max: int, now_ms: int, batches: list[bytearray]) -> Pending | None:
    """Add the batches of the calls to `batches`; return the first call that cannot be encoded, which fails, or None."""
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


def build_sequenced(
    records: Sequence[NewRecord],
    producer: ProducerSequence,
    now_ms: int,
    check_size: Callable[[int], None],
    *,
    is_transactional: bool = False,
) -> Generator[None, None, bytearray]:
    """Build one batch of an idempotent producer, in steps.

    Raises `InvalidArgument` for records that cannot be encoded, and the error of `check_size` for the size so far."""
    builder = BatchBuilder(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.sequence,
        is_transactional=is_transactional,
    )
    for count, record in enumerate(records, 1):
        builder.append(record, now_ms)
        if count % _STEP_RECORDS == 0:
            check_size(builder.size_bytes)
            yield
    return builder.build()


def copied_error(error: BaseException) -> RaftlogError:
    """Return a copy of the error for one caller, because a shared error collects the tracebacks of all callers."""
    if not isinstance(error, RaftlogError):
        return OutcomeUnknown(f"it failed in a way that was not foreseen: {error!r}")
    if isinstance(error, NotLeader):
        return NotLeader(str(error), error.leader)
    plain = (
        each for each in type(error).__mro__ if each.__module__ == errors.__name__ and "__init__" not in vars(each)
    )
    again = next(plain)(str(error))
    assert isinstance(again, RaftlogError), f"{type(error).__name__} is not in raftlog.errors"
    return again
