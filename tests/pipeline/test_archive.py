"""Archives: each record once after any interruption; refused input; permitted writers."""

import os
import re
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from raftlog.errors import InvalidArgument
from raftlog.pipeline.archives import files as archive_files
from raftlog.pipeline.archives.archive import plan_archive
from raftlog.pipeline.archives.compaction import plan_merges
from raftlog.pipeline.archives.files import Files, LocalFiles, files_at
from raftlog.pipeline.archives.manifest import ArchivedFile, Commit, Coverage, decode_commit, encode_commit
from raftlog.pipeline.archives.state import SNAPSHOT_EVERY, read_newest, read_settled
from raftlog.pipeline.archives.validation import path_of
from raftlog.pipeline.archives.writer import open_writer
from raftlog.pipeline.errors import ArchiveDamaged, ArchiveTaken, DataLost, LogReplaced, NotAnArchive
from raftlog.pipeline.options import TopicChoice
from raftlog.types import TopicPartition
from tests.layouts import DOCS
from tests.pipeline.archives import (
    PLACE,
    KilledFiles,
    MemorySource,
    ProcessKilled,
    SharedFiles,
    Turns,
    archive_to,
    compact,
    parquet_files,
    require_complete,
    require_each_once,
    run_one_by_one,
    run_twice,
)


