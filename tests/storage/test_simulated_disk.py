"""The simulated disk: the file protocol like the real one, and the rules by which it forgets."""

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
from hypothesis import given
from hypothesis import strategies as st

from raftlog.storage.disk import Disk, File
from raftlog.storage.real_disk import RealDisk
from raftlog.storage.simulated_disk import SimulatedDisk
from raftlog.storage.simulated_faults import PAGE_BYTES as PAGE

SEEDS = range(60)
A, B = b"a" * PAGE, b"b" * PAGE


def simulated(seed: int = 0, capacity_bytes: int | None = None) -> SimulatedDisk:
    """A disk with the durable directory /d."""
    disk = SimulatedDisk(Random(seed), capacity_bytes=capacity_bytes)
    disk.make_directory("/d")
    disk.sync([], ["/"])
    return disk


def durable_file(disk: SimulatedDisk, path: str = "/d/f", content: bytes = b"") -> File:
    file = disk.open(path, create=True)
    file.write(0, [content])
    disk.sync([file], [path.rpartition("/")[0]])
    return file


def content_of(disk: Disk, path: str = "/d/f") -> bytes:
    file = disk.open(path)
    return file.read(0, file.size())


def fails(code: int, call: Callable[..., object], *arguments: object) -> None:
    with pytest.raises(OSError) as failure:
        call(*arguments)
    assert failure.value.errno == code


def outcomes(scenario: Callable[[SimulatedDisk], object], torn: bool = True) -> list[dict[str, bytes]]:
    """What a power loss leaves of the scenario, seed by seed."""
    disks = list(map(simulated, SEEDS))
    for disk in disks:
        scenario(disk)
        disk.power_loss(torn)
    return [disk.snapshot() for disk in disks]


# The contract of the protocol, on both disks


class Bench(NamedTuple):
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
        disk = simulated()
        return Bench(disk, "/d", disk.complete_all)
    jobs: deque[Callable[[], None]] = deque()
    settle = lambda: [jobs.popleft()() for _ in range(2 * len(jobs))]  # noqa: E731 - each job posts one completion
    return Bench(RealDisk(jobs.append, jobs.append), str(tmp_path), settle)


def test_contract_contents(bench: Bench) -> None:
    file = bench.create("f", b"0123456789")
    assert file.path == bench.path("f")
    file.write(8, [b"AB", bytearray(b"CD"), memoryview(b"EF")])
    file.write(0, [])
    assert (file.size(), file.read(0, 100)) == (14, b"01234567ABCDEF")
    assert file.read(14, 5) == file.read(100, 5) == b""
    file.write(16, [b"x"])
    assert file.read(12, 100) == b"EF\0\0x"
    file.truncate(4)
    assert file.read(0, 100) == b"0123"
    file.truncate(6)
    assert file.read(0, 100) == b"0123\0\0"


def test_contract_open(bench: Bench) -> None:
    disk, path = bench.disk, bench.path
    fails(errno.ENOENT, disk.open, path("f"))
    fails(errno.ENOENT, bench.create, "missing/f")
    bench.create("f", b"one").close()
    fails(errno.EEXIST, bench.create, "f")
    fails(errno.ENOTDIR, bench.create, "f/below")
    fails(errno.EISDIR, disk.open, bench.root)
    assert content_of(disk, path("f")) == b"one"


def test_contract_directories(bench: Bench) -> None:
    disk, path = bench.disk, bench.path
    disk.make_directory(path("a/b"))
    disk.make_directory(path("a/b"))
    bench.create("a/z")
    assert disk.list_directory(path("a")) == ["b", "z"]
    assert [disk.is_directory(path(name)) for name in ("a/b", "a/z", "a/none")] == [True, False, False]
    fails(errno.EEXIST, disk.make_directory, path("a/z"))
    fails(errno.ENOTDIR, disk.make_directory, path("a/z/below"))
    fails(errno.ENOTEMPTY, disk.remove_directory, path("a"))
    fails(errno.ENOTDIR, disk.remove_directory, path("a/z"))
    fails(errno.ENOTDIR, disk.list_directory, path("a/z"))
    disk.remove_directory(path("a/b"))
    fails(errno.ENOENT, disk.list_directory, path("a/b"))


