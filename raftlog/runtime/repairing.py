"""A quarantined replica looks for everything that is damaged in its files, and gets it from the others.

    quarantined → (every entry read → the bad ones fetched, fitted, synced)* → nothing bad is found → quarantine lifted

A batch is taken only when it is what the index row speaks of, byte for byte, so it does not matter who sends it. An
entry that nobody has was never committed: the leader cuts it away in its own time. With no other replica it stays.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from raftlog.errors import CorruptBatch, RaftlogError, Unavailable
from raftlog.runtime.bulk import EntriesAsked, EntriesFound, LogAsked, LogFound
from raftlog.runtime.configuration_walk import configurations
from raftlog.runtime.group import Group
from raftlog.storage.healing import heal_row
from raftlog.storage.segment import Segment
from raftlog.types import Index, NodeId

if TYPE_CHECKING:  # the driver owns this
    from raftlog.runtime.driver import Driver

_logger = logging.getLogger(__name__)
_SLICE_ENTRIES = 256
"""Entries that are read before others get their turn."""


class Repair:
    """One round over one group's files."""

    def __init__(self, driver: "Driver", group: Group) -> None:
        self._driver = driver
        self._group = group

    async def run(self) -> None:
        """Repair what can be repaired, and lift the quarantine when nothing bad is left.

        Raises `Unavailable` when something is left that nobody could give, and what reading and writing raise.
        """
        group = self._group
        left: CorruptBatch | None = None
        is_changed = True
        while is_changed:
            is_changed, met = False, group.damage_count
            left = None
            async for index, error in self._bad_entries():
                if await self._mend(index):
                    is_changed = True
                else:
                    left = left or error
            if is_changed:
                await self._sync()
        if left is not None:
            group.damage = left
            if await self._trim_like_the_leader():
                raise Unavailable("what is damaged was trimmed elsewhere, and is trimmed here; looked at again")
            raise Unavailable(f"no other replica has it yet: {left}")
        if group.log.written_index < group.log.last_index or group.damage_count != met:
            raise Unavailable("it changed meanwhile, and is looked at again")
        group.log.note_repaired()
        known = configurations(group.log.segments, None, group.core.committed_index)
        group.core.restore_configurations(known)
        _logger.warning("%s is repaired: %s", group.path, group.damage)
        group.damage = None
        group.core.lift_quarantine()
        self._driver.persister.settle_cut(group)
        self._driver.mark_dirty(group)

    async def _bad_entries(self) -> AsyncIterator[tuple[Index, CorruptBatch]]:
        """Entries that fail their checks, in order; other work goes on in between."""
        count = 0
        for segment in self._group.log.segments.segments:
            for index, error in self._walk(segment):
                count += 1
                if count % _SLICE_ENTRIES == 0:
                    await asyncio.sleep(0)
                if error is not None:
                    yield index, error

    def _walk(self, segment: Segment) -> Iterator[tuple[Index, CorruptBatch | None]]:
        segments = self._group.log.segments
        for number, row, _, why in segments.walk(segment):
            if segment.base_index + number > self._group.log.written_index:
                return
            is_bad = why is not None and not heal_row(segment, number)
            yield Index(segment.base_index + number), segments.corrupt(segment, row, why or "") if is_bad else None

    async def _mend(self, index: Index) -> bool:
        """Ask one replica after the other for the entry; true when one of them had it."""
        asked = EntriesAsked(self._group.key, index, index, self._driver.config.transfer_chunk_bytes)
        timeout_s = self._driver.config.transfer_timeout_ms / 1000
        for node in self._sources():
            try:
                answer = await asyncio.wait_for(self._driver.transport.request(node, asked), timeout_s)
                if isinstance(answer, EntriesFound) and answer.entries and answer.entries[0].index == index:
                    if index > self._group.log.written_index:
                        return False
                    self._group.log.segments.repair_batch(index, answer.entries[0].batch)
                    return True
            except (RaftlogError, OSError, TimeoutError) as error:
                _logger.info("%s: node %s could not give entry %s: %s", self._group.path, node, index, error)
        return False

    async def _trim_like_the_leader(self) -> bool:
        """Whether the leader's log begins above ours, so that nobody has to have what stands below any more."""
        group, leader = self._group, self._group.core.leader
        if leader is None or leader == self._driver.me:
            return False
        timeout_s = self._driver.config.transfer_timeout_ms / 1000
        found = await asyncio.wait_for(self._driver.transport.request(leader.node_id, LogAsked(group.key)), timeout_s)
        if not isinstance(found, LogFound) or found.boundary.index <= group.log.boundary.index:
            return False
        return group.trim_damaged(found.base_offset)

    def _sources(self) -> list[NodeId]:
        """The other members, the leader first, who is known even where the members stood in what is damaged."""
        core, me = self._group.core, self._driver.me.node_id
        leader = core.leader.node_id if core.leader else None
        nodes = {member.node_id for member in core.configuration.all_members()} | ({leader} if leader else set())
        return sorted(nodes - {me}, key=lambda node: (node != leader, node))

    async def _sync(self) -> None:
        """Make the repairs durable; a failed sync ends the process."""
        segments = self._group.log.segments
        changed = segments.changed_since_checkpoint()
        await self._driver.persister.sync(changed.files, changed.directories)
        changed.note_synced()
