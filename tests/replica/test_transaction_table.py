"""Table of transactions: open ones in the order of their offsets, in snapshots, and joined with what a roll begins."""

import pytest

from raftlog.errors import FormatError
from raftlog.partitions.replica.transaction_table import TransactionTable, read_rows
from raftlog.records import NO_NUMBER, MarkerValue


def marker_of(coordinator_epoch: int) -> MarkerValue:
    return MarkerValue(coordinator_epoch, 10 * coordinator_epoch)


def table_of(opened: dict[int, int], ended: dict[int, int]) -> TransactionTable:
    """Return a table with these open transactions, by first offset, and ended ones, by coordinator epoch.

    The number of each ended one is ten times the epoch."""
    table = TransactionTable()
    for producer_id, coordinator_epoch in ended.items():
        table.end(producer_id, marker_of(coordinator_epoch))
    for producer_id, offset in opened.items():
        table.begin(producer_id, offset)
    return table


def content(table: TransactionTable) -> tuple[list[tuple[int, int]], dict[int, MarkerValue]]:
    return list(table.open.items()), table.last_markers


def test_the_first_open_offset_is_the_least() -> None:
    table = table_of({7: 10, 8: 12, 9: 15}, {})
    table.begin(7, 20)
    assert table.first_open_offset == 10
    table.end(7, marker_of(1))
    assert table.first_open_offset == 12
    table.begin(7, 21)
    table.end(8, marker_of(1))
    assert table.first_open_offset == 15
    table.end(9, marker_of(1))
    table.end(7, marker_of(2))
    assert table.first_open_offset is None
    assert table.last_markers == {7: (2, 20), 8: (1, 10), 9: (1, 10)}


def test_a_transaction_has_ended_up_to_the_number_of_the_last_marker() -> None:
    table = table_of({}, {7: 2})
    assert [table.has_ended(7, number) for number in (1, 19, 20, 21)] == [True, True, True, False]
    assert not table.has_ended(8, 1)
    assert not table.has_ended(7, NO_NUMBER)
    table.end(7, MarkerValue(3, NO_NUMBER))
    assert table.last_marker(7) == (3, 20)


def test_a_snapshot_restores_the_table() -> None:
    table = table_of({9: 10, 7: 12}, {8: 3, 7: 2})
    payload = b"before" + table.pack_rows([7, 8]) + table.pack_rows([9, 10])
    rows, position = read_rows(payload, 6)
    more, end = read_rows(payload, position)
    assert end == len(payload)
    assert content(TransactionTable([*rows, *more])) == content(table)
    assert table.pack_rows([10]) == b""


def test_a_cut_snapshot_is_refused() -> None:
    payload = table_of({7: 12}, {}).pack_rows([7])
    for size in range(1, len(payload)):
        with pytest.raises(FormatError):
            read_rows(payload[:size], 0)


def test_only_transactions_without_a_later_marker_stay_open() -> None:
    earlier = table_of({7: 10, 8: 12, 9: 14}, {5: 1})
    later = table_of({8: 20, 9: 21, 6: 22}, {7: 2, 9: 3})
    earlier.add_later(later)
    assert content(earlier) == ([(8, 12), (9, 21), (6, 22)], {5: (1, 10), 7: (2, 20), 9: (3, 30)})
