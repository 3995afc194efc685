"""Operators' commands against three brokers, as a shell runs them: any broker gives the same answer."""

import json
import subprocess
import sys
from typing import Any

import pytest

from raftlog.testing import Cluster

PARTITIONS = 6


def raftlog(address: str, *args: str) -> str:
    """Standard output of a command that is to succeed."""
    command = [sys.executable, "-m", "raftlog.cli", *args, "--bootstrap", address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def led(rows: list[dict[str, Any]]) -> dict[int, int]:
    return {row["partition_id"]: row["leader_id"] for row in rows}


@pytest.mark.parametrize("names_topic", [True, False])
def test_every_broker_lists_the_leaders_of_partitions_that_it_has_no_replica_of(
    cluster: Cluster, names_topic: bool
) -> None:
    topic = f"single-copies-{names_topic}"
    made = ["topic", "create", topic, "--partitions", str(PARTITIONS), "--replication-factor", "1"]
    raftlog(cluster.addresses[0], *made)
    described = json.loads(raftlog(cluster.addresses[0], "topic", "describe", topic, "--json"))["partitions"]
    leaders = {row["partition"]: row["leader"] for row in described}
    assert len({*leaders.values()}) > 1, "every partition is on one broker"
    asked = ["--topic", topic] if names_topic else []
    for node in cluster.nodes.values():
        rows = json.loads(raftlog(node.http, "partition", "list", "--json", *asked))
        assert led([row for row in rows if row["topic"] == topic]) == leaders
        assert led(node.get(f"/v1/cluster/partitions?topic={topic}")) == leaders
