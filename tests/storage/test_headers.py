"""Batch headers read without their batches."""

import pytest

from raftlog.records import BatchBuilder, NewRecord, read_header, stamp
from raftlog.storage.headers import scan_headers
from raftlog.types import Index, Position, Term
from tests.storage.test_replica_log import Replica


def write_log_with_producers(size: int) -> Replica:
    """Write a log where every third batch has a producer id, and each segment begins with a roll."""
    r = Replica()
    for term in (1, 2):
        r.roll(term)
        for number in range(60):
            builder = BatchBuilder(producer_id=-1 if number % 3 else 7, producer_epoch=0, base_sequence=number)
            builder.append(NewRecord(bytes(size)), 5)
            batch = builder.build()
            stamp(batch, r.log.next_offset, Term(term))
            r.log.append_stamped(memoryview(bytes(batch)), read_header(batch))
            r.entries.append(bytes(batch))
        r.write(publish=term == 1)
    return r


def find_headers(r: Replica, first: int) -> list[int]:
    """Return the indexes whose headers a scan from `first` finds; check the headers."""
    found: list[int] = []
    while first <= r.log.last_index:
        read, following = scan_headers(r.log, Index(first), r.log.last_index)
        assert [bytes(head) for _, head in read] == [r.entries[index - 1][:61] for index, _ in read]
        found += [index for index, _ in read]
        if following == first:
            break
        first = following
    return found


@pytest.mark.parametrize("size", [10, 3_000, 10_000])
def test_headers_of_producers_and_control_batches_are_found(size: int) -> None:
    r = write_log_with_producers(size)
    headers = [read_header(batch) for batch in r.entries]
    wanted = [index for index, each in enumerate(headers, 1) if each.is_control or each.producer_id >= 0]
    assert len(wanted) == 42
    assert find_headers(r, 1) == wanted
    assert find_headers(r, 30) == [index for index in wanted if index >= 30]


@pytest.mark.parametrize("size", [10, 10_000])
def test_a_header_that_contradicts_its_row_ends_the_search(size: int) -> None:
    r = write_log_with_producers(size)
    row = r.log.row_at(Index(10))
    file = r.log.segment_of_index(10).files.log
    byte = file.read(row.position + 50, 1)
    file.write(Position(row.position + 50), [bytes([byte[0] ^ 1])])
    assert find_headers(r, 1) == [1, 2, 5, 8]
    assert scan_headers(r.log, Index(10), Index(12)) == ([], 10)
