"""Cluster in one process: cores, logs in memory, disks that lose unsynced data, a network under test control.

Nothing happens by itself but what a Ready wants done. Messages wait in `network` until they are delivered or dropped;
syncs wait too, unless `syncs_at_once`. Invariants are checked all the time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any
from uuid import UUID

from jepsen.simulation.memory_log import MemoryLog
from raftlog.raft.configuration import NO_CONFIGURATION, Configuration, ConfigurationChange, ReplicaId
from raftlog.raft.core import RaftCore
from raftlog.raft.entry import Entry, EntryId, Proposal, is_at_least_as_up_to_date
from raftlog.raft.messages import InstallOffer, Message
from raftlog.raft.ready import Accepted, HardState, Installed, Ready, RefusedProposal, Restart, Role
from raftlog.raft.settings import RaftSettings
from raftlog.raft.supply import SupplyRefusal, SupplyRequest
from raftlog.types import Index, NodeId, Term
from tests.raft.invariants import Invariants
from tests.raft.trace import Line, TracedCore


def replica_id(number: int) -> ReplicaId:
    return ReplicaId(NodeId(number), UUID(int=number))


def configuration(voters: Iterable[int], learners: Iterable[int] = ()) -> Configuration:
    """Return the first configuration of a Raft group."""
    return Configuration(Index(0), tuple(map(replica_id, voters)), tuple(map(replica_id, learners)))


class Disk:
    """Disk contents that survive a crash: all synced data, and any prefix of the unsynced data."""

    def __init__(self, first: Configuration) -> None:
        self.log = MemoryLog()
        self.hard_state = HardState(Term(0), None)
        self.committed_hint = Index(0)
        self.base = first
        """The configuration at the log's boundary."""
        self.pending: deque[Ready] = deque()
        self.lost: EntryId | None = None
        """Id of a damaged last entry; every start detects it until it is repaired."""

    def damage_last(self) -> EntryId:
        """Damage the bytes of the last entry; its id is stored apart from them."""
        self.lost = self.log.last_id
        self.log.cut_to(Index(self.lost.index - 1))
        return self.lost

    def fold(self, ready: Ready) -> None:
        """Apply a synced Ready to the durable state."""
        if ready.hard_state:
            self.hard_state = ready.hard_state
        if ready.cut_to is not None:
            self.log.cut_to(ready.cut_to)
        self.log.append(ready.entries)
        self.committed_hint = ready.committed_index
        if self.lost is not None and is_at_least_as_up_to_date(self.log.last_id, self.lost):
            self.lost = None

    def configurations(self) -> tuple[Configuration, ...]:
        known = () if self.base is NO_CONFIGURATION else (self.base,)
        return known + tuple(entry for entry in self.log.configurations() if entry.index > self.base.index)


