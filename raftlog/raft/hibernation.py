"""Sleep of a group that has nothing to do: no ticks, no messages, until something wakes it.

A leader whose voters all hold its last entry, durably and committed, puts the group to sleep (`bedtime`). What keeps a
follower asleep is the heartbeat between the two *processes*, of which the driver reports the changes; its loss wakes
the group. A replica that stops leading while others may sleep tells them, again and again until they answer. Waking
gives the leader a fresh CheckQuorum period and leaves a follower loyal to nobody until it hears from the leader again;
so a sleeping group always finds a leader, and a healthy leader, woken by the same message, speaks up before anybody's
election timeout.

Safety rests on none of this: a sleeping replica answers every message as one that is awake would.
"""

from collections.abc import Iterable

from raftlog.raft.configuration import ReplicaId
from raftlog.types import NodeId


class Hibernation:
    """Whether this replica sleeps, which processes are there, and whom it still has to wake."""

    __slots__ = ("_alive_nodes", "_to_wake", "is_asleep")

    def __init__(self) -> None:
        self.is_asleep = False
        """Moved by `Replica.fall_asleep` and `Replica.maybe_wake` only."""
        self._alive_nodes: set[NodeId] = set()
        """Processes that were reported alive and not dead since; never iterated."""
        self._to_wake: dict[ReplicaId, None] = {}
        """Those that may sleep on because of us, in order; empty while this replica leads."""

    def note_process(self, node: NodeId, is_alive: bool) -> None:
        if is_alive:
            self._alive_nodes.add(node)
        else:
            self._alive_nodes.discard(node)

    def sees(self, replica: ReplicaId) -> bool:
        """Whether the process of this replica is known to be alive."""
        return replica.node_id in self._alive_nodes

    def owe_wake(self, replicas: Iterable[ReplicaId]) -> None:
        self._to_wake.update(dict.fromkeys(replicas))

    def has_woken(self, replica: ReplicaId) -> None:
        self._to_wake.pop(replica, None)

    def forget_wakes(self) -> None:
        """Somebody leads and will wake them."""
        self._to_wake.clear()

    @property
    def to_wake(self) -> tuple[ReplicaId, ...]:
        return tuple(self._to_wake)
