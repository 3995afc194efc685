"""Manifests with a valid checksum and wrong content: an error with their name; nothing is read or deleted."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raftlog.pipeline.archives import files as archive_files
from raftlog.pipeline.archives.files import LocalFiles
from raftlog.pipeline.archives.manifest import NO_DATE, path_of_number, seal
from raftlog.pipeline.archives.state import SNAPSHOT_EVERY, read_newest, read_settled
from raftlog.pipeline.archives.validation import check_day, check_rows_path, check_topic_name, path_of
from raftlog.pipeline.errors import ArchiveDamaged
from tests.pipeline.archives import MemorySource, archive_to, compact

UUID = "9b1f7f0e-3f0c-4d3e-8f53-6a0a3c0b8a11"
OUTSIDE = "outside.parquet"
NO_PATHS = (
    "{outside}",
    "../" + OUTSIDE,
    "topic=orders/../../" + OUTSIDE,
    "topic=../partition=0/date=2026-01-01/00000000000000000000-00000000000000000001.parquet/../../../" + OUTSIDE,
    "./" + path_of("orders", 0, "2026-01-01", 0, 1),
    "/" + path_of("orders", 0, "2026-01-01", 0, 1),
    "topic=orders//partition=0/date=2026-01-01/00000000000000000000-00000000000000000001.parquet",
    "topic=orders/partition=00/date=2026-01-01/00000000000000000000-00000000000000000001.parquet",
    "topic=orders/partition=0/date=2026-13-01/00000000000000000000-00000000000000000001.parquet",
    "topic=orders/partition=0/date=20260101/00000000000000000000-00000000000000000001.parquet",
    path_of("orders", 0, "2026-01-01", 2, 1),
    path_of("orders", 0, "2026-01-01", 0, 1 << 63),
    path_of("orders", 1 << 31, "2026-01-01", 0, 1),
    path_of("a/b", 0, "2026-01-01", 0, 1),
    path_of("orders", 0, "2026-01-01", 0, 1) + "\n",
    path_of("orders", 0, "2026-01-01", 0, 1).replace("0", "\u0660"),
    "_raftlog/commits/00000000000000000000.json",
    "",
    None,
    7,
    ["topic=orders"],
)
NO_STAGED = (
    "{outside}",
    "../" + OUTSIDE,
    f"_raftlog/staging/{UUID}/../../../{OUTSIDE}",
    f"_raftlog/staging/other/{UUID}.parquet",
    f"_raftlog/staging/{UUID}.parquet",
    f"_raftlog/staging/{UUID}/x.parquet",
    f"_raftlog/staging/{UUID}/{UUID}.json",
    path_of("orders", 0, "2026-01-01", 0, 1),
    None,
)
NO_FILES: tuple[Any, ...] = (
    ["../x", 0, "2026-01-01", 0, 1, 2, 9],
    ["/etc", 0, "2026-01-01", 0, 1, 2, 9],
    ["..", 0, "2026-01-01", 0, 1, 2, 9],
    ["", 0, "2026-01-01", 0, 1, 2, 9],
    ["o" * 256, 0, "2026-01-01", 0, 1, 2, 9],
    [None, 0, "2026-01-01", 0, 1, 2, 9],
    ["orders", -1, "2026-01-01", 0, 1, 2, 9],
    ["orders", "0/../..", "2026-01-01", 0, 1, 2, 9],
    ["orders", True, "2026-01-01", 0, 1, 2, 9],
    ["orders", 0, "../../..", 0, 1, 2, 9],
    ["orders", 0, "2026-02-30", 0, 1, 2, 9],
    ["orders", 0, None, 0, 1, 2, 9],
    ["orders", 0, "2026-01-01", -1, 1, 2, 9],
    ["orders", 0, "2026-01-01", "x", 1, 2, 9],
    ["orders", 0, "2026-01-01", 0.5, 1, 2, 9],
    ["orders", 0, "2026-01-01", 2, 1, 2, 9],
    ["orders", 0, "2026-01-01", 0, 1 << 63, 2, 9],
    ["orders", 0, "2026-01-01", 0, 1, 3, 9],
    ["orders", 0, "2026-01-01", 0, 1, 0, 9],
    ["orders", 0, "2026-01-01", 0, 1, 2, -9],
    ["orders", 0, "2026-01-01", 0, 1, 2],
    ["orders", 0, "2026-01-01", 0, 1, 2, 9, 9],
    "orders",
    None,
)
NO_COVERAGE: tuple[Any, ...] = (
    [["../x", 0, "id", 0, 1]],
    [["orders", -1, "id", 0, 1]],
    [["orders", 0, 5, 0, 1]],
    [["orders", 0, "id", -1, 1]],
    [["orders", 0, "id", 0, "1"]],
    [["orders", 0, "id", 0]],
    [7],
    None,
)
STAGED = f"_raftlog/staging/{UUID}/{UUID}.parquet"
FILE = ["orders", 0, "2026-01-01", 100, 101, 2, 9]
COMMIT: tuple[tuple[str, Any], ...] = (
    *(("dropped", [path]) for path in NO_PATHS),
    *(("deleted", [path]) for path in NO_PATHS),
    *(("added", [[path, *FILE]]) for path in NO_STAGED),
    *(("added", [[STAGED, *file] if isinstance(file, list) else file]) for file in NO_FILES),
    *(("covered", rows) for rows in NO_COVERAGE),
    *(("dropped", wrong) for wrong in ("text", None, {"a": 1})),
    *(("deleted", wrong) for wrong in ("text", None)),
    *(("added", wrong) for wrong in ("text", None)),
    *(("lost", wrong) for wrong in ("text", [["orders", 0, 5, 4]], [["../x", 0, 0, 1]], [["orders", "0", 0, 1]], [5])),
    *(("number", wrong) for wrong in (-1, "5", None, True, 1 << 70)),
    *(("kind", wrong) for wrong in ("other", "", None, ["archived"])),
    *(("run", wrong) for wrong in ("..", "../..", "", None, UUID.upper(), UUID + "/..")),
    *(("time_ms", wrong) for wrong in (-1, "5", 0.5, None)),
    *(("archive_id", wrong) for wrong in (None, 5)),
)
SNAPSHOT: tuple[tuple[str, Any], ...] = (
    *(("dropped", {path: 0}) for path in NO_PATHS if isinstance(path, str)),
    *(("files", [file]) for file in NO_FILES),
    *(("covered", rows) for rows in NO_COVERAGE),
    *(("dropped", wrong) for wrong in ([OUTSIDE], None, {path_of("orders", 0, "2026-01-01", 0, 1): "then"})),
    *(("number", wrong) for wrong in (0, -1, None, 1 << 70)),
    *(("archive_id", wrong) for wrong in (None, 5)),
    *(("files", wrong) for wrong in (None, 5)),
)


@pytest.fixture(autouse=True)
def disable_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_files, "_sync", lambda path: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with an archive that has a snapshot, and a file beside it."""
    path = tmp_path_factory.mktemp("room")
    for end in range(1, SNAPSHOT_EVERY + 2):
        archive_to(LocalFiles(str(path / "lake")), MemorySource(orders=end))
    (path / OUTSIDE).write_bytes(b"of another owner")
    return path


