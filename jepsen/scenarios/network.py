"""Lost, slow or one-way links between nodes: F20 to F23 and F26 to F28.

F24 and F25 (single messages that arrive twice or late) cannot occur over TCP between real processes; the simulated
cluster covers them. The nearest test here is a storm of packet faults in which connections are reset.
"""

from typing import Any, Final

from jepsen.nemeses.network_faults import SHAPES, all_links
from jepsen.runner.stage import Stage
from jepsen.scenarios.scenario import RATE_UNANSWERED, Scenario
from raftlog.types import TopicPartition

STEP_DOWN_S_MAX: Final = 10.0
SUSPICION_S: Final = 8.0
"""Seconds; longer than a suspicion of gossip lasts (docs/MEMBERSHIP.md)."""


def describe_partition(stage: Stage, place: TopicPartition | None = None) -> dict[str, Any]:
    """Return the description of a partition from the first node that answers; empty when none does."""
    wanted = place or stage.places[0]
    for node in stage.nodes:
        status, answer = stage.ask(node, f"/v1/partitions/kafka/{wanted.topic}/{wanted.partition}")
        if status == 200:
            return dict(answer)
    return {}


def isolate_leader(stage: Stage) -> None:
    """Cut the leader from all other nodes for 4 s, twice."""
    for _ in range(2):
        leader = stage.leader()
        with stage.fault("cut", leader, shape="isolated", links=SHAPES["isolated"]([leader, *stage.others(leader)])):
            stage.wait(4)
        stage.wait(1.5)


def cut_links_to_leader(stage: Stage) -> None:
    """Cut only the links to the leader: it is replaced."""
    leader = stage.leader()
    others = stage.others(leader)
    with stage.fault("cut", leader, shape="deaf", links=SHAPES["deaf"]([leader, *others])):

        def is_replaced() -> bool:
            """Return whether another node reports a new leader."""
            answer = stage.ask(others[0], f"/topics/{stage.places[0].topic}/partitions/{stage.places[0].partition}")
            return answer[0] == 200 and answer[1].get("leader") in others

        stage.wait_until(is_replaced, "the others have a leader that hears them", STEP_DOWN_S_MAX)
        stage.wait(1)


def flap_links_of_follower(stage: Stage) -> None:
    """Cut and restore a follower's links repeatedly: the leader stays."""
    leader = stage.leader()
    follower = stage.others(leader)[0]
    before = describe_partition(stage).get("leader_epoch")
    for _ in range(5):
        with stage.fault(
            "cut", follower, shape="isolated", links=SHAPES["isolated"]([follower, *stage.others(follower)])
        ):
            stage.wait(1.2)
        stage.wait(0.8)
    answer = describe_partition(stage)
    stage.expect(
        (answer.get("leader_id"), answer.get("leader_epoch")) == (leader, before),
        f"leader and term stayed as they were: {leader} in {before}, now {answer.get('leader_id')} in "
        f"{answer.get('leader_epoch')}",
    )


def cut_into_bridge_and_ring(stage: Stage) -> None:
    """Cut links so that the nodes form a bridge, then a ring of majorities, for 4 s each."""
    for shape in ("bridge", "ring of majorities"):
        leader = stage.leader()
        nodes = [leader, *stage.others(leader)]
        with stage.fault("cut", leader, shape=shape, links=SHAPES[shape](nodes)):
            stage.wait(4)
        stage.wait(1.5)


def inject_storms_and_resets(stage: Stage) -> None:
    """Delay, lose, duplicate and reorder packets on all links, and reset all connections, three times."""
    links = all_links(stage.nodes)
    for _ in range(3):
        with stage.fault("packet", *stage.nodes, shape="storm", links=links):
            stage.wait(1.5)
            count = stage.system.reset_connections(links)
            stage.expect(count > 0, f"{count} connections were reset")
            stage.wait(1.5)
        stage.wait(0.5)


def slow_down_links(stage: Stage) -> None:
    """Slow down a follower, then a leader, and at last all nodes."""
    leader = stage.leader()
    follower = stage.others(leader)[0]
    for victim in (follower, leader):
        links = SHAPES["isolated"]([victim, *stage.others(victim)])
        with stage.fault("packet", victim, shape="dreadful", links=links):
            stage.wait(6)
    with stage.fault("packet", *stage.nodes, shape="dreadful", links=all_links(stage.nodes)):
        stage.wait(8)
    stage.wait(3)


def lose_answers(stage: Stage) -> None:
    """Drop all answers to clients for 0.7 s, four times."""
    for _ in range(4):
        with stage.client_cut(stage.nodes, answers_only=True):
            stage.wait(0.7)
        stage.wait(1.3)


def cut_gossip_then_all_else(stage: Stage) -> None:
    """Cut gossip alone, then all but gossip, for longer than a suspicion: it causes no membership change."""
    before = count_configuration_changes(stage)
    victim = stage.leader()
    links = SHAPES["isolated"]([victim, *stage.others(victim)])
    with stage.fault("cut", victim, shape="isolated", links=links, plane="gossip"):
        stage.wait(SUSPICION_S)
    stage.wait(1)
    with stage.fault("cut", victim, shape="isolated", links=links, plane="rpc"):
        stage.wait(4)
    stage.wait(1)
    after = count_configuration_changes(stage)
    stage.expect(after == before, f"no group has changed its members: {after - before} changes")


def count_configuration_changes(stage: Stage) -> int:
    """Return the number of changes of Raft configurations in the brokers' logs."""
    return sum(node.log_text().count('"members_changed"') for node in stage.brokers.nodes.values())


SCENARIOS: Final = (
    Scenario("F20", "the leader is alone, clients are on both sides", isolate_leader, ("cut",)),
    Scenario("F21", "the leader can send and receives nothing", cut_links_to_leader, ("cut",)),
    Scenario("F22", "a follower is cut off again and again", flap_links_of_follower, ("cut",)),
    Scenario("F23", "a bridge between halves, and a ring of majorities", cut_into_bridge_and_ring, ("cut",), nodes=5),
    Scenario("F24", "delay, loss and reset connections make leaders send again", inject_storms_and_resets, ("packet",)),
    Scenario("F26", "300 ms of delay and 20 % of loss", slow_down_links, ("packet",), seconds=26.0),
    Scenario(
        "F27",
        "answers to clients are lost, requests are not",
        lose_answers,
        ("cut",),
        "idempotent",
        seconds=12.0,
        rate=RATE_UNANSWERED,
        client_cuts=True,
    ),
    Scenario(
        "F28",
        "gossip is cut and the rest is not, and the other way round",
        cut_gossip_then_all_else,
        ("cut",),
        seconds=17.0,
    ),
)
