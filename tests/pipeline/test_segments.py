"""Files of single logs and of copies without a journal, read back: equal to the input, or a located error."""

import pickle
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pytest

from raftlog import Log, LogConfig
from raftlog.errors import CorruptBatch, FormatError, InvalidArgument, RaftlogError, UndecodableBatch, UnknownTopic
from raftlog.pipeline.errors import SegmentGone, TransactionsInSegments
from raftlog.pipeline.options import TopicChoice
from raftlog.pipeline.positions import OffsetPosition, OffsetPositions, PositionKind
from raftlog.pipeline.rows import ARROW_SCHEMA
from raftlog.pipeline.segments.pieces import SegmentSplit
from raftlog.pipeline.segments.plan import logs_in, plan_segments
from raftlog.pipeline.segments.reader import read_segment_split
from raftlog.pipeline.segments.replicas import find_replicas, real_disk
from raftlog.records import Compression, NewRecord
from raftlog.runtime.log.sealed_file import write_sealed
from raftlog.runtime.node_identity import IDENTITY
from raftlog.storage.rows import ROW_SIZE, unpack_row
from raftlog.storage.rows import Row as IndexRow
from tests.replica.transacting import transactional_batch
from tests.undecodable import SMALL, TIMESTAMP_MS

CONFIG = LogConfig(segment_bytes=1 << 12)
START_MS = 1_700_000_000_000
CODECS = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)


class Row(NamedTuple):
    """Record as read from the files."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def write(path: Path, batches: int = 40, seed: int = 1, config: LogConfig = CONFIG) -> None:
    """Write batches of all codecs, with and without keys and headers, over several segments."""
    random = Random(seed)
    with Log.open(path, config) as log:
        first = log.end_offset
        for number in range(batches):
            size = random.randrange(1, 20)
            log.append(
                [
                    NewRecord(
                        None if random.random() < 0.1 else random.randbytes(random.randrange(120)),
                        b"%d" % random.randrange(9) if random.random() < 0.8 else None,
                        START_MS + 1000 * (first + number) + position_at,
                        [("h", b"1")] if random.random() < 0.2 else [],
                    )
                    for position_at in range(size)
                ],
                compression=random.choice(CODECS),
            )


def read_log(path: Path) -> list[Row]:
    with Log.open(path, CONFIG) as log:
        return [Row(each.offset, each.timestamp, each.key, each.value, each.headers) for each in log.read()]


def read_rows(splits: Sequence[SegmentSplit], **options: Any) -> list[Row]:
    """Read pickled copies of the splits, as Spark's executors do."""
    found = []
    for split in splits:
        for batch in read_segment_split(pickle.loads(pickle.dumps(split)), **options):
            columns = batch.to_pydict()
            for offset, time, key, value, headers in zip(
                *(columns[name] for name in ("offset", "timestamp", "key", "value", "headers")), strict=True
            ):
                pairs = [(each["key"], each["value"]) for each in headers or []]
                found.append(Row(offset, round(time.timestamp() * 1000), key, value, pairs))
    return found


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("segments") / "orders"
    write(path)
    return path


@pytest.fixture
def path(master: Path, tmp_path: Path) -> Path:
    """Copy the master log, of some five segments, for one test."""
    return Path(shutil.copytree(master, tmp_path / "orders"))


def files_of(path: Path, suffix: str = ".log") -> list[Path]:
    return sorted(path.glob(f"*{suffix}"))


@pytest.mark.parametrize("split_bytes", [1, 3000, 1 << 26])
@pytest.mark.parametrize("without", [".none", ".index", ".timeindex"])
def test_rows_equal_the_appended_records(path: Path, split_bytes: int, without: str) -> None:
    expected = read_log(path)
    for name in files_of(path, without):
        name.unlink()
    splits = plan_segments([str(path)], split_bytes=split_bytes)
    assert read_rows(splits) == expected
    assert [split.start for split in splits] == [0, *(split.end for split in splits[:-1])]
    assert all(split.size <= split_bytes or split_bytes == 1 for split in splits)
    assert len(splits) == {1: 40, 1 << 26: 1}.get(split_bytes, len(splits))
    assert {(split.topic, split.partition) for split in splits} == {("orders", 0)}


