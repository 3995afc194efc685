"""Damage of the replicas of each Raft group, to keep faults within the fault model.

    lost disks and damaged files of a group ≤ a minority of the voters, in every configuration in use

Crashes, power losses, full and slow disks may affect all replicas. A member is healthy when its machine runs on the
disk that the Raft configuration names, and no damage to its files is open. Damage ends in one of three ways: the
replica reports that it is healthy, and the bytes are correct again or their file no longer belongs to it; the replica
was removed; or the machine has another disk. Owned by the faults."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.nemesis.file_damage import DiskDamage
from jepsen.simulation.node import Node
from raftlog.partitions.controller.machine import GroupName
from raftlog.raft import Configuration, ReplicaId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Index


class Damage(NamedTuple):
    """Damage of a replica: a file that differs from the written bytes or is unreadable."""

    machine: Machine
    replica: ReplicaId
    key: GroupKey
    damaged_file: DiskDamage

    def __str__(self) -> str:
        return f"{self.machine.name} {self.damaged_file}"

    def has_ended(self) -> bool:
        """Return whether the replica is repaired, was removed, or has another disk."""
        if self.machine.replica != self.replica:
            return self.machine.replica is not None
        broker = self.machine.service
        if broker is None:
            return False
        group = broker.node.driver.groups.get(self.key)
        if group is None:
            return True  # it was removed, and the file of this path may be that of a new topic
        is_in_use = self.damaged_file.path.startswith(
            f"{group.path}/"
        )  # else its directory was set aside, and filled again
        return (
            not (is_in_use and self.damaged_file.is_in(self.machine.disk))
            and group.damage is None
            and not group.core.status().is_quarantined
            and group.core.voting_position is None
        )


class FaultBudget:
    """Record of the damage in a run; it permits further damage only while enough undamaged replicas remain."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster
        self.damages: list[Damage] = []
        cluster.watch.is_damage_expected = self._is_expected

    def open_damages(self) -> list[Damage]:
        """Return the damages that are not repaired, on disks that the cluster has not removed."""
        self.damages = [
            damage for damage in self.damages if not (damage.has_ended() or self.cluster.is_removed(damage.machine))
        ]
        return self.damages

    def _is_expected(self, computer: Node, key: GroupKey) -> bool:
        """Return whether a fault damaged the Raft group's files on this node."""
        return any(damage.machine.node is computer and damage.key == key for damage in self.damages)

    def may_damage(self, machine: Machine, key: GroupKey) -> bool:
        """Return whether files of this replica may be damaged."""
        is_damaged_here = any(damage.machine is machine and damage.key == key for damage in self.open_damages())
        return not is_damaged_here and machine.replica is not None and self._allows(machine, key)

    def may_lose(self, machine: Machine) -> bool:
        """Return whether all data on the machine's disk may be lost.

        All members must be running, so that their data is known. The only seed may not lose its disk: with an empty
        disk it would find no cluster."""
        if self.cluster.options.seeds == machine.node_id == 1:
            return False
        members = [each for each in self.cluster.members() if each.node.starts]
        is_known = machine.replica is not None and all(each.service is not None for each in members)
        return is_known and all(self._allows(machine, key) for key in self._keys())

    def _keys(self) -> list[GroupKey]:
        """Return the controller's Raft group and those of all topics."""
        state, group_id = self.cluster.newest_state(), self.cluster.controller_group_id()
        names = [GroupName(topic.topic_id, number) for topic in state.topics for number in range(topic.partition_count)]
        return sorted([name.group_id.bytes for name in names] + ([group_id.bytes] if group_id is not None else []))

    def _allows(self, machine: Machine, key: GroupKey) -> bool:
        """Return whether a fault may hit the machine's replica of the Raft group; true without a replica."""
        return all(
            self._keeps_majority(key, half, configuration.learners, machine)
            for configuration in self._configurations(key)
            if machine.replica in configuration.all_members()
            for half in (configuration.voters, configuration.outgoing)
            if half
        )

    def _configurations(self, key: GroupKey) -> Iterator[Configuration]:
        """Yield the Raft configurations in use on disks of the cluster, and the controller's assignment.

        Before a first replica exists, its configuration is that of the creation: an early change may assign others."""
        is_new = self.cluster.options.early_changes is not None
        for replica, configuration in self.cluster.watch.group(key).held_configurations().items():
            if self._has_disk(replica) and not self._has_left(replica, key):
                is_new = False
                yield configuration
        state = self.cluster.newest_state()
        name = state.group(UUID(bytes=key))
        if name is not None:
            yield Configuration(Index(0), state.assignment(name).replicas)
            if is_new:
                origin = state.topic_by_id(name.topic_id).origin(name.partition)
                yield Configuration(Index(0), origin.replicas)

    def _has_left(self, replica: ReplicaId, key: GroupKey) -> bool:
        """Return whether the replica's broker runs and has removed its replica of the Raft group."""
        broker = self.cluster.machines[replica.node_id].service
        return broker is not None and key not in broker.node.driver.groups

    def _has_disk(self, replica: ReplicaId) -> bool:
        """Return whether the replica's machine still has the replica's disk."""
        machine = self.cluster.machines.get(replica.node_id)
        return machine is not None and machine.replica == replica

    def _keeps_majority(
        self, key: GroupKey, voters: Sequence[ReplicaId], learners: Sequence[ReplicaId], one_more: Machine
    ) -> bool:
        """Return whether a majority stays undamaged if `one_more` is damaged, too.

        Learners count as well, since they may become voters."""
        members = dict.fromkeys((*voters, *learners))
        damaged = [damage.replica for damage in self.open_damages() if damage.key == key]
        affected = sum(
            member == one_more.replica or member in damaged or not self._has_disk(member) for member in members
        )
        return affected <= (len(voters) - 1) // 2
