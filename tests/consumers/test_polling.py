"""One poll over several partitions: amount, order and duration, also if some partitions cannot be read."""

import asyncio

import pytest

from raftlog.errors import InvalidBatch, NoLeader, OffsetOutOfRange, UnknownTopic
from raftlog.partitions.consumers.poll import Poll, PollLimits
from raftlog.partitions.consumers.positions import FetchPosition
from raftlog.partitions.consumers.taken_records import take_records
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.results import Fetched
from raftlog.records import Compression, ControlKind, NewRecord, build_batch, build_control_batch, read_records, stamp
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.types import Offset, OffsetRange, Term, TopicPartition
from tests.waiting import until

P = [TopicPartition("t", number) for number in range(200)]


def make_batch(base, *values, **options):
    found = build_batch([NewRecord(value) for value in values], **options)
    stamp(found, Offset(base), Term(3))
    return memoryview(found)


class FakeReader:
    """Reader whose partitions are lists of batches, or errors; an empty partition makes it wait."""

    def __init__(self, **partitions):
        self.logs = {int(name[1:]): log for name, log in partitions.items()}
        self.came = asyncio.Event()
        self.asked: list[tuple[int, int]] = []
        self.waiting = 0

    async def fetch(self, topic, partition, offset, *, max_bytes, min_bytes, deadline):
        self.asked.append((partition, max_bytes))
        log = self.logs.get(partition, [])
        if isinstance(log, Exception):
            raise log
        if log == "nobody leads":
            await asyncio.Event().wait()  # for ever
        if min_bytes and not log:
            self.waiting += 1
            try:
                async with asyncio.timeout_at(deadline):
                    await self.came.wait()
                    await asyncio.sleep(0)
            except TimeoutError:
                pass
            finally:
                self.waiting -= 1
        found = self.logs.get(partition, [])
        return Fetched(list(found), Offset(100), Offset(0), 3)

    async def offsets(self, topic, partition, *, linearizable=False, deadline):
        return OffsetRange(Offset(0), Offset(100))

    async def offset_for_timestamp(self, topic, partition, timestamp_ms, *, deadline):
        return None


async def poll(reader, count, ms=50, *, min_bytes=1, max_bytes=1_000, interrupted=None, stored=1 << 20):
    limits = PollLimits(min_bytes, max_bytes, stored, BatchOpener(1 << 20))
    standings = [FetchPosition(P[number], Offset(0)) for number in range(count)]
    return await Poll(reader, limits, deadline_in(ms), interrupted or asyncio.Event()).run(standings)


def decode_values(taken):
    return [
        record.value
        for piece in taken.batches
        for record in read_records(piece)
        if taken.offset <= record.offset < taken.end
    ]


def values_by_partition(polled):
    return {partition.partition: decode_values(taken) for partition, taken in polled.taken}


async def test_all_partitions_are_fetched_and_present_records_are_returned_at_once():
    reader = FakeReader(p0=[make_batch(0, b"a")], p1=[], p5=[make_batch(0, b"b", b"c")])
    polled = await poll(reader, 6, ms=60_000)
    assert values_by_partition(polled) == {0: [b"a"], 5: [b"b", b"c"]}
    assert not polled.failed


async def test_a_poll_without_records_waits_for_the_first_one():
    reader = FakeReader()
    polling = asyncio.ensure_future(poll(reader, 3, ms=60_000))
    await until(lambda: reader.waiting >= 3)
    reader.logs[1] = [make_batch(0, b"late")]
    reader.came.set()
    assert values_by_partition(await polling) == {1: [b"late"]}


async def test_a_poll_waits_for_the_minimum_of_bytes():
    reader = FakeReader(p0=[make_batch(0, b"abc")])
    polling = asyncio.ensure_future(poll(reader, 3, ms=60_000, min_bytes=5))
    await until(lambda: reader.waiting >= 2)
    reader.logs[2] = [make_batch(0, b"de")]
    reader.came.set()
    assert values_by_partition(await polling) == {0: [b"abc"], 2: [b"de"]}


async def test_an_interrupted_poll_returns_the_present_records():
    reader, interrupted = FakeReader(p0=[make_batch(0, b"abc")]), asyncio.Event()
    polling = asyncio.ensure_future(poll(reader, 3, ms=60_000, min_bytes=500, interrupted=interrupted))
    await until(lambda: reader.waiting >= 2)
    interrupted.set()
    assert values_by_partition(await polling) == {0: [b"abc"]}
    assert reader.waiting == 0


async def test_a_poll_ends_at_its_deadline():
    assert (await poll(FakeReader(), 3, ms=5)).taken == []
    assert values_by_partition(await poll(FakeReader(p2=[make_batch(0, b"x")]), 3, ms=0)) == {2: [b"x"]}


