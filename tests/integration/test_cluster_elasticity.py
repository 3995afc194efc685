"""Brokers join, leave and stay away while clients write: replicas and leaders move, and nothing is lost.

What the balancer decides in each case is in tests/placement/balancing; here it is real processes, disks and clients
that go through it.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import Ledger, Load, check_stored, create_topic
from tests.waiting import block_until

ENOUGH = 30
PARTITIONS = 8
PAUSE_S = 0.05
"""Pause of each writer between two writes: few writes suffice to notice a disturbance."""


def send_request(cluster: Cluster, asked: int, method: str, path: str, body: Any = None) -> None:
    status, answer = ask(cluster.nodes[asked].http, path, method=method, body=body, timeout_s=15)
    assert status // 100 == 2, f"{method} {path}: {status} {answer}"


def count_placement(cluster: Cluster, asked: int, topic: str) -> tuple[Counter[int], Counter[int]]:
    """Return the counts of replicas and of leaders by broker, as reported by the broker `asked`."""
    rows = cluster.nodes[asked].get(f"/topics/{topic}", 15)["partitions"]
    replicas = Counter(replica["broker"] for row in rows for replica in row["replicas"] if replica["in_sync"])
    return replicas, Counter(row["leader"] for row in rows)


def wait_spread(cluster: Cluster, asked: int, topic: str, nodes: Collection[int]) -> None:
    """Wait until exactly these brokers have replicas, in sync and evenly, and lead evenly."""

    def is_even(counts: Counter[int]) -> bool:
        return set(counts) == set(nodes) and max(counts.values()) - min(counts.values()) <= 1

    block_until(
        lambda: all(map(is_even, count_placement(cluster, asked, topic))),
        lambda: (
            count_placement(cluster, asked, topic),
            cluster.nodes[asked].get("/v1/cluster/partition_balancer/status"),
        ),
    )


def wait_removed(cluster: Cluster, asked: int, node: int) -> None:
    block_until(
        lambda: node not in [row["node_id"] for row in cluster.nodes[asked].get("/v1/brokers", 15)],
        lambda: cluster.nodes[asked].get(f"/v1/brokers/{node}/decommission", 15),
    )


def start_load(cluster: Cluster, addresses: list[str] | None = None) -> Load:
    """Return a load with one writer for each partition."""
    return Load(cluster, "t", partitions=PARTITIONS, writers=PARTITIONS, addresses=addresses, pause_s=PAUSE_S)


def check_settled(cluster: Cluster, ledger: Ledger) -> None:
    cluster.wait_healthy()
    check_stored(cluster, ledger, PARTITIONS)


def test_a_broker_joins_and_another_one_leaves(raftlog_cluster: Cluster) -> None:
    """No write fails for clients with the addresses of the brokers that stay."""
    cluster = raftlog_cluster
    create_topic(cluster.addresses[0], "t", PARTITIONS)
    staying = [cluster.nodes[node].http for node in (2, 3)]
    with start_load(cluster, staying) as ledger:
        ledger.wait_for_more(ENOUGH)
        cluster.add_node()
        wait_spread(cluster, 2, "t", (1, 2, 3, 4))
        send_request(cluster, 4, "PUT", "/v1/brokers/1/decommission")
        wait_removed(cluster, 3, 1)
        wait_spread(cluster, 2, "t", (2, 3, 4))
        ledger.wait_for_more(ENOUGH)
    assert not ledger.refused
    assert not ledger.unknown
    assert cluster.nodes[1].wait() == 1, "it was notified of its removal, and ended"
    check_settled(cluster, ledger)


@pytest.mark.slow
def test_a_broker_returns_after_its_replicas_moved(raftlog_cluster: Cluster) -> None:
    """Its replicas are created on others. When it returns, its old replicas are removed and it gets its share."""
    cluster = raftlog_cluster
    cluster.add_node()
    create_topic(cluster.addresses[0], "t", PARTITIONS)
    send_request(cluster, 1, "PUT", "/v1/cluster_config", {"upsert": {"replicas.repair.after.ms": 2_000}})
    with start_load(cluster) as ledger:
        ledger.wait_for_more(ENOUGH)
        had = {path.name for path in (cluster.nodes[3].data_dir / "t").iterdir()}
        cluster.nodes[3].kill()
        wait_spread(cluster, 2, "t", (1, 2, 4))
        cluster.nodes[3].start()
        wait_spread(cluster, 2, "t", (1, 2, 3, 4))
        ledger.wait_for_more(ENOUGH)
    assert had
    share = 3 * PARTITIONS // 4
    block_until(lambda: len(list((cluster.nodes[3].data_dir / "t").iterdir())) == share, lambda: had)
    check_settled(cluster, ledger)


@pytest.mark.slow
def test_all_involved_brokers_crash_while_a_broker_is_decommissioned(raftlog_cluster: Cluster) -> None:
    """The target, the controller's leader and the leaving broker crash by SIGKILL; one of them stays down for good.

    Of no partition two replicas are down for long: without a majority nothing could move."""
    cluster = raftlog_cluster
    cluster.add_node()
    cluster.add_node()
    create_topic(cluster.addresses[0], "t", PARTITIONS)
    send_request(cluster, 1, "PUT", "/v1/cluster_config", {"upsert": {"replicas.repair.after.ms": 3_000}})
    with start_load(cluster) as ledger:
        ledger.wait_for_more(ENOUGH)
        controller = cluster.nodes[2].get("/v1/cluster/health_overview")["controller_id"]
        source, target, *_ = [node for node in cluster.nodes if node != controller]
        asked = next(node for node in cluster.nodes if node not in (controller, source, target))
        send_request(cluster, asked, "PUT", f"/v1/brokers/{source}/decommission")
        cluster.nodes[target].kill()
        cluster.nodes[controller].kill()
        ledger.wait_for_more(ENOUGH)
        cluster.nodes[controller].start()
        cluster.nodes[target].start()
        cluster.nodes[source].kill()
        ledger.wait_for_more(ENOUGH)
        wait_removed(cluster, asked, source)
        wait_spread(cluster, asked, "t", [node for node in cluster.nodes if node != source])
        ledger.wait_for_more(ENOUGH)
    check_settled(cluster, ledger)
