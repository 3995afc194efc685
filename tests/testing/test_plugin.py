"""The pytest plugin, run in a separate pytest."""

import subprocess
import sys
from pathlib import Path

TESTS = """
import socket

def test_one_broker(raftlog_cluster_factory):
    cluster = raftlog_cluster_factory(1)
    assert cluster.nodes[1].get("/v1/status/ready")["status"] == "ready"
    other = raftlog_cluster_factory(1)
    assert other.addresses != cluster.addresses

def test_that_fails(raftlog_cluster_factory):
    node = raftlog_cluster_factory(1).nodes[1]
    node.kill()
    host, _, port = node.http.rpartition(":")
    with socket.create_server((host, int(port))):
        node.start()
"""


def test_the_plugin_has_fixtures_and_prints_logs_of_a_failed_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    others = ("no:cacheprovider", "no:asyncio", "no:schemathesis")
    flags = [flag for each in others for flag in ("-p", each)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *flags, "-W", "error", str(tmp_path)],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    text = done.stdout.decode()
    assert "1 failed, 1 passed" in text, text + done.stderr.decode()
    assert "log of raftlog node 1" in text
    assert text.count("another program listens there") > 1, "in the error and in the log"