async def test_partitions_beyond_the_limit_of_waiting_fetches_take_turns():
    reader = FakeReader()
    polling = asyncio.ensure_future(poll(reader, 100, ms=60_000))
    await until(lambda: any(number == 99 for number, _ in reader.asked[100:]))
    reader.logs[99] = [make_batch(0, b"last")]
    reader.came.set()
    assert values_by_partition(await polling) == {99: [b"last"]}


async def test_an_unreadable_partition_delays_no_other():
    reader = FakeReader(
        p0="nobody leads", p1=NoLeader("no"), p2=UnknownTopic("no"), p3=[make_batch(0, b"x")], p9=[make_batch(0, b"y")]
    )
    polled = await poll(reader, 10, ms=60_000)
    assert values_by_partition(polled) == {3: [b"x"], 9: [b"y"]}
    assert {partition.partition: type(error).__name__ for partition, error in polled.failed.items()} == {
        0: "Unavailable",
        1: "NoLeader",
        2: "UnknownTopic",
    }


async def test_a_poll_waits_for_a_partition_without_a_leader():
    reader = FakeReader(p0=NoLeader("not yet"), p1=[])
    polling = asyncio.ensure_future(poll(reader, 2, ms=60_000))
    await until(lambda: reader.waiting)
    reader.logs[0] = []
    await until(lambda: reader.waiting == 2)
    reader.logs[0] = [make_batch(0, b"x")]
    reader.came.set()
    polled = await polling
    assert values_by_partition(polled) == {0: [b"x"]}
    assert not polled.failed


async def test_a_position_out_of_range_is_reported():
    reader = FakeReader(p0=OffsetOutOfRange(0, Offset(5), Offset(9)))
    polled = await poll(reader, 2, ms=60_000)  # and nothing is waited for
    assert isinstance(polled.failed[P[0]], OffsetOutOfRange)


async def test_an_answer_may_end_inside_a_batch():
    reader = FakeReader(p0=[make_batch(0, b"aaaa", b"bbbb"), make_batch(2, b"cccc")], p1=[make_batch(0, b"dddd")])
    polled = await poll(reader, 2, max_bytes=9)
    ((partition, taken),) = polled.taken
    assert (partition.partition, taken.offset, taken.end, taken.records, taken.size) == (0, 0, 2, 2, 8)
    polled = await poll(reader, 2, max_bytes=12)
    assert values_by_partition(polled) == {0: [b"aaaa", b"bbbb", b"cccc"]}


async def test_a_record_larger_than_the_limit_is_returned_alone():
    polled = await poll(FakeReader(p0=[make_batch(0, b"a" * 500, b"b")]), 1, max_bytes=1)
    assert values_by_partition(polled) == {0: [b"a" * 500]}


async def test_the_number_of_stored_bytes_is_bounded():
    big = [make_batch(0, b"x" * 1000)]
    polled = await poll(FakeReader(**{f"p{number}": big for number in range(50)}), 50, max_bytes=1 << 20, stored=5_000)
    assert len(polled.taken) == 5


# what is taken of batches


async def test_records_before_the_position_are_left_out():
    taken = await take_records([make_batch(10, b"a", b"b", b"c")], Offset(11), 100, BatchOpener(1_000))
    assert (decode_values(taken), taken.end, taken.leader_epoch) == ([b"b", b"c"], 13, 3)
    assert (await take_records([make_batch(10, b"a")], Offset(11), 100, BatchOpener(1_000))).end == 11


async def test_compacted_offsets_are_skipped():
    gap = build_control_batch(ControlKind.GAP, b"", 0, next_offset=Offset(0), offsets_spanned=4)
    taken = await take_records([memoryview(gap), make_batch(4, b"x")], Offset(0), 100, BatchOpener(1_000))
    assert (decode_values(taken), taken.end) == ([b"x"], 5)


async def test_an_undecodable_batch_ends_an_answer_and_is_the_next_error():
    good, bad = make_batch(0, b"a"), make_batch(1, b"b" * 5_000, compression=Compression.GZIP)
    taken = await take_records([good, bad], Offset(0), 100_000, BatchOpener(1_000))
    assert (decode_values(taken), taken.end) == ([b"a"], 1)
    with pytest.raises(InvalidBatch, match="at offset 2"):
        await take_records([bad, make_batch(2, b"c")], Offset(1), 100_000, BatchOpener(1_000))
    # An answer of other partitions does not make it a smaller error.
    with pytest.raises(InvalidBatch):
        await take_records([bad], Offset(1), 100_000, BatchOpener(1_000), at_least_one=False)


async def test_a_full_answer_takes_nothing_from_further_partitions():
    taken = await take_records([make_batch(0, b"abc")], Offset(0), 2, BatchOpener(1_000), at_least_one=False)
    assert (taken.end, taken.records) == (0, 0)
