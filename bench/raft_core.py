"""Measures of the Raft core alone: three replicas per group in one process, with logs and messages in memory.

Nothing is written or sent: a Ready's entries are durable as soon as they are handed over. The figures are therefore
the cost of the protocol in Python, a bound for everything that is built upon it. Times are CPU times of the process."""

import gc
import statistics
from collections import deque
from random import Random
from time import process_time
from uuid import UUID

from bench.child import run_in_child
from bench.measure import Figure, Measure, Values, Workspace, require
from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft import Configuration, HardState, Proposal, RaftCore, RaftSettings, Ready, ReplicaId, Restart, Role
from raftlog.types import Index, NodeId, Term

MEMBERS = tuple(ReplicaId(NodeId(number), UUID(int=number)) for number in (1, 2, 3))
HERE = MEMBERS[0]
TICK_MS = 50
"""Milliseconds of a tick: the driver's default."""
GROUPS_ACTIVE = 5_000
GROUPS_QUIESCED = 1_000
PROPOSALS_PER_READY = 64
PAYLOAD = bytes(100)
_ROUNDS = 3_000
_TICKS = 40


class Group:
    """Raft group of three replicas with a minimal driver."""

    def __init__(self, seed: int, settings: RaftSettings) -> None:
        restart = Restart(HardState(Term(0), None), (Configuration(Index(0), MEMBERS),))
        self.logs = {me: MemoryLog() for me in MEMBERS}
        self.cores = {
            me: RaftCore(me, settings, Random(f"{seed}/{me.node_id}"), log, restart) for me, log in self.logs.items()
        }

    def process_all_readys(self) -> None:
        """Process Readys, one of each replica in turn, until there are none."""
        dirty = deque(self.cores)
        while dirty:
            me = dirty.popleft()
            ready = self.cores[me].ready()
            if ready is None:
                continue
            self.process_ready(me, ready)
            dirty.append(me)
            for message in ready.messages_now + ready.messages_once_durable:
                if message.to in self.cores and message.to not in dirty:
                    dirty.append(message.to)

    def process_ready(self, me: ReplicaId, ready: Ready) -> None:
        """Process a Ready as a driver does; messages to stopped replicas are lost."""
        log, cores = self.logs[me], self.cores
        if ready.cut_to is not None:
            log.cut_to(ready.cut_to)
        log.append(ready.entries)
        cores[me].advance(durable=ready.number, applied=ready.apply.last if ready.apply else None)
        for message in ready.messages_now + ready.messages_once_durable:
            core = cores.get(message.to)
            if core is not None:
                core.step(message)

    def elect(self, me: ReplicaId) -> RaftCore:
        """Let the replica `me` campaign, and return its core, which must be the leader then."""
        core = self.cores[me]
        core.campaign()
        self.process_all_readys()
        require(core.role is Role.LEADER, f"{me} was not elected: {core.status()}")
        return core

    def quiesce(self) -> None:
        """Mark all processes as alive, and tick until all replicas have quiesced."""
        for me, core in self.cores.items():
            for other in MEMBERS:
                if other != me:
                    core.note_process(other.node_id, True)
        for _ in range(100):
            if all(core.is_quiesced for core in self.cores.values()):
                return
            for core in self.cores.values():
                core.tick()
            self.process_all_readys()
        require(False, "a group did not quiesce")

    def has_working_leader(self) -> bool:
        return any(core.has_own_term_commit for core in self.cores.values())


def measure_commits(per_ready: int, rounds: int) -> dict[str, float]:
    """Measure commits that all three replicas apply; in a child process."""
    group = Group(0, RaftSettings())
    leader = group.elect(HERE)
    before = leader.committed_index
    proposals = [Proposal(PAYLOAD, len(PAYLOAD))] * per_ready
    begin = process_time()
    for _ in range(rounds):
        leader.propose(proposals)
        group.process_all_readys()
    elapsed = process_time() - begin
    applied = min(core.status().applied_index for core in group.cores.values())
    return {"entries_per_s": per_ready * rounds / elapsed, "applied": applied - before, "proposed": per_ready * rounds}


