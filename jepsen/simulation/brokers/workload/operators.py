"""Operators: send all kinds of requests to any broker during the run.

Each request has an answer in time, like those of all clients; most take effect long after it. The broker concerned, or
the controller's leader, may crash meanwhile. Accepted requests hold: an assignment is never older than an accepted
request for it (`order-lost`, checked at the end). Created by the nemesis.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

from jepsen.simulation.brokers.cluster import BrokerCluster, Machine
from jepsen.simulation.brokers.elasticity import Order
from jepsen.simulation.brokers.faults import Faults
from jepsen.simulation.brokers.workload.clients import Attempt, Client
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.options import Fault
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.types import NodeId

STRIKE_S: Final = (0.0, 1.5)
RIVAL_MS: Final = 2_000
MODES: Final = ("off", "node_add", "continuous", "continuous")
DECOMMISSION_BELOW_MIN: Final = 0.15
"""Chance of decommissioning a broker although the topics' replication factors need it."""


class Target(NamedTuple):
    """Partition that an operator changes, with the nodes of its present assignment."""

    name: GroupName
    topic: str
    nodes: tuple[int, ...]
    version: int


def is_broker_spare(state: ControllerState, least: int) -> bool:
    """Return whether there are more brokers than `least`, and than the replicas of any partition."""
    needed = max((len(replicas) for topic in state.topics for replicas in state.replicas_of(topic)), default=1)
    return len(state.brokers) > max(needed, least)


class AcceptedRequests:
    """Requests of operators that brokers have accepted; `versions` has the newest version of each assignment."""

    def __init__(self) -> None:
        self.versions: dict[GroupName, int] = {}
        self.count = 0

    def record_assignment(self, name: GroupName, version: int) -> None:
        """Record the version of an accepted assignment."""
        self.count += 1
        self.versions[name] = max(version, self.versions.get(name, 0))

    def check(self, state: ControllerState) -> None:
        """Raise `PropertyBroken` unless the state contains every accepted assignment."""
        for name, version in self.versions.items():
            if state.has_group(name) and state.assignment(name).version < version:
                numbers = {"group": name, "taken": version, "found": state.assignment(name).version}
                raise PropertyBroken("order-lost", numbers)


