"""Cluster in virtual time: machines, network, Raft groups, observers, and the history of its clients.

    loop, network     one of each
    machines          by node id; the first `options.nodes` have a replica of every Raft group from the start, the
                      others have none
    groups            plans: id, name, first roll, and the properties that are watched
    checker           checks the history of the clients while it is recorded

Everything random comes from the seed, each part of the cluster from a generator of its own. Made by `run`.
"""

import uuid
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from random import Random
from typing import Final

from jepsen.checkers import HistoryChecker, Recorder
from jepsen.simulation.machine import Machine
from jepsen.simulation.nemesis.sync_delays import UnorderedDelays
from jepsen.simulation.network.network import SimulatedNetwork
from jepsen.simulation.network.transport import SimulatedTransport
from jepsen.simulation.node import Node, Process
from jepsen.simulation.options import Options, generator
from jepsen.simulation.properties import GroupProperties, RecoveredState, Replica, ReplicaState
from jepsen.simulation.timed_disk import TimedDisk
from jepsen.simulation.trace import Trace
from jepsen.simulation.verdicts import PropertyBroken, feed_checker
from jepsen.simulation.virtual_time.clock import NodeClock
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.errors import CorruptBatch
from raftlog.raft import Configuration, Entry, Ready, ReplicaId, Role
from raftlog.raft.messages import VoteResponse
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.control_entries import member_of
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transport import Envelope
from raftlog.storage.recovery import read_roll
from raftlog.storage.roll import Roll
from raftlog.types import Index, NodeId, TopicPartition

READ_BACK_MAX: Final = 300
"""Number of the newest entries that are read again after each restart."""


def _ignore_event(_: object) -> None:
    return None


class Moment(Enum):
    """Moments of a replica's work at which a fault may occur; votes and acknowledgements have been sent by then."""

    VOTE = "votes"
    LEAD = "becomes leader"
    CUT = "cuts its log"
    COMMIT = "commits as leader"
    MEMBERS = "appends a configuration"


class GroupPlan:
    """Description of a Raft group of a simulated cluster: members, the clients' topic, and properties to check."""

    def __init__(self, number: int, group_id: uuid.UUID) -> None:
        self.number, self.group_id = number, group_id
        self.key: GroupKey = group_id.bytes
        self.partition = TopicPartition("t", number)
        self.properties = GroupProperties(str(self.partition))
        self.roll: Roll
        self.initial: tuple[ReplicaId, ...] = ()
        self.begun: set[ReplicaId] = set()
        """Initial replicas that were created. Never iterated."""
        self.retired: set[ReplicaId] = set()
        """Replicas that were removed, or whose disk is lost: they do not return under the same identity. Never
        iterated."""
        self.configurations: dict[ReplicaId, Configuration] = {}
        """Latest Raft configuration of each replica."""
        self.readers_at: dict[int, int] = {}
        """Offset that each reader has reached; records below all of them may be trimmed."""