def measure_ticks(groups: int, led_here: bool) -> dict[str, float]:
    """Measure ticks of `groups` active replicas of one process, and their Readys; in a child process.

    The work of the other two replicas of each Raft group is not measured."""
    everyone = [Group(number, RaftSettings()) for number in range(groups)]
    for group in everyone:
        group.elect(HERE if led_here else MEMBERS[1])
    pairs = [(group, group.cores[HERE]) for group in everyone]
    gc.collect()
    gc.freeze()
    times, heartbeats = [], 0
    for _ in range(_TICKS):
        begin = process_time()
        readys = [(group, ready) for group, core in pairs if core.tick() and (ready := core.ready())]
        times.append((process_time() - begin) * 1000)
        for group, ready in readys:
            heartbeats += len(ready.messages_now)
            group.process_ready(HERE, ready)
        for group in everyone:
            for me in MEMBERS[1:]:
                group.cores[me].tick()
            group.process_all_readys()
    led = sum(core.role is Role.LEADER for _, core in pairs)
    return {"median_ms": statistics.median(times), "worst_ms": max(times), "led": led, "messages": heartbeats}


def measure_wake(groups: int) -> dict[str, float]:
    """Crash the leader of quiesced Raft groups, and wait until each has a new leader; in a child process."""
    everyone = [Group(number, RaftSettings(quiesce_after_ticks=2)) for number in range(groups)]
    for group in everyone:
        group.elect(HERE)
        group.quiesce()
    gc.collect()
    ticks, begin = 0, process_time()
    for group in everyone:
        del group.cores[HERE]
        for core in group.cores.values():
            core.note_process(HERE.node_id, False)
    waiting = everyone
    while waiting:
        ticks += 1
        for group in waiting:
            for core in group.cores.values():
                core.tick()
            group.process_all_readys()
        waiting = [group for group in waiting if not group.has_working_leader()]
    return {"virtual_s": ticks * TICK_MS / 1000, "real_s": process_time() - begin, "ticks": ticks}


def run_commit(workspace: Workspace) -> Values:
    alone = run_in_child(measure_commits, per_ready=1, rounds=_ROUNDS)
    done = run_in_child(measure_commits, per_ready=PROPOSALS_PER_READY, rounds=_ROUNDS)
    for values in (alone, done):
        require(values["applied"] == values["proposed"], f"{values['proposed']} proposed, {values['applied']} applied")
    return {**done, "single_per_s": alone["entries_per_s"]}


def run_tick(workspace: Workspace) -> Values:
    leaders = run_in_child(measure_ticks, groups=GROUPS_ACTIVE, led_here=True)
    followers = run_in_child(measure_ticks, groups=GROUPS_ACTIVE, led_here=False)
    require(leaders["led"] == GROUPS_ACTIVE, f"{leaders['led']} of {GROUPS_ACTIVE} groups are led here")
    require(followers["led"] == 0, f"{followers['led']} groups are led here")
    expected = 2 * GROUPS_ACTIVE * _TICKS // RaftSettings().heartbeat_ticks
    require(leaders["messages"] >= expected * 0.9, f"{leaders['messages']} heartbeats, expected about {expected}")
    return {**leaders, "followers_ms": followers["median_ms"]}


def run_wake(workspace: Workspace) -> Values:
    return run_in_child(measure_wake, groups=GROUPS_QUIESCED)


MEASURES = (
    Measure(
        "raft-commit",
        "Raft core: three nodes in one process",
        f"Three cores with logs in memory; the leader takes {PROPOSALS_PER_READY} proposals of {len(PAYLOAD)} bytes, "
        f"all Readys are done until none is left, {_ROUNDS:,} times. An entry counts when all three applied it.",
        (
            Figure(
                "entries_per_s", f"committed, {PROPOSALS_PER_READY} proposals per Ready", "entries/s", at_least=50_000
            ),
            Figure("single_per_s", "… one proposal per Ready", "entries/s"),
        ),
        run_commit,
    ),
    Measure(
        "raft-tick",
        f"Raft core: one tick of {GROUPS_ACTIVE:,} active groups",
        f"The replicas of one process, each the leader of a group of three; the median of {_TICKS} ticks, each with "
        "the Readys that follow from it (a third of the groups send their heartbeats). The other replicas run outside "
        "of the time, and the heartbeats are counted.",
        (
            Figure("median_ms", "all are leaders with 2 followers", "ms", at_most=15),
            Figure("worst_ms", "… worst tick (CheckQuorum of all groups at once)", "ms"),
            Figure("followers_ms", "all are followers", "ms"),
        ),
        run_tick,
    ),
    Measure(
        "raft-wake",
        f"Raft core: {GROUPS_QUIESCED:,} quiesced Raft groups lose their leader",
        "All groups of three are quiesced; the process that leads all of them crashes, and the two others detect it at "
        "once. "
        f"Counted are the ticks of {TICK_MS} ms until the last group has a leader that committed in its own term, and "
        "the CPU time of both processes for it.",
        (
            Figure("virtual_s", "virtual time until all have a leader", "s", at_most=2),
            Figure("real_s", "CPU time for it", "s", at_most=1),
        ),
        run_wake,
    ),
)