class Node:
    """Replica with its driver."""

    def __init__(self, cluster: "Cluster", me: ReplicaId, first: Configuration, settings: RaftSettings) -> None:
        self.cluster, self.me, self.settings = cluster, me, settings
        self.disk = Disk(first)
        self.random = Random(f"{cluster.seed}/{me.node_id}")
        self.is_up = False
        self.log: MemoryLog
        self.core: RaftCore
        self.held: deque[Ready]
        self.applied: list[Entry]
        self.reads: list[Any] = []
        self.reads_failed: list[Any] = []
        self.offer: InstallOffer | None = None
        self.start()

    def start(self) -> None:
        disk = self.disk
        self.log = MemoryLog(disk.log.entries_from_start(), disk.log.boundary)
        self.held = deque()
        self.applied = []
        restart = Restart(
            disk.hard_state,
            disk.configurations(),
            disk.committed_hint,
            disk.log.boundary.index,
            disk.lost,
            disk.lost is not None,
        )
        record = self.cluster.record
        self.core = (
            RaftCore(self.me, self.settings, self.random, self.log, restart)
            if record is None
            else TracedCore(self.me, self.settings, self.random, self.log, restart, emit=record)
        )
        self.is_up = True
        self.handle_readys()

    def crash(self, kept: int = 0) -> None:
        """Stop the node; the first `kept` unsynced Readys survive."""
        disk = self.disk
        for ready in list(disk.pending)[:kept]:
            self._make_durable(ready)
        disk.pending.clear()
        self.is_up = False

    def handle_readys(self) -> None:
        """Handle all Readys, as a driver does."""
        while self.is_up and (ready := self.core.ready()) is not None:
            self._handle(ready)
            if self.cluster.syncs_at_once:
                self.sync(works=False)

    def sync(self, count: int | None = None, *, works: bool = True) -> None:
        """Complete the sync of the oldest `count` Readys (None: all)."""
        last = 0
        for _ in range(len(self.held) if count is None else min(count, len(self.held))):
            ready = self.held.popleft()
            if self.disk.pending and self.disk.pending[0] is ready:
                self._make_durable(self.disk.pending.popleft())
            self.cluster.send(ready.messages_once_durable)
            last = ready.number
        if last:
            self.core.advance(durable=last)
        if works:
            self.handle_readys()

    def trim(self, index: Index) -> None:
        """Trim the log up to an index that is durable and applied."""
        assert index <= min(self.core.status().applied_index, self.disk.log.last_index)
        for known in self.disk.configurations():
            if known.index <= index:
                self.disk.base = known
        self.disk.log.trim_to(index)
        self.log.trim_to(index)

    def install_or_fetch(self) -> bool:
        """Install the offered files of the leader, or fetch entries if files are not needed."""
        offer, self.offer = self.offer, None
        if offer is None or not self.is_up or not self.cluster.nodes[offer.sender].is_up:
            return False
        source = self.cluster.nodes[offer.sender]
        boundary = source.log.boundary
        if not self.core.needs_install(boundary):
            return self._fetch(source.core, offer)
        committed = source.core.committed_index
        entries = source.log.entries_from_start()[: committed - boundary.index]
        base = max(
            (known for known in source.disk.configurations() if known.index <= boundary.index), default=NO_CONFIGURATION
        )
        self.sync(works=False)
        while self.core.ready() is not None:
            pass
        self.disk.pending.clear()
        self.held.clear()
        self.disk.base = base
        self.disk.log.replace(boundary, entries)
        self.log.replace(boundary, entries)
        self.core.install(Installed(self.disk.configurations(), committed, boundary.index))
        self.applied = []
        self.handle_readys()
        return True

    def _fetch(self, source: RaftCore, offer: InstallOffer) -> bool:
        """Fetch appends from the leader one by one until there are no more; return whether there were any."""
        after, committed = self.core.last_id, self.core.committed_index
        count = 0
        while True:
            wanted = SupplyRequest(self.me, offer.term, offer.sequence, after, 3, 100)
            supplied = source.supply(wanted)
            if supplied is SupplyRefusal.LOG_MISMATCH and after.index > committed:
                after = EntryId(committed, self.log.term_at(committed))
                continue
            if isinstance(supplied, SupplyRefusal) or not supplied.entries:
                return count > 0
            self.core.step(supplied)
            self.handle_readys()
            after = EntryId(supplied.entries[-1].index, supplied.entries[-1].term)
            count += 1

    def _handle(self, ready: Ready) -> None:
        invariants = self.cluster.invariants
        assert ready.must_sync == (ready.hard_state is not None or ready.cut_to is not None or bool(ready.entries))
        if ready.cut_to is not None:
            self.log.cut_to(ready.cut_to)
        if ready.entries:
            invariants.append(ready.entries, self.log.term_at(self.log.last_index))
            self.log.append(ready.entries)
        if ready.must_sync:
            self.disk.pending.append(ready)
        self.held.append(ready)
        role = ready.role_state
        if role is not None:
            follows = role.role is Role.FOLLOWER and role.leader is not None
            why = f"follows {role.leader.node_id}" if follows and role.leader else role.reason
            self.cluster.record_role(self.me, f"{role.role.value} of term {role.term}: {why}")
            if role.role is Role.LEADER:
                invariants.lead(self.me, role.term, self.log)
        if self.core.role is Role.LEADER and ready.committed_index > max(invariants.committed, default=0):
            self._check_commit(ready.committed_index)
        self.cluster.send(ready.messages_now)
        self.reads.extend(ready.reads)
        self.reads_failed.extend(ready.reads_failed)
        self.offer = ready.install_offer or self.offer
        if ready.apply is not None:
            entries = [self.log[Index(index)] for index in range(ready.apply.first, ready.apply.last + 1)]
            assert ready.apply.last <= self.disk.log.last_index, f"delivered before it is durable: {ready.apply}"
            for entry in entries:
                invariants.apply(entry)
            self.applied.extend(entries)
            self.core.advance(applied=ready.apply.last)

    def _check_commit(self, index: Index) -> None:
        logs = {me: node.disk.log for me, node in self.cluster.nodes.items()}
        entry = EntryId(index, self.log.term_at(index))
        held = self.core.configuration
        if held.index <= index:
            self.cluster.invariants.commit(entry, held, logs, self.cluster.damaged)

    def _make_durable(self, ready: Ready) -> None:
        self.disk.fold(ready)
        if ready.hard_state:
            self.cluster.invariants.vote(self.me, ready.hard_state.term, ready.hard_state.vote)


