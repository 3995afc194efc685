"""Measure of three brokers with one slow disk: time without successful writes."""

import time

from bench.cluster_events import WRITERS, Clients
from bench.cluster_http import TOPIC, cluster_of_three, create_topic, port_of
from bench.measure import Figure, Measure, NotMeasured, Values, Workspace, require
from bench.read_back import require_read_back
from jepsen.system_calls import inject, slow_syncs, unsupported_reason
from raftlog.testing import Cluster

SYNC_S = 2.0
SLOW_FOR_S = 8.0
_SETTLE_S = 1.5


def _measure_gap(cluster: Cluster, clients: Clients, node: int) -> float:
    """Return the longest time without a success after the syncs of a broker became slow."""
    time.sleep(_SETTLE_S)
    slow_at = time.monotonic()
    with inject(cluster.nodes[node].pid, slow_syncs(SYNC_S)):
        attached_s = time.monotonic() - slow_at
        gap_s = clients.gap_after(slow_at + attached_s)
        time.sleep(max(0.0, SLOW_FOR_S - (time.monotonic() - slow_at)))
        return max(gap_s, clients.gap_after(slow_at + attached_s))


def run(workspace: Workspace) -> Values:
    """Slow down the disk of the leader, then that of a follower."""
    reason = unsupported_reason()
    if reason is not None:
        raise NotMeasured(reason)
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        create_topic(cluster)
        clients = Clients([port_of(cluster, node) for node in cluster.nodes])
        try:
            slow = cluster.leader(TOPIC)
            leader_gap_s = _measure_gap(cluster, clients, slow)
            leader = cluster.leader(TOPIC)
            require(leader != slow, f"node {slow} leads, and its syncs took {SYNC_S:g} s until just now")
            cluster.wait_healthy()
            follower = next(node for node in cluster.nodes if node not in (slow, leader))
            follower_gap_s = _measure_gap(cluster, clients, follower)
            require(cluster.leader(TOPIC) != follower, f"node {follower} leads while its syncs are slow")
        finally:
            clients.end()
        stored = require_read_back(port_of(cluster, 1), TOPIC, len(clients.acks), clients.sent)
    return {"seconds": leader_gap_s, "follower_s": follower_gap_s, **stored}


MEASURES = (
    Measure(
        "slow-disk",
        f"three brokers over HTTP: every sync of the leader takes {SYNC_S:g} s from a moment on",
        f"{WRITERS} clients write single records through all three brokers, and try the next one when theirs fails. "
        f"strace delays every sync of the partition's leader by {SYNC_S:g} s for {SLOW_FOR_S:g} s; counted is the "
        "longest time without a successful write. At the end of that time another broker has to lead. Then the same "
        "with a follower. At the end every acknowledged record has to be read back.",
        (
            Figure("seconds", "time without a successful write, slow leader", "s", at_most=3),
            Figure("follower_s", "… slow follower", "s"),
        ),
        run,
    ),
)
