"""Paused processes and wrong clocks: F29 to F32."""

from typing import Final

from jepsen.runner.stage import Stage
from jepsen.scenarios.broker_requests import OwnTopic, read_bounds
from jepsen.scenarios.expectations import WriteGapBound
from jepsen.scenarios.scenario import Scenario

ELECTION_S_MAX: Final = 0.63
JUMP_S: Final = 60.0
RETENTION_MS: Final = "300000"
"""Retention in milliseconds; longer than clocks jump, so no record becomes too old."""
STALL_S: Final = 5.0
_RECORDS: Final = 20
_RECORD_BYTES: Final = 2_000


def pause_leader_until_replaced(stage: Stage) -> None:
    """Pause a leader until it is replaced, and check its first answers as operations on a register."""
    for number in range(4):
        place = stage.places[number % len(stage.places)]
        leader = stage.leader(place)
        with stage.fault("pause", leader):
            stage.wait(3 * ELECTION_S_MAX)
            stage.leader(place, other_than=[leader])
        stage.wait(1.2)


def pause_all_but_one(stage: Stage) -> None:
    """Pause all nodes but the leader, and then all but a follower, one after another."""
    for awake in (stage.leader(), stage.others(stage.leader())[0]):
        stage.wait(1.5)
        asleep = []
        for node in stage.others(awake):
            asleep.append(stage.begin("pause", node))
            stage.wait(0.3)
        stage.wait(2)
        for running in asleep:
            stage.end(running)
            stage.wait(0.7)
        stage.wait_served()


def jump_clocks(stage: Stage) -> None:
    """Jump clocks by less than the retention: closed segments of a topic with retention stay."""
    fresh = OwnTopic(stage, {"retention.ms": RETENTION_MS, "segment.bytes": "16384"})
    stage.wait_until(
        lambda: all(fresh.write(stage.nodes[0], _RECORDS, _RECORD_BYTES)[0] == 200 for _ in range(3)),
        "segments are closed",
    )
    leader = stage.leader()
    others = stage.others(leader)
    with stage.fault("clock", leader, shape="jump", amount=JUMP_S):
        stage.wait(3)
    with stage.fault("clock", leader, shape="jump", amount=-JUMP_S):
        stage.wait(3)
    with stage.fault("clock", *others, shape="jump", amount=JUMP_S):
        stage.wait(2)
    with stage.fault("clock", *stage.nodes, shape="strobe", amount=JUMP_S):
        stage.wait(3)
    with stage.fault("clock", *stage.nodes, shape="drift", amount=1.5):
        stage.wait(3)
    for node in stage.nodes:
        bounds = read_bounds(stage, node, fresh.place)
        stage.expect(
            bounds is not None and bounds[0] == 0 and bounds[1] >= 3 * _RECORDS,
            f"node {node} has all fresh records: {bounds}",
        )


def stall_event_loops(stage: Stage) -> None:
    """Stall the leader's event loop until another node leads, then that of a follower."""
    leader = stage.leader()
    with stage.fault("stall", leader, amount=STALL_S):
        stage.leader(other_than=[leader])
        stage.wait(STALL_S + 1)
    follower = stage.others(stage.leader())[0]
    with stage.fault("stall", follower, amount=STALL_S):
        stage.wait(STALL_S + 1)


SCENARIOS: Final = (
    Scenario(
        "F29",
        "a leader sleeps for three election timeouts",
        pause_leader_until_replaced,
        ("pause",),
        "register",
        seconds=16.0,
    ),
    Scenario("F30", "all but one sleep, and wake one after another", pause_all_but_one, ("pause",), seconds=18.0),
    Scenario(
        "F31",
        "clocks jump by a minute, to and fro, and drift",
        jump_clocks,
        ("clock",),
        "idempotent",
        seconds=20.0,
        serve_flags=("--retention-interval-s", "0.5"),
        expects=(WriteGapBound(3.0),),
    ),
    Scenario(
        "F32",
        "the event loop stands still for 5 s",
        stall_event_loops,
        ("stall",),
        seconds=15.0,
        expects=(WriteGapBound(3.0),),
    ),
)
