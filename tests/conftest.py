"""Setup for all tests: garbage collection and the fork server.

A run in the background can be interrupted like any other, and so can its children; the processes that tests start are
forked from one that has imported raftlog."""

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from raftlog.cli.entry import VERBS
from raftlog.testing import process_start
from tests.forked.client import ForkServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's doing; every process that a test starts inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("any machine", deadline=None)  # how long an example takes depends on what else runs
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
