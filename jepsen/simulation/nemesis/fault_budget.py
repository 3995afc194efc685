"""Damage of the replicas of each Raft group, to keep faults within the fault model.

Lost disks and damaged files affect at most a minority of the voters of every configuration that a replica of the group
still uses, until they are repaired or replaced; crashes, power losses and full disks may affect all of them. Learners
count as well, because they may become voters at any moment.

Damage has ended when the bytes are correct again, or their file is missing, and the replica reports that it is healthy.
"""

from typing import NamedTuple

from jepsen.simulation.cluster import Cluster, GroupPlan
from jepsen.simulation.machine import Machine
from jepsen.simulation.nemesis.file_damage import DiskDamage
from raftlog.raft import Configuration, ReplicaId


class Damage(NamedTuple):
    """Damage: bytes of a replica's file that differ from the written ones."""

    plan: GroupPlan
    machine: Machine
    replica: ReplicaId
    damaged_file: DiskDamage

    def has_ended(self) -> bool:
        """Return whether the replica is repaired, was removed, or has another identity."""
        if self.machine.me != self.replica:
            return True
        group = self.machine.group(self.plan.key)
        if group is None:
            return self.machine.driver is not None and self.replica in self.plan.retired
        if self.damaged_file.is_in(self.machine.disk):
            return False
        return group.damage is None and not group.core.status().is_quarantined and group.core.voting_position is None


class FaultBudget:
    """Record of the damage in a run; it permits further damage only while enough undamaged replicas remain."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.damages: list[Damage] = []
        self.losing_identity: dict[ReplicaId, Machine] = {}
        """Replicas with a damaged journal that no process has opened since then; the next start gives the disk a new
        uuid."""
        cluster.is_damage_expected = self.is_expected

    def open_damages(self) -> list[Damage]:
        """Return the damages that are not repaired yet."""
        self.damages = [damage for damage in self.damages if not damage.has_ended()]
        return self.damages

    def is_expected(self, machine: Machine, plan: GroupPlan) -> bool:
        """Return whether a fault damaged files of this replica.

        Stays true between the repair and the next call of `open_damages`."""
        return any(damage.plan is plan and damage.replica == machine.me for damage in self.damages)

    def may_damage(self, machine: Machine, only: GroupPlan | None = None) -> bool:
        """Return whether the machine's files may be damaged or lost.

        Considers the files of all Raft groups, or only those of the group `only`."""
        plans = self.cluster.groups if only is None else [only]
        return all(
            self._keeps_majority(plan, configuration, machine.me)
            for plan in plans
            for configuration in self.cluster.configurations(plan)
            if configuration.has_member(machine.me)
        )

    def allows(self, plan: GroupPlan, configuration: Configuration) -> bool:
        """Return whether a requested configuration has enough healthy members."""
        return self._keeps_majority(plan, configuration, None)

    def _replicas_losing_identity(self) -> set[ReplicaId]:
        """Return the replicas that lose their disk uuid at the next start. The set has no reproducible order."""
        self.losing_identity = {
            replica: machine
            for replica, machine in self.losing_identity.items()
            if machine.me == replica and machine.driver is None
        }
        return set(self.losing_identity)

    def _keeps_majority(self, plan: GroupPlan, configuration: Configuration, one_more: ReplicaId | None) -> bool:
        """Return whether in each half of the configuration a majority stays undamaged, if `one_more` is damaged too."""
        damaged = {
            damage.replica for damage in self.open_damages() if damage.plan is plan
        } | self._replicas_losing_identity()
        halves = (configuration.voters, configuration.outgoing) if configuration.is_joint else (configuration.voters,)
        for half in halves:
            members = (*half, *(learner for learner in configuration.learners if learner not in half))
            affected = sum(
                member == one_more or member in damaged or self.cluster.machine_of(member) is None for member in members
            )
            if affected > (len(half) - 1) // 2:
                return False
        return True
