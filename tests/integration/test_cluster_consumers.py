"""Consumer instances on three real brokers, used by plain requests, while a broker crashes: no record is skipped.

After a lost answer the reader sets its position behind the last record that it has, as docs/HTTP.md recommends."""

import itertools
from collections.abc import Iterator
from typing import Any

from raftlog.testing import Cluster
from raftlog.testing.errors import BrokerFailed
from raftlog.testing.http import ask
from tests.integration.cluster_load import create_topic

RECORDS = 100
CHUNK = 10


class Requests:
    """Requests sent one after another to the brokers in turn."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turns: Iterator[int] = itertools.cycle(cluster.nodes)

    def __call__(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send the request once; return status 0 if its outcome is unknown."""
        node = next(each for each in map(self._cluster.nodes.__getitem__, self._turns) if each.is_running)
        try:
            return ask(node.http, path, method=method, body=body)
        except BrokerFailed:
            return 0, None

    def repeat_until_status(self, statuses: set[int], method: str, path: str, body: object = None) -> Any:
        """Repeat the request until its status is one of these, while brokers change roles."""
        while True:
            status, answer = self(method, path, body)
            if status in statuses:
                return answer
            assert status in (0, 503, 504), (method, path, answer)


def test_an_instance_continues_when_its_broker_is_killed(cluster: Cluster, topic: str) -> None:
    create_topic(cluster.addresses[0], topic)
    requests = Requests(cluster)
    settings = {"name": "c", "format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false"}
    requests.repeat_until_status({200, 409}, "POST", f"/consumers/{topic}", settings)
    instance = f"/consumers/{topic}/instances/c"
    requests.repeat_until_status({204}, "POST", instance + "/subscription", {"topics": [topic]})
    seen: set[int] = set()
    produced = read = 0
    is_sure = True
    while len(seen) < RECORDS:
        if produced < RECORDS:
            records = [{"value": produced + number} for number in range(CHUNK)]
            requests.repeat_until_status({200}, "POST", f"/topics/{topic}/partitions/0", {"records": records})
            produced += CHUNK
            if produced == RECORDS // 2:
                victim = _coordinator(cluster, requests("GET", f"/v3/clusters/-/consumer-groups/{topic}")[1])
                victim.kill()
                victim.start()
        if not is_sure:
            where = {"offsets": [{"topic": topic, "partition": 0, "offset": read}]}
            is_sure = requests("POST", instance + "/positions", where)[0] == 204
            continue
        status, answer = requests("GET", instance + "/records?timeout=500")
        if status != 200:
            assert status in (0, 503, 504), answer
            is_sure = False
            continue
        for record in answer:
            # Delivered and uncommitted records may be repeated; none is left out.
            assert record["offset"] <= read, f"{record} after {read} records"
            if record["offset"] == read:
                read += 1
                seen.add(record["value"])
        if answer:
            requests.repeat_until_status({200, 409}, "POST", instance + "/offsets")
    assert seen == set(range(RECORDS))
    requests.repeat_until_status({204, 404}, "DELETE", instance)


def _coordinator(cluster: Cluster, described: Any) -> Any:
    url = (described or {}).get("coordinator", {}).get("related", "")
    number = url.rpartition("/")[2]
    return cluster.nodes[int(number)] if number.isdigit() else next(iter(cluster.nodes.values()))