def test_splits_reach_the_wanted_number(path: Path) -> None:
    assert len(plan_segments([str(path)])) == 1
    splits = plan_segments([str(path)], splits_min=7)
    assert 7 <= len(splits) <= 14
    assert read_rows(splits) == read_log(path)


# positions


def position_at(kind: PositionKind, value: int) -> OffsetPositions:
    return OffsetPositions(OffsetPosition(kind, value), option="startingOffsets")


def test_any_range_of_offsets_is_read(path: Path) -> None:
    expected, random = read_log(path), Random(2)
    for _ in range(15):
        start, end = sorted(random.randrange(len(expected) + 1) for _ in range(2))
        starting, ending = position_at(PositionKind.OFFSET, start), position_at(PositionKind.OFFSET, end)
        splits = plan_segments([str(path)], starting=starting, ending=ending, split_bytes=random.choice((500, 1 << 20)))
        assert read_rows(splits) == expected[start:end]
        assert (start == end) == (not splits)


@pytest.mark.parametrize("without", [".none", ".index", ".timeindex"])
def test_any_range_of_times_is_read(path: Path, without: str) -> None:
    expected, random = read_log(path), Random(3)
    for name in files_of(path, without):
        name.unlink()
    for _ in range(6):
        first, last = sorted(random.randrange(START_MS - 10, START_MS + 41_000) for _ in range(2))
        splits = plan_segments(
            [str(path)],
            starting=position_at(PositionKind.TIMESTAMP, first),
            ending=position_at(PositionKind.TIMESTAMP, last),
        )
        assert read_rows(splits) == [row for row in expected if first <= row.timestamp < last]


def test_offsets_outside_the_log_are_refused(path: Path) -> None:
    end = len(read_log(path))
    with pytest.raises(InvalidArgument, match=rf"startingOffsets: offset {end + 1} of orders/0 .* 0 to {end} "):
        plan_segments([str(path)], starting=position_at(PositionKind.OFFSET, end + 1))
    with pytest.raises(InvalidArgument, match=r"from offset 5 .* up to 3"):
        plan_segments(
            [str(path)], starting=position_at(PositionKind.OFFSET, 5), ending=position_at(PositionKind.OFFSET, 3)
        )
    named = OffsetPositions(
        OffsetPosition(PositionKind.EARLIEST), {"other": {0: OffsetPosition(PositionKind.LATEST)}}, "startingOffsets"
    )
    with pytest.raises(InvalidArgument, match="other"):
        plan_segments([str(path)], starting=named)


def test_a_trimmed_log_begins_where_it_was_trimmed(path: Path) -> None:
    with Log.open(path, CONFIG) as log:
        log.trim(150)
        expected = [record.offset for record in log.read()]
    [extent] = logs_in([str(path)])
    assert (extent.start, expected[0]) == (150, 150)
    assert [row.offset for row in read_rows(plan_segments([str(path)]))] == expected
    with pytest.raises(InvalidArgument, match="150 to"):
        plan_segments([str(path)], starting=position_at(PositionKind.OFFSET, 149))


# damage


def flip(file: Path, position: int, bit: int = 0) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1 << bit
    file.write_bytes(data)


def read_table(splits: Sequence[SegmentSplit], **options: Any) -> pa.Table:
    batches = [batch for split in splits for batch in read_segment_split(split, **options)]
    return pa.Table.from_batches(batches, ARROW_SCHEMA)


def read_table_or_damage(paths: list[str], split_bytes: int) -> pa.Table | CorruptBatch:
    try:
        return read_table(plan_segments(paths, split_bytes=split_bytes))
    except CorruptBatch as error:
        return error


