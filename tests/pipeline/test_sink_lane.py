"""Attempts of one task against a partition that checks sequences as brokers do: every row once under any schedule.

A schedule draws everything from one seed: two or three attempts with the same rows in other orders, answers that are
lost, batches that arrive late, attempts that fail and are repeated, a partition that forgets its producers."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from raftlog.client import Produced
from raftlog.errors import DuplicateSequence, OutOfOrderSequence, UnknownProducer
from raftlog.partitions.replica.producers import KnownProducer, apply_batch, check_sequence
from raftlog.pipeline.errors import WriteForgotten
from raftlog.pipeline.sink.identity import WriteIdentity
from raftlog.pipeline.sink.lane import FoundBatch, Scan, SendBatch, SinkLane
from raftlog.pipeline.sink.rows import Content, Rows, digest
from raftlog.pipeline.sink.unmatched import UnmatchedRecords
from raftlog.records import BatchHeader
from raftlog.types import Offset, TopicPartition

PLACE = TopicPartition("orders", 0)
IDENTITY = WriteIdentity("query", 3, 70_000)
SCHEDULES = 300
STEPS_MAX = 3_000


class Stored(NamedTuple):
    """Stored batch with its base offset and contents."""

    send: SendBatch
    base_offset: int
    contents: list[Content]


class Partition:
    """Leader with one log, which may expire its producers."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.known: dict[int, KnownProducer] = {}
        self.contents = Counter[bytes]()
        self.end = 0
        self.old_end = 0
        """End of the records that were committed a day ago."""

    def append(self, send: SendBatch) -> Produced:
        count = len(send.rows)
        header = BatchHeader(
            0, 0, 0, 2, 0, 0, count - 1, 0, 0, send.producer_id, send.producer_epoch, send.sequence, count
        )
        before = self.known.get(send.producer_id)
        original = check_sequence("orders/0", before, header)
        if original is not None:
            return Produced(Offset(original.offset), Offset(original.offset + count), True)
        base, self.end = self.end, self.end + count
        contents = list(send.rows.contents())
        self.batches.append(Stored(send, base, contents))
        self.contents.update(map(digest, contents))
        self.known[send.producer_id] = apply_batch(before, header, base)
        return Produced(Offset(base), Offset(self.end))

    def scan(self, identity: WriteIdentity, start: int, end: int) -> Iterator[FoundBatch]:
        generations = identity.generations()
        for send, base, contents in self.batches:
            if start <= base < end and send.producer_epoch == identity.producer_epoch:
                digests = b"".join(map(digest, contents))
                yield FoundBatch(generations[send.producer_id], send.sequence, len(contents), digests)


class Attempt:
    """Attempt of a task to write its rows, in an order of its own."""

    def __init__(self, rng: random.Random, contents: list[Content], *, must_scan: bool) -> None:
        self._rows = rng.sample(contents, len(contents)) if rng.random() < 0.7 else contents
        self._at = 0
        self.lane = SinkLane(PLACE, IDENTITY, Offset(0), rng.choice((80, 160, 500)), must_scan=must_scan)
        self.is_done = False

    def step(self, rng: random.Random, partition: Partition, late: list[SendBatch]) -> None:
        """Give rows to the lane, or do what it asks for next."""
        if self._at < len(self._rows) and rng.random() < 0.5:
            count = rng.randint(1, 9)
            self.lane.add(Rows.from_contents(self._rows[self._at : self._at + count]))
            self._at += count
            return
        is_last = self._at >= len(self._rows)
        do = self.lane.next(flush=is_last)
        if isinstance(do, Scan):
            # A new leader may still have a lower high watermark.
            end = max(do.start, partition.end if rng.random() < 0.8 else partition.old_end)
            self.lane.on_scanned(partition.scan(IDENTITY, do.start, end), Offset(end))
        elif isinstance(do, SendBatch):
            self._send(do, rng, partition, late)
        else:
            self.is_done = is_last

    def _send(self, send: SendBatch, rng: random.Random, partition: Partition, late: list[SendBatch]) -> None:
        """Send a batch that arrives, arrives late or is lost; its answer may be lost too."""
        fate = rng.random()
        if fate < 0.1:
            return  # never arrives
        if fate < 0.2:
            late.append(send)
            return
        try:
            produced = partition.append(send)
        except (DuplicateSequence, OutOfOrderSequence, UnknownProducer) as error:
            self.lane.on_refused(error)
        else:
            if fate > 0.35:
                self.lane.on_sent(produced)