class Cluster:
    """Simulated cluster of drivers, with its observers and the history of its clients."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.loop = VirtualLoop(Trace())
        self.network = SimulatedNetwork(self.loop, self.random("network"), options.link)
        self.checker = HistoryChecker()
        self.recorder = Recorder(lambda: self.loop.now_ns, partial(feed_checker, self.checker))
        self.config = options.driver_config()
        self.machines: dict[NodeId, Machine] = {}
        self.is_damage_expected: Callable[[Machine, GroupPlan], bool] = lambda _machine, _plan: False
        """Callback that returns whether files of this replica were damaged."""
        self.ambush: Callable[[Moment, Machine], object] | None = None
        """Callback at the moments of replicas; None unless a fault waits for one."""
        self.on_cut: Callable[[Machine], object] = _ignore_event
        """Callback at every cut of a log."""
        self._processes = 0
        self._add_machines()
        self.groups = [self._make_plan(number) for number in range(options.groups)]
        self._by_key = {plan.key: plan for plan in self.groups}

    def random(self, name: str) -> Random:
        """Return the random generator of one part of the cluster."""
        return generator(self.options.seed, name)

    def _add_machines(self) -> None:
        """Create the nodes, with clocks that differ, and a machine with a disk on each."""
        options, random = self.options, self.random("machines")
        nodes: dict[NodeId, Node] = {}
        for number in range(1, options.nodes + options.spares + 1):
            clock = NodeClock(
                offset_ns=random.randrange(10**12), drift_ppm=random.randint(-options.drift_ppm, options.drift_ppm)
            )
            node = self.loop.add_node(f"n{number}", clock)
            self.network.attach(node)
            nodes[NodeId(number)] = node
        connect = partial(self._connect, nodes)
        for node_id, node in nodes.items():
            disk = TimedDisk(
                self.random(f"disk {node_id}"),
                self.loop,
                options.disk_delays_ns[node.number],
                UnorderedDelays(self.random(f"unordered syncs {node_id}")) if options.unordered_syncs else None,
            )
            own = self.random(f"machine {node_id}")
            self.machines[node_id] = Machine(self.loop, node, node_id, disk, self.config, self, connect, own)

    def _connect(
        self, nodes: dict[NodeId, Node], process: Process, watch: Callable[[Sequence[Envelope]], None]
    ) -> SimulatedTransport:
        """Return a transport for a process; `watch` is called with the messages that it sends."""
        return SimulatedTransport(self.network, process, nodes, streams=self.options.streams, watch=watch)

    def _make_plan(self, number: int) -> GroupPlan:
        """Return the plan of a Raft group, with the first machines as its voters."""
        plan = GroupPlan(number, uuid.UUID(int=self.random(f"group {number}").getrandbits(128), version=4))
        plan.initial = tuple(machine.me for machine in list(self.machines.values())[: self.options.nodes])
        voters = tuple(map(member_of, plan.initial))
        plan.configurations = {replica: Configuration(Index(1), plan.initial) for replica in plan.initial}
        plan.roll = Roll(plan.group_id, 1, 0, 0, -1, self.machines[NodeId(1)].wall_ms(), 1, voters)
        return plan

    def new_process(self) -> int:
        """Return a new number for a client's process in the history."""
        self._processes += 1
        return self._processes

    def start(self) -> None:
        """Start a process on every machine."""
        for machine in self.machines.values():
            machine.start()

    def close(self) -> None:
        """Close the loop and unwind all coroutines."""
        self.loop.close()

    def break_property(self, name: str, **numbers: object) -> None:
        """Raise `PropertyBroken` with the property's name and the evidence."""
        raise PropertyBroken(name, numbers)

    # what is known from outside

    def leader(self, plan: GroupPlan) -> tuple[Machine, PartitionReplica] | None:
        """Return the leader of the latest term among the running processes; None without one."""
        best: tuple[Machine, PartitionReplica] | None = None
        for machine in self.machines.values():
            group = machine.group(plan.key) if machine.is_running else None
            if (
                group is not None
                and group.core.role is Role.LEADER
                and (best is None or group.core.term > best[1].core.term)
            ):
                best = machine, group
        return best

    def machine_of(self, replica: ReplicaId) -> Machine | None:
        """Return the machine of the replica; None when its disk is lost."""
        machine = self.machines[replica.node_id]
        return machine if machine.me == replica else None

    def replicas(self, plan: GroupPlan) -> list[tuple[Machine, PartitionReplica]]:
        """Return the replicas of the Raft group in running processes, with their machines."""
        found = ((machine, machine.group(plan.key)) for machine in self.machines.values())
        return [(machine, group) for machine, group in found if group is not None]

    def configurations(self, plan: GroupPlan) -> list[Configuration]:
        """Return the Raft configurations in use by any replica that is not retired."""
        held = {known: None for replica, known in plan.configurations.items() if replica not in plan.retired}
        return list(held)

    # callbacks of machines

    def create_groups(self, machine: Machine, driver: Driver) -> None:
        """Create the Raft groups that this machine has at the start of the run, each only once.

        See `Watcher`."""
        for plan in self.groups:
            if machine.me in plan.initial and machine.me not in plan.begun:
                if plan.key not in driver.groups:
                    driver.create_group(plan.roll)
                plan.begun.add(machine.me)

    def on_open(self, machine: Machine, driver: Driver) -> None:
        """Check that the process has all replicas that reported a durable entry and were not removed. See `Watcher`."""
        for plan in self.groups:
            if machine.me in plan.retired or plan.key in driver.groups:
                continue
            if plan.properties.promises.has_promised(machine.me):
                self.break_property("replica-gone", replica=machine, group=plan.partition)

    def on_recovery(self, machine: Machine, group: PartitionReplica) -> None:
        """Check a replica that a process recovered or created, and note it in the timeline. See `Watcher`."""
        plan = self._by_key[group.key]
        log = group.log
        if group.damage is not None and not self.is_damage_expected(machine, plan):
            self.break_property("unprovoked-damage", replica=machine, group=plan.partition, damage=group.damage)
        found = RecoveredState(
            newest_entries(group),
            max(group.core.committed_index, log.boundary.index),
            group.high_watermark,
            group.core.term,
            group.core.configuration,
            group.core.voting_position,
            group.damage is not None,
        )
        machine.note(
            f"{plan.partition}: recovered to {log.last_index}@{group.core.last_id.term} "
            f"in term {group.core.term}{', damaged' if group.damage else ''}"
        )
        plan.properties.observe_restart(_replica_since_start(machine), log, found)

    def on_ready(self, machine: Machine, group: PartitionReplica, ready: Ready) -> None:
        """Check the replica after the driver has executed a Ready, and call the callbacks of faults. See `Watcher`."""
        plan = self._by_key[group.key]
        core = group.core
        now = ReplicaState(core.term, core.role is Role.LEADER, core.configuration, group.high_watermark)
        plan.properties.observe_ready(_replica_since_start(machine), group.log, ready, now)
        plan.configurations[machine.me] = core.configuration
        role = ready.role_state
        if role is not None:
            follows = f", follows n{role.leader.node_id}" if role.leader and role.leader != machine.me else ""
            machine.note(f"{plan.partition}: {role.role.value} of term {role.term}{follows}: {role.reason}")
        self.loop.trace.record_number(core.committed_index)
        if ready.cut_to is not None:
            self.on_cut(machine)
        if self.ambush is not None and (moment := _moment(ready, now.leads)) is not None:
            self.ambush(moment, machine)

    def on_send(self, machine: Machine, envelopes: Sequence[Envelope]) -> None:
        """Check sent messages before they enter the network, and report granted votes to `ambush`. See `Watcher`."""
        driver = machine.driver
        if driver is None:
            return
        for key, message in envelopes:
            group = driver.groups.get(key)
            if group is not None:
                self._by_key[key].properties.observe_message(message, group.log, group.core.term)
                if self.ambush is not None and type(message) is VoteResponse and message.is_granted:
                    self.ambush(Moment.VOTE, machine)

    def on_lost_identity(self, machine: Machine, old: ReplicaId) -> None:
        """Retire the old replicas of all Raft groups. See `Watcher`."""
        for plan in self.groups:
            plan.retired.add(old)


