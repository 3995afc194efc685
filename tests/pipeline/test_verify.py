"""Damage of each kind in logs and their copies: detected and located, as by `log verify`."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from raftlog import Log, LogConfig
from raftlog.errors import InvalidArgument
from raftlog.pipeline.segments.replicas import real_disk
from raftlog.pipeline.verification.job import verify_by
from raftlog.pipeline.verification.segment_walk import OpenFile
from raftlog.records import NewRecord, read_header
from raftlog.records.header import HEADER_SIZE, LENGTH_END, batch_crc
from raftlog.storage.repair import repair_log
from raftlog.storage.rows import ROW_SIZE, pack_row, unpack_row
from tests.pipeline.verifying import SPLIT_BYTES, flip, require_same_verdict, run_here, run_log_verify, run_verify

S = TypeVar("S")
R = TypeVar("R")
CONFIG = LogConfig(segment_bytes=1 << 15)
FILE = f"{0:020d}.log"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("verify") / "orders" / "0"
    write(path, 150)
    return path


@pytest.fixture
def copies(master: Path, tmp_path: Path) -> list[Path]:
    """Return three copies of one log, of about three segments, each in several ranges."""
    paths = [tmp_path / str(number) / "orders" / "0" for number in range(3)]
    for path in paths:
        shutil.copytree(master, path)
    return paths


def write(path: Path, batches: int, seed: int = 1) -> None:
    random = Random(seed)
    with Log.open(path, CONFIG) as log:
        for _ in range(batches):
            log.append([NewRecord(random.randbytes(random.randrange(200)), b"key", 5) for _ in range(5)])


def files_of(path: Path, suffix: str = ".log") -> list[Path]:
    return sorted(path.glob(f"*{suffix}"))


def batch_positions(file: Path) -> list[int]:
    content, found, at = file.read_bytes(), [], 0
    while at < len(content):
        found.append(at)
        at += read_header(content, at).size
    return found


def test_intact_copies_have_no_problem(copies: list[Path]) -> None:
    report = run_verify(*copies)
    assert (report.is_sound, report.notes, report.logs) == (True, (), 3)
    [partition] = report.partitions
    with Log.open(copies[0], CONFIG) as log:
        end, last = log.end_offset, sum(len(batch_positions(file)) for file in files_of(copies[0]))
    assert (partition.topic, partition.partition, partition.replicas, partition.segments) == ("orders", 0, 3, 9)
    assert (partition.first_index, partition.last_index, partition.end_offset) == (1, last, end)
    assert (partition.batches, partition.records, report.records) == (3 * last, 3 * end, 3 * end)
    assert partition.bytes == report.bytes == sum(file.stat().st_size for path in copies for file in files_of(path))
    assert report.as_json()["partitions"] == [partition._asdict()]


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize(("number", "split_bytes"), [(0, SPLIT_BYTES), (2, 1 << 20)])
@pytest.mark.parametrize(
    ("what", "batch", "byte"),
    [
        ("the CRC does not match", 20, 90),
        ("the CRC does not match", 20, 50),
        ("base offset is", 20, 6),
        ("the CRC does not match", 0, 70),
        ("there is no batch header", 31, 16),
        ("header and index row do not belong together", 31, 13),
    ],
)
def test_a_flipped_bit_is_located(
    copies: list[Path], number: int, split_bytes: int, has_index: bool, what: str, batch: int, byte: int
) -> None:
    file = files_of(copies[number])[1]
    if not has_index:
        file.with_suffix(".index").unlink()
    position = batch_positions(file)[batch]
    flip(file, position + byte)
    report = run_verify(*copies, split_bytes=split_bytes)
    require_same_verdict(report, run_log_verify(*copies))
    assert not report.is_sound
    if has_index:
        assert any(f"{file}: corrupt batch at position {position}" in each and what in each for each in report.problems)


@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize("byte", [3, 20, 41])
def test_a_damaged_index_row_is_no_difference(copies: list[Path], number: int, byte: int) -> None:
    flip(files_of(copies[number], ".index")[1], 40 * ROW_SIZE + byte)
    report = run_verify(*copies)
    wanted = run_log_verify(*copies)
    assert (set(report.problems), wanted.differing) == (wanted.problems, 0)
    assert len(report.problems) == 1
    assert "its index row is damaged" in report.problems[0]


def test_a_differing_batch_with_a_valid_crc_is_detected(copies: list[Path]) -> None:
    file, index = files_of(copies[1])[1], files_of(copies[1], ".index")[1]
    position = batch_positions(file)[33]
    content, rows = bytearray(file.read_bytes()), bytearray(index.read_bytes())
    header = read_header(content, position)
    content[position + header.size - 3] ^= 1
    batch = memoryview(content)[position : position + header.size]
    batch[17:21] = batch_crc(batch).to_bytes(4)
    row = unpack_row(rows, 33)
    fixed = pack_row(row.index, row.term, row.offset, row.position, read_header(batch), batch[:HEADER_SIZE])
    rows[33 * ROW_SIZE : 34 * ROW_SIZE] = fixed
    file.write_bytes(content)
    index.write_bytes(rows)
    report = run_verify(*copies)
    assert run_log_verify(*copies) == (set(), 1)
    [problem] = report.problems
    for told in (
        str(file),
        str(files_of(copies[0])[1]),
        f"entry {row.index} ",
        f"offset {row.offset}",
        f" {position},",
    ):
        assert told in problem, problem
    assert "byte 17 is another one" in problem


@pytest.mark.parametrize(("file", "is_told"), [(0, True), (1, True), (2, False)])
def test_a_missing_file_is_detected(copies: list[Path], file: int, is_told: bool) -> None:
    missing = files_of(copies[1])[file]
    missing.unlink()
    missing.with_suffix(".index").unlink()
    report = run_verify(*copies)
    wanted = run_log_verify(*copies)
    assert wanted.problems <= set(report.problems)
    assert report.is_sound is wanted.is_sound
    assert bool(wanted.problems) is True
    assert (len(report.problems) > 0) is (is_told or bool(wanted.problems))


@pytest.mark.parametrize("end", [-1, -100, 5])
@pytest.mark.parametrize("segment", [1, 2])
def test_a_truncated_file_is_detected(copies: list[Path], segment: int, end: int) -> None:
    file = files_of(copies[2])[segment]
    size = file.stat().st_size
    with file.open("r+b") as opened:
        opened.truncate(end % size)
    report = run_verify(*copies)
    wanted = run_log_verify(*copies)
    assert wanted.problems <= set(report.problems)
    assert wanted.is_sound is report.is_sound is False


def test_a_torn_end_is_no_problem(copies: list[Path]) -> None:
    for file in (files_of(copies[0])[-1], files_of(copies[2])[-1]):
        with file.open("ab") as opened:
            opened.write(file.read_bytes()[:40])
    report = run_verify(*copies)
    assert (report.problems, report.tail_bytes) == ((), 80)


def test_a_copy_that_is_behind_and_one_without_an_index_are_accepted(copies: list[Path]) -> None:
    shutil.rmtree(copies[1])
    write(copies[1], 150)  # of another group
    write(copies[2], 60, seed=7)
    for file in files_of(copies[0], ".index"):
        file.unlink()
    report = run_verify(*copies)
    assert (report.problems, run_log_verify(*copies)) == ((), (set(), 0))
    one, other = sorted(report.partitions, key=lambda each: each.replicas)
    assert (one.replicas, other.replicas) == (1, 2)
    assert other.is_compared


def test_falling_terms_are_detected(copies: list[Path]) -> None:
    """No other check detects them: term and index row are changed together, in all copies."""
    for path in copies:
        file, index = files_of(path)[0], files_of(path, ".index")[0]
        content, rows = bytearray(file.read_bytes()), bytearray(index.read_bytes())
        for number, term in ((10, 3), (11, 2)):
            row = unpack_row(rows, number)
            content[row.position + LENGTH_END : row.position + LENGTH_END + 4] = term.to_bytes(4)
            batch = memoryview(content)[row.position : row.end]
            fixed = pack_row(row.index, term, row.offset, row.position, read_header(batch), batch[:HEADER_SIZE])
            rows[number * ROW_SIZE : (number + 1) * ROW_SIZE] = fixed
        file.write_bytes(content)
        index.write_bytes(rows)
    report = run_verify(*copies)
    assert run_log_verify(*copies).is_sound
    assert report.problem_count == 3
    assert all("has term 2, the one before 3" in each for each in report.problems)


def test_directories_without_matching_logs_are_refused(copies: list[Path], tmp_path: Path) -> None:
    for paths, what in (((tmp_path / "none",), "no directory"), ((Path("/usr/include"),), "holds no log")):
        with pytest.raises(InvalidArgument, match=what):
            run_verify(*paths)
    with pytest.raises(InvalidArgument, match="there is no log of topics payments"):
        run_verify(tmp_path, topics=["payments"])
    with pytest.raises(InvalidArgument, match="not both"):
        run_verify(tmp_path, topics=["orders"], topics_pattern="o.*")
    assert run_verify(tmp_path, topics_pattern="ord.*").logs == run_verify(tmp_path, topics=["orders"]).logs == 3
    assert verify_by(run_here, str(tmp_path), topics="orders", split_bytes=SPLIT_BYTES).logs == 3


def test_all_problems_are_counted_and_some_are_listed(copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.pipeline.verification.full_checks.PROBLEMS_OF_A_SEGMENT_MAX", 5)
    file = files_of(copies[0])[1]
    for position in batch_positions(file)[1:40]:
        flip(file, position + 80)
    report = run_verify(copies[0])
    assert report.problem_count == len(run_log_verify(copies[0]).problems) == 39
    assert len(report.problems) == 5


@pytest.mark.parametrize("damage", [lambda path: None, lambda path: flip(files_of(path)[0], 300)])
def test_a_gap_of_repaired_damage_is_verified(master: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / "log"
    shutil.copytree(master, path)
    flip(files_of(path)[0], batch_positions(files_of(path)[0])[5] + 70)
    repair_log(real_disk(), str(path), accept_loss=True)
    damage(path)
    report = run_verify(path)
    assert set(report.problems) == run_log_verify(path).problems


@pytest.mark.parametrize("gone", [0, 1])
def test_files_deleted_by_a_concurrent_trim_are_no_problem(copies: list[Path], gone: int) -> None:
    """The files were listed, and are deleted before they are read."""

    def trimmed(what: str, splits: Sequence[S], work: Callable[[S], Iterable[R]], /) -> list[R]:
        if what == "checking replicas":
            for suffix in (".log", ".index", ".timeindex"):
                files_of(copies[gone], suffix)[0].unlink()
        return run_here(what, splits, work)

    (copies[gone] / ".raftlog" / "checkpoint").unlink()
    report = verify_by(trimmed, [str(path) for path in copies], split_bytes=SPLIT_BYTES)
    assert (report.problems, report.segments) == ((), 8)


def test_memory_does_not_depend_on_a_damaged_length(copies: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftlog.pipeline.verification.segment_walk._CHUNK_BYTES_MAX", 1 << 12)
    monkeypatch.setattr("raftlog.pipeline.verification.segment_walk.CHUNK_BYTES", 1 << 11)
    for path in copies:
        file = files_of(path)[1]
        file.with_suffix(".index").unlink()
        flip(file, batch_positions(file)[2] + 10, 5)  # 8 KiB more
    lengths: list[int] = []
    read = OpenFile.read
    monkeypatch.setattr(OpenFile, "read", lambda file, at, length: lengths.append(length) or read(file, at, length))
    require_same_verdict(run_verify(*copies), run_log_verify(*copies))
    assert max(lengths) <= 1 << 12
