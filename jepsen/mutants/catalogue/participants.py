"""Mutants of transactions at a partition (`raftlog/partitions/replica`): last stable offset, permissions, outcomes."""

from typing import Final

from jepsen.mutants.mutant import Mutant

_TESTS: Final = ("tests/replica/test_transactions.py",)
_CLEANING: Final = ("tests/replica/test_transactions_cleaning.py",)
_COMPACTION: Final = ("tests/storage/test_compacting_transactions.py",)


def _replica(name: str, place: str, old: str, new: str, tests: tuple[str, ...] = _TESTS) -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog/partitions/replica`."""
    module, _, function = place.partition(":")
    return Mutant(f"participant-{name}", f"raftlog/partitions/replica/{module}.py", function, old, new, tests)


def _storage(name: str, place: str, old: str, new: str) -> Mutant:
    """Return a mutant at `place`, which is module:function below `raftlog/storage`."""
    module, _, function = place.partition(":")
    return Mutant(f"participant-{name}", f"raftlog/storage/{module}.py", function, old, new, _COMPACTION)


MUTANTS: Final[tuple[Mutant, ...]] = (
    # last stable offset
    _replica(
        "stable-above-an-open-one",
        "producer_state:ProducerState.stable_end",
        "self._group.high_watermark if first is None else",
        "self._group.high_watermark if True else",
    ),
    _replica(
        "stable-falls-after-a-start",
        "producer_state:ProducerState.stable_end",
        "if not self.is_loaded or self._delivered != self._group.applied_index:",
        "if False:",
    ),
    _replica(
        "stable-at-the-newest-batch",
        "transaction_table:TransactionTable.begin",
        "self.open.setdefault(producer_id, offset)",
        "self.open[producer_id] = offset",
    ),
    _replica(
        "open-ones-lost-at-a-roll",
        "transaction_table:TransactionTable.pack_rows",
        'if rows else b""',
        'if False else b""',
    ),
    _replica(
        "ended-one-opens-again-at-a-roll",
        "transaction_table:TransactionTable.add_later",
        "self.end(producer_id, marker)",
        "self.last_markers[producer_id] = marker",
        ("tests/replica/test_transaction_table.py",),
    ),
    # permissions
    _replica(
        "guard-outlives-a-term",
        "sequence_check:SequenceCheck.can_decide",
        "self.transactions.reset(core.term)",
        "pass",
    ),
    _replica(
        "later-batch-is-the-first",
        "leader_transactions:LeaderTransactions.check_batch",
        "if is_first and producer_id not in call.opened:",
        "if False:",
    ),
    _replica(
        "waiting-batch-outlives-a-term",
        "leader_transactions:LeaderTransactions.reset",
        " if waiting.term == term",
        "",
    ),
    _replica(
        "marker-fenced-by-an-uncommitted-epoch",
        "participant:Participant._append_marker",
        "await self._group.read_index()",
        "raise",
    ),
    _replica(
        "marker-leaves-the-permission",
        "leader_transactions:LeaderTransactions.record_marker",
        "self._permitted.pop(producer_id, None)",
        "pass",
    ),
    _replica(
        "marker-leaves-the-guard",
        "leader_transactions:LeaderTransactions.record_marker",
        "guard.ended = max(guard.ended, marker.number or _ANY)",
        "pass",
    ),
    _replica(
        "ended-transaction-is-joined",
        "leader_transactions:LeaderTransactions.permit",
        " or table.has_ended(producer_id, number)",
        "",
    ),
    _replica(
        "deposed-coordinator-confirms",
        "leader_transactions:LeaderTransactions.permit",
        "if confirmed.coordinator_epoch < self.coordinator_epoch(producer_id):",
        "if False:",
    ),
    _replica(
        "higher-epoch-joins-an-open-one",
        "leader_transactions:LeaderTransactions._check_epoch",
        "if epoch > known_epoch and not may_be_open and self.is_open(producer_id):",
        "if False:",
    ),
    _replica(
        "marker-of-an-older-coordinator",
        "leader_transactions:LeaderTransactions.check_marker",
        "if marker.coordinator_epoch < coordinator_epoch:",
        "if False:",
    ),
    _replica(
        "marker-of-an-older-epoch",
        "leader_transactions:LeaderTransactions.check_marker",
        "if marker.producer_epoch < known_epoch:",
        "if False:",
    ),
    _replica(
        "repeated-marker-ends-the-next-transaction",
        "participant:Participant.end_transaction",
        "if self._transactions.has_ended(marker):",
        "if False:",
    ),
    _replica(
        "numbers-lost-at-a-roll",
        "transaction_table:TransactionTable.pack_rows",
        "*self.last_marker(each)",
        "self.last_marker(each).coordinator_epoch, 0",
    ),
    _replica(
        "number-lost-by-an-operators-marker",
        "transaction_table:TransactionTable.end",
        "max(marker.number, self.last_marker(producer_id).number)",
        "marker.number",
    ),
    # outcomes
    _replica(
        "outcomes-end-at-a-roll",
        "aborted_transactions:AbortedTransactions._segments_from",
        "if each.next_offset > offset]",
        "if each.next_offset > offset][:1]",
    ),
    _replica(
        "undecided-counts-as-committed",
        "aborted_transactions:AbortedTransactions.find",
        "            if is_abort is None:",
        "            if False:",
    ),
    # retention and compaction
    _replica(
        "retention-above-an-open-one",
        "retention:Retention._limit_to_stable",
        "if offset <= stable:",
        "if True:",
        _CLEANING,
    ),
    _replica(
        "deletion-above-an-open-one",
        "record_deletion:RecordDeletion._check_transactions",
        "first_open is not None and offset > first_open",
        "False",
        _CLEANING,
    ),
    _replica(
        "mark-above-an-open-one",
        "compaction_marks:CompactionMarks._dirty_segments",
        " or newer.base_offset > stable",
        "",
        _CLEANING,
    ),
    _storage(
        "compaction-drops-a-marker",
        "compaction:Compaction._is_marker_kept",
        "return header.next_offset >= min(self._end, self._mark) or header.base_offset >= max(",
        "return header.next_offset >= min(self._end, self._mark) and header.base_offset >= max(",
    ),
    _storage(
        "aborted-record-replaces-an-older-one",
        "compaction:Compaction._index_keys",
        "if header.is_transactional:",
        "if False:",
    ),
    _storage(
        "aborted-records-stay",
        "markers:AbortedBatches.has",
        "return at >= 0 and header.base_offset < self._ends[header.producer_id][at]",
        "return False",
    ),
    _storage(
        "commit-hides-a-newer-record",
        "compaction:_add_older",
        "if offset > newest.get(key, -1):",
        "if True:",
    ),
    _storage(
        "marker-before-the-rest-decides",
        "markers:AbortedBatches.decide_rest",
        "at >= offset and ",
        "",
    ),
    _storage(
        "markers-above-the-part-are-ignored",
        "compaction:Compaction._resolve_open_transactions",
        "for keys in committed:",
        "for keys in committed[:0]:",
    ),
    _storage(
        "unsound-mark-is-compacted",
        "compaction:Compaction._resolve_open_transactions",
        "if (first := aborted.first_undecided) is not None:",
        "if (first := aborted.first_undecided) is not None and False:",
    ),
)
