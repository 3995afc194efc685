"""Simulated disk: the file protocol as on the real one, and the rules of its power losses."""

import contextlib
import errno
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jepsen.simulation.disk.simulated_disk import SimulatedDisk
from jepsen.simulation.disk.simulated_faults import PAGE_BYTES as PAGE
from raftlog.storage.disk import Disk, File
from raftlog.storage.real_disk import RealDisk

SEEDS = range(100)
A, B = b"a" * PAGE, b"b" * PAGE


def make_disk(seed: int = 0, capacity_bytes: int | None = None) -> SimulatedDisk:
    disk = SimulatedDisk(Random(seed), capacity_bytes=capacity_bytes)
    disk.make_directory("/d")
    disk.sync([], ["/"])
    return disk


def create_durable_file(disk: SimulatedDisk, path: str = "/d/f", content: bytes = b"") -> File:
    file = disk.open(path, create=True)
    file.write(0, [content])
    disk.sync([file], [path.rpartition("/")[0]])
    return file


def content_of(disk: Disk, path: str = "/d/f") -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


def expect_error(code: int, call: Callable[..., object], *arguments: object) -> None:
    with pytest.raises(OSError) as failure:
        call(*arguments)
    assert failure.value.errno == code


def collect_outcomes(scenario: Callable[[SimulatedDisk], object], torn: bool = True) -> list[dict[str, bytes]]:
    disks = list(map(make_disk, SEEDS))
    for disk in disks:
        scenario(disk)
        disk.power_loss(torn)
    return [disk.snapshot() for disk in disks]


# The contract of the protocol, on both disks


class Bench(NamedTuple):
    """Disk under test, real or simulated, with a directory."""

    disk: Disk
    root: str
    settle: Callable[[], object]  # lets submitted syncs complete

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def create(self, name: str, content: bytes = b"") -> File:
        file = self.disk.open(self.path(name), create=True)
        file.write(0, [content])
        return file


