"""Setup for all tests: garbage collection, the fork server, and directories in memory.

A run in the background can be interrupted like any other, and so can its children; the processes that tests start are
forked from one that has imported raftlog."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from raftlog.cli.entry import VERBS
from raftlog.testing import process_start
from tests.forked.client import ForkServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's doing; every process that a test starts inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "any machine",
    deadline=None,  # how long an example takes depends on what else runs
    max_examples=40,
)
settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """Exempt the imported modules from garbage collection, which would scan them during each simulated run."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[ForkServer]:
    verbs = sorted({verb.module for verb in VERBS.values()})
    server = ForkServer(
        [*verbs, "raftlog.client", "raftlog.testing.gossip_forwarding", "raftlog.testing.proxied_connection", "uvloop"]
    )
    process_start.start, usual = server.popen, process_start.start
    yield server
    process_start.start = usual
    server.close()


IN_MEMORY = frozenset(
    [
        "api",
        "brokers",
        "cli",
        "client",
        "console",
        "consumers",
        "controller",
        "documents",
        "gossip",
        "kafka",
        "operations",
        "partitions",
        "placement",
        "transactions",
    ]
)
"""Folders whose tests are about protocols and commands; the others have directories on a real disk."""
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 4 << 30


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Provide a directory for the test, in memory for the folders above if there is room."""
    if request.path.relative_to(Path(__file__).parent).parts[0] not in IN_MEMORY or not _has_memory():
        yield request.getfixturevalue("tmp_path")
        return
    path = Path(tempfile.mkdtemp(prefix="raftlog-test-", dir=_MEMORY))
    yield path
    shutil.rmtree(path)


def _has_memory() -> bool:
    if not _MEMORY.is_dir():
        return False
    found = os.statvfs(_MEMORY)
    return found.f_bavail * found.f_frsize >= _MEMORY_BYTES_MIN
