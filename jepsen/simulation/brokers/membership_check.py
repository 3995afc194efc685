"""Property observed from outside: only the controller's assignments decide the configuration of a Raft group.

    unordered-members   a leader adds only members that the orders contain, and removes only other members
    removed-disturbs    no leader loses its leadership to a replica that has no vote (any more)

Orders: the assignments of partitions, and for the controller the brokers that are registered and do not drain. So
neither gossip nor a lost connection changes a voter set. A leader is checked against its own copy of the controller's
state, the present one or one of the last few. Called by `watch` for every process."""

from collections import deque
from typing import Final, NamedTuple
from uuid import UUID

from jepsen.simulation.network.links import SECOND_NS
from jepsen.simulation.properties import GroupProperties, Replica
from jepsen.simulation.verdicts import PropertyBroken
from raftlog.partitions.controller import ControllerHost
from raftlog.partitions.controller.machine import ControllerState, GroupName
from raftlog.raft import Configuration, Entry, ReplicaId
from raftlog.runtime.journal.operations import GroupKey
from raftlog.types import Term

REMEMBERED_MAX: Final = 4
"""Number of former states that may explain a change: the leader's decision may be some changes old."""
GRACE_NS: Final[int] = 2 * SECOND_NS
"""Time, in nanoseconds, in which a candidate may win that campaigned while it still had a vote."""


class _WantedMembers(NamedTuple):
    """Wanted members of one Raft group in one copy of the controller's state.

    `dispensable` has those of them that a leader may still remove."""

    wanted: frozenset[ReplicaId]
    dispensable: frozenset[ReplicaId]


class _Change(NamedTuple):
    """Raft configuration appended by a leader, and its time."""

    entry: Entry
    at_ns: int


class MembershipCheck:
    """Observer of the assignments in each process, and of the configuration changes that follow them."""

    def __init__(self) -> None:
        self._copies: dict[Replica, ControllerHost] = {}
        self._known: dict[tuple[Replica, GroupKey], deque[_WantedMembers]] = {}
        self._digests: dict[Replica, tuple[bytes, bytes]] = {}
        """Digests of the assignments in the last state of each copy."""
        self._campaigns: dict[tuple[GroupKey, Term], dict[ReplicaId, int]] = {}
        """Candidates of each term, with the time of their first request."""
        self._leading: dict[tuple[Replica, GroupKey], Term] = {}
        self._changes: dict[GroupKey, list[_Change]] = {}

    # what happens

    def on_open(self, replica: Replica, metadata: ControllerHost) -> None:
        """Record the copy of the controller's state of a new process."""
        self._copies[replica] = metadata

    def on_state(self, replica: Replica) -> None:
        """Remember the assignments in a process's copy of the controller's state, unless they are unchanged."""
        state = self._copies[replica].state
        digests = state.topics.digest, state.moved.digest
        if digests == self._digests.get(replica):
            return
        self._digests[replica] = digests
        for key, name in _groups(state):
            self._record_assignment(replica, key, _wanted_members(state, name))

    def _record_assignment(self, replica: Replica, key: GroupKey, wanted: _WantedMembers) -> None:
        """Append a Raft group's wanted members to their history in this process, unless the last ones are the same."""
        known = self._known.setdefault((replica, key), deque(maxlen=REMEMBERED_MAX))
        if not known or known[-1] != wanted:
            known.append(wanted)

    def on_vote_request(self, key: GroupKey, term: Term, candidate: ReplicaId, now_ns: int) -> None:
        """Record that a replica campaigns."""
        self._campaigns.setdefault((key, term), {}).setdefault(candidate, now_ns)

    def on_leader(self, replica: Replica, key: GroupKey, term: Term) -> None:
        """Remember that the replica leads in this term."""
        self._leading[replica, key] = term

    def record_follower(self, replica: Replica, group: GroupProperties, key: GroupKey, term: Term) -> None:
        """Record that a replica follows in this term; if it led before, some candidate of the term must have a vote."""
        led = self._leading.pop((replica, key), None)
        if led is None or led >= term:
            return
        candidates = self._campaigns.get((key, term), {})
        if candidates and all(self._is_removed(group, key, who, at_ns) for who, at_ns in candidates.items()):
            numbers = {"group": group.name, "leader": str(replica), "term": led, "unseated_in": term}
            raise PropertyBroken("removed-disturbs", {**numbers, "by": ", ".join(map(str, candidates))})

    def _is_removed(self, group: GroupProperties, key: GroupKey, candidate: ReplicaId, asked_ns: int) -> bool:
        """Return whether a committed change removed the candidate's vote well before it campaigned.

        False if a later change, committed or not, restored the vote."""
        for change in self._changes.get(key, [])[::-1]:
            entry, members = change.entry, change.entry.configuration
            assert members is not None, entry
            if members.has_voter(candidate):
                return False
            if group.committed.get(entry.index) == entry.term:
                return change.at_ns + GRACE_NS < asked_ns
        return False

    def on_change(
        self, key: GroupKey, group: str, replica: Replica, before: Configuration, entry: Entry, now_ns: int
    ) -> None:
        """Check that an assignment explains a leader's new configuration, which differs from `before`."""
        self._changes.setdefault(key, []).append(_Change(entry, now_ns))
        after, copy = entry.configuration, self._copies.get(replica)
        if before.is_joint or after is None or copy is None:
            return  # the exit from a joint configuration was checked when the joint one began
        known = [*self._known.get((replica, key), ()), *_current_assignment(copy, key)]
        if known and not any(_is_explained_by(orders, before, after) for orders in known):
            wanted = " or ".join(_format_replicas(orders.wanted) for orders in known)
            numbers = {"group": group, "leader": str(replica), "before": before, "after": after, "ordered": wanted}
            raise PropertyBroken("unordered-members", numbers)


def _groups(state: ControllerState) -> list[tuple[GroupKey, GroupName]]:
    """Return the Raft groups of all partitions, by key and name."""
    names = [GroupName(topic.topic_id, number) for topic in state.topics for number in range(topic.partition_count)]
    return [(name.group_id.bytes, name) for name in names]


def _wanted_members(state: ControllerState, name: GroupName) -> _WantedMembers:
    """Return the members that the assignment of a partition contains; none of them is dispensable."""
    return _WantedMembers(frozenset(state.assignment(name).replicas), frozenset())


def _current_assignment(copy: ControllerHost, key: GroupKey) -> list[_WantedMembers]:
    """Return the present assignment in the copy; empty for an unknown Raft group."""
    state = copy.state
    if copy.group_id is not None and copy.group_id.bytes == key:
        brokers = state.all_brokers()
        draining = frozenset(broker.replica for broker in brokers if broker.is_draining)
        return [_WantedMembers(frozenset([*(broker.replica for broker in brokers), *state.absent_seeds()]), draining)]
    name = state.group(UUID(bytes=key))
    return [] if name is None else [_wanted_members(state, name)]


def _is_explained_by(orders: _WantedMembers, before: Configuration, after: Configuration) -> bool:
    """Return whether the assignment explains the change: all new members are wanted, and no removed one is.

    Learners may become voters and, in the controller, voters may become learners."""
    old, new = set(before.all_members()), set(after.voters) | set(after.learners)
    demoted = set(before.voters) & set(after.learners)
    return new - old <= orders.wanted and not ((old - new) | demoted) & (orders.wanted - orders.dispensable)


def _format_replicas(replicas: frozenset[ReplicaId]) -> str:
    """Return the replicas as sorted text."""
    return ", ".join(map(str, sorted(replicas)))
