"""Founding of a cluster under many faults, with only nodes and the controller's Raft group.

Seeds are started with the same list, in any order, and crash, lose power, are paused and isolated while they exchange
the bootstrap record; some brokers join later. Each serving broker repeatedly allocates blocks of producer ids.

    all brokers that report a cluster id report the same one (`two-clusters`)
    a block of ids is allocated to one recipient only (`producer-ids-twice`), however often its request was repeated
    after healing all brokers are registered, and their copies of the controller's state are equal
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from random import Random
from typing import Final, NamedTuple

from jepsen.simulation.brokers.machine import DATA_DIR, RPC, RPC_PORT, Machine
from jepsen.simulation.brokers.site import Site
from jepsen.simulation.nemesis.machine_faults import MachineFaults
from jepsen.simulation.network.links import MICROSECOND_NS, MILLISECOND_NS, SECOND_NS, LinkConditions
from jepsen.simulation.options import Fault, draw_link, format_option, generator
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError
from raftlog.partitions.controller import ControllerHost, MetadataSettings
from raftlog.partitions.controller.machine import Addresses, AllocateProducerIds
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.node import Node, NodeEnvironment, NodeSettings
from raftlog.raft import RaftSettings
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.journal.config import JournalConfig

MACHINES_MAX: Final = 6
KINDS: Final = (
    Fault.CRASH,
    Fault.POWER,
    Fault.PAUSE,
    Fault.CLOCK,
    Fault.HALVES,
    Fault.ISOLATED,
    Fault.ONE_WAY,
    Fault.LOSSY,
    Fault.RESET,
    Fault.SLOW_DISK,
    Fault.FAILED_SYNC,
)
TAKE_NS: Final = 300 * MILLISECOND_NS
LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundingOptions:
    """Options of one run. Times in seconds, sizes in bytes."""

    seed: int
    seeds: int
    joiners: int
    spread_s: float
    """Time within which brokers are started."""
    link: LinkConditions
    disk_delays_ns: tuple[int, ...]
    drift_ppm: int
    snapshot_log_bytes: int
    faults_mean_s: float
    """Average time between two faults."""
    safety_s: float
    """Time with faults."""
    start_s: float
    """Longest time, in seconds, from healing until all brokers serve."""
    unordered_syncs: bool = False
    """Whether syncs of a disk complete independently (`sync_delays`); not drawn, only on request."""

    @property
    def brokers(self) -> int:
        """Number of all brokers."""
        return self.seeds + self.joiners

    def __str__(self) -> str:
        """Return one option per line."""
        return "\n".join(f"{field.name} = {format_option(getattr(self, field.name))}" for field in fields(self))


def draw(seed: int) -> FoundingOptions:
    """Return the options of a seed."""
    random = generator(seed, "founding options")
    return FoundingOptions(
        seed=seed,
        seeds=random.choice((3, 3, 3, 2, 4)),
        joiners=random.choice((0, 0, 1, 2)),
        spread_s=random.choice((0.0, 0.5, 4.0)),
        link=draw_link(random),
        disk_delays_ns=tuple(
            random.choice((100 * MICROSECOND_NS, 2 * MILLISECOND_NS, 20 * MILLISECOND_NS)) for _ in range(MACHINES_MAX)
        ),
        drift_ppm=random.choice((0, 200, 50_000)),
        snapshot_log_bytes=random.choice((2_000, 20_000)),
        faults_mean_s=random.choice((0.1, 0.5, 1.5)),
        safety_s=random.choice((4.0, 12.0)),
        start_s=30.0,
    )


class Member(NamedTuple):
    """Process that serves: its node, and its copy of the controller's state."""

    node: Node
    metadata: ControllerHost


class FoundingFaults(MachineFaults[Machine[Member]]):
    """Faults of machines before the founding, without a leader."""

    def find_leader(self) -> Machine[Member] | None:
        """Return None: before the founding there is no leader."""
        return None


