"""An archive compared with its log: missing, doubled, changed and foreign rows are reported with their offset."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from raftlog import Log, LogConfig
from raftlog.pipeline.archives.files import files_at
from raftlog.pipeline.archives.state import read_settled
from raftlog.pipeline.errors import NotAnArchive
from raftlog.pipeline.segments.replicas import real_disk
from raftlog.pipeline.verification import VerifyReport
from raftlog.records import NewRecord
from raftlog.storage.repair import repair_log
from tests.pipeline.verifying import archive_of, flip, run_verify
from tests.undecodable import SMALL

CONFIG = LogConfig(segment_bytes=1 << 14)
DAY_MS = 86_400_000
END = 600


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a log and its archive; days alternate, so that the archive's files overlap."""
    path = tmp_path_factory.mktemp("archived")
    random = Random(1)
    with Log.open(path / "orders" / "0", CONFIG) as log:
        while log.end_offset < END:
            records = []
            for number in range(log.end_offset, log.end_offset + 20):
                key = b"%d" % number if number % 3 else None
                value = random.randbytes(40) if number % 11 else None
                time = 1000 + number + DAY_MS * (number % 2)
                records.append(NewRecord(value, key, time, [("h", b"%d" % number)] if number % 5 == 0 else []))
            log.append(records)
    archive_of(path / "orders", path / "archive")
    return path


@pytest.fixture
def log_and_archive(master: Path, tmp_path: Path) -> Path:
    shutil.copytree(master, tmp_path, dirs_exist_ok=True)
    return tmp_path


def verify_both(log_and_archive: Path) -> VerifyReport:
    return run_verify(log_and_archive / "orders", archive=str(log_and_archive / "archive"))


def rewrite(log_and_archive: Path, offset: int, change: Callable[[pa.Table, pa.Array], pa.Table]) -> None:
    """Rewrite the archive's file with that offset; `change` gets its rows, and a mask of the row."""
    for file in sorted((log_and_archive / "archive").rglob("*.parquet")):
        table = pq.ParquetFile(file).read()
        is_it = pc.equal(table.column("offset"), offset)
        if pc.any(is_it).as_py():
            pq.write_table(change(table, is_it), file)
            return
    raise AssertionError(f"no file has offset {offset}")


def test_archived_records_are_in_the_archive_unchanged(log_and_archive: Path) -> None:
    report = verify_both(log_and_archive)
    [archived] = report.archive
    assert report.problems == ()
    assert archived == ("orders", 0, 0, END, END, 0, 0, 0, 0)
    assert report.as_json()["archive"] == [archived._asdict()]


def log_problems(report: VerifyReport) -> list[str]:
    """Return all problems except for the changed size of the archive's file."""
    assert not report.is_sound
    assert len(report.problems) == report.problem_count
    return sorted(problem for problem in report.problems if "bytes that were archived" not in problem)


def replace_by_duplicate(table: pa.Table, is_it: pa.Array) -> pa.Table:
    """Return the rows without that row and with another one twice, so that their number stays."""
    kept = table.filter(pc.invert(is_it))
    return pa.concat_tables([kept.slice(0, 1), kept])


def set_value(column: str, value: object) -> Callable[[pa.Table, pa.Array], pa.Table]:
    def change(table: pa.Table, is_it: pa.Array) -> pa.Table:
        rows = table.to_pylist()
        for row, this in zip(rows, is_it.to_pylist(), strict=True):
            row[column] = value if this else row[column]
        return pa.Table.from_pylist(rows, schema=table.schema)

    return change


def test_a_missing_row_and_a_doubled_row_are_reported(log_and_archive: Path) -> None:
    rewrite(log_and_archive, 301, replace_by_duplicate)
    report = verify_both(log_and_archive)
    [archived] = report.archive
    assert (archived.missing, archived.doubled, archived.different, archived.unknown) == (1, 1, 0, 0)
    assert log_problems(report) == [
        "orders/0: 1 records are in the archive more than once: offset 1",
        "orders/0: 1 records are in the log, and not in the archive: offset 301",
    ]


@pytest.mark.parametrize(
    ("column", "value"), [("key", b"x"), ("value", None), ("headers", None), ("timestamp", None), ("timestampType", 1)]
)
def test_a_changed_row_is_reported(log_and_archive: Path, column: str, value: object) -> None:
    rewrite(log_and_archive, 325, set_value(column, value))
    report = verify_both(log_and_archive)
    assert log_problems(report) == ["orders/0: 1 records are not the same in log and archive: offset 325"]
    assert report.archive[0].different == 1


