"""Offset commits of a `Consumer`, one at a time and so in order; automatic by number of records and by time.

The member gets the error of an automatic commit; after a temporary error the offsets are part of the next commit."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from raftlog.client.broker import BrokerClient
from raftlog.client.consumers.group_session import Assigned, GroupSession
from raftlog.client.group_answers import Membership
from raftlog.errors import OutcomeUnknown, RaftlogError, Unavailable
from raftlog.types import Offset, TopicPartition

Positions = Mapping[TopicPartition, Offset]
_log = logging.getLogger("raftlog.client")


class Commits:
    """Commits of a consumer; the broker never lowers committed offsets of a consumer without a `member`.

    `processed()` returns the offsets after the processed records."""

    def __init__(self, client: BrokerClient, group: str, processed: Callable[[], Positions]) -> None:
        """Commit offsets of the group; `processed` returns the positions up to which records are processed."""
        self._client, self._group, self._processed = client, group, processed
        self.member: GroupSession | None = None
        self._committed: dict[TopicPartition, Offset] = {}
        self._order = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._count = 0

    def begin(self, assigned: Assigned) -> None:
        """Start with a new assignment and its committed offsets."""
        self._committed = {
            topic_partition: offset for topic_partition, offset in assigned.items() if offset is not None
        }
        self._count = 0

    def count_processed(self, records: int, records_max: int, interval_s: float) -> None:
        """Add to the count of processed records: commit at `records_max`, or every `interval_s` seconds."""
        self._count += records
        if self._count >= records_max:
            self._start()
        if self._timer is None:
            self._start_timer(interval_s)

    async def commit(self, positions: Positions) -> None:
        """Commit the offsets that are not committed yet; raises the broker's error."""
        async with self._order:
            new = self.find_uncommitted(positions)
            if new:
                member = self.require_membership()
                await self._client.groups.commit(self._group, new, member)
                self._committed.update(new)

    @property
    def membership(self) -> Membership | None:
        """Present membership; None for partitions that were assigned by hand."""
        return None if self.member is None else self.member.membership

    def require_membership(self) -> Membership | None:
        """Return the membership for a commit, None without a group member.

        Raises `UnknownMember` while the member belongs to no generation."""
        return None if self.member is None else self.member.require_membership()

    def set_committed(self, positions: Positions) -> None:
        """Record offsets that a transaction has committed."""
        self._committed.update(positions)

    async def try_commit(self, positions: Positions) -> None:
        """Commit, and log errors instead of raising them."""
        try:
            await self.commit(positions)
        except (Unavailable, OutcomeUnknown) as error:
            _log.info("offsets of group %s are not committed for now: %s", self._group, error)
        except RaftlogError as error:
            _log.warning("offsets of group %s are not committed: %s", self._group, error)
            if self.member is not None:
                self.member.apply_error(error)

    async def close(self) -> None:
        """Cancel the timer and a commit that is in flight."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _start_timer(self, interval_s: float) -> None:
        """Commit after `interval_s` seconds."""
        self._timer = asyncio.get_running_loop().call_later(interval_s, self._commit_on_timer, interval_s)

    def _commit_on_timer(self, interval_s: float) -> None:
        """Start a commit, and set the timer for the next one."""
        self._start()
        self._start_timer(interval_s)

    def _start(self) -> None:
        """Start a commit unless one is in flight; offsets that are processed later go with the next commit."""
        if self._task is not None and not self._task.done():
            return
        self._count = 0
        new = self.find_uncommitted(self._processed())
        if new:
            self._task = asyncio.create_task(self.try_commit(new))

    def find_uncommitted(self, positions: Positions) -> dict[TopicPartition, Offset]:
        """Return the positions that differ from the last committed ones."""
        return {
            topic_partition: offset
            for topic_partition, offset in positions.items()
            if self._committed.get(topic_partition) != offset
        }