def deliver_late(partition: Partition, send: SendBatch) -> None:
    try:
        partition.append(send)
    except (DuplicateSequence, OutOfOrderSequence, UnknownProducer):
        return  # nothing waits for the answer


def expire_producers(partition: Partition, attempts: list[Attempt], late: list[SendBatch]) -> None:
    """Advance by a day: no request is in flight, and attempts without a write scan again (see `sender`)."""
    late.clear()
    partition.known.clear()
    partition.old_end = partition.end
    for attempt in attempts:
        if attempt.lane.sequence == 0:
            attempt.lane.scan_first()


def run_schedule(seed: int) -> None:
    """Let attempts of a task write the same rows, with random deaths and late requests; all rows must be stored."""
    rng = random.Random(seed)
    contents: list[Content] = [
        (rng.randint(0, 2), rng.choice((None, b"", b"k")), bytes([rng.randint(0, 9)]), []) for _ in range(40)
    ]
    wanted = Counter(map(digest, contents))
    partition, late = Partition(), list[SendBatch]()
    attempts = [Attempt(rng, contents, must_scan=False) for _ in range(rng.randint(1, 3))]
    deaths, forgets = rng.randint(0, 3), rng.randint(0, 2)
    for _ in range(STEPS_MAX):
        if all(attempt.is_done for attempt in attempts):
            break
        attempt = rng.choice(attempts)
        attempt.step(rng, partition, late)
        if late and rng.random() < 0.2:
            deliver_late(partition, late.pop(rng.randrange(len(late))))
        if deaths and rng.random() < 0.02:
            deaths -= 1
            attempts[rng.randrange(len(attempts))] = Attempt(rng, contents, must_scan=forgets < 2)
        if forgets and rng.random() < 0.02:
            forgets -= 1
            expire_producers(partition, attempts, late)
        assert partition.contents <= wanted, "the log holds a row more often than the input"
        if attempt.is_done:
            assert partition.contents == wanted, "an attempt ended before every row was there"
            assert not attempt.lane.held
            assert attempt.lane.rows_done == len(contents)
    assert all(attempt.is_done for attempt in attempts), "no end"


