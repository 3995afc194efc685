"""Measure of the time until gossip detects a crashed broker, with three brokers and default settings."""

import time
from statistics import median

from bench.cluster_http import cluster_of_three
from bench.measure import Figure, Measure, MeasureFailed, Values, Workspace
from raftlog.testing import Cluster

KILLS = 10
_POLL_S = 0.005
_WAIT_S_MAX = 60.0
_SETTLE_S = 2.0
"""Seconds between two kills, so that they occur at any moment of a protocol period."""


def run(workspace: Workspace) -> Values:
    """Kill one broker after another, and poll the two others until both report the expected state."""
    suspected, dead = [], []
    with workspace.directory() as directory, cluster_of_three(directory) as cluster:
        _wait_for_states(cluster, list(cluster.nodes), None, ("alive",))
        for turn in range(KILLS):
            victim = 1 + turn % len(cluster.nodes)
            time.sleep(_SETTLE_S + turn / KILLS)
            killed_at = time.monotonic()
            cluster.nodes[victim].kill()
            others = [node for node in cluster.nodes if node != victim]
            suspected.append(_wait_for_states(cluster, others, victim, ("suspect", "dead")) - killed_at)
            dead.append(_wait_for_states(cluster, others, victim, ("dead",)) - killed_at)
            cluster.nodes[victim].start()
            _wait_for_states(cluster, list(cluster.nodes), None, ("alive",))
    return {
        "suspect_s": max(suspected),
        "dead_s": max(dead),
        "suspect_median_s": median(suspected),
        "dead_median_s": median(dead),
    }


def _wait_for_states(cluster: Cluster, at: list[int], of: int | None, states: tuple[str, ...]) -> float:
    """Wait until these brokers report a member (None: all) in one of the states; return the time of the last."""
    until = time.monotonic() + _WAIT_S_MAX
    left = list(at)
    while left:
        members = cluster.nodes[left[0]].get("/v1/cluster/members")["members"]
        wanted = [each["state"] in states for each in members if of in (None, each["node_id"])]
        if all(wanted) and len(members) == len(cluster.nodes):
            left.pop(0)
        elif time.monotonic() > until:
            raise MeasureFailed(f"node {left[0]} has {members} after {_WAIT_S_MAX:g} s")
        else:
            time.sleep(_POLL_S)
    return time.monotonic()


MEASURES = (
    Measure(
        "gossip-deaths",
        "three brokers, default settings: SIGKILL until gossip reports it everywhere",
        f"The brokers are killed in turn, {KILLS} times, at different moments of gossip's period, and started again. "
        "Both others are asked over HTTP, repeatedly, for the state of the killed one; counted is the time "
        "until the last of them reports `suspect`, and `dead`.",
        (
            Figure("suspect_s", f"SIGKILL to `suspect` everywhere, longest of {KILLS}", "s", at_most=2),
            Figure("dead_s", "SIGKILL to `dead` everywhere, longest", "s", at_most=6),
            Figure("suspect_median_s", "… `suspect`, median", "s"),
            Figure("dead_median_s", "… `dead`, median", "s"),
        ),
        run,
    ),
)