@pytest.fixture(params=["simulated", "real"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    if request.param == "simulated":
        disk = make_disk()
        return Bench(disk, "/d", disk.complete_all)
    jobs: deque[Callable[[], None]] = deque()
    settle = lambda: [jobs.popleft()() for _ in range(2 * len(jobs))]  # noqa: E731 - each job posts one completion
    return Bench(RealDisk(jobs.append, jobs.append), str(tmp_path), settle)


def test_file_contents_follow_the_protocol(bench: Bench) -> None:
    file = bench.create("f", b"0123456789")
    file.write(8, [b"AB", bytearray(b"CD"), memoryview(b"EF")])
    file.write(0, [])
    assert (file.path, file.size(), file.read(0, 100)) == (bench.path("f"), 14, b"01234567ABCDEF")
    assert file.read(14, 5) == file.read(100, 5) == b""
    file.write(16, [b"x"])
    assert file.read(12, 100) == b"EF\0\0x"
    file.truncate(4)
    file.truncate(6)
    assert file.read(0, 100) == b"0123\0\0"


def test_open_follows_the_protocol(bench: Bench) -> None:
    disk, path = bench.disk, bench.path
    expect_error(errno.ENOENT, disk.open, path("f"))
    expect_error(errno.ENOENT, bench.create, "missing/f")
    bench.create("f", b"one").close()
    expect_error(errno.EEXIST, bench.create, "f")
    expect_error(errno.ENOTDIR, bench.create, "f/below")
    expect_error(errno.EISDIR, disk.open, bench.root)
    assert content_of(disk, path("f")) == b"one"


def test_directories_follow_the_protocol(bench: Bench) -> None:
    disk, path = bench.disk, bench.path
    disk.make_directory(path("a/b"))
    disk.make_directory(path("a/b"))
    bench.create("a/z")
    assert disk.list_directory(path("a")) == ["b", "z"]
    assert [disk.is_directory(path(name)) for name in ("a/b", "a/z", "a/none")] == [True, False, False]
    expect_error(errno.EEXIST, disk.make_directory, path("a/z"))
    expect_error(errno.ENOTDIR, disk.make_directory, path("a/z/below"))
    expect_error(errno.ENOTEMPTY, disk.remove_directory, path("a"))
    expect_error(errno.ENOTDIR, disk.remove_directory, path("a/z"))
    expect_error(errno.ENOTDIR, disk.list_directory, path("a/z"))
    disk.remove_directory(path("a/b"))
    expect_error(errno.ENOENT, disk.list_directory, path("a/b"))


def test_names_follow_the_protocol(bench: Bench) -> None:
    disk, path = bench.disk, bench.path
    bench.create("f", b"f")
    bench.create("g", b"g")
    disk.make_directory(path("a"))
    disk.make_directory(path("c"))
    disk.rename(path("f"), path("g"))
    disk.rename(path("g"), path("a/g"))
    disk.rename(path("a"), path("b"))
    assert disk.list_directory(bench.root) == ["b", "c"]
    assert content_of(disk, path("b/g")) == b"f"
    expect_error(errno.ENOENT, disk.rename, path("none"), path("x"))
    expect_error(errno.EISDIR, disk.rename, path("b/g"), path("c"))
    expect_error(errno.ENOTDIR, disk.rename, path("c"), path("b/g"))
    expect_error(errno.ENOTEMPTY, disk.rename, path("c"), path("b"))
    expect_error(errno.EINVAL, disk.rename, path("b"), path("b/inside"))
    expect_error(errno.EISDIR, disk.unlink, path("b"))
    disk.unlink(path("b/g"))
    expect_error(errno.ENOENT, disk.unlink, path("b/g"))
    assert not disk.exists(path("b/g"))


def test_locks_follow_the_protocol(bench: Bench) -> None:
    held = bench.disk.lock(bench.path("lock"))
    expect_error(errno.EWOULDBLOCK, bench.disk.lock, bench.path("lock"))
    held.release()
    bench.disk.lock(bench.path("lock"))
    held.release()
    expect_error(errno.EWOULDBLOCK, bench.disk.lock, bench.path("lock"))


def test_syncs_follow_the_protocol(bench: Bench) -> None:
    disk, file, missing = bench.disk, bench.create("f", b"x"), bench.path("none")
    answers: list[OSError | None] = []
    disk.submit_sync([file], [bench.root], answers.append)
    disk.submit_sync([file], [missing], answers.append)
    assert answers == []
    bench.settle()
    assert [answer and answer.errno for answer in answers] == [None, errno.ENOENT]
    disk.sync([file], [bench.root])
    expect_error(errno.ENOENT, disk.sync, [], [missing])
    expect_error(errno.ENOENT, disk.free_bytes, missing)
    assert disk.free_bytes(bench.root) > 0


# Contents against a naive twin

ACTIONS = ["write", "write", "truncate", "sync", "submit", "submit", "complete", "complete", "fail"]
POSITIONS = st.sampled_from([0, 10, PAGE, PAGE + 10, 2 * PAGE]) | st.integers(0, 3 * PAGE)
LENGTHS = st.sampled_from([1, 40, PAGE + 9])
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), POSITIONS, LENGTHS), min_size=4, max_size=25)


def apply_change(twin: bytes, action: str, position: int, data: bytes) -> bytes:
    if action == "truncate":
        return twin[:position].ljust(position, b"\0")
    return twin[:position].ljust(position, b"\0") + data + twin[position + len(data) :]


def page_at(content: bytes, page: int) -> bytes:
    return content[page * PAGE : (page + 1) * PAGE].ljust(PAGE, b"\0")


