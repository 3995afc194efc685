"""Scripts that open the windows in which planted bugs do harm, on real brokers that have them. Correct brokers survive
each of them, and are played under it too.

Roles are those in the first partition: its leader, the follower that is near it, and the one that is away.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from jepsen import damage
from jepsen.nemeses.fault import FaultKind
from jepsen.nemeses.nemesis import Running
from jepsen.nemeses.ways import SHAPES, all_ways
from jepsen.runner.stage import Script, Stage
from raftlog.types import TopicPartition

SLOW_S: Final = 3.0
"""Of syncs: longer than the moments of which a script makes use."""
ACKNOWLEDGED_S: Final = 1.8
ELECTED_S_MAX: Final = 12.0
FLIPS: Final = 60
SOON_S: Final = 3.0
HEALED_S_MAX: Final = 15.0
LOOK_S: Final = 0.02


def one_forgets(
    kind: FaultKind,
    *,
    shape: str = "",
    files: Sequence[str] = (),
    leads: bool = False,
    before: FaultKind | None = None,
    slow_s: float = SLOW_S,
    times: int = 1,
) -> Script:
    """Of two that acknowledge records, one forgets; then it has to do with the third, which never had them, without the
    other one. `before`: slow syncs, or a full disk, of that one while records are acknowledged."""

    def play(stage: Stage) -> None:
        for _ in range(times):
            copied = _copied(stage) if shape == "stale" else None
            leader = stage.leader()
            victim = copied.fault.nodes[0] if copied else leader if leads else stage.others(leader)[0]
            witness = stage.others(victim)[0] if leader == victim else leader
            (away,) = stage.others(victim, witness)
            asleep = stage.begin("pause", away)
            hindered = _hindered(stage, before, victim, slow_s)
            stage.wait(ACKNOWLEDGED_S)
            if before == "full" and hindered is not None:
                stage.end(hindered)
                stage.wait(0.5)
            off = copied or stage.begin(kind, victim, shape=shape, files=files)
            if shape == "flip":
                _flip_more(stage, victim, files)
            silent = stage.begin("pause", witness)
            if before == "sync" and hindered is not None:
                stage.end(hindered)
            stage.end(asleep)
            stage.end(off)
            if elected(stage, [victim, away], ELECTED_S_MAX) is not None:
                stage.wait(1.5)
            stage.end(silent)
            if not healed(stage):
                return

    return play


def _flip_more(stage: Stage, victim: int, files: Sequence[str]) -> None:
    """So many that some are in records that clients sent."""
    random = Random(stage.options.seed)  # noqa: S311 - repeatable, not secret
    stage.say(damage.flip_bits(stage.system.data_dirs()[victim], random, FLIPS, only=files))


def _copied(stage: Stage) -> Running:
    """A follower, of whose disk a copy was made."""
    copied = stage.begin("damage", stage.others(stage.leader())[0], shape="stale")
    stage.wait_served()
    stage.wait(1)
    return copied


def _hindered(stage: Stage, kind: FaultKind | None, victim: int, slow_s: float) -> Running | None:
    if kind == "sync":
        return stage.begin("sync", victim, shape="slow", amount=slow_s)
    return stage.begin("full", victim) if kind == "full" else None


def voter_forgets(stage: Stage) -> None:
    """A leader hands over and does not hear of it; who votes for the new one loses its power before the vote can be
    durable. The old leader then asks it for the same term, while the new one hears nobody."""
    place = stage.places[0]
    hand_over = f"/v1/partitions/kafka/{place.topic}/{place.partition}/transfer_leadership?timeout=300&target="
    for _ in range(3):
        old = stage.leader()
        voter, new = stage.others(old)
        slow = stage.begin("sync", voter, shape="slow", amount=SLOW_S)
        weather = stage.begin("weather", *stage.nodes, shape="delay", ways=all_ways(stage.nodes))
        stage.ask(old, f"{hand_over}{new}", "POST", timeout_s=0.3)
        deaf = stage.begin("cut", old, shape="deaf", ways=SHAPES["deaf"]([old, voter, new]))
        elected(stage, [new], SOON_S / 2)
        stage.wait(0.3)
        alone = stage.begin("cut", new, shape="isolated", ways=SHAPES["isolated"]([new, old, voter]))
        off = stage.begin("power", voter)
        for running in (slow, weather, off, deaf):
            stage.end(running)
        stage.wait(3.5)
        with stage.fault("kill", new):
            stage.end(alone)
        if not healed(stage):
            return


def healed(stage: Stage) -> bool:
    """What does not heal any more has been hurt enough."""
    stage.wait_healthy(HEALED_S_MAX)
    return not stage.findings


def elected(stage: Stage, nodes: Sequence[int], seconds: float, place: TopicPartition | None = None) -> int | None:
    """Who of these says first of itself that it leads; None when nobody does in time."""
    wanted = place or stage.places[0]
    until_s = stage.now_s() + seconds
    while stage.now_s() < until_s:
        for node in nodes:
            status, told = stage.ask(node, f"/topics/{wanted.topic}/partitions/{wanted.partition}", timeout_s=0.3)
            if status == 200 and told.get("leader") == node:
                return node
        stage.wait(LOOK_S)
    return None


def new_leader_is_alone(stage: Stage) -> None:
    """Answers take a while, so that a new leader has committed nothing when it is cut off; and it never comes back with
    what it has taken."""
    for _ in range(2):
        old = stage.leader()
        with stage.fault("weather", *stage.nodes, shape="delay", ways=all_ways(stage.nodes)):
            dead = stage.begin("kill", old)
            new = elected(stage, stage.others(old), 2 * SOON_S) or stage.others(old)[0]
            cut = stage.begin("cut", new, shape="isolated", ways=SHAPES["isolated"]([new, *stage.others(new)]))
            stage.wait(1.2)
            killed = stage.begin("kill", new)
        stage.end(cut)
        stage.end(dead)
        stage.leader(other_than=[new])
        stage.wait(2)
        stage.end(killed)
        if not healed(stage):
            return


def leader_wakes_alone(stage: Stage) -> None:
    """It has slept for so long that there is another one, and wakes up where it hears of nothing."""
    for _ in range(3):
        leader = stage.leader()
        ways = SHAPES["isolated"]([leader, *stage.others(leader)])
        with stage.fault("cut", leader, shape="isolated", ways=ways):
            with stage.fault("pause", leader):
                stage.wait(2)
            stage.wait(1)
        stage.wait(1)


def follower_comes_back(stage: Stage) -> None:
    """Amid what the leader sends."""
    for _ in range(3):
        with stage.fault("kill", stage.others(stage.leader())[0]):
            stage.wait(1)
        stage.wait_served()
        stage.wait(1)


def candidates_at_once(stage: Stage) -> None:
    """Messages are slow, so that several are candidates in the same term."""
    for _ in range(3):
        victim, ways = stage.leader(), all_ways(stage.nodes)
        with stage.fault("weather", *stage.nodes, shape="slow", ways=ways), stage.fault("kill", victim):
            stage.wait(4)
        stage.wait_served()
        stage.wait(1)


def nothing_happens(stage: Stage) -> None:
    """Compaction goes on by itself."""
    stage.play_to_the_end()