def _moment(ready: Ready, leads: bool) -> Moment | None:
    """Return the first moment that applies to a Ready of a replica; None if it is no moment for a fault."""
    if ready.cut_to is not None:
        return Moment.CUT
    if ready.role_state is not None and ready.role_state.role is Role.LEADER:
        return Moment.LEAD
    if any(entry.configuration is not None for entry in ready.entries):
        return Moment.MEMBERS
    return Moment.COMMIT if leads and ready.apply is not None else None


def newest_entries(group: PartitionReplica) -> list[Entry]:
    """Return the newest readable entries of the replica's log, at most `READ_BACK_MAX`, oldest first.

    A segment whose roll is damaged may be a compacted one, which only its roll says, and then the boundary is too low:
    entries up to the end of such a segment, and of compacted ones after it, are left out."""
    log = group.log
    closed = log.segments.segments[:-1]
    first = max((each.next_index for each in closed if each.is_compacted or read_roll(each) is None), default=0)
    index = max(first, log.boundary.index + 1, log.last_index - READ_BACK_MAX + 1)
    found: list[Entry] = []
    while index <= log.last_index:
        try:
            read = log.entries(Index(index), READ_BACK_MAX, 1 << 20)
        except CorruptBatch:
            index += 1
            continue
        found.extend(read)
        index += max(1, len(read))
    return found


def _replica_since_start(machine: Machine) -> Replica:
    """Return the identity of the machine's replicas, with the number of the present start."""
    return Replica(machine.me, machine.node.starts)