def test_no_flipped_bit_changes_rows_silently(path: Path) -> None:
    """A flipped bit gives an error or a warning, or the same rows if only an index was damaged."""
    expected, random = read_table(plan_segments([str(path)])), Random(4)
    for _ in range(30):
        file = random.choice(
            [*files_of(path), *files_of(path), *files_of(path, ".index"), *files_of(path, ".timeindex")]
        )
        position, bit = random.randrange(file.stat().st_size), random.randrange(8)
        flip(file, position, bit)
        where = f"{file.name} at {position}, bit {bit}"
        found = read_table_or_damage([str(path)], random.choice((2000, 1 << 26)))
        if isinstance(found, CorruptBatch):
            assert (file.suffix, found.file) == (".log", str(file)), where
            assert found.position <= position, where
        else:
            assert file.suffix != ".log", where
            assert found.equals(expected), where
        problems: list[CorruptBatch] = []
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            kept = read_table(plan_segments([str(path)], skips_damage=True), on_damage=problems.append)
        assert kept.equals(expected.take(kept["offset"])), where
        assert len(kept) == len(expected) or len(problems) + len(warned) == 1, where
        flip(file, position, bit)


def test_a_damaged_batch_is_skipped_alone(path: Path) -> None:
    expected, file = read_log(path), files_of(path)[1]
    row = unpack_row(files_of(path, ".index")[1].read_bytes(), 3)
    after = unpack_row(files_of(path, ".index")[1].read_bytes(), 4)
    flip(file, row.end - 1)
    problems: list[CorruptBatch] = []
    kept = read_rows(plan_segments([str(path)], skips_damage=True), on_damage=problems.append)
    assert kept == [each for each in expected if not row.offset <= each.offset < after.offset]
    assert [(each.position, each.offset, each.why) for each in problems] == [
        (row.position, row.offset, "the CRC does not match")
    ]
    with pytest.warns(UserWarning, match="left out: .*the CRC does not match"):
        read_rows(plan_segments([str(path)], skips_damage=True))


def index_row_at(path: Path, segment: int, number: int) -> IndexRow:
    return unpack_row(files_of(path, ".index")[segment].read_bytes(), number)


def test_bytes_without_a_crc_are_checked_by_the_index(path: Path) -> None:
    flip(files_of(path)[0], index_row_at(path, 0, 2).position + 14)  # of the term
    with pytest.raises(CorruptBatch, match="the header is not the one in the index row"):
        read_rows(plan_segments([str(path)]))


def test_batches_follow_each_other_also_without_an_index(path: Path) -> None:
    position = index_row_at(path, 0, 2).position
    for name in files_of(path, ".index"):
        name.unlink()
    splits = plan_segments([str(path)])
    flip(files_of(path)[0], position + 7)  # of the base offset, once the plan is made
    with pytest.raises(CorruptBatch, match=r"base offset is \d+ where \d+ follows"):
        read_rows(splits)


def test_a_split_ends_at_its_planned_offset(path: Path) -> None:
    [split] = plan_segments([str(path)])
    *pieces, last = split.pieces
    end = last.last._replace(offset=last.last.offset + 1)
    with pytest.raises(CorruptBatch, match=r"offset \d+ follows, and the next batch has"):
        read_rows([replace(split, pieces=(*pieces, last._replace(last=end)))])