@pytest.fixture(autouse=True)
def disable_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable syncs: these tests have no power loss, and hundreds of runs would wait for the disk."""
    monkeypatch.setattr(archive_files, "_sync", lambda path: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_an_archive_has_each_record_once_and_grows(tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    files = LocalFiles(path)
    report = archive_to(files, MemorySource(orders=20))
    assert (report.rows, report.files) == (20, len(parquet_files(path)))
    assert [tuple(row) for row in report.partitions] == [("orders", 0, 0, 20, 20)]
    require_complete(path, 20)
    again = archive_to(files, MemorySource(orders=20))
    assert (again.rows, again.files, again.partitions) == (0, 0, ())
    archive_to(files, MemorySource(orders=33), batches=run_twice)
    require_complete(path, 33)


def test_the_next_run_finishes_an_interrupted_run(tmp_path: Path) -> None:
    for step in count():
        path = str(tmp_path / str(step))
        try:
            archive_to(KilledFiles(path, step), MemorySource(orders=4, split_rows=2))
        except ProcessKilled:
            require_readable(LocalFiles(path))
            archive_to(LocalFiles(path), MemorySource(orders=5))
            require_complete(path, 5)
        else:
            break
    assert step > 20, "every change of the file system was a place to be cut off at"


def test_the_next_run_finishes_an_interrupted_compaction(tmp_path: Path) -> None:
    for step in count():
        path = str(tmp_path / str(step))
        archive_again(LocalFiles(path))
        try:
            compact(KilledFiles(path, step))
        except ProcessKilled:
            state = read_settled(LocalFiles(path))
            assert state.covered[PLACE].end == 8
            require_each_once(LocalFiles(path), state)
            (compact if step % 2 else archive_again)(LocalFiles(path))
            require_complete(path, 8)
        else:
            break
    assert step > 10, "every change of the file system was a place to be cut off at"


@pytest.mark.parametrize("seed", range(12))
def test_repeatedly_interrupted_runs_lose_nothing(tmp_path: Path, seed: int) -> None:
    """A run may also be interrupted while it finishes the work of the previous one."""
    path, chance, end = str(tmp_path / "lake"), Random(seed), 0
    for _ in range(8):
        end += chance.randrange(3)
        files = KilledFiles(path, chance.randrange(25))
        with suppress(ProcessKilled, NotAnArchive):
            if chance.random() < 0.4:
                compact(files, grace_seconds=chance.choice([0, 3600]))
            else:
                archive_to(files, MemorySource(orders=end, split_rows=2))
        require_readable(LocalFiles(path))
    archive_to(LocalFiles(path), MemorySource(orders=end))
    compact(LocalFiles(path))
    require_complete(path, end)


def archive_again(files: Files) -> None:
    archive_to(files, MemorySource(orders=8, split_rows=4))


def require_readable(files: Files) -> None:
    """Check that readers see only complete data of an interrupted archive."""
    try:
        state = read_settled(files)
    except NotAnArchive:
        return
    if PLACE in state.covered:
        require_each_once(files, state)


def test_small_files_are_merged_and_large_files_stay() -> None:
    def file(first: int, size: int, day: str = "2026-01-01") -> ArchivedFile:
        return ArchivedFile("t", 0, day, first, first + 9, 10, size)

    small = [file(first, 30) for first in (0, 10, 20, 30, 40)]
    assert plan_merges([*reversed(small), file(50, 60), file(60, 10), file(0, 10, "2026-01-02")], 100) == [
        small[:3],
        small[3:],
    ]


def test_compaction_keeps_rows_and_releases_files(tmp_path: Path) -> None:
    path = str(tmp_path)
    archive_to(LocalFiles(path), MemorySource(orders=40))
    before = len(parquet_files(path))
    report = compact(LocalFiles(path))
    assert (report.files_before, report.files_after, report.rows) == (before, 4, 40)  # three days, and no date
    require_complete(path, 40)
    assert compact(LocalFiles(path)).files_before == 0


def test_replaced_files_stay_during_the_grace_time(tmp_path: Path) -> None:
    path = str(tmp_path)
    archive_to(LocalFiles(path), MemorySource(orders=40))
    before = parquet_files(path)
    compact(LocalFiles(path), grace_seconds=3600)
    assert set(before) < set(parquet_files(path))
    require_each_once(LocalFiles(path), read_settled(LocalFiles(path)))
    compact(LocalFiles(path), grace_seconds=3600)
    assert set(before) < set(parquet_files(path))
    compact(LocalFiles(path))
    require_complete(path, 40)


# who writes


def test_a_second_run_on_a_local_archive_is_refused_during_the_first(tmp_path: Path) -> None:
    with open_writer(LocalFiles(str(tmp_path)), may_create=True), pytest.raises(ArchiveTaken, match="wait until"):
        archive_to(LocalFiles(str(tmp_path)), MemorySource(orders=5))
    archive_to(LocalFiles(str(tmp_path)), MemorySource(orders=5))


def test_without_locks_the_earlier_run_cannot_commit(tmp_path: Path) -> None:
    """The later run deletes the staged files of the earlier one, which must never enter the archive."""
    path = str(tmp_path)

    def remote() -> Files:
        return Files(fs.LocalFileSystem(), path, f"file://{path}")

    def run_overtaken(what: str, splits: Any, work: Any) -> Any:
        for number, batch in enumerate(run_one_by_one(what, splits, work)):
            if number == 1:
                archive_to(remote(), MemorySource(orders=30))
            yield batch

    with pytest.raises(ArchiveTaken, match="has claimed"):
        archive_to(remote(), MemorySource(orders=48), batches=run_overtaken)
    require_complete(path, 30)
    compact(remote())
    require_complete(path, 30)


@pytest.mark.parametrize("seed", [*range(8), 33, 103])  # of the last two each has found something
def test_concurrent_runs_without_locks_each_succeed_or_fail_with_an_error(tmp_path: Path, seed: int) -> None:
    path = str(tmp_path / "lake")
    archive_to(LocalFiles(path), MemorySource(orders=2))
    turns, ended = Turns(seed, 3), [""] * 3

    def run(me: int) -> None:
        files = SharedFiles(path, turns, me)
        for _ in range(Random(f"{seed}/{me}").randrange(60)):  # it begins later than others
            turns.take(me)
        try:
            (compact(files) if me == 2 else archive_to(files, MemorySource(orders=5, split_rows=2)))
        except ArchiveTaken:
            ended[me] = "taken"
        except BaseException as error:
            ended[me] = repr(error)
            raise
        else:
            ended[me] = "done"
        finally:
            turns.leave()

    threads = [threading.Thread(target=run, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(ended) <= {"done", "taken"}
    require_readable(LocalFiles(path))
    archive_to(LocalFiles(path), MemorySource(orders=5))
    require_complete(path, 5)


def test_a_commit_is_created_once(tmp_path: Path) -> None:
    for files in (LocalFiles(str(tmp_path)), Files(fs.LocalFileSystem(), str(tmp_path), "")):
        name = type(files).__name__
        files.create(name, b"one")
        with pytest.raises(FileExistsError):
            files.create(name, b"two")
        assert files.read(name) == b"one"


# what is refused


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.parquet").write_bytes(b"mine")
    with pytest.raises(NotAnArchive, match=r"mine\.parquet"):
        archive_to(LocalFiles(str(tmp_path)), MemorySource(orders=5))
    with pytest.raises(NotAnArchive):
        compact(LocalFiles(str(tmp_path)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.parquet"]


def test_operations_on_an_archive_create_nothing_elsewhere(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotAnArchive):
            compact(LocalFiles(str(path)))
        with pytest.raises(NotAnArchive):
            read_settled(LocalFiles(str(path)))
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_at_a_new_path_stops_the_run_before_its_commit(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    archive_to(files, MemorySource(orders=8))
    taken = tmp_path / "topic=orders/partition=0/date=1970-01-01" / f"{12:020d}-{15:020d}.parquet"
    taken.write_bytes(b"mine")
    with pytest.raises(NotAnArchive, match="move it away"):
        archive_to(files, MemorySource(orders=16))
    assert taken.read_bytes() == b"mine"
    taken.unlink()
    archive_to(files, MemorySource(orders=16))
    require_complete(str(tmp_path), 16)


def test_a_recreated_topic_is_another_log(tmp_path: Path) -> None:
    files, source = LocalFiles(str(tmp_path)), MemorySource(orders=8)
    archive_to(files, source)
    source.ids[PLACE] = "another id"
    with pytest.raises(LogReplaced, match="orders/0 is not the log"):
        archive_to(files, source)
    require_complete(str(tmp_path), 8)


def test_deleted_records_are_an_error_or_reported(tmp_path: Path) -> None:
    files, source = LocalFiles(str(tmp_path)), MemorySource(orders=8)
    archive_to(files, source)
    source.bounds[PLACE] = (10, 16)
    with pytest.raises(DataLost, match="offsets 8 to 9"):
        archive_to(files, source)
    report = archive_to(files, source, fail_on_data_loss=False)
    assert [tuple(lost) for lost in report.lost] == [("orders", 0, 8, 10)]
    assert report.as_json()["problems"] == ["orders/0: offsets 8 to 9 were lost"]
    assert report.rows == 6
    assert read_settled(files).covered[PLACE] == Coverage("id of orders", 0, 16)


def test_an_archive_starts_at_the_log_start_offset(tmp_path: Path) -> None:
    files, source = LocalFiles(str(tmp_path)), MemorySource(orders=8)
    source.bounds[PLACE] = (3, 8)
    assert archive_to(files, source).lost == ()
    assert read_settled(files).covered[PLACE] == Coverage("id of orders", 3, 8)


def test_a_backup_may_lag_behind_the_archive_and_a_cluster_may_not() -> None:
    covered = {PLACE: Coverage("id of orders", 0, 9)}
    logs = MemorySource(orders=8).logs(TopicChoice(), fail_on_data_loss=True)
    plan = plan_archive(logs, covered, may_lag=True, fail_on_data_loss=True)
    assert (plan.wanted, plan.behind) == ((), (PLACE,))
    with pytest.raises(LogReplaced, match="lost records"):
        plan_archive(logs, covered, may_lag=False, fail_on_data_loss=True)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    archive_to(files, MemorySource(orders=8))
    last = read_settled(files).files_of_topics(None)[-1]
    os.unlink(tmp_path / last.path)
    with pytest.raises(ArchiveDamaged, match=last.path):
        read_settled(files)
    with pytest.raises(ArchiveDamaged, match=last.path):
        archive_to(files, MemorySource(orders=16))


def test_a_file_with_other_columns_is_not_merged(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    archive_to(files, MemorySource(orders=16))
    first = read_settled(files).files_of_topics(None)[0]
    pq.write_table(pa.table({"offset": list(range(first.rows))}), tmp_path / first.path)
    with pytest.raises(ArchiveDamaged, match="its columns are offset"):
        compact(files)


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    archive_to(files, MemorySource(orders=16))
    first = read_settled(files).files_of_topics(None)[0]
    content = bytearray((tmp_path / first.path).read_bytes())
    at = pq.ParquetFile(tmp_path / first.path).metadata.row_group(0).column(4).data_page_offset
    content[at + 40] ^= 1
    (tmp_path / first.path).write_bytes(content)
    with pytest.raises(ArchiveDamaged, match=first.path):
        compact(files)


# the chain of commits


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"{}")])
def test_snapshots_are_optional_and_commits_are_required(tmp_path: Path, spoil: Any) -> None:
    files = LocalFiles(str(tmp_path))
    for end in range(1, SNAPSHOT_EVERY + 2):
        archive_to(files, MemorySource(orders=end))
    require_complete(str(tmp_path), end)
    state = read_settled(files)
    snapshots = sorted((tmp_path / "_raftlog/snapshots").iterdir())
    assert state.number > 2 * SNAPSHOT_EVERY
    assert len(snapshots) > 1
    for snapshot in snapshots[::-1]:
        spoil(snapshot)
        assert read_settled(files) == state
    spoil(tmp_path / Commit(5, "claimed", "", 0).name)
    with pytest.raises(ArchiveDamaged, match="00005"):
        read_settled(files)


def test_an_archive_is_read_from_the_newest_snapshot_and_later_commits(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    for end in range(1, SNAPSHOT_EVERY + 2):
        archive_to(files, MemorySource(orders=end))
    state = read_settled(files)
    commits = sorted((tmp_path / "_raftlog/commits").iterdir())
    for commit in commits[: -SNAPSHOT_EVERY - 1]:
        commit.unlink()
    assert read_newest(files).newest == state


def test_a_commit_is_decoded_as_it_was_encoded() -> None:
    coverage = {PLACE: Coverage("id", 1, 2), TopicPartition("a", 3): Coverage("id", 0, 0)}
    paths = [path_of("orders", 0, "2026-01-01", first, first) for first in (1, 2, 3)]
    commit = Commit(7, "archived", str(uuid4()), 12, "archive", coverage, dropped=tuple(paths[:2]), deleted=(paths[2],))
    content = encode_commit(commit)
    assert decode_commit("name", content) == commit
    with pytest.raises(ArchiveDamaged, match="checksum"):
        decode_commit("name", content.replace(b'"time_ms":12', b'"time_ms":13'))
    with pytest.raises(ArchiveDamaged, match="name"):
        decode_commit("name", content[:-1])


def test_archive_uris_are_normalized_or_refused(tmp_path: Path) -> None:
    assert files_at(f"file://{tmp_path}").uri == f"file://{tmp_path}"
    assert files_at(os.path.relpath(tmp_path)).uri == f"file://{tmp_path}"
    assert files_at("file:/a/b").uri == "file:///a/b"
    for refused in ("nowhere://x", "/lake/*", "s3://bucket?region=x"):
        with pytest.raises(InvalidArgument, match=re.escape(refused)):
            files_at(refused)


def test_the_commit_in_the_document_is_valid() -> None:
    text = (DOCS / "FORMATS.md").read_text().split("<!-- archive commit -->\n```\n")[1].split("\n```")[0]
    commit = decode_commit("the document", text.encode())
    assert encode_commit(commit) == text.encode()
    assert commit.added[0].file.path.startswith("topic=orders/partition=0/date=2026-01-01/")
    assert commit.covered[PLACE].end == 1000
