"""Appends of idempotent producers at the leader: new batches are appended, duplicates get the original's answer.

    calls at the same time    consecutive new ones are one proposal, any other is checked after it, with its own outcome

    state for decisions = committed state, and on top of it the batches that this leadership has appended since

So the outcome of an append changes nothing here: the batches on top are dropped before a later leadership decides. A
leader decides once its state is read and an entry of its own term is applied, for then nothing older is uncommitted.
Until then a bounded number of appends wait. A duplicate is answered when its original is committed, never before,
unless the call requires only that the leader has written it.

Markers of transactions are appended and recorded in the same way, with their permissions (`leader_transactions`).

When the table of producers is full, a new producer's batch is preceded by an `expire_producers` entry with the least
recently used ones that have nothing in flight. From then on this leader treats these as expired, and every replica
does once the entry is committed. Owned by a replica."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from raftlog.errors import (
    DuplicateSequence,
    InvalidBatch,
    InvalidTransactionState,
    NotLeader,
    OutOfOrderSequence,
    Overloaded,
    ProducerFenced,
    RaftlogError,
    Unavailable,
    UnknownProducer,
)
from raftlog.events import event
from raftlog.partitions.replica.checked_calls import AheadProducer, BatchPlace, CheckedCall
from raftlog.partitions.replica.leader_transactions import LeaderTransactions
from raftlog.partitions.replica.pending_appends import PendingAppends, ReplicaAppended
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.producers import (
    EXPIRED_MAX,
    KnownProducer,
    WrittenBatch,
    apply_batch,
    apply_marker,
    check_sequence,
    encode_expired,
    last_sequence,
)
from raftlog.partitions.replica.transaction_table import NO_EPOCH
from raftlog.partitions.results import ALL, Acks
from raftlog.raft import Accepted, Role
from raftlog.records import BatchHeader, ControlKind, TransactionMarker, read_header
from raftlog.records.header import TRANSACTIONAL_BIT
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.runtime.replica.proposals import return_unchanged
from raftlog.types import Index, Offset, Term

_logger = logging.getLogger(__name__)
_EVICTED_PART: Final = 100
"""Divisor of the table's size: a full table expires a hundredth of its producers at once."""
_WAITING_MAX: Final = 1_000
"""Appends that wait until the leader can decide."""
_UNKNOWN: Final = Offset(-1)
_NO_BATCH: Final = (-1, -1)
"""Sequences of a marker."""
_LEADER_ONLY: Final = (DuplicateSequence, InvalidTransactionState, OutOfOrderSequence, ProducerFenced, UnknownProducer)
"""Errors that follow from all batches appended before; only a confirmed leader may raise them."""