def test_damaged_index_rows_mislead_no_reader(path: Path) -> None:
    expected, random = read_log(path), Random(8)
    index = max(files_of(path, ".index"), key=lambda file: file.stat().st_size)
    whole, base = index.read_bytes(), int(index.stem)
    next_base = min(int(file.stem) for file in files_of(path) if int(file.stem) > base)
    for _ in range(6):
        data = bytearray(whole)
        for number in range(1, len(data) // ROW_SIZE - 1):
            if random.random() < 0.5:
                data[number * ROW_SIZE : (number + 1) * ROW_SIZE] = random.choice((bytes(ROW_SIZE), b"\x7f" * ROW_SIZE))
        index.write_bytes(data)
        for start in range(base, next_base, 3):
            end = random.randrange(start + 1, next_base + 1)
            starting, ending = position_at(PositionKind.OFFSET, start), position_at(PositionKind.OFFSET, end)
            splits = plan_segments([str(path)], starting=starting, ending=ending, split_bytes=500)
            assert splits[0].pieces[0].first.offset <= start
            assert splits[-1].pieces[-1].last.offset >= end
    assert read_rows(plan_segments([str(path)], split_bytes=500)) == expected


def cut_off(path: Path) -> None:
    file = files_of(path)[-1]
    file.write_bytes(file.read_bytes()[:-10])


def remove_a_file(path: Path) -> None:
    files_of(path)[2].unlink()


def remove_the_first_file(path: Path) -> None:
    files_of(path)[0].unlink()


def remove_the_last_file(path: Path) -> None:
    files_of(path)[-1].unlink()


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (cut_off, "the file ends before a batch that was synced|the file ends inside the batch"),
        (remove_a_file, "offsets .* are missing"),
        (remove_the_first_file, "offsets 0 to .* are missing"),
        (remove_the_last_file, "the log ends here, and its checkpoint at offset"),
    ],
)
def test_missing_records_are_detected(path: Path, harm: Callable[[Path], None], why: str) -> None:
    expected = read_log(path)
    harm(path)
    with pytest.raises(CorruptBatch, match=why):
        plan_segments([str(path)])
    with pytest.warns(UserWarning, match=why):
        splits = plan_segments([str(path)], skips_damage=True)
    kept = read_rows(splits)
    assert 0 < len(kept) < len(expected)
    assert set(map(repr, kept)) < set(map(repr, expected))


def test_a_torn_end_without_an_index_row_is_no_damage(path: Path) -> None:
    expected, file = read_log(path), files_of(path)[-1]
    with file.open("ab") as end:
        end.write(files_of(path)[0].read_bytes()[:50])
    assert read_rows(plan_segments([str(path)])) == expected


def test_a_file_removed_after_planning_is_reported(path: Path) -> None:
    splits = plan_segments([str(path)], split_bytes=2000)
    files_of(path)[0].unlink()
    with pytest.raises(SegmentGone, match=r"00\.log was removed since the reading was planned.*: read again"):
        read_rows(splits)


# which logs


def test_logs_are_found_and_named_after_their_directories(tmp_path: Path) -> None:
    for name in ("a/orders", "b/clicks/0", "b/clicks/1", "b/__offsets/0"):
        write(tmp_path / name, 2)
    there = {(each.topic, each.partition, each.path) for each in find_replicas([str(tmp_path)])}
    assert there == {
        ("orders", 0, f"{tmp_path}/a/orders"),
        ("clicks", 0, f"{tmp_path}/b/clicks/0"),
        ("clicks", 1, f"{tmp_path}/b/clicks/1"),
        ("__offsets", 0, f"{tmp_path}/b/__offsets/0"),
    }

    def plan_splits(paths: list[str], **options: Any) -> list[str]:
        splits = plan_segments([f"{tmp_path}{each}" for each in paths], **options)
        return [f"{split.topic}/{split.partition}" for split in splits]

    assert plan_splits([""]) == ["clicks/0", "clicks/1", "orders/0"]
    assert plan_splits(["/b/*"]) == ["clicks/0", "clicks/1"]
    assert plan_splits(["/a", "/b/*", "/a/orders"], topics=TopicChoice(pattern="o.*|x")) == ["orders/0"]
    assert plan_splits([""], topics=TopicChoice(names=("__offsets",))) == ["__offsets/0"]
    with pytest.raises(UnknownTopic, match=r"no log of topic gone lies in .*; there are __offsets, clicks, orders"):
        plan_splits([""], topics=TopicChoice(names=("orders", "gone")))
    assert plan_splits(["/b/clicks/1"]) == ["clicks/1"]
    shutil.rmtree(tmp_path / "b" / "clicks" / "0")
    with pytest.warns(UserWarning, match="topic clicks has no replica of partition 0 here"):
        assert plan_splits([""]) == ["clicks/1", "orders/0"]


