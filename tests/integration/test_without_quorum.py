"""The command without a majority of the replicas: it reads committed records, and writes fail in time."""

import time

from raftlog.testing import Cluster
from tests.forked.commands import run_raftlog


def test_committed_records_are_read_and_writes_fail_in_time() -> None:
    with Cluster() as cluster:
        everywhere = ",".join(cluster.addresses)
        assert run_raftlog("topic", "create", "t", "--bootstrap", everywhere).returncode == 0
        assert run_raftlog("produce", "t", "--bootstrap", everywhere, given="a\nb\nc\n").returncode == 0
        whole = run_raftlog("consume", "t", "--no-follow", "--bootstrap", everywhere)
        assert (whole.returncode, whole.stdout) == (0, "a\nb\nc\n")
        left, *gone = cluster.nodes.values()
        follower = ("consume", "t", "--count", "3", "--timeout", "20", "--bootstrap", left.http)
        assert run_raftlog(*follower).returncode == 0
        for node in gone:
            node.kill()
        began = time.monotonic()
        late = ("produce", "t", "--timeout-ms", "3000", "--give-up-after", "3", "--bootstrap", left.http)
        refused = run_raftlog(*late, given="x\ny\n")
        # The broker that is left may have led, and taken them before it noticed: only then they may be stored.
        told = {1: "0 records are confirmed, 2 are not stored.", 3: "0 records are confirmed, 2 more may be stored."}
        assert told[refused.returncode] in refused.stderr
        assert time.monotonic() - began < 10, "3 s, the start of the command, and a busy machine; it was 13 s"
        for where in ("start", "0"):
            read = run_raftlog(*follower, "--from", where)
            assert (read.returncode, read.stdout) == (0, "a\nb\nc\n"), read.stderr
            assert "no leader" in read.stderr
