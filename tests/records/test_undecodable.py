"""Batches whose records cannot be decoded: one error with offsets, after the decodable records."""

import mmap
import pickle
from collections.abc import Callable

import pytest

from raftlog.errors import InvalidBatch, UndecodableBatch
from raftlog.records import Record, build_batch, read_header, read_records, stamp, validate_client_batches
from raftlog.types import Buffer, Offset, Term, TopicPartition
from tests.undecodable import SMALL, Undecodable, batch_of, make_bombs, read_until_error, record

BASE = 1_000


def stamp_batch(sent: Undecodable) -> bytearray:
    batch = bytearray(sent.batch)
    stamp(batch, Offset(BASE), Term(1))
    return batch


def at_the_end_of_a_map(batch: bytearray) -> Buffer:
    """Place the batch at the very end of a mapped page, where a read beyond it crashes the process."""
    pages = mmap.mmap(-1, -(-len(batch) // mmap.PAGESIZE) * mmap.PAGESIZE)
    pages[-len(batch) :] = bytes(batch)
    return memoryview(pages)[-len(batch) :]


@pytest.mark.parametrize(
    "held", [bytes, bytearray, memoryview, at_the_end_of_a_map], ids=["bytes", "bytearray", "view", "map"]
)
@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
def test_an_undecodable_batch_raises_one_error_with_the_next_offset(
    sent: Undecodable, held: Callable[[bytearray], Buffer]
) -> None:
    found, error = read_until_error(read_records(held(stamp_batch(sent))))
    assert [each.offset for each in found] == [BASE + number for number in range(sent.sound_records)][: len(found)]
    assert sent.sound_records - len(found) in (0, 1), "one record may be held back when bytes follow it"
    assert (error.base_offset, error.offset, error.next_offset) == (BASE, BASE + len(found), BASE + sent.span)
    assert error.offset < error.next_offset
    assert str(error.next_offset) in str(error)


@pytest.mark.parametrize("sent", SMALL, ids=[each.name for each in SMALL])
def test_a_leader_accepts_undecodable_batches(sent: Undecodable) -> None:
    """The catalogue must have only batches that a leader would store."""
    [(_, batch)] = validate_client_batches(sent.batch, 1 << 20)
    assert batch == sent.batch


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_decompression_bomb_is_refused_early(codec: str) -> None:
    [sent] = [bomb for bomb in make_bombs() if bomb.name == f"{codec} bomb"]
    assert len(sent.batch) < 400_000
    assert read_until_error(read_records(sent.batch))[0] == []


def test_the_reader_bounds_the_decompressed_size() -> None:
    batch = next(each for each in SMALL if each.name == "gzip with a value of 2^63-1 bytes").batch
    with pytest.raises(UndecodableBatch, match="decompress to more than 10 bytes"):
        list(read_records(batch, 10))


def test_a_lack_of_memory_is_not_reported_as_undecodable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that skips undecodable batches must not skip an intact one."""

    class Short:
        def __init__(self, batch: Buffer) -> None: ...

        def __iter__(self) -> "Short":
            return self

        def __next__(self) -> Record:
            raise MemoryError("the codec")

    def raise_memory_error(size: int) -> bytearray:
        raise MemoryError(f"{size} bytes")

    batch = build_batch([b"x" * 50])
    monkeypatch.setattr("raftlog.records.read.DefaultRecordBatch", Short)
    monkeypatch.setattr("raftlog.records.read.bytearray", raise_memory_error, raising=False)
    with pytest.raises(MemoryError, match="bytes"):
        list(read_records(batch))


def test_records_with_gaps_between_them_are_valid() -> None:
    """Compaction leaves such batches."""
    batch = batch_of(record(1) + record(5), 9)
    header = read_header(batch)
    assert header.record_count == 9
    holes = bytearray(batch)
    holes[57:61] = (2).to_bytes(4, "big")  # the count; read_records leaves the CRC to its caller
    assert [each.offset for each in read_records(holes)] == [1, 5]


def test_the_error_can_be_pickled() -> None:
    error = UndecodableBatch(5, 6, 9, "why").located_at(TopicPartition("orders", 3))
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, InvalidBatch)
    assert str(again) == str(error)
    assert str(again).startswith("orders/3: the records from offset 6 on cannot be decoded")
    assert (again.base_offset, again.offset, again.next_offset, again.why) == (5, 6, 9, "why")
    assert again.place == ("orders", 3)
