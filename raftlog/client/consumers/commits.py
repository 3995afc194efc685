"""The offsets that a `Consumer` commits: one commit at a time, so that they are taken in order; by itself once enough
records are processed, or time has passed.

Of an error that nobody waits for the member is told; what passes is committed with the next.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.group_session import Assigned, GroupSession
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.types import Offset, TopicPartition

Positions = Mapping[TopicPartition, Offset]
_log = logging.getLogger("raftlog.client")


class Commits:
    """`processed()` gives offsets behind what is processed; without a `member` they are a watermark that only rises."""

    def __init__(self, client: BrokerClient, group: str, processed: Callable[[], Positions]) -> None:
        self._client, self._group, self._processed = client, group, processed
        self.member: GroupSession | None = None
        self._committed: dict[TopicPartition, Offset] = {}
        self._order = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._count = 0

    def begin(self, assigned: Assigned) -> None:
        """A new assignment, with what is committed for it."""
        self._committed = {place: offset for place, offset in assigned.items() if offset is not None}
        self._count = 0

    def note(self, records: int, records_max: int, interval_s: float) -> None:
        """So many records more are processed. Commit at `records_max`; and from now on look every `interval_s` whether
        there is something to commit."""
        self._count += records
        if self._count >= records_max:
            self._start()
        if self._timer is None:
            self._look_again(interval_s)

    async def commit(self, positions: Positions) -> None:
        """Commit now what is not; raises what a broker answers."""
        async with self._order:
            new = self._new(positions)
            if new:
                member = None if self.member is None else self.member.required()
                await self._client.groups.commit(self._group, new, member)
                self._committed.update(new)

    async def commit_quietly(self, positions: Positions) -> None:
        """The same, where nobody waits for an error."""
        try:
            await self.commit(positions)
        except (Unavailable, OutcomeUnknown) as error:
            _log.info("offsets of group %s are not committed for now: %s", self._group, error)
        except RaftlogError as error:
            _log.warning("offsets of group %s are not committed: %s", self._group, error)
            if self.member is not None:
                self.member.note(error)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _look_again(self, interval_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._look, interval_s)

    def _look(self, interval_s: float) -> None:
        self._start()
        self._look_again(interval_s)

    def _start(self) -> None:
        """Unless a commit is under way: what is processed meanwhile goes with the next."""
        if self._task is not None and not self._task.done():
            return
        self._count = 0
        new = self._new(self._processed())
        if new:
            self._task = asyncio.create_task(self.commit_quietly(new))

    def _new(self, positions: Positions) -> dict[TopicPartition, Offset]:
        return {place: offset for place, offset in positions.items() if self._committed.get(place) != offset}
