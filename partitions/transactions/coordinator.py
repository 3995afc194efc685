"""Coordinator of transactions: the transactional ids of one partition of `__transaction_state`, for one leader's term.

    a transition    decided → stored (committed) → answered; one at a time for each transactional id
    an end          Prepare is stored → answered → markers are written everywhere → Complete is stored

No marker is sent before the decision is committed, so a later coordinator never decides otherwise. The transition of an
end lasts until Complete is stored; requests wait for it, up to `_WAIT_MS`. If partitions or groups of the
next transaction wait by then, a record of that transaction is stored in place of Complete. All additions that wait for
one transition are stored in one record, so most transactions have two records. Timeouts are measured by the loop's
clock, which never goes back, and begin again with a new coordinator. Called by `operations`."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from raftlog.errors import (
    ConcurrentTransactions,
    DeadlineExceeded,
    InvalidArgument,
    NotLeader,
    Overloaded,
    RaftlogError,
    RequestError,
    UnknownTransaction,
)
from raftlog.events import event
from raftlog.partitions.coordinator.coordinator import PartitionCoordinator
from raftlog.partitions.deadline import NEVER, Deadline, DeadlineSweep, deadline_in
from raftlog.partitions.replica import Replica
from raftlog.partitions.results import ConfirmedTransaction
from raftlog.partitions.transactions import transitions
from raftlog.partitions.transactions.environment import TransactionEnvironment
from raftlog.partitions.transactions.folded import FoldedTransactions, TransactionEntry
from raftlog.partitions.transactions.markers import MarkerSender
from raftlog.partitions.transactions.records import ProducerIdAndEpoch, TransactionRecord, TransactionState
from raftlog.partitions.transactions.results import (
    AddToTransaction,
    EndTransaction,
    InitializeProducer,
    VerifyTransaction,
)
from raftlog.runtime.histogram import stopwatch

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")
_WAIT_MS: Final = 1_000
"""Longest time that a request waits for the transition before it; then its client retries."""
_RETRY_S: Final = 1.0
"""Pause before an abort after a timeout, or a completion, is stored again."""
_EXPIRE_MS: Final = 30_000
_SLICE: Final = 500
"""Transactional ids examined in one turn of the loop."""


class TransactionCoordinator(PartitionCoordinator[FoldedTransactions]):
    """Coordinator of the transactional ids in one partition of `__transaction_state`."""

    def __init__(
        self,
        replica: Replica,
        environment: TransactionEnvironment,
        failed: Callable[["TransactionCoordinator"], None],
    ) -> None:
        """Create the coordinator of a leader's term.

        `failed` is called with it when a new one must read the log again."""
        folded = FoldedTransactions(replica.name, environment.feature_level)
        super().__init__(replica, folded, environment.wall_ms, failed)
        self._environment = environment
        self.wall_ms = environment.wall_ms
        self._transitions: dict[str, asyncio.Future[None]] = {}
        """Transitions that have begun, by transactional id; each is done when the next one may begin."""
        self._timeouts: dict[str, float] = {}
        """Loop time at which an ongoing transaction times out."""
        self._additions: dict[str, list[AddToTransaction]] = {}
        """Requests that wait for a transition to add to a transaction; no list is empty."""
        self._sweep = DeadlineSweep(self._expire_transactions)
        self._sender = MarkerSender(replica.name, environment, lambda: self.is_over or not self.leads())
        self._ends: set[asyncio.Task[None]] = set()
        self._began_at = self._loop.time()
        self._taken_over: set[str] = set()
        """Transactional ids with a transaction that an earlier coordinator began."""

    # callbacks of every coordinator

    def begin(self) -> None:
        """Resume the stored transactions: start timeouts of the ongoing ones, and end the prepared ones."""
        for name, record in list(self.folded.records.items()):
            if record.state is TransactionState.ONGOING:
                self._taken_over.add(name)
                self._start_timeout(name, record)
            elif record.state.is_prepared:
                self._transitions[name] = self._loop.create_future()
                self._begin_end(name, record)

    def stop(self, error: NotLeader) -> None:
        """Cancel the timeouts and ends of transactions, and wake the requests that wait for a transition."""
        self._sweep.cancel()
        for task in self._ends:
            task.cancel()
        transitions_, self._transitions = self._transitions, {}
        for transition in transitions_.values():
            transition.set_result(None)  # waiting requests find that the coordinator is over

    def topics_changed(self) -> None:
        """Do nothing: markers for deleted topics are dropped when they are sent again."""

    def is_kept(self, key: str) -> bool:
        """Return True: every transactional id is written again."""
        return True

    async def expire(self) -> None:
        """Delete the transactional ids without a transaction for `id_expiration_ms`, by the wall clock."""
        for number, name in enumerate(list(self.folded.records), 1):
            if self._has_expired(name):
                await self._store(name, None, deadline_in(_EXPIRE_MS))
            if number % _SLICE == 0:
                await asyncio.sleep(0)

    def _has_expired(self, name: str) -> bool:
        """Return whether a transactional id has had no transaction for `id_expiration_ms`."""
        record = self.folded.records.get(name)
        if record is None or record.state is TransactionState.ONGOING or name in self._transitions:
            return False
        return self.wall_ms() - record.changed_ms > self._environment.settings.id_expiration_ms

    # requests

    async def initialize(self, asked: InitializeProducer, deadline: Deadline) -> ProducerIdAndEpoch:
        """Return an identity, and fence earlier producers of the transactional id; as `Transactions.initialize`."""
        settings, name = self._environment.settings, asked.transactional_id
        expected = ProducerIdAndEpoch(asked.expected_id, asked.expected_epoch)
        await self.wait_until_ready(deadline)
        new_id: int | None = None
        while True:
            await self._wait_for_transitions(name, deadline)
            record = self.folded.records.get(name)
            is_repeated = await self._refuse(partial(transitions.check_expected, name, record, expected), deadline)
            needs_new_id = transitions.needs_new_id(record, is_repeated=is_repeated)
            if record is not None and is_repeated and not needs_new_id:
                await self.confirm(deadline)
                return ProducerIdAndEpoch(record.producer_id, record.epoch)
            if record is not None and record.state is TransactionState.ONGOING:
                await self._fence(name, record, expected, deadline)
            elif needs_new_id and new_id is None:
                if record is None and len(self.folded.records) >= settings.max_ids:
                    raise Overloaded(f"{self.replica.name}: {settings.max_ids} transactional ids, the limit")
                new_id = await self._environment.new_producer_id(deadline)
                self.check()
            else:
                used_id = new_id if needs_new_id else None
                now_ms = self.wall_ms()
                initialized = transitions.initialize(record, expected, used_id, asked.timeout_ms, now_ms)
                await self._store(name, initialized, deadline)
                return ProducerIdAndEpoch(initialized.producer_id, initialized.epoch)

    async def _fence(
        self, name: str, record: TransactionRecord, replaced: ProducerIdAndEpoch, deadline: Deadline
    ) -> None:
        """Begin to abort the ongoing transaction of a producer that is replaced by another one."""
        await self._store(name, transitions.fence(record, replaced, self.wall_ms()), deadline)
        self._environment.counters.fenced += 1

    async def add(self, asked: AddToTransaction, deadline: Deadline) -> None:
        """Add partitions or groups to the ongoing transaction; as `Transactions.add_partitions` and `add_group`."""
        await self._add(asked, deadline)

    async def _add(self, asked: AddToTransaction, deadline: Deadline) -> TransactionRecord:
        """Store the record with the additions of a request, unless it has them; return it."""
        name, producer_id, epoch, *_ = asked
        waiting = self._additions.setdefault(name, [])
        waiting.append(asked)
        try:
            record = await self._settled_record(name, ProducerIdAndEpoch(producer_id, epoch), deadline)
            added = self._add_waiting(record, asked)
        finally:
            waiting.remove(asked)
            if not waiting:
                del self._additions[name]
        if added is not record:
            await self._store(name, added, deadline)
        return added

    def _add_waiting(self, record: TransactionRecord, asked: AddToTransaction) -> TransactionRecord:
        """Return the record with the additions of a request, and of all waiting ones of the same producer if they fit.

        Raises as `transitions.add`."""
        name, _, _, partitions, groups = asked
        now_ms, limit = self.wall_ms(), self._environment.settings.max_partitions
        added = transitions.add(name, record, partitions, groups, now_ms, self.term, limit)
        if added is record:  # as for all that the first one of them has added
            return record
        waiting = [each for each in self._additions.get(name, ()) if each[:3] == asked[:3]]
        every_partition = {place for each in waiting for place in each.partitions}
        every_group = {group for each in waiting for group in each.groups}
        try:
            return transitions.add(name, added, every_partition, every_group, now_ms, self.term, limit)
        except InvalidArgument:  # together they are too many: each is added or refused alone, once it has waited
            return added

    async def join(self, asked: AddToTransaction, deadline: Deadline) -> ConfirmedTransaction:
        """Add partitions or groups to the ongoing transaction, for their leader or coordinator.

        Raises as `Transactions.add_partitions`."""
        added = await self._add(asked, deadline)
        return ConfirmedTransaction(self.term, added.number)

    async def finish(self, asked: EndTransaction, deadline: Deadline) -> ProducerIdAndEpoch:
        """Commit or abort the ongoing transaction; as `Transactions.finish`."""
        name, producer_id, epoch, is_commit = asked
        identity = ProducerIdAndEpoch(producer_id, epoch)
        await self.wait_until_ready(deadline)
        await self._wait_for_transitions(name, deadline)
        record = self.folded.records.get(name)
        check = partial(transitions.is_finished, name, record, identity, is_commit=is_commit)
        is_repeated = await self._refuse(check, deadline)
        assert record is not None, f"{name} has a record, for its identity was checked"
        if is_repeated:
            await self.confirm(deadline)
            return transitions.identity_of(record)
        ended = transitions.finish(record, self.wall_ms(), is_commit=is_commit)
        await self._store(name, ended, deadline)
        return transitions.identity_of(ended)

    async def end_transaction(self, asked: EndTransaction, deadline: Deadline) -> None:
        """Commit or abort the ongoing transaction; as `Transactions.commit` and `abort`."""
        name, producer_id, epoch, is_commit = asked
        record = await self._same_record(name, ProducerIdAndEpoch(producer_id, epoch), deadline)
        if await self._refuse(partial(transitions.is_ended, name, record, is_commit=is_commit), deadline):
            await self.confirm(deadline)  # an older coordinator would take a later transaction for this one
        else:
            prepared = transitions.prepare(record, self.wall_ms(), is_commit=is_commit)
            await self._store(name, prepared, deadline)

    async def verify(self, asked: VerifyTransaction, deadline: Deadline) -> int:
        """Return the coordinator's term if the ongoing transaction has the partition, or the group.

        Raises `InvalidProducerMapping`, `ProducerFenced`, `InvalidTransactionState` and `ConcurrentTransactions`."""
        name, producer_id, epoch, place, group, is_confirmed = asked
        record = await self._same_record(name, ProducerIdAndEpoch(producer_id, epoch), deadline)
        await self._refuse(partial(transitions.check_member, name, record, place, group), deadline)
        if is_confirmed:
            await self.confirm(deadline)
        return self.term

    async def fence(self, name: str, deadline: Deadline) -> None:
        """Abort the ongoing transaction of a transactional id, and fence its producer; return when it has ended.

        Raises `UnknownTransaction`."""
        await self.wait_until_ready(deadline)
        while True:
            await self._wait_for_transitions(name, deadline)
            record = self.folded.records.get(name)
            if record is not None and record.state is TransactionState.ONGOING:
                await self._fence(name, record, transitions.NO_IDENTITY, deadline)
                continue
            await self.confirm(deadline)
            if record is None:
                raise UnknownTransaction(f"the transactional id {name!r} does not exist, or has expired")
            return

    def taken_over_at(self, name: str) -> float:
        """Return the loop time at which this coordinator took over an ongoing transaction; 0 for other ids.

        While it loads, every transaction may be one that it takes over."""
        return 0.0 if self.is_loaded and name not in self._taken_over else self._began_at

    # steps of requests

    async def _settled_record(self, name: str, identity: ProducerIdAndEpoch, deadline: Deadline) -> TransactionRecord:
        """Wait until no transition of the transactional id is under way; return its record.

        Raises `InvalidProducerMapping` and `ProducerFenced` unless the identity is the present one, and
        `ConcurrentTransactions` after `_WAIT_MS`."""
        await self.wait_until_ready(deadline)
        await self._wait_for_transitions(name, deadline)
        check = partial(transitions.check_identity, name, self.folded.records.get(name), identity)
        return await self._refuse(check, deadline)

    async def _same_record(self, name: str, identity: ProducerIdAndEpoch, deadline: Deadline) -> TransactionRecord:
        """Return as `_settled_record` the record, for a request that belongs to the transaction at its arrival.

        Raises `InvalidTransactionState` if another transaction has begun since."""
        await self.wait_until_ready(deadline)
        before = self.folded.records.get(name)
        record = await self._settled_record(name, identity, deadline)
        await self._refuse(partial(transitions.check_same, name, before, record), deadline)
        return record

    async def _refuse(self, check: Callable[[], _T], deadline: Deadline) -> _T:
        """Return the result of a check.

        Its error is raised only once this is confirmed to be the newest coordinator."""
        try:
            return check()
        except RequestError:
            await self.confirm(deadline)
            raise

    async def _wait_for_transitions(self, name: str, deadline: Deadline) -> None:
        """Wait until no transition is under way. Raises `ConcurrentTransactions` after `_WAIT_MS`."""
        until = min(deadline, deadline_in(_WAIT_MS))
        while (transition := self._transitions.get(name)) is not None:
            await asyncio.wait([transition], timeout=max(0.0, until - self._loop.time()))
            self.check()
            if not transition.done():
                raise ConcurrentTransactions(f"the last transition of {name!r} has not ended yet; retry")

    async def _store(self, name: str, record: TransactionRecord | None, deadline: Deadline) -> None:
        """Append the record of a transition (None: delete it), and wait for its commit.

        Raises the errors of an append."""
        stored = self._begin_transition(name, record)
        await asyncio.wait([stored], timeout=max(0.0, deadline - self._loop.time()))
        if not stored.done():
            raise DeadlineExceeded(f"{self.replica.name}: appended, but not committed before the deadline")
        stored.result()

    # transitions

    def _begin_transition(self, name: str, record: TransactionRecord | None) -> "asyncio.Future[None]":
        """Append the next record of a transactional id; the future is done when it is committed."""
        assert name not in self._transitions, f"{name} has a transition"
        stored = self.writer.write([TransactionEntry(name, record)])
        self._transitions[name] = self._loop.create_future()
        stored.add_done_callback(partial(self._on_stored, name, record))
        return stored

    def _on_stored(self, name: str, record: TransactionRecord | None, stored: "asyncio.Future[None]") -> None:
        """Continue after the outcome of a transition's append."""
        error = stored.exception()
        if self.is_over:
            return
        if error is not None:
            _logger.debug("%s: the transition of %r failed: %s", self.replica.name, name, error)
            self._end_transition(name)
        elif record is not None and record.state.is_prepared:
            self._timeouts.pop(name, None)
            self._taken_over.discard(name)
            self._begin_end(name, record)
        else:
            if record is not None and record.state is TransactionState.ONGOING and name not in self._timeouts:
                self._start_timeout(name, record)
            self._end_transition(name)

    def _end_transition(self, name: str) -> None:
        """End the transition of a transactional id, so that the next one can begin."""
        transition = self._transitions.pop(name, None)
        if transition is not None:
            transition.set_result(None)

    # ends

    def _begin_end(self, name: str, record: TransactionRecord) -> None:
        """Start a task that ends a prepared transaction."""
        task = self._loop.create_task(self._end(name, record), name=f"end of the transaction {name}")
        self._ends.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: "asyncio.Task[None]") -> None:
        """Report an unexpected error of a task that ended a transaction."""
        self._ends.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "the end of a transaction failed", "exception": error, "task": task}
            self._loop.call_exception_handler(context)

    async def _end(self, name: str, record: TransactionRecord) -> None:
        """Send the markers of a committed decision, then store that the transaction is complete."""
        began = stopwatch()
        await self._sender.send(record, self.term)
        while not self.is_over and self.leads():
            try:
                completed = transitions.complete(record, self.wall_ms())
                following = self._begin_next(name, completed)
                await self.writer.write([TransactionEntry(name, following)])
            except RaftlogError as error:
                _logger.debug("%s: the end of %r is stored again: %s", self.replica.name, name, error)
                await asyncio.sleep(_RETRY_S)
            else:
                counters = self._environment.counters
                counters.end_times.observe_since(began)
                if completed.state is TransactionState.COMPLETE_COMMIT:
                    counters.committed += 1
                else:
                    counters.aborted += 1
                if following.state is TransactionState.ONGOING:
                    self._start_timeout(name, following)
                self._end_transition(name)
                return

    def _begin_next(self, name: str, completed: TransactionRecord) -> TransactionRecord:
        """Return the record of the next transaction, if its producer waits to add to it; else the completed one.

        All markers of the last one are written, so nothing is left to do for it after a change of coordinator."""
        for asked in self._additions.get(name, ()):
            with suppress(RequestError):  # it is refused once it has waited
                if asked[1:3] == transitions.identity_of(completed):
                    return self._add_waiting(completed, asked)
        return completed

    # timeouts

    def _start_timeout(self, name: str, record: TransactionRecord) -> None:
        """Start the timeout of an ongoing transaction from now on."""
        at = Deadline(self._loop.time() + record.timeout_ms / 1000)
        self._timeouts[name] = at
        if at < self._sweep.earliest:
            self._sweep.add(at)

    def _expire_transactions(self, now: float) -> float:
        """Abort the transactions that have timed out; return the earliest timeout that is left."""
        earliest: float = NEVER
        for name, at in list(self._timeouts.items()):
            if at <= now:
                self._abort_after_timeout(name)
                self._timeouts[name] = now + _RETRY_S  # dropped once the abort is stored
            earliest = min(earliest, self._timeouts[name])
        return earliest

    def _abort_after_timeout(self, name: str) -> None:
        """Begin to abort a transaction and to fence its producer, unless a transition is under way."""
        if name in self._transitions or not self.leads():
            return
        record = self.folded.records[name]
        fenced = transitions.fence(record, transitions.NO_IDENTITY, self.wall_ms())
        try:
            stored = self._begin_transition(name, fenced)
        except RaftlogError as error:
            _logger.debug("%s: the timeout of %r is handled again: %s", self.replica.name, name, error)
        else:
            stored.add_done_callback(partial(self._on_timeout_stored, name, record))

    def _on_timeout_stored(self, name: str, record: TransactionRecord, stored: "asyncio.Future[None]") -> None:
        """Count and log a timeout, once the abort is stored."""
        if stored.exception() is None:
            self._environment.counters.timed_out += 1
            event(_logger, "transaction_timed_out", transactional_id=name, producer_id=record.producer_id)