def read_all_files(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def fill_marks(room: Path, value: Any, run: str) -> Any:
    """Replace the marks by the absolute path of the file outside, and by the commit's own run."""
    written = json.dumps(value).replace("{outside}", str(room / OUTSIDE))
    return json.loads(written.replace(STAGED, STAGED.replace(UUID, run, 1)))


def require_refused(room: Path, name: str) -> None:
    files, before = LocalFiles(str(room / "lake")), read_all_files(room)
    uses: tuple[Callable[[], object], ...] = (
        lambda: read_settled(files),
        lambda: read_newest(files),
        lambda: archive_to(files, MemorySource(orders=90)),
        lambda: compact(files),
    )
    for use in uses:
        with pytest.raises(ArchiveDamaged, match=name):
            use()
        assert read_all_files(room) == before


def forge(room: Path, name: str, field: str, value: Any) -> Callable[[], None]:
    """Write the value into the file, with a valid checksum; return a function that restores the old content."""
    path = room / "lake" / name
    there = path.read_bytes() if path.exists() else None
    fields = {each: member for each, member in json.loads(there or b"{}").items() if each != "checksum"}
    path.write_bytes(seal({**fields, field: fill_marks(room, value, fields.get("run", UUID))}))

    def restore() -> None:
        assert there is not None
        path.write_bytes(there)

    return restore


def test_a_valid_file_is_accepted(master: Path) -> None:
    """The other tests rely on this: their files are refused only for their own defect."""
    newest = read_newest(LocalFiles(str(master / "lake"))).newest.number
    restore = forge(master, path_of_number("_raftlog/commits", newest), "added", [[STAGED, *FILE]])
    assert read_newest(LocalFiles(str(master / "lake"))).newest.files[path_of(*FILE[:5])] == tuple(FILE)
    restore()


def test_no_field_of_a_commit_leads_out_of_the_archive(master: Path) -> None:
    newest = read_newest(LocalFiles(str(master / "lake"))).newest.number
    name = path_of_number("_raftlog/commits", newest)
    for field, value in COMMIT:
        restore = forge(master, name, field, value)
        try:
            require_refused(master, f"{newest:020d}.json")
        except BaseException as error:
            error.add_note(f"{field}: {value!r}")
            raise
        finally:
            restore()
    read_settled(LocalFiles(str(master / "lake")))


def test_no_field_of_a_snapshot_leads_out_of_the_archive(master: Path) -> None:
    name = sorted(os.listdir(master / "lake/_raftlog/snapshots"))[-1]
    for field, value in SNAPSHOT:
        restore = forge(master, f"_raftlog/snapshots/{name}", field, value)
        try:
            require_refused(master, name)
        except BaseException as error:
            error.add_note(f"{field}: {value!r}")
            raise
        finally:
            restore()
    read_settled(LocalFiles(str(master / "lake")))


def test_a_file_is_in_use_or_replaced_and_never_both(master: Path) -> None:
    name = sorted(os.listdir(master / "lake/_raftlog/snapshots"))[-1]
    live = json.loads((master / "lake/_raftlog/snapshots" / name).read_bytes())["files"][0]
    restore = forge(master, f"_raftlog/snapshots/{name}", "dropped", {path_of(*live[:5]): 0})
    require_refused(master, name)
    restore()


def test_nothing_is_deleted_or_moved_through_a_symbolic_link_out_of_the_archive(tmp_path: Path) -> None:
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    files = LocalFiles(str(lake))
    archive_to(files, MemorySource(orders=20))
    compact(files, grace_seconds=1e6)
    assert read_settled(files).dropped, "files are to be deleted by the next run"
    (lake / "topic=orders").rename(elsewhere)
    (lake / "topic=orders").symlink_to(elsewhere)
    before = read_all_files(elsewhere)
    with pytest.raises(ArchiveDamaged, match=r"a symbolic link leads out of the archive, to .*elsewhere"):
        compact(files)
    assert read_all_files(elsewhere) == before
    with pytest.raises(ArchiveDamaged, match="symbolic link"):
        files.move(next(iter(read_settled(files).dropped)), "topic=orders/moved.parquet")
    assert read_all_files(elsewhere) == before


def test_a_link_in_the_staging_directory_is_deleted_and_not_its_target(tmp_path: Path) -> None:
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    files = LocalFiles(str(lake))
    archive_to(files, MemorySource(orders=2))
    elsewhere.mkdir()
    (elsewhere / "kept").write_bytes(b"kept")
    (lake / "_raftlog/staging/link").symlink_to(elsewhere)
    archive_to(files, MemorySource(orders=4))
    assert (elsewhere / "kept").read_bytes() == b"kept"
    assert not (lake / "_raftlog/staging/link").exists()


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a//x", "./x", "a/\0"])
def test_names_that_lead_elsewhere_are_refused_by_every_operation(tmp_path: Path, name: str) -> None:
    files = LocalFiles(str(tmp_path / "lake"))
    files.make_directory("a")
    uses: tuple[Callable[[], object], ...] = (
        lambda: files.read(name),
        lambda: files.delete(name),
        lambda: files.delete_directory(name),
        lambda: files.move(name, "a/b"),
        lambda: files.move("a/b", name),
        lambda: files.create(name, b""),
        lambda: files.sizes([name]),
        lambda: files.open_input(name),
        lambda: files.open_output(name),
    )
    for use in uses:
        with pytest.raises(ArchiveDamaged, match="no name of a file"):
            use()


def test_batches_written_by_raftlog_are_readable() -> None:
    for topic in ("orders", "a.b-c_d", "with spaces", "größe", "..x", "o" * 255):
        path = path_of(check_topic_name(topic), 7, check_day(NO_DATE), 0, (1 << 63) - 1)
        assert check_rows_path(path) == path
