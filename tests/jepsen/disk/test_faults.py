"""Disk faults that are switched on and off while a program runs under the shim, and the counts of their effects."""

import errno
import shutil
from pathlib import Path

import pytest

from jepsen.disk import NodeDisk
from jepsen.disk.shim_library import CannotBeBuilt, library
from tests.jepsen.disk.programs import node_disk, read_files, run_program

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture
def disk(tmp_path: Path) -> NodeDisk:
    return node_disk(tmp_path)


def test_a_full_disk_accepts_only_writes_that_fit(tmp_path: Path, disk: NodeDisk) -> None:
    (tmp_path / "data/a").write_bytes(b"o" * 5000)
    program = """
    import shutil
    a = opened('a')
    print(shutil.disk_usage('a').free)
    attempt(os.pwrite, a, b"n" * 8192, 0)       # the rest of the last page is there already
    attempt(os.pwrite, a, b"n" * 8193, 0)
    attempt(os.pwritev, a, [b"n"], 8192)
    attempt(os.write, opened('b'), b"n")
    attempt(os.ftruncate, a, 100_000)
    attempt(os.pwrite, a, b"n", 50_000)         # a hole
    attempt(os.posix_fallocate, a, 0, 200_000)
    """
    printed = run_program(tmp_path, disk, program, prepare=[disk.fill])
    full = str(errno.ENOSPC)
    assert printed.split() == ["0", "ok", full, full, full, "ok", full, full]
    assert (disk.read_counters().refused, disk.read_counters().reported_full) == (5, 1)
    assert read_files(tmp_path)["a"] == b"n" * 8192 + bytes(100_000 - 8192)
    assert run_program(tmp_path, disk, "attempt(os.write, opened('b'), b'n')", prepare=[disk.fill, disk.free]) == "ok\n"


def test_the_requested_number_of_syncs_fails(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    a, outside = opened('a', b"content"), opened('../outside')
    for sync in os.fsync, os.fdatasync, os.fsync:
        attempt(sync, outside)
        attempt(sync, a)
    """
    io_error = str(errno.EIO)
    printed = run_program(tmp_path, disk, program, prepare=[lambda: disk.fail_syncs(2)])
    assert printed.split() == ["ok", io_error, "ok", io_error, "ok", "ok"]
    assert (disk.read_counters().syncs, disk.read_counters().failed) == (3, 2)
    printed = run_program(tmp_path, disk, program, prepare=[lambda: disk.fail_syncs(-1)])
    assert printed.split() == ["ok", io_error] * 3


def test_syncs_and_the_wait_for_events_take_longer(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    import select, time
    a, events = opened('a'), select.epoll()
    def slept(what, *arguments):
        begin = time.monotonic()
        what(*arguments)
        print(time.monotonic() - begin >= 0.05)
    slept(os.fsync, a)
    waits = threading.Thread(target=slept, args=[events.poll, 0])  # no loop
    waits.start(); waits.join()
    slept(events.poll, 0)
    slept(events.poll, 0)
    """
    faults = [lambda: disk.slow_syncs(0.05), lambda: disk.stall_loop(0.06)]
    printed = run_program(tmp_path, disk, program, prepare=faults)
    assert printed.split()[:1] + printed.split()[2:3] == ["True", "True"]
    seen = disk.read_counters()
    assert (seen.delayed, seen.delayed_ms, seen.stalls, seen.stalled_ms) == (1, 50, 1, 60)
    run_program(tmp_path, disk, "pass")
    assert disk.read_counters() == (0,) * 8, "a launch begins anew"


def test_without_a_compiler_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotBeBuilt, match="gcc and libc6-dev"):
        library.__wrapped__()


def test_a_disk_may_be_full_while_it_reports_free_space(tmp_path: Path, disk: NodeDisk) -> None:
    program = "import shutil; print(shutil.disk_usage('.').free > 0); attempt(os.write, opened('b'), b'n')"
    printed = run_program(tmp_path, disk, program, prepare=[lambda: disk.fill(secretly=True)])
    assert printed.split() == ["True", str(errno.ENOSPC)]
    assert (disk.read_counters().refused, disk.read_counters().reported_full) == (1, 0)
