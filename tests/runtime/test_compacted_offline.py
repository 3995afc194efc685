"""Compacted replicas read by tools: verified, dumped, and compared by their newest records."""

import pytest

from raftlog.records.header import batch_crc
from raftlog.runtime.log.offline import Comparison, OfflineReplica, compare_replicas
from raftlog.storage.compaction import CompactionBounds
from raftlog.storage.dump import dump_file
from raftlog.storage.segment_files import segment_stem
from raftlog.storage.verify import verify_log
from tests.storage.compacting import GROUP, PATH, KeyedLog

OTHER = "/data/t/1"


def keyed_log() -> KeyedLog:
    """Return a log of seven segments with keys, tombstones, records without a key and control batches."""
    keyed = KeyedLog()
    for number in range(6):
        for _ in range(2):
            keyed.append([(b"%d" % each, b"v%d" % number * 9) for each in range(4)])
        keyed.append([(b"gone", None if number else b"x"), (b"only %d" % number, b"x"), (None, b"no key")])
        keyed.control()
        keyed.roll()
    keyed.append([(b"0", b"above")])
    keyed.settle()
    return keyed


def copy(keyed: KeyedLog, other: str = OTHER) -> None:
    """Replace the content of directory `other` by a copy of the log."""
    disk = keyed.disk
    if not disk.exists(other):
        disk.make_directory(other)
    for name in disk.list_directory(other):
        disk.unlink(f"{other}/{name}")
    for name, data in disk.snapshot().items():
        if name.startswith(PATH + "/"):
            file = disk.open(name.replace(PATH, other), create=True)
            file.write(0, [data])
            file.close()


def compare(keyed: KeyedLog, *others: str) -> Comparison:
    paths = (PATH, *(others or (OTHER,)))
    return compare_replicas(keyed.disk, [OfflineReplica(path, GROUP, None, None) for path in paths])


@pytest.mark.parametrize("segment_bytes", [100, 900, 1 << 20])
def test_a_compacted_log_equals_an_uncompacted_one(segment_bytes: int) -> None:
    keyed = keyed_log()
    copy(keyed)
    for _ in range(2):
        keyed.compact(CompactionBounds(segment_bytes, 1000))
        report = verify_log(keyed.disk, PATH)
        assert (report.problems, report.tail_bytes, report.end_offset) == ([], 0, len(keyed.records))
        assert report.records == len(keyed.expected_records())
        compared = compare(keyed)
        assert (compared.difference, compared.first) == (None, keyed.log.first_uncompacted_segment.base_index)
        keyed.append([(b"0", b"newer"), (b"gone", None), (b"after", b"x")])
        keyed.roll()
        keyed.append([(b"1", b"above")])
        keyed.settle()
        copy(keyed)


def test_a_replica_whose_segments_are_all_compacted_equals_an_uncompacted_one() -> None:
    keyed = keyed_log()
    copy(keyed)
    keyed.compact()
    active = keyed.log.active.base_offset
    for directory in (PATH, OTHER):
        for name in keyed.disk.list_directory(directory):
            if name.startswith(segment_stem(active)):
                keyed.disk.unlink(f"{directory}/{name}")
    compared = compare(keyed)
    assert (compared.difference, compared.first) == (None, keyed.log.active.base_index)


def test_tombstones_removed_on_one_side_are_no_difference() -> None:
    keyed = keyed_log()
    keyed.compact()
    keyed.append([(b"2", b"newer")])
    keyed.roll()
    keyed.settle()
    copy(keyed)
    keyed.compact()
    assert compare(keyed).difference is None


def test_a_replica_behind_the_compaction_of_others_is_left_out() -> None:
    """Records of its keys were removed from the others, which have newer ones."""
    keyed = keyed_log()
    third = "/data/t/2"
    copy(keyed, third)
    behind = keyed.log.segments[3].base_offset
    for name in keyed.disk.list_directory(third):
        if name >= segment_stem(behind):
            keyed.disk.unlink(f"{third}/{name}")
    keyed.compact()
    assert compare(keyed, third) == Comparison(
        GROUP, (PATH, third), keyed.log.active.base_index, keyed.log.active.base_index - 1, 0, None, (third,)
    )
    copy(keyed)
    compared = compare(keyed, OTHER, third)
    assert (compared.difference, compared.behind, compared.last) == (None, (third,), keyed.log.last_index)
    first = keyed.log.segments[0]
    keyed.disk.flip_bit(first.files.log.path.replace(PATH, OTHER), first.row(first.rows - 1).end - 1, 1)
    assert compare(keyed, OTHER, third).difference


@pytest.mark.parametrize("part", ["compacted", "behind it"])
def test_a_differing_newest_record_is_detected(part: str) -> None:
    keyed, altered = keyed_log(), KeyedLog()
    altered.disk = keyed.disk
    at = 41 if part == "compacted" else len(keyed.records) - 1
    other = keyed_log()
    first = other.log.segment_of_offset(at)
    row = first.row(first.find_row(at))
    batch = bytearray(first.files.log.read(row.position, row.length))
    batch[-3] ^= 1

    batch[17:21] = batch_crc(batch).to_bytes(4)
    first.files.log.write(row.position, [batch])
    disk = keyed.disk
    disk.make_directory(OTHER)
    for name, data in other.disk.snapshot().items():
        if name.endswith(".log"):
            file = disk.open(name.replace(PATH, OTHER), create=True)
            file.write(0, [data])
    keyed.compact()
    found = compare(keyed).difference
    assert found is not None
    assert ("newest record" in found) == (part == "compacted"), found


def test_damage_in_a_compacted_file_is_reported_and_later_records_are_read() -> None:
    keyed = keyed_log()
    keyed.compact(CompactionBounds(1 << 20, 1000))
    keyed.settle()
    copy(keyed)
    segment = keyed.log.segments[0]
    for number in range(segment.rows):
        copy(keyed)
        path = segment.files.log.path.replace(PATH, OTHER)
        keyed.disk.flip_bit(path, segment.row(number).position + 75, 1)
        report = verify_log(keyed.disk, OTHER)
        assert [(each.position, each.file) for each in report.problems] == [(segment.row(number).position, path)] or (
            number == 0 and report.problems
        )
        assert report.end_offset == len(keyed.records)
        assert compare(keyed).difference


def test_a_dump_has_the_indexes_of_gaps() -> None:
    keyed = keyed_log()
    keyed.compact(CompactionBounds(1 << 20, 1000))
    keyed.settle()
    dumped = [described for described, _ in dump_file(keyed.disk, keyed.log.segments[0].files.log.path)]
    indexes = [each["index"] for each in dumped]
    gaps = [each["control"] for each in dumped if "control" in each and each["control"]["kind"] == "gap"]
    assert gaps
    for gap in gaps:
        assert (
            gap["reason"],
            gap["first_index"] in indexes,
            gap["last_index"] + 1 in [*indexes, keyed.log.segments[1].base_index],
        ) == (1, True, True)
    assert not [each for each in dumped if "problem" in each]
