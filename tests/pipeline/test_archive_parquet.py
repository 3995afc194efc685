"""Rows as Parquet files: written by day and read by offset, with few open files and small buffers."""

import errno
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raftlog.errors import StorageError
from raftlog.pipeline.archives import parquet
from raftlog.pipeline.archives.files import LocalFiles
from raftlog.pipeline.archives.manifest import DAYS_MAX, NO_DATE, day_of
from raftlog.pipeline.archives.parquet import FILE_SCHEMA, DayFiles, read_in_order
from raftlog.pipeline.rows import ARROW_SCHEMA
from raftlog.types import TopicPartition
from tests.pipeline.archives import DAY_US

PLACE = TopicPartition("t", 3)
DAYS = st.one_of(st.none(), st.integers(0, 3), st.sampled_from([20_454, DAYS_MAX, DAYS_MAX + 1, DAYS_MAX + 7]))
ROWS = st.lists(st.tuples(st.integers(1, 3), DAYS, st.binary(max_size=8)), max_size=60)
"""Rows: offset distance to the row before, day, value."""


def batches_of(rows: list[tuple[int, int | None, bytes]], at_once: int) -> list[pa.RecordBatch]:
    """Return record batches of `at_once` rows; each row is given as (step of the offset, day or None, value)."""
    offset, made = 0, []
    for step, day, value in rows:
        offset += step
        time = None if day is None else day * DAY_US + offset
        made.append({"topic": "t", "partition": 3, "offset": offset, "timestamp": time, "value": value})
    return [
        pa.RecordBatch.from_pylist(made[first : first + at_once], schema=ARROW_SCHEMA)
        for first in range(0, len(made), at_once)
    ]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, at_once=st.integers(1, 20), open_files=st.integers(1, 3), start=st.integers(0, 50))
def test_rows_are_read_in_the_order_of_offsets(
    tmp_path_factory: Any, rows: Any, at_once: int, open_files: int, start: int
) -> None:
    files = LocalFiles(str(tmp_path_factory.mktemp("archive")))
    files.make_directory("staging")
    batches = batches_of(rows, at_once)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parquet, "OPEN_FILES_MAX", open_files)
        patched.setattr(parquet, "WAITING_BYTES_MAX", 100)
        patched.setattr(parquet, "ROW_GROUP_ROWS", 3)
        patched.setattr(parquet, "READ_ROWS", 4)
        patched.setattr(parquet, "READ_ROWS_MIN", 2)
        writing = DayFiles(files, "staging", PLACE, "zstd", file_bytes_max=400)
        for batch in batches:
            writing.write(batch)
        staged = writing.finish()
        for each in staged:
            files.make_directory(each.file.path.rpartition("/")[0])
            files.move(each.staged, each.file.path)
        archived = [each.file for each in staged]
        found = list(read_in_order(files, archived, start, start + 40))
    written = pa.Table.from_batches(batches, ARROW_SCHEMA).select(FILE_SCHEMA.names)
    offsets = written.column("offset")
    wanted = written.filter(
        pa.compute.and_(pa.compute.greater_equal(offsets, start), pa.compute.less(offsets, start + 40))
    )
    assert pa.Table.from_batches(found, FILE_SCHEMA).equals(wanted)
    require_apart(archived)


def require_apart(archived: list[Any]) -> None:
    """Require that files of one day do not overlap."""
    by_day = sorted(archived, key=lambda file: (file.day, file.first))
    for before, after in pairwise(by_day):
        assert before.day != after.day or before.last < after.first


def test_days_are_named_by_date() -> None:
    assert [day_of(None), day_of(0), day_of(20_454), day_of(DAYS_MAX)] == [
        NO_DATE,
        "1970-01-01",
        "2026-01-01",
        "9999-12-31",
    ]


def test_a_day_ends_at_midnight_in_utc(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    files.make_directory("staging")
    writing = DayFiles(files, "staging", PLACE, "none")
    rows = [{"offset": number, "timestamp": DAY_US - 2 + number} for number in range(4)]
    writing.write(pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA))
    assert [(each.file.day, each.file.first, each.file.last) for each in writing.finish()] == [
        ("1970-01-01", 0, 1),
        ("1970-01-02", 2, 3),
    ]


class FullDisk(LocalFiles):
    """Files on a full disk."""

    def open_output(self, name: str) -> pa.NativeFile:
        return pa.OSFile("/dev/full", "wb")


@pytest.mark.parametrize("rows_before_it_is_full", [1, 3])
def test_a_full_disk_is_reported_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_before_it_is_full: int
) -> None:
    """The disk is full during the rows, or at their end."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", rows_before_it_is_full)
    writing = DayFiles(FullDisk(str(tmp_path)), "staging", PLACE, "none", file_bytes_max=1 << 30)

    def write() -> None:
        for batch in batches_of([(1, 0, b"x")] * 2, 1):
            writing.write(batch)
        writing.finish()

    with pytest.raises(StorageError, match=rf"^file://{tmp_path}: files of t/3 .* in staging: .*[Nn]o space left"):
        write()


def test_a_commit_that_does_not_fit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/"):
        LocalFiles(str(tmp_path)).create("commit", b"x")
    assert not list(tmp_path.iterdir())
