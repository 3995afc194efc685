"""Operator of a Raft group: changes its voters to the target, one small change at a time.

It uses the leader's state, waits until the last change is finished, and requests the next: a learner first, which
becomes a voter once it has caught up, often in exchange for a voter to remove. Members whose disk is lost are replaced
under the new disk's uuid. Removed replicas are deleted after a while; until then they must not disturb the group.

A removed replica never returns under the same identity, because its votes refer to a log that it no longer has.
"""

import asyncio
from functools import partial
from random import Random
from typing import Final

from jepsen.simulation.cluster import Cluster, GroupPlan
from jepsen.simulation.machine import Machine
from jepsen.simulation.nemesis.fault_budget import FaultBudget
from jepsen.simulation.network.links import MILLISECOND_NS, SECOND_NS
from jepsen.simulation.options import Fault
from raftlog.errors import RaftlogError
from raftlog.raft import Configuration, ConfigurationChange, ReplicaId
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import Committed, PartitionReplica
from raftlog.types import NodeId

STEP_NS: Final = 300 * MILLISECOND_NS
LINGER_NS: Final = 4 * SECOND_NS
"""Time, in nanoseconds, that a removed replica stays."""
CAUGHT_UP_ENTRIES: Final = 8
INTERFERENCE: Final = 0.05
"""Share of steps in which two changes are requested at once, perhaps at a wrong time."""


