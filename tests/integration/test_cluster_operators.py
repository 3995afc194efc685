"""Operators' commands against three brokers, run like in a shell: every broker gives the same answer."""

import json
import urllib.request
from collections import Counter
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.forked.commands import run_raftlog
from tests.waiting import block_until

PARTITIONS = 6


def output_of(address: str, *args: str) -> str:
    """Return the standard output of a command that has to succeed."""
    done = run_raftlog(*args, "--bootstrap", address)
    assert done.returncode == 0, done.stderr
    return done.stdout


def leaders_of(rows: list[dict[str, Any]]) -> dict[int, int]:
    return {row["partition_id"]: row["leader_id"] for row in rows}


def wait_for_leaders(address: str, topic: str) -> dict[int, int]:
    """Return the leader of each partition, once all have one."""

    def describe() -> dict[int, int]:
        described = json.loads(output_of(address, "topic", "describe", topic, "--json"))["partitions"]
        leaders = {row["partition"]: row["leader"] for row in described}
        return {} if None in leaders.values() else leaders

    return block_until(describe)


@pytest.mark.parametrize("names_topic", [pytest.param(True, marks=pytest.mark.slow), False])
def test_every_broker_lists_the_leaders_of_partitions_without_a_local_replica(
    cluster: Cluster, names_topic: bool
) -> None:
    topic = f"single-copies-{names_topic}"
    made = ["topic", "create", topic, "--partitions", str(PARTITIONS), "--replication-factor", "1"]
    output_of(cluster.addresses[0], *made)
    leaders = wait_for_leaders(cluster.addresses[0], topic)
    assert len({*leaders.values()}) > 1, "every partition is on one broker"
    asked = ["--topic", topic] if names_topic else []
    for node in cluster.nodes.values():
        rows = json.loads(output_of(node.http, "partition", "list", "--json", *asked))
        assert leaders_of([row for row in rows if row["topic"] == topic]) == leaders
        assert leaders_of(node.get(f"/v1/cluster/partitions?topic={topic}")) == leaders


def test_consumer_lag_follows_from_the_metrics_of_all_brokers(cluster: Cluster) -> None:
    """The group's coordinator has no replica of most of these partitions, so it lacks their end offsets."""
    topic = "lagging-copies"
    made = ["topic", "create", topic, "--partitions", str(PARTITIONS), "--replication-factor", "1"]
    output_of(cluster.addresses[0], *made)
    for partition in range(PARTITIONS):
        body = {"records": [{"value": number} for number in range(partition + 3)]}
        path = f"/topics/{topic}/partitions/{partition}"
        assert ask(cluster.addresses[0], path, method="POST", body=body)[0] == 200
    offsets = [{"topic": topic, "partition": partition, "offset": 1} for partition in range(PARTITIONS)]
    assert ask(cluster.addresses[0], "/groups/slow/offsets", method="POST", body={"offsets": offsets})[0] == 200
    ends, committed, known = Counter[str](), Counter[str](), Counter[str]()
    by_name = {
        "raftlog_partition_high_watermark": ends,
        "raftlog_consumer_group_committed_offset": committed,
        "raftlog_consumer_group_lag_records": known,
    }
    for node in cluster.nodes.values():
        with urllib.request.urlopen(f"http://{node.http}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in by_name and sample.labels["topic"] == topic:
                    assert sample.labels.get("group", "slow") == "slow"
                    by_name[sample.name][sample.labels["partition"]] += int(sample.value)
    lag = {int(partition): ends[partition] - offset for partition, offset in committed.items()}
    assert lag == {partition: partition + 2 for partition in range(PARTITIONS)}
    assert len(known) < PARTITIONS
