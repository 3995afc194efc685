"""Table of producers compared with a naive twin, and encoded as bytes."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import (
    DuplicateSequence,
    FormatError,
    OutOfOrderSequence,
    ProducerFenced,
    RaftlogError,
    UnknownProducer,
)
from raftlog.partitions.replica.expired_ids import NO_IDS, RANGES_MAX, ExpiredIds
from raftlog.partitions.replica.producers import (
    EXPIRED_MAX,
    ProducerTable,
    SnapshotRun,
    apply_batch,
    check_sequence,
    decode_expired,
    encode_expired,
)
from raftlog.records import BatchHeader, read_header
from raftlog.types import Index, Offset
from tests.layouts import read_layout
from tests.replica.producing import batch_of

SENT = st.tuples(
    st.just("send"), st.integers(0, 2), st.integers(0, 2), st.integers(-7, 3), st.integers(1, 3)
)  # producer, epoch, sequence relative to what follows, records
OTHER = st.one_of(
    st.tuples(st.just("expire"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("restore")),
    st.tuples(st.just("merge")),
)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=12))
def test_a_batch_changes_a_state_as_it_changes_the_table(sends: list[tuple[int, int]]) -> None:
    """Each send is the rise of the epoch and the number of records; states of the table are packed."""
    table, state, epoch, base = ProducerTable(), None, 0, 0
    for offset, (rise, count) in enumerate(sends):
        epoch, base = (epoch + 1, 0) if rise else (epoch, base)
        header = read_header(batch_of(base, *[b"v"] * count, epoch=epoch))
        table.append(header, Offset(offset))
        state = apply_batch(state, header, offset)
        assert table.get(7) == state
        base += count


class Twin:
    """Naive table of all writes of all producers, without bounds."""

    def __init__(self) -> None:
        self.written: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
        self.expired: set[int] = set()

    def next_sequence(self, producer: int) -> int:
        known = self.written.get(producer)
        return known[1][-1][1] + 1 if known else 0

    def check(self, producer: int, epoch: int, base: int, count: int) -> "int | type[RaftlogError] | None":
        """Return the offset of the original, the error, or None if the batch follows the last one."""
        known = self.written.get(producer)
        if known is None:
            return None if base == 0 and producer not in self.expired else UnknownProducer
        if epoch != known[0]:
            if epoch < known[0]:
                return ProducerFenced
            return None if base == 0 else OutOfOrderSequence
        for first, last, offset in known[1][-5:]:
            if (first, last) == (base, base + count - 1):
                return offset
        follows = self.next_sequence(producer)
        if base == follows:
            return None
        return OutOfOrderSequence if base > follows or base + count > follows else DuplicateSequence

    def append(self, producer: int, epoch: int, base: int, count: int, offset: int) -> None:
        known = self.written.get(producer)
        batches = known[1] if known is not None and known[0] == epoch else []
        self.written[producer] = epoch, [*batches, (base, base + count - 1, offset)]


def header_of(producer: int, epoch: int, base: int, count: int) -> BatchHeader:
    return read_header(batch_of(base, *[b""] * count, producer=producer, epoch=epoch))


def verdict(table: ProducerTable, header: BatchHeader) -> Any:
    try:
        producer_id = header.producer_id
        original = check_sequence("t/0", table.get(producer_id), header, is_forgotten=producer_id in table.forgotten)
    except RaftlogError as error:
        return type(error)
    return None if original is None else original.offset


def restore(table: ProducerTable, roll_index: int) -> ProducerTable:
    run = SnapshotRun()
    *pieces, last = table.snapshot(Index(roll_index))
    assert [run.take(piece) for piece in pieces] == [None] * len(pieces)
    whole = run.take(last)
    assert whole is not None
    assert whole[0] == roll_index
    return whole[1]


def test_the_least_recently_used_producer_is_first() -> None:
    """Expiry removes from the front, so a producer that writes moves to the end."""
    table = ProducerTable()
    for offset, (producer, sequence) in enumerate([(1, 0), (2, 0), (1, 1)]):
        table.append(read_header(batch_of(sequence, b"x", producer=producer)), Offset(offset))
    assert list(table) == [2, 1]


@given(st.lists(st.one_of(SENT, OTHER), max_size=60))
@settings(max_examples=60)
def test_verdicts_equal_those_of_an_unbounded_table(steps: list[Any]) -> None:
    table, twin, offset = ProducerTable(), Twin(), 0
    since, expired, at_roll = ProducerTable(), list[bytes](), ProducerTable()
    for step in steps:
        if step[0] == "send":
            _, producer, epoch, relative, count = step
            base = max(0, twin.next_sequence(producer) + relative)
            if relative == 3:
                base = 0
            header = header_of(producer, epoch, base, count)
            wanted = twin.check(producer, epoch, base, count)
            assert verdict(table, header) == wanted
            if wanted is None:
                twin.append(producer, epoch, base, count, offset)
                table.append(header, Offset(offset))
                since.append(header, Offset(offset))
                offset += count
        elif step[0] == "expire":
            _, producer, epoch = step
            payload = encode_expired([(producer, epoch)])
            table.expire(payload)
            since.expire(payload)
            expired.append(payload)
            twin.expired.add(producer)
            if producer in twin.written and twin.written[producer][0] <= epoch:
                del twin.written[producer]
        elif step[0] == "restore":
            table = restore(table, 7)
            at_roll, since = table.copy(), ProducerTable()
            expired.clear()
        else:  # what was met since the roll is put upon what the snapshot behind it says
            merged = since.copy()
            merged.put_below(restore(at_roll, 7), expired)
            assert [(each, merged.get(each)) for each in merged] == [(each, table.get(each)) for each in table]
            assert merged.forgotten.ranges == table.forgotten.ranges
            table = merged


def test_a_snapshot_has_the_documented_bytes() -> None:
    table = ProducerTable()
    for sequence in range(7):
        table.append(header_of(5, 3, sequence, 1), Offset(100 + sequence))
    [payload] = table.snapshot(Index(9))
    head, producer, batch = read_layout("snapshot"), read_layout("producer"), read_layout("producer batch")
    assert head.decode(payload[: head.size]) == {
        "version": 1,
        "subject": 2,
        "is_last": 1,
        "piece": 0,
        "roll_index": 9,
    }
    rest = payload[head.size :]
    assert rest[:4] == (1).to_bytes(4)
    told = producer.decode(rest[4 : 4 + producer.size])
    assert (told["producer_id"], told["producer_epoch"], told["batches"]) == (5, 3, 5)
    rest = rest[4 + producer.size :]
    assert len(rest) == 5 * batch.size
    assert batch.decode(rest[: batch.size]) == {"base_sequence": 2, "last_sequence": 2, "base_offset": 102}
    marks = encode_expired([(5, 3)])
    mark, expired = read_layout("expire_producers"), read_layout("expired producer")
    assert mark.decode(marks[: mark.size]) == {"version": 1, "count": 1}
    assert expired.decode(marks[mark.size :]) == {"producer_id": 5, "producer_epoch": 3}


def test_expired_ids_follow_the_first_piece_of_a_snapshot() -> None:
    table = ProducerTable()
    for producer in range(2_500):
        table.append(header_of(producer, 0, 0, 1), Offset(producer))
    table.expire(encode_expired([(producer, 0) for producer in (3, 4, 5, 9)]))
    pieces = list(table.snapshot(Index(9)))
    ranges, head = read_layout("expired ids"), read_layout("snapshot")
    rest = pieces[0][-(4 + 2 * ranges.size) :]
    assert rest[:4] == (2).to_bytes(4)
    assert ranges.decode(rest[4 : 4 + ranges.size]) == {"first": 3, "last": 5}
    assert ranges.decode(rest[4 + ranges.size :]) == {"first": 9, "last": 9}
    assert all(not pieces[at].endswith(rest) for at in (1, 2))
    again = restore(table, 9)
    assert again.forgotten.ranges == ((3, 5), (9, 9))
    assert list(again) == list(table)
    for producer in list(again):
        again.expire(encode_expired([(producer, 0)]))
    assert not again.is_empty
    [only] = again.snapshot(Index(9))
    assert len(only) == head.size + 4 + 4 + ranges.size
    for damaged in (only[:-1], only + b"x", only[:-16] + only[-8:] + only[-16:-8], only + only[-16:]):
        with pytest.raises(FormatError):
            SnapshotRun().take(damaged)


@given(st.lists(st.lists(st.integers(0, 3_000), min_size=1, max_size=300), max_size=8))
@settings(max_examples=40)
def test_no_expired_id_is_lost_and_few_others_are_refused(entries: list[list[int]]) -> None:
    forgotten, every = NO_IDS, set[int]()
    for entry in entries:
        forgotten = forgotten.with_ids(entry)
        every.update(entry)
        ranges = forgotten.ranges
        assert len(ranges) <= RANGES_MAX
        assert all(first <= last for first, last in ranges)
        assert all(earlier[1] + 1 < later[0] for earlier, later in pairwise(ranges))
        assert all(each in forgotten for each in every)
        assert max(every) + 1 not in forgotten
    others = [each for each in range(3_001) if each in forgotten and each not in every]
    if len(ExpiredIds(forgotten.ranges).ranges) < RANGES_MAX:
        assert others == []


def test_ranges_above_the_limit_are_joined_at_the_smallest_gaps() -> None:
    wide = [100_000 * each for each in range(1, RANGES_MAX)]
    forgotten = NO_IDS.with_ids([1, 3, 6, *wide])
    assert forgotten.ranges[:2] == ((1, 6), (100_000, 100_000))
    assert len(forgotten.ranges) == RANGES_MAX
    assert 50_000 not in forgotten


def test_a_snapshot_is_accepted_only_as_a_whole() -> None:
    table = ProducerTable()
    for producer in range(2_500):
        table.append(header_of(producer, 0, 0, 1), Offset(producer))
    pieces = list(table.snapshot(Index(9)))
    assert len(pieces) == 3
    run = SnapshotRun()
    assert [run.take(each) for each in (*pieces[:2], pieces[0], pieces[2])] == [None] * 4
    assert run.take(pieces[1]) is None
    whole = [run.take(each) for each in pieces][-1]
    assert whole is not None
    assert list(whole[1]) == list(range(2_500))
    [nothing] = ProducerTable().snapshot(Index(9))
    empty = SnapshotRun().take(nothing)
    assert empty is not None
    assert len(empty[1]) == 0


@pytest.mark.parametrize("cut", [0, 3, 14, 17, 18, 25, 37, 50, -1])
def test_truncated_input_is_refused(cut: int) -> None:
    table = ProducerTable()
    table.append(header_of(5, 3, 0, 1), Offset(100))
    [payload] = table.snapshot(Index(9))
    with pytest.raises(FormatError):
        SnapshotRun().take(payload[:cut])
    with pytest.raises(FormatError):
        SnapshotRun().take(payload + b"x")
    with pytest.raises(FormatError):
        list(decode_expired(encode_expired([(5, 3)])[: min(cut, 10)]))


def test_a_hundred_thousand_idle_producers_take_some_megabytes() -> None:
    import tracemalloc

    header = header_of(0, 0, 0, 1)
    tracemalloc.start()
    try:
        table = ProducerTable()
        for producer in range(20_000):
            table.append(header._replace(producer_id=producer), Offset(producer))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held * 5 < 20 << 20
    assert len(table) > EXPIRED_MAX
