"""Rules for the record of one transactional id. Pure: each function returns the next record, or raises a refusal.

    Empty, Complete…  → Ongoing                  partitions or groups are added
    Ongoing           → Prepare…                 the producer ends it, or a newer producer or the timeout aborts it
    Prepare…          → Complete…                every partition and group has the marker
    Empty, Complete…  → Empty                    a producer is initialized: its epoch is raised

An abort that its own producer did not ask for raises the epoch with the same record, so that the marker fences that
producer in every partition. So does every end over HTTP (KIP-890): each transaction has an epoch of its own, and late
requests of an earlier one are fenced. `EPOCH_MAX` is kept for such ends: no transaction begins with it."""

from collections.abc import Iterable
from typing import Final

from raftlog.errors import InvalidArgument, InvalidProducerMapping, InvalidTransactionState, ProducerFenced
from raftlog.partitions.transactions.records import (
    NO_EPOCH,
    NO_PRODUCER,
    ProducerIdAndEpoch,
    TransactionPlace,
    TransactionRecord,
    TransactionState,
)

EPOCH_MAX: Final = 32_767


NO_IDENTITY: Final = ProducerIdAndEpoch(NO_PRODUCER, NO_EPOCH)
"""Identity in a request that names none."""


def identity_of(record: TransactionRecord) -> ProducerIdAndEpoch:
    """Return the producer's present id and epoch."""
    return ProducerIdAndEpoch(record.producer_id, record.epoch)


def check_identity(name: str, record: TransactionRecord | None, identity: ProducerIdAndEpoch) -> TransactionRecord:
    """Return the record of a request's producer.

    Raises `InvalidProducerMapping` for another producer id, and `ProducerFenced` for another epoch."""
    if record is None or record.producer_id != identity.producer_id:
        raise InvalidProducerMapping(
            f"producer id {identity.producer_id} is not that of the transactional id {name!r}; initialize the producer "
            "again"
        )
    if record.epoch != identity.epoch:
        raise ProducerFenced(
            f"the transactional id {name!r} has epoch {record.epoch}, and the request epoch {identity.epoch}: another "
            "producer has been initialized with this id, or the transaction timed out"
        )
    return record


# ---- initialization


def check_expected(name: str, record: TransactionRecord | None, expected: ProducerIdAndEpoch) -> bool:
    """Return whether a producer's request for a new identity in place of `expected` was carried out before.

    False for `NO_IDENTITY`, and if the transactional id has expired. Raises `ProducerFenced` for any identity but the
    present one."""
    if record is None or expected in (NO_IDENTITY, identity_of(record)):
        return False
    if expected == (record.replaced_id, record.replaced_epoch):
        return True
    raise ProducerFenced(
        f"the transactional id {name!r} has producer id {record.producer_id} with epoch {record.epoch}, and not "
        f"{expected.producer_id} with epoch {expected.epoch}: another producer has been initialized with it, or its "
        "transaction timed out"
    )


def needs_new_id(record: TransactionRecord | None, *, is_repeated: bool) -> bool:
    """Return whether the producer needs a new producer id: it has none yet, or no epoch is left under the present one.

    `is_repeated`: the request was carried out before, so the present epoch is returned again and no next one needed."""
    return record is None or record.epoch >= (EPOCH_MAX if is_repeated else EPOCH_MAX - 1)


def initialize(
    record: TransactionRecord | None, expected: ProducerIdAndEpoch, new_id: int | None, timeout_ms: int, now_ms: int
) -> TransactionRecord:
    """Return the record with the next epoch, or with `new_id` and epoch 0."""
    if new_id is None:
        assert record is not None, "the first producer needs an id"
        identity = ProducerIdAndEpoch(record.producer_id, record.epoch + 1)
    else:
        identity = ProducerIdAndEpoch(new_id, 0)
    number = 0 if record is None else record.number
    return TransactionRecord(*identity, TransactionState.EMPTY, timeout_ms, (), (), 0, now_ms, *expected, number)


# ---- transactions


def add(
    name: str,
    record: TransactionRecord,
    partitions: Iterable[TransactionPlace],
    groups: Iterable[str],
    now_ms: int,
    term: int,
    limit: int,
) -> TransactionRecord:
    """Return the record with these partitions and groups in the transaction, which is begun unless one is ongoing.

    Returns `record` itself if it has all of them, or there are none. Raises `InvalidArgument` beyond `limit`, and
    `InvalidTransactionState` for `EPOCH_MAX`. The number of a new transaction is above all numbers of earlier terms
    too, so it is new even where damage has cost records of the log."""
    assert not record.state.is_prepared, f"{name} is {record.state.name}"
    if record.epoch >= EPOCH_MAX:
        raise InvalidTransactionState(f"the epochs of {name!r} are used up: initialize the producer again")
    is_ongoing = record.state is TransactionState.ONGOING
    new_partitions, new_groups = {*record.partitions, *partitions}, {*record.groups, *groups}
    if len(new_partitions) == len(record.partitions) and len(new_groups) == len(record.groups):
        return record
    if max(len(new_partitions), len(new_groups)) > limit:
        raise InvalidArgument(f"a transaction of {name!r} has more than {limit} partitions or groups, the limit")
    return record._replace(
        state=TransactionState.ONGOING,
        partitions=tuple(sorted(new_partitions)),
        groups=tuple(sorted(new_groups)),
        started_ms=record.started_ms if is_ongoing else now_ms,
        changed_ms=now_ms,
        number=record.number if is_ongoing else max(record.number, term << 32) + 1,
    )


