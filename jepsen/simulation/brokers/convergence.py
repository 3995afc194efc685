"""End of a run of brokers: all faults end, and the cluster must recover within a bound.

In this order, each a property of its own when it does not happen: all brokers serve; their copies of the controller's
state are equal, and hold all acknowledged changes; every partition takes a write; members of groups agree on a
generation; damage is repaired; every broker has exactly its assigned replicas, all of them voters; all are alive by
gossip; requests of operators are done (`final_orders`); replicas of a Raft group are equal, file by file. Then every
partition is read from its start to its end through some broker, and the history is checked as a whole.
"""

from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from jepsen.checkers import Send
from jepsen.simulation.brokers.cluster import BrokerCluster
from jepsen.simulation.brokers.final_orders import FinalRequests
from jepsen.simulation.brokers.machine import DATA_DIR
from jepsen.simulation.brokers.nemesis import Nemesis
from jepsen.simulation.brokers.workload.administrators import Topic
from jepsen.simulation.brokers.workload.clients import KnownTopic
from jepsen.simulation.brokers.workload.final_drain import Drain
from jepsen.simulation.brokers.workload.group_members import describe_members_out_of_step
from jepsen.simulation.brokers.workload.workload import Workload
from jepsen.simulation.convergence import describe
from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.replicas import are_equal, compare_files, scrub
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.partitions.broker import Broker
from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.raft import ReplicaId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import TopicPartition

LOOK_S: Final = 0.2
TRASH: Final = f"{DATA_DIR}/.raftlog/trash"
WRITES_S: Final = 2.0
GOSSIP_S: Final = 60.0
"""Seconds after healing within which each broker has received gossip about all others."""


