"""Compacted replicas are compared by the newest record of every key."""

from pathlib import Path

from jepsen.newest import difference, newest_records
from jepsen.runner.replicas import compare_replicas
from raftlog.records import NewRecord, TransactionMarker, build_batch, build_marker_batch, stamp
from raftlog.records.header import CRC_START, TRANSACTIONAL_BIT, batch_crc
from raftlog.types import TopicPartition

PLACE = TopicPartition("t", 0)


def make_batch(offset: int, *records: tuple[str, str | None]) -> bytes:
    """Return a batch of records by key; a record without a value is a tombstone."""
    made = build_batch([NewRecord(None if value is None else value.encode(), key.encode()) for key, value in records])
    stamp(made, offset, 1)
    return bytes(made)


WHOLE = [
    make_batch(0, ("a", "1"), ("b", "1")) + make_batch(2, ("a", "2"), ("c", "1")),
    make_batch(4, ("c", None), ("d", "1")),
]
COMPACTED = [make_batch(1, ("b", "1")) + make_batch(2, ("a", "2")), make_batch(5, ("d", "1"))]


def test_the_newest_record_of_each_key_counts() -> None:
    found = newest_records(WHOLE, 0)
    assert found == {b"a": (2, b"2"), b"b": (1, b"1"), b"d": (5, b"1")}
    assert difference(found, newest_records(COMPACTED, 0)) is None


def test_records_outside_of_the_given_offsets_are_left_out() -> None:
    assert newest_records(WHOLE, 2, 4) == {b"a": (2, b"2"), b"c": (3, b"1")}


def test_a_lost_value_another_offset_and_a_returned_key_are_differences() -> None:
    found = newest_records(WHOLE, 0)
    lost = newest_records(COMPACTED[:1], 0)
    moved = found | {b"b": (0, b"1")}
    resurrected = found | {b"c": (3, b"1")}
    assert "'d' is at offset 5 (b'1') in one and at no offset" in (difference(found, lost) or "")
    assert "'b'" in (difference(found, moved) or "")
    assert "'c'" in (difference(found, resurrected) or "")


def test_replicas_of_a_compacted_partition_are_compared_by_key(tmp_path: Path) -> None:
    for node, segments in ((1, WHOLE), (2, COMPACTED), (3, WHOLE)):
        directory = tmp_path / str(node) / "t" / "0"
        directory.mkdir(parents=True)
        for base, content in zip((0, 4), segments, strict=True):
            (directory / f"{base:020d}.log").write_bytes(content)
    data_dirs = {node: tmp_path / str(node) for node in (1, 2, 3)}
    assert compare_replicas(data_dirs, {PLACE: 6}, are_compacted=True) == []
    assert {finding.kind for finding in compare_replicas(data_dirs, {PLACE: 6})} == {"replicas-differ"}
    (data_dirs[2] / "t" / "0" / f"{4:020d}.log").write_bytes(make_batch(5, ("d", "2")))
    assert [finding.kind for finding in compare_replicas(data_dirs, {PLACE: 6}, are_compacted=True)] == [
        "replicas-differ",
        "replicas-differ",
    ]


def test_records_of_a_transaction_count_from_their_commit_marker_on() -> None:
    aborted, committed = (as_transaction(make_batch(at, ("a", value)), at) for at, value in ((1, "lost"), (2, "2")))
    plain, later = make_batch(0, ("a", "1")), make_batch(3, ("b", "1"))
    ended = make_marker(4, 1, is_commit=False) + make_marker(5, 2, is_commit=True)
    assert newest_records([plain + aborted + committed + later + ended], 0, 4) == {b"a": (2, b"2"), b"b": (3, b"1")}
    assert newest_records([plain + aborted + later + ended], 0, 4) == {b"a": (0, b"1"), b"b": (3, b"1")}
    assert newest_records([plain + aborted + later], 0) == {b"a": (0, b"1"), b"b": (3, b"1")}


def as_transaction(batch: bytes, producer: int) -> bytes:
    """Return the batch as one of a transaction of this producer."""
    made = bytearray(batch)
    made[CRC_START + 1] |= TRANSACTIONAL_BIT
    made[43:51] = producer.to_bytes(8, "big")
    made[17:21] = batch_crc(made).to_bytes(4, "big")
    return bytes(made)


def make_marker(offset: int, producer: int, *, is_commit: bool) -> bytes:
    made = build_marker_batch(TransactionMarker(producer, 0, is_commit, 1), 5)
    stamp(made, offset, 1)
    return bytes(made)
