"""Table of transactions: open ones in the order of their offsets, in snapshots, and joined with what a roll begins."""

import pytest

from raftlog.errors import FormatError
from raftlog.partitions.replica.transaction_table import TransactionTable, read_rows


def table_of(opened: dict[int, int], ended: dict[int, int]) -> TransactionTable:
    """Return a table with these open transactions, by first offset, and ended ones, by coordinator epoch."""
    table = TransactionTable()
    for producer_id, coordinator_epoch in ended.items():
        table.end(producer_id, coordinator_epoch)
    for producer_id, offset in opened.items():
        table.begin(producer_id, offset)
    return table


def content(table: TransactionTable) -> tuple[list[tuple[int, int]], dict[int, int]]:
    return list(table.open.items()), table.coordinator_epochs


def test_the_first_open_offset_is_the_least() -> None:
    table = table_of({7: 10, 8: 12, 9: 15}, {})
    table.begin(7, 20)
    assert table.first_open_offset == 10
    table.end(7, 1)
    assert table.first_open_offset == 12
    table.begin(7, 21)
    table.end(8, 1)
    assert table.first_open_offset == 15
    table.end(9, 1)
    table.end(7, 2)
    assert table.first_open_offset is None
    assert table.coordinator_epochs == {7: 2, 8: 1, 9: 1}


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
    assert content(earlier) == ([(8, 12), (9, 21), (6, 22)], {5: 1, 7: 2, 9: 3})
