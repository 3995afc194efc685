"""Last phase of a run: completes the requests of operators, then checks that nothing changes any more.

Properties, by the name that a violation reports:

    order-refused       healed brokers accept requests
    stuck-in-silence    the status of a decommission that cannot finish names the reason
    not-decommissioned  a broker that can be spared is emptied and removed within the bound
    leads-in-maintenance, leaders-uneven, replicas-uneven
    no-rest, restless   changes end; after that no assignment, no Raft configuration and no leader changes
    order-lost          see `workload.operators`

Called by `convergence`, in two parts: before replicas are compared, and afterwards.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.workload.operators import AcceptedRequests
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.partitions.deadline import deadline_in
from raftlog.types import NodeId

TIMEOUT_MS: Final = 3_000
LOOK_S: Final = 0.3
SETTLED_S: Final = 6.0
"""Seconds without a change after which the balancer has nothing left to do."""
SPREAD_MAX: Final = 1
"""Largest difference between the numbers of replicas of two brokers."""

Within = Callable[[float, str, Callable[[], list[str]]], None]


class FinalRequests:
    """Last requests of operators.

    `wait_for_none` waits until its function returns an empty list, or raises `PropertyBroken`."""

    def __init__(self, cluster: BrokerCluster, taken: AcceptedRequests, wait_for_none: Within) -> None:
        self.cluster, self.taken = cluster, taken
        self.loop, self.options = cluster.loop, cluster.options
        self._wait_for_none = wait_for_none
        self._random = cluster.random("last orders")

    def settle(self) -> None:
        """Send the requests after which the cluster settles, and wait until decommissioned brokers have left."""
        self.taken.check(self.cluster.newest_state())
        self._request("settings", self._set_final_settings)
        for node in self.cluster.newest_state().in_maintenance():
            self._request("maintenance off", partial(self._end_maintenance, node))
        for node in self._draining():
            self._request("decommission", partial(self._recommission_if_needed, node))
        self._wait_for_none(self.options.convergence_s, "not-decommissioned", self._unfinished_decommissions)

    def check_rest(self) -> None:
        """Check that replicas and leaders are balanced, and that nothing changes any more. Raises `PropertyBroken`."""
        self._request("rebalance", self._rebalance)  # what operators have placed would stay for a while otherwise
        self._wait_for_none(self.options.convergence_s, "replicas-uneven", self._uneven_replicas)
        self._wait_for_none(self.options.convergence_s, "leaders-uneven", self._misplaced_leaders)
        self._wait_for_none(self.options.convergence_s, "no-rest", self._recent_changes)
        if changed := self._changes_within(self.options.elasticity.quiet_s):
            raise PropertyBroken("restless", {"within_s": self.options.elasticity.quiet_s, "changed": changed})

    def _recent_changes(self) -> list[str]:
        """Run for `SETTLED_S`; return descriptions of the Raft groups that changed meanwhile."""
        return self._changes_within(SETTLED_S)

    def _changes_within(self, seconds: float) -> list[str]:
        """Run for that time; return descriptions of the Raft groups that changed meanwhile."""
        before = self._group_states()
        self.loop.run_for(seconds)
        after = self._group_states()
        return [f"{name}: {before.get(name)}, {now}" for name, now in after.items() if before.get(name) != now]

    # orders

    def _request(self, description: str, operation: "Callable[[Broker], Coroutine[Any, Any, None]]") -> None:
        """Run the operation at random brokers until it succeeds. Raises `PropertyBroken` after `start_s`."""
        deadline_ns = self.loop.now_ns + int(self.options.start_s * SECOND_NS)
        outcomes: list[RaftlogError | None] = []
        while not outcomes or outcomes[-1] is not None:
            if self.loop.now_ns >= deadline_ns:
                raise PropertyBroken("order-refused", {"order": description, "says": outcomes[-1:]})
            asked = len(outcomes)
            machine = self._random.choice(self.cluster.members())
            machine.spawn(partial(_record_outcome, operation, outcomes), "the last orders")
            self.loop.run_until(lambda asked=asked: len(outcomes) > asked, within_s=2 * TIMEOUT_MS / 1000)  # type: ignore[misc]
            self.loop.run_for(LOOK_S)

    async def _set_final_settings(self, broker: Broker) -> None:
        """Switch the balancer on, with many moves at once, and the repair of absent replicas off."""
        wanted = {"balancer.mode": "continuous", "replicas.repair.after.ms": -1, "balancer.moves.max": 16}
        await broker.operations.cluster.alter_cluster_config(wanted, deadline=deadline_in(TIMEOUT_MS))

    async def _rebalance(self, broker: Broker) -> None:
        """Request that all replicas and leaders are balanced."""
        await broker.operations.balancing.rebalance(deadline=deadline_in(TIMEOUT_MS))

    async def _end_maintenance(self, node: NodeId, broker: Broker) -> None:
        """End the maintenance mode of a broker."""
        await broker.operations.brokers.set_maintenance(node, False, deadline=deadline_in(TIMEOUT_MS))

    def _draining(self) -> list[NodeId]:
        """Return the node ids of brokers that are being decommissioned."""
        return [broker.node_id for broker in self.cluster.newest_state().all_brokers() if broker.is_draining]

    async def _recommission_if_needed(self, node: NodeId, broker: Broker) -> None:
        """Recommission a decommissioned broker that cannot be spared; check that its status gives a reason."""
        state = broker.metadata.state
        if self._is_dispensable(node, state):
            return
        status = await broker.operations.brokers.decommission_status(node, deadline=deadline_in(TIMEOUT_MS))
        if not status.finished and status.reason is None and not status.allocation_failures:
            raise PropertyBroken("stuck-in-silence", {"broker": node, "status": status})
        await broker.operations.brokers.recommission(node, deadline=deadline_in(TIMEOUT_MS))

    def _is_dispensable(self, node: NodeId, state: ControllerState) -> bool:
        """Return whether enough non-draining brokers exist for the replicas of every partition."""
        staying = [each for each in state.all_brokers() if not each.is_draining]
        factors = [len(replicas) for topic in state.topics for replicas in state.replicas_of(topic)]
        return len(staying) >= max(factors, default=1)

    def _unfinished_decommissions(self) -> list[str]:
        """Return descriptions of the decommissions that have not finished."""
        return [f"n{node} is draining still" for node in self._draining()]

    # rest

    def _groups(self) -> list[tuple[GroupName, str]]:
        """Return all partitions, with their names for reports."""
        state = self.cluster.newest_state()
        return [
            (GroupName(topic.topic_id, number), f"{topic.name}/{number}")
            for topic in sorted(state.topics, key=lambda topic: topic.name)
            for number in range(topic.partition_count)
        ]

    def _misplaced_leaders(self) -> list[str]:
        """Return descriptions of partitions that are not led by their preferred leader."""
        state, found = self.cluster.newest_state(), []
        for group, name in self._groups():
            leading, preferred = self.cluster.leader(group.group_id.bytes), state.assignment(group).replicas[0]
            if leading is None or leading[0].replica != preferred:
                found.append(f"{name} is led by {leading and leading[0].name}, and shall be by {preferred}")
        return found

    def _uneven_replicas(self) -> list[str]:
        """Return each broker's number of replicas, as text, if two of them differ by more than `SPREAD_MAX`."""
        state = self.cluster.newest_state()
        counts = Counter({broker.replica: 0 for broker in state.all_brokers()})
        for topic in state.topics:
            for replicas in state.replicas_of(topic):
                counts.update(replicas)
        if not counts or max(counts.values()) - min(counts.values()) <= SPREAD_MAX:
            return []
        return [f"{replica} has {count}" for replica, count in sorted(counts.items())]

    def _group_states(self) -> dict[str, object]:
        """Return for every Raft group its assignment's version, newest term and newest configuration."""
        state = self.cluster.newest_state()
        found: dict[str, object] = {}
        for group, name in self._groups():
            key, assignment = group.group_id.bytes, state.assignment(group)
            leading = self.cluster.leader(key)
            members = None if leading is None else leading[1].core.configuration.index
            found[name] = (assignment.version, self.cluster.watch.newest_term(key), members)
        return found


async def _record_outcome(
    operation: "Callable[[Broker], Coroutine[Any, Any, None]]", outcomes: "list[RaftlogError | None]", broker: Broker
) -> None:
    """Run the operation, and append its error to `outcomes`, or None if it succeeded."""
    try:
        await operation(broker)
    except RaftlogError as error:
        outcomes.append(error)
    else:
        outcomes.append(None)