class Founding(Site[Member]):
    """Simulated founding of a cluster."""

    def __init__(self, options: FoundingOptions) -> None:
        super().__init__("founding", options)
        self.options = options
        self.faults = FoundingFaults(self.loop, self.network, self.machines, self.random("faults"))
        self.taken: dict[int, str] = {}
        """Machine that received each allocated block of ids, by the first id of the block."""
        self._is_healed = False
        self._random = self.random("takers")

    # the program

    async def run_process(self, machine: Machine[Member], environment: NodeEnvironment) -> None:
        """Open a node and the controller's Raft group on the machine, and run them until they stop."""
        options = self.options
        seeds = [(f"n{number}", RPC_PORT) for number in range(1, options.seeds + 1)]
        self.random(f"seeds {machine.node_id}").shuffle(seeds)
        node = await Node.open(_node_settings(machine), environment)
        metadata = ControllerHost.open(
            node,
            MetadataSettings(seeds=tuple(seeds), snapshot_log_bytes=options.snapshot_log_bytes, hash_interval_ms=1_000),
        )
        self.watch_process(machine, node, metadata)
        await node.start()
        await metadata.start(Addresses("", f"{machine.name}:{RPC_PORT}", ""))
        self.watch.observe_cluster_id(machine.node, metadata.cluster_id)
        machine.service = Member(node, metadata)
        machine.note(f"is registered in cluster {metadata.cluster_id}")
        failure = await node.ended
        if failure is not None:
            raise failure

    # its faults

    def run(self) -> None:
        """Run to the end of all faults, and then check the properties. Raises `PropertyBroken`."""
        random = self.random("start")
        for machine in self.machines.values():
            self.start_after(machine, random.uniform(0, self.options.spread_s))
            self.loop.call_at_ns(TAKE_NS, self._allocate_ids_later, machine)
        self._supervise()
        self._inject_fault(self.random("nemesis"))
        self.loop.run_until_time(self.options.safety_s)
        self._is_healed = True
        self.faults.heal()
        self._wait_for_none("not-serving", self._not_serving)
        self._wait_for_none("metadata-differs", self._describe_lagging_nodes)

    def _inject_fault(self, random: Random) -> None:
        """Inject a random fault, and schedule the next one; do nothing once all faults have ended."""
        if self._is_healed:
            return
        self.faults.inject(random.choice(KINDS))
        pause_ns = int(random.expovariate(1 / self.options.faults_mean_s) * SECOND_NS)
        self.loop.call_at_ns(self.loop.now_ns + pause_ns, self._inject_fault, random)

    def _supervise(self) -> None:
        """Restart the nodes that are down, unless a fault keeps them down."""
        self.loop.call_at_ns(self.loop.now_ns + 100 * MILLISECOND_NS, self._supervise)
        for machine in self.machines.values():
            down_until_ns = self.faults.down_until_ns.get(machine.node_id, 0)
            if machine.node.process is None and machine.node.starts and down_until_ns <= self.loop.now_ns:
                machine.start()

    # allocation of producer ids

    def _allocate_ids_later(self, machine: Machine[Member]) -> None:
        """Allocate producer ids at the machine now, if it serves, and schedule the next allocation."""
        machine.spawn(partial(self._allocate_ids, machine), "take ids")
        pause_ns = int(self._random.uniform(0.2, 2.0) * TAKE_NS)
        self.loop.call_at_ns(self.loop.now_ns + pause_ns, self._allocate_ids_later, machine)

    async def _allocate_ids(self, machine: Machine[Member], member: Member) -> None:
        """Allocate a block of ten producer ids; check that no other machine has got it."""
        mine = member.node.identity
        command = AllocateProducerIds(mine.node_id, mine.disk_uuid, mine.boot_epoch, 10)
        try:
            first = await member.metadata.submit(command, deadline_in(self._random.choice((200, 1_000, 4_000))))
        except RaftlogError as error:
            machine.note(f"no ids: {type(error).__name__}")
            return
        known = self.taken.setdefault(first, machine.name)
        if known != machine.name or first % 10:
            raise PropertyBroken("producer-ids-twice", {"first": first, "given_to": known, "and_to": machine.name})
        if member.metadata.state.next_producer_id <= first:
            numbers = {"first": first, "next": member.metadata.state.next_producer_id, "broker": machine.name}
            raise PropertyBroken("answered-before-applied", numbers)

    # what has to hold

    def _wait_for_none(self, name: str, missing: Callable[[], list[str]]) -> None:
        """Wait until `missing` returns an empty list; raise `PropertyBroken` of this name after `start_s`."""
        deadline_ns = self.loop.now_ns + int(self.options.start_s * SECOND_NS)
        while wanted := missing():
            if self.loop.now_ns >= deadline_ns:
                raise PropertyBroken(name, {"bound_s": self.options.start_s, "missing": "; ".join(wanted)})
            self.loop.run_for(LOOK_S)

    def _not_serving(self) -> list[str]:
        """Return descriptions of machines that do not serve."""
        return [
            f"{machine.name} (its last process ended: {machine.end})"
            for machine in self.machines.values()
            if machine.service is None
        ]

    def _describe_lagging_nodes(self) -> list[str]:
        """Describe the nodes that are not registered, or whose copy of the controller's state is not current."""
        copies = {machine.name: member.metadata.state for machine, member in self.serving()}
        newest = max(copies.values(), key=lambda state: state.applied_index)
        registered = {broker.node_id for broker in newest.all_brokers()}
        missing = [
            f"{machine.name} is not registered" for node, machine in self.machines.items() if node not in registered
        ]
        # Brokers allocate ids all the time, so the applied index never stands still: up to 5 entries behind is current.
        return missing + [
            f"{name} applied {state.applied_index} of {newest.applied_index}"
            for name, state in copies.items()
            if newest.applied_index - state.applied_index > 5
        ]


def _node_settings(machine: Machine[Member]) -> NodeSettings:
    """Return the settings of the machine's node."""
    return NodeSettings(
        data_dir=DATA_DIR,
        node_id=machine.node_id,
        host_label=machine.name,
        rpc_host=machine.name,
        rpc_port=RPC_PORT,
        insecure=True,
        rpc=RPC,
        peers_save_ms=500,
        driver=DriverConfig(
            tick_ms=100,
            raft=RaftSettings(election_ticks_min=8),
            segment_bytes=8192,
            checkpoint_interval_ms=1_000,
            journal=JournalConfig(
                file_bytes=1 << 16, write_bytes_max=1 << 15, reserve_bytes=1 << 14, checkpoint_bytes=1 << 17
            ),
        ),
    )
