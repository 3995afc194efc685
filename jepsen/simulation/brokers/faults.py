"""Faults of a cluster of brokers: those of any machines and their disks, and those specific to brokers.

A restarted broker is first stopped in an orderly way. Called by `nemesis`."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.brokers.disk_faults import DiskFaults
from jepsen.simulation.network import shapes
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.options import Fault
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import GroupName, SetAssignment
from raftlog.partitions.deadline import deadline_in
from raftlog.raft import ReplicaId
from raftlog.raft.messages import InstallOffer
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import NodeId

ABSENT_S: Final = (5.0, 15.0)
GOSSIP_S: Final = (3.0, 15.0)
MOVE_MS: Final = 2_000


class Faults(DiskFaults):
    """Injector of faults into brokers: crashes, network, disks, moves.

    `absent_until_ns`: by node id, the time until which a machine stays down even if all other faults end."""

    def __init__(self, cluster: BrokerCluster, random: Random) -> None:
        super().__init__(cluster, random)
        self.absent_until_ns: dict[NodeId, int] = {}
        self._strikes = self._passed_by = 0
        """Remaining faults of the ambush, and number of install offers that it ignores before the first fault."""
        self.kinds |= {
            Fault.TRANSFER: self._transfer,
            Fault.MEMBERS: self._move,
            Fault.ROLLING: self._rolling_restart,
            Fault.ABSENCE: self._start_absence,
            Fault.AMBUSH: self._ambush,
            Fault.GOSSIP: self._block_gossip,
        }

    def may_start(self, machine: Machine) -> bool:
        """Return whether no fault keeps the machine down."""
        due_ns = max(times.get(machine.node_id, 0) for times in (self.down_until_ns, self.absent_until_ns))
        return due_ns <= self.loop.now_ns

    def heal_for_good(self) -> None:
        """End all faults, including long absences, and inject no more."""
        self.absent_until_ns.clear()
        self.cluster.watch.on_offer = self._ignore_offer
        self.heal()

    def find_leader(self) -> Machine | None:
        """Return the machine that leads a random Raft group; None without a leader."""
        keys = self.cluster.keys()
        found = self.cluster.leader(self.random.choice(keys)) if keys else None
        return None if found is None else found[0]

    # long absence, and the return of absent machines

    def _start_absence(self) -> None:
        """Stop one machine for so long that retention on the others removes records that this machine lacks."""
        machine = self.random_machine()
        is_any_absent = any(due_ns > self.loop.now_ns for due_ns in self.absent_until_ns.values())
        if is_any_absent or len(self.machines) < 3:
            return
        if machine.node.is_up:
            machine.crash()
        machine.note("it is away for long")
        self.absent_until_ns[machine.node_id] = self.loop.now_ns + int(self.random.uniform(*ABSENT_S) * SECOND_NS)

    def _ambush(self) -> None:
        """Crash or isolate a leader that offers its log, or the replica that fetches it, during the transfer."""
        self._strikes, self._passed_by = self.random.choice((1, 2, 4)), self.random.choice((0, 0, 1, 2))
        self.cluster.watch.on_offer = self._on_offer

    def _ignore_offer(self, _: InstallOffer) -> None:
        """Do nothing at an install offer."""
        return

    def _on_offer(self, offer: InstallOffer) -> None:
        """Strike the sender or the receiver of an install offer soon, after the offers that the ambush lets pass."""
        if self._passed_by > 0 or self._strikes == 0:
            self._passed_by -= 1
            return
        self._strikes -= 1
        target = self.machines[self.random.choice((offer.sender, offer.sender, offer.to)).node_id]
        strike = self._draw_strike()
        target.note(f"an ambush: {offer.sender} offers its log to {offer.to}")
        delay_ns = int(self.random.choice((0.0, 0.05, 0.4)) * self.random.random() * SECOND_NS)
        self.loop.call_at_ns(self.loop.now_ns + delay_ns, strike, target)

    def strike(self, machine: Machine) -> None:
        """Crash the machine, cut its power, or isolate it; chosen at random."""
        self._draw_strike()(machine)

    def _draw_strike(self) -> Callable[[Machine], None]:
        """Return a random fault for an ambush: a crash, a power loss, or an isolation."""
        return self.random.choice((self._strike_down, self._strike_power, self._strike_links))

    def _strike_down(self, machine: Machine) -> None:
        """Crash the machine if it is up, and keep it down for a while."""
        if machine.node.is_up:
            machine.crash()
            self.keep_down(machine)

    def _strike_power(self, machine: Machine) -> None:
        """Cut the machine's power and keep it down for a while."""
        machine.lose_power()
        self.keep_down(machine)

    def _strike_links(self, machine: Machine) -> None:
        """Isolate the machine for a while."""
        self.cut(shapes.isolate(machine.node.number, self.numbers()))

    # gossip

    def _block_gossip(self) -> None:
        """Cut all gossip, cut one broker's gossip, or lose a third of all gossip; connections are not affected."""
        gossip_network = self.cluster.network.gossip_network
        if gossip_network is None:
            return
        self.loop.note("network", "gossip alone is disturbed")
        kind, nodes = self.random.choice(("all", "one", "loss")), [machine.node for machine in self.all_machines()]
        if kind == "all":
            gossip_network.impose(shapes.split([[number] for number in self.numbers()]))
        elif kind == "one":
            gossip_network.impose(shapes.isolate(self.random_machine().node.number, self.numbers()))
        else:
            lossy = gossip_network.conditions._replace(loss=0.3)
            for source in nodes:
                for destination in nodes:
                    if source is not destination:
                        gossip_network.set_conditions(source, destination, lossy)
        self.undo_later(GOSSIP_S, gossip_network.heal)

    # operators

    def _transfer(self) -> None:
        """Request a leadership transfer in a random Raft group, to a random voter."""
        keys = self.cluster.keys()
        key = self.random.choice(keys) if keys else b""
        found = self.cluster.leader(key)
        if found is not None:
            machine, group = found
            target = self.random.choice(group.core.configuration.all_voters())
            machine.call(partial(self._transfer_to, key, machine, target))

    def _transfer_to(self, key: GroupKey, machine: Machine, target: ReplicaId, broker: Broker) -> None:
        """Transfer the leadership of the group's replica in this broker; note an error."""
        group = broker.node.driver.groups.get(key)
        try:
            if group is not None:
                machine.note(f"{group.path}: hands over to {target}")
                group.transfer_leadership(target)
        except RaftlogError as error:
            machine.note(f"{key.hex()[:8]}: does not hand over, {error}")

    def _move(self) -> None:
        """Let a random broker move a partition's replicas."""
        self.random.choice(self.all_machines()).spawn(self._move_partition, "an operator")

    async def _move_partition(self, broker: Broker) -> None:
        """Assign a random partition to random brokers, by a command from this broker to the controller."""
        state = broker.metadata.state
        names = [
            GroupName(topic.topic_id, number)
            for topic in sorted(state.topics, key=lambda topic: topic.name)
            for number in range(topic.partition_count)
        ]
        replicas = [each.replica for each in state.all_brokers()]
        counts = (3,) if self.cluster.options.loses_disks else (2, 3)
        count = self.random.choice(counts)
        if not names or len(replicas) < count:
            return
        name = self.random.choice(names)
        wanted = tuple(self.random.sample(replicas, count))
        command = SetAssignment(name.topic_id, name.partition, wanted, state.assignment(name).version)
        try:
            await broker.metadata.submit(command, deadline_in(MOVE_MS))
        except RaftlogError as error:
            self.loop.note("operator", f"{name} is not moved: {error}")
        else:
            self.loop.note("operator", f"{name} shall have {', '.join(map(str, wanted))}")

    def _rolling_restart(self) -> None:
        """Restart all machines in an orderly way, one every two seconds."""
        for place, machine in enumerate(self.all_machines()):
            self.loop.call_at_ns(self.loop.now_ns + (2 * place + 1) * SECOND_NS, self._restart, machine)

    def _restart(self, machine: Machine) -> None:
        """Stop the machine's broker if it runs; the supervisor starts it within half a second."""
        if machine.is_running:
            machine.spawn(stop, "stop")
            self.keep_down(machine, (0.05, 0.5))


async def stop(broker: Broker) -> None:
    """Stop the broker as a signal does; a disk error during the stop ends the process as well."""
    try:
        await broker.close()
    except RaftlogError:
        return
