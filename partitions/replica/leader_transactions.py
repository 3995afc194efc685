"""Transactions at the leader: permissions of producers to append to one, and the state ahead of the committed one.

    guard → the coordinator confirms the transaction → permission of (producer id, epoch, transactional id)
    until a marker of the producer is appended, or the term ends

A batch of a transaction without a permission is refused, so none is appended after the marker of its transaction. The
guard begins before the coordinator is asked: a marker that is appended meanwhile breaks the guard, because the answer
may be older than the marker. So a transaction that the coordinator has ended never opens again by a late batch
(KIP-890). A partition that joins a transaction learns its number, and markers of earlier ones do not break the guard.
Of the batches that wait for a permission the one with the lowest sequence is appended first: a later one would be taken
for the producer's first batch, and the retry of the lowest one would be refused.
Owned by a replica's `SequenceCheck`, which resets it with each term."""

from collections import deque
from typing import Final, NamedTuple

from raftlog.errors import (
    ConcurrentTransactions,
    CoordinatorFenced,
    InvalidTransactionState,
    OutOfOrderSequence,
    Overloaded,
    ProducerFenced,
)
from raftlog.partitions.replica.checked_calls import CheckedCall
from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.producers import is_later
from raftlog.partitions.replica.transaction_table import NO_EPOCH
from raftlog.partitions.results import ConfirmedTransaction
from raftlog.records import BatchHeader, TransactionMarker
from raftlog.types import Index, Term

_GUARDS_MAX: Final = 10_000
"""Guards whose coordinator has not answered."""
_WAITING_MAX: Final = 10_000
"""Lowest waiting sequences that are remembered; beyond it those of the least recently used producer are forgotten."""
_ANY: Final = 1 << 63
"""Number above those of all transactions."""


class AppendPermission(NamedTuple):
    """Epoch with which a producer may append to its transaction, and the transactional id that was confirmed."""

    epoch: int
    transactional_id: str


class TransactionGuard:
    """Pending request to a producer's coordinator; the end of the transaction or of the term invalidates it."""

    __slots__ = ("ended", "is_broken", "producer_id", "wanted")

    def __init__(self, producer_id: int, wanted: AppendPermission) -> None:
        """Begin to watch the producer while its coordinator verifies the transaction of `wanted`."""
        self.producer_id, self.wanted = producer_id, wanted
        self.is_broken = False
        """Whether the term has ended since the guard began."""
        self.ended = -1
        """Highest transaction number in the producer's markers that were appended since the guard began.

        `_ANY` if one of these markers has no number."""


class _Ahead(NamedTuple):
    """State of a producer's transaction after the newest entry that this leader appended and has not delivered yet."""

    last_index: Index
    is_open: bool
    coordinator_epoch: int
    """Epoch in the newest marker among those entries."""


class _WaitingBatch(NamedTuple):
    """Lowest sequence of a producer's batches that have waited for a permission since its last appended one."""

    term: Term
    epoch: int
    sequence: int


