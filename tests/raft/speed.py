"""How fast the core is: `python -m tests.raft.speed`. Three cores in one process, logs in memory; ticks of many groups.

Everything is durable as soon as it is handed over, and messages are passed by reference: it is the core that is timed.
"""

import gc
import statistics
from collections import deque
from random import Random
from time import process_time

from raftlog.raft.configuration import ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import Proposal
from raftlog.raft.memory_log import MemoryLog
from raftlog.raft.ready import HardState, Ready, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.types import NodeId, Term
from tests.raft.cluster import configuration, replica_id

MEMBERS = tuple(replica_id(number) for number in (1, 2, 3))


class _Group:
    """Three replicas, driven as plainly as can be."""

    def __init__(self, seed: int, settings: RaftSettings) -> None:
        restart = Restart(HardState(Term(0), None), (configuration([1, 2, 3]),))
        self.logs = {me: MemoryLog() for me in MEMBERS}
        self.cores = {
            me: RaftCore(me, settings, Random(f"{seed}/{me.node_id}"), log, restart) for me, log in self.logs.items()
        }

    def work(self) -> None:
        """Until nothing is left to do; one Ready of one replica at a time, in turn."""
        dirty = deque(self.cores)
        while dirty:
            me = dirty.popleft()
            ready = self.cores[me].ready()
            if ready is None:
                continue
            self.do(me, ready)
            dirty.append(me)
            for to in {message.to: None for message in ready.messages_now + ready.messages_once_durable}:
                if to not in dirty:
                    dirty.append(to)

    def do(self, me: ReplicaId, ready: Ready) -> None:
        log, cores = self.logs[me], self.cores
        if ready.cut_to is not None:
            log.cut_to(ready.cut_to)
        log.append(ready.entries)
        cores[me].advance(durable=ready.number, applied=ready.apply.last if ready.apply else None)
        for message in ready.messages_now + ready.messages_once_durable:
            cores[message.to].step(message)

    def elect(self, number: int) -> RaftCore:
        core = self.cores[replica_id(number)]
        core.campaign()
        self.work()
        assert core.role is Role.LEADER, core.status()
        return core


def entries_per_second(per_ready: int, rounds: int) -> float:
    """Entries committed and applied everywhere, proposed `per_ready` at a time."""
    group = _Group(0, RaftSettings())
    leader = group.elect(1)
    proposals = [Proposal(b"x" * 100, 100)] * per_ready
    started = process_time()
    for _ in range(rounds):
        leader.propose(proposals)
        group.work()
    elapsed = process_time() - started
    assert leader.committed_index >= per_ready * rounds, leader.status()
    return per_ready * rounds / elapsed


def tick_ms(groups: int, share_led: float) -> tuple[float, float]:
    """One tick of so many awake replicas of one process, with the Readys of those that have something to say.

    Median and worst of 40 ticks in ms. The other two processes of the groups run outside of the time taken.
    """
    everyone = [_Group(number, RaftSettings()) for number in range(groups)]
    for number, group in enumerate(everyone):
        group.elect(1 if number < share_led * groups else 2)
    mine = [group.cores[MEMBERS[0]] for group in everyone]
    gc.collect()
    gc.freeze()
    times = []
    for _ in range(40):
        started = process_time()
        said = [
            (group, ready)
            for group, core in zip(everyone, mine, strict=True)
            if core.tick() and (ready := core.ready())
        ]
        times.append((process_time() - started) * 1000)
        for group, ready in said:
            group.do(MEMBERS[0], ready)
        for group in everyone:
            for me in MEMBERS[1:]:
                group.cores[me].tick()
            group.work()
    gc.unfreeze()
    return statistics.median(times), max(times)


def wake_seconds(groups: int) -> tuple[int, float]:
    """Sleeping groups whose leader's process dies: ticks and seconds until every one of them has a new leader."""
    everyone = [_Group(number, RaftSettings(sleep_after_ticks=2)) for number in range(groups)]
    for group in everyone:
        group.elect(1)
        for me, core in group.cores.items():
            for other in MEMBERS:
                if other != me:
                    core.hear_from_process(other.node_id, True)
        while not all(core.is_asleep for core in group.cores.values()):
            for core in group.cores.values():
                core.tick()
            group.work()
    ticks, started = 0, process_time()
    for group in everyone:
        del group.cores[MEMBERS[0]]
        group.cores = _Dead(group.cores)
        for core in list(group.cores.values()):
            core.hear_from_process(NodeId(1), False)
    waiting = everyone
    while waiting:
        ticks += 1
        for group in waiting:
            for core in list(group.cores.values()):
                core.tick()
            group.work()
        waiting = [group for group in waiting if not any(core.has_own_term_commit for core in group.cores.values())]
    return ticks, process_time() - started


class _Dead(dict[ReplicaId, RaftCore]):
    """Cores of which one is gone: what is sent there is lost."""

    def __missing__(self, me: ReplicaId) -> RaftCore:
        return _NOBODY


class _Nobody(RaftCore):
    def __init__(self) -> None:
        pass

    def step(self, message: object) -> None:
        pass

    def ready(self) -> None:
        return None


_NOBODY = _Nobody()


def main() -> None:
    """Print the figures."""
    for per_ready in (1, 64):
        rates = [entries_per_second(per_ready, 64_000 // per_ready // (8 if per_ready == 1 else 1)) for _ in range(3)]
        print(f"3 nodes, {per_ready:3} proposals per ready: {statistics.median(rates):10,.0f} entries/s")
    for share in (0.0, 1 / 3, 1.0):
        median, worst = tick_ms(5000, share)
        print(f"one tick of 5,000 awake groups, {share:4.0%} led here: median {median:5.1f} ms, worst {worst:5.1f} ms")
    ticks, seconds = wake_seconds(1000)
    print(f"1,000 sleeping groups lose their leader's process: new leaders after {ticks} ticks, {seconds:.2f} s of CPU")


if __name__ == "__main__":
    main()
