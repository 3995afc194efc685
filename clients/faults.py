"""Faults of the brokers while a client program runs: leader kill, broker restart, leadership transfer."""

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from clients.checks import READY_S_MAX, CheckFailed
from raftlog.testing import Cluster
from raftlog.testing.http import ask

PAUSE_S: Final = 3.0
"""Seconds of normal work of a client before, between and after faults."""
_MOVE_S_MAX: Final = 30.0
_POLL_S: Final = 0.1

Fault = Callable[[Cluster, str], None]


class RunningNode(Protocol):
    """Broker that faults stop and start."""

    def kill(self) -> None: ...
    def start(self, timeout_s: float) -> object: ...
    def restart(self, timeout_s: float) -> object: ...


class RunningCluster(Protocol):
    """Cluster whose brokers the faults of this module stop and start."""

    @property
    def nodes(self) -> Mapping[int, RunningNode]: ...
    def leader(self, topic: str) -> int: ...
    def wait_healthy(self, timeout_s: float) -> None: ...


def kill_leader(cluster: RunningCluster, topic: str) -> None:
    """Kill the leader of partition 0, and start it again after a pause."""
    killed = cluster.leader(topic)
    cluster.nodes[killed].kill()
    time.sleep(PAUSE_S)
    cluster.nodes[killed].start(READY_S_MAX)
    cluster.wait_healthy(READY_S_MAX)


def restart_broker(cluster: RunningCluster, topic: str) -> None:
    """Stop the leader of partition 0 gracefully, and start it again."""
    cluster.nodes[cluster.leader(topic)].restart(READY_S_MAX)
    cluster.wait_healthy(READY_S_MAX)


def transfer_leadership(cluster: Cluster, topic: str) -> None:
    """Transfer the leadership of partition 0 to another broker through the admin API."""
    before = cluster.leader(topic)
    target = next(node for node in cluster.nodes if node != before)
    path = f"/v1/partitions/kafka/{topic}/0/transfer_leadership?target={target}"
    status, answer = ask(cluster.nodes[before].http, path, method="POST", timeout_s=_MOVE_S_MAX)
    if status // 100 != 2:
        raise CheckFailed(f"the leadership of {topic}/0 did not move: {status} {answer}")
    until = time.monotonic() + _MOVE_S_MAX
    while cluster.leader(topic) == before:
        if time.monotonic() > until:
            raise CheckFailed(f"{topic}/0 is still led by {before}")
        time.sleep(_POLL_S)
