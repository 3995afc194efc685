"""Count of disk syncs: those of threads and those of Linux AIO, without failed ones."""

import asyncio
import os

import pytest

from bench.syncs import count_syncs
from raftlog.storage.syncs.aio_syncs import AioRefused, AioSyncs


def test_calls_of_fdatasync_are_counted(tmp_path):
    with open(tmp_path / "f", "wb") as file, count_syncs() as syncs:
        os.fdatasync(file.fileno())
        with open(os.devnull, "rb") as device, pytest.raises(OSError, match="Invalid argument"):
            os.fdatasync(device.fileno())
        assert syncs.total == 1
    with open(tmp_path / "f", "wb") as file:
        os.fdatasync(file.fileno())
    assert syncs.total == 1


async def test_syncs_by_linux_aio_are_counted(tmp_path):
    loop = asyncio.get_running_loop()
    try:
        aio = AioSyncs(loop)
    except AioRefused as refused:
        pytest.skip(f"Linux AIO: {refused}")
    with open(tmp_path / "f", "wb") as file, count_syncs() as syncs:
        results = asyncio.Queue()
        assert aio.submit(file.fileno(), lambda error: lambda: results.put_nowait(error))
        async with asyncio.timeout(20):
            assert await results.get() is None
        assert syncs.total == 1
    await aio.close(waits=True)
