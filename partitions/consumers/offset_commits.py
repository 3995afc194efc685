"""Offset commits of an instance: fenced by the generation of its group member; without a member they only rise.

A partition that is no longer assigned to the instance is left out: another group member may have committed it
already. Auto-commit commits the acknowledged offsets with every poll, and retries a failed commit every
`AUTO_COMMIT_S`. Called by instances."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from raftlog.errors import (
    ConsumerState,
    Overloaded,
    RaftlogError,
    RebalanceInProgress,
    StaleGeneration,
    UnknownMember,
)
from raftlog.partitions.consumers.instance_host import InstanceHost
from raftlog.partitions.consumers.positions import FetchPositions
from raftlog.partitions.consumers.results import CommitOutcome
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit
from raftlog.types import TopicPartition

_logger = logging.getLogger(__name__)

AUTO_COMMIT_S: Final = 5.0
_COMMIT_MS: Final = 5_000
_PAUSE_S: Final = 0.01
"""Pause before a commit that a rebalance refused is retried."""
_QUIET_S: Final = 1.0
_BACKGROUND_MAX: Final = 16
"""Limit of commits of one instance that run without a waiting request."""

OffsetsToCommit: TypeAlias = Mapping[TopicPartition, OffsetCommit]
Settled: TypeAlias = Callable[[Deadline], Awaitable[None]]


class InstanceCommits:
    """Offset commits of one instance.

    `settled` waits until the instance has an assignment, and raises the reason when it cannot have one."""

    def __init__(
        self,
        host: InstanceHost,
        group: str,
        name: str,
        positions: FetchPositions,
        identity: Callable[[], MemberIdentity | None],
        settled: Settled,
    ) -> None:
        """Prepare commits of the instance `name`.

        `identity` returns its identity as group member, None without a subscription; `settled` waits until it has an
        assignment."""
        self._host, self._group, self._name, self._positions = host, group, name, positions
        self._identity, self._settled = identity, settled
        self._auto: asyncio.Task[None] | None = None
        self._background: dict[asyncio.Task[None], None] = {}

    async def commit(self, offsets: OffsetsToCommit, deadline: Deadline) -> list[CommitOutcome]:
        """Commit the offsets in partitions of the instance; return the outcome of each, sorted by partition.

        Raises `ConsumerState` if none of the partitions is assigned to the instance, or if its partitions are
        assigned by hand and the group has members; and the errors of the coordinator."""
        while True:
            await self._settled(deadline)
            try:
                return await self._commit_once(offsets, deadline)
            except (RebalanceInProgress, StaleGeneration, UnknownMember) as error:
                if self._identity() is None and isinstance(error, UnknownMember):
                    raise ConsumerState(
                        f"group {self._group} has members; {self._name}, whose partitions are assigned by hand, cannot "
                        "commit for it"
                    ) from None
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(_PAUSE_S)  # the member is notified at once, and its `settled` is cleared

    async def _commit_once(self, offsets: OffsetsToCommit, deadline: Deadline) -> list[CommitOutcome]:
        """Commit the offsets in partitions of the instance, without a retry; return the outcome of each."""
        owned_commits = self._select_owned(offsets)
        committed = {}
        if owned_commits:
            committed = await self._host.offsets.commit(
                self._group, owned_commits, member=self._identity(), deadline=deadline
            )
        for partition, commit in owned_commits.items():
            self._positions.mark_committed(partition, commit)
        return self._outcomes(
            offsets, {each: found.offset for each, found in committed.items() if each in owned_commits}
        )

    def _select_owned(self, offsets: OffsetsToCommit) -> dict[TopicPartition, OffsetCommit]:
        """Return the offsets of assigned partitions. Raises `ConsumerState` if there are only others."""
        owned = set(self._positions.owned)
        owned_commits = {partition: commit for partition, commit in offsets.items() if partition in owned}
        if offsets and not owned_commits:
            raise ConsumerState(f"{self._refusal_text(next(iter(offsets)))}; nothing was committed")
        return owned_commits

    def _outcomes(self, offsets: OffsetsToCommit, committed: Mapping[TopicPartition, int]) -> list[CommitOutcome]:
        """Return the outcome of each commit: the committed offset, or the reason of its refusal."""
        owned = set(self._positions.owned)
        return [
            CommitOutcome(
                *partition,
                commit.offset - 1,
                committed.get(partition),
                None if partition in owned or partition in committed else self._refusal_text(partition),
            )
            for partition, commit in sorted(offsets.items())
        ]

    def _refusal_text(self, partition: TopicPartition) -> str:
        """Return why an offset of this partition cannot be committed now."""
        return f"{partition} is not assigned to {self._name} in {self._group} now"

    # in the background

    async def commit_in_background(self, offsets: OffsetsToCommit, deadline: Deadline) -> list[CommitOutcome]:
        """Wait until the assignment is settled, then commit in the background; errors are logged.

        The outcomes show which offsets were accepted; none has a committed offset yet. Raises `ConsumerState` like
        `commit`, and `Overloaded` if too many commits are pending."""
        await self._settled(deadline)
        self._select_owned(offsets)
        if len(self._background) >= _BACKGROUND_MAX:
            raise Overloaded(
                f"{len(self._background)} commits of {self._name} are pending; nothing was committed. Retry later"
            )
        committing = self.try_to_commit(offsets, deadline_in(_COMMIT_MS))
        task = asyncio.get_running_loop().create_task(committing, name=f"commit {self._group}/{self._name}")
        self._background[task] = None
        task.add_done_callback(self._background.pop)
        return self._outcomes(offsets, {})

    async def try_to_commit(self, offsets: OffsetsToCommit, deadline: Deadline) -> None:
        """Commit if possible; log a failure instead of raising it."""
        await self._commit_or_log(self.commit, offsets, deadline)

    async def _commit_or_log(
        self,
        commit: Callable[[OffsetsToCommit, Deadline], Awaitable[object]],
        offsets: OffsetsToCommit,
        deadline: Deadline,
    ) -> None:
        """Call `commit` if there are offsets; log an error of raftlog instead of raising it."""
        try:
            if offsets:
                await commit(offsets, deadline)
        except RaftlogError as error:
            _logger.info("%s/%s: offsets were not committed: %s", self._group, self._name, error)

    def auto_commit(self) -> asyncio.Task[None]:
        """Commit the acknowledged offsets in the background, with retries until it succeeds."""
        if self._auto is None or self._auto.done():
            committing = self._auto_commit()
            self._auto = asyncio.get_running_loop().create_task(committing, name=f"auto-commit {self._name}")
        return self._auto

    async def _auto_commit(self) -> None:
        """Commit acknowledged offsets until all are committed; retry every `AUTO_COMMIT_S` after an error."""
        while offsets := self._positions.acknowledged():
            try:
                await self.commit(offsets, deadline_in(_COMMIT_MS))
            except ConsumerState:
                return
            except RaftlogError as error:
                _logger.info("%s/%s: auto-commit failed and is retried: %s", self._group, self._name, error)
                await asyncio.sleep(AUTO_COMMIT_S)

    async def wait_for_auto_commit(self) -> None:
        """Wait until a running auto-commit has ended, at most `_QUIET_S`."""
        if self._auto is not None and not self._auto.done():
            await asyncio.wait((self._auto,), timeout=_QUIET_S)

    async def commit_before_revocation(self, offsets: OffsetsToCommit, deadline: Deadline) -> None:
        """Commit offsets of partitions that are being revoked, in the present generation; log a failure."""
        await self._commit_or_log(self._commit_once, offsets, deadline)

    def stop(self) -> None:
        """Discard pending commits."""
        for task in (*self._background, self._auto):
            if task is not None:
                task.cancel()