class LeaderTransactions:
    """Permissions of producers to append to transactions, at one replica while it leads."""

    def __init__(self, name: str, state: ProducerState, permissions_max: int) -> None:
        """Begin without permissions; at most `permissions_max` are stored."""
        self._name, self._state, self._permissions_max = name, state, permissions_max
        self._permitted: dict[int, AppendPermission] = {}
        """Permissions by producer."""
        self._guards: dict[int, list[TransactionGuard]] = {}
        """Guards by producer."""
        self._waiting: dict[int, dict[str, _WaitingBatch]] = {}
        """By producer and the transactional id in its request, which its coordinator has not confirmed yet."""
        self._waiting_count = 0
        self._ahead: dict[int, _Ahead] = {}
        self._order: deque[tuple[Index, int]] = deque()
        """Entries that are not delivered, with their producers."""

    def reset(self, term: Term) -> None:
        """Remove all permissions and guards of earlier terms than `term`, and the entries not committed in them."""
        for producer_id, names in list(self._waiting.items()):
            self._remember(producer_id, {name: waiting for name, waiting in names.items() if waiting.term == term})
        for guards in self._guards.values():
            for guard in guards:
                guard.is_broken = True
        self._guards.clear()
        self._permitted.clear()
        self._ahead.clear()
        self._order.clear()

    # permissions

    def note_waiting(self, header: BatchHeader, transactional_id: str, term: Term) -> None:
        """Record a batch that waits for a permission in this term: no later batch of its epoch is appended before it.

        Also if it is refused: its producer sends it again. Nobody has confirmed yet that the producer id belongs to the
        transactional id, so the batch counts for producers with this transactional id alone."""
        producer_id = header.producer_id
        waiting = _WaitingBatch(term, header.producer_epoch, header.base_sequence)
        names = self._waiting.get(producer_id, {})
        known = names.get(transactional_id, waiting)
        is_known_lower = known.epoch == waiting.epoch and is_later(waiting.sequence, known.sequence)
        if known.term == term and (is_known_lower or known.epoch > waiting.epoch):
            waiting = known
        self._remember(producer_id, names | {transactional_id: waiting})
        while self._waiting_count > _WAITING_MAX:
            self._forget_waiting(next(iter(self._waiting)))

    def forget_name(self, producer_id: int, transactional_id: str) -> None:
        """Forget the waiting batches of a transactional id to which the producer does not belong."""
        names = self._waiting.get(producer_id, {})
        self._remember(producer_id, {name: waiting for name, waiting in names.items() if name != transactional_id})

    def _remember(self, producer_id: int, names: dict[str, _WaitingBatch]) -> None:
        """Replace the waiting batches of a producer, as the last one used."""
        self._forget_waiting(producer_id)
        if names:
            self._waiting[producer_id] = names
            self._waiting_count += len(names)

    def _forget_waiting(self, producer_id: int) -> None:
        """Forget all waiting batches of a producer."""
        self._waiting_count -= len(self._waiting.pop(producer_id, ()))

    def is_permitted(self, producer_id: int, wanted: AppendPermission) -> bool:
        """Return whether the producer may append to its transaction with this epoch and transactional id."""
        return self._permitted.get(producer_id) == wanted

    def begin_guard(
        self, producer_id: int, wanted: AppendPermission, known_epoch: int, *, joins: bool
    ) -> TransactionGuard:
        """Return a new guard for a request to the producer's coordinator.

        `known_epoch`: the producer's newest epoch here. `joins`: the coordinator waits for the end of the producer's
        last transaction, which may be open here. Raises `ProducerFenced`, `ConcurrentTransactions` and `Overloaded`."""
        self._check_epoch(producer_id, wanted.epoch, known_epoch, may_be_open=joins)
        if len(self._guards) >= _GUARDS_MAX:
            raise Overloaded(f"{self._name}: {_GUARDS_MAX} producers wait for their transaction coordinators; retry")
        guard = TransactionGuard(producer_id, wanted)
        self._guards.setdefault(producer_id, []).append(guard)
        return guard

    def end_guard(self, guard: TransactionGuard) -> None:
        """Remove a guard without giving a permission, unless it was removed already."""
        guards = self._guards.get(guard.producer_id, [])
        if guard in guards:
            guards.remove(guard)
            if not guards:
                del self._guards[guard.producer_id]

    def permit(self, guard: TransactionGuard, known_epoch: int, confirmed: ConfirmedTransaction) -> None:
        """Permit the producer to append, after the coordinator has confirmed its transaction.

        Raises `ConcurrentTransactions` for an invalidated guard or the answer of a coordinator whose successor has sent
        a marker of the producer, and the errors of `begin_guard`."""
        self.end_guard(guard)
        producer_id = guard.producer_id
        table, number = self._state.table.transactions, confirmed.number
        if guard.is_broken or number <= guard.ended or table.has_ended(producer_id, number):
            raise ConcurrentTransactions(
                f"{self._name}: the transaction of producer {producer_id} ended while its coordinator was asked; retry"
            )
        if confirmed.coordinator_epoch < self.coordinator_epoch(producer_id):
            raise ConcurrentTransactions(
                f"{self._name}: a deposed coordinator confirmed the transaction of producer {producer_id}; retry"
            )
        self._check_epoch(producer_id, guard.wanted.epoch, known_epoch)
        if len(self._permitted) >= self._permissions_max and producer_id not in self._permitted:
            raise Overloaded(f"{self._name}: {self._permissions_max} producers have transactions here; retry")
        self._permitted[producer_id] = guard.wanted

    def _check_epoch(self, producer_id: int, epoch: int, known_epoch: int, *, may_be_open: bool = False) -> None:
        """Raise `ProducerFenced` or `ConcurrentTransactions` if this epoch cannot begin or continue a transaction.

        `known_epoch`: the producer's newest epoch here. `may_be_open`: its last transaction may still be open."""
        newest = max(known_epoch, self._permitted_epoch(producer_id))
        if epoch < newest:
            raise ProducerFenced(
                f"{self._name}: producer {producer_id} has epoch {newest}, and this transaction epoch {epoch}: another "
                "producer with its transactional id has begun since, or the transaction timed out"
            )
        if epoch > known_epoch and not may_be_open and self.is_open(producer_id):
            raise ConcurrentTransactions(
                f"{self._name}: the transaction of producer {producer_id} with epoch {known_epoch} is still open; retry"
            )

    def _permitted_epoch(self, producer_id: int) -> int:
        """Return the producer epoch that may append; `NO_EPOCH` without a permission."""
        permission = self._permitted.get(producer_id)
        return NO_EPOCH if permission is None else permission.epoch

    # batches and markers

    def is_open(self, producer_id: int) -> bool:
        """Return whether the producer has an open transaction, as far as entries were appended here."""
        ahead = self._ahead.get(producer_id)
        return producer_id in self._state.table.transactions.open if ahead is None else ahead.is_open

    def is_busy(self, producer_id: int) -> bool:
        """Return whether the producer has an open transaction, or may begin one without asking its coordinator."""
        return self.is_open(producer_id) or producer_id in self._permitted

    def coordinator_epoch(self, producer_id: int) -> int:
        """Return the epoch of the coordinator in the producer's newest marker here; `NO_EPOCH` without one."""
        ahead = self._ahead.get(producer_id)
        known = self._state.table.transactions.last_marker(producer_id).coordinator_epoch
        return known if ahead is None else max(known, ahead.coordinator_epoch)

    def check_batch(self, header: BatchHeader, call: CheckedCall, *, is_first: bool) -> None:
        """Raise an error for a batch that must not be appended; add a transactional one to `call`.

        `is_first`: any sequence can follow, because no batch of the producer is known here. Raises
        `InvalidTransactionState` and `OutOfOrderSequence`."""
        producer_id = header.producer_id
        if not header.is_transactional:
            if producer_id in call.opened or self.is_open(producer_id):
                raise InvalidTransactionState(
                    f"{self._name}: producer {producer_id} has an open transaction, and this batch does not belong to "
                    "it: nothing was appended"
                )
        elif self._permitted_epoch(producer_id) != header.producer_epoch:
            raise InvalidTransactionState(
                f"{self._name}: producer {producer_id} has no transaction with epoch {header.producer_epoch} in this "
                "partition: nothing was appended"
            )
        else:
            if is_first and producer_id not in call.opened:
                self._check_order(header)
            call.opened.add(producer_id)

    def _check_order(self, header: BatchHeader) -> None:
        """Raise `OutOfOrderSequence` for a batch while one with a lower sequence waits, or has to be sent again."""
        transactional_id = self._permitted[header.producer_id].transactional_id
        waiting = self._waiting.get(header.producer_id, {}).get(transactional_id)
        if waiting is None or waiting.epoch != header.producer_epoch:
            return
        if is_later(header.base_sequence, waiting.sequence):
            raise OutOfOrderSequence(
                f"{self._name}: producer {header.producer_id} sent sequence {header.base_sequence}, and "
                f"{waiting.sequence} before it, which is not appended yet: nothing was appended; send them in order"
            )

    def has_ended(self, marker: TransactionMarker) -> bool:
        """Return whether a marker of the same transaction is committed already, so that this one is a repetition."""
        return self._state.table.transactions.has_ended(marker.producer_id, marker.number)

    def check_marker(self, marker: TransactionMarker, known_epoch: int) -> None:
        """Raise `ProducerFenced` or `CoordinatorFenced` for a marker that must not be appended."""
        head = f"{self._name}: a marker of producer {marker.producer_id}"
        coordinator_epoch = self.coordinator_epoch(marker.producer_id)
        if marker.producer_epoch < known_epoch:
            raise ProducerFenced(f"{head} has epoch {marker.producer_epoch}, and the producer epoch {known_epoch}")
        if marker.coordinator_epoch < coordinator_epoch:
            raise CoordinatorFenced(
                f"{head} is of the coordinator with epoch {marker.coordinator_epoch}, and one of epoch "
                f"{coordinator_epoch} sent the last: nothing was appended"
            )

    def record_batch(self, producer_id: int, index: Index) -> None:
        """Record that a transactional batch of the producer was appended at `index`."""
        self._forget_waiting(producer_id)
        self._record(producer_id, index, is_open=True, coordinator_epoch=self.coordinator_epoch(producer_id))

    def record_marker(self, marker: TransactionMarker, index: Index) -> None:
        """Record that a marker was appended at `index`: it ends the permission, and invalidates guards."""
        producer_id = marker.producer_id
        self._permitted.pop(producer_id, None)
        self._forget_waiting(producer_id)
        for guard in self._guards.get(producer_id, ()):
            guard.ended = max(guard.ended, marker.number or _ANY)
        self._record(producer_id, index, is_open=False, coordinator_epoch=marker.coordinator_epoch)

    def _record(self, producer_id: int, index: Index, *, is_open: bool, coordinator_epoch: int) -> None:
        """Record an appended entry that opens or ends a transaction, until it is delivered."""
        self._ahead[producer_id] = _Ahead(index, is_open, coordinator_epoch)
        self._order.append((index, producer_id))

    def on_delivered(self, applied: Index) -> None:
        """Drop the entries up to `applied`, which the committed state contains now."""
        order = self._order
        while order and order[0][0] <= applied:
            index, producer_id = order.popleft()
            ahead = self._ahead.get(producer_id)
            if ahead is not None and ahead.last_index == index:
                del self._ahead[producer_id]
