"""Where nodes are that cannot be reached: asked of those that can, and looked for at the seeds.

A copy of the controller's state that is old may not know a broker that joined since, or the address of one that moved;
when that one leads group 0 the copy never becomes newer by itself. So while a member of the group is not connected, the
others are asked whom they know, and the addresses in the list of seeds are tried. What is learned so counts for as long
as the state says what it said then. Only hints: who is at an address, the handshake says. Called by the host.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from raftlog.errors import RaftlogError
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.metadata.addresses import address_text
from raftlog.partitions.metadata.bootstrap_record import Member
from raftlog.partitions.metadata.first_start import JOIN, view_of
from raftlog.partitions.metadata.settings import MetadataSettings
from raftlog.partitions.multiraft import Node
from raftlog.raft import ReplicaId
from raftlog.types import NodeId

_logger = logging.getLogger(__name__)
_PAUSE_MS_MAX = 10_000


class Introduction(NamedTuple):
    """A node as somebody described it, and the address that was known of it before; None: it was not known."""

    member: Member
    instead_of: str | None


class Introductions:
    """Runs from `start` to `stop`. `away` gives the members that are not connected, with their addresses as far as
    known; `learned` is called when there is something new in `known`."""

    def __init__(
        self,
        node: Node,
        settings: MetadataSettings,
        away: Callable[[], dict[ReplicaId, str | None]],
        learned: Callable[[], None],
    ) -> None:
        self.known: dict[NodeId, Introduction] = {}
        self._node, self._settings = node, settings
        self._away, self._learned = away, learned
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._node.keep_up(self._run(), "looking for nodes that are away")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        pause_ms = self._settings.look_ms_max
        while not self._node.ended.done():
            await self._node.pause(deadline_in(pause_ms))
            if self._away():
                pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)
                await self._ask_around()
            else:
                pause_ms = self._settings.look_ms_max

    async def _ask_around(self) -> None:
        peers = [peer.node for peer in self._node.transport.peers() if self._node.is_connected(peer.node)]
        told = [self._members_of(node) for node in peers]
        found = [self._at(*seed) for seed in self._settings.seeds]
        for members in await asyncio.gather(*told, *found):
            self._note(members)

    async def _members_of(self, node: NodeId) -> Sequence[Member]:
        """Whom a node knows that can be asked."""
        try:
            answer = await self._node.ask(node, JOIN, None, (), deadline_in(self._settings.probe_ms))
            return view_of(self._node.identity.replica, None, answer.value).members
        except RaftlogError as error:
            _logger.debug("node %s introduces nobody: %s", node, error)
            return ()

    async def _at(self, host: str, port: int) -> Sequence[Member]:
        """Who is at an address."""
        try:
            identity, _ = await self._node.probe((host, port), JOIN, None, deadline_in(self._settings.probe_ms))
        except (RaftlogError, OSError) as error:
            _logger.debug("nobody at %s:%s can be met: %s", host, port, error)
            return ()
        return (Member(identity.node_id, identity.disk_uuid, address_text((host, port))),)

    def _note(self, members: Sequence[Member]) -> None:
        away = self._away()
        is_news = False
        for member in members:
            if member.replica not in away or not member.address:
                continue
            before = away[member.replica]
            introduction = Introduction(member, before)
            if member.address != before and self.known.get(member.node_id) != introduction:
                self.known[member.node_id] = introduction
                is_news = True
                _logger.info("node %s is said to be at %s", member.node_id, member.address)
        if is_news:
            self._learned()
