"""What a log promises of its records, across changes of leader: F41 to F45, and F56.

F46 and F50 to F53 are about transactions, which the service does not have.
"""

from typing import Final

from jepsen.nemeses.ways import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.scenario import Scenario

CHANGES_MIN: Final = 3
"""Of the leaders that were to hand over. Not each one does: a target that lacks too much is given nothing."""


def leaders_change_amid_appends(stage: Stage) -> None:
    changed = 0
    for number in range(10):
        place = stage.places[number % len(stage.places)]
        leader = stage.leader(place)
        stage.order("lead", stage.others(leader)[0], number % len(stage.places))
        stage.wait(0.6)
        changed += stage.system.leader(place) not in (None, leader)
    stage.expect(changed >= CHANGES_MIN, f"leaders changed: {changed} times")
    for _ in range(2):
        with stage.fault("kill", stage.leader()):
            stage.wait(1.2)
        stage.wait_served()


def cut_off_leader_dies(stage: Stage) -> None:
    """What it alone had taken, under `acks=1`, goes with it; nobody may have read it."""
    for _ in range(2):
        leader = stage.leader()
        with stage.fault("cut", leader, shape="isolated", ways=SHAPES["isolated"]([leader, *stage.others(leader)])):
            stage.wait(2)
            with stage.fault("kill", leader):
                stage.wait(1.5)
        stage.wait_served()


def compaction_and_a_follower_that_is_behind(stage: Stage) -> None:
    for _ in range(2):
        follower = stage.others(stage.leader())[0]
        with stage.fault("kill", follower):
            stage.wait(4)
        stage.wait_served()
        stage.wait(1)


def dies_amid_compaction(stage: Stage) -> None:
    for number in range(4):
        with stage.fault("kill", stage.nodes[number % len(stage.nodes)]):
            stage.wait(0.8)
        stage.wait_served()
        stage.wait(1)


def retries_meet_new_leaders(stage: Stage) -> None:
    """A producer's retry finds another leader, one that has read its state back after a restart."""
    for _ in range(3):
        with stage.clients_cut(stage.nodes, answers_only=True):
            stage.wait(0.4)
            with stage.fault("kill", stage.leader()):
                stage.wait(0.8)
        stage.wait_served()
        stage.wait(0.5)


def errors_are_not_the_end(stage: Stage) -> None:
    for number in range(3):
        leader = stage.leader(stage.places[number % len(stage.places)])
        with stage.fault("pause", leader):
            stage.wait(2.5)
        stage.wait(0.5)


SCENARIOS: Final = (
    Scenario(
        "F41",
        "leaders change between append and answer",
        leaders_change_amid_appends,
        ("members", "kill"),
        seconds=18.0,
    ),
    Scenario("F42", "a leader that is cut off acknowledges alone, and dies", cut_off_leader_dies, ("cut", "kill")),
    Scenario(
        "F43",
        "a follower is behind while its log is compacted",
        compaction_and_a_follower_that_is_behind,
        ("kill",),
        "compaction",
    ),
    Scenario("F44", "brokers die amid compaction", dies_amid_compaction, ("kill",), "compaction", seconds=18.0),
    Scenario(
        "F45",
        "retries of producers meet new leaders",
        retries_meet_new_leaders,
        ("kill", "cut"),
        "idempotent",
        client_cuts=True,
    ),
    Scenario("F56", "a client gets an error, and the record shows", errors_are_not_the_end, ("pause",)),
)
