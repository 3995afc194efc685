"""A coordinator over a log in memory: commits during pending appends, and expiry of commits and groups."""

import asyncio
from random import Random
from typing import Any
from uuid import UUID

import pytest

from raftlog.errors import DeadlineExceeded, FormatError, GroupFull, NotLeader, RaftlogError, Unavailable, UnknownTopic
from raftlog.partitions.coordinator.maintenance import CoordinatorMaintenance
from raftlog.partitions.counters import Counters
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.environment import GroupEnvironment
from raftlog.partitions.groups.records import (
    GroupKey,
    GroupRecord,
    MemberRecord,
    OffsetKey,
    OffsetRecord,
    Value,
    encode_key,
    encode_value,
)
from raftlog.partitions.groups.results import OffsetCommit, Place, TransactionalProducer
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.replica.waits import Waits
from raftlog.records import NewRecord
from raftlog.types import FEATURE_LEVEL_TRANSACTIONS, Offset
from tests.groups.test_writer import Log
from tests.undecodable import SMALL

TOPIC, DELETED = UUID(int=7), UUID(int=8)
PLACE: Place = (TOPIC, 0)
RETENTION_MS = 1_000
MEMBER = MemberRecord("m", None, "client", "host", 600_000, 600_000, False, b"", ())


class Replica(Log):
    """Log whose leadership a majority confirms until it is `lost`."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: NotLeader | None = None
        self.waits = Waits()
        self.size_bytes = 0
        self.calls: list[tuple[str, int]] = []
        """Rolls and trims, with the offsets at which they came, or to which they go."""

    async def offsets(self, is_confirmed: bool, deadline: Deadline) -> None:
        if is_confirmed and self.lost is not None:
            raise self.lost

    def describe(self) -> Any:
        return self

    async def roll_now(self) -> None:
        self.calls.append(("roll", self.high_watermark))

    async def propose_trim(self, offset: Offset) -> None:
        self.calls.append(("trim", offset))


class World:
    """Coordinator with a clock and a log that the test controls."""

    def __init__(self, growth_bytes_max: int = 1 << 30, max_groups: int = 10) -> None:
        self.replica: Any = Replica()
        self.now_ms, self.growth_bytes_max = 1_000_000, growth_bytes_max
        self.feature_level = FEATURE_LEVEL_TRANSACTIONS
        self.verifications: list[TransactionalProducer] = []
        self.is_verified = asyncio.Event()
        """Whether the transactions' coordinator answers; until then it is asked in vain."""
        self.is_verified.set()
        self.refusal: RaftlogError | None = None
        self.number = 1
        """Number of the transaction that groups join."""
        places: Any = None
        self.around = GroupEnvironment(
            settings=GroupSettings(max_groups=max_groups),
            random=Random(1),
            wall_ms=lambda: self.now_ms,
            counters=Counters(),
            partitions_of=lambda name: 1,
            places=places,
            is_deleted=lambda topic_id: topic_id == DELETED,
            offsets_retention_ms=RETENTION_MS,
            feature_level=lambda: self.feature_level,
            verify_transaction=self.verify,
            join_transaction=self.join,
        )
        self.coordinator = GroupCoordinator(self.replica, self.around, lambda coordinator: coordinator.end())

    async def verify(self, producer: TransactionalProducer, group: str, deadline: Deadline) -> None:
        """Confirm as the transactions' coordinator that the group is in the open transaction."""
        self.verifications.append(producer)
        await self.is_verified.wait()
        if self.refusal is not None:
            raise self.refusal

    async def join(self, producer: TransactionalProducer, group: str, deadline: Deadline) -> int:
        """Add the group to the transaction with the number of `self.number`, as the transactions' coordinator."""
        await self.verify(producer, group, deadline)
        return self.number

    def put_record(self, key: OffsetKey | GroupKey, value: Value) -> None:
        """Put a record into the log before the coordinator loads."""
        self.replica.append_by_others(NewRecord(encode_value(value), encode_key(key)))

    def commit(self, offset: int, topic: UUID = TOPIC, group: str = "g") -> "asyncio.Task[dict[Place, OffsetRecord]]":
        """Commit an offset for a group without members."""
        offsets = {(topic, 0): OffsetCommit(Offset(offset))}
        return asyncio.create_task(self.coordinator.offsets.commit(group, offsets, None, deadline_in(10_000)))

    async def expire(self) -> list[Place]:
        """Run the maintenance once; return the places of the offsets that stay committed."""
        maintenance = CoordinatorMaintenance(lambda: [self.coordinator], self.growth_bytes_max)
        maintenance.begin()
        for _ in range(3):
            await run_pending_tasks()
            if self.replica.waiting:
                self.replica.commit()
        await run_pending_tasks()
        await maintenance.stop()
        return sorted(self.coordinator.offsets.applied_offsets("g"))


