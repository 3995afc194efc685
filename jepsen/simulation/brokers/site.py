"""Base of the simulations of brokers and their founding: machines on a network in virtual time, and an observer.

    loop, network     one of each
    machines          by node id; each runs the program of the kind of simulation

All randomness comes from the seed, each part from a generator of its own. Extended by `cluster` and `founding`."""

from abc import ABC, abstractmethod
from functools import partial
from random import Random
from typing import Generic, Protocol, TypeVar

from jepsen.simulation.brokers.gossip_wire import CoupledNetwork
from jepsen.simulation.brokers.machine import Machine
from jepsen.simulation.brokers.watch import Watch
from jepsen.simulation.brokers.wires import WiredLoop
from jepsen.simulation.nemesis.sync_delays import UnorderedDelays
from jepsen.simulation.network.links import SECOND_NS, LinkConditions
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.options import generator
from jepsen.simulation.properties import Replica
from jepsen.simulation.timed_disk import TimedDisk
from jepsen.simulation.trace import Trace
from jepsen.simulation.virtual_time.clock import NodeClock
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.node import Node, NodeEnvironment
from raftlog.types import NodeId

S = TypeVar("S")


class SiteOptions(Protocol):
    """Options that a site is created from."""

    @property
    def seed(self) -> int: ...

    @property
    def brokers(self) -> int: ...

    @property
    def link(self) -> LinkConditions: ...

    @property
    def disk_delays_ns(self) -> tuple[int, ...]: ...

    @property
    def drift_ppm(self) -> int: ...

    @property
    def unordered_syncs(self) -> bool: ...


class Site(ABC, Generic[S]):
    """Base of simulations with machines on a network.

    `name` separates the random generators of different kinds of simulation."""

    def __init__(self, name: str, options: SiteOptions) -> None:
        self.loop = WiredLoop(Trace())
        self._seed = options.seed, name
        self.network = CoupledNetwork(self.loop, self.random("network"), options.link)
        self.network.gossip_network = self.make_gossip_network()
        self.watch = Watch(self.loop)
        self.machines: dict[NodeId, Machine[S]] = {}
        random = self.random("machines")
        for number in range(1, options.brokers + 1):
            self._add_machine(NodeId(number), options, random)
        self.loop.wire(self.network, self.loop.nodes)

    def random(self, name: str) -> Random:
        """Return the random generator of one part of the site."""
        return generator(*self._seed, name)

    def make_gossip_network(self) -> SimulatedNetwork | None:
        """Return the network of gossip, or None; called before machines are created."""
        return None

    def _add_machine(self, node_id: NodeId, options: SiteOptions, random: Random) -> None:
        """Create a machine with a node, a clock and a disk."""
        drift_ppm = random.randint(-options.drift_ppm, options.drift_ppm)
        clock = NodeClock(offset_ns=random.randrange(10**12), drift_ppm=drift_ppm)
        node = self.loop.add_node(f"n{node_id}", clock)
        self.network.attach(node)
        disk = TimedDisk(
            self.random(f"disk {node_id}"),
            self.loop,
            options.disk_delays_ns[node.number],
            UnorderedDelays(self.random(f"unordered syncs {node_id}")) if options.unordered_syncs else None,
        )
        self.machines[node_id] = Machine(self.loop, node, node_id, disk, self.run_process, self._seed)

    @abstractmethod
    async def run_process(self, machine: Machine[S], environment: NodeEnvironment) -> None:
        """Run the program of a process in this environment, from its start to its end."""

    def watch_process(self, machine: Machine[S], node: Node, metadata: ControllerHost) -> None:
        """Observe a process that has recovered its disk but not started; runs in the process."""
        replica = node.identity.replica
        machine.disk_uuids.add(replica.disk_uuid)
        observed = Replica(replica, machine.node.starts)
        is_stale = machine.stale == replica
        if is_stale:
            machine.on_send = partial(self.watch.on_stale_send, machine.node)
        else:
            machine.replica, machine.stale = replica, None
            machine.on_send = partial(self.watch.on_send, node.driver)
            self.watch.on_open(machine.node, node.driver, metadata)
        self.watch.observe_cluster_id(machine.node, node.identity.cluster_id)

        def on_applied() -> None:
            """Check the new copy of the controller's state."""
            self.watch.on_state(machine.node, metadata.state)
            if not is_stale:
                self.watch.membership.on_state(observed)

        metadata.observers.insert(0, on_applied)
        self.watch.on_state(machine.node, metadata.state)

    def start_after(self, machine: Machine[S], seconds: float) -> None:
        """Start the machine after `seconds`, unless it was started meanwhile."""
        self.loop.call_at_ns(self.loop.now_ns + int(seconds * SECOND_NS), self._start, machine)

    def _start(self, machine: Machine[S]) -> None:
        """Start the machine unless it is up."""
        if machine.node.process is None:
            machine.start()

    def serving(self) -> list[tuple[Machine[S], S]]:
        """Return the machines whose process serves, each with its service, in order of node id."""
        found = ((machine, machine.service) for machine in self.machines.values())
        return [(machine, service) for machine, service in found if service is not None]

    def close(self) -> None:
        """Close the loop and unwind all coroutines."""
        self.loop.close()
