"""Scripts of faults under which planted bugs take effect, for real brokers with such bugs.

Correct brokers survive each of the scripts, and are tested under them too. Leaders and followers are those of the first
partition."""

from collections.abc import Sequence
from typing import Final

from jepsen.nemeses.fault import FaultKind
from jepsen.nemeses.nemesis import Running
from jepsen.nemeses.network_faults import SHAPES, all_links
from jepsen.runner.stage import Script, Stage

SLOW_S: Final = 3.0
"""Delay of syncs, in seconds; longer than the moments that a script uses."""
ACKNOWLEDGED_S: Final = 1.8
ELECTED_S_MAX: Final = 12.0
SOON_S: Final = 3.0
HEALED_S_MAX: Final = 20.0
LOOK_S: Final = 0.02


def lose_data_of_one(
    kind: FaultKind,
    *,
    shape: str = "",
    slow_syncs: bool = False,
) -> Script:
    """Return a script in which one of two acknowledging nodes loses data.

    Afterwards this node reaches only the third node, which never had the records. With `slow_syncs` its syncs are
    slow while records are acknowledged."""

    def play(stage: Stage) -> None:
        """Run the script on the stage's brokers."""
        copied = _copy_follower_disk(stage) if shape == "stale" else None
        leader = stage.leader()
        victim = copied.fault.nodes[0] if copied else stage.others(leader)[0]
        witness = stage.others(victim)[0] if leader == victim else leader
        (away,) = stage.others(victim, witness)
        killed_follower = stage.begin("kill", away)  # a paused one would receive the records when it resumes
        slow = stage.begin("sync", victim, shape="slow", amount=SLOW_S) if slow_syncs else None
        stage.wait(ACKNOWLEDGED_S)
        off = copied or stage.begin(kind, victim, shape=shape)
        silent = stage.begin("pause", witness)
        if slow is not None:
            stage.end(slow)
        elections = Elections(stage)
        stage.end(killed_follower)
        stage.end(off)
        if elections.wait_for_first([victim, away], ELECTED_S_MAX) is not None:
            stage.wait(1.5)
        stage.end(silent)
        stage.wait_healthy(HEALED_S_MAX)

    return play


def _copy_follower_disk(stage: Stage) -> Running:
    """Begin the fault that copies a follower's disk and restores the copy at the fault's end; return the fault."""
    copied = stage.begin("damage", stage.others(stage.leader())[0], shape="stale")
    stage.wait_served()
    stage.wait(1)
    return copied


class Elections:
    """Monitor that finds, in the nodes' logs, new elections won in the first partition.

    To read the logs is quicker than a query for the leader, which takes half a second while other nodes are stopped."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._before = {node: self._count(node) for node in stage.nodes}

    def _count(self, node: int) -> int:
        """Return how many elections of the first partition the node's log reports as won."""
        group = f'"group": "{self._stage.places[0]}"'
        lines = self._stage.brokers.nodes[node].log_text().splitlines()
        return sum('"leader_elected"' in line and group in line for line in lines)

    def wait_for_first(self, nodes: Sequence[int], seconds: float) -> int | None:
        """Return the first of these nodes that was elected; None when none is elected in time."""
        until_s = self._stage.now_s() + seconds
        while self._stage.now_s() < until_s:
            for node in nodes:
                if self._count(node) > self._before[node]:
                    return node
            self._stage.wait(LOOK_S)
        return None


def isolate_new_leader(stage: Stage) -> None:
    """Isolate a new leader before it has committed anything, and kill it before the isolation ends.

    Messages are delayed, so that the isolation can begin in time. The killed leader returns only after another one
    is elected."""
    for _ in range(2):
        old = stage.leader()
        delay = stage.begin("packet", *stage.nodes, shape="delay", links=all_links(stage.nodes))
        elections = Elections(stage)
        dead = stage.begin("kill", old)
        new = elections.wait_for_first(stage.others(old), 2 * SOON_S) or stage.others(old)[0]
        cut = stage.begin("cut", new, shape="isolated", links=SHAPES["isolated"]([new, *stage.others(new)]))
        stage.end(delay)
        stage.wait(1.2)
        killed = stage.begin("kill", new)
        stage.end(cut)
        stage.end(dead)
        stage.leader(other_than=[new])
        stage.wait(2)
        stage.end(killed)
        stage.wait_served()
        stage.wait_healthy(HEALED_S_MAX)
        if stage.findings:
            return  # what does not heal has been hurt enough


def resume_leader_in_isolation(stage: Stage) -> None:
    """Pause a leader until another one is elected, and resume it isolated from the others."""
    for _ in range(2):
        leader = stage.leader()
        links = SHAPES["isolated"]([leader, *stage.others(leader)])
        with stage.fault("cut", leader, shape="isolated", links=links):
            with stage.fault("pause", leader):
                stage.wait(2)
            stage.wait(1)
        stage.wait(1)


def restart_follower_amid_writes(stage: Stage) -> None:
    """Kill and restart a follower while the leader sends entries to it."""
    for _ in range(3):
        with stage.fault("kill", stage.others(stage.leader())[0]):
            stage.wait(1)
        stage.wait_served()
        stage.wait(1)
