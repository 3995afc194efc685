"""Random requests of several operators at once while brokers are killed and paused.

Each gets a documented answer, no acknowledged order is lost, and the cluster is whole once all orders are undone."""

import random
import threading
from typing import Any

import pytest

from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask
from tests.integration.cluster_load import Load, check_stored, create_topic

OPERATORS = 4
ANSWERS_BETWEEN = 60
"""Orders that are answered between a broker's end and its return, and again before the next one's."""
ANSWER_S = 15.0
REFUSALS = {400: "failed", 404: "failed", 409: "failed", 503: "failed", 504: "unknown"}
Order = tuple[str, str, Any]


def draw_request(topic: str, random_: random.Random) -> Order:
    """Return a random request of an operator; it need not be valid."""
    node = random_.choice((1, 2, 3, 9))
    partition = f"/v1/partitions/kafka/{topic}/{random_.choice((0, 1, 5))}"
    replicas = [{"node_id": each} for each in random_.sample((1, 2, 3), random_.randint(1, 3))]
    settings = {"balancer.mode": random_.choice(("off", "node_add", "continuous")), "leaders.balance": True}
    orders: list[Order] = [
        ("PUT", f"/v1/brokers/{node}/maintenance", None),
        ("DELETE", f"/v1/brokers/{node}/maintenance", None),
        ("GET", f"/v1/brokers/{node}/maintenance", None),
        ("GET", f"/v1/brokers/{node}/decommission", None),
        ("GET", "/v1/brokers", None),
        ("POST", f"{partition}/replicas", replicas),
        ("POST", f"{partition}/replicas?expected_version={random_.randint(1, 100)}", replicas),
        ("POST", f"{partition}/transfer_leadership", None),
        ("POST", f"{partition}/transfer_leadership?target={node}", None),
        ("POST", f"{partition}/cancel_reconfiguration", None),
        ("POST", "/v1/cluster/cancel_reconfigurations", None),
        ("POST", "/v1/partitions/rebalance", None),
        ("GET", "/v1/partitions/reconfigurations", None),
        ("GET", "/v1/cluster/partition_balancer/status", None),
        ("PUT", "/v1/cluster_config", {"upsert": settings}),
        ("GET", "/v1/features", None),
    ]
    return random_.choice(orders)


class Operators:
    """Threads that send operators' requests until stopped; brokers that cannot answer now are skipped."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self.away: str | None = None
        self._is_over = False
        self._answered = 0
        self._changed = threading.Condition()
        self.wrong: list[object] = []
        self._threads = [threading.Thread(target=self._send_requests, args=(seed,)) for seed in range(OPERATORS)]

    def __enter__(self) -> "Operators":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count: int) -> None:
        """Wait until `count` more requests are answered."""
        with self._changed:
            target = self._answered + count
            assert self._changed.wait_for(lambda: self._answered >= target, 60), "operators get no answers"

    def _send_requests(self, seed: int) -> None:
        random_ = random.Random(seed)
        while not self._is_over:
            address = random_.choice([each for each in self._cluster.addresses if each != self.away])
            method, path, body = draw_request(self._topic, random_)
            try:
                separator = "&" if "?" in path else "?"
                asked = f"{path}{separator}timeout=2000"
                status, answer = ask(address, asked, method=method, body=body, timeout_s=ANSWER_S)
            except BrokerFailed as error:
                if address != self.away:
                    self.wrong.append((method, path, body, address, error))
                continue
            if status != 200 and not (
                status in REFUSALS and answer["outcome"] == REFUSALS[status] and answer["message"]
            ):
                self.wrong.append((method, path, body, status, answer))
            with self._changed:
                self._answered += 1
                self._changed.notify_all()


@pytest.mark.slow
def test_accepted_requests_of_operators_take_effect_while_brokers_are_killed_and_paused(
    cluster: Cluster, topic: str
) -> None:
    create_topic(cluster.addresses[0], topic, partitions=2)
    with Load(cluster, topic, writers=2) as ledger:
        with Operators(cluster, topic) as operators:
            for node in cluster.nodes.values():
                for leave, come_back in ((node.kill, node.start), (node.pause, node.resume)):
                    operators.away = node.http
                    leave()
                    operators.wait_for_more(ANSWERS_BETWEEN)
                    come_back()
                    operators.wait_for_more(ANSWERS_BETWEEN)
        for node in cluster.nodes:
            status, answer = ask(cluster.addresses[0], f"/v1/brokers/{node}/maintenance", method="DELETE")
            assert status == 200, answer
        ledger.wait_for_more(10)
    cluster.wait_healthy()
    assert operators.wrong == []
    check_stored(cluster, ledger, partitions=2)
