"""What each kind of fault does to a cluster of brokers, beyond what befalls their machines.

Damage hits at most one replica of a group at a time, and only where two others have voted with it from the beginning:
the fault model's minority. A restart here is an orderly one. Who calls: `nemesis`.
"""

from functools import partial
from random import Random
from typing import NamedTuple

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.file_damage import Wrong, damage_file_below
from jepsen.simulation.links import SECOND_NS
from jepsen.simulation.machine_faults import MachineFaults
from jepsen.simulation.node import Node
from jepsen.simulation.options import Fault
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.raft import ReplicaId
from raftlog.runtime.group import Group
from raftlog.runtime.journal.operations import GroupKey


class Damage(NamedTuple):
    """A replica whose file is not what was written."""

    machine: Machine
    key: GroupKey
    wrong: Wrong

    def is_over(self) -> bool:
        """The bytes are right again, or their file is gone, and the replica says that it is well."""
        broker = self.machine.service
        if self.wrong.is_in(self.machine.disk) or broker is None:
            return False
        group = broker.node.driver.groups.get(self.key)
        return group is None or (
            group.damage is None and not group.core.status().is_quarantined and group.core.voting_position is None
        )


class Faults(MachineFaults[Machine]):
    """See the module."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        super().__init__(cluster.loop, cluster.network, cluster.machines, random)
        self.cluster = cluster
        self.damages: list[Damage] = []
        cluster.watch.is_damage_expected = self._is_expected
        self.kinds |= {
            Fault.DAMAGE: self._damage,
            Fault.TRANSFER: self._transfer,
            Fault.ROLLING: self._rolling,
        }

    def leading(self) -> Machine | None:
        keys = self.cluster.keys()
        found = self.cluster.leader(self.random.choice(keys)) if keys else None
        return None if found is None else found[0]

    # disks

    def open_damages(self) -> list[Damage]:
        """Those that are not over."""
        self.damages = [damage for damage in self.damages if not damage.is_over()]
        return self.damages

    def _is_expected(self, computer: Node, key: GroupKey) -> bool:
        return any(damage.machine.node is computer and damage.key == key for damage in self.damages)

    def _damage(self) -> None:
        """Bits flip, or a page is zeroed; the process may run, or be started on it."""
        machine = self.someone()
        broker = machine.service
        if broker is None:
            return
        groups = [group for group in broker.node.driver.groups.values() if self._may_damage(machine, group)]
        if not groups:
            return
        group = self.random.choice(groups)
        inside = f"{group.path.removeprefix(broker.node.driver.data_dir)}/"
        wrong = damage_file_below(machine.disk, inside, self.random, machine.note)
        if wrong is None:
            return
        self.damages.append(Damage(machine, group.key, wrong))
        if self.random.random() < 0.5:
            machine.crash()

    def _may_damage(self, machine: Machine, group: Group) -> bool:
        members = group.core.configuration
        is_free = all(damage.key != group.key and damage.machine is not machine for damage in self.open_damages())
        return is_free and len(members.voters) >= 3 and not members.is_joint

    # operators

    def _transfer(self) -> None:
        keys = self.cluster.keys()
        key = self.random.choice(keys) if keys else b""
        found = self.cluster.leader(key)
        if found is not None:
            machine, group = found
            target = self.random.choice(group.core.configuration.all_voters())
            machine.call(partial(self._transfer_to, key, machine, target))

    def _transfer_to(self, key: GroupKey, machine: Machine, target: ReplicaId, broker: Broker) -> None:
        group = broker.node.driver.groups.get(key)
        try:
            if group is not None:
                machine.note(f"{group.path}: hands over to {target}")
                group.transfer_leadership(target)
        except RaftlogError as error:
            machine.note(f"{key.hex()[:8]}: does not hand over, {error}")

    def _rolling(self) -> None:
        for place, machine in enumerate(self.everybody()):
            self.loop.call_at_ns(self.loop.now_ns + (2 * place + 1) * SECOND_NS, self._stop, machine)

    def _stop(self, machine: Machine) -> None:
        if machine.is_running:
            machine.spawn(stop, "stop")
            self.stays_down(machine, (0.05, 0.5))


async def stop(broker: Broker) -> None:
    """As a signal to stop does; a disk that fails on the way ends the process all the same."""
    try:
        await broker.close()
    except RaftlogError:
        return