async def run_pending_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_log_that_cannot_be_read_after_a_lost_leadership_reports_nothing(world: World) -> None:
    """Reading continues for a slice; the next leader reports the failure."""

    async def catch_up(group: Any) -> None:
        world.coordinator.end()
        raise FormatError("an unknown field")

    world.coordinator.folded.catch_up = catch_up  # type: ignore[method-assign]
    assert not await world.coordinator.load()
    assert world.coordinator.problem is None


async def test_an_unreadable_log_is_reported_while_this_broker_leads(world: World) -> None:
    """The producer table of the same replica reports its own unreadable records."""

    async def catch_up(group: Any) -> None:
        raise FormatError("an unknown field")

    world.coordinator.folded.catch_up = catch_up  # type: ignore[method-assign]
    unreadable = world.replica.group.unreadable
    unreadable["producers"] = "an unknown snapshot"
    assert not await world.coordinator.load()
    assert unreadable == {"producers": "an unknown snapshot", "coordinator": "an unknown field"}
    world.coordinator.end()
    assert unreadable == {"producers": "an unknown snapshot"}


async def test_a_lower_commit_waits_for_a_pending_higher_one(world: World) -> None:
    assert await world.coordinator.load()
    higher = world.commit(5)
    await run_pending_tasks()
    lower = world.commit(3)
    await run_pending_tasks()
    assert not lower.done()
    assert len(world.replica.waiting) == 1, "the lower one changes nothing"
    world.replica.commit()
    assert {place: record.offset for place, record in (await lower).items()} == {PLACE: 5}
    await higher


async def test_a_lower_commit_fails_with_a_pending_higher_one(world: World) -> None:
    assert await world.coordinator.load()
    higher = world.commit(5)
    await run_pending_tasks()
    lower = world.commit(3)
    await run_pending_tasks()
    world.replica.waiting.pop()[0].set_exception(Unavailable("the log is full"))
    for each in (higher, lower):
        with pytest.raises(Unavailable):
            await each


async def test_requests_end_at_their_deadline_while_an_append_is_not_committed(world: World) -> None:
    assert await world.coordinator.load()
    first = world.commit(5)
    await run_pending_tasks()
    writer = world.coordinator.writer
    barriers = set()
    for offset in (3, 4, 6, 6):  # those that change nothing wait for the append, the others for the next one
        late = {PLACE: OffsetCommit(Offset(offset))}
        with pytest.raises(DeadlineExceeded):
            await world.coordinator.offsets.commit("g", late, None, deadline_in(0))
        barriers.add(writer.barrier())
    assert len(barriers) == 2, "one for each append, however many requests give up"
    for _ in range(2):
        world.replica.commit()
        await run_pending_tasks()
    assert (await first)[PLACE].offset == 5
    assert writer.barrier() is None


async def test_a_lower_commit_is_answered_once_a_majority_confirms_the_higher_one(world: World) -> None:
    world.put_record(OffsetKey("g", *PLACE), OffsetRecord(Offset(5), -1, "", 0))
    assert await world.coordinator.load()
    world.replica.lost = NotLeader("no majority")
    with pytest.raises(NotLeader):
        await world.commit(3)
    world.replica.lost = None
    assert (await world.commit(3))[PLACE].offset == 5
    assert not world.replica.waiting


async def test_commits_in_a_deleted_topic_are_refused(world: World) -> None:
    assert await world.coordinator.load()
    with pytest.raises(UnknownTopic, match="was deleted"):
        await world.commit(3, DELETED)
    await run_pending_tasks()
    assert not world.replica.waiting