def test_every_row_is_stored_once_in_every_schedule() -> None:
    for seed in range(SCHEDULES):
        try:
            run_schedule(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def make_rows(*values: bytes) -> Rows:
    return Rows.from_contents((1, None, value, []) for value in values)


def make_found_batch(sequence: int, *values: bytes, generation: int = 0, span: int | None = None) -> FoundBatch:
    digests = b"".join(digest((1, None, value, [])) for value in values)
    return FoundBatch(generation, sequence, len(values) if span is None else span, digests)


def make_lane(**settings: bool) -> SinkLane:
    return SinkLane(PLACE, IDENTITY, Offset(0), 10_000, **settings)


def test_a_duplicate_answer_is_no_proof_of_our_own_rows() -> None:
    """Another attempt may have sent other rows under the same sequences."""
    writer = make_lane()
    writer.add(make_rows(b"a", b"b"))
    first = writer.next(flush=True)
    assert isinstance(first, SendBatch)
    writer.on_sent(Produced(Offset(0), Offset(2), True))
    assert writer.next(flush=True) == Scan(Offset(0))
    assert writer.on_scanned([make_found_batch(0, b"b", b"c")], Offset(2))
    second = writer.next(flush=True)
    assert isinstance(second, SendBatch)
    assert (second.rows.values, second.sequence) == ([b"a"], 2)
    assert len(writer.held) == 1
    writer.add(make_rows(b"c"))
    assert (len(writer.held), writer.rows_done) == (0, 2)


def test_deleted_records_are_not_skipped() -> None:
    writer = make_lane(must_scan=True)
    with pytest.raises(WriteForgotten, match=r"orders/0: .*acceptMissingRecord"):
        writer.on_scanned([make_found_batch(5, b"a")], Offset(9))
    with pytest.raises(WriteForgotten, match="deleted or compacted since"):
        make_lane(must_scan=True).on_scanned([make_found_batch(0, b"a", span=3)], Offset(9))
    with pytest.raises(WriteForgotten, match="a second time"):
        make_lane(must_scan=True).on_scanned([make_found_batch(0, b"a"), make_found_batch(0, b"a")], Offset(9))
    writer = make_lane(must_scan=True, accepts_missing=True)
    writer.on_scanned([make_found_batch(5, b"a")], Offset(9))
    writer.add(make_rows(b"a", b"b"))
    assert writer.next(flush=True) == SendBatch(make_rows(b"b"), IDENTITY.producer_id(), IDENTITY.producer_epoch, 6)


def test_a_partition_without_the_producer_is_written_under_the_next_generation() -> None:
    writer = make_lane()
    writer.add(make_rows(b"a"))
    writer.next(flush=True)
    writer.on_sent(Produced(Offset(0), Offset(1)))
    writer.add(make_rows(b"b"))
    writer.next(flush=True)
    writer.on_refused(UnknownProducer("forgotten"))
    assert writer.next(flush=True) == Scan(Offset(1))
    writer.on_scanned([], Offset(1))
    again = writer.next(flush=True)
    assert isinstance(again, SendBatch)
    assert (again.producer_id, again.sequence) == (IDENTITY.producer_id(1), 0)


def test_batches_are_cut_by_size() -> None:
    writer = SinkLane(PLACE, IDENTITY, Offset(0), 300)
    writer.add(make_rows(*[bytes([number]) * 64 for number in range(7)], b"x" * 1_000, b"y"))
    cuts = []
    while isinstance(do := writer.next(flush=True), SendBatch):
        cuts.append([len(value or b"") for value in do.rows.values])
        writer.on_sent(Produced(Offset(0), Offset(0)))
    assert cuts == [[64, 64, 64], [64, 64, 64], [64], [1000], [1]]
    assert writer.waiting_bytes == 0


def test_unmatched_records_are_a_multiset() -> None:
    rng = random.Random(1)
    for _ in range(200):
        digests = [bytes([rng.randint(0, 5)]) * 16 for _ in range(12)]
        held, naive = UnmatchedRecords(), Counter[bytes]()
        for _ in range(40):
            if rng.random() < 0.3:
                some = digests[: rng.randint(0, 6)]
                held.put(b"".join(some))
                naive.update(some)
            wanted = rng.choice(digests)
            assert held.take(wanted) == (naive[wanted] > 0)
            naive -= Counter([wanted])
            assert (len(held), bool(held)) == (naive.total(), naive.total() > 0)


def test_digests_distinguish_contents() -> None:
    contents: list[Content] = [
        (1, None, b"", []),
        (1, b"", None, []),
        (1, b"", b"", []),
        (2, b"", b"", []),
        (1, b"a", b"b", []),
        (1, b"ab", b"", []),
        (1, b"", b"", [("a", None)]),
        (1, b"", b"", [("a", b"")]),
        (1, b"", b"", [("a", b""), ("b", b"")]),
        (1, b"", b"", [("b", b""), ("a", b"")]),
    ]
    assert len({digest(content) for content in contents}) == len(contents)


def test_producer_ids_of_identities_are_distinct() -> None:
    ids = {
        WriteIdentity(name, partition, epoch).producer_id(generation)
        for name in ("a", "b")
        for partition in range(20)
        for epoch in (0, 1 << 15, 1 << 16)
        for generation in (0, 1)
    }
    assert len(ids) == 2 * 20 * 3 * 2
    assert all(1 << 62 <= each < 1 << 63 for each in ids)
    assert IDENTITY.producer_id() == WriteIdentity("query", 3, 65_536).producer_id()
    assert (IDENTITY.producer_epoch, WriteIdentity("query", 3, 70_001).producer_epoch) == (4464, 4465)
