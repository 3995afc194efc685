"""Operations of a transaction coordinator: a declaration for each one, and reads of whole coordinators.

docs/REPLICATION.md names them. Called through `coordinator.router`, here or for another broker."""

import asyncio
from typing import Final

from raftlog.partitions.coordinator.operation import CoordinatorOperation
from raftlog.partitions.deadline import Deadline
from raftlog.partitions.results import ConfirmedTransaction
from raftlog.partitions.transactions.coordinator import TransactionCoordinator
from raftlog.partitions.transactions.records import ProducerIdAndEpoch, TransactionRecord
from raftlog.partitions.transactions.results import (
    AddToTransaction,
    EndTransaction,
    InitializeProducer,
    TransactionDetails,
    TransactionListing,
    VerifyTransaction,
)

_SLICE: Final = 256
"""Transactional ids examined in one turn of the loop."""


def _describe_record(name: str, record: TransactionRecord, now_ms: int) -> TransactionDetails:
    """Describe a transactional id; the requesting broker adds the coordinator's node id."""
    age_ms = max(0, now_ms - record.started_ms) if record.started_ms else 0
    producer_id, epoch, state, timeout_ms = record[:4]
    return TransactionDetails(
        name,
        producer_id,
        epoch,
        state.kafka_name,
        timeout_ms,
        record.started_ms,
        age_ms,
        partitions=record.partitions,
        groups=record.groups,
    )


async def _list(coordinator: TransactionCoordinator, _: None, deadline: Deadline) -> list[TransactionListing]:
    """Return all transactional ids of the coordinator; yield to the event loop between slices."""
    await coordinator.wait_until_current(deadline)
    now_ms, rows = coordinator.wall_ms(), []
    for number, (name, record) in enumerate(sorted(coordinator.folded.records.items()), 1):
        described = _describe_record(name, record, now_ms)
        rows.append(TransactionListing(*(getattr(described, field) for field in TransactionListing.__struct_fields__)))
        if number % _SLICE == 0:
            await asyncio.sleep(0)
    return rows


async def _describe(coordinator: TransactionCoordinator, name: str, deadline: Deadline) -> TransactionDetails | None:
    """Return the details of a transactional id; None if it does not exist."""
    await coordinator.wait_until_current(deadline)
    record = coordinator.folded.records.get(name)
    if record is None:
        return None
    return _describe_record(name, record, coordinator.wall_ms())


_T = TransactionCoordinator
INITIALIZE: Final = CoordinatorOperation(
    "transactions.initialize", _T.initialize, InitializeProducer, ProducerIdAndEpoch
)
ADD: Final = CoordinatorOperation("transactions.add", _T.add, AddToTransaction)
END: Final = CoordinatorOperation("transactions.end", _T.end_transaction, EndTransaction)
JOIN: Final = CoordinatorOperation("transactions.join", _T.join, AddToTransaction, ConfirmedTransaction)
FINISH: Final = CoordinatorOperation("transactions.finish", _T.finish, EndTransaction, ProducerIdAndEpoch)
VERIFY: Final = CoordinatorOperation("transactions.verify", _T.verify, VerifyTransaction, int, only_reads=True)
FENCE: Final = CoordinatorOperation("transactions.fence", _T.fence, str)
LIST: Final = CoordinatorOperation("transactions.list", _list, type(None), list[TransactionListing], only_reads=True)
DESCRIBE: Final = CoordinatorOperation(
    "transactions.describe", _describe, str, TransactionDetails | None, only_reads=True
)
