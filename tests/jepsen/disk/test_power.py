"""Files of a program under the shim after a loss of power: each test covers one rule of the model."""

import shutil
from pathlib import Path
from random import Random

import pytest

from jepsen.disk import NodeDisk
from tests.jepsen.disk.programs import EverythingSurvives, NothingSurvives, node_disk, read_files, run_program

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

OLD, NEW, NEWER = b"o" * 4096, b"n" * 4096, b"r" * 4096


@pytest.fixture
def disk(tmp_path: Path) -> NodeDisk:
    return node_disk(tmp_path)


def run_and_lose_power(directory: Path, disk: NodeDisk, program: str, random: Random | None = None) -> dict[str, bytes]:
    """Run and kill a program, then lose power with the worst losses; return the remaining files."""
    run_program(directory, disk, program)
    disk.lose_power(random or NothingSurvives())
    return read_files(directory)


def test_files_synced_with_their_directory_stay(tmp_path: Path, disk: NodeDisk) -> None:
    assert run_and_lose_power(tmp_path, disk, "synced('a', OLD)") == {"a": OLD}
    assert str(disk.lose_unsynced(NothingSurvives())) == "everything was synced"
    assert disk.lose_power(NothingSurvives()) == "", "nothing was written since"
    assert disk.read_counters().syncs == 2


@pytest.mark.parametrize(("random", "expected"), [(NothingSurvives(), OLD), (EverythingSurvives(), NEW)])
def test_unsynced_overwrites_may_be_lost(tmp_path: Path, disk: NodeDisk, random: Random, expected: bytes) -> None:
    assert run_and_lose_power(tmp_path, disk, "os.pwrite(synced('a', OLD), NEW, 0)", random) == {"a": expected}


def test_an_unsynced_end_of_a_file_may_be_lost(tmp_path: Path, disk: NodeDisk) -> None:
    program = "a = synced('a', OLD); os.lseek(a, 0, 2); os.write(a, NEW); os.pwritev(a, [NEW, b'x'], 8192)"
    assert run_and_lose_power(tmp_path, disk, program) == {"a": OLD}


def test_a_synced_file_without_a_synced_name_is_lost(tmp_path: Path, disk: NodeDisk) -> None:
    run_program(tmp_path, disk, "os.fsync(opened('a', b'content'))")
    assert "1 of 1 unsynced names" in disk.lose_power(NothingSurvives())
    assert read_files(tmp_path) == {}


def test_a_synced_name_without_synced_content_is_an_empty_file(tmp_path: Path, disk: NodeDisk) -> None:
    assert run_and_lose_power(tmp_path, disk, "opened('a', OLD); sync_directory()") == {"a": b""}


def test_an_unsynced_rename_restores_both_files(tmp_path: Path, disk: NodeDisk) -> None:
    program = "synced('a', OLD); synced('b', NEW); os.rename('b', 'a')"
    assert run_and_lose_power(tmp_path, disk, program) == {"a": OLD, "b": NEW}


def test_a_synced_rename_stays(tmp_path: Path, disk: NodeDisk) -> None:
    program = "synced('a', OLD); synced('b', NEW); os.replace('b', 'a'); sync_directory()"
    assert run_and_lose_power(tmp_path, disk, program) == {"a": NEW}
    assert not list((tmp_path / "state/unlinked").iterdir())


