"""Promises of a log about its records across changes of leader: F41 to F45, and F56.

F46 and F50 to F53 are about transactions, which the service does not have."""

from typing import Final

from jepsen.nemeses.network_faults import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.broker_requests import OwnTopic
from jepsen.scenarios.scenario import RATE_UNANSWERED, Scenario

CHANGES_MIN: Final = 3
"""Smallest number of leadership transfers that must succeed; a target that lags too far behind receives none."""


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
    """Kill an isolated leader: records that it alone took, under `acks=1`, are lost, and were never read."""
    own = OwnTopic(stage, {})
    for number in range(2):
        kept, alone = f"kept {number}", f"alone {number}"
        leader = stage.leader(own.place)
        stage.wait_until(lambda: own.write_values(leader, [kept])[0] == 200, "a record is taken by all")  # noqa: B023
        with stage.fault("cut", leader, shape="isolated", links=SHAPES["isolated"]([leader, *stage.others(leader)])):
            status, _ = own.write_values(leader, [alone], acks="1")
            stage.expect(status == 200, f"node {leader} takes a record alone: {status}")
            shown = own.values(leader) or []
            stage.expect(alone not in shown, f"node {leader} does not show it: {shown}")
            stage.wait(2)
            with stage.fault("kill", leader):
                stage.leader(own.place, other_than=[leader])
                stage.wait(1.5)
        stage.wait_served()
        for node in stage.nodes:
            stage.wait_until(lambda: kept in (own.values(node) or ()), f"node {node} shows what all had taken")  # noqa: B023
            shown = own.values(node) or []
            stage.expect(alone not in shown, f"node {node} shows nothing that one had taken alone: {shown}")


def compaction_and_a_follower_that_is_behind(stage: Stage) -> None:
    for _ in range(2):
        follower = stage.others(stage.leader())[0]
        with stage.fault("kill", follower):
            stage.wait(4)
        stage.wait_served()
        stage.wait(1)


def compactions(stage: Stage) -> dict[int, int]:
    """Return the number of compactions that each node has logged."""
    return {node: broker.log_text().count('"log_compacted"') for node, broker in stage.brokers.nodes.items()}


def dies_amid_compaction(stage: Stage) -> None:
    """Kill each broker during compaction, which runs twice a second."""
    for number in range(4):
        victim = stage.nodes[number % len(stage.nodes)]
        before = compactions(stage)[victim]
        stage.wait_until(lambda: compactions(stage)[victim] > before, f"node {victim} compacts")  # noqa: B023
        with stage.fault("kill", victim):
            stage.wait(0.8)
        stage.wait_served()
        stage.wait(1)


def retries_meet_new_leaders(stage: Stage) -> None:
    """Retry a producer's batch at a new leader, which has recovered the producer's state after a restart."""
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
        rate=RATE_UNANSWERED,
        client_cuts=True,
    ),
    Scenario("F56", "a client gets an error, and the record shows", errors_are_not_the_end, ("pause",)),
)
