"""Newest records of keys in replicas with different compaction marks, with entries made by hand."""

import pytest

from raftlog.records import ControlKind, NewRecord, build_batch, build_control_batch
from raftlog.records.header import stamp
from raftlog.runtime.log.control_entries import CompactionMark, encode_compacted_to
from raftlog.runtime.log.newest_records import NewestRecords, OfflineEntry, find_difference
from raftlog.types import Index, Offset, Term
from tests.jepsen.test_newest import as_transaction, make_marker
from tests.undecodable import SMALL, Undecodable

END = 10
"""Entries below it were compacted somewhere; entry and offset are the same number here."""


def entry(offset: int, key: bytes | None, value: bytes | None = b"x") -> OfflineEntry:
    batch = build_batch([NewRecord(value, key)])
    stamp(batch, Offset(offset), Term(1))
    return OfflineEntry(Index(offset), bytes(batch), f"position {offset}", None)


def mark(offset: int, compacted_to: int) -> OfflineEntry:
    payload = encode_compacted_to(CompactionMark(Offset(compacted_to), Offset(0)))
    batch = build_control_batch(ControlKind.COMPACTED_TO, payload, 1, next_offset=Offset(offset))
    return OfflineEntry(Index(offset), bytes(batch), f"position {offset}", None)


def difference(*logs: list[OfflineEntry], marks: list[OfflineEntry] | None = None) -> str | None:
    """Return the difference of logs that all end with these marks (default: a mark above all entries)."""
    logs = tuple([*log, *(marks if marks is not None else [mark(20, 15)])] for log in logs)
    newest = [NewestRecords(Index(END), Offset(0)) for _ in logs]
    for each, log in zip(newest, logs, strict=True):
        entries = iter(log)
        each.take(next(entries, None), entries)
    return find_difference([f"log {number}" for number in range(len(logs))], newest, lambda number: iter(logs[number]))


FIRST, OTHER, LATER = entry(0, b"other"), entry(3, b"k"), entry(12, b"k")


def test_records_above_the_highest_mark_must_not_be_missing() -> None:
    whole, lacking = [FIRST, OTHER, LATER], [FIRST, LATER]
    assert "differs at offset 3: " in str(difference(whole, lacking, marks=[]))
    assert "differs at offset 3: " in str(difference(whole, lacking, marks=[mark(20, 12), mark(21, 11)]))
    assert difference(whole, lacking, marks=[mark(20, 13), mark(21, 11)]) is None
    one_knows = difference([*whole, mark(20, 13)], lacking, marks=[])
    assert one_knows is None, "it had compacted by a mark that its own disk had lost"


@pytest.mark.parametrize("older", [[], [entry(1, b"k")]])
def test_records_replaced_after_the_end_may_be_missing_below(older: list[OfflineEntry]) -> None:
    assert difference([FIRST, OTHER, LATER], [FIRST, *older, LATER], [FIRST, OTHER, LATER]) is None
    for logs in ([FIRST, OTHER, LATER], [FIRST, *older]), ([FIRST, *older], [FIRST, OTHER, LATER]):
        assert "differs at offset 3: " in str(difference(*logs)), "the other one has no later record of the key"
    removed = entry(12, b"k", None)
    assert difference([FIRST, OTHER, removed], [FIRST, *older, removed]) is None


def test_a_different_record_or_one_without_a_key_is_a_difference() -> None:
    altered = entry(3, b"k", b"altered")
    assert "differs at offset 3: " in str(difference([FIRST, OTHER, LATER], [FIRST, altered, LATER]))
    without = entry(3, None)
    assert "differs at offset 3: log 0, and log 1" in str(difference([FIRST, without, LATER], [FIRST, LATER]))


@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
def test_an_undecodable_batch_is_compared_byte_for_byte_and_replaces_no_key(sent: Undecodable) -> None:
    stored = bytearray(sent.batch)
    stamp(stored, Offset(5), Term(1))
    undecodable = OfflineEntry(Index(5), bytes(stored), "position 5", None)
    sound = entry(3, b"key")  # the key of the undecodable records
    whole = [FIRST, sound, undecodable]
    assert difference(whole, whole) is None
    assert "differs at offset 3: " in str(difference(whole, [FIRST, undecodable]))
    stored[-1] ^= 1
    altered = undecodable._replace(batch=bytes(stored))
    assert f"differs at offset {4 + sent.span}: " in str(difference(whole, [FIRST, sound, altered]))
    assert f"differs at offset {4 + sent.span}: " in str(difference(whole, [FIRST, sound]))


def test_records_of_aborted_transactions_do_not_count() -> None:
    aborted = OfflineEntry(Index(3), as_transaction(entry(3, b"k").batch, 7), "position 3", None)
    end = OfflineEntry(Index(12), make_marker(12, 7, is_commit=False), "position 12", None)
    committed = OfflineEntry(Index(12), make_marker(12, 7, is_commit=True), "position 12", None)
    whole, compacted = [entry(1, b"k"), aborted], [entry(1, b"k")]
    assert decided_difference([*whole, end], [*compacted, end]) is None
    assert "differs at offset 3: " in str(decided_difference([*whole, committed], [*compacted, committed]))


def decided_difference(*logs: list[OfflineEntry]) -> str | None:
    """Return the difference of logs after the outcomes of their transactions are known."""
    newest = [NewestRecords(Index(END), Offset(0)) for _ in logs]
    for each, log in zip(newest, logs, strict=True):
        entries = iter(log)
        each.take(next(entries, None), entries)
        each.decide_rest(iter(log))
    return find_difference([f"log {number}" for number in range(len(logs))], newest, lambda number: iter(logs[number]))
