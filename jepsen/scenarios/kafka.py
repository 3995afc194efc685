"""The Kafka face, with unchanged client libraries: F57 to F59."""

from random import Random
from typing import Final

from jepsen.nemeses.network_faults import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.groups import coordinators_die
from jepsen.scenarios.scenario import Scenario

DEATHS: Final = 3


def leader_dies_in_mid_batch(stage: Stage) -> None:
    """Kill the leader of a partition while batches of idempotent producers have no answer, again and again."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    stage.wait(1)
    for _ in range(DEATHS):
        with stage.fault("kill", stage.leader()):
            stage.wait(random.uniform(0.3, 1.5))
        stage.wait_served()
        stage.wait(1)


def old_leader_is_still_asked(stage: Stage) -> None:
    """Cut the leader off from the other brokers, not from clients: its answers show committed records only."""
    for _ in range(DEATHS):
        leader = stage.leader()
        with stage.fault("cut", leader, shape="isolated", links=SHAPES["isolated"]([leader, *stage.others(leader)])):
            stage.wait(3)
        stage.wait(1)


SCENARIOS: Final = (
    Scenario(
        "F57",
        "the leader dies under librdkafka's idempotent producers",
        leader_dies_in_mid_batch,
        ("kill",),
        workload="idempotent",
        client="librdkafka",
        clients=3,
    ),
    Scenario(
        "F58",
        "a leader without a majority is asked by Kafka's clients",
        old_leader_is_still_asked,
        ("cut",),
        client="librdkafka",
        clients=3,
    ),
    Scenario(
        "F59",
        "coordinators die under members of aiokafka",
        coordinators_die,
        ("kill",),
        workload="groups",
        client="aiokafka",
        seconds=25.0,
        clients=3,
    ),
)