def assert_left_from(versions: list[bytes], left: bytes, torn: bool) -> None:
    """Check the remaining content of a file after a power loss.

    The size is that of a version, or torn at a page; each page is that of a version, cut at a durable size."""
    sizes = {len(version) for version in versions}
    assert min(sizes) <= len(left) <= max(sizes)
    assert len(left) in sizes or (torn and len(left) % PAGE == 0)
    for page in range(len(left) // PAGE + 1):
        allowed = [page_at(version[: min(len(left), size)], page) for version in versions for size in sizes]
        assert page_at(left, page) in allowed, page


@settings(max_examples=200)
@given(STEPS, st.integers(0, 99), st.booleans())
def test_contents_equal_a_naive_twin(steps: list[tuple[str, int, int]], seed: int, torn: bool) -> None:
    """The twin keeps every version; a completed sync excludes versions before its submission."""
    disk = make_disk(seed)
    file = create_durable_file(disk)
    versions, submitted, oldest, failed = [b""], [], 0, False
    for number, (action, position, length) in enumerate(steps, start=1):
        data = bytes([number]) * length
        if action in ("write", "truncate"):
            versions.append(apply_change(versions[-1], action, position, data))
            file.write(position, [data]) if action == "write" else file.truncate(position)
        elif action == "sync":
            disk.sync([file])
            oldest = len(versions) - 1
        elif action == "submit":
            disk.submit_sync([file], [], lambda _: None)
            submitted.append(len(versions) - 1)
        elif action == "complete" and disk.complete_next():
            oldest = max(oldest, submitted.pop(0))
        elif action == "fail":
            failed = True
            disk.fail_sync()
            expect_error(errno.EIO, disk.sync, [file])
        assert file.read(0, 8 * PAGE) == versions[-1]
    disk.process_crash()
    assert content_of(disk) == versions[-1]
    disk.power_loss(torn)
    assert_left_from(versions if failed else versions[oldest:], content_of(disk), torn)


def play(disk: SimulatedDisk, steps: str) -> None:
    """Run steps on a durable file `aa`.

    wb2 writes two pages b, t1 cuts to one, s syncs, ( submits, ) completes, x fails."""
    file = create_durable_file(disk, content=A * 2)
    for step in steps.split():
        match step[0]:
            case "w":
                file.write(0, [step[1].encode() * PAGE * int(step[2])])
            case "t":
                file.truncate(PAGE * int(step[1]))
            case "(":
                disk.submit_sync([file], [], lambda _: None)
            case ")":
                disk.complete_next()
            case "x":
                disk.fail_sync()
            case _:
                with contextlib.suppress(OSError):
                    disk.sync([file])


@pytest.mark.parametrize(
    ("steps", "torn", "possible"),
    [
        ("wb2", True, "aa ab ba bb"),
        ("wb2", False, "aa bb"),
        ("t1", True, "aa a"),
        ("wb1 s", True, "ba"),
        ("t1 s wb2", True, "a b a0 b0 ab bb"),
        ("wb1 ( wc2 )", True, "ba bc ca cc"),
        ("wb2 ( t1 )", True, "bb b"),  # a cut goes whole, with the size
        ("wb1 ( wc2 s wd2 )", True, "cc cd dc dd"),  # the late completion does not bring b back
        ("( wc3 s t2 s wd2 )", True, "cc cd dc dd"),  # nor an old size
        ("t1 ( wc2 s wd2 )", True, "cc cd dc dd"),
        ("wb2 x s s", True, "aa"),  # lost by the failed sync, passed by in the next
        ("wb2 x s wc1 s", True, "ca"),  # saved by a new write
        ("wb1 ( ( x ) )", True, "aa"),
        ("wb1 ( ( x ) wc1 )", True, "aa ca"),
        ("t1 x s s t2 s", True, "a0"),  # what was cut off does not come back
    ],
)
def test_contents_after_a_power_loss_are_possible_ones(steps: str, torn: bool, possible: str) -> None:
    left = {state["/d/f"][::PAGE] for state in collect_outcomes(lambda disk: play(disk, steps), torn)}
    assert left == {pages.encode().replace(b"0", b"\0") for pages in possible.split()}


def test_a_grown_file_has_the_old_size_the_new_one_or_a_page_border_between() -> None:
    states = collect_outcomes(lambda disk: create_durable_file(disk, content=b"a" * 100).write(100, [B * 2]))
    left = [state["/d/f"] for state in states]
    assert {len(content) for content in left} == {100, PAGE, 2 * PAGE, 2 * PAGE + 100}
    assert all(content.startswith(b"a" * 100) for content in left)
    assert any(set(content[PAGE : 2 * PAGE]) == {0} for content in left), "an unwritten page reads zeros"


def test_directory_operations_survive_as_a_prefix_and_a_rename_is_atomic() -> None:
    def scenario(disk: SimulatedDisk) -> None:
        create_durable_file(disk, "/d/f", b"old")
        disk.open("/d/new", create=True)
        disk.rename("/d/new", "/d/f")
        disk.sync([disk.open("/d/last", create=True)])  # which syncs no name

    left = {tuple((path, len(content)) for path, content in state.items()) for state in collect_outcomes(scenario)}
    f_old, f_new = ("/d/f", 3), ("/d/f", 0)
    assert left == {(f_old,), (f_old, ("/d/new", 0)), (f_new,), (f_new, ("/d/last", 0))}


@pytest.mark.parametrize("synced", [[], ["/d"], ["/e"], ["/d", "/e"]])
def test_a_rename_between_directories_needs_both_syncs(synced: list[str]) -> None:
    def scenario(disk: SimulatedDisk) -> None:
        disk.make_directory("/e")
        disk.sync([], ["/"])
        create_durable_file(disk)
        disk.rename("/d/f", "/e/f")
        disk.open("/d/later", create=True)
        disk.sync([], synced)

    left = collect_outcomes(scenario)
    places = {tuple(path for path in state if path.endswith("/f")) for state in left}
    assert places == ({("/e/f",)} if len(synced) == 2 else {("/d/f",), ("/e/f",)}), "never both, never neither"
    assert all("/d/later" in state for state in left) or "/d" not in synced
    assert synced or not any({"/d/f", "/d/later"} <= set(state) for state in left), "a prefix"


def test_a_sync_covers_earlier_changes_under_the_same_name() -> None:
    disk = make_disk()
    disk.make_directory("/e")
    create_durable_file(disk, content=b"x")
    disk.rename("/d/f", "/e/f")
    disk.open("/d/f", create=True)
    disk.sync([], ["/", "/d"])
    disk.power_loss()
    assert disk.snapshot() == {"/d/f": b"", "/e/f": b"x"}


def test_a_directory_survives_by_its_parents_sync() -> None:
    disk = make_disk()
    disk.make_directory("/d/x/y")
    create_durable_file(disk, "/d/x/y/f")
    disk.sync([], ["/d/x"])
    assert disk.durable_paths() == ["/d"]
    disk.sync([], ["/d"])
    assert disk.durable_paths() == ["/d", "/d/x", "/d/x/y", "/d/x/y/f"]


def test_a_submitted_sync_covers_earlier_names_and_maybe_later_ones() -> None:
    durable = set()
    for disk in map(make_disk, SEEDS):
        disk.open("/d/a", create=True)
        disk.submit_sync([], ["/d"], lambda _: None)
        disk.open("/d/b", create=True)
        disk.complete_next()
        durable.add(tuple(disk.durable_paths()))
    assert durable == {("/d", "/d/a"), ("/d", "/d/a", "/d/b")}


def test_syncs_complete_in_order_on_demand() -> None:
    disk = make_disk()
    file, before = create_durable_file(disk), disk.sync_count
    done: list[int] = []
    disk.submit_sync([file], [], lambda _: done.append(1))
    disk.submit_sync([file], [], lambda _: disk.submit_sync([file], [], lambda _: done.append(3)))
    assert (done, disk.pending_syncs) == ([], 2)
    assert disk.complete_next()
    assert (done, disk.pending_syncs, disk.sync_count) == ([1], 1, before + 1)
    assert (disk.complete_all(), done, disk.complete_next()) == (2, [1, 3], False)


@pytest.mark.parametrize("crash", [SimulatedDisk.power_loss, SimulatedDisk.process_crash])
def test_a_crash_ends_handles_locks_and_pending_syncs(crash: Callable[[SimulatedDisk], None]) -> None:
    disk = make_disk()
    file = create_durable_file(disk, content=b"x")
    lock = disk.lock("/d/f")
    disk.submit_sync([file], [], lambda _: pytest.fail("a forgotten sync called back"))
    crash(disk)
    assert disk.pending_syncs == disk.complete_all() == 0
    for use in (file.size, lambda: file.read(0, 1), lambda: file.write(0, [b"y"]), lambda: disk.sync([file])):
        expect_error(errno.EBADF, use)
    file.close()
    disk.lock("/d/f")
    lock.release()
    expect_error(errno.EWOULDBLOCK, disk.lock, "/d/f")
    assert content_of(disk) == b"x"


def test_syncs_fail_the_requested_number_of_times() -> None:
    disk = make_disk()
    answers: list[OSError | None] = []
    disk.fail_sync(times=2, error=errno.ENOSPC)
    for _ in range(2):
        disk.submit_sync([], [], answers.append)
    disk.complete_next()
    expect_error(errno.ENOSPC, disk.sync, [])
    disk.complete_next()
    assert [answer and answer.errno for answer in answers] == [errno.ENOSPC, None]


def test_a_full_disk_refuses_growth_and_keeps_a_part() -> None:
    kept = set()
    for seed in SEEDS:
        disk = make_disk(seed, capacity_bytes=100)
        file = create_durable_file(disk, content=b"a" * 90)
        expect_error(errno.ENOSPC, file.write, 80, [b"b" * 30])
        kept.add(content_of(disk).count(b"b"))
        assert disk.free_bytes("/d") == 100 - file.size()
        expect_error(errno.ENOSPC, file.truncate, 101)
        file.write(0, [b"c" * file.size()])
        disk.unlink("/d/f")
        assert disk.free_bytes("/d") == 100
    assert 5 < len(kept) <= max(kept) + 1 <= 21


def test_damage_shows_at_once_and_survives() -> None:
    for disk in map(make_disk, SEEDS):
        file = create_durable_file(disk, content=A * 4)
        file.write(0, [b"b"])
        disk.flip_bit("/d/f", 1, 1)
        disk.zero_page("/d/f", 1)
        disk.fail_read("/d/f", 2 * PAGE + 5)
        assert file.read(0, 3) == b"bca"
        disk.power_loss()
        file = disk.open("/d/f")
        assert file.read(0, 2 * PAGE)[1:] == b"c" + A[2:] + bytes(PAGE)
        expect_error(errno.EIO, file.read, 3 * PAGE - 1, 2)
        file.write(2 * PAGE, [B])
        assert file.read(2 * PAGE, 2 * PAGE) == B + A, "a write cures an unreadable page"


def test_stale_and_misdirected_sectors_can_be_injected() -> None:
    disk = make_disk()
    file = create_durable_file(disk, content=A * 2)
    for content in (B, b"c" * PAGE):
        file.write(0, [content])
        disk.sync([file])
    assert disk.misdirect_write("/d/f", 0, "/d/f", 1)
    assert content_of(disk) == B + b"c" * PAGE
    assert disk.restore_stale_page("/d/f", 1)
    assert content_of(disk) == B + bytes(PAGE)


RUN = """
from random import Random
from jepsen.simulation.disk.simulated_disk import SimulatedDisk
disk = SimulatedDisk(Random(6))
for n in range(40):
    disk.make_directory(f"/{n % 5}/{n}")
    file = disk.open(f"/{n % 5}/{n}/f", create=True)
    file.write(n * 99, [bytes([n]) * 9000])
    disk.submit_sync([file], [f"/{n % 5}/{n}", f"/{n % 5}", "/"][: n % 4], lambda error: None)
    disk.rename(f"/{n % 5}/{n}/f", f"/{n % 5}/g{n}")
    n % 3 or disk.complete_next()
    n % 10 or disk.power_loss()
print([(path, content.hex()) for path, content in disk.snapshot().items()], disk.durable_paths())
"""


def test_a_seed_gives_the_same_run_under_any_hash_seed() -> None:
    runs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        runs.add(subprocess.check_output([sys.executable, "-c", RUN], env=environment))
    assert len(runs) == 1
    assert b"/g" in runs.pop()
