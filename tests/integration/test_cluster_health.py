"""Health of real brokers under writes: transfers of all leaderships are healthy, a lost majority is not."""

import threading

from raftlog.testing import Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import Load, create_topic
from tests.waiting import block_until

PARTITIONS = 8
ROUNDS = 3
WITHIN_S = 30.0


class HealthWatch:
    """Thread that reads the health of one broker repeatedly."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._node = cluster.nodes[node]
        self._ended = threading.Event()
        self.reasons: list[str] = []
        self.count = 0
        self._thread = threading.Thread(target=self._read_health, name="looks at health")

    def __enter__(self) -> "HealthWatch":
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read_health(self) -> None:
        while not self._ended.is_set():
            self.reasons += self._node.get("/v1/cluster/health_overview", 15)["unhealthy_reasons"]
            self.count += 1


def set_maintenance(cluster: Cluster, node: int, is_on: bool) -> None:
    status, answer = ask(
        cluster.nodes[1].http, f"/v1/brokers/{node}/maintenance", method="PUT" if is_on else "DELETE", timeout_s=15
    )
    assert status // 100 == 2, answer


def wait_for_leading(cluster: Cluster, node: int, is_leading: bool) -> None:

    def list_leaders() -> list[int]:
        return [row["leader"] for row in cluster.nodes[1].get("/topics/t", 15)["partitions"]]

    block_until(lambda: (node in list_leaders()) is is_leading, list_leaders)


def test_transferring_all_leaders_under_writes_is_healthy_and_a_lost_majority_is_not(raftlog_cluster: Cluster) -> None:
    cluster = raftlog_cluster
    create_topic(cluster.addresses[0], "t", PARTITIONS)
    cluster.wait_healthy()
    with Load(cluster, "t", partitions=PARTITIONS, writers=PARTITIONS) as ledger:
        ledger.wait_for_more(100)
        with HealthWatch(cluster, 1) as looks:
            for _ in range(ROUNDS):
                for is_on in (True, False):
                    set_maintenance(cluster, 2, is_on)
                    wait_for_leading(cluster, 2, not is_on)
        ledger.wait_for_more(100)
    assert looks.count > 2 * ROUNDS
    assert not [reason for reason in looks.reasons if "no leader" in reason]
    cluster.nodes[2].kill()
    cluster.nodes[3].kill()
    cluster.wait_unhealthy("partitions have no leader", WITHIN_S)