def test_a_row_that_is_not_in_the_log_is_reported(log_and_archive: Path) -> None:
    """The log lost its end and has other records there: it is not the archived log."""
    [file] = sorted((log_and_archive / "orders" / "0").glob("*.log"))[-1:]
    for each in (file, file.with_suffix(".index"), file.with_suffix(".timeindex")):
        each.unlink()
    (log_and_archive / "orders" / "0" / ".raftlog" / "checkpoint").unlink()
    with Log.open(log_and_archive / "orders" / "0", CONFIG) as log:
        begin = log.end_offset
        log.append([b"other"] * (END - begin))
    report = verify_both(log_and_archive)
    assert report.archive[0].different == END - begin > 0
    assert report.problem_count == END - begin
    assert len(report.problems) < 5


def test_rows_that_the_log_lost_are_reported(log_and_archive: Path) -> None:
    """The rows are at the log's end, where a gap replaces them."""
    path = log_and_archive / "orders" / "0"
    flip(sorted(path.glob("*.log"))[-1], -10)
    repair_log(real_disk(), str(path), accept_loss=True)
    report = verify_both(log_and_archive)
    [archived] = report.archive
    assert (archived.end, archived.records, archived.unknown) == (END, END - 20, 20)
    [problem] = report.problems
    assert f"20 records are in the archive, and not in the log: offset {END - 20}" in problem
    assert report.problem_count == 20


@pytest.mark.parametrize("kind", ["schema", "rows", "missing"])
def test_a_changed_file_of_the_archive_is_reported(log_and_archive: Path, kind: str) -> None:
    [file, *_] = sorted((log_and_archive / "archive").rglob("*.parquet"))
    if kind == "schema":
        rewrite(log_and_archive, 0, lambda table, _: table.drop_columns(["headers"]))
    elif kind == "rows":
        rewrite(log_and_archive, 0, lambda table, _: table.slice(1))
    else:
        file.unlink()
    report = verify_both(log_and_archive)
    assert not report.is_sound
    assert any(file.name in problem and "cannot be read as it was archived" in problem for problem in report.problems)


def test_damage_of_the_log_is_reported_and_the_other_rows_are_compared(log_and_archive: Path) -> None:
    [first, *_] = sorted((log_and_archive / "orders" / "0").glob("*.log"))
    flip(first, 2000)
    report = verify_both(log_and_archive)
    assert not report.is_sound
    assert all(str(first) in problem for problem in report.problems), report.problems
    assert report.archive[0].records > END / 2


def test_an_archive_of_another_log_is_reported(log_and_archive: Path, tmp_path: Path) -> None:
    shutil.rmtree(log_and_archive / "orders")
    with Log.open(log_and_archive / "orders" / "0") as log:
        log.append([b"anew"])
    [problem] = verify_both(log_and_archive).problems
    assert "another log" in problem
    assert read_settled(files_at(str(log_and_archive / "archive"))).covered["orders", 0].log_id in problem  # type: ignore[index]
    shutil.move(log_and_archive / "orders", log_and_archive / "payments")
    [problem] = run_verify(log_and_archive / "payments", archive=str(log_and_archive / "archive")).problems
    assert "has none of the topics whose logs are there (payments)" in problem
    with pytest.raises(NotAnArchive):
        run_verify(log_and_archive / "payments", archive=str(log_and_archive / "payments"))


def test_an_archive_without_undecodable_records_is_intact(tmp_path: Path) -> None:
    with Log.open(tmp_path / "orders" / "0", CONFIG) as log:
        log.append([NewRecord(b"before", timestamp=5)])
        log.append_batches(SMALL[0].batch)
        log.append([NewRecord(b"behind", timestamp=6)])
    with pytest.warns(UserWarning, match="left out"):
        archive_of(tmp_path / "orders", tmp_path / "archive", skip_undecodable=True)
    with pytest.warns(UserWarning, match="left out"):
        report = verify_both(tmp_path)
    assert report.is_sound
    assert [verdict.records for verdict in report.archive] == [2]


def test_a_log_that_ends_before_the_archive_is_reported_as_behind(log_and_archive: Path) -> None:
    with Log.open(log_and_archive / "orders" / "0", CONFIG) as log:
        log.truncate(500)
    report = verify_both(log_and_archive)
    assert report.is_sound, "a copy may be older than the archive"
    [note] = report.notes
    assert "orders/0 is behind" in note
    assert f"it ends at offset 500, and the archive has orders/0 up to {END}" in note
    assert f"offsets 500 to {END} (exclusive) were not compared" in note
