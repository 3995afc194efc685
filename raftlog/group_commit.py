"""Group commit: threads that append to one log share its syncs, and the work around them.

An appender enters a queue with its batches, or with a few plain records. If there is no leader, it leads: it appends
the whole queue to the log, plain records of several threads as one batch, starts one flush, runs the sync in its own
thread, and answers all waiters that the sync covered. Appends that arrive meanwhile are served by the next leader, one
of the waiters; it is woken before the answers go out, so that the disk never idles while many threads wake up. A lone
appender leads every time, never changes threads, and its records get a batch of their own.

    queue → appended → answered, in the order of arrival; one leader at a time"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from raftlog.errors import LogClosed, OutcomeUnknown, RaftlogError
from raftlog.records import HEADER_SIZE, NewRecord, build_batch
from raftlog.storage.lone_log import LoneLog
from raftlog.types import Index, Offset

PENDING_BYTES_MAX = 64 << 20
"""Bound on bytes queued or waiting for a sync; above it, appenders flush first."""

COALESCED_BYTES_MAX = 1 << 20
"""Size up to which small appends of different threads share a batch; `max.message.bytes` bounds it as well."""
SMALL_RECORDS_MAX = 16
SMALL_BYTES_MAX = 16 * 1024
"""Bounds of a small append; one of more records or bytes makes a batch of its own, in its own thread."""
_RECORD_OVERHEAD_MAX = 32


def bound_size(records: Sequence[NewRecord | bytes]) -> int:
    """Return an upper bound on the bytes of plain values in a batch; 0 if they are too many, too large or not plain."""
    if len(records) > SMALL_RECORDS_MAX:
        return 0
    size = 0
    for record in records:
        if type(record) is not bytes:
            return 0
        size += len(record) + _RECORD_OVERHEAD_MAX
    return size if size <= SMALL_BYTES_MAX else 0


@dataclass(slots=True, eq=False)
class Waiter:
    """Thread that waits until its append is answered, or until it becomes leader.

    Other threads change it under the mutex and then release `wake`; it reads its own state without the mutex, so that
    woken threads do not queue up again. Only the waiter itself sets `is_promoted` back to false. A thread that answers
    or promotes may be interrupted directly before or after doing so; another thread then repeats it."""

    batches: Sequence[bytearray] = ()
    records: Sequence[NewRecord | bytes] = ()
    size: int = 0
    wants_durable: bool = False
    index: Index = Index(0)
    """Index at which the waiter is answered; set, with its offsets, when it is appended."""
    base_offset: Offset = Offset(0)
    next_offset: Offset = Offset(0)
    is_done: bool = False
    is_promoted: bool = False
    error: RaftlogError | None = None
    taken: "list[Waiter]" = field(default_factory=list)
    """Waiters that this leader took from the queue and has not appended yet."""
    wake: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.wake.acquire()

    def finish(self, error: RaftlogError | None = None) -> None:
        """Set the result once, and wake the thread unless it was already woken as leader."""
        if not self.is_done:
            self.is_done, self.error = True, error
            if not self.is_promoted:
                self.wake.release()

    def promote(self) -> None:
        """Wake the thread once, to become leader."""
        if not self.is_promoted:
            self.is_promoted = True
            self.wake.release()


class ChangeGuard:
    """Guard of a change to the log: the change completes, or the log stops (the mutex is held).

    An interruption (Ctrl-C, `SystemExit`) can come between any two steps; then the files and the state in memory may
    differ. The files stay as a kill would leave them, and the next opening repairs them."""

    def __init__(self, commit: "GroupCommit") -> None:
        self._commit = commit

    def __enter__(self) -> None:
        """Do nothing: the change has not begun."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the log if an interruption, and not an ordinary error, ended the change."""
        if error is not None and not isinstance(error, Exception):
            self._commit.log.stop_after_interruption(error)


