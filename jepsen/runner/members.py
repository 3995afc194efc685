"""Brokers of a cluster under test, and requests to change it: add and remove brokers, move replicas and leaders.

    member → leaving (decommissioned) → removed: its process exits, and is not started again

A request is sent once, to the first broker that accepts it, without a wait for its effect. The outcome of an unanswered
request is unknown during the load; so `settle` sends the decommissions once more when all faults have ended, and waits
until all changes are done. Called by `cluster`."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from raftlog.testing import BrokerFailed, Cluster
from raftlog.testing.http import ask
from raftlog.types import TopicPartition

ORDER_S_MAX: Final = 1.0
MORE_MAX: Final = 2
"""Number of brokers above the initial number at which no further broker joins."""
LOOK_S: Final = 0.1
ASK_S_MAX: Final = 2.0


class Members:
    """Membership changes of a cluster under test; `launch` starts the process of a new broker."""

    def __init__(self, cluster: Cluster, launch: Callable[[int], None]) -> None:
        self._cluster, self._launch = cluster, launch
        self._first = len(cluster.nodes)
        self.leaving: set[int] = set()
        """Nodes whose decommission was requested; the request may have failed."""

    def remaining_nodes(self) -> list[int]:
        """Return the nodes whose decommission was not requested."""
        return [node for node in self._cluster.nodes if node not in self.leaving]

    def change(self, shape: str, node: int, place: TopicPartition) -> str:
        """Add or decommission a node, or move a partition or its leader; return a description, empty if unchanged."""
        match shape:
            case "join":
                return self._join()
            case "leave":
                return self._leave(node)
            case "move":
                return self._move_replica(place)
            case _:
                return self._transfer_leadership(place, node)

    def _join(self) -> str:
        """Start a new broker that joins the cluster; return a description, empty if there are enough brokers."""
        if len(self.remaining_nodes()) >= self._first + MORE_MAX:
            return ""
        node = self._cluster.add_node(start=False)
        self._launch(node.node_id)
        return f"node {node.node_id} was started, to join"

    def _leave(self, node: int) -> str:
        """Decommission a node, unless too few nodes would remain for the replicas."""
        if node in self.leaving or len(self.remaining_nodes()) <= self._first:
            return ""
        self.leaving.add(node)
        return self._send_request("PUT", f"/v1/brokers/{node}/decommission")

    def _move_replica(self, partition: TopicPartition) -> str:
        """Replace the first replica of a partition by one on another node; return the answer, empty for no request."""
        found = self._get_json(f"/v1/partitions/kafka/{partition.topic}/{partition.partition}")
        if found is None or "replicas" not in found:
            return ""
        now = [int(replica["node_id"]) for replica in found["replicas"]]
        others = [node for node in self.remaining_nodes() if node not in now]
        wanted = [*now[1:], others[0] if others else now[0]]
        body = [{"node_id": node, "core": 0} for node in wanted]
        return self._send_request(
            "POST", f"/v1/partitions/kafka/{partition.topic}/{partition.partition}/replicas", body
        )

    def _transfer_leadership(self, place: TopicPartition, node: int) -> str:
        """Request that `node` becomes leader of the partition; return a description."""
        path = f"/v1/partitions/kafka/{place.topic}/{place.partition}/transfer_leadership?target={node}"
        return self._send_request("POST", path)

    def settle(self, until: float) -> list[str]:
        """Wait until all requested changes are done; return descriptions of those that were not in time."""
        for node in self.leaving:
            self._send_request("PUT", f"/v1/brokers/{node}/decommission")
        why: str | None = "no broker answers"
        while time.monotonic() < until:
            why = self._pending_reason()
            if why is None:
                return []
            time.sleep(LOOK_S)
        return [f"what was ordered of members is not done: {why}"]

    def _pending_reason(self) -> str | None:
        """Return the reason why the requested changes are not complete yet; None if they are."""
        rows, health = self._get_json("/v1/brokers"), self._get_json("/v1/cluster/health_overview")
        if not isinstance(rows, list) or health is None or not health.get("is_healthy", False):
            return f"the cluster is not healthy: {(health or {}).get('unhealthy_reasons')}"
        there = {int(row["node_id"]) for row in rows}
        if there & self.leaving:
            node = min(there & self.leaving)
            return f"node {node} has not left: {self._get_json(f'/v1/brokers/{node}/decommission')}"
        if missing := set(self.remaining_nodes()) - there:
            return f"nodes {sorted(missing)} have not joined"
        if lagging := int(health["lagging_count"]):
            return f"{lagging} partitions have replicas that lag"
        moving = int(health.get("reconfigurations_count", 0))
        return f"{moving} partitions are on their way" if moving else None

    def _send_request(self, method: str, path: str, body: Any = None) -> str:
        """Send a request and return a description; empty if no broker received it, or one refused it definitely."""
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

    def _get_json(self, path: str) -> Any:
        """Return the JSON of the first broker that answers with 200; None without one."""
        for address in self._addresses():
            try:
                status, answer = ask(address, path, timeout_s=ASK_S_MAX)
            except BrokerFailed:
                continue
            if status == 200:
                return answer
        return None

    def _addresses(self) -> Sequence[str]:
        """Return the HTTP addresses of remaining brokers that run and are not paused."""
        nodes = (self._cluster.nodes[node] for node in self.remaining_nodes())
        return [node.http for node in nodes if node.is_running and not node.is_paused]
