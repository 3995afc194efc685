"""Promises of a log about its records across changes of leader: F41 to F45, and F56.

F46 and F50 to F53 are about transactions: `tests/transactions/test_scenarios.py`."""

from typing import Final

from jepsen.nemeses.network_faults import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.broker_requests import OwnTopic
from jepsen.scenarios.scenario import RATE_UNANSWERED, Scenario

CHANGES_MIN: Final = 3
"""Smallest number of leadership transfers that must succeed; a target that lags too far behind receives none."""


def change_leaders_amid_appends(stage: Stage) -> None:
    """Transfer leadership ten times, then kill the leader twice; expect enough changes of leaders."""
    changed = 0
    for number in range(10):
        place = stage.places[number % len(stage.places)]
        leader = stage.leader(place)
        stage.change("lead", stage.others(leader)[0], number % len(stage.places))
        stage.wait(0.6)
        changed += stage.system.leader(place) not in (None, leader)
    stage.expect(changed >= CHANGES_MIN, f"leaders changed: {changed} times")
    for _ in range(2):
        with stage.fault("kill", stage.leader()):
            stage.wait(1.2)
        stage.wait_served()


def kill_isolated_leader(stage: Stage) -> None:
    """Kill an isolated leader: its records under `acks=1` are lost, and no client has read them."""
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


def compact_past_stopped_follower(stage: Stage) -> None:
    """Kill a follower for 4 s, during which the others compact; twice."""
    for _ in range(2):
        follower = stage.others(stage.leader())[0]
        with stage.fault("kill", follower):
            stage.wait(4)
        stage.wait_served()
        stage.wait(1)


def count_compactions(stage: Stage) -> dict[int, int]:
    """Return the number of compactions that each node has logged."""
    return {node: broker.log_text().count('"log_compacted"') for node, broker in stage.brokers.nodes.items()}


def kill_brokers_amid_compaction(stage: Stage) -> None:
    """Kill each broker during compaction, which runs twice a second."""
    for number in range(4):
        victim = stage.nodes[number % len(stage.nodes)]
        before = count_compactions(stage)[victim]
        stage.wait_until(lambda: count_compactions(stage)[victim] > before, f"node {victim} compacts")  # noqa: B023
        with stage.fault("kill", victim):
            stage.wait(0.8)
        stage.wait_served()
        stage.wait(1)


def retry_at_new_leaders(stage: Stage) -> None:
    """Retry a producer's batch at a new leader, which has recovered the producer's state after a restart."""
    for _ in range(3):
        with stage.client_cut(stage.nodes, answers_only=True):
            stage.wait(0.4)
            with stage.fault("kill", stage.leader()):
                stage.wait(0.8)
        stage.wait_served()
        stage.wait(0.5)


def pause_leaders_of_partitions(stage: Stage) -> None:
    """Pause the leaders of three partitions, for 2.5 s each."""
    for number in range(3):
        leader = stage.leader(stage.places[number % len(stage.places)])
        with stage.fault("pause", leader):
            stage.wait(2.5)
        stage.wait(0.5)


SCENARIOS: Final = (
    Scenario(
        "F41",
        "leaders change between append and answer",
        change_leaders_amid_appends,
        ("members", "kill"),
        seconds=18.0,
    ),
    Scenario("F42", "a leader that is cut off acknowledges alone, and dies", kill_isolated_leader, ("cut", "kill")),
    Scenario(
        "F43",
        "a follower is behind while its log is compacted",
        compact_past_stopped_follower,
        ("kill",),
        "compaction",
    ),
    Scenario("F44", "brokers die amid compaction", kill_brokers_amid_compaction, ("kill",), "compaction", seconds=18.0),
    Scenario(
        "F45",
        "retries of producers meet new leaders",
        retry_at_new_leaders,
        ("kill", "cut"),
        "idempotent",
        rate=RATE_UNANSWERED,
        client_cuts=True,
    ),
    Scenario("F56", "a client gets an error, and the record shows", pause_leaders_of_partitions, ("pause",)),
)
