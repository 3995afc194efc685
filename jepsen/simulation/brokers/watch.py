"""Observer of all brokers while they run: the log of every Raft group, and the copies of the controller's state.

Raft groups: the properties of the simulation of drivers (`properties`), and the changes of Raft configurations
(`membership_check`). Controller: two copies with the same applied index are equal, a cluster has one
id, and a topic that was deleted is in no later state. Called by hooks that are put into each process when it starts
(`on_open`); independent of the product's assertions."""

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from jepsen.simulation.brokers.membership_check import MembershipCheck
from jepsen.simulation.cluster import newest_entries
from jepsen.simulation.node import Node as Computer
from jepsen.simulation.properties import GroupProperties, RecoveredState, Replica, ReplicaState
from jepsen.simulation.verdicts import PropertyBroken
from jepsen.simulation.virtual_time.loop import VirtualLoop
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import ControllerState
from raftlog.raft import Configuration, Entry, Ready, ReplicaId, Restart, Role
from raftlog.raft.messages import InstallOffer, VoteRequest
from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.process.driver import Driver
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.transport import Envelope
from raftlog.types import Offset, Term

CONTROLLER: Final = "controller"


def _ignore_event(*_: object) -> None:
    return None


class ObservedProcess(NamedTuple):
    """Process of a broker with its driver, as observed from outside."""

    computer: Computer
    driver: Driver

    @property
    def me(self) -> Replica:
        """Replica's identity since this start of the process."""
        return Replica(self.driver.me, self.computer.starts)


