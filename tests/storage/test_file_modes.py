"""Modes of data files and directories: only the owner can read them, under any umask."""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog import Log
from raftlog.partitions.broker import Broker
from raftlog.partitions.settings import BrokerSettings
from raftlog.storage.real_disk import RealDisk


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(path: Path) -> dict[str, int]:
    """Return the modes of the directory and its content."""
    return {str(each): stat.S_IMODE(each.stat().st_mode) for each in [path, *path.rglob("*")]}


def check_private(path: Path) -> None:
    for name, mode in modes(path).items():
        assert mode == (0o700 if os.path.isdir(name) else 0o600), f"{name} has mode {mode:o}"


def test_an_embedded_log_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "a/log")) as log:
        log.append([b"x"])
    check_private(tmp_path / "a")


def test_a_brokers_directory_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    async def run() -> None:
        broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path / "data"), node_id=1))
        try:
            await broker.start("127.0.0.1:1")
        finally:
            await broker.close()

    asyncio.run(run())
    check_private(tmp_path / "data")


def test_existing_files_keep_their_mode_and_work(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Log.open(str(path)) as log:
        log.append([b"x"])
    for name in modes(path):
        os.chmod(name, 0o755 if os.path.isdir(name) else 0o644)
    before = modes(path)
    with Log.open(str(path)) as log:
        log.append([b"y"])
        assert [record.value for record in log.read(0)] == [b"x", b"y"]
    kept = {name: mode for name, mode in modes(path).items() if name in before and not name.endswith("/meta")}
    assert kept == {name: mode for name, mode in before.items() if name in kept}


def test_a_directory_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    disk = RealDisk(lambda job: job())
    with pytest.raises(OSError, match="file"):
        disk.make_directory(str(tmp_path / "file/inner"))
    disk.make_directory(str(tmp_path / "a/b"))
    disk.make_directory(str(tmp_path / "a/b"))
