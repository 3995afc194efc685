"""Kafka's protocol, with unmodified client libraries: F57 to F59."""

from random import Random
from typing import Final

from jepsen.nemeses.network_faults import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.groups import kill_coordinators
from jepsen.scenarios.scenario import Scenario

DEATHS: Final = 3


def kill_leader_during_batches(stage: Stage) -> None:
    """Kill the leader of a partition repeatedly, while batches of idempotent producers wait for their answers."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    stage.wait(1)
    for _ in range(DEATHS):
        with stage.fault("kill", stage.leader()):
            stage.wait(random.uniform(0.3, 1.5))
        stage.wait_served()
        stage.wait(1)


def query_isolated_leader(stage: Stage) -> None:
    """Cut the leader off from other brokers but not from clients: its answers contain only committed records."""
    for _ in range(DEATHS):
        leader = stage.leader()
        with stage.fault("cut", leader, shape="isolated", links=SHAPES["isolated"]([leader, *stage.others(leader)])):
            stage.wait(3)
        stage.wait(1)


SCENARIOS: Final = (
    Scenario(
        "F57",
        "the leader dies under librdkafka's idempotent producers",
        kill_leader_during_batches,
        ("kill",),
        workload="idempotent",
        client="librdkafka",
        clients=3,
    ),
    Scenario(
        "F58",
        "a leader without a majority is asked by Kafka's clients",
        query_isolated_leader,
        ("cut",),
        client="librdkafka",
        clients=3,
    ),
    Scenario(
        "F59",
        "coordinators die under members of aiokafka",
        kill_coordinators,
        ("kill",),
        workload="groups",
        client="aiokafka",
        seconds=25.0,
        clients=3,
    ),
)
