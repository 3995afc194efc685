"""Heartbeats between processes: liveness, boot epoch and synced journal sequence of each.

Quiesced groups rely on these heartbeats instead of their own (one message for each pair of processes and interval,
whatever the number of groups they share). A process that was silent for `silence_ticks` counts as failed; a new boot
epoch means a restart. A boot epoch or a journal sequence that falls belongs to a stale copy of a disk: it is reported,
and does not count as a sign of life.

    heartbeats go only to nodes that share a group, and only their silence counts
    epoch and sequence are those of one disk uuid"""

from collections.abc import Callable, Iterable

from raftlog.runtime.journal.operations import GroupKey
from raftlog.runtime.transport import ProcessHeartbeat, Transport
from raftlog.types import NodeId


class _PeerProcess:
    """Liveness of one other process."""

    __slots__ = ("heartbeat", "heartbeat_tick", "is_alive")

    def __init__(self) -> None:
        self.heartbeat: ProcessHeartbeat | None = None
        """Newest heartbeat: its epoch and its sequence never fall."""
        self.heartbeat_tick = 0
        self.is_alive = False


class PeerLiveness:
    """Liveness of the other processes; `on_change(node, is_alive)` is called for every change."""

    def __init__(self, me: NodeId, transport: Transport, heartbeat_ticks: int, silence_ticks: int) -> None:
        """Begin without peers; a peer is silent after `silence_ticks` ticks without a heartbeat."""
        self._me = me
        self._transport = transport
        self._heartbeat_ticks = heartbeat_ticks
        self._silence_ticks = silence_ticks
        self._peers: dict[NodeId, _PeerProcess] = {}
        self._members: dict[GroupKey, tuple[NodeId, ...]] = {}
        self._groups_shared: dict[NodeId, int] = {}
        """Number of groups with a member on each node; nodes without any are left out."""
        self._is_changed = False
        """Whether `_peers` lacks a node with which a group is shared, or has one without a shared group."""
        self._tick = 0
        self.on_change: Callable[[NodeId, bool], None] = lambda node, is_alive: None

    def alive_nodes(self) -> list[NodeId]:
        """Return the nodes whose heartbeats arrive."""
        return [node for node, peer in self._peers.items() if peer.is_alive]

    def share(self, key: GroupKey, members: Iterable[NodeId]) -> None:
        """Set the nodes of a Raft group that has a replica here; effective from the next tick on."""
        self.unshare(key)
        nodes = self._members[key] = tuple(sorted({*members} - {self._me}))
        for node in nodes:
            count = self._groups_shared.get(node, 0)
            self._groups_shared[node] = count + 1
            self._is_changed |= not count

    def unshare(self, key: GroupKey) -> None:
        """Remove a Raft group; from the next tick on, nodes without another shared group are not peers."""
        for node in self._members.pop(key, ()):
            self._groups_shared[node] -= 1
            if not self._groups_shared[node]:
                del self._groups_shared[node]
                self._is_changed = True

    def _set_nodes(self) -> None:
        """Set the peers to the nodes with a shared group, in a fixed order; nodes that stay keep their state."""
        self._is_changed = False
        self._peers = {node: self._peers.get(node) or _PeerProcess() for node in sorted(self._groups_shared)}

    def tick(self, heartbeat: ProcessHeartbeat) -> None:
        """Advance the time by one tick; `heartbeat` is this process's own heartbeat."""
        if self._is_changed:
            self._set_nodes()
        self._tick += 1
        if self._tick % self._heartbeat_ticks == 0:
            for node in self._peers:
                self._transport.send_heartbeat(node, heartbeat)
        for node, peer in list(self._peers.items()):
            if peer.is_alive and self._tick - peer.heartbeat_tick >= self._silence_ticks:
                peer.is_alive = False
                self.on_change(node, False)

    def note_heartbeat(self, node: NodeId, heartbeat: ProcessHeartbeat) -> None:
        """Record a heartbeat that arrived; heartbeats of nodes without a shared group have no effect."""
        peer = self._peers.get(node)
        if peer is None:
            return
        last = peer.heartbeat
        if last is not None and heartbeat.disk_uuid != last.disk_uuid:
            last = None  # another disk took this node's place; heartbeats do not decide whether it may
            self._declare_failed(node, peer)
        if last is not None and heartbeat.boot_epoch < last.boot_epoch:
            return  # a process on an old copy of its disk
        is_new_boot = last is not None and heartbeat.boot_epoch > last.boot_epoch
        if is_new_boot and last is not None and heartbeat.journal_sequence < last.journal_sequence:
            return  # a process on an old copy of its disk
        peer.heartbeat_tick = self._tick
        if last is None or is_new_boot or heartbeat.journal_sequence > last.journal_sequence:
            peer.heartbeat = heartbeat
        if is_new_boot:
            self._declare_failed(node, peer)
        if not peer.is_alive:
            peer.is_alive = True
            self.on_change(node, True)

    def doubt(self, node: NodeId) -> None:
        """Wake the quiesced groups that rely on a live process, because gossip suggests that it may have failed.

        Groups see the heartbeat end and begin again. This has no other effect; a healthy leader stays leader."""
        peer = self._peers.get(node)
        if peer is not None and peer.is_alive:
            self.on_change(node, False)
            self.on_change(node, True)

    def _declare_failed(self, node: NodeId, peer: _PeerProcess) -> None:
        """Report a process as failed, once."""
        if peer.is_alive:
            peer.is_alive = False
            self.on_change(node, False)