class SequenceCheck:
    """Check of the sequences of idempotent producers' batches at one leading replica."""

    def __init__(
        self,
        name: str,
        group: PartitionReplica,
        state: ProducerState,
        pending_appends: PendingAppends,
        producers_max: int,
    ) -> None:
        """Create a check whose table has room for `producers_max` producers."""
        self._name, self._group, self._state, self._pending_appends = name, group, state, pending_appends
        self._producers_max = producers_max
        self.transactions = LeaderTransactions(name, state, producers_max)
        self._term = Term(0)
        """Term of the leadership that decided last; the following fields belong to it."""
        self._ahead: dict[int, AheadProducer] = {}
        self._order: deque[tuple[Index, int, tuple[int, int]]] = deque()
        """Batches that are not delivered: entry, producer, sequences."""
        self._newcomers: set[int] = set()
        """Producers ahead that are not in the table."""
        self._expiring: dict[int, asyncio.Future[Committed]] = {}
        """Producers in the table with an uncommitted entry of this leadership that expires them."""
        self._waiting: deque[tuple[Sequence[bytearray], Acks, int, bool, asyncio.Future[ReplicaAppended]]] = deque()
        self.heard: dict[int, None] = {}
        """Producers with new batches, until `ProducerExpiry` has recorded them."""

    # appending

    def append(
        self, batches: Sequence[bytearray], acks: Acks, copies: int, any_first_sequence: bool
    ) -> "asyncio.Future[ReplicaAppended]":
        """Append like `Replica.append`, if any of the batches is of an idempotent producer.

        With `copies` above 0 so many replicas have to hold them. `any_first_sequence`: see `check_sequence`."""
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
        core = self._group.core
        if not self._waiting and self.can_decide():
            self._append(batches, acks, copies, any_first_sequence, future)
        elif core.role is not Role.LEADER:
            future.set_exception(NotLeader(f"{self._name}: it does not lead", core.leader))
        elif self._state.problem is not None:
            future.set_exception(Unavailable(f"{self._name} lost the state of its producers: {self._state.problem}"))
        elif len(self._waiting) >= _WAITING_MAX:
            future.set_exception(Overloaded(f"{self._name}: the leader is new, and too many producers wait for it"))
        else:
            self._waiting.append((batches, acks, copies, any_first_sequence, future))
            self._state.on_step()
        return future

    def append_calls(
        self, calls: Sequence[Sequence[bytearray]], acks: Acks, copies: int, any_first_sequence: bool
    ) -> "list[asyncio.Future[ReplicaAppended]]":
        """Append several calls as if each were appended alone, in this order; return the future of each.

        Calls proposed together share a future, whose result covers the records of all of them, at consecutive offsets
        in the order of the calls. Calls after one that is `Overloaded` are not appended and get no future."""
        futures: list[asyncio.Future[ReplicaAppended]] = []
        while len(futures) < len(calls):
            begin = len(futures)
            call = self._check_new(calls, begin, any_first_sequence)
            if call.fresh:
                future = self._append_new(call, acks, copies)
                futures += [future] * len(call.fresh)
            else:
                future = self.append(calls[begin], acks, copies, any_first_sequence)
                futures.append(future)
            if future.done() and isinstance(future.exception(), Overloaded):
                break
        return futures

    def can_decide(self) -> bool:
        """Return whether this replica leads and has read all committed entries, so that it can check sequences."""
        group, core = self._group, self._group.core
        if core.role is not Role.LEADER or not self._state.is_loaded:
            return False
        if self._term == core.term:
            return True
        if group.log.term_at(group.applied_index) != core.term:
            return False
        self._term = core.term
        self._ahead.clear()
        self._order.clear()
        self._newcomers.clear()
        self._expiring.clear()
        self.transactions.reset(core.term)
        return True

    def _check_new(self, calls: Sequence[Sequence[bytearray]], begin: int, any_first_sequence: bool) -> CheckedCall:
        """Check calls from `begin` on, up to the first one that is not exactly one new batch.

        A refusal or a duplicate is decided again, alone, once the calls before it are appended or have failed."""
        call = CheckedCall(any_first_sequence)
        if self._waiting or not self.can_decide():
            return call
        with suppress(RaftlogError):
            for batches in islice(calls, begin, None):
                if len(batches) > 1:
                    break
                header = read_header(batches[0])
                if header.producer_id >= 0 and self._find_original(header, call) is not None:
                    break
                call.fresh.append(batches[0])
                call.headers.append(header)
        return call

    def _append_new(self, call: CheckedCall, acks: Acks, copies: int) -> "asyncio.Future[ReplicaAppended]":
        """Append the new batches of a checked call as one proposal; return the future of its outcome."""
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
        try:
            accepted = self._group.append(call.fresh)
        except RaftlogError as error:
            future.set_exception(error)
            return future
        for index, header in enumerate(call.headers, accepted.first_index):
            self._record_batch(header, Index(index), call.producers)
        ends = [BatchPlace(index, _UNKNOWN, _UNKNOWN) for index in (accepted.first_index, accepted.last_index)]
        self._answer(ends, False, acks, copies, future)
        return future

    def _append(
        self,
        batches: Sequence[bytearray],
        acks: Acks,
        copies: int,
        any_first_sequence: bool,
        future: "asyncio.Future[ReplicaAppended]",
    ) -> None:
        """Check sequences and propose the batches that are no duplicates; complete `future` with the outcome."""
        try:
            call = self._check_batches(batches, any_first_sequence)
            first = self._group.append(call.fresh).first_index if call.fresh else Index(0)
        except _LEADER_ONLY as error:
            self._group.read_index().add_done_callback(partial(self._refuse, error, future))
            return
        except RaftlogError as error:
            future.set_exception(error)
            return
        spots: list[BatchPlace] = []
        for known, header in zip(call.spots, call.headers, strict=True):
            if known is None:
                spots.append(BatchPlace(first, _UNKNOWN, _UNKNOWN))
                self._record_batch(header, first, call.producers)
                first = Index(first + 1)
            else:
                spots.append(known)
        self._answer(spots, not call.fresh, acks, copies, future)

    def _refuse(
        self, error: RaftlogError, future: "asyncio.Future[ReplicaAppended]", read: "asyncio.Future[Index]"
    ) -> None:
        """Complete `future` with the error, once a majority has confirmed the leadership.

        A deposed leader lacks later batches, so it could refuse wrongly."""
        is_confirmed = not read.cancelled() and read.exception() is None
        if not future.done():
            why = NotLeader(f"{self._name}: no majority confirms that this replica leads", self._group.core.leader)
            future.set_exception(error if is_confirmed else why)

    def _check_batches(self, batches: Sequence[bytearray], any_first_sequence: bool) -> CheckedCall:
        """Check all batches of a call. Raises the error of the first refused one; nothing is appended then."""
        call = CheckedCall(any_first_sequence)
        for batch in batches:
            header = read_header(batch)
            original = self._find_original(header, call) if header.producer_id >= 0 else None
            if original is None:
                call.fresh.append(batch)
            call.spots.append(None if original is None else self._place_of_original(header, original))
            call.headers.append(header)
        return call

    def _find_original(self, header: BatchHeader, call: CheckedCall) -> WrittenBatch | None:
        """Return the batch that this one repeats; None for a new batch, which is added to the states in `call`."""
        producer_id, table, producers = header.producer_id, self._state.table, call.producers
        producer = producers.get(producer_id) or self.known(producer_id)
        is_expiring = producer_id in self._expiring
        known = None if is_expiring else producer
        original = check_sequence(
            self._name,
            known,
            header,
            is_forgotten=is_expiring or producer_id in table.forgotten,
            any_first_sequence=call.any_first_sequence or header.is_transactional,
        )
        if original is None:
            transactions = self.transactions
            if header.attributes & TRANSACTIONAL_BIT or call.opened or transactions.is_open(producer_id):
                transactions.check_batch(header, call, is_first=known is None or not known.batches)
            if producer is None:
                self._make_room(call)
                call.newcomers += 1
            producers[producer_id] = apply_batch(producer, header, _UNKNOWN)
        elif producer_id in producers:
            raise InvalidBatch(
                f"producer {producer_id} sent sequence {header.base_sequence} twice, or after later ones"
            )
        self.heard[producer_id] = None
        return original

    def append_marker(self, marker: TransactionMarker) -> "asyncio.Future[Committed]":
        """Append a marker; done once it is committed. It ends the producer's transaction, if one is open.

        Requires `can_decide`. Raises errors if nothing was appended: `ProducerFenced` and `CoordinatorFenced` for older
        epochs than known here, and those of an append."""
        producer_id = marker.producer_id
        known, ahead = self.known(producer_id), self._ahead.get(producer_id)
        self.transactions.check_marker(marker, NO_EPOCH if known is None else known.epoch)
        if known is None:
            self._make_room(CheckedCall(False))
        accepted = self._group.append_marker(marker)
        index = accepted.first_index
        if producer_id not in self._state.table:
            self._newcomers.add(producer_id)
        if ahead is None:
            ahead = self._ahead[producer_id] = AheadProducer()
        elif ahead.producer.epoch != marker.producer_epoch:
            ahead.places.clear()
        before = None if producer_id in self._expiring else known
        ahead.producer, ahead.last_index = apply_marker(before, marker.producer_epoch, -1), index
        self._order.append((index, producer_id, _NO_BATCH))
        self.transactions.record_marker(marker, index)
        self.heard[producer_id] = None
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        self._group.answer(accepted, return_unchanged, future)
        return future

    def known(self, producer_id: int) -> KnownProducer | None:
        """Return the state of a producer after all its entries here, committed or not; None if unknown."""
        ahead = self._ahead.get(producer_id)
        return ahead.producer if ahead else self._state.table.get(producer_id)

    def _make_room(self, call: CheckedCall) -> None:
        """Expire producers if there is no room for one more. Raises `Overloaded`, and the errors of `expire`."""
        table = self._state.table
        known = len(table) - len(self._expiring) + len(self._newcomers) + call.newcomers
        if known < self._producers_max:
            return
        idle = (each for each in table if not self.is_busy(each) and each not in call.producers)
        victims = list(islice(idle, min(EXPIRED_MAX, max(1, self._producers_max // _EVICTED_PART))))
        if not victims:
            raise Overloaded(f"{self._name}: {self._producers_max} producers have batches in flight; send again")
        self.expire([(each, producer.epoch) for each in victims if (producer := table.get(each))], "full")

    def expire(self, producers: list[tuple[int, int]], why: str) -> "asyncio.Future[Committed]":
        """Append an entry that expires ids up to these epochs; return its future. Raises if nothing is appended."""
        mark = self._group.propose_control([(ControlKind.EXPIRE_PRODUCERS, encode_expired(producers))])
        if mark.done():
            mark.result()
        self._expiring.update((producer_id, mark) for producer_id, _ in producers)
        mark.add_done_callback(self._drop_mark)
        event(_logger, "producers_expired", group=self._group.name, count=len(producers), why=why)
        return mark

    def _drop_mark(self, mark: "asyncio.Future[Committed]") -> None:
        """Forget an expiry entry that is applied to the table, or was lost with the leadership."""
        mark.exception()
        self._expiring = {each: other for each, other in self._expiring.items() if other is not mark}

    def _place_of_original(self, header: BatchHeader, original: WrittenBatch) -> BatchPlace:
        """Return the position of the batch that a duplicate repeats: its entry, or its offsets once it is committed."""
        key = original.base_sequence, original.last_sequence
        ahead = self._ahead.get(header.producer_id)
        if ahead is not None and key in ahead.places:
            return BatchPlace(ahead.places[key], _UNKNOWN, _UNKNOWN)
        offset = original.offset
        if offset < 0:  # it was appended by this leadership, and is committed by now
            producer = self._state.table.get(header.producer_id)
            offset = next(each.offset for each in producer.batches if each[:2] == key) if producer else offset
        assert offset >= 0, f"{self._name}: a batch of producer {header.producer_id} has no place"
        return BatchPlace(Index(0), Offset(offset), Offset(offset + header.last_offset_delta + 1))

    def _record_batch(self, header: BatchHeader, index: Index, producers: dict[int, KnownProducer]) -> None:
        """Record that a batch was appended at `index`; `producers` has the state of its producer after it."""
        producer_id = header.producer_id
        if producer_id < 0:
            return
        if producer_id not in self._state.table:
            self._newcomers.add(producer_id)
        ahead = self._ahead.get(producer_id)
        if ahead is None:
            ahead = self._ahead[producer_id] = AheadProducer()
        key = header.base_sequence, last_sequence(header)
        if ahead.last_index and ahead.producer.epoch != header.producer_epoch:
            ahead.places.clear()
        ahead.producer, ahead.last_index, ahead.places[key] = producers[producer_id], index, index
        self._order.append((index, producer_id, key))
        if header.attributes & TRANSACTIONAL_BIT:
            self.transactions.record_batch(producer_id, index)

    # answering

    def _answer(
        self,
        spots: list[BatchPlace],
        is_duplicate: bool,
        acks: Acks,
        copies: int,
        future: "asyncio.Future[ReplicaAppended]",
    ) -> None:
        """Complete `future` when the batches are acknowledged as `acks` demands."""
        first, last = spots[0], spots[-1]
        answer = partial(self._on_append, first, last, is_duplicate, acks == ALL)
        open_ = [spot.index for spot in spots if spot.index]
        if not open_:
            applied = self._group.applied_index
            committed = Committed(self._term, applied, applied, first.offset, last.end)
            if copies and acks == ALL:
                self._pending_appends.count_copies(committed, copies, answer, future)
            else:
                future.set_result(answer(committed))
            return
        accepted = Accepted(self._term, min(open_), max(open_))
        if acks != ALL:
            self._pending_appends.answer_written(accepted, answer, future)
        elif copies:
            self._pending_appends.answer_copied(accepted, copies, answer, future)
        else:
            self._group.answer(accepted, answer, future)

    def _on_append(
        self, first: BatchPlace, last: BatchPlace, is_duplicate: bool, is_committed: bool, committed: Committed
    ) -> ReplicaAppended:
        """Return the answer to an append whose first and last batches have these positions."""
        log = self._group.log
        base = log.offset_of(first.index) if first.index else first.offset
        end = log.offset_of(Index(last.index + 1)) if last.index else last.end
        watermark = self._group.high_watermark
        return ReplicaAppended(
            base, end, committed.term, max(watermark, end) if is_committed else watermark, is_duplicate
        )

    def on_delivered(self, applied: Index) -> None:
        """Drop the batches up to `applied`, which are in the table now."""
        order = self._order
        while order and order[0][0] <= applied:
            index, producer_id, key = order.popleft()
            self._newcomers.discard(producer_id)
            ahead = self._ahead.get(producer_id)
            if ahead is None:
                continue
            if ahead.last_index == index:
                del self._ahead[producer_id]
            elif ahead.places.get(key) == index:
                del ahead.places[key]
        self.transactions.on_delivered(applied)

    def on_step(self) -> None:
        """Retry the waiting appends after a step of the Raft group."""
        if self._waiting:
            self._append_waiting()

    def is_busy(self, producer_id: int) -> bool:
        """Return whether this producer has a transaction, or an entry about it that is not delivered yet."""
        is_under_way = producer_id in self._ahead or producer_id in self._expiring
        return is_under_way or self.transactions.is_busy(producer_id)

    def _append_waiting(self) -> None:
        """Process the waiting appends, or fail them if this replica does not lead."""
        core = self._group.core
        if core.role is not Role.LEADER:
            self.end(NotLeader(f"{self._name}: the leadership ended before anything was appended", core.leader))
        while self._waiting and self.can_decide():
            batches, acks, copies, any_first_sequence, future = self._waiting.popleft()
            if not future.done():
                self._append(batches, acks, copies, any_first_sequence, future)

    def end(self, why: RaftlogError) -> None:
        """Fail the waiting appends with `why`; none of them was appended."""
        while self._waiting:
            *_, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(why)
