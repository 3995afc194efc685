"""Brokers that join and leave, and replicas that move: F33 to F40."""

from typing import Final

from jepsen.nemeses.fault import FaultKind
from jepsen.nemeses.network_faults import SHAPES
from jepsen.runner.stage import Stage
from jepsen.scenarios.network import describe_partition
from jepsen.scenarios.scenario import Scenario

MOVED_S_MAX: Final = 20.0


def decommission_isolated_node(stage: Stage) -> None:
    """Decommission one of five brokers while it is isolated, and kill two more before it has left."""
    leader = stage.leader()
    leaving, *dying = stage.others(leader)[:3]
    links = SHAPES["isolated"]([leaving, *stage.others(leaving)])
    stage.change("join", leader)
    stage.wait(2)
    with stage.fault("cut", leaving, shape="isolated", links=links):
        stage.change("leave", leaving)
        stage.wait(1)
        with stage.fault("kill", *dying):
            stage.wait(4)
        stage.wait(2)


def replica_ids(stage: Stage) -> list[int]:
    """Return the sorted node ids of the replicas of the first partition."""
    return sorted(row["node_id"] for row in describe_partition(stage).get("replicas", ()))


def kill_leader_after_promotion(stage: Stage) -> None:
    """Move a replica, then kill the leader as soon as the replicas differ; twice."""
    for _ in range(2):
        before = replica_ids(stage)
        leader = stage.leader()
        stage.change("move", leader)
        stage.wait_until(lambda: replica_ids(stage) != before, "a replica has moved", MOVED_S_MAX)  # noqa: B023
        with stage.fault("kill", stage.leader()):
            stage.wait(2)
        stage.wait_served()
        stage.wait(1)


def kill_leader_in_joint_configuration(stage: Stage) -> None:
    """Move a replica of the leader, and kill the leader after 0 to 0.4 s."""
    for tenths in (0, 1, 2, 4):
        leader = stage.leader()
        stage.change("move", leader)
        stage.wait(tenths / 10)
        with stage.fault("kill", leader):
            stage.wait(1.2)
        stage.wait_served()


def restart_removed_broker(stage: Stage) -> None:
    """Restart a decommissioned broker: the others refuse it, and it does not disturb them."""
    stage.change("join", stage.nodes[0])
    stage.wait(2)
    leaving = stage.others(stage.leader())[0]
    stage.change("leave", leaving)
    has_left = stage.wait_until(lambda: not stage.system.is_up(leaving), f"node {leaving} has left and ended", 25.0)
    if has_left:
        before = stage.leader(), describe_partition(stage).get("leader_epoch")
        stage.system.launch(leaving)
        stage.wait(4)
        now = stage.leader(), describe_partition(stage).get("leader_epoch")
        stage.expect(now == before, f"leader and term stayed as they were: {before}, {now}")


def transfer_to_stopped_node(stage: Stage) -> None:
    """Transfer leadership to a paused node, three times, then to a killed one."""
    for _ in range(3):
        target = stage.others(stage.leader())[0]
        with stage.fault("pause", target):
            stage.change("lead", target)
            stage.wait(1.5)
        stage.wait(0.5)
    target = stage.others(stage.leader())[0]
    with stage.fault("kill", target):
        stage.change("lead", target)
        stage.wait(1.5)


def decommission_needed_broker(stage: Stage) -> None:
    """Decommission one of three brokers with three replicas: it cannot leave, and its status gives the reason."""
    leaving = stage.others(stage.leader())[0]
    asked = next(node for node in stage.nodes if node != leaving)
    status, _ = stage.ask(asked, f"/v1/brokers/{leaving}/decommission", "PUT")
    stage.expect(status == 200, f"the order is taken: {status}")

    def is_reported() -> bool:
        """Return whether the decommission is reported as blocked, with a reason."""
        answer = stage.ask(asked, f"/v1/brokers/{leaving}/decommission")[1]
        return not answer.get("finished") and bool(answer.get("allocation_failures")) and bool(answer.get("reason"))

    stage.wait_until(is_reported, "the status says what has no place", 10.0)
    with stage.fault("pause", leaving):
        stage.wait(2)
    status, _ = stage.ask(asked, f"/v1/brokers/{leaving}/recommission", "PUT")
    stage.expect(status == 200, f"it may stay again: {status}")


def move_replicas_under_load(stage: Stage) -> None:
    """Move replicas of the partitions eight times, every 1.5 s."""
    for number in range(8):
        stage.change("move", stage.nodes[0], number % len(stage.places))
        stage.wait(1.5)


def recreate_topics_amid_absences(stage: Stage) -> None:
    """Take a broker down, and then pause it, while clients delete and create topics."""
    kinds: tuple[FaultKind, ...] = ("kill", "pause")
    for kind in kinds:
        with stage.fault(kind, stage.others(stage.controller_leader())[0]):
            stage.wait(4)
        stage.wait_served()
        stage.wait(1)


SCENARIOS: Final = (
    Scenario(
        "F33",
        "a broker leaves while it is cut off, and two more die",
        decommission_isolated_node,
        ("cut", "kill", "members"),
        nodes=5,
    ),
    Scenario(
        "F34",
        "a new replica gets its vote, and the leader dies",
        kill_leader_after_promotion,
        ("members", "kill"),
        nodes=4,
    ),
    Scenario(
        "F35",
        "the leader dies amid a change of its group's members",
        kill_leader_in_joint_configuration,
        ("members", "kill"),
        nodes=4,
    ),
    Scenario("F36", "a broker that has left starts again", restart_removed_broker, ("members",), seconds=35.0),
    Scenario(
        "F37",
        "leadership is given to a broker that sleeps or is dead",
        transfer_to_stopped_node,
        ("members", "pause", "kill"),
    ),
    Scenario("F38", "a broker is to leave, and too few are left", decommission_needed_broker, ("pause",)),
    Scenario("F39", "replicas move under load", move_replicas_under_load, ("members",), "idempotent", nodes=4),
    Scenario(
        "F40",
        "topics are made anew while a broker is down",
        recreate_topics_amid_absences,
        ("kill", "pause"),
        "topics",
        rate=700.0,
    ),
)