class Convergence:
    """Final phase of a run of brokers: recovery within a bound, then all comparisons."""

    def __init__(self, cluster: BrokerCluster, workload: Workload, nemesis: Nemesis) -> None:
        self.cluster, self.workload, self.nemesis = cluster, workload, nemesis
        self.loop, self.options = cluster.loop, cluster.options

    def check(self) -> None:
        """End all faults, wait for recovery, and compare replicas. Raises `PropertyBroken`."""
        options = self.options
        self.nemesis.end()
        healed_ns = self.loop.now_ns
        self._wait_for_none(options.start_s, "not-serving", self._not_serving)
        self.workload.stop_administrators()
        self.workload.keep_members_in_groups()
        self._wait_for_none(options.start_s, "metadata-differs", self._differing_metadata)
        self._check_topics()
        has_operators = bool(options.elasticity.orders or options.early_changes)
        settling = FinalRequests(self.cluster, self.nemesis.taken, self._wait_for_none)
        if has_operators:
            settling.settle()
        self.cluster.wanted = self._partitions()
        self._wait_for_none(options.progress_s, "no-progress", partial(self._groups_without_writes, healed_ns))
        self._wait_for_none(
            options.progress_s, "stuck-group", partial(describe_members_out_of_step, self.workload.members)
        )
        self.loop.run_for(WRITES_S)
        self.workload.stop()
        self._read_damaged_files()
        self._wait_for_none(options.convergence_s, "no-repair", self._unrepaired_damages)
        self._wait_for_none(options.convergence_s, "replicas-misplaced", self._misplaced_replicas)
        self._wait_for_none(options.convergence_s, "not-whole", self._unhealthy_groups)
        if options.early_changes is not None:
            self._wait_for_none(options.convergence_s, "files-left", self._left_directories)
        if options.gossip is not None:
            self._wait_for_none(GOSSIP_S, "gossip-disagrees", self._gossip_disagreements)
        if has_operators:
            settling.check_rest()
        self._wait_for_none(options.convergence_s, "no-convergence", self._differing_groups)
        Drain(self.cluster, self._partitions(), self.workload.commits).read_all()
        self._wait_for_none(
            options.convergence_s, "no-convergence", self._differing_groups
        )  # a leader may have changed meanwhile
        for key in self._keys():
            replicas = {machine.name: (machine.disk, group) for machine, group in self.cluster.replicas(key)}
            compare_files(self.cluster.watch.group(key).name, replicas)
        self._check_topics()
        self._check_history()

    def _check_history(self) -> None:
        """Check the whole history; records of deleted topics may be unread."""
        read = self._read_partitions()
        for anomaly in self.cluster.checker.finish().anomalies:
            sent = [op.payload.partition for op in anomaly.ops if isinstance(op.payload, Send)]
            if anomaly.kind in ("unseen", "resurrected-key") and not read.intersection(sent):
                continue
            numbers = {"what": anomaly.what, "operations": "; ".join(map(str, anomaly.ops))}
            raise PropertyBroken(anomaly.kind, numbers)

    def _wait_for_none(self, bound_s: float, name: str, missing: Callable[[], list[str]]) -> None:
        """Wait until `missing` returns an empty list; raise `PropertyBroken` of this name after `bound_s` seconds."""
        deadline_ns = self.loop.now_ns + int(bound_s * SECOND_NS)
        while wanted := missing():
            if self.loop.now_ns >= deadline_ns:
                numbers = {"bound_s": bound_s, "missing": "; ".join(wanted[:20]), "cluster": self._describe_replicas()}
                raise PropertyBroken(name, numbers)
            self.loop.run_for(LOOK_S)

    # the controller

    def _state(self) -> ControllerState:
        """Return the newest copy of the controller's state."""
        return self.cluster.newest_state()

    def _not_serving(self) -> list[str]:
        """Return the names of machines whose broker does not serve."""
        return [machine.name for machine in self.cluster.members() if machine.service is None]

    def _differing_metadata(self) -> list[str]:
        """Return descriptions of brokers that do not serve, differ from the newest state, or are not registered."""
        brokers = self.cluster.serving_members()
        if missing := self._not_serving():
            return missing
        copies = {machine.name: broker.metadata.state for machine, broker in brokers}
        newest = max(copies.values(), key=lambda state: state.applied_index)
        missing = [
            f"{name} applied {state.applied_index} of {newest.applied_index}"
            for name, state in copies.items()
            if state.state_hash() != newest.state_hash()
        ]
        unknown = [name for node, name in self._member_names().items() if newest.brokers.get(node) is None]
        return missing + [f"{name} is not registered" for name in unknown]

    def _member_names(self) -> dict[int, str]:
        """Return the names of the cluster's machines by node id."""
        return {machine.node_id: machine.name for machine in self.cluster.members()}

    def _check_topics(self) -> None:
        """Check that acknowledged changes of topics took effect; unknown outcomes are accepted either way."""
        state = self._state()
        for admin in self.workload.administrators:
            found = state.topic(admin.name).topic_id if state.has_topic(admin.name) else None
            numbers = {"topic": admin.name, "id": admin.topic_id, "found": found}
            if admin.topic is Topic.PRESENT and found != admin.topic_id:
                raise PropertyBroken("created-topic-gone", numbers)
            if admin.topic is Topic.ABSENT and found is not None:
                raise PropertyBroken("deleted-topic-back", numbers)
            if admin.topic is Topic.LEAVING and found not in (None, admin.topic_id):
                raise PropertyBroken("topic-from-nowhere", numbers)
        for operator in self.nemesis.early_operators:
            for topic in operator.topics:
                topic.check(state)

    # partitions

    def _partitions(self) -> dict[GroupKey, tuple[str, int]]:
        """Return all partitions of all topics that are not internal."""
        state = self._state()
        return {
            GroupName(topic.topic_id, number).group_id.bytes: (topic.name, number)
            for topic in sorted(state.topics, key=lambda topic: topic.name)
            if not topic.creation.is_internal
            for number in range(topic.partition_count)
        }

    def _read_partitions(self) -> set[TopicPartition]:
        """Return the partitions of existing topics, named as in the history.

        The order of the set is not reproducible."""
        state = self._state()
        return {
            KnownTopic(name, state.topic(name).topic_id, 0).partition(number)
            for name, number in self._partitions().values()
        }

    def _keys(self) -> list[GroupKey]:
        """Return the keys of all Raft groups with a replica, sorted."""
        return self.cluster.keys()

    def _groups_without_writes(self, since_ns: int) -> list[str]:
        """Return descriptions of partitions without a write since that time, and let clients write only to these."""
        written = self.workload.written_since(since_ns)
        self.cluster.wanted = {key: at for key, at in self._partitions().items() if key not in written}
        return [f"{name}/{number} took no write" for name, number in self.cluster.wanted.values()]

    def _read_damaged_files(self) -> None:
        """Read every file that may be damaged, unless the brokers' own scrub does that."""
        if self.options.scrub_s:
            return
        for damage in self.nemesis.faults.fault_budget.open_damages():
            damage.machine.call(partial(_scrub, damage.key))

    def _unrepaired_damages(self) -> list[str]:
        """Return descriptions of the damages that are not repaired yet."""
        return [str(damage) for damage in self.nemesis.faults.fault_budget.open_damages()]

    def _misplaced_replicas(self) -> list[str]:
        """Return descriptions of missing replicas, and of those that should have been removed."""
        state, found = self._state(), []
        for machine, broker in self.cluster.serving_members():
            me, groups = broker.node.identity.replica, broker.node.driver.groups
            wanted = _assigned_groups(state, me)
            found += [f"{machine.name} has no replica of {name}" for key, name in wanted.items() if key not in groups]
            found += [
                f"{machine.name} still has {group.path}"
                for key, group in groups.items()
                if key not in wanted and group.group_id != broker.metadata.group_id
            ]
        return found

    def _left_directories(self) -> list[str]:
        """Return the directories of no replica, which removed replicas and deleted topics must not leave."""
        found = []
        for machine, broker in self.cluster.serving_members():
            paths = {group.path for group in broker.node.driver.groups.values()}
            topics = {path.rpartition("/")[0] for path in paths}
            for name in machine.disk.list_directory(DATA_DIR):
                path = f"{DATA_DIR}/{name}"
                if name.startswith("."):
                    continue
                if path not in topics:
                    found.append(f"{machine.name} {path}")
                inner = [f"{path}/{child}" for child in machine.disk.list_directory(path)]
                found += [f"{machine.name} {child}" for child in inner if child not in paths]
            if machine.disk.exists(TRASH):
                found += [f"{machine.name} {TRASH}/{name}" for name in machine.disk.list_directory(TRASH)]
        return found

    def _unhealthy_groups(self) -> list[str]:
        """Return descriptions of Raft groups without a leader, with other voters than assigned, or with damage."""
        state, found = self._state(), []
        replicas = {machine.replica for machine in self.cluster.members() if machine.replica is not None}
        for key in self._keys():
            leading = self.cluster.leader(key)
            if leading is None:
                found.append(f"{self.cluster.watch.group(key).name} has no leader")
                continue
            name, members = state.group(UUID(bytes=key)), leading[1].core.configuration
            wanted = set(state.assignment(name).replicas) if name is not None else replicas
            if set(members.voters) != wanted or members.is_joint or members.learners or not wanted <= replicas:
                found.append(f"{self.cluster.watch.group(key).name} has {members}, and shall have {sorted(wanted)}")
            found += [
                f"{machine.name} {group.path} is not well: {group.damage}"
                for machine, group in self.cluster.replicas(key)
                if group.damage is not None or group.core.voting_position is not None
            ]
        return found

    def _gossip_disagreements(self) -> list[str]:
        """Return descriptions of brokers that another broker's gossip does not report as alive."""
        return [
            f"{machine.name} says that {member.node_id} is {member.state}"
            for machine, broker in self.cluster.serving_members()
            for member in broker.parts.gossip.members()
            if member.is_registered and member.state != "alive"
        ]

    def _differing_groups(self) -> list[str]:
        """Return the names of the Raft groups whose replicas are not yet equal."""
        return [self.cluster.watch.group(key).name for key in self._keys() if not is_same_everywhere(self.cluster, key)]

    def _describe_replicas(self) -> str:
        """Return a description of every replica, one a line."""
        lines = []
        for key in self._keys():
            name = self.cluster.watch.group(key).name
            lines += [f"\n    {name} {machine.name} {describe(group)}" for machine, group in self.cluster.replicas(key)]
        for machine in self.cluster.members():
            if machine.service is None:
                lines.append(f"\n    {machine.name} does not serve; its last process ended: {machine.end}")
        return "".join(lines)


def _assigned_groups(state: ControllerState, me: ReplicaId) -> dict[GroupKey, str]:
    """Return the names of the partitions that are assigned to this replica, by Raft group."""
    return {
        group.group_id.bytes: f"{state.topic_by_id(group.topic_id).name}/{group.partition}"
        for group in state.groups_of(me)
    }


def is_same_everywhere(cluster: BrokerCluster, key: GroupKey) -> bool:
    """Return whether the files of all replicas of the Raft group equal the leader's.

    False without a leader, or if a member has no replica."""
    found = cluster.leader(key)
    if found is None:
        return False
    leader = found[1]
    members = [group for _, group in cluster.replicas(key)]
    return len(members) >= len(leader.core.configuration.all_members()) and are_equal(leader, members)


def _scrub(key: GroupKey, broker: Broker) -> None:
    """Read all files of the group's replica in the broker's process."""
    scrub(broker.node.driver.groups.get(key))
