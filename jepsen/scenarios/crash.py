"""Processes that die: F1 to F8."""

from random import Random
from typing import Final

from jepsen.runner.stage import Stage
from jepsen.scenarios.scenario import Scenario


def leader_dies_amid_writes(stage: Stage) -> None:
    for _ in range(3):
        with stage.fault("kill", stage.leader()):
            stage.wait(1.5)
        stage.wait_served()
        stage.wait(1)


def all_die_and_come_back_in_any_order(stage: Stage) -> None:
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    for _ in range(2):
        stage.wait(2)
        each = [stage.begin("kill", node) for node in stage.nodes]
        for running in random.sample(each, len(each)):
            stage.wait(random.uniform(0.1, 0.8))
            stage.end(running)
        stage.wait_served()


SCENARIOS: Final = (
    Scenario("F1", "the leader is killed amid idempotent writes", leader_dies_amid_writes, ("kill",), "idempotent"),
    Scenario("F2", "all are killed at once and start in any order", all_die_and_come_back_in_any_order, ("kill",)),
)
