"""Group members controlled by the test: the requests that their clients would send to any broker."""

from collections.abc import Mapping, Sequence

from raftlog.assignors import Subscription, decode_assignment, encode_assignment, encode_subscription
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.records import Protocol
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Join,
    JoinedGeneration,
    Leave,
    LeftMember,
    MemberIdentity,
    MemberToLeave,
    OffsetCommit,
    Sync,
)
from raftlog.types import Offset, TopicPartition
from tests.brokers.conftest import Brokers

G = "readers"


def soon() -> Deadline:
    return deadline_in(20_000)


def make_protocols(*topics: str) -> tuple[Protocol, ...]:
    return (Protocol("range", encode_subscription(Subscription(topics or ("t",)))),)


class Member:
    """Member of a consumer group that sends its requests to one broker.

    The coordinator assigns its partitions unless the member `leads` the group."""

    def __init__(self, broker: Broker, group: str = G, *, leads: bool = False, instance_id: str | None = None) -> None:
        self.broker, self.group, self._leads, self._instance_id = broker, group, leads, instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: list[TopicPartition] = []

    @property
    def identity(self) -> MemberIdentity:
        return MemberIdentity(self.member_id, self.generation, self._instance_id)

    async def join(self, *topics: str, session_ms: int = 10_000, deadline: Deadline | None = None) -> JoinedGeneration:
        """Join once with subscriptions to these topics."""
        joined = await self.broker.groups.join(
            Join(
                self.group,
                self.member_id,
                make_protocols(*topics),
                instance_id=self._instance_id,
                session_timeout_ms=session_ms,
                can_lead=self._leads,
            ),
            deadline=deadline or soon(),
        )
        assert isinstance(joined, JoinedGeneration)
        self.member_id, self.generation = joined.member_id, joined.generation
        return joined

    async def sync(
        self, assignments: Mapping[str, Sequence[TopicPartition]] | None = None, deadline: Deadline | None = None
    ) -> list[TopicPartition]:
        """Send the assignments that this member made as the leader, and return those that it gets."""
        given = tuple((name, encode_assignment(partitions)) for name, partitions in (assignments or {}).items())
        synced = await self.broker.groups.sync(
            Sync(self.group, self.member_id, self.generation, self._instance_id, given), deadline=deadline or soon()
        )
        assert synced.generation == self.generation
        self.owned = list(decode_assignment(synced.assignment).partitions)
        return self.owned

    async def begin(self, *topics: str) -> list[TopicPartition]:
        await self.join(*topics)
        return await self.sync()

    async def heartbeat(self, wait_ms: int = 0) -> None:
        beat = GroupHeartbeat(self.group, self.member_id, self.generation, self._instance_id, wait_ms)
        await self.broker.groups.heartbeat(beat, deadline=soon())

    async def commit(self, offset: int, partition: int = 0, metadata: str = "") -> None:
        await commit(self.broker, {partition: offset}, self.group, member=self.identity, metadata=metadata)

    async def leave(self) -> LeftMember:
        leave = Leave(self.group, (MemberToLeave(self.member_id, self._instance_id),))
        (left,) = await self.broker.groups.leave(leave, deadline=soon())
        return left


async def commit(
    broker: Broker,
    offsets: Mapping[int, int],
    group: str = G,
    *,
    topic: str = "t",
    member: MemberIdentity | None = None,
    metadata: str = "",
    deadline: Deadline | None = None,
) -> None:
    wanted = {TopicPartition(topic, number): OffsetCommit(Offset(at), metadata) for number, at in offsets.items()}
    await broker.groups.commit(group, wanted, member=member, deadline=deadline or soon())


async def fetch_committed(broker: Broker, group: str = G) -> dict[tuple[str, int], int]:
    found = await broker.groups.committed(group, deadline=soon())
    return {(place.topic, place.partition): int(each.offset) for place, each in found.items()}


async def coordinator_node(brokers: Brokers, group: str = G) -> int:
    """Return the node id of the running broker that coordinates the group; wait until there is one."""
    asked = next(iter(brokers.running.values()))
    await asked.groups.router.partition_for(group, soon())
    await asked.groups.committed(group, deadline=soon())
    for number, broker in brokers.running.items():
        partition = await broker.groups.router.partition_for(group, soon())
        if partition.replica is not None and partition.replica.is_leader:
            return number
    raise AssertionError("it has no coordinator any more")


async def list_other_brokers(brokers: Brokers, group: str = G) -> list[Broker]:
    """Return the running brokers except the group's coordinator."""
    leader = await coordinator_node(brokers, group)
    return [broker for number, broker in brokers.running.items() if number != leader]
