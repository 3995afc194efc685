"""Members of a cluster under test, and orders that change it: brokers join and leave, replicas and leaders move.

    member → leaving (decommissioned) → removed: its process ends by itself, and is not started again

An order is given once, to the first broker that takes it, and not waited for. The outcome of an unanswered order is
unknown during the load; so `settle` gives the decommissions once more when all faults have ended, and waits until all
orders are done. Called by `cluster`."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask
from raftlog.types import TopicPartition

ORDER_S_MAX: Final = 1.0
MORE_MAX: Final = 2
"""Brokers that join at most, beyond those that there were at the start and have not left."""
LOOK_S: Final = 0.1
ASK_S_MAX: Final = 2.0


class Members:
    """`launch` starts the process of a node that joins."""

    def __init__(self, cluster: Cluster, launch: Callable[[int], None]) -> None:
        self._cluster, self._launch = cluster, launch
        self._first = len(cluster.nodes)
        self.leaving: set[int] = set()
        """Decommissioned, or perhaps so."""

    def staying(self) -> list[int]:
        return [node for node in self._cluster.nodes if node not in self.leaving]

    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        """Add or decommission a node, or move a partition or its leader; return a description, empty if unchanged."""
        match shape:
            case "join":
                return self._join()
            case "leave":
                return self._leave(node)
            case "move":
                return self._move(place)
            case _:
                return self._lead(place, node)

    def _join(self) -> str:
        if len(self.staying()) >= self._first + MORE_MAX:
            return ""
        node = self._cluster.add_node(start=False)
        self._launch(node.node_id)
        return f"node {node.node_id} was started, to join"

    def _leave(self, node: int) -> str:
        """Decommission a node, unless too few would stay for the replicas."""
        if node in self.leaving or len(self.staying()) <= self._first:
            return ""
        self.leaving.add(node)
        return self._order("PUT", f"/v1/brokers/{node}/decommission")

    def _move(self, place: TopicPartition) -> str:
        found = self._asked(f"/v1/partitions/kafka/{place.topic}/{place.partition}")
        if found is None or "replicas" not in found:
            return ""
        now = [int(replica["node_id"]) for replica in found["replicas"]]
        others = [node for node in self.staying() if node not in now]
        wanted = [*now[1:], others[0] if others else now[0]]
        body = [{"node_id": node, "core": 0} for node in wanted]
        return self._order("POST", f"/v1/partitions/kafka/{place.topic}/{place.partition}/replicas", body)

    def _lead(self, place: TopicPartition, node: int) -> str:
        path = f"/v1/partitions/kafka/{place.topic}/{place.partition}/transfer_leadership?target={node}"
        return self._order("POST", path)

    def settle(self, until: float) -> list[str]:
        """Wait until all ordered departures and moves are done; return those that were not in time."""
        for node in self.leaving:
            self._order("PUT", f"/v1/brokers/{node}/decommission")
        why: str | None = "no broker answers"
        while time.monotonic() < until:
            why = self._unsettled()
            if why is None:
                return []
            time.sleep(LOOK_S)
        return [f"what was ordered of members is not done: {why}"]

    def _unsettled(self) -> str | None:
        rows, health = self._asked("/v1/brokers"), self._asked("/v1/cluster/health_overview")
        if not isinstance(rows, list) or health is None or not health.get("is_healthy", False):
            return f"the cluster is not healthy: {(health or {}).get('unhealthy_reasons')}"
        there = {int(row["node_id"]) for row in rows}
        if there & self.leaving:
            node = min(there & self.leaving)
            return f"node {node} has not left: {self._asked(f'/v1/brokers/{node}/decommission')}"
        if missing := set(self.staying()) - there:
            return f"nodes {sorted(missing)} have not joined"
        if lagging := int(health["lagging_count"]):
            return f"{lagging} partitions have replicas that lag"
        moving = int(health.get("reconfigurations_count", 0))
        return f"{moving} partitions are on their way" if moving else None

    def _order(self, method: str, path: str, body: Any = None) -> str:
        """Send an order and return a description; empty when no broker received it, or when it was refused for good."""
        may_have_arrived = False
        timeout = f"{'&' if '?' in path else '?'}timeout={round(ORDER_S_MAX * 800)}"
        for address in self._addresses():
            try:
                status, _ = ask(address, path + timeout, method=method, body=body, timeout_s=ORDER_S_MAX)
            except BrokerFailed as error:
                may_have_arrived = may_have_arrived or not isinstance(error.__cause__, ConnectionRefusedError)
                continue
            return "" if 400 <= status < 500 else f"{method} {path}: {status}"
        return f"{method} {path}: no answer" if may_have_arrived else ""

    def _asked(self, path: str) -> Any:
        """Return the JSON of the first broker that has it."""
        for address in self._addresses():
            try:
                status, answer = ask(address, path, timeout_s=ASK_S_MAX)
            except BrokerFailed:
                continue
            if status == 200:
                return answer
        return None

    def _addresses(self) -> Sequence[str]:
        nodes = (self._cluster.nodes[node] for node in self.staying())
        return [node.http for node in nodes if node.is_running and not node.is_paused]