class Watch:
    """Observer of all brokers of one run, which checks their Raft groups.

    `is_damage_expected` returns whether files of this Raft group on this machine were damaged."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.is_damage_expected: Callable[[Computer, GroupKey], bool] = lambda _computer, _key: False
        self.on_offer: Callable[[InstallOffer], None] = _ignore_event
        """Called when a leader offers an installation to a replica whose log ends before the leader's log start."""
        self.on_change: Callable[[Replica, Configuration, Configuration], None] = _ignore_event
        """Called when a leader appends a new Raft configuration."""
        self.elections = 0
        self.membership = MembershipCheck()
        self.cluster_id: uuid.UUID | str | None = None
        """Cluster id of the first broker that had one."""
        self._groups: dict[GroupKey, GroupProperties] = {}
        self._removed: dict[ReplicaId, dict[GroupKey, None]] = {}
        """Raft groups that a disk was ordered to remove."""
        self._hashes: dict[int, tuple[bytes, str]] = {}
        """Hash of the controller's state by applied index, and name of the broker that had it first."""
        self._deleted: dict[uuid.UUID, tuple[int, str]] = {}
        """Deleted topics: index of the deletion, and the topic's name."""

    # groups

    def on_open(self, computer: Computer, driver: Driver, metadata: ControllerHost) -> None:
        """Begin to observe a process that has only recovered its disk so far."""
        observed = ObservedProcess(computer, driver)
        self.membership.on_open(observed.me, metadata)
        self._check_no_replica_lost(observed)
        for group in list(driver.groups.values()):
            self._on_recovery(observed, group)
        self._observe_driver(observed)

    def _observe_driver(self, observed: ObservedProcess) -> None:
        """Wrap the driver's callbacks, to observe its Raft groups."""
        driver = observed.driver
        add, remove, stepped, damaged = driver.add, driver.remove_group, driver.on_step, driver.on_damage
        removed = self._removed.setdefault(driver.me, {})

        def add_group(group_id: uuid.UUID, path: str, log: GroupLog, restart: Restart) -> PartitionReplica:
            """Add the Raft group, and check the recovered replica."""
            group = add(group_id, path, log, restart)
            if group.key in removed:
                del removed[group.key]
                self.group(group.key).promises.record_readdition(driver.me)
            self._on_recovery(observed, group)
            return group

        def remove_group(key: GroupKey) -> None:
            """Record the removal, and remove the Raft group."""
            removed[key] = None
            remove(key)

        def on_step(group: PartitionReplica, ready: Ready) -> None:
            """Check the Ready after it was executed."""
            stepped(group, ready)
            self._on_ready(observed, group, ready)

        def on_damage(group: PartitionReplica) -> None:
            """Check that a fault caused the damage, and report it as usual."""
            self._check_damage(observed, group)
            damaged(group)

        driver.on_damage = on_damage  # type: ignore[method-assign]
        driver.add = add_group  # type: ignore[method-assign]
        driver.remove_group = remove_group  # type: ignore[method-assign]
        driver.on_step = on_step

    def _check_no_replica_lost(self, observed: ObservedProcess) -> None:
        """Raise `PropertyBroken` if a process lacks a replica that its disk held and that was not removed."""
        removed = self._removed.get(observed.driver.me, {})
        for key, properties in self._groups.items():
            if key in observed.driver.groups or key in removed:
                continue
            if properties.promises.has_promised(observed.driver.me):
                raise PropertyBroken("replica-gone", {"replica": observed.me, "group": properties.name})

    def group(self, key: GroupKey) -> GroupProperties:
        """Return the properties of a Raft group."""
        properties = self._groups.get(key)
        if properties is None:
            properties = self._groups[key] = GroupProperties(uuid.UUID(bytes=key).hex[:8])
            properties.on_members = partial(self._on_configuration, key)
        return properties

    def _on_configuration(self, key: GroupKey, replica: Replica, before: Configuration, entry: Entry) -> None:
        """Check a Raft configuration that a leader appended, and report it to `on_change`."""
        name, after = self.group(key).name, entry.configuration
        assert after is not None, entry
        self.membership.on_change(key, name, replica, before, entry, self.loop.now_ns)
        self.loop.note(f"n{replica.me.node_id}", f"{name}: {_describe_configuration(after)}")
        self.on_change(replica, before, after)

    def _on_recovery(self, observed: ObservedProcess, group: PartitionReplica) -> None:
        """Check a replica that a process recovered or created, and note it in the timeline."""
        properties, log = self.group(group.key), group.log
        where = group.path.removeprefix(f"{observed.driver.data_dir}/")
        properties.name = f"{where} ({uuid.UUID(bytes=group.key).hex[:8]})"
        self._check_damage(observed, group)
        self._note(observed, f"{where}: has {log.last_index}@{group.core.last_id.term} in term {group.core.term}")
        committed = max(group.core.committed_index, log.boundary.index)
        properties.observe_restart(
            observed.me,
            log,
            RecoveredState(
                newest_entries(group),
                committed,
                group.high_watermark,
                group.core.term,
                group.core.configuration,
                group.core.voting_position,
                group.damage is not None,
            ),
        )

    def _check_damage(self, observed: ObservedProcess, group: PartitionReplica) -> None:
        """Raise `PropertyBroken` for damage that no fault has caused."""
        if group.damage is not None and not self.is_damage_expected(observed.computer, group.key):
            raise PropertyBroken(
                "unprovoked-damage", {"replica": observed.me, "group": group.path, "damage": group.damage}
            )

    def _on_ready(self, observed: ObservedProcess, group: PartitionReplica, ready: Ready) -> None:
        """Check a Ready of a replica, and note each change of its role."""
        core = group.core
        now = ReplicaState(core.term, core.role is Role.LEADER, core.configuration, group.high_watermark)
        properties = self.group(group.key)
        properties.observe_ready(observed.me, group.log, ready, now)
        role = ready.role_state
        if role is not None:
            if role.role is Role.LEADER:
                self.elections += 1
                self.membership.on_leader(observed.me, group.key, role.term)
            elif role.role is Role.FOLLOWER:
                self.membership.record_follower(observed.me, properties, group.key, role.term)
            self._note(observed, f"{properties.name}: {role.role.value} of term {role.term}: {role.reason}")
        self.loop.trace.record_number(core.committed_index)

    def on_send(self, driver: Driver | None, envelopes: Sequence[Envelope]) -> None:
        """Observe Raft messages that a process hands to its transport."""
        if driver is None:
            return
        for key, message in envelopes:
            group = driver.groups.get(key)
            if group is not None:
                self.group(key).observe_message(message, group.log, group.core.term)
                if type(message) is InstallOffer:
                    self.on_offer(message)
                elif type(message) is VoteRequest:
                    self.membership.on_vote_request(key, message.term, message.sender, self.loop.now_ns)

    def on_stale_send(self, computer: Computer, envelopes: Sequence[Envelope]) -> None:
        """Raise `PropertyBroken`: a process on a stale disk has forgotten its votes, so it must send nothing."""
        kinds = ", ".join(type(message).__name__ for _, message in envelopes)
        raise PropertyBroken("stale-disk-takes-part", {"broker": computer.name, "sends": kinds})

    def observe_acknowledgement(self, key: GroupKey, label: str, first: Offset, after: Offset) -> None:
        """Check that offsets acknowledged to a client are committed."""
        committed = self.group(key).committed_offset
        if after > committed:
            numbers = {"partition": label, "first": first, "after": after, "committed": committed}
            raise PropertyBroken("acknowledged-uncommitted", numbers)

    def observe_end(self, key: GroupKey, label: str, end: Offset) -> None:
        """Check that the high watermark returned to a client is committed."""
        committed = self.group(key).committed_offset
        if end > committed:
            raise PropertyBroken("uncommitted-shown", {"partition": label, "end": end, "committed": committed})

    def newest_term(self, key: GroupKey) -> Term:
        """Return the newest term of all leaders so far."""
        return max(self.group(key).leaders, default=Term(0))

    # the controller

    def observe_cluster_id(self, computer: Computer, cluster_id: uuid.UUID | str | None) -> None:
        """Check that a broker has the same cluster id as all others."""
        if cluster_id is None:
            return
        if self.cluster_id is None:
            self.cluster_id = str(cluster_id)
        elif self.cluster_id != str(cluster_id):
            numbers = {"broker": computer.name, "says": cluster_id, "others": self.cluster_id}
            raise PropertyBroken("two-clusters", numbers)

    def on_state(self, computer: Computer, state: ControllerState) -> None:
        """Check a new copy of the controller's state in a broker."""
        if state.bootstrap is not None:
            self.observe_cluster_id(computer, state.bootstrap.cluster_id)
        index, digest = state.applied_index, state.state_hash()
        known, by = self._hashes.setdefault(index, (digest, computer.name))
        if known != digest:
            raise PropertyBroken("controller-diverged", {"index": index, "broker": computer.name, "other": by})
        for row in state.deleted:
            if row.topic_id not in self._deleted:
                self._deleted[row.topic_id] = (row.version, row.name)
        for topic in state.topics:
            deleted = self._deleted.get(topic.topic_id)
            if deleted is not None and index >= deleted[0]:
                numbers = {"topic": topic.name, "id": topic.topic_id, "deleted_at": deleted[0], "applied": index}
                raise PropertyBroken("topic-resurrected", {**numbers, "broker": computer.name})

    def is_deleted(self, topic_id: uuid.UUID) -> bool:
        """Return whether a broker's state had the topic among the deleted ones."""
        return topic_id in self._deleted

    def _note(self, observed: ObservedProcess, text: str) -> None:
        """Add an event of the process's node to the timeline."""
        self.loop.note(observed.computer.name, text)


def _describe_configuration(configuration: Configuration) -> str:
    """Return the members of a configuration as shown in the timeline."""
    parts = (("voters", configuration.voters), ("before", configuration.outgoing), ("learners", configuration.learners))
    return ", ".join(
        f"{label} {' '.join(str(each.node_id) for each in replicas)}" for label, replicas in parts if replicas
    )
