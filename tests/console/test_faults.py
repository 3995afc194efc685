"""The console while brokers fail: without quorum, without the broker itself, and with a clock that is off."""

import contextlib

from raftlog.testing import Cluster
from tests.console.conftest import send


def test_partition_without_quorum_is_named_with_what_to_do(console) -> None:
    with Cluster(2, serve_flags=("--console-writes",), ready_timeout_s=120) as cluster:
        send(cluster, "/v3/clusters/-/topics", {"topic_name": "orders", "partitions_count": 2, "replication_factor": 2})
        cluster.wait_healthy(120)
        console.open(cluster.addresses[0])
        console.until_text("The cluster is healthy")
        cluster.nodes[2].kill()
        console.until_text("The cluster is not healthy", "What to do:", "orders/0", "orders/1")
        console.picture("overview-without-quorum")
        console.check_access()
        console.go("#/topics/orders")
        console.until(lambda: len(console.find("td .status.bad")) >= 2, "partitions with problems")
        console.until_text("1 of its 2 replicas is on broker 2, which does not answer.", "Start this broker")
        console.picture("topic-without-quorum")
        console.go("#/brokers")
        console.until(lambda: any("✕ down" in row for row in console.rows()), "the broker that is down")
        cluster.nodes[2].start(120)
        console.go("#/")
        console.until_text("The cluster is healthy")


def test_broker_that_goes_and_comes_back(console, read_only_cluster: Cluster) -> None:
    node = read_only_cluster.nodes[1]
    console.open(node.http, "#/topics")
    node.kill()
    console.until_text("No answer since")
    console.check_access()
    console.picture("topics-without-broker")
    node.start(120)
    console.until(lambda: "No answer since" not in console.text(), "the page recovers by itself")
    console.until_text("There is no topic yet")


def test_clocks_that_differ_are_named(console, read_only: str) -> None:
    ahead = console.set_clock(120_000)
    next(ahead)
    with contextlib.closing(ahead):
        console.open(read_only)
        console.until_text("Clocks differ", "behind this browser's")
        next(ahead, None)
    console.open(read_only)
    console.until_text("The cluster is healthy")
    assert "Clocks differ" not in console.text()
