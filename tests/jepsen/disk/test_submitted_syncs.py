"""Syncs submitted by Linux AIO under the shim: lost, slow and failing like those of a thread."""

import errno
import shutil
import site
from pathlib import Path

import pytest

from jepsen.disk import NodeDisk
from tests.jepsen.disk.programs import NothingSurvives, node_disk, read_files, run_program

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")

OLD, NEW = b"o" * 4096, b"n" * 4096
PRELUDE = f"""
import asyncio, time
sys.path += {site.getsitepackages()!r}
from raftlog.storage.syncs.aio_syncs import AioSyncs

async def submit(*descriptors):
    "Sync all of them by AIO; print the error number of each, and the seconds that passed if they are many."
    aio, loop = AioSyncs(asyncio.get_running_loop()), asyncio.get_running_loop()
    results = [loop.create_future() for _ in descriptors]
    def ended(result):
        return lambda error: lambda: result.set_result(error and error.errno)
    assert all(aio.submit(descriptor, ended(result)) for descriptor, result in zip(descriptors, results))
    for result in results:
        print(await asyncio.wait_for(result, 20))
    await aio.close(True)
"""


@pytest.fixture
def disk(tmp_path: Path) -> NodeDisk:
    return node_disk(tmp_path)


def test_a_submitted_sync_makes_a_file_durable(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    a, b = synced('a', OLD), synced('b', OLD)
    for descriptor in a, b:
        os.pwrite(descriptor, NEW, 0)
    asyncio.run(submit(a))
    """
    assert run_program(tmp_path, disk, program, prelude=PRELUDE) == "None\n"
    disk.lose_power(NothingSurvives())
    assert read_files(tmp_path) == {"a": NEW, "b": OLD}


def test_submitted_syncs_fail_and_are_lost(tmp_path: Path, disk: NodeDisk) -> None:
    failing = [lambda: disk.fail_syncs(-1)]
    (tmp_path / "data/a").write_bytes(OLD)
    program = "a = opened('a', NEW); asyncio.run(submit(a)); asyncio.run(submit(a))"
    assert run_program(tmp_path, disk, program, prelude=PRELUDE, prepare=failing).split() == [str(errno.EIO)] * 2
    assert disk.read_counters().failed == 2
    disk.lose_power(NothingSurvives())
    assert read_files(tmp_path) == {"a": OLD}


def test_submitted_syncs_are_slowed_concurrently(tmp_path: Path, disk: NodeDisk) -> None:
    program = """
    files = [opened(str(number), OLD) for number in range(8)]
    begin = time.monotonic()
    asyncio.run(submit(*files))
    print(0.2 <= time.monotonic() - begin < 8 * 0.2)
    """
    printed = run_program(tmp_path, disk, program, prelude=PRELUDE, prepare=[lambda: disk.slow_syncs(0.2)])
    assert printed.split() == ["None"] * 8 + ["True"]
    assert (disk.read_counters().syncs, disk.read_counters().delayed) == (8, 8)