def check_same(name: str, before: TransactionRecord | None, record: TransactionRecord) -> None:
    """Raise `InvalidTransactionState` if another transaction has begun since a request arrived.

    `before`: the record at that time. A producer uses or ends a transaction only after its begin was answered. So a
    request that arrived earlier is late, and belongs to the transaction before, which has ended since."""
    if before is None or not (before.state is TransactionState.ONGOING or before.state.is_prepared):
        return
    if before.number != record.number:
        raise InvalidTransactionState(
            f"the request belongs to an earlier transaction of {name!r}, which has ended; its state is now "
            f"{_describe(record)}"
        )


def is_ended(name: str, record: TransactionRecord, *, is_commit: bool) -> bool:
    """Return whether the last transaction was committed (`is_commit`), or aborted, before.

    Raises `InvalidTransactionState` unless that is so or a transaction is ongoing."""
    if record.state is TransactionState.ONGOING:
        return False
    if record.state is (TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT):
        return True
    verb = "committed" if is_commit else "aborted"
    raise InvalidTransactionState(f"{name!r} has no transaction that can be {verb}: its state is {_describe(record)}")


def is_finished(name: str, record: TransactionRecord | None, identity: ProducerIdAndEpoch, *, is_commit: bool) -> bool:
    """Return whether an end that raises the epoch was carried out before, so that the request is a retry.

    Raises the errors of `check_identity`, and `InvalidTransactionState` if there is nothing to commit."""
    wanted = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    if record is not None and record.state is wanted and identity == (record.replaced_id, record.replaced_epoch):
        return True
    record = check_identity(name, record, identity)
    if record.epoch >= EPOCH_MAX or (is_commit and record.state is not TransactionState.ONGOING):
        raise InvalidTransactionState(f"{name!r} has no transaction that can end: its state is {_describe(record)}")
    return False


def finish(record: TransactionRecord, now_ms: int, *, is_commit: bool) -> TransactionRecord:
    """Return the record with the outcome decided by its producer, whose epoch is raised (KIP-890).

    Without an ongoing transaction the state is CompleteAbort at once, since no partition or group needs a marker."""
    assert record.epoch < EPOCH_MAX, f"the epoch {record.epoch} cannot be raised"
    if record.state is TransactionState.ONGOING:
        ended = prepare(record, now_ms, is_commit=is_commit)
    else:
        assert not is_commit, f"{record.state.name} cannot be committed"
        ended = record._replace(state=TransactionState.COMPLETE_ABORT, changed_ms=now_ms)
    return ended._replace(epoch=record.epoch + 1, replaced_id=record.producer_id, replaced_epoch=record.epoch)


def prepare(record: TransactionRecord, now_ms: int, *, is_commit: bool) -> TransactionRecord:
    """Return the record of an ongoing transaction with its outcome decided by its producer."""
    assert record.state is TransactionState.ONGOING, f"{record.state.name} cannot be prepared"
    state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    return record._replace(state=state, changed_ms=now_ms)


def fence(record: TransactionRecord, replaced: ProducerIdAndEpoch, now_ms: int) -> TransactionRecord:
    """Return the record of an ongoing transaction that is aborted with the next epoch.

    `replaced` is the identity that is replaced by a new one; `NO_IDENTITY` if no producer requested one."""
    assert record.epoch < EPOCH_MAX, f"the epoch {record.epoch} cannot be raised"
    replaced_id, replaced_epoch = replaced
    return prepare(record, now_ms, is_commit=False)._replace(
        epoch=record.epoch + 1, replaced_id=replaced_id, replaced_epoch=replaced_epoch
    )


def complete(record: TransactionRecord, now_ms: int) -> TransactionRecord:
    """Return the record of a prepared transaction after all of its markers were written."""
    assert record.state.is_prepared, f"{record.state.name} cannot be completed"
    is_commit = record.state is TransactionState.PREPARE_COMMIT
    return record._replace(
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=(),
        groups=(),
        started_ms=0,
        changed_ms=now_ms,
    )


def check_member(name: str, record: TransactionRecord, partition: TransactionPlace | None, group: str | None) -> None:
    """Raise `InvalidTransactionState` unless the ongoing transaction has this partition, or this group."""
    is_member = group in record.groups if partition is None else partition in record.partitions
    if record.state is not TransactionState.ONGOING or not is_member:
        member = f"group {group!r}" if partition is None else f"partition {partition[1]} of topic {partition[0]}"
        raise InvalidTransactionState(f"{member} is in no transaction of {name!r}: its state is {_describe(record)}")


def _describe(record: TransactionRecord) -> str:
    """Return the state and epoch of a transaction in words."""
    return f"{record.state.kafka_name} with epoch {record.epoch}"
