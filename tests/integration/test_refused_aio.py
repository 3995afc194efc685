"""Linux AIO that a sandbox refuses, that other programs have used up, or that fails under load.

Brokers sync with threads then, name the reason, and lose nothing."""

import errno
import platform
from pathlib import Path

import pytest

from jepsen.system_calls import inject, unsupported_reason
from raftlog.testing import Cluster
from raftlog.testing.process import PROGRAM
from tests.integration.cluster_load import Load, check_stored, create_topic

ENOUGH = 100
IO_SETUP = 206
"""Number of io_setup(2) on x86-64."""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has the numbers of x86-64")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(errno.EPERM, "io_setup: Operation not permitted", id="refused by a sandbox"),
        pytest.param(errno.EAGAIN, "raise /proc/sys/fs/aio-max-nr", id="used up", marks=pytest.mark.slow),
    ],
)
def test_a_broker_without_aio_syncs_by_threads(tmp_path: Path, error: int, text: str) -> None:
    program = ("-m", "tests.integration.refused_calls", str(error), str(IO_SETUP), "--", *PROGRAM)
    root = str(Path(__file__).parents[2])
    with Cluster(1, data_dir=tmp_path, program=program, environment=lambda _: {"PYTHONPATH": root}) as cluster:
        node = cluster.nodes[1]
        assert node.ready["sync_method"] == "threads"
        assert "aio_refused" in node.log_text()
        assert text in node.log_text()
        create_topic(node.http, "t", copies=1)
        with Load(cluster, "t") as ledger:
            ledger.wait_for_more(ENOUGH)
        node.kill()
        node.start()
        check_stored(cluster, ledger)


@pytest.mark.parametrize("error", ["EPERM", pytest.param("EAGAIN", marks=pytest.mark.slow)])
def test_syncs_continue_by_threads_when_aio_fails_under_load(tmp_path: Path, error: str) -> None:
    """Threads take over the syncs at once; a permanent error is reported by an event."""
    reason = unsupported_reason()
    if reason is not None:
        pytest.skip(reason)
    with Cluster(3, data_dir=tmp_path, serve_flags=("--sync-method", "aio")) as cluster:
        create_topic(cluster.addresses[0], "t")
        node = cluster.nodes[cluster.leader("t")]
        with Load(cluster, "t") as ledger:
            ledger.wait_for_more(ENOUGH)
            with inject(node.pid, ("io_submit", f"error={error}")):
                ledger.wait_for_more(ENOUGH)
            ledger.wait_for_more(ENOUGH)
        assert not ledger.unknown
        assert ("io_submit: Operation not permitted" in node.log_text()) == (error == "EPERM")
        for each in cluster.nodes.values():
            each.kill()
        for each in cluster.nodes.values():
            each.launch()
        for each in cluster.nodes.values():
            each.wait_ready()
        cluster.wait_healthy()
        check_stored(cluster, ledger)
