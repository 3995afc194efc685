"""Quiescence of an idle Raft group: no ticks, no messages, until an event wakes it.

A leader whose voters all hold its last entry, durably and committed, quiesces the Raft group (`quiescence`). A follower
stays quiesced as long as the heartbeat between the two *processes* lasts; the driver reports its changes, and its loss
wakes the Raft group. A replica that stops leading while others may be quiesced sends them wakes until they answer.
Waking gives the leader a new CheckQuorum period and leaves a follower without leader contact until the leader's next
message; so a quiesced Raft group always finds a leader, and a healthy leader, woken by the same message, sends a
heartbeat before any election timeout. Safety depends on none of this: a quiesced replica answers every message like any
other."""

from collections.abc import Iterable

from raftlog.raft.configuration import ReplicaId
from raftlog.types import NodeId


class QuiescenceState:
    """Quiescence of one replica: whether it is quiesced, which processes are alive, which replicas it must wake."""

    __slots__ = ("_alive_nodes", "_to_wake", "is_quiesced")

    def __init__(self) -> None:
        self.is_quiesced = False
        """Whether the replica is quiesced."""
        self._alive_nodes: set[NodeId] = set()
        """Nodes whose process was last reported alive. Never iterated, because its order varies."""
        self._to_wake: dict[ReplicaId, None] = {}
        """Replicas that may be quiesced and get wakes until they answer, in order; empty while this replica leads."""

    def note_process(self, node: NodeId, is_alive: bool) -> None:
        """Record whether the process of `node` is alive."""
        if is_alive:
            self._alive_nodes.add(node)
        else:
            self._alive_nodes.discard(node)

    def is_process_alive(self, replica: ReplicaId) -> bool:
        """Return whether the process of this replica is known to be alive."""
        return replica.node_id in self._alive_nodes

    def add_replicas_to_wake(self, replicas: Iterable[ReplicaId]) -> None:
        """Add replicas to wake; they stay until they answer."""
        self._to_wake.update(dict.fromkeys(replicas))

    def remove_replica_to_wake(self, replica: ReplicaId) -> None:
        """Remove a replica that has answered."""
        self._to_wake.pop(replica, None)

    def clear_replicas_to_wake(self) -> None:
        """Remove all replicas to wake, because a leader will wake them."""
        self._to_wake.clear()

    @property
    def replicas_to_wake(self) -> tuple[ReplicaId, ...]:
        """Replicas that get wakes until they answer, in the order of their addition."""
        return tuple(self._to_wake)
