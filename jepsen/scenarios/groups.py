"""Groups: F47 to F49."""

from random import Random
from typing import Final

from jepsen.runner.stage import Stage
from jepsen.scenarios.scenario import Scenario
from jepsen.workloads.roles.belonging import GROUPS, SESSION_TIMEOUT_MS


def coordinator(stage: Stage, group: str) -> int:
    """Of a group, as the first node says that answers; any node when nobody does."""
    for node in stage.nodes:
        status, told = stage.ask(node, f"/v3/clusters/-/consumer-groups/{group}")
        if status == 200 and "coordinator" in told:
            name = str(told["coordinator"]["related"]).rpartition("/")[2]
            if name.isdigit():
                return int(name)
    return stage.nodes[0]


def coordinators_die(stage: Stage) -> None:
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    stage.wait(2)
    for number in range(4):
        with stage.fault("kill", coordinator(stage, GROUPS[number % len(GROUPS)])):
            stage.wait(random.uniform(0.5, 1.5))
        stage.wait_served()
        stage.wait(1)


def everybody_sleeps_past_the_session(stage: Stage) -> None:
    """Members that were silent for longer than their session, by the brokers' doing, commit in an old generation."""
    stage.wait(2)
    for group in GROUPS:
        with stage.fault("pause", coordinator(stage, group)):
            stage.wait(1.5 * SESSION_TIMEOUT_MS / 1000)
        stage.wait(2)


def answers_to_commits_are_lost(stage: Stage) -> None:
    stage.wait(2)
    for _ in range(5):
        with stage.clients_cut(stage.nodes, answers_only=True):
            stage.wait(0.5)
        stage.wait(1.5)


SCENARIOS: Final = (
    Scenario("F47", "the coordinator dies amid joins and commits", coordinators_die, ("kill",), "groups", seconds=20.0),
    Scenario(
        "F48",
        "members commit after a silence longer than their session",
        everybody_sleeps_past_the_session,
        ("pause",),
        "groups",
    ),
    Scenario("F49", "answers to commits are lost", answers_to_commits_are_lost, ("cut",), "groups", client_cuts=True),
)