class Operator(Client):
    """Simulated operator that sends requests of all kinds (`Order`), one at a time."""

    def __init__(self, cluster: BrokerCluster, random: Random, faults: Faults, taken: AcceptedRequests) -> None:
        super().__init__(cluster, random)
        self.faults, self.taken = faults, taken
        self.elasticity = cluster.options.elasticity
        self._orders: dict[Order, Callable[[Broker, Deadline], Coroutine[Any, Any, str]]] = {
            Order.MOVE: self._move,
            Order.RIVALS: self._move_twice,
            Order.CANCEL: self._cancel,
            Order.TRANSFER: self._transfer,
            Order.MAINTENANCE: self._toggle_maintenance,
            Order.DECOMMISSION: self._decommission,
            Order.BALANCE: self._balance,
            Order.SETTINGS: self._change_settings,
        }

    def step(self) -> None:
        """Send a random request, or start a long absence of a broker."""
        order = self.random.choice(self.elasticity.orders)
        if order is Order.ABSENCE:
            self.faults.inject(Fault.ABSENCE)
            self.step_later(self._pause_ns())
        else:
            self.ask(partial(self._carry_out, order))

    def _pause_ns(self) -> int:
        """Return a random pause until the next request, in nanoseconds."""
        return int(self.random.expovariate(1 / self.elasticity.pause_s) * SECOND_NS)

    async def _carry_out(self, order: Order, attempt: Attempt, broker: Broker) -> None:
        """Send one request, by chance with a crash of the controller's leader meanwhile, and record its outcome."""
        if self.random.random() < self.elasticity.strikes:
            self._strike_later(self._controller_machine)
        try:
            outcome = await self._orders[order](broker, attempt.deadline())
        except RaftlogError as error:
            outcome = f"{type(error).__name__} {error}"
        self.loop.note("operator", f"{order.value} at {attempt.machine.name}: {outcome}")
        if self.is_answer_received(attempt):
            self.finish(attempt, self._pause_ns())

    # ambushes

    def _strike_later(self, find_machine: "Callable[[], Machine | None]") -> None:
        """Strike the machine that `find_machine` returns, after a random delay."""
        delay_ns = int(self.random.uniform(*STRIKE_S) * SECOND_NS)
        self.loop.call_at_ns(self.loop.now_ns + delay_ns, self._strike, find_machine)

    def _strike(self, find_machine: "Callable[[], Machine | None]") -> None:
        """Crash the machine that `find_machine` returns, cut its power, or isolate it; nothing for None."""
        machine = find_machine()
        if machine is not None and not self.is_stopped:
            self.faults.strike(machine)

    def _controller_machine(self) -> Machine | None:
        """Return the machine of the controller's leader; None without one."""
        group_id = self.cluster.controller_group_id()
        found = None if group_id is None else self.cluster.leader(group_id.bytes)
        return None if found is None else found[0]

    def _maybe_kill(self, nodes: list[int]) -> None:
        """Strike one of these nodes soon, by chance."""
        machines = [self.cluster.machines[NodeId(node)] for node in nodes]
        if machines and self.random.random() < self.elasticity.strikes:
            self._strike_later(partial(self.random.choice, machines))

    # partitions

    def _draw_target(self, broker: Broker) -> Target | None:
        """Return a random partition in the broker's metadata; None without one."""
        state = broker.metadata.state
        names = [
            GroupName(topic.topic_id, number)
            for topic in sorted(state.topics, key=lambda topic: topic.name)
            for number in range(topic.partition_count)
        ]
        if not names:
            return None
        name = self.random.choice(names)
        assignment = state.assignment(name)
        nodes = tuple(replica.node_id for replica in assignment.replicas)
        return Target(name, state.topic_by_id(name.topic_id).name, nodes, assignment.version)

    def _draw_nodes(self, broker: Broker, target: Target) -> list[int]:
        """Draw the node ids of an assignment: other nodes, another order, or another number of them."""
        nodes = [each.node_id for each in broker.metadata.state.all_brokers()]
        counts = (3,) if self.cluster.options.loses_disks else (2, 3, len(target.nodes))
        return self.random.sample(nodes, min(len(nodes), self.random.choice(counts)))

    async def _move(self, broker: Broker, deadline: Deadline) -> str:
        """Move a random partition; return a description for the timeline."""
        target = self._draw_target(broker)
        return "nothing to move" if target is None else await self._move_partition(target, broker, deadline)

    async def _move_partition(self, target: Target, broker: Broker, deadline: Deadline) -> str:
        """Assign the partition to random brokers; return a description for the timeline.

        By chance one of its new replicas is struck during the move. Raises `RaftlogError`."""
        nodes = self._draw_nodes(broker, target)
        expected = target.version if self.random.random() < 0.5 else None
        self._maybe_kill([node for node in nodes if node not in target.nodes])
        version = await broker.operations.partitions.set_replicas(
            target.topic, target.name.partition, nodes, expected_version=expected, deadline=deadline
        )
        self.taken.record_assignment(target.name, version)
        return f"{target.topic}/{target.name.partition} from {list(target.nodes)} to {nodes}"

    async def _move_twice(self, broker: Broker, deadline: Deadline) -> str:
        """Move a partition, while another operator moves it through another broker."""
        target = self._draw_target(broker)
        if target is None:
            return "nothing to move"
        rival = self.random.choice(list(self.cluster.machines.values()))
        rival.spawn(partial(self._move_as_rival, target), "a rival")
        return await self._move_partition(target, broker, deadline)

    async def _move_as_rival(self, target: Target, broker: Broker) -> None:
        """Move the partition as another operator, and note the outcome."""
        try:
            outcome = await self._move_partition(target, broker, deadline_in(RIVAL_MS))
        except RaftlogError as error:
            outcome = f"{type(error).__name__} {error}"
        self.loop.note("operator", f"the rival at n{broker.node_id}: {outcome}")

    async def _cancel(self, broker: Broker, deadline: Deadline) -> str:
        """Move a partition, and soon cancel this move or all moves of a broker; return a description."""
        target = self._draw_target(broker)
        if target is None:
            return "nothing to move"
        outcome = await self._move_partition(target, broker, deadline)
        await asyncio.sleep(self.random.uniform(0, 0.3))
        if self.random.random() < 0.5:
            version = await broker.operations.partitions.cancel_reconfiguration(
                target.topic, target.name.partition, deadline=deadline
            )
            self.taken.record_assignment(target.name, version)
        else:
            await broker.operations.partitions.cancel_moves(
                self.random.choice((None, *target.nodes)), deadline=deadline
            )
        return f"{outcome}, cancelled"

    async def _transfer(self, broker: Broker, deadline: Deadline) -> str:
        """Transfer the leadership of a random partition to one of its replicas; return a description."""
        target = self._draw_target(broker)
        if target is None:
            return "nothing to lead"
        transfer_target = self.random.choice((None, *target.nodes))
        leads = await broker.operations.leadership.transfer_leadership(
            target.topic, target.name.partition, transfer_target, deadline=deadline
        )
        return f"{target.topic}/{target.name.partition} to {transfer_target}: {leads} leads"

    # brokers

    async def _toggle_maintenance(self, broker: Broker, deadline: Deadline) -> str:
        """Begin or end the maintenance mode of a random broker; return a description."""
        state, operations = broker.metadata.state, broker.operations
        in_maintenance = state.in_maintenance()
        if in_maintenance and self.random.random() < 0.6:
            node, is_on = self.random.choice(in_maintenance), False
        else:
            node, is_on = self.random.choice([each.node_id for each in state.all_brokers()]), True
        await operations.brokers.set_maintenance(node, is_on, deadline=deadline)
        self.taken.count += 1
        return f"{node} {'on' if is_on else 'off'}: {await operations.brokers.maintenance(node, deadline=deadline)}"

    async def _decommission(self, broker: Broker, deadline: Deadline) -> str:
        """Decommission a random broker, recommission one, or query the status; return a description."""
        state, operations = broker.metadata.state, broker.operations
        brokers = state.all_brokers()
        draining = [each.node_id for each in brokers if each.is_draining]
        if draining and self.random.random() < 0.4:
            node = self.random.choice(draining)
            await operations.brokers.recommission(node, deadline=deadline)
            self.taken.count += 1
            return f"{node} stays after all"
        if draining:
            return str(await operations.brokers.decommission_status(self.random.choice(draining), deadline=deadline))
        is_spare = is_broker_spare(state, self.cluster.options.least_brokers)
        if not is_spare and self.random.random() > DECOMMISSION_BELOW_MIN:
            return "no broker can be spared"
        node = self.random.choice(brokers).node_id
        await operations.brokers.decommission(node, deadline=deadline)
        self.taken.count += 1
        self._maybe_kill([node])
        return f"{node} shall go"

    # the whole cluster

    async def _balance(self, broker: Broker, deadline: Deadline) -> str:
        """Request a rebalance, and query moves and status; return a description."""
        operations = broker.operations
        count = await operations.balancing.rebalance(deadline=deadline)
        moves = await operations.partitions.reconfigurations(deadline=deadline)
        return f"{count} shall move, {len(moves)} move; {await operations.balancing.balancer_status(deadline=deadline)}"

    async def _change_settings(self, broker: Broker, deadline: Deadline) -> str:
        """Change the cluster's settings at random; return a description."""
        wanted = {
            "balancer.mode": self.random.choice(MODES),
            "replicas.repair.after.ms": self.elasticity.repair_after_ms,
            "balancer.moves.max": self.random.choice((1, 16)),
        }
        version = await broker.operations.cluster.alter_cluster_config(wanted, deadline=deadline)
        return f"version {version}: {wanted}"