class Operator:
    """Simulated operator that changes the voters of a Raft group; `target` has the nodes that are to be voters."""

    def __init__(self, cluster: Cluster, plan: GroupPlan, fault_budget: FaultBudget, random: Random) -> None:
        self.cluster, self.plan, self.fault_budget, self.random = cluster, plan, fault_budget, random
        self.target: tuple[NodeId, ...] = tuple(replica.node_id for replica in plan.initial)
        self.has_interference = Fault.MEMBERS in cluster.options.faults
        """Whether a second operator interferes; false at the end of a run."""
        self._removed_ns: dict[ReplicaId, int] = {}

    def start(self) -> None:
        """Schedule the first step after `STEP_NS`."""
        self.cluster.loop.call_at_ns(self.cluster.loop.now_ns + STEP_NS, self._step)

    def change_target(self) -> None:
        """Request other voters: some added, some removed."""
        able = [node_id for node_id, machine in self.cluster.machines.items() if machine.me not in self.plan.retired]
        count = self.random.choice((len(self.target) - 1, len(self.target), len(self.target), len(self.target) + 1))
        count = min(max(count, 2, self.cluster.options.nodes - 1), 5, len(able))
        if count >= 2:
            self.target = tuple(sorted(self.random.sample(able, count)))
            self.cluster.loop.note("operator", f"{self.plan.partition} shall have nodes {_list_nodes(self.target)}")

    def is_done(self) -> bool:
        """Return whether the committed Raft configuration has exactly the target's nodes as voters, and no learners.

        Also false without a leader, or while removed replicas are not deleted."""
        found = self.cluster.leader(self.plan)
        if found is None:
            return False
        core = found[1].core
        settled = not core.configuration.is_joint and core.configuration.index <= core.committed_index
        return settled and self._next_change(found[1]) is None and not self._leftover_machines(core.configuration)

    # one step

    def _step(self) -> None:
        """Schedule the next step, delete removed replicas, and request one change if none is pending."""
        self.start()
        found = self.cluster.leader(self.plan)
        if found is None:
            return
        machine, group = found
        configuration = group.core.configuration
        if self.has_interference and self.random.random() < INTERFERENCE:
            self._interfere(machine, configuration)
        if configuration.is_joint or configuration.index > group.core.committed_index:
            return
        self._remove_leftover_replicas(configuration)
        change = self._next_change(group)
        if change is not None:
            machine.call(partial(self._change, change))

    def _interfere(self, machine: Machine, configuration: Configuration) -> None:
        """Try to demote two voters at once, without waiting for pending changes; at most one change may succeed."""
        for voter in self.random.sample(configuration.voters, min(2, len(configuration.voters) - 1)):
            voters = tuple(other for other in configuration.voters if other != voter)
            change = ConfigurationChange(voters, (*configuration.learners, voter), configuration.index)
            if self.fault_budget.allows(
                self.plan, Configuration(configuration.index, voters, change.learners, configuration.voters)
            ):
                machine.call(partial(self._change, change))

    def _next_change(self, group: PartitionReplica) -> ConfigurationChange | None:
        """Return the next configuration change towards the target; None if there is none, or none is allowed now.

        First missing replicas become learners, then caught-up learners become voters, then unwanted members leave."""
        configuration = group.core.configuration
        wanted = [self.cluster.machines[node_id].me for node_id in self.target]
        missing = [
            replica for replica in wanted if replica not in configuration.voters and replica not in self.plan.retired
        ]
        for replica in missing:
            if replica not in configuration.learners:
                if not self._ensure_exists(replica):
                    return None
                added = self._allow_change(configuration, configuration.voters, (*configuration.learners, replica))
                if added is not None:
                    return added
                break  # too many members are lost: those without a vote have to leave first
        obsolete = [voter for voter in configuration.voters if voter not in wanted]
        obsolete.sort(key=lambda voter: self.cluster.machine_of(voter) is not None)
        caught_up = [replica for replica in missing if self._is_caught_up(group, replica)]
        if caught_up:
            leaves = obsolete[:1] if self.random.random() < 0.6 else []
            return self._exchange_voter(configuration, caught_up[0], leaves) or self._exchange_voter(
                configuration, caught_up[0], obsolete[:1]
            )
        if obsolete and not missing:
            voters = tuple(voter for voter in configuration.voters if voter != obsolete[0])
            return self._allow_change(configuration, voters, configuration.learners)
        learners = tuple(learner for learner in configuration.learners if learner in wanted)
        return (
            self._allow_change(configuration, configuration.voters, learners)
            if learners != configuration.learners
            else None
        )

    def _exchange_voter(
        self, configuration: Configuration, enters: ReplicaId, leaves: list[ReplicaId]
    ) -> ConfigurationChange | None:
        """Return the change that makes `enters` a voter and removes `leaves`; None if it is not allowed.

        Other voters on the same node, with a lost disk, are removed as well."""
        same_node = [voter for voter in configuration.voters if voter.node_id == enters.node_id]
        voters = tuple(voter for voter in configuration.voters if voter not in leaves and voter not in same_node)
        learners = tuple(learner for learner in configuration.learners if learner != enters)
        return self._allow_change(configuration, (*voters, enters), learners)

    def _allow_change(
        self, configuration: Configuration, voters: tuple[ReplicaId, ...], learners: tuple[ReplicaId, ...]
    ) -> ConfigurationChange | None:
        """Return the change if it leaves enough healthy members, else None."""
        change = ConfigurationChange(voters, learners, configuration.index)
        is_sound = len(voters) > 0 and self.fault_budget.allows(
            self.plan, configuration.begin_change(change, configuration.index)
        )
        return change if is_sound else None

    def _ensure_exists(self, replica: ReplicaId) -> bool:
        """Return whether the new replica exists, and create it when it is missing."""
        machine = self.cluster.machine_of(replica)
        if machine is None or machine.driver is None:
            return False
        if machine.group(self.plan.key) is None:
            machine.call(partial(self._join, machine))
            return False
        return True

    def _join(self, machine: Machine, driver: Driver) -> None:
        """Create the replica on this machine as a member without a log, unless it exists."""
        if self.plan.key not in driver.groups and machine.driver is driver:
            try:
                group = driver.join_group(self.plan.group_id)
            except (RaftlogError, OSError) as error:
                machine.note(f"{self.plan.partition}: cannot join, {error}")
                return
            machine.note(f"{self.plan.partition}: joins as {machine.me}")
            self.cluster.on_recovery(machine, group)

    def _is_caught_up(self, group: PartitionReplica, replica: ReplicaId) -> bool:
        """Return whether the leader knows that the replica lacks at most `CAUGHT_UP_ENTRIES` committed entries."""
        for follower in group.core.status().followers:
            if follower.member == replica:
                return follower.match_index + CAUGHT_UP_ENTRIES >= group.core.committed_index
        return False

    def _change(self, change: ConfigurationChange, driver: Driver) -> None:
        """Request the change from the replica in this driver, and note the result when it is known."""
        group = driver.groups.get(self.plan.key)
        if group is not None:
            voters, learners = _list_replicas(change.voters), _list_replicas(change.learners)
            self.cluster.loop.note("operator", f"{self.plan.partition}: voters {voters}, learners {learners}")
            group.change_members(change).add_done_callback(self._note_failure)

    def _note_failure(self, future: "asyncio.Future[Committed]") -> None:
        """Note why a change failed; raise errors that are not the product's."""
        error = future.exception()
        if isinstance(error, RaftlogError):
            self.cluster.loop.note("operator", f"{self.plan.partition}: not changed, {error}")
        elif error is not None:
            raise error

    # removed replicas

    def _leftover_machines(self, configuration: Configuration) -> list[Machine]:
        """Return machines with a replica that neither belongs to the Raft group nor is wanted as a member."""
        return [
            machine
            for machine, _ in self.cluster.replicas(self.plan)
            if not configuration.has_member(machine.me) and machine.me not in map(self._replica_on, self.target)
        ]

    def _replica_on(self, node_id: NodeId) -> ReplicaId:
        """Return the identity that a replica on this node has now."""
        return self.cluster.machines[node_id].me

    def _remove_leftover_replicas(self, configuration: Configuration) -> None:
        """Retire replicas that were removed from the group, and delete them after `LINGER_NS`."""
        now_ns = self.cluster.loop.now_ns
        for machine in self._leftover_machines(configuration):
            since_ns = self._removed_ns.setdefault(machine.me, now_ns)
            self.plan.retired.add(machine.me)
            if now_ns - since_ns >= LINGER_NS:
                machine.call(partial(self._remove, machine))

    def _remove(self, machine: Machine, driver: Driver) -> None:
        """Delete the replica on this machine."""
        if self.plan.key in driver.groups:
            machine.note(f"{self.plan.partition}: is removed here")
            driver.remove_group(self.plan.key)


def _list_nodes(nodes: tuple[NodeId, ...]) -> str:
    """Return the node ids as text."""
    return ", ".join(map(str, nodes))


def _list_replicas(replicas: tuple[ReplicaId, ...]) -> str:
    """Return the replicas as text."""
    return ", ".join(map(str, replicas)) or "none"