class Cluster:
    """Nodes, messages in flight, and the checked invariants."""

    def __init__(
        self,
        voters: Sequence[int],
        learners: Sequence[int] = (),
        *,
        settings: RaftSettings | None = None,
        seed: int = 0,
        syncs_at_once: bool = True,
        record: Callable[[Line], None] | None = None,
    ) -> None:
        self.seed = seed
        self.record = record
        """Receiver of the trace of every core; optional."""
        self.settings = settings or RaftSettings()
        self.syncs_at_once = syncs_at_once
        self.invariants = Invariants()
        self.network: list[Message] = []
        self.damaged: set[ReplicaId] = set()
        self.cut: Callable[[Message], bool] = lambda _: False
        """Messages for which this is true are lost when sent."""
        self.events: list[str] = []
        self.nodes: dict[ReplicaId, Node] = {}
        first = configuration(voters, learners)
        for number in (*voters, *learners):
            self.add(number, first)

    def __getitem__(self, number: int) -> Node:
        return self.nodes[replica_id(number)]

    def core(self, number: int) -> RaftCore:
        return self[number].core

    def add(self, number: int, first: Configuration = NO_CONFIGURATION) -> Node:
        """Add a replica; without a configuration it waits for one from a leader."""
        me = replica_id(number)
        self.nodes[me] = Node(self, me, first, self.settings)
        return self.nodes[me]

    def record_role(self, me: ReplicaId, what: str) -> None:
        self.events.append(f"{me.node_id} {what}")

    def send(self, messages: Iterable[Message]) -> None:
        self.network.extend(message for message in messages if not self.cut(message))

    def isolate(self, *numbers: int) -> None:
        """Cut these nodes off from all others; without numbers, heal."""
        inside = {replica_id(number) for number in numbers}
        self.cut = lambda message: (message.sender in inside) != (message.to in inside)
        self.network = [message for message in self.network if not self.cut(message)]

    def deliver(self, at: int = 0) -> Message:
        """Deliver the message at this position of the network."""
        message = self.network.pop(at)
        node = self.nodes.get(message.to)
        if node is not None and node.is_up:
            node.core.step(message)
            node.handle_readys()
        return message

    def take_messages(self, kind: type, to: int | None = None) -> list[Any]:
        """Remove the messages of a kind from the network, and return them."""
        wanted = [m for m in self.network if type(m) is kind and (to is None or m.to == replica_id(to))]
        self.network = [m for m in self.network if not any(m is other for other in wanted)]
        return wanted

    def settle(self, limit: int = 100_000) -> None:
        """Deliver all messages in order and complete all syncs, until there are none."""
        for _ in range(limit):
            if self.network:
                self.deliver()
            elif waiting := [node for node in self.nodes.values() if node.is_up and node.held]:
                for node in waiting:
                    node.sync()
            elif sum(node.install_or_fetch() for node in self.nodes.values()) == 0:
                return
        raise AssertionError(f"not settled after {limit} steps: {self.network[:5]}")

    def tick(self, ticks: int = 1, *, settles: bool = True) -> None:
        """Advance the time of all nodes."""
        for _ in range(ticks):
            for node in self.nodes.values():
                if node.is_up and node.core.tick():
                    node.handle_readys()
            if settles:
                self.settle()

    def tick_one(self, number: int, ticks: int = 1) -> None:
        for _ in range(ticks):
            self[number].core.tick()
            self[number].handle_readys()

    def elect(self, number: int) -> Node:
        """Make this node the leader; ticks pass until the others vote for it."""
        for _ in range(200):
            if self.core(number).role is Role.LEADER and self.core(number).has_own_term_commit:
                return self[number]
            self.core(number).campaign()
            self[number].handle_readys()
            self.settle()
            if self.core(number).role is not Role.LEADER:
                self.tick()
        raise AssertionError(f"{number} was not elected: {self.events[-10:]}")

    def leader(self) -> Node | None:
        """Return the leader of the latest term among the nodes that are up."""
        leaders = [node for node in self.nodes.values() if node.is_up and node.core.role is Role.LEADER]
        return max(leaders, key=lambda node: node.core.term, default=None)

    def propose(self, number: int, *payloads: Any, size_bytes: int = 1) -> Accepted | RefusedProposal:
        outcome = self.core(number).propose([Proposal(payload, size_bytes) for payload in payloads])
        self[number].handle_readys()
        return outcome

    def change(
        self, number: int, voters: Iterable[int], learners: Iterable[int] = (), replaces: int | None = None
    ) -> Accepted | RefusedProposal:
        """Propose a configuration at the node; `replaces` is the index of the one that it should replace."""
        core = self.core(number)
        index = core.configuration.index if replaces is None else Index(replaces)
        change = ConfigurationChange(tuple(map(replica_id, voters)), tuple(map(replica_id, learners)), index)
        outcome = core.propose_configuration(change)
        self[number].handle_readys()
        return outcome

    def set_heartbeats(
        self, *, alive: bool, nodes: Iterable[int] | None = None, seen_by: Iterable[int] | None = None
    ) -> None:
        """Start or stop the heartbeats between processes."""
        everybody = [me.node_id for me in self.nodes]
        for observer in seen_by or everybody:
            for number in nodes or everybody:
                if number != observer and self[observer].is_up:
                    self.core(observer).note_process(NodeId(number), alive)
                    self[observer].handle_readys()

    def data(self, number: int) -> list[Any]:
        """Return payloads of the data that a node applied since it started."""
        return [entry.payload for entry in self[number].applied if entry.payload is not None]
