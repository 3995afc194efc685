"""Operations on a large cluster: F55."""

import time
from contextlib import suppress
from typing import Any, Final

from jepsen.runner.stage import Stage
from jepsen.scenarios.broker_requests import read_metrics
from jepsen.scenarios.scenario import Scenario

MANY: Final = 1_000
MADE_S_MAX: Final = 60.0
LED_S_MAX: Final = 30.0
ELECTIONS_MAX: Final = 2 * MANY
"""Largest number of elections: one for each partition with a lost or new leader, and one for each leadership transfer.
"""
REPORTED_S_MAX: Final = 20.0


def kill_leader_of_many_partitions(stage: Stage) -> None:
    """Kill the broker that leads a third of 1,000 partitions."""
    body = {"topic_name": "many", "partitions_count": MANY, "replication_factor": 3}
    status, answer = stage.ask(stage.nodes[0], "/v3/clusters/-/topics", "POST", body, timeout_s=MADE_S_MAX)
    stage.expect(status in (200, 201), f"{MANY} partitions are made: {status} {answer.get('message', '')}")
    stage.wait_until(lambda: count_leaderless(stage, stage.nodes) == 0, "all partitions are led", MADE_S_MAX)
    victim = stage.leader()
    others = stage.others(victim)
    before = count_elections(stage, others)
    with stage.fault("kill", victim):
        began = time.monotonic()
        stage.wait_until(lambda: count_leaderless(stage, others) == 0, "the others lead all partitions", LED_S_MAX)
        stage.note(f"all {MANY} partitions were led again after {time.monotonic() - began:.1f} s")
        stage.wait(3)
        held = count_elections(stage, others) - before
        stage.expect(0 < held <= ELECTIONS_MAX, f"at most {ELECTIONS_MAX} elections: {held}")
    stage.wait_served()


def count_elections(stage: Stage, nodes: list[int]) -> int:
    """Return the number of elections begun by these nodes since their start; waits until all answer."""
    counts: dict[int, int] = {}

    def are_reported() -> bool:
        """Read the number of elections of each node that answers; return whether all have answered."""
        for node in nodes:
            with suppress(OSError):
                counts[node] = int(read_metrics(stage.system.addresses[node])["raftlog_elections_started_total"])
        return len(counts) == len(nodes)

    stage.wait_until(are_reported, "brokers tell their figures", REPORTED_S_MAX)
    return sum(counts.values())


def count_leaderless(stage: Stage, nodes: list[int]) -> int | None:
    """Return the number of partitions without a leader according to the first of these nodes that answers."""
    for node in nodes:
        status, answer = stage.ask(node, "/v1/cluster/health_overview")
        if status == 200:
            overview: dict[str, Any] = answer
            return int(overview["leaderless_count"])
    return None


SCENARIOS: Final = (
    Scenario(
        "F55",
        "one broker of a thousand partitions dies",
        kill_leader_of_many_partitions,
        ("kill",),
        seconds=45.0,
        rate=500.0,
    ),
)
