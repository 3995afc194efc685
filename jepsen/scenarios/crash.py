"""Crashes of processes: F1 to F8."""

from random import Random
from typing import Final

from jepsen.runner.stage import Stage
from jepsen.scenarios.broker_requests import OwnTopic, read_records_through, wait_for_end
from jepsen.scenarios.programs import SteadyProducer, find_group, members
from jepsen.scenarios.scenario import Scenario

MEMORY_GROWTH_BYTES_MAX: Final = 64 << 20
"""Largest growth of a leader that waits for a follower: the bounded queues of docs/SETTINGS.md (memory), and a margin.
"""
_ORDERS: Final = 40
_RETENTION_MS: Final = 10**9


def kill_leader_amid_writes(stage: Stage) -> None:
    """Kill the leader of the first partition three times, for 1.5 s each."""
    for _ in range(3):
        with stage.fault("kill", stage.leader()):
            stage.wait(1.5)
        stage.wait_served()
        stage.wait(1)


def kill_all_and_restart_in_any_order(stage: Stage) -> None:
    """Kill all nodes and start them one by one in random order."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    for _ in range(2):
        stage.wait(2)
        each = [stage.begin("kill", node) for node in stage.nodes]
        for running in random.sample(each, len(each)):
            stage.wait(random.uniform(0.1, 0.8))
            stage.end(running)
        stage.wait_served()


def read_from_restarted_majority(stage: Stage) -> None:
    """Check that a restarted majority has replayed acknowledged records from its first answer on."""
    for place in stage.places[:2]:
        stage.wait(2)
        leader = stage.leader(place)
        end = wait_for_end(stage, leader, place)
        killed = {node: stage.begin("kill", node) for node in stage.nodes}
        for node in stage.others(leader):
            stage.end(killed[node])
        for node in stage.others(leader):
            read_records_through(stage, node, place, end)
        stage.end(killed[leader])
        stage.wait_served()


def kill_nodes_repeatedly(stage: Stage) -> None:
    """Kill one to three random nodes, again and again until 4 s before the end of the load."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    while stage.now_s() < stage.options.seconds - 4:
        victims = random.sample(stage.nodes, random.choice((1, 1, 1, 2, 3)))
        each = [stage.begin("kill", node) for node in victims]
        stage.wait(random.uniform(0.05, 1.0))
        for running in each:
            stage.end(running)
        stage.wait(random.uniform(0.2, 2.5))
    stage.wait_served()


def cut_power_amid_elections(stage: Stage) -> None:
    """Cut the power of a voter, which loses its unsynced state, and restart it before the election is over.

    The instant between a vote and its sync is hit by chance; the simulated cluster covers all of them (`skip-vote-sync`
    is its planted bug)."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    for _ in range(5):
        leader = stage.leader()
        killed = stage.begin("kill", leader)
        stage.wait(random.uniform(0.2, 0.8))
        stage.end(stage.begin("power", random.choice(stage.others(leader))))
        stage.wait(random.uniform(0.3, 1.5))
        stage.end(killed)
        stage.wait_served()
        stage.wait(0.5)


def kill_nodes_amid_rolls_and_snapshots(stage: Stage) -> None:
    """Kill random nodes amid segment rolls, compaction, and snapshots of the controller.

    Many requests make the controller's log grow until it is cut behind a snapshot."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    own = OwnTopic(stage, {})
    for number in range(7):
        stage.wait(random.uniform(0, 0.5))
        for order in range(_ORDERS):
            own.set_retention(random.choice(stage.nodes), _RETENTION_MS + number * _ORDERS + order)
        with stage.fault("kill", random.choice(stage.nodes)):
            stage.wait(0.3)
        stage.wait_served()
    for node, path in stage.system.data_dirs().items():
        begins = min(int(segment.stem) for segment in (path / ".raftlog" / "controller").glob("*.log"))
        stage.expect(begins > 0, f"the controller's log of node {node} was cut: it begins at {begins}")


def kill_follower_during_catch_up(stage: Stage) -> None:
    """Stop a follower for 6 s, then kill it repeatedly while it catches up; expect bounded memory at the leader."""
    leader = stage.leader()
    follower = stage.others(leader)[0]
    with stage.fault("kill", follower):
        stage.wait(6)
    before = stage.memory_bytes(leader)
    for _ in range(5):
        stage.wait(1.5)
        with stage.fault("kill", follower):
            stage.wait(0.3)
    grown = stage.memory_bytes(leader) - before
    stage.expect(grown < MEMORY_GROWTH_BYTES_MAX, f"the leader's memory is bounded: it grew by {grown:,} bytes")
    stage.wait_healthy()


def restart_nodes_in_turn(stage: Stage) -> None:
    """Check that a retrying producer and members of a consumer group are not disturbed by a rolling restart."""
    group = "calm"
    own = OwnTopic(stage, {})
    with members(stage, own.place.topic, group, 2), SteadyProducer(stage, own.place.topic) as producer:
        before = find_group(stage, group)
        stage.roll(stage.nodes, 60)
        stage.wait_until(lambda: len(stage.nemesis.happened) == 1, "all were restarted in order", 60)
        stage.wait_until(lambda: find_group(stage, group) is not None, f"{group} is stable")
        after = find_group(stage, group)
    count = sum(happened.proof.count("was ordered to end") for happened in stage.nemesis.happened)
    stage.expect(count == len(stage.nodes), f"each was ordered to end once: {count} times")
    stage.expect(
        before == after, f"{group} is in the same generation, with the same number of members: {before}, {after}"
    )
    stage.expect(
        producer.acknowledged > 0 and not producer.failures,
        f"of {producer.acknowledged} sends none failed: {producer.failures[:3]}",
    )


SCENARIOS: Final = (
    Scenario("F1", "the leader is killed amid idempotent writes", kill_leader_amid_writes, ("kill",), "idempotent"),
    Scenario("F2", "all are killed at once and start in any order", kill_all_and_restart_in_any_order, ("kill",)),
    Scenario(
        "F3",
        "of all that were killed a bare majority starts, and is read at once",
        read_from_restarted_majority,
        ("kill",),
    ),
    Scenario(
        "F4",
        "brokers are killed again and again for long",
        kill_nodes_repeatedly,
        ("kill",),
        nodes=5,
        seconds=40.0,
    ),
    Scenario(
        "F5",
        "voters lose their power amid elections, and are back before these are over",
        cut_power_amid_elections,
        ("kill", "power"),
        seconds=22.0,
    ),
    Scenario(
        "F6",
        "brokers are killed while segments roll and logs are cut behind snapshots",
        kill_nodes_amid_rolls_and_snapshots,
        ("kill",),
        "compaction",
        seconds=25.0,
        rate=600.0,
        serve_flags=("--metadata-growth-bytes-max", "16384"),
    ),
    Scenario(
        "F7",
        "a follower dies again and again while it catches up",
        kill_follower_during_catch_up,
        ("kill",),
        seconds=25.0,
        serve_flags=("--catch-up-bytes-per-s", "4000000"),
    ),
    Scenario(
        "F8",
        "a rolling restart in order, under producers that repeat and members of a group",
        restart_nodes_in_turn,
        ("roll",),
        "idempotent",
        seconds=20.0,
    ),
)
