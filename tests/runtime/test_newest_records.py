"""Newest records of keys, of replicas whose compaction came to different points, by entries made by hand."""

import pytest

from raftlog.records import NewRecord, build_batch
from raftlog.records.header import stamp
from raftlog.runtime.newest_records import FoundEntry, NewestRecords, difference_of
from raftlog.types import Index, Offset, Term

END = 10
"""Entries below it were compacted somewhere; entry and offset are the same number here."""


def entry(offset: int, key: bytes | None, value: bytes | None = b"x") -> FoundEntry:
    batch = build_batch([NewRecord(value, key)])
    stamp(batch, Offset(offset), Term(1))
    return FoundEntry(Index(offset), bytes(batch), f"position {offset}", None)


def difference(*logs: list[FoundEntry]) -> str | None:
    newest = [NewestRecords(Index(END), Offset(0)) for _ in logs]
    for each, log in zip(newest, logs, strict=True):
        entries = iter(log)
        each.take(next(entries, None), entries)
    return difference_of([f"log {number}" for number in range(len(logs))], newest, lambda number: iter(logs[number]))


FIRST, OTHER, LATER = entry(0, b"other"), entry(3, b"k"), entry(12, b"k")


@pytest.mark.parametrize("older", [[], [entry(1, b"k")]])
def test_what_is_replaced_behind_the_end_may_be_missing_below(older: list[FoundEntry]) -> None:
    assert difference([FIRST, OTHER, LATER], [FIRST, *older, LATER], [FIRST, OTHER, LATER]) is None
    for logs in ([FIRST, OTHER, LATER], [FIRST, *older]), ([FIRST, *older], [FIRST, OTHER, LATER]):
        assert "differs at offset 3: " in str(difference(*logs)), "the other one has no later record of the key"
    removed = entry(12, b"k", None)
    assert difference([FIRST, OTHER, removed], [FIRST, *older, removed]) is None


def test_another_record_at_the_offset_or_one_without_a_key_is_never_replaced() -> None:
    altered = entry(3, b"k", b"altered")
    assert "differs at offset 3: " in str(difference([FIRST, OTHER, LATER], [FIRST, altered, LATER]))
    without = entry(3, None)
    assert "differs at offset 3: log 0, and log 1" in str(difference([FIRST, without, LATER], [FIRST, LATER]))
