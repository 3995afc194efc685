"""Duties of the controller's leader apart from commands, and linearizable reads.

    the bootstrap command, if the log does not have it · the least feature level of this release ·
    members of the group (`members`) · snapshots (`snapshots`) ·
    the hash of its state to the others, which compare it with theirs

One task runs after changes and every `care_ms`; failed duties are retried. A process that does not lead only answers
hashes here. Called by the host."""

import asyncio
import contextlib
import logging

from raftlog.errors import InvalidArgument, NoLeader, RaftlogError
from raftlog.events import event
from raftlog.partitions.controller.bootstrap_record import BootstrapFile
from raftlog.partitions.controller.local_copy import LocalCopy
from raftlog.partitions.controller.members import next_change, transfer_target_of
from raftlog.partitions.controller.proposals import CommandProposals
from raftlog.partitions.controller.settings import MetadataSettings
from raftlog.partitions.controller.snapshots import is_due, write_snapshot
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.node import BackgroundLoop, Node, Request
from raftlog.runtime.replica.partition_replica import PartitionReplica
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import Index, NodeId

_logger = logging.getLogger(__name__)
HASH = "control.hash"
_SNAPSHOT_MS = 60_000
_READ_PAUSE_S = 0.02


class LeaderDuties(BackgroundLoop):
    """Background task of the process that leads the controller; from `start` to `stop`."""

    purpose = "the controller's leader"

    def __init__(
        self, node: Node, copy: LocalCopy, file: BootstrapFile, proposals: CommandProposals, settings: MetadataSettings
    ) -> None:
        """Prepare the duties of the controller's leader, and answer requests for the hash of the state here."""
        self._node, self._copy, self._file, self._proposals = node, copy, file, proposals
        self._settings = settings
        self._changed = asyncio.Event()
        self._hashed_at = node.loop.time()
        self._hashed_index = Index(0)
        self._logged: str | None = None
        node.on_request(HASH, self._serve_hash)

    def run_soon(self) -> None:
        """Run the duties soon, because something changed."""
        self._changed.set()

    # reads

    async def barrier(self, deadline: Deadline) -> None:
        """Wait until the local copy has everything that was committed before the call (ReadIndex, thesis 6.4).

        Raises `NoLeader` when no leader confirmed it before the deadline."""
        loop = self._node.loop
        why: object = "it has no replica here"
        while True:
            group = self._copy.group
            if group is not None:
                until = Deadline(min(deadline, loop.time() + self._settings.attempt_ms / 1000))
                read = group.read_index()
                await asyncio.wait([read], timeout=max(0.0, until - loop.time()))
                if not read.done():
                    read.cancel()
                    why = "its leader did not answer"
                elif (error := read.exception()) is not None:
                    why = error
                elif await self._copy.wait_for_index(read.result(), deadline):
                    return
            if loop.time() >= deadline or self._node.ended.done():
                raise NoLeader(
                    "the controller has no leader that answers: a majority of the brokers that vote in it has to run, "
                    f"and `raftlog cluster health` names those that do not ({why})"
                )
            pause = Deadline(min(deadline, loop.time() + _READ_PAUSE_S))
            if group is None:
                await self._node.pause(pause)
            else:
                await self._node.leader_changed(group.group_id, pause)

    # duties

    async def _run(self) -> None:
        """Run the leader's duties at each change and every `care_ms`, once the copy is up to date."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.care_ms / 1000):
                    await self._changed.wait()
            self._changed.clear()
            group = self._copy.group
            if group is None or not group.core.has_own_term_commit or not self._copy.is_up_to_date:
                continue
            try:
                await self._run_duties(group)
                self._logged = None
            except (RaftlogError, TimeoutError) as error:
                self._log_reason(str(error) or "its proposal is not committed yet")

    async def _run_duties(self, group: PartitionReplica) -> None:
        """Bootstrap the cluster, change the voters, compare hashes and write a snapshot, each if it is due."""
        state, settings = self._copy.state, self._settings
        if state.bootstrap is None:
            await self._bootstrap()
            return
        change = next_change(group, state, settings.caught_up_entries, self._node.is_alive)
        target = None if change is None else transfer_target_of(group, change, self._node.identity.replica)
        if target is not None:
            group.transfer_leadership(target)
            return
        if change is not None:
            async with asyncio.timeout(settings.attempt_ms / 1000):
                await group.change_members(change)
            voters = [voter.node_id for voter in change.voters]
            learners = [learner.node_id for learner in change.learners]
            event(_logger, "members_changed", group=group.name, voters=voters, learners=learners)
        if is_due(group, self._copy, settings.snapshot_log_bytes):
            async with asyncio.timeout(_SNAPSHOT_MS / 1000):
                await write_snapshot(group, self._copy, deadline_in(_SNAPSHOT_MS))
            self._hashed_at = float("-inf")
        await self._send_hash_if_due(group)

    async def _bootstrap(self) -> None:
        """Propose the command Bootstrap from the bootstrap record on this disk, if there is one."""
        record = self._file.record
        if record is not None:
            deadline = deadline_in(self._settings.attempt_ms)
            await self._proposals.submit(record.command(), deadline, self._copy.state.applied_index)

    def _log_reason(self, text: str) -> None:
        """Log the reason why a duty waits, unless it was logged last."""
        if text != self._logged:
            self._logged = text
            _logger.info("the controller's leader waits: %s", text)

    # hashes

    async def _send_hash_if_due(self, group: PartitionReplica) -> None:
        """Send the hash of the state to all other members.

        At most once in `hash_interval_ms`, and not again for the same index."""
        now, index = self._node.loop.time(), self._copy.state.applied_index
        if now - self._hashed_at < self._settings.hash_interval_ms / 1000 or index == self._hashed_index:
            return
        self._hashed_at, self._hashed_index = now, index
        sent = [int(index), self._copy.state.state_hash()]
        me = self._node.identity.replica
        members = [member.node_id for member in group.core.configuration.all_members() if member != me]
        await asyncio.gather(*(self._send_hash(node, sent) for node in members))

    async def _send_hash(self, node: NodeId, sent: list[object]) -> None:
        """Send a hash to a node; log an error if the node's state differs at the same index."""
        try:
            answer = await self._node.ask(node, HASH, sent, (), deadline_in(self._settings.attempt_ms))
        except RaftlogError as error:
            _logger.debug("node %s did not compare its state: %s", node, error)
            return
        if answer.value is False:
            _logger.error(
                "the controller's state of node %s differs from the leader's at index %s: report it as a bug",
                node,
                sent[0],
            )

    async def _serve_hash(self, request: Request) -> Answer:
        """Answer whether the state here has this hash at this index; None if that is unknown now."""
        match request.header:
            case [int(index), bytes(state_hash)]:
                return Answer(self._copy.compare_at(Index(index), state_hash))
        raise InvalidArgument(f"node {request.node} sent a hash that cannot be read")
