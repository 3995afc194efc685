"""Transactional ids that the log of one partition of `__transaction_state` holds. Pure."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from raftlog.errors import InvalidArgument
from raftlog.partitions.coordinator.folded import FoldedLog, LogEntry
from raftlog.partitions.transactions.records import (
    TransactionRecord,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from raftlog.records import NewRecord
from raftlog.types import FEATURE_LEVEL_TRANSACTIONS

TransactionEntry: TypeAlias = LogEntry[str, TransactionRecord]


class FoldedTransactions(FoldedLog[str, TransactionRecord]):
    """State applied from the log of one partition, by transactional id."""

    def __init__(self, name: str, feature_level: Callable[[], int]) -> None:
        super().__init__(name)
        self._feature_level = feature_level
        self.records: dict[str, TransactionRecord] = {}

    def encode(self, entry: TransactionEntry) -> NewRecord:
        """Return the record of an entry. Raises `InvalidArgument` below the feature level of transactions."""
        if self._feature_level() < FEATURE_LEVEL_TRANSACTIONS:
            raise InvalidArgument(f"transactions need feature level {FEATURE_LEVEL_TRANSACTIONS} of the cluster")
        key, value = entry
        return NewRecord(None if value is None else encode_value(value), encode_key(key))

    def decode(self, key: bytes, value: bytes | None) -> TransactionEntry:
        """Return the entry of a record. Raises `FormatError`."""
        return LogEntry(decode_key(key), None if value is None else decode_value(value))

    def put(self, key: str, value: TransactionRecord | None) -> None:
        """Apply an entry; None deletes the transactional id."""
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value

    def folded_value(self, key: str) -> TransactionRecord | None:
        """Return the transaction of an id in the committed log; None if it has none."""
        return self.records.get(key)

    def clear(self) -> None:
        """Remove all values, before the log is read again."""
        self.records.clear()

    def keys(self) -> Iterator[str]:
        """Return the transactional ids with a value."""
        return iter(self.records)
