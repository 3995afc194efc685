"""Writer to the log of a coordinator: entries become one append at a time, in the order given.

    every append is made by the replica of this leader, in this leader's term, or not at all

So no decision of an older coordinator can land after one of a newer coordinator. Entries of one turn of the loop, and
all that are written while an append is in flight, become the next one: a commit costs three brokers about as much for
one entry as for many. When an append is refused, all its entries fail with the error: none of them was written. An
append needs a majority and no further copies (`BrokerSettings.internal_topic_config`), for which all later ones would
wait. Owned by a coordinator."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from raftlog.errors import NotLeader, Overloaded, RaftlogError
from raftlog.partitions.coordinator.folded import FoldedLog, LogEntry
from raftlog.partitions.produce.pending import copied_error, record_size
from raftlog.partitions.replica import Replica, ReplicaAppended
from raftlog.partitions.results import ALL
from raftlog.records import BatchBuilder, NewRecord
from raftlog.types import Term

PENDING_BYTES_MAX: Final = 8 << 20
"""Maximum number of bytes of one coordinator's entries that are written and not yet committed."""
_BATCH_BYTES: Final = 512 * 1024


class _PendingEntries(NamedTuple):
    """Entries for the next append, and the future of their caller; a barrier has no entries."""

    entries: Sequence[LogEntry[Any, Any]]
    records: Sequence[NewRecord]
    size: int
    done: "asyncio.Future[None]"


class LogWriter:
    """Writer of a coordinator to its log.

    `reach(appended)` is called with each committed append of this writer. It applies the entries that others appended
    before, and returns whether this append is the next to apply. It returns False if the append was read from the log
    as well, or the entries before cannot be read."""

    def __init__(
        self,
        replica: Replica,
        term: Term,
        folded: FoldedLog[Any, Any],
        wall_ms: Callable[[], int],
        reach: Callable[[ReplicaAppended], bool],
    ) -> None:
        """Prepare to write in `term` only.

        `reach` applies entries up to a committed append, and returns whether it is the next to apply."""
        self._replica, self._term, self._folded = replica, term, folded
        self._wall_ms, self._reach = wall_ms, reach
        self._loop = asyncio.get_running_loop()
        self._given: list[_PendingEntries] = []
        """Entries for the next append."""
        self._is_appending = False
        """Whether an append is in flight, or due in this turn of the loop."""
        self._is_closed = False
        self._size = 0
        """Bytes of the entries that are neither committed nor failed."""
        self._newest: list[_PendingEntries] = []
        """Entries of the last append, until its outcome is known."""

    def leads(self) -> bool:
        """Return whether the writer is open, and this replica leads in the term in which the coordinator began."""
        replica = self._replica
        is_open = not self._is_closed and not replica.group.is_closed
        return is_open and replica.is_leader and replica.group.core.term == self._term

    def write(self, entries: Sequence[LogEntry[Any, Any]]) -> "asyncio.Future[None]":
        """Append the entries at the end of the turn, or after the append in flight.

        The future completes when they are committed; at once without entries.

        Raises `InvalidArgument` for entries that cannot be encoded, `Overloaded` and `NotLeader`: nothing is written.
        The future fails as an append does."""
        records = [self._folded.encode(entry) for entry in entries]
        size = sum(map(record_size, records))
        if not self.leads():
            raise self._not_coordinator_error()
        if self._size and self._size + size > PENDING_BYTES_MAX:
            raise Overloaded(f"{self._replica.name}: {self._size} bytes wait for their commit; retry later")
        done: asyncio.Future[None] = self._loop.create_future()
        if not entries:
            done.set_result(None)
            return done
        if not self._is_appending:
            self._is_appending = True
            self._loop.call_soon(self._flush)
        self._given.append(_PendingEntries(entries, records, size, done))
        self._folded.expect(entries)
        self._size += size
        return done

    def barrier(self) -> "asyncio.Future[None] | None":
        """Return a future that completes when all entries written so far are committed; None if none is pending.

        It fails as the last append fails. Callers share it and must not cancel it."""
        turn = self._given or self._newest
        if not turn:
            return None
        if not turn[-1].entries:
            return turn[-1].done
        done: asyncio.Future[None] = self._loop.create_future()
        done.add_done_callback(asyncio.Future.exception)  # every caller may have stopped waiting
        turn.append(_PendingEntries((), (), 0, done))
        return done

    def close(self) -> None:
        """Fail the entries that are not in the log, and refuse further ones; those in the log keep their outcome.

        A coordinator that follows in the same term would not expect its predecessor's appends after its own."""
        self._is_closed = True
        given, self._given = self._given, []
        self._fail(given, self._not_coordinator_error())

    def _not_coordinator_error(self) -> NotLeader:
        """Return the error that another broker is the coordinator."""
        return NotLeader(f"{self._replica.name}: another broker is its coordinator", self._replica.group.core.leader)

    def _flush(self) -> None:
        """Append the entries that were written and are not in the log yet, as one call."""
        given, self._given = self._given, []
        if not given:
            self._is_appending = False
            return
        if not self.leads():
            self._is_appending = False
            self._fail(given, self._not_coordinator_error())
            return
        self._newest = given
        appended = self._replica.append(_build_batches(given, self._wall_ms()), ALL)
        if appended.done():  # refused: from now on no decision may be based on these entries
            self._on_append(given, appended)
        else:
            appended.add_done_callback(lambda future: self._on_append(given, future))

    def _on_append(self, pending: list[_PendingEntries], appended: "asyncio.Future[ReplicaAppended]") -> None:
        """Apply the committed entries and complete their futures; or fail them with the error of the append."""
        error = appended.exception()
        try:
            if error is None:
                self._complete(pending, appended.result())
            else:
                self._fail(pending, copied_error(error))
        finally:
            self._loop.call_soon(self._flush)  # after the callers that continue now, whose entries it takes too

    def _complete(self, pending: list[_PendingEntries], appended: ReplicaAppended) -> None:
        """Apply committed entries, and complete their futures; a closed writer applies none."""
        self._clear_newest(pending)
        is_next = not self._is_closed and self._reach(appended)
        for entries, records, size, done in pending:
            if is_next:
                self._folded.advance(entries, len(records))
            self._folded.forget(entries)
            self._size -= size
            if not done.done():
                done.set_result(None)

    def _clear_newest(self, pending: list[_PendingEntries]) -> None:
        """Forget the entries of the last append, if they are `pending`."""
        if self._newest is pending:
            self._newest = []

    def _fail(self, pending: list[_PendingEntries], error: RaftlogError) -> None:
        """Fail the futures of entries, which are not applied."""
        self._clear_newest(pending)
        for entries, _, size, done in pending:
            self._folded.forget(entries)
            self._size -= size
            if not done.done():
                done.set_exception(copied_error(error))


def _build_batches(pending: Sequence[_PendingEntries], now_ms: int) -> list[bytearray]:
    """Return batches of the records in order, each of at most `_BATCH_BYTES` unless one record is larger."""
    batches: list[bytearray] = []
    builder, room = BatchBuilder(), _BATCH_BYTES
    for each in pending:
        for record in each.records:
            size = record_size(record)
            if size > room and builder.count:
                batches.append(builder.build())
                builder, room = BatchBuilder(), _BATCH_BYTES
            builder.append(record, now_ms)
            room -= size
    if builder.count:
        batches.append(builder.build())
    return batches