class GroupCommit:
    """Queue of the appends of many threads to one log; one waiting thread, the leader, writes for all of them.

    `jobs` are the syncs that the log has requested and that no thread has run yet. The log reports through
    `handle_progress` and `handle_refusal`, which are called with the mutex held."""

    def __init__(self, mutex: threading.Lock, jobs: list[Callable[[], None]]) -> None:
        """Begin without appends; `jobs` collects the disk's work of the present leader. `mutex` guards the log."""
        self.log: LoneLog
        self.news = threading.Condition(mutex)
        """Notified when the high watermark moves, the leader has no work left, or the log ends."""
        self._mutex = mutex
        """Guard of the log; held while files are written, which releases the GIL."""
        self.change_guard = ChangeGuard(self)
        self._gate = threading.Lock()
        """Guard of queue and leader, held briefly; taken after the mutex, or alone."""
        self._jobs = jobs
        self._queue: list[Waiter] = []
        self._queued_bytes = 0
        self._leader: Waiter | None = None
        self._is_closing = False
        self._waiting: list[Waiter] = []
        """Waiters appended and not answered, oldest first; guarded by the mutex."""

    def append(self, batches: Sequence[bytearray]) -> tuple[Offset, Offset]:
        """Append, wait as the flush policy requires, and return the first offset and the one after the last.

        Raises the errors of `LoneLog.append`.
        """
        waiter = self._run(Waiter(batches, size=sum(map(len, batches))))
        return waiter.base_offset, waiter.next_offset

    def append_small(self, records: Sequence[NewRecord | bytes], size: int) -> tuple[Offset, Offset]:
        """Append records whose `bound_size` is `size`, perhaps in one batch with those of other threads.

        Waits, returns and raises as `append` does."""
        waiter = self._run(Waiter(records=records, size=size))
        return waiter.base_offset, waiter.next_offset

    def flush(self) -> None:
        """Wait until everything appended so far is durable; raises the error that stopped the log."""
        self._run(Waiter(wants_durable=True))

    def refuse_appends(self) -> None:
        """Refuse new appends, and wait until the earlier ones are answered (the mutex is held)."""
        with self._gate:
            self._is_closing = True
        while self._leader is not None and not isinstance(self.log.failure, LogClosed):
            self.news.wait()

    def _run(self, waiter: Waiter) -> Waiter:
        """Queue the waiter, and wait until it is answered; return it or raise its error."""
        while waiter.size and self._is_full():
            self.flush()
        try:
            with self._gate:
                if self._is_closing:
                    raise LogClosed(f"the log in {self.log.path} is closed")
                self._queue.append(waiter)
                self._queued_bytes += waiter.size
                leads = self._leader is None
                if leads:
                    self._leader = waiter
            self._wait(waiter, leads)
        except BaseException:
            self._withdraw_despite_interrupts(waiter)
            raise
        if waiter.error:
            raise waiter.error
        return waiter

    def _is_full(self) -> bool:
        """Return whether too many bytes wait to be appended or synced."""
        return self._queued_bytes + self.log.pending_bytes > PENDING_BYTES_MAX and self.log.failure is None

    def _wait(self, waiter: Waiter, leads: bool) -> None:
        """Wait until the waiter is answered; meanwhile lead whenever it is promoted."""
        while True:
            if leads:
                self._lead(waiter)
            if waiter.is_done and not waiter.is_promoted:
                return
            waiter.wake.acquire()
            leads, waiter.is_promoted = waiter.is_promoted, False

    def _withdraw_despite_interrupts(self, waiter: Waiter) -> None:
        """Withdraw the waiter of an interrupted thread (Ctrl-C), even if the thread is interrupted again."""
        while True:
            try:
                self._withdraw(waiter)
            except (KeyboardInterrupt, SystemExit):
                continue
            return

    def _withdraw(self, waiter: Waiter) -> None:
        """Remove an interrupted waiter; requeue the waiters that it was writing for, and promote another one."""
        with self._mutex, self.change_guard:
            waiter.is_done = True  # the thread that appends or promotes it at this moment then skips it
            with self._gate:
                for line in (self._queue, self._waiting):
                    if waiter in line:
                        line.remove(waiter)
                again = [each for each in waiter.taken if not each.is_done and each not in self._waiting]
                waiter.taken, self._queue = [], again + self._queue
                self._queued_bytes = sum(each.size for each in self._queue)
            self._answer(*self._split_waiting())  # it may have been interrupted before doing so; the leader continues
            with self._gate:
                if self._leader is waiter or self._leader is None:
                    self._promote(next(iter(self._waiting or self._queue), None))

    # leading

    def _lead(self, waiter: Waiter) -> None:
        """Append the queue and run syncs, until another thread becomes leader or no work is left.

        Another thread may be made leader while this one still has appends to make; then both go on, one after the
        other, and this one makes sure that the sync is run."""
        while True:
            with self._gate:
                if self._leader is None and self._jobs:
                    self._leader = waiter
                if self._leader is not waiter:
                    return
                if waiter.is_done and self._queue:
                    self._promote(self._queue[0])
                    return
                waiter.taken, self._queue, self._queued_bytes = self._queue, [], 0
                if not waiter.taken and not self._jobs:
                    self._leader = None
                    break
            if waiter.taken:
                with self._mutex, self.change_guard:
                    self._append_all([each for each in waiter.taken if not each.is_done])
                    waiter.taken = []
            else:
                self._run_job()
        with self._mutex:
            self.news.notify_all()

    def _run_job(self) -> None:
        """Run the oldest requested sync; an interrupted one stays for the next leader."""
        if not self._jobs:
            return  # another thread was made leader meanwhile
        job = self._jobs[0]
        del self._jobs[0]  # not `pop()`: an interruption after a call would lose the job
        try:
            job()
        except BaseException:
            self._jobs.insert(0, job)  # the next leader runs this sync
            raise

    def _append_all(self, queue: list[Waiter]) -> None:
        """Append the records of all waiters of the queue, and write or flush as they and the flush policy require."""
        try:
            wants_durable = self._append_in_order(queue)
        except BaseException:
            for waiter in queue:
                if not waiter.is_done and waiter not in self._waiting:
                    waiter.finish(OutcomeUnknown("the thread that appended for several was interrupted"))
            raise
        if wants_durable:
            self.log.flush()
        else:
            self.log.flush_if_due()
        self.handle_progress()

    def _append_in_order(self, queue: list[Waiter]) -> bool:
        """Append the records of all waiters in order; return whether a waiter needs a sync beyond the flush policy."""
        wants_durable = False
        small: list[Waiter] = []
        room = bound = min(COALESCED_BYTES_MAX, self.log.config.max_message_bytes - HEADER_SIZE)
        for waiter in queue:
            if not waiter.records or waiter.size > room:
                self._append_small(small)
                small, room = [], bound
            if waiter.records:
                small.append(waiter)
                room -= waiter.size
            else:
                self._append_one(waiter)
                wants_durable = wants_durable or waiter.wants_durable
        self._append_small(small)
        return wants_durable

    def _append_small(self, waiters: list[Waiter]) -> None:
        """Append the plain records of several threads as one batch."""
        if not waiters:
            return
        batch = build_batch([record for waiter in waiters for record in waiter.records])
        try:
            appended = self.log.append([batch])
        except RaftlogError as error:
            for waiter in waiters:
                waiter.finish(error)
            return
        offset = appended.base_offset
        for waiter in waiters:
            waiter.index, waiter.base_offset = appended.index, offset
            waiter.next_offset = offset = Offset(offset + len(waiter.records))
        self._waiting += waiters

    def _append_one(self, waiter: Waiter) -> None:
        """Append the batches of one waiter; without batches wait for the last entry. Answers it after an error."""
        log = self.log
        try:
            if waiter.batches:
                waiter.base_offset, waiter.next_offset, waiter.index = log.append(waiter.batches)
            elif log.failure:
                raise log.failure
            else:
                waiter.index = log.last_index
        except RaftlogError as error:
            waiter.finish(error)
        else:
            self._waiting.append(waiter)

    def _hand_over(self, waiting: Sequence[Waiter]) -> None:
        """Make the oldest waiter the leader, or none if the queue is empty (the mutex is held)."""
        with self._gate:
            self._promote(next(iter(waiting or self._queue), None))

    def _promote(self, waiter: Waiter | None) -> None:
        """Wake the waiter before it is recorded as leader, so that an interrupt leaves no leader that still sleeps."""
        if waiter is not None:
            waiter.promote()
        self._leader = waiter

    # callbacks of the log

    def handle_progress(self) -> None:
        """Wake the next leader, then answer the waiters that the log's progress covers."""
        answered, waiting = self._split_waiting()
        leader = self._leader
        if leader and (waiting or self._queue) and (leader.is_done or any(waiter is leader for waiter, _ in answered)):
            self._hand_over(waiting)
        self._answer(answered, waiting)

    def _split_waiting(self) -> tuple[list[tuple[Waiter, RaftlogError | None]], list[Waiter]]:
        """Return the waiters whose entries are durable or failed, with the error, and those that still wait."""
        acknowledged, durable, failure = self.log.acknowledged_index, self.log.durable_index, self.log.failure
        answered: list[tuple[Waiter, RaftlogError | None]] = []
        waiting: list[Waiter] = []
        for waiter in self._waiting:
            if waiter.is_done:
                continue
            if waiter.index <= (durable if waiter.wants_durable else acknowledged):
                answered.append((waiter, None))
            elif failure:
                answered.append((waiter, failure))
            else:
                waiting.append(waiter)
        return answered, waiting

    def _answer(self, answered: list[tuple[Waiter, RaftlogError | None]], waiting: list[Waiter]) -> None:
        """Answer these waiters, and keep the others waiting."""
        for waiter, error in answered:
            waiter.finish(error)
        self._waiting = waiting
        self.news.notify_all()

    def handle_refusal(self, index: Index, error: RaftlogError) -> None:
        """Fail the appends from `index` on: they were definitely not written."""
        for waiter in [waiter for waiter in self._waiting if waiter.index >= index]:
            waiter.finish(error)
            self._waiting.remove(waiter)
