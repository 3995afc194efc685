"""An archive against its log: what is missing, doubled, changed or foreign is named with its offset."""

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
from tests.pipeline.verifying import archive_of, flip, verified
from tests.undecodable import SMALL

CONFIG = LogConfig(segment_bytes=1 << 14)
DAY_MS = 86_400_000
END = 600


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log and its archive; days alternate, so that its files overlap."""
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
def both(master: Path, tmp_path: Path) -> Path:
    shutil.copytree(master, tmp_path, dirs_exist_ok=True)
    return tmp_path


def compared(both: Path) -> VerifyReport:
    return verified(both / "orders", archive=str(both / "archive"))


def rewrite(both: Path, offset: int, change: Callable[[pa.Table, pa.Array], pa.Table]) -> None:
    """Write the archive's file with that offset anew; `change` gets its rows, and which of them has that offset."""
    for file in sorted((both / "archive").rglob("*.parquet")):
        table = pq.ParquetFile(file).read()
        is_it = pc.equal(table.column("offset"), offset)
        if pc.any(is_it).as_py():
            pq.write_table(change(table, is_it), file)
            return
    raise AssertionError(f"no file has offset {offset}")


def test_archived_records_are_in_the_archive_unchanged(both: Path) -> None:
    report = compared(both)
    [archived] = report.archive
    assert report.problems == ()
    assert archived == ("orders", 0, 0, END, END, 0, 0, 0, 0)
    assert report.as_json()["archive"] == [archived._asdict()]


def log_problems(report: VerifyReport) -> list[str]:
    """Return all problems but the archive's own one: its file has another size."""
    assert not report.is_sound
    assert len(report.problems) == report.problem_count
    return sorted(problem for problem in report.problems if "bytes that were archived" not in problem)


def missing(table: pa.Table, is_it: pa.Array) -> pa.Table:
    """Return the rows, one of them twice and one missing, so that their number is right."""
    kept = table.filter(pc.invert(is_it))
    return pa.concat_tables([kept.slice(0, 1), kept])


def changed(column: str, value: object) -> Callable[[pa.Table, pa.Array], pa.Table]:
    def change(table: pa.Table, is_it: pa.Array) -> pa.Table:
        rows = table.to_pylist()
        for row, this in zip(rows, is_it.to_pylist(), strict=True):
            row[column] = value if this else row[column]
        return pa.Table.from_pylist(rows, schema=table.schema)

    return change


def test_a_row_that_is_missing_and_one_that_is_doubled(both: Path) -> None:
    rewrite(both, 301, missing)
    report = compared(both)
    [archived] = report.archive
    assert (archived.missing, archived.doubled, archived.different, archived.unknown) == (1, 1, 0, 0)
    assert log_problems(report) == [
        "orders/0: 1 records are in the archive more than once: offset 1",
        "orders/0: 1 records are in the log, and not in the archive: offset 301",
    ]


@pytest.mark.parametrize(
    ("column", "value"), [("key", b"x"), ("value", None), ("headers", None), ("timestamp", None), ("timestampType", 1)]
)
def test_a_row_that_was_changed(both: Path, column: str, value: object) -> None:
    rewrite(both, 325, changed(column, value))
    report = compared(both)
    assert log_problems(report) == ["orders/0: 1 records are not the same in log and archive: offset 325"]
    assert report.archive[0].different == 1


def test_a_row_that_the_log_does_not_have(both: Path) -> None:
    """Its log lost the end, and has other records there: it is not the log that was archived."""
    [file] = sorted((both / "orders" / "0").glob("*.log"))[-1:]
    for each in (file, file.with_suffix(".index"), file.with_suffix(".timeindex")):
        each.unlink()
    (both / "orders" / "0" / ".raftlog" / "checkpoint").unlink()
    with Log.open(both / "orders" / "0", CONFIG) as log:
        begin = log.end_offset
        log.append([b"other"] * (END - begin))
    report = compared(both)
    assert report.archive[0].different == END - begin > 0
    assert report.problem_count == END - begin
    assert len(report.problems) < 5


def test_rows_that_the_log_has_lost(both: Path) -> None:
    """At its end, where a gap stands for them now."""
    path = both / "orders" / "0"
    flip(sorted(path.glob("*.log"))[-1], -10)
    repair_log(real_disk(), str(path), accept_loss=True)
    report = compared(both)
    [archived] = report.archive
    assert (archived.end, archived.records, archived.unknown) == (END, END - 20, 20)
    [problem] = report.problems
    assert f"20 records are in the archive, and not in the log: offset {END - 20}" in problem
    assert report.problem_count == 20


@pytest.mark.parametrize("kind", ["schema", "rows", "missing"])
def test_a_file_that_is_not_as_it_was_archived(both: Path, kind: str) -> None:
    [file, *_] = sorted((both / "archive").rglob("*.parquet"))
    if kind == "schema":
        rewrite(both, 0, lambda table, _: table.drop_columns(["headers"]))
    elif kind == "rows":
        rewrite(both, 0, lambda table, _: table.slice(1))
    else:
        file.unlink()
    report = compared(both)
    assert not report.is_sound
    assert any(file.name in problem and "cannot be read as it was archived" in problem for problem in report.problems)


def test_damage_of_the_log_is_reported_and_the_rest_is_compared(both: Path) -> None:
    [first, *_] = sorted((both / "orders" / "0").glob("*.log"))
    flip(first, 2000)
    report = compared(both)
    assert not report.is_sound
    assert all(str(first) in problem for problem in report.problems), report.problems
    assert report.archive[0].records > END / 2


def test_an_archive_of_another_log_and_none(both: Path, tmp_path: Path) -> None:
    shutil.rmtree(both / "orders")
    with Log.open(both / "orders" / "0") as log:
        log.append([b"anew"])
    [problem] = compared(both).problems
    assert "another log" in problem
    assert read_settled(files_at(str(both / "archive"))).covered["orders", 0].log_id in problem  # type: ignore[index]
    shutil.move(both / "orders", both / "payments")
    [problem] = verified(both / "payments", archive=str(both / "archive")).problems
    assert "has none of the topics whose logs are there (payments)" in problem
    with pytest.raises(NotAnArchive):
        verified(both / "payments", archive=str(both / "payments"))


def test_an_archive_without_the_records_that_cannot_be_decoded_is_sound(tmp_path: Path) -> None:
    with Log.open(tmp_path / "orders" / "0", CONFIG) as log:
        log.append([NewRecord(b"before", timestamp=5)])
        log.append_batches(SMALL[0].batch)
        log.append([NewRecord(b"behind", timestamp=6)])
    with pytest.warns(UserWarning, match="left out"):
        archive_of(tmp_path / "orders", tmp_path / "archive", skip_undecodable=True)
    with pytest.warns(UserWarning, match="left out"):
        report = compared(tmp_path)
    assert report.is_sound
    assert [verdict.records for verdict in report.archive] == [2]


def test_a_log_that_ends_before_the_archive_is_reported_as_behind(both: Path) -> None:
    with Log.open(both / "orders" / "0", CONFIG) as log:
        log.truncate(500)
    report = compared(both)
    assert report.is_sound, "a copy may be older than the archive"
    [note] = report.notes
    assert "orders/0 is behind" in note
    assert f"it ends at offset 500, and the archive has orders/0 up to {END}" in note
    assert f"offsets 500 to {END} (exclusive) were not compared" in note