def test_a_rename_between_directories_needs_the_sync_of_both(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    os.mkdir('x'); os.mkdir('y'); sync_directory()
    synced('x/a', OLD); os.rename('x/a', 'y/a'); sync_directory('y')
    """
    assert run_and_lose_power(tmp_path, disk, program) == {"x/a": OLD}


def test_a_removed_file_returns_unless_its_directory_is_synced(tmp_path: Path, disk: NodeDisk) -> None:
    program = "synced('a', OLD); synced('b', NEW); os.unlink('a'); sync_directory(); os.unlink('b')"
    assert run_and_lose_power(tmp_path, disk, program) == {"b": NEW}


def test_a_removed_directory_returns_with_its_content(tmp_path: Path, disk: NodeDisk) -> None:
    program = "os.mkdir('x'); sync_directory(); synced('x/a', OLD); os.unlink('x/a'); os.rmdir('x')"
    assert run_and_lose_power(tmp_path, disk, program) == {"x/a": OLD}


def test_a_directory_without_a_synced_name_is_lost_with_its_content(tmp_path: Path, disk: NodeDisk) -> None:
    assert run_and_lose_power(tmp_path, disk, "os.makedirs('x/y'); synced('x/y/a', OLD)") == {}


def test_a_prefix_of_a_directory_s_operations_survives(tmp_path: Path, disk: NodeDisk) -> None:
    run_program(tmp_path, disk, "for n in range(20): os.close(opened(f'{n:02}'))")
    disk.lose_power(Random(3))
    names = list(read_files(tmp_path))
    assert names == [f"{n:02}" for n in range(len(names))]
    assert 0 < len(names) < 20


def test_an_unsynced_truncation_may_be_lost(tmp_path: Path, disk: NodeDisk) -> None:
    assert run_and_lose_power(tmp_path, disk, "os.ftruncate(synced('a', OLD + NEW), 10)") == {"a": OLD + NEW}
    program = (
        "opened('a', flags=os.O_WRONLY | os.O_TRUNC); b = synced('b', OLD + NEW); os.ftruncate(b, 10); os.fsync(b)"
    )
    assert run_and_lose_power(tmp_path, disk, program) == {"a": OLD + NEW, "b": OLD[:10]}


def test_pages_are_lost_independently_and_completely(tmp_path: Path, disk: NodeDisk) -> None:
    run_program(tmp_path, disk, "os.pwrite(synced('a', OLD * 64), NEW * 64, 0)")
    said = disk.lose_power(Random(5))
    data = read_files(tmp_path)["a"]
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    assert set(pages) == {OLD, NEW}
    assert f"dropped {pages.count(OLD)} of 64 unsynced pages" in said


@pytest.mark.parametrize(("random", "expected"), [(NothingSurvives(), OLD), (EverythingSurvives(), NEW)])
def test_without_tearing_a_file_is_lost_as_a_whole(
    tmp_path: Path, disk: NodeDisk, random: Random, expected: bytes
) -> None:
    run_program(tmp_path, disk, "os.pwrite(synced('a', OLD * 64), NEW * 65, 0)")
    disk.lose_power(random, torn=False)
    assert read_files(tmp_path) == {"a": expected * (64 if expected == OLD else 65)}


def test_a_sync_covers_earlier_writes_only(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    from jepsen.disk.control import DiskControl
    control = DiskControl(Path(os.environ["JEPSEN_DISK_STATE"]) / "control")
    a = synced('a', OLD * 2)
    os.pwrite(a, NEW, 0)
    control.set("sync_delay_ns", 200_000_000)
    sync = threading.Thread(target=os.fdatasync, args=[a])
    sync.start()
    while control.counters().delayed == 0:
        pass
    os.pwrite(a, NEWER * 2, 0)
    print(sync.is_alive())
    sync.join()
    """
    assert run_and_lose_power(tmp_path, disk, program) == {"a": NEW + OLD}


def test_a_new_file_with_the_inode_of_a_removed_one_has_no_synced_data(tmp_path: Path, disk: NodeDisk) -> None:
    program = "a = synced('a', OLD); os.unlink('a'); sync_directory(); os.pwrite(a, NEW * 2, 0); os.close(a)"
    assert run_and_lose_power(tmp_path, disk, f"{program}; opened('b'); sync_directory()") == {"b": b""}
    program = "os.mkdir('x'); sync_directory(); synced('x/a', OLD); os.unlink('x/a'); os.rmdir('x'); sync_directory()"
    assert run_and_lose_power(tmp_path, disk, f"{program}; os.mkdir('x'); sync_directory()") == {"b": b""}


def test_a_failed_sync_loses_its_data(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    from jepsen.disk.control import DiskControl
    a, b = synced('a', OLD), synced('b', OLD)
    DiskControl(Path(os.environ["JEPSEN_DISK_STATE"]) / "control").set("syncs_to_fail", 2)
    for each in a, b:
        os.pwrite(each, NEW, 0)
        attempt(os.fdatasync, each)
    os.pwrite(b, NEWER, 0)
    os.fsync(a); os.fsync(b)
    """
    assert run_and_lose_power(tmp_path, disk, program, EverythingSurvives()) == {"a": OLD, "b": NEWER}
    assert disk.read_counters().failed == 2


def test_unsynced_data_of_one_process_is_not_durable_in_the_next(tmp_path: Path, disk: NodeDisk) -> None:
    run_program(tmp_path, disk, "synced('a', OLD); synced('b', OLD); opened('a', NEW); opened('b', NEW); opened('c')")
    run_program(tmp_path, disk, "os.pwrite(opened('a'), NEWER, 0); os.fsync(opened('b'))")
    disk.lose_power(NothingSurvives())
    assert read_files(tmp_path) == {"a": OLD, "b": NEW}


def test_a_mapped_file_has_the_content_of_its_last_sync(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    import mmap
    a, b = synced('a', OLD * 2), synced('b', OLD * 2)
    one, two = mmap.mmap(a, 0), mmap.mmap(b, 0)
    one[:4096] = two[:4096] = NEW
    one.flush()
    one[:1] = b'x'
    one.resize(4096 * 3)
    one[-4096:] = NEWER
    """
    assert run_and_lose_power(tmp_path, disk, program) == {"a": NEW + OLD, "b": OLD * 2}


def test_a_program_without_syncs_keeps_nothing(tmp_path: Path) -> None:
    disk = node_disk(tmp_path, removes_syncs=True)
    run_program(tmp_path, disk, "synced('a', b'content')")
    assert disk.read_counters().syncs == 2
    disk.lose_power(NothingSurvives())
    assert read_files(tmp_path) == {}


def test_data_synced_by_several_threads_stays(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    a, b = synced('a', bytes(4 * 8192)), synced('b', bytes(4 * 8192))
    enough = threading.Semaphore(0)
    def work(number):
        for count in range(1, 200):
            for file in a, b:
                os.pwrite(file, count.to_bytes(2) * 2048, number * 8192 + 4096 * (count % 2))
                os.fdatasync(file)
            os.write(1, b"%d %d\\n" % (number, count))
            enough.release()
    for number in range(4):
        threading.Thread(target=work, args=[number], daemon=True).start()
    for _ in range(300):
        enough.acquire()
    """
    printed = run_program(tmp_path, disk, program)
    disk.lose_power(NothingSurvives())
    durable = dict(map(int, line.split()) for line in printed.splitlines())
    assert len(durable) == 4
    for data in read_files(tmp_path).values():
        for number, count in durable.items():
            at = number * 8192 + 4096 * (count % 2)
            assert int.from_bytes(data[at : at + 2]) in (count, count + 2)


def test_a_power_loss_needs_a_single_process(tmp_path: Path, disk: NodeDisk) -> None:
    run_program(tmp_path, disk, "opened('a')\nif os.fork() == 0:\n    opened('b')\n    os._exit(0)\nos.wait()")
    with pytest.raises(AssertionError, match="1 more processes wrote"):
        disk.lose_power(NothingSurvives())


def test_a_power_loss_is_refused_if_the_shim_missed_operations(tmp_path: Path, disk: NodeDisk) -> None:
    run_program(tmp_path, disk, "os.sendfile(opened('a'), opened('b', b'content'), 0, 7)")
    with pytest.raises(AssertionError, match="sendfile"):
        disk.lose_power(NothingSurvives())