def test_all_workers_of_a_broker_are_read(path: Path, tmp_path: Path) -> None:
    disk, data_dir = real_disk(), tmp_path / "broker"
    for number, directory in enumerate((data_dir, data_dir / ".raftlog" / "workers" / "2")):
        shutil.copytree(path, directory / "orders" / str(number))
        (directory / ".raftlog").mkdir(exist_ok=True)
        fields = {"cluster_id": None, "node_id": 1, "disk_uuid": str(UUID(int=number)), "boot_epoch": 1}
        write_sealed(disk, str(directory / ".raftlog" / IDENTITY), IDENTITY, fields | {"has_journal": False})
    with pytest.warns(UserWarning, match="has no journal") as told:
        found = find_replicas([str(data_dir)])
    assert [(each.topic, each.partition) for each in found] == [("orders", 0), ("orders", 1)]
    assert len(told) == 2


def test_paths_without_a_log_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, why in (
        ("empty", "holds no log: name a broker's"),
        ("gone", "is no directory"),
        ("file:///gone", "is a URI: .* name a plain path"),
        ("x*", "nothing matches"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            plan_segments([f"{tmp_path}/{path}"])


def test_the_longest_of_several_copies_is_read(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "copy" / "orders")
    write(path, 3, seed=9)
    expected = read_log(path)
    for paths in ([path, tmp_path / "copy"], [tmp_path / "copy", path]):
        assert read_rows(plan_segments(list(map(str, paths)))) == expected
    shutil.copytree(path, tmp_path / "copy" / "other")
    with pytest.raises(InvalidArgument, match="are copies of the same log"):
        plan_segments([str(path), str(tmp_path / "copy" / "other")])


def test_different_logs_of_the_same_name_are_refused(path: Path, tmp_path: Path) -> None:
    write(tmp_path / "second" / "orders", 2)
    with pytest.raises(
        InvalidArgument, match=rf"{path} and .*second/orders are called orders/0 and are different logs"
    ):
        plan_segments([str(tmp_path)])


def test_a_log_without_a_readable_roll_is_refused(path: Path) -> None:
    for file in files_of(path):
        flip(file, 70)
    with pytest.raises(FormatError, match="none of its segments begins with a readable roll entry"):
        plan_segments([str(path)])
    assert find_replicas([str(path)])[0].group_id is None
    assert issubclass(FormatError, RaftlogError)


def test_an_undecodable_batch_is_skipped_only_if_configured(tmp_path: Path) -> None:
    with Log.open(tmp_path / "orders", CONFIG) as log:
        log.append([NewRecord(b"before", timestamp=5)])
        log.append_batches(SMALL[0].batch)
        log.append([NewRecord(b"behind", timestamp=TIMESTAMP_MS + 1)])
    with pytest.raises(UndecodableBatch, match="orders/0: the records from offset 1 on"):
        read_rows(plan_segments([str(tmp_path / "orders")]))
    splits = plan_segments([str(tmp_path / "orders")], skips_undecodable=True)
    with pytest.warns(UserWarning, match="left out"):
        assert [(row.offset, row.value) for row in read_rows(splits)] == [(0, b"before"), (2, b"behind")]
    at_its_time = OffsetPositions(OffsetPosition(PositionKind.TIMESTAMP, TIMESTAMP_MS))
    [split] = plan_segments([str(tmp_path / "orders")], starting=at_its_time)
    assert split.start == 1, "a time is found where the error comes"


def test_transactions_are_refused_because_files_do_not_show_their_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "orders"
    write(path, batches=2)
    with Log.open(path, CONFIG) as log:
        end = log.end_offset
        log._log.append([transactional_batch(0, b"perhaps aborted")])
        log.flush()
    splits = plan_segments([str(path)])
    with pytest.raises(TransactionsInSegments, match=f"offset {end}"):
        read_rows(splits)
    assert len(read_rows([replace(split, end=end) for split in splits])) == end