def test_contract_names(bench: Bench) -> None:
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
    fails(errno.ENOENT, disk.rename, path("none"), path("x"))
    fails(errno.EISDIR, disk.rename, path("b/g"), path("c"))
    fails(errno.ENOTDIR, disk.rename, path("c"), path("b/g"))
    fails(errno.ENOTEMPTY, disk.rename, path("c"), path("b"))
    fails(errno.EINVAL, disk.rename, path("b"), path("b/inside"))
    fails(errno.EISDIR, disk.unlink, path("b"))
    disk.unlink(path("b/g"))
    fails(errno.ENOENT, disk.unlink, path("b/g"))
    assert not disk.exists(path("b/g"))


def test_contract_lock(bench: Bench) -> None:
    held = bench.disk.lock(bench.path("lock"))
    fails(errno.EWOULDBLOCK, bench.disk.lock, bench.path("lock"))
    held.release()
    bench.disk.lock(bench.path("lock"))
    held.release()
    fails(errno.EWOULDBLOCK, bench.disk.lock, bench.path("lock"))


def test_contract_sync(bench: Bench) -> None:
    disk, file, missing = bench.disk, bench.create("f", b"x"), bench.path("none")
    answers: list[OSError | None] = []
    disk.submit_sync([file], [bench.root], answers.append)
    disk.submit_sync([file], [missing], answers.append)
    assert answers == []
    bench.settle()
    assert [answer and answer.errno for answer in answers] == [None, errno.ENOENT]
    disk.sync([file], [bench.root])
    fails(errno.ENOENT, disk.sync, [], [missing])
    fails(errno.ENOENT, disk.free_bytes, missing)
    assert disk.free_bytes(bench.root) > 0


# Contents against a naive twin

SIZES = st.integers(0, 3 * PAGE)
BLOCKS = st.integers(1, 255).map(lambda fill: bytes([fill]) * (PAGE + 9))
ELSE = st.sampled_from(["sync", "submit", "complete", "fail"])
STEPS = st.lists(
    st.tuples(st.just("write"), SIZES, st.binary(max_size=40) | BLOCKS)
    | st.tuples(st.just("truncate"), SIZES, st.just(b""))
    | st.tuples(ELSE, st.just(0), st.just(b"")),
    max_size=25,
)


def change(twin: bytes, action: str, position: int, data: bytes) -> bytes:
    if action == "write" and data:
        twin = twin.ljust(position, b"\0")
        return twin[:position] + data + twin[position + len(data) :]
    return twin[:position].ljust(position, b"\0") if action == "truncate" else twin


def page_of(content: bytes, page: int) -> bytes:
    return content[page * PAGE : (page + 1) * PAGE].ljust(PAGE, b"\0")


