"""End of a run: all faults end, and the cluster must recover within a bound.

In this order, each a property of its own: every Raft group accepts a write; damaged replicas are detected, repaired and
healthy again; the operators reach the Raft configurations that they want; all members have the same log, applied to its
end. Then every replica is read from its start to its end, the files of all replicas are compared byte
by byte, and the history is checked as a whole.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from jepsen.checkers import Assign, Poll
from jepsen.checkers.history import ASSIGN, POLL
from jepsen.simulation.cluster import Cluster, GroupPlan
from jepsen.simulation.machine import Machine
from jepsen.simulation.nemesis.nemesis import Nemesis
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.replicas import are_equal, compare_files, scrub
from jepsen.simulation.verdicts import PropertyBroken
from jepsen.simulation.workload import TIMEOUTS_MS, Workload, decode
from raftlog.raft import Configuration
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.types import Index, Offset

LOOK_S: Final = 0.2
"""Interval, in seconds, between checks of the slow conditions."""
WRITES_S: Final = 3.0
"""Time, in seconds, that clients continue to write once every group accepted a write."""
DRAIN_BYTES: Final = 1 << 16


class Convergence:
    """Final phase of a run: recovery within a bound, then comparison of the replicas."""

    def __init__(self, cluster: Cluster, workload: Workload, nemesis: Nemesis) -> None:
        self.cluster, self.workload, self.nemesis = cluster, workload, nemesis
        self.loop = cluster.loop

    def check(self) -> None:
        """End all faults, wait for recovery, and compare replicas. Raises `PropertyBroken`."""
        bound_s = self.cluster.options.convergence_s
        self.nemesis.end()
        healed_ns = self.loop.now_ns
        self._wait_for_none(
            self.cluster.options.progress_s, "no-progress", lambda: self._groups_without_writes(healed_ns)
        )
        self.loop.run_for(WRITES_S)
        self.workload.stop_producers()
        self._read_damaged_files()
        self._wait_for_none(bound_s, "no-repair", self._unrepaired_damages)
        self._wait_for_none(bound_s, "members-not-reached", self._pending_operators)
        self._wait_for_none(bound_s, "no-convergence", self._differing_groups)
        self.workload.stop()
        self.loop.run_for(TIMEOUTS_MS[-1] / 1000 + 0.1)  # open requests find their deadline
        self._wait_for_none(bound_s, "no-convergence", self._differing_groups)  # a leader may have changed meanwhile
        self._drain()
        for plan in self.cluster.groups:
            replicas = {machine.name: (machine.disk, group) for machine, group in self._members(plan)}
            compare_files(plan.partition, replicas)
        verdict = self.cluster.checker.finish()
        if not verdict.is_clean():
            first = verdict.anomalies[0]
            raise PropertyBroken(first.kind, {"verdict": str(verdict)})

    def _wait_for_none(self, bound_s: float, name: str, missing: Callable[[], list[str]]) -> None:
        """Wait until `missing` returns an empty list; raise `PropertyBroken` of this name after `bound_s` seconds."""
        deadline_ns = self.loop.now_ns + int(bound_s * SECOND_NS)
        while wanted := missing():
            if self.loop.now_ns >= deadline_ns:
                raise PropertyBroken(
                    name, {"bound_s": bound_s, "missing": "; ".join(wanted), "cluster": self._describe_replicas()}
                )
            self.loop.run_for(LOOK_S)

    def _groups_without_writes(self, since_ns: int) -> list[str]:
        """Return a text for each Raft group that has acknowledged no write since `since_ns`."""
        return [
            f"{plan.partition} took no write"
            for plan in self.cluster.groups
            if all(producer.acknowledged_ns <= since_ns for producer in self.workload.producers[plan.number])
        ]

    def _read_damaged_files(self) -> None:
        """Read every file that may be damaged, as a scrub does."""
        for damage in self.nemesis.fault_budget.open_damages():
            damage.machine.call(partial(_scrub, damage.plan))

    def _unrepaired_damages(self) -> list[str]:
        """Return the damaged files that are not repaired yet, as text."""
        return [str(damage.damaged_file) for damage in self.nemesis.fault_budget.open_damages()]

    def _pending_operators(self) -> list[str]:
        """Return the partitions whose operator has not reached its target yet."""
        return [str(operator.plan.partition) for operator in self.nemesis.operators if not operator.is_done()]

    def _differing_groups(self) -> list[str]:
        """Return the partitions whose replicas are not yet equal."""
        return [str(plan.partition) for plan in self.cluster.groups if not self._is_same_everywhere(plan)]

    def _is_same_everywhere(self, plan: GroupPlan) -> bool:
        """Return whether the replicas of all members equal the leader's; false without a leader."""
        found = self.cluster.leader(plan)
        if found is None:
            return False
        leader = found[1]
        members = [group for _, group in self._members(plan)]
        return len(members) == len(leader.core.configuration.all_members()) and are_equal(leader, members)

    def _members(self, plan: GroupPlan) -> list[tuple[Machine, PartitionReplica]]:
        """Return the members of the newest Raft configuration of any replica, with their machines."""
        replicas = self.cluster.replicas(plan)
        held = max((group.core.configuration for _, group in replicas), default=Configuration(Index(0), ()))
        return [(machine, group) for machine, group in replicas if held.has_member(machine.me)]

    def _drain(self) -> None:
        """Read all records from every replica, as clients."""
        for plan in self.cluster.groups:
            for machine, group in self._members(plan):
                self._drain_replica(plan, machine, group)

    def _drain_replica(self, plan: GroupPlan, machine: Machine, group: PartitionReplica) -> None:
        """Read all records of a replica, and record this as a new client's reads.

        Raises `PropertyBroken` if a read returns no record below the high watermark."""
        recorder, process = self.cluster.recorder, self.cluster.new_process()
        offset = group.log_start_offset
        recorder.ok(recorder.invoke(process, ASSIGN, Assign(((plan.partition, offset),))))
        while offset < group.high_watermark:
            op = recorder.invoke(process, POLL, Poll())
            fetched = decode(plan, group.read(offset, DRAIN_BYTES), offset)
            recorder.ok(op, Poll((fetched,) if fetched.offsets else ()))
            if not fetched.offsets:
                numbers = {"replica": str(machine), "offset": offset, "high_watermark": group.high_watermark}
                raise PropertyBroken("unreadable", numbers)
            offset = Offset(fetched.offsets[-1] + 1)

    def _describe_replicas(self) -> str:
        """Return a description of every replica, one a line."""
        lines = []
        for plan in self.cluster.groups:
            for machine, group in self.cluster.replicas(plan):
                lines.append(f"\n    {plan.partition} {machine.name} {describe(group)}")
        down = [machine.name for machine in self.cluster.machines.values() if machine.driver is None]
        return "".join(lines) + (f"\n    down: {', '.join(down)}" if down else "")


def describe(group: PartitionReplica) -> str:
    """Return a readable description of one replica."""
    status = group.core.status()
    members = status.configuration
    voters = ",".join(map(str, members.voters))
    others = "".join(
        f" {name}={','.join(map(str, ids))}"
        for name, ids in (("outgoing", members.outgoing), ("learners", members.learners))
        if ids
    )
    marks = "".join(
        f", {word}" for word, holds in (("asleep", status.is_quiesced), ("quarantined", status.is_quarantined)) if holds
    )
    return (
        f"{status.me}: {status.role.value} of term {status.term}, leader {status.leader}, last {status.last}, "
        f"durable {status.durable_index}, committed {status.committed_index}, applied {group.applied_index}, "
        f"boundary {group.log.boundary}, voters {voters}{others} (entry {members.index}){marks}"
        f"{f', damage: {group.damage}' if group.damage else ''}"
    )


def _scrub(plan: GroupPlan, driver: Driver) -> None:
    """Read all files of the group's replica in the driver's process."""
    scrub(driver.groups.get(plan.key))
