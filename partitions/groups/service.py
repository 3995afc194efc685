"""Groups of consumers, from any node: membership, committed offsets, what operators look at and change.

    a group's coordinator is the leader of partition murmur2(group) mod n of `__consumer_offsets`;   every broker takes
    every call and asks it there, by one hop

Every call has a deadline (`partitions.deadline`) and raises from `raftlog.errors`: one that may have happened all the
same raises `OutcomeUnknown`. That a coordinator changes, or still loads, is waited for until the deadline and then
`NoLeader` or `CoordinatorLoading`. `broker.groups` is the one instance of a process. Called by every face.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from raftlog.partitions.deadline import Deadline
from raftlog.partitions.groups.results import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    Left,
    MemberIdentity,
    OffsetCommit,
    OffsetReset,
    PartitionLag,
    ResetTo,
)
from raftlog.runtime.rpc import Answer
from raftlog.types import TopicPartition

if TYPE_CHECKING:
    from raftlog.partitions.groups.requests import Heartbeat, Join, Joined, Leave, Sync, Synced

    from raftlog.partitions.groups.coordinator import Coordinator

AtCoordinator: TypeAlias = "Callable[[Coordinator, Any, Deadline], Awaitable[Answer]]"
"""Serves a request at the coordinator of its group; the header is made of numbers, text, bytes, lists and mappings."""


class Follower(Protocol):
    """Who lives beside coordinators, such as consumer instances."""

    def coordinator_began(self, coordinator: "Coordinator") -> None:
        """It has loaded, and serves: `coordinator.instances` has what was stored."""

    def coordinator_ended(self, coordinator: "Coordinator") -> None:
        """It serves no more: another broker does. Everything that belongs to it is to be forgotten."""


class Groups:
    """One for each process."""

    # ---- membership (Kafka's classic protocol; `requests` has what is asked and answered)

    async def join(self, join: "Join", *, deadline: Deadline) -> "Joined":
        """Become or stay a member; answered when the join phase is over.

        Raises `RebalanceInProgress` at the deadline: the member is one, its id is in `error.member_id`, and it joins
        again with that. Raises `UnknownMember`, `FencedInstance`, `InconsistentProtocol`, `GroupFull`,
        `InvalidArgument`.
        """
        raise NotImplementedError

    async def sync(self, sync: "Sync", *, deadline: Deadline) -> "Synced":
        """A member's assignment, once the leader of the group has given it. Raises `UnknownMember`, `StaleGeneration`,
        `FencedInstance`, `RebalanceInProgress`."""
        raise NotImplementedError

    async def heartbeat(self, heartbeat: "Heartbeat", *, wait_ms: int = 0, deadline: Deadline) -> None:
        """A member is alive. With `wait_ms` (at most 30 s, and never past half its session) answered after that time,
        or at once when the group begins to rebalance. Raises as `sync` does."""
        raise NotImplementedError

    async def leave(self, leave: "Leave", *, deadline: Deadline) -> list[Left]:
        """Take members out of the group; what became of each, in their order."""
        raise NotImplementedError

    # ---- offsets

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetCommit],
        *,
        member: MemberIdentity | None = None,
        deadline: Deadline,
    ) -> dict[TopicPartition, CommittedOffset]:
        """Commit durably; all that the group has committed then.

        Of a member: in its order, backwards too, fenced by its generation. Without one: watermarks that only rise, and
        only while the group has no members. Raises `UnknownTopic`, `UnknownPartition`, `UnknownMember`,
        `StaleGeneration`, `FencedInstance`, `RebalanceInProgress`, `InvalidArgument`: nothing was committed.
        """
        raise NotImplementedError

    async def committed(self, group: str, *, deadline: Deadline) -> dict[TopicPartition, CommittedOffset]:
        """With everything that was answered before this call (linearizable); empty for a group that nobody knows."""
        raise NotImplementedError

    # ---- looking at groups

    async def names(self, *, deadline: Deadline) -> list[str]:
        """All groups, sorted."""
        raise NotImplementedError

    async def listings(self, *, deadline: Deadline) -> list[GroupListing]:
        """The same with their states."""
        raise NotImplementedError

    async def describe(self, group: str, *, deadline: Deadline) -> GroupDescription:
        """Raises `UnknownGroup`."""
        raise NotImplementedError

    async def lag(self, group: str, *, deadline: Deadline) -> list[PartitionLag]:
        """Of every partition that the group committed in or that a member owns, sorted. Raises `UnknownGroup`."""
        raise NotImplementedError

    # ---- what operators change

    async def delete(self, group: str, *, deadline: Deadline) -> None:
        """With its offsets. Raises `UnknownGroup` and `GroupNotEmpty`."""
        raise NotImplementedError

    async def delete_offsets(self, group: str, topic: str, *, deadline: Deadline) -> list[int]:
        """Forget what is committed in a topic; the partitions, sorted. Raises `UnknownGroup`, and `GroupNotEmpty` while
        a member subscribes to the topic."""
        raise NotImplementedError

    async def reset(
        self,
        group: str,
        to: ResetTo,
        *,
        topics: Collection[str] = (),
        partitions: Collection[TopicPartition] = (),
        dry_run: bool = False,
        deadline: Deadline,
    ) -> list[OffsetReset]:
        """Move what is committed, backwards too: in these topics and partitions, or wherever something is committed.

        Sorted by topic and partition. Raises `GroupNotEmpty`, `UnknownTopic`, `UnknownPartition`, and `InvalidArgument`
        where nothing is committed and nothing is named.
        """
        raise NotImplementedError

    # ---- where the coordinator is

    def leader_address(self, group: str) -> str | None:
        """Where clients reach the group's coordinator, when that is another broker."""
        raise NotImplementedError

    def coordinator_of(self, group: str) -> "Coordinator":
        """Of a group that is coordinated here. Raises `NotLeader` and `CoordinatorLoading`."""
        raise NotImplementedError

    def follow(self, follower: Follower) -> None:
        """Tell it when coordinators begin and end in this process; before the broker starts."""
        raise NotImplementedError

    def serve(self, name: str, handler: AtCoordinator) -> None:
        """Let `ask` reach `handler` at the coordinator of a group, here or elsewhere; one for each name."""
        raise NotImplementedError

    async def ask(
        self, name: str, group: str, header: Any, *, deadline: Deadline, is_repeatable: bool, creates: bool = False
    ) -> Answer:
        """Have `name` served at the group's coordinator, which is found again until the deadline.

        `is_repeatable`: asked again when its answer was lost; otherwise that raises `OutcomeUnknown`. `creates`: the
        internal topic is made when it is missing; otherwise that raises `UnknownGroup`.
        """
        raise NotImplementedError