def assert_left_from(versions: list[bytes], left: bytes, torn: bool) -> None:
    """The size is that of a version, or torn at a page; each page is of a version or of its beginning."""
    sizes = {len(version) for version in versions}
    assert min(sizes) <= len(left) <= max(sizes)
    assert len(left) in sizes or (torn and len(left) % PAGE == 0)
    for page in range(len(left) // PAGE + 1):
        cuts = (version[:size][: len(left)] for version in versions for size in sorted(sizes, reverse=True))
        assert any(page_of(left, page) == page_of(cut, page) for cut in cuts), page


@given(STEPS, st.integers(0, 9), st.booleans(), st.booleans())
def test_contents_like_a_naive_twin(steps: list[tuple[str, int, bytes]], seed: int, torn: bool, power: bool) -> None:
    """The twin keeps every version; a completed sync rules out those before its submission."""
    disk = simulated(seed)
    file = durable_file(disk)
    versions, submitted, oldest, failed = [b""], [], 0, False
    for action, position, data in steps:
        if action in ("write", "truncate"):
            versions.append(change(versions[-1], action, position, data))
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
            fails(errno.EIO, disk.sync, [file])
        assert file.read(0, 8 * PAGE) == versions[-1]
    if power:
        disk.power_loss(torn)
        assert_left_from(versions if failed else versions[oldest:], content_of(disk), torn)
    else:
        disk.process_crash()
        assert content_of(disk) == versions[-1]


@pytest.mark.parametrize(
    ("torn", "alter", "possible"),
    [
        (True, lambda file: file.write(0, [B * 3]), {x + y + z for x in (A, B) for y in (A, B) for z in (A, B)}),
        (False, lambda file: file.write(0, [B * 3]), {A * 3, B * 3}),
        (True, lambda file: file.truncate(PAGE), {A, A * 3}),
        (False, lambda file: file.truncate(PAGE), {A, A * 3}),
    ],
)
def test_unsynced_pages_persist_each_for_itself_and_cuts_whole(
    torn: bool, alter: Callable[[File], None], possible: set[bytes]
) -> None:
    left = outcomes(lambda disk: alter(durable_file(disk, content=A * 3)), torn)
    assert {state["/d/f"] for state in left} == possible


def test_a_grown_file_has_the_old_size_the_new_one_or_a_page_border_between() -> None:
    states = outcomes(lambda disk: durable_file(disk, content=b"a" * 100).write(100, [B * 2]))
    left = [state["/d/f"] for state in states]
    assert {len(content) for content in left} == {100, PAGE, 2 * PAGE, 2 * PAGE + 100}
    assert all(content.startswith(b"a" * 100) for content in left)
    assert any(set(content[PAGE : 2 * PAGE]) == {0} for content in left), "an unwritten page reads zeros"


def test_contents_survive_by_their_sync_and_names_by_their_directorys() -> None:
    def scenario(disk: SimulatedDisk) -> None:
        durable_file(disk, content=b"a" * 5000)
        disk.sync([disk.open("/d/unnamed", create=True)])

    left = outcomes(scenario)
    assert all(state["/d/f"] == b"a" * 5000 for state in left)
    assert {"/d/unnamed" in state for state in left} == {True, False}


def test_directory_operations_survive_as_a_prefix_and_a_rename_is_atomic() -> None:
    def scenario(disk: SimulatedDisk) -> None:
        durable_file(disk, "/d/f", b"old")
        disk.open("/d/new", create=True)
        disk.rename("/d/new", "/d/f")
        disk.open("/d/last", create=True)

    left = {tuple((path, len(content)) for path, content in state.items()) for state in outcomes(scenario)}
    f_old, f_new = ("/d/f", 3), ("/d/f", 0)
    assert left == {(f_old,), (f_old, ("/d/new", 0)), (f_new,), (f_new, ("/d/last", 0))}


@pytest.mark.parametrize("synced", [[], ["/d"], ["/e"], ["/d", "/e"]])
def test_a_rename_between_directories_needs_both_syncs(synced: list[str]) -> None:
    def scenario(disk: SimulatedDisk) -> None:
        disk.make_directory("/e")
        disk.sync([], ["/"])
        durable_file(disk)
        disk.rename("/d/f", "/e/f")
        disk.open("/d/later", create=True)
        disk.sync([], synced)

    left = outcomes(scenario)
    places = {tuple(path for path in state if path.endswith("/f")) for state in left}
    assert places == ({("/e/f",)} if len(synced) == 2 else {("/d/f",), ("/e/f",)}), "never both, never neither"
    assert all("/d/later" in state for state in left) or "/d" not in synced


def test_a_directory_survives_by_its_parents_sync() -> None:
    disk = simulated()
    disk.make_directory("/d/x/y")
    durable_file(disk, "/d/x/y/f")
    disk.sync([], ["/d/x"])
    assert disk.durable_paths() == ["/d"]
    disk.sync([], ["/d"])
    assert disk.durable_paths() == ["/d", "/d/x", "/d/x/y", "/d/x/y/f"]


def test_a_submitted_sync_covers_what_came_before_and_perhaps_what_came_after() -> None:
    def scenario(disk: SimulatedDisk) -> None:
        file = durable_file(disk, content=A * 2)
        file.write(0, [B])
        disk.submit_sync([file], ["/d"], lambda _: None)
        file.write(0, [b"c" * 2 * PAGE])
        disk.open("/d/later", create=True)
        assert disk.complete_next()

    left = outcomes(scenario)
    assert {bytes(state["/d/f"][::PAGE]) for state in left} == {b"ba", b"bc", b"ca", b"cc"}
    assert {"/d/later" in state for state in left} == {True, False}


def test_syncs_complete_in_order_when_the_owner_says() -> None:
    disk = simulated()
    file = durable_file(disk)
    before = disk.sync_count
    done: list[int] = []
    disk.submit_sync([file], [], lambda _: done.append(1))
    disk.submit_sync([file], [], lambda _: disk.submit_sync([file], [], lambda _: done.append(3)))
    assert (done, disk.pending_syncs) == ([], 2)
    assert disk.complete_next()
    assert (done, disk.pending_syncs, disk.sync_count) == ([1], 1, before + 1)
    assert (disk.complete_all(), done, disk.complete_next()) == (2, [1, 3], False)


@pytest.mark.parametrize("crash", [SimulatedDisk.power_loss, SimulatedDisk.process_crash])
def test_a_crash_ends_handles_locks_and_pending_syncs(crash: Callable[[SimulatedDisk], None]) -> None:
    disk = simulated()
    file = durable_file(disk, content=b"x")
    lock = disk.lock("/d/f")
    disk.submit_sync([file], [], lambda _: pytest.fail("a forgotten sync called back"))
    crash(disk)
    assert disk.pending_syncs == disk.complete_all() == 0
    for use in (file.size, lambda: file.read(0, 1), lambda: file.write(0, [b"y"]), lambda: disk.sync([file])):
        fails(errno.EBADF, use)
    file.close()
    disk.lock("/d/f")
    lock.release()
    fails(errno.EWOULDBLOCK, disk.lock, "/d/f")
    assert content_of(disk) == b"x"


def test_pages_of_a_failed_sync_are_lost_until_written_again() -> None:
    for disk in map(simulated, SEEDS):
        file = durable_file(disk, content=A * 2)
        file.write(0, [B * 2])
        disk.fail_sync(error=errno.ENOSPC)
        fails(errno.ENOSPC, disk.sync, [file])
        disk.sync([file])
        assert file.read(0, 2 * PAGE) == B * 2, "the page cache still shows them"
        file.write(PAGE, [b"c"])
        disk.sync([file])
        disk.power_loss()
        assert content_of(disk) == A + b"c" + B[1:]


def test_a_sync_submitted_before_a_failure_does_not_save_its_pages() -> None:
    for disk in map(simulated, SEEDS):
        file = durable_file(disk, content=b"a")
        file.write(0, [b"b"])
        answers: list[OSError | None] = []
        for _ in range(2):
            disk.submit_sync([file], [], answers.append)
        disk.fail_sync()
        disk.complete_all()
        disk.power_loss()
        assert (answers[0] is None, answers[1], content_of(disk)) == (False, None, b"a")


def test_a_full_disk_refuses_growth_and_keeps_a_part() -> None:
    kept = set()
    for seed in SEEDS:
        disk = simulated(seed, capacity_bytes=100)
        file = durable_file(disk, content=b"a" * 90)
        fails(errno.ENOSPC, file.write, 80, [b"b" * 30])
        kept.add(content_of(disk).count(b"b"))
        assert disk.free_bytes("/d") == 100 - file.size()
        fails(errno.ENOSPC, file.truncate, 101)
        file.write(0, [b"c" * file.size()])
        disk.unlink("/d/f")
        assert disk.free_bytes("/d") == 100
    assert 5 < len(kept) <= max(kept) + 1 <= 21


def test_damage_shows_at_once_and_survives() -> None:
    disk = simulated()
    file = durable_file(disk, content=A * 4)
    file.write(0, [b"b"])
    disk.flip_bit("/d/f", 1, 1)
    disk.zero_page("/d/f", 1)
    disk.fail_read("/d/f", 2 * PAGE + 5)
    assert file.read(0, 3) == b"bca"
    disk.power_loss()
    file = disk.open("/d/f")
    assert file.read(0, 2 * PAGE) in (b"bc" + A[2:] + bytes(PAGE), b"ac" + A[2:] + bytes(PAGE))
    fails(errno.EIO, file.read, 3 * PAGE - 1, 2)
    assert file.read(3 * PAGE, PAGE) == A
    file.write(2 * PAGE, [B])
    assert file.read(2 * PAGE, 2 * PAGE) == B + A, "a write cures an unreadable page"


def test_stale_and_misdirected_sectors() -> None:
    disk = simulated()
    file = durable_file(disk, content=A * 2)
    for content in (B, b"c" * PAGE):
        file.write(0, [content])
        disk.sync([file])
    assert disk.misdirect("/d/f", 0, "/d/f", 1)
    assert content_of(disk) == B + b"c" * PAGE
    disk.open("/d/fresh", create=True).write(0, [b"x"])
    assert not disk.stale_sector("/d/fresh", 0)
    assert disk.stale_sector("/d/f", 1)
    assert content_of(disk) == B + bytes(PAGE)


RUN = """
from random import Random
from raftlog.storage.simulated_disk import SimulatedDisk
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


def test_a_seed_repeats_a_run_whatever_the_hash_seed() -> None:
    runs = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        runs.add(subprocess.check_output([sys.executable, "-c", RUN], env=environment))
    assert len(runs) == 1
    assert b"/g" in runs.pop()
