"""Brokers and replicas that come, go and move: F33 to F40."""

from typing import Final

from jepsen.nemeses.fault import FaultKind
from jepsen.nemeses.network_faults import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.network import described
from jepsen.scenarios.scenario import Scenario

MOVED_S_MAX: Final = 20.0


def one_leaves_while_it_is_cut_off(stage: Stage) -> None:
    """Decommission one of five brokers while it is isolated, and kill two more before it has left."""
    leader = stage.leader()
    leaving, *dying = stage.others(leader)[:3]
    links = SHAPES["isolated"]([leaving, *stage.others(leaving)])
    stage.order("join", leader)
    stage.wait(2)
    with stage.fault("cut", leaving, shape="isolated", links=links):
        stage.order("leave", leaving)
        stage.wait(1)
        with stage.fault("kill", *dying):
            stage.wait(4)
        stage.wait(2)


def replica_ids(stage: Stage) -> list[int]:
    return sorted(row["node_id"] for row in described(stage).get("replicas", ()))


def promoted_and_leader_dies(stage: Stage) -> None:
    for _ in range(2):
        before = replica_ids(stage)
        leader = stage.leader()
        stage.order("move", leader)
        stage.wait_until(lambda: replica_ids(stage) != before, "a replica has moved", MOVED_S_MAX)  # noqa: B023
        with stage.fault("kill", stage.leader()):
            stage.wait(2)
        stage.wait_served()
        stage.wait(1)


def leader_dies_in_a_joint_configuration(stage: Stage) -> None:
    for tenths in (0, 1, 2, 4):
        leader = stage.leader()
        stage.order("move", leader)
        stage.wait(tenths / 10)
        with stage.fault("kill", leader):
            stage.wait(1.2)
        stage.wait_served()


def removed_broker_returns(stage: Stage) -> None:
    """Restart a decommissioned broker: it is refused, and disturbs no other broker."""
    stage.order("join", stage.nodes[0])
    stage.wait(2)
    leaving = stage.others(stage.leader())[0]
    stage.order("leave", leaving)
    has_left = stage.wait_until(lambda: not stage.system.is_up(leaving), f"node {leaving} has left and ended", 25.0)
    if has_left:
        before = stage.leader(), described(stage).get("leader_epoch")
        stage.system.launch(leaving)
        stage.wait(4)
        now = stage.leader(), described(stage).get("leader_epoch")
        stage.expect(now == before, f"leader and term stayed as they were: {before}, {now}")


def leadership_goes_to_the_dead(stage: Stage) -> None:
    for _ in range(3):
        target = stage.others(stage.leader())[0]
        with stage.fault("pause", target):
            stage.order("lead", target)
            stage.wait(1.5)
        stage.wait(0.5)
    target = stage.others(stage.leader())[0]
    with stage.fault("kill", target):
        stage.order("lead", target)
        stage.wait(1.5)


def too_few_are_left(stage: Stage) -> None:
    """Decommission one of three brokers with three replicas: it cannot leave, and the answer gives the reason."""
    leaving = stage.others(stage.leader())[0]
    asked = next(node for node in stage.nodes if node != leaving)
    status, _ = stage.ask(asked, f"/v1/brokers/{leaving}/decommission", "PUT")
    stage.expect(status == 200, f"the order is taken: {status}")

    def is_reported() -> bool:
        answer = stage.ask(asked, f"/v1/brokers/{leaving}/decommission")[1]
        return not answer.get("finished") and bool(answer.get("allocation_failures")) and bool(answer.get("reason"))

    stage.wait_until(is_reported, "the status says what has no place", 10.0)
    with stage.fault("pause", leaving):
        stage.wait(2)
    status, _ = stage.ask(asked, f"/v1/brokers/{leaving}/recommission", "PUT")
    stage.expect(status == 200, f"it may stay again: {status}")


def replicas_move_under_load(stage: Stage) -> None:
    for number in range(8):
        stage.order("move", stage.nodes[0], number % len(stage.places))
        stage.wait(1.5)


def topics_are_made_anew(stage: Stage) -> None:
    """Change members while one broker misses it: first it is down, and then paused."""
    kinds: tuple[FaultKind, ...] = ("kill", "pause")
    for kind in kinds:
        with stage.fault(kind, stage.others(stage.leader_of_metadata())[0]):
            stage.wait(4)
        stage.wait_served()
        stage.wait(1)


SCENARIOS: Final = (
    Scenario(
        "F33",
        "a broker leaves while it is cut off, and two more die",
        one_leaves_while_it_is_cut_off,
        ("cut", "kill", "members"),
        nodes=5,
    ),
    Scenario(
        "F34",
        "a new replica gets its vote, and the leader dies",
        promoted_and_leader_dies,
        ("members", "kill"),
        nodes=4,
    ),
    Scenario(
        "F35",
        "the leader dies amid a change of its group's members",
        leader_dies_in_a_joint_configuration,
        ("members", "kill"),
        nodes=4,
    ),
    Scenario("F36", "a broker that has left starts again", removed_broker_returns, ("members",), seconds=35.0),
    Scenario(
        "F37",
        "leadership is given to a broker that sleeps or is dead",
        leadership_goes_to_the_dead,
        ("members", "pause", "kill"),
    ),
    Scenario("F38", "a broker is to leave, and too few are left", too_few_are_left, ("pause",)),
    Scenario("F39", "replicas move under load", replicas_move_under_load, ("members",), "idempotent", nodes=4),
    Scenario(
        "F40",
        "topics are made anew while a broker is down",
        topics_are_made_anew,
        ("kill", "pause"),
        "topics",
        rate=700.0,
    ),
)
