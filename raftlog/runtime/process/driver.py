"""Driver: the one place that does persist → send → apply → advance, for all groups of a process.

    turn:  every dirty group's Ready → its log and the journal, in memory
           messages that need no sync are sent; then one write and one sync for all of them begin, files are written,
           committed entries are delivered
    when the journal's sync returns:  groups advance, cuts reach the files; a turn follows in the same callback, which
           sends the messages that waited and delivers the entries that are committed now

Used unchanged by server and simulator, over a `Transport` and a `Disk`. Everything happens on one asyncio loop; there
are no threads, and no clock but the loop's. Only dirty groups are visited; ticks visit those that are not quiesced."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Self

from raftlog.errors import CorruptBatch, DescriptorsExhausted, LogClosed, RaftlogError
from raftlog.raft import RaftCore, Ready, ReplicaId, Restart
from raftlog.raft.message_errors import RefusedMessage
from raftlog.raft.messages import AppendRequest
from raftlog.runtime import loop_holds
from raftlog.runtime.config import DriverConfig
from raftlog.runtime.histogram import Histogram, stopwatch
from raftlog.runtime.journal.blocks import JournalSequence
from raftlog.runtime.journal.journal import Journal
from raftlog.runtime.journal.operations import Cut, GroupKey, VotingPosition
from raftlog.runtime.log.control_entries import BatchPayloads
from raftlog.runtime.log.group_log import GroupLog
from raftlog.runtime.log.startup import OpenedGroup, open_groups, open_journal
from raftlog.runtime.loop_holds import LOOP_HOLDS
from raftlog.runtime.process.compactor import Compactor
from raftlog.runtime.process.creations import Creation, Creations, Joining
from raftlog.runtime.process.deferred_appends import DeferredAppends
from raftlog.runtime.process.descriptor_watch import DescriptorWatch
from raftlog.runtime.process.journal_room import JournalRoom
from raftlog.runtime.process.outbox import Outbox
from raftlog.runtime.process.peers import PeerLiveness
from raftlog.runtime.process.persister import Persister
from raftlog.runtime.process.scrubber import Scrubber
from raftlog.runtime.process.ticker import Stall, Ticker
from raftlog.runtime.replica.disk_room import DiskRoom
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.replica.proposals import settle_reads
from raftlog.runtime.replica.refused_messages import handle_refused
from raftlog.runtime.transfer.catch_up import CatchUp
from raftlog.runtime.transfer.supplier import Supplier
from raftlog.runtime.transport import Envelope, ProcessHeartbeat, Transport
from raftlog.storage.disk import Disk
from raftlog.storage.roll import Roll
from raftlog.storage.temporary_errors import lacks_descriptors
from raftlog.types import NodeId, Offset


def _ignore(*_: object) -> None:
    """Do nothing; default of callbacks."""


class Driver:
    """All groups of one process; created by `open`, it works from `start` to `close`."""

    def __init__(
        self,
        disk: Disk,
        data_dir: str,
        me: ReplicaId,
        transport: Transport,
        random: Random,
        config: DriverConfig,
        journal: Journal,
        boot_epoch: int,
        wall_ms: Callable[[], int],
    ) -> None:
        self.disk, self.data_dir, self.me, self.config = disk, data_dir, me, config
        self.transport, self.journal, self.wall_ms = transport, journal, wall_ms
        self.loop: asyncio.AbstractEventLoop
        self.groups: dict[GroupKey, PartitionReplica] = {}
        self.failure: RaftlogError | None = None
        """Error that ended the driver; set once."""
        self.on_failure: Callable[[RaftlogError], None] = _ignore
        """Callback when the disk failed, called once: the process must end, since the state of its files is unknown."""
        self.on_stall: Callable[[Stall], None] = self._step_down_on_stall
        """Callback when the loop or the disk makes no progress, called repeatedly while the stall lasts."""
        self.on_step: Callable[[PartitionReplica, Ready], None] = _ignore
        """Callback with every Ready that was handled, for observers."""
        self.on_removed: Callable[[], None] = _ignore
        """Callback when directories of removed groups are deleted, and new groups may take their names."""
        self.messages_refused = 0
        """Number of appends that were invalid, or for which there was no room."""
        self.commit_times = Histogram()
        self.entries_repaired = 0
        """Number of damaged entries that were fetched again from other replicas."""
        self._random, self.boot_epoch = random, boot_epoch
        self._dirty: list[PartitionReplica] = []
        self._awake: dict[GroupKey, PartitionReplica] = {}
        """Groups that need ticks."""
        self._outbox = Outbox(transport)
        self._deferred_appends = DeferredAppends(config, self._outbox, self.mark_dirty, self._run_or_stop)
        callbacks = self._plan_turn, self.mark_dirty, self._call_soon, self._fail
        self.persister = Persister(disk, data_dir, journal, config, self._outbox, *callbacks)
        self.room = DiskRoom(disk, data_dir, config.storage_min_free_bytes)
        self.descriptors = DescriptorWatch(disk, data_dir)
        self._journal_room = JournalRoom(journal, data_dir, config.large_append_bytes)
        self.note_admitted = self._journal_room.note_admitted
        self._is_started = self._is_turn_due = self._is_unfit = False
        stalled: Callable[[Stall], None] = lambda stall: self.on_stall(stall)  # noqa: E731, PLW0108  # set later
        tick = partial(self._run_or_stop, self._tick)
        self.ticker = Ticker(config.tick_ms / 1000, config.stall_ms / 1000, tick, stalled)
        self._peers = PeerLiveness(me.node_id, transport, config.raft.heartbeat_ticks, config.raft.election_ticks_min)
        self._peers.on_change = self._note_process
        self.doubt, self.receive_heartbeat = self._peers.doubt, self._peers.note_heartbeat
        self._scrubber = Scrubber(config.scrub_interval_ms / 1000)
        self.catch_up, self.supplier, self.compactor = CatchUp(self), Supplier(self), Compactor(self)
        self.compact, self.stop_compaction = self.compactor.request, self.compactor.stop_group
        self.is_copied, self.is_rebuilding = self.supplier.is_copied, self.catch_up.is_rebuilding
        self.creations = Creations(self)
        journal.on_durable = self._note_journal_durable

    @classmethod
    def open(
        cls,
        disk: Disk,
        data_dir: str,
        own_id: ReplicaId,
        transport: Transport,
        random: Random,
        config: DriverConfig | None = None,
        *,
        boot_epoch: int,
        wall_ms: Callable[[], int],
        create: bool = False,
        synced_at_least: int = 0,
    ) -> Self:
        """Recover every group of this disk; blocking.

        `create` is for the first start of a disk uuid. `synced_at_least` is the highest known journal sequence of the
        disk. Raises `JournalDamaged` (take a new disk uuid and rejoin), `FormatError`, `OSError`."""
        config = config or DriverConfig()
        journal, fold = open_journal(disk, data_dir, own_id, config.journal, create, synced_at_least)
        driver = cls(disk, data_dir, own_id, transport, random, config, journal, boot_epoch, wall_ms)
        driver.persister.trash.empty()
        for opened in open_groups(disk, data_dir, fold, config):
            driver._adopt(opened)
        driver.persister.checkpoints.load_removed(fold)
        return driver

    def _adopt(self, opened: OpenedGroup) -> None:
        """Add a recovered group, and journal its cut and voting position if its log has lost entries."""
        group = self.add(opened.group_id, opened.path, opened.log, opened.restart)
        group.damage, group.are_configurations_known = opened.damage, opened.are_configurations_known
        if opened.lost_from is not None:
            position = opened.restart.voting_position
            assert position is not None, f"{opened.path} lost entries from {opened.lost_from} on"
            self.persister.append([VotingPosition(group.key, *position), Cut(group.key, opened.lost_from)])
        group.has_voting_position = opened.restart.voting_position is not None

    def add(self, group_id: uuid.UUID, path: str, log: GroupLog, restart: Restart) -> PartitionReplica:
        """Create and start the replica of a group; its directory exists and is synced."""
        payloads = BatchPayloads(self.wall_ms)
        random = Random(self._random.getrandbits(64))  # noqa: S311  # election timeouts, no secrets
        core = RaftCore(self.me, self.config.raft, random, log, restart, payloads)
        group = PartitionReplica(self, group_id, path, core, log, restart.hard_state)
        core.set_unfit(self._is_unfit)
        for node in self._peers.alive_nodes():
            core.note_process(node, True)
        self.groups[group.key] = self._awake[group.key] = group
        self.note_members(group)
        self.persister.checkpoints.note_changed(group)
        self.mark_dirty(group)
        return group

    def start(self) -> None:
        """Start the ticks, on the running loop."""
        self.loop = asyncio.get_running_loop()
        self._is_started = True
        self.ticker.start(self.loop)
        self._plan_turn()
        for group in self.groups.values():
            if group.damage:
                self.catch_up.repair(group)

    def close(self) -> None:
        """Make accepted operations durable, and close the files; blocking. Pending outcomes stay unknown."""
        self._stop_parts()
        if self.failure is None:
            self.persister.write_pending()
        if self.failure is None:
            self.failure = LogClosed("the process stops")
            self.journal.close()
        for group in self.groups.values():
            group.end(self.failure)
            group.log.segments.close()

    # creation and removal of groups

    def create_group(self, roll: Roll, name: str | None = None) -> PartitionReplica:
        """Create one of a group's first replicas with its first roll, which is the same everywhere and committed.

        Blocking. Raises `StorageFull` (nothing was created), `FormatError`, and `SyncFailed` (the process must end)."""
        return self.creations.make(roll.group_id, roll, name)

    async def create_groups(self, creations: Sequence[Creation]) -> None:
        """Create many replicas without blocking the loop. Raises like `create_group`; replicas created before stay."""
        await self.creations.create(creations)

    async def join_groups(self, joining: Sequence[Joining]) -> None:
        """Create many replicas like `join_group` without blocking the loop; those created before a failure stay."""
        await self.creations.join(joining)

    def join_group(self, group_id: uuid.UUID, name: str | None = None) -> PartitionReplica:
        """Create a replica with an empty log, which the group's leader will fill. Raises like `create_group`."""
        return self.creations.make(group_id, None, name)

    def remove_group(self, key: GroupKey) -> None:
        """Remove a group: its mark stays in the journal, its directory is deleted."""
        group = self.groups[key]
        self.detach(group)
        self.persister.remove(group)

    def detach(self, group: PartitionReplica) -> None:
        """Stop a group's replica; its files stay."""
        del self.groups[group.key]
        self._awake.pop(group.key, None)
        group.end(LogClosed(f"{group.path}: this replica was removed"))
        self.catch_up.forget(group)
        self._peers.unshare(group.key)

    # messages from the network

    def receive(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Handle messages of another process; those of unknown groups are dropped."""
        if self.failure is None and not self.journal.is_reserve_low:
            self._run_or_stop(self._receive, node, envelopes)

    def _receive(self, node: NodeId, envelopes: Sequence[Envelope]) -> None:
        """Pass each message to the core of its group; count and drop those that cannot be accepted now."""
        admits = self._journal_room.admits
        for key, message in envelopes:
            group = self.groups.get(key)
            if group is None or group.is_frozen or group.is_leaving or group.stopped or message.sender.node_id != node:
                self.messages_refused += 1
                continue
            try:
                if type(message) is AppendRequest and message.entries and not admits(group, message, self.room):
                    self.messages_refused += 1
                    continue
                group.core.step(message)
            except CorruptBatch as error:
                group.note_damage(error)
            except DescriptorsExhausted:  # the sender repeats it
                self.messages_refused += 1
            except RefusedMessage as refused:
                self.messages_refused += 1
                handle_refused(group, refused)
            self.mark_dirty(group)

    async def serve(self, node: NodeId, request: object) -> object:
        """Answer a bulk request of another replica; raises `RaftlogError` when it cannot be served."""
        return self.supplier.serve(node, request)

    def _note_process(self, node: NodeId, is_alive: bool) -> None:
        for group in self.groups.values():
            group.core.note_process(node, is_alive)
            if not group.core.is_quiesced and group.key not in self._awake:
                self.mark_dirty(group)

    # host of the groups

    def mark_dirty(self, group: PartitionReplica) -> None:
        if not group.is_dirty:
            group.is_dirty = True
            self._dirty.append(group)
            self._plan_turn()

    def append_error(self, size_bytes: int, *, is_essential: bool = False) -> RaftlogError | None:
        return self.failure or self._journal_room.append_error(size_bytes, is_essential=is_essential)

    def note_changed(self, group: PartitionReplica) -> None:
        self.persister.checkpoints.note_changed(group)

    def write_entries(self, group: PartitionReplica) -> None:
        self.persister.write(group)

    def on_damage(self, group: PartitionReplica) -> None:
        self.persister.checkpoints.note_changed(group)
        if self._is_started:
            self.catch_up.repair(group)

    def is_compacting(self, group: PartitionReplica) -> bool:
        return self.compactor.current is group

    def trim(self, group: PartitionReplica, offset: Offset) -> None:
        self.persister.trim(group, offset)

    # the turn

    def _plan_turn(self) -> None:
        if not self._is_turn_due and self._is_started:
            self._is_turn_due = True
            self.loop.call_soon(self._run_or_stop, self._turn)

    def _call_soon(self, work: Callable[[], None]) -> None:
        self.loop.call_soon(self._run_or_stop, work)

    def _turn(self) -> None:
        """Run one turn, as the module describes it, for the dirty groups."""
        if self.failure or not self._is_turn_due:  # an earlier turn did the work
            return
        self._is_turn_due = False
        dirty, self._dirty = self._dirty, []
        taken: list[tuple[PartitionReplica, Ready]] = []
        try:
            for group in dirty:
                group.is_dirty = False
                ready = self._take_ready(group)
                if ready is not None:
                    taken.append((group, ready))
                    self._outbox.post(group.key, ready.messages_now)
                    if not ready.has_only_messages:
                        self.persister.persist(group, ready)
            self._outbox.send()  # before the journal's write, so that the followers' syncs overlap with the one here
            self.persister.end_turn()
        except RaftlogError as error:
            self.persister.stop_with(error)  # a Ready was taken and is lost
            return
        self._journal_room.admitted_bytes = 0
        for group, ready in taken:
            if not ready.has_only_messages:
                self._finish(group, ready)
            self.on_step(group, ready)
        self.catch_up.note_turn()

    def _take_ready(self, group: PartitionReplica) -> Ready | None:
        """Return the group's Ready, if it has one, and update whether the group needs ticks."""
        if group.is_closed or group.is_frozen or group.is_leaving or group.stopped:
            return None
        core = group.core
        if core.are_appends_deferred:
            self._deferred_appends.check(group)
        ready = group.take_ready()
        for observe in group.watches:
            observe()
        group.admission.ahead.clear()  # the log gets these entries in this turn
        if core.is_quiesced:
            self._awake.pop(group.key, None)
        else:
            self._awake[group.key] = group
        if core.are_appends_deferred:
            self._deferred_appends.note(group)
        if ready is not None and not ready.has_only_messages and group.has_other_members():
            self.note_members(group)
        return ready

    def _finish(self, group: PartitionReplica, ready: Ready) -> None:
        """Run step 3 of a Ready, except for its messages."""
        if ready.cut_to is not None:
            self.persister.write(group)
        elif ready.entries:
            self.persister.write_soon(group)
        group.settle_committed()
        if ready.apply is not None:
            group.deliver(ready.apply)
            self.persister.hint_commit(group, ready.apply.last)
        if ready.reads or ready.reads_failed:
            settle_reads(group.path, ready, group.core.leader)
        if ready.install_offer is not None:
            self.catch_up.take_offer(group, ready.install_offer)

    def _note_journal_durable(self, _: JournalSequence) -> None:
        self.ticker.note_disk_moved()
        self._run_or_stop(self._settle)

    def _settle(self) -> None:
        self._is_turn_due = self._is_started  # a turn now, not with the loop's next iteration
        self.persister.settle()
        self._turn()

    def _run_or_stop(self, work: Callable[..., None], *arguments: object) -> None:
        """Run a callback; an unexpected error leaves groups in an unknown state, so it ends the process."""
        began, counted_s = stopwatch(), LOOP_HOLDS.counted_s
        try:
            work(*arguments)
        except Exception as error:
            self.persister.stop_with(error)
            raise
        if stopwatch() - began > loop_holds.HELD_FROM_S:
            LOOP_HOLDS.note_since(began, work, counted_s)

    def _stop_parts(self) -> None:
        for part in (self.ticker, self.catch_up, self.compactor, self._outbox, self._deferred_appends):
            part.stop()

    def _fail(self, failure: RaftlogError) -> None:
        """Stop all groups, because the disk failed or another error needs a restart of the process."""
        if self.failure is None:
            self.failure = failure
            self._stop_parts()
            self.persister.fail_waits(failure)
            for group in self.groups.values():
                group.end(failure)
            self.on_failure(failure)

    def note_members(self, group: PartitionReplica) -> None:
        """Update the nodes that have a replica of the group."""
        self._peers.share(group.key, (member.node_id for member in group.core.configuration.all_members()))

    # time

    def _tick(self, now: float) -> None:
        """Do the periodic work at the loop's time `now`: heartbeats, elections, writes, checks of the disk, scrub."""
        if self.persister.is_idle:
            self.ticker.note_disk_moved()
        self._peers.tick(ProcessHeartbeat(self.me.disk_uuid, self.boot_epoch, self.journal.durable_sequence))
        if self.journal.is_reserve_low:
            self.journal.make_reserve()  # no elections meanwhile: they would take the last of it
        else:
            self._tick_groups()
        self.persister.write_oldest()
        try:
            self.room.check(self.persister.waits_for_room, now)
            self.descriptors.check(self.persister.waits_for_descriptors)
            self.persister.settle_cuts()
            if self.persister.empty_trash():
                self.on_removed()
            self._scrubber.tick(self.groups, now)
        except OSError as error:
            if not lacks_descriptors(error):  # retried at the next tick
                self.persister.stop_with(error)
        self.persister.checkpoints.maybe_begin(now)
        self.compactor.tick()
        self.persister.flush()

    def _tick_groups(self) -> None:
        for group in self._awake.values():
            if not (group.is_frozen or group.is_leaving or group.stopped) and group.core.tick():
                self.mark_dirty(group)

    def _step_down_on_stall(self, stall: Stall) -> None:
        """Step down in all groups with more than one voter, because other replicas can lead better."""
        for group in self._awake.values():
            if len(group.core.configuration.all_voters()) > 1:
                group.step_down(stall.value)

    def set_unfit(self, is_unfit: bool) -> None:
        """Set whether this process's groups delay their campaigns, because other processes would lead better."""
        if is_unfit != self._is_unfit:
            self._is_unfit = is_unfit
            for group in self.groups.values():
                group.core.set_unfit(is_unfit)