async def test_a_new_group_above_the_limit_is_refused_and_a_known_one_may_commit() -> None:
    world = World(max_groups=1)
    put_offset(world, 0)
    assert await world.coordinator.load()
    with pytest.raises(GroupFull):
        await world.commit(1, group="another")
    known = world.commit(9)
    await run_pending_tasks()
    world.replica.commit()
    assert (await known)[PLACE].offset == 9


async def test_a_commit_after_unreadable_records_is_answered_as_it_was_sent(world: World) -> None:
    """Unreadable records of another writer end the coordinator; the commit is after them in the log."""
    put_offset(world, 0)
    assert await world.coordinator.load()
    made = world.commit(9)
    await run_pending_tasks()
    world.replica._store(SMALL[0].batch)
    world.replica.commit()
    assert (await made)[PLACE].offset == 9
    assert world.coordinator.is_over


def put_offset(world: World, age_ms: int, partition: int = 0, topic: UUID = TOPIC) -> Place:
    record = OffsetRecord(Offset(5), -1, "", world.now_ms - age_ms)
    world.put_record(OffsetKey("g", topic, partition), record)
    return topic, partition


def put_group(world: World, count: int, age_ms: int, group: str = "g") -> None:
    record = GroupRecord("consumer", 1, "range", "", True, world.now_ms - age_ms, (MEMBER,) * count)
    world.put_record(GroupKey(group), record)


async def test_offsets_expire_together_once_the_newest_is_old_enough(world: World) -> None:
    places = [put_offset(world, RETENTION_MS + 1, 0), put_offset(world, RETENTION_MS, 1)]
    assert await world.coordinator.load()
    assert await world.expire() == places
    world.now_ms += 1
    assert await world.expire() == []
    assert world.around.counters.group_expired == 2


async def test_offsets_of_a_group_with_members_do_not_expire(world: World) -> None:
    place = put_offset(world, 10 * RETENTION_MS)
    put_group(world, 1, 10 * RETENTION_MS)
    assert await world.coordinator.load()
    assert await world.expire() == [place]
    world.coordinator.end()


async def test_the_retention_of_offsets_begins_when_the_last_member_leaves(world: World) -> None:
    place = put_offset(world, 10 * RETENTION_MS)
    put_group(world, 0, RETENTION_MS)
    assert await world.coordinator.load()
    assert await world.expire() == [place]
    world.now_ms += 1
    assert await world.expire() == []


async def test_a_commit_keeps_all_offsets_of_a_group_that_lost_its_members_long_ago(world: World) -> None:
    place = put_offset(world, RETENTION_MS)
    put_group(world, 0, 10 * RETENTION_MS)
    assert await world.coordinator.load()
    assert await world.expire() == [place]


async def test_offsets_in_deleted_topics_are_removed_at_once(world: World) -> None:
    place = put_offset(world, 0)
    put_offset(world, 0, topic=DELETED)
    put_group(world, 1, 0)
    assert await world.coordinator.load()
    assert await world.expire() == [place]
    world.coordinator.end()


async def test_groups_without_offsets_or_members_expire(world: World) -> None:
    put_group(world, 1, 10 * RETENTION_MS, "f")
    put_group(world, 0, RETENTION_MS, "g")
    assert await world.coordinator.load()
    describe = world.coordinator.machine.group
    await world.expire()
    assert describe("g") is not None
    world.now_ms += 1
    await world.expire()
    assert describe("g") is None
    assert describe("f") is not None
    world.coordinator.end()


async def test_a_grown_log_is_rewritten_and_trimmed() -> None:
    world = World(growth_bytes_max=1_000)
    places = [put_offset(world, 0, 0), put_offset(world, 0, 1)]
    world.replica.size_bytes = 1_000
    assert await world.coordinator.load()
    await world.expire()
    assert world.replica.calls == []
    world.replica.size_bytes += 1
    for _ in range(2):  # the second time it has not grown
        assert await world.expire() == places
        assert world.replica.calls == [("roll", 4), ("trim", 2)]
