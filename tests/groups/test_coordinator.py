"""A coordinator over a log in memory: commits beside appends under way, and the expiry of what groups committed."""

import asyncio
from random import Random
from typing import Any
from uuid import UUID

import pytest

from raftlog.errors import FormatError, GroupFull, NotLeader, Unavailable, UnknownTopic
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
from raftlog.partitions.groups.results import OffsetCommit, Place
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.records import NewRecord
from raftlog.types import Offset
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
    """One coordinator with a clock that the test sets."""

    def __init__(self, growth_bytes_max: int = 1 << 30, max_groups: int = 10) -> None:
        self.replica: Any = Replica()
        self.now_ms, self.growth_bytes_max = 1_000_000, growth_bytes_max
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
            feature_level=lambda: 1,
        )
        self.coordinator = GroupCoordinator(self.replica, self.around, lambda coordinator: coordinator.end())

    def stored(self, key: OffsetKey | GroupKey, value: Value) -> None:
        """Put a record into the log before the coordinator loads."""
        self.replica.by_others(NewRecord(encode_value(value), encode_key(key)))

    def commit(self, offset: int, topic: UUID = TOPIC, group: str = "g") -> "asyncio.Task[dict[Place, OffsetRecord]]":
        """Commit for a group without members."""
        offsets = {(topic, 0): OffsetCommit(Offset(offset))}
        return asyncio.create_task(self.coordinator.offsets.commit(group, offsets, None, deadline_in(10_000)))

    async def expire(self) -> list[Place]:
        """Run the maintenance once; return the offsets that stay committed."""
        coordinators: Any = [self.coordinator]
        maintenance = CoordinatorMaintenance(coordinators, self.growth_bytes_max)
        maintenance.begin()
        for _ in range(3):
            await turns()
            if self.replica.waiting:
                self.replica.commit()
        await turns()
        await maintenance.stop()
        return sorted(self.coordinator.offsets.of("g"))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.fixture
async def world() -> World:
    return World()


async def test_a_log_that_cannot_be_read_after_the_leadership_is_lost_ends_quietly(world: World) -> None:
    """Folding goes on for a slice; that it fails then is news of the next leader."""

    async def catch_up(group: Any) -> None:
        world.coordinator.end()
        raise FormatError("an unknown field")

    world.coordinator.folded.catch_up = catch_up  # type: ignore[method-assign]
    assert not await world.coordinator.load()
    assert world.coordinator.problem is None


async def test_an_unreadable_log_is_reported_as_long_as_this_broker_leads(world: World) -> None:
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


async def test_a_lower_commit_waits_for_the_higher_one_that_is_under_way(world: World) -> None:
    assert await world.coordinator.load()
    higher = world.commit(5)
    await turns()
    lower = world.commit(3)
    await turns()
    assert not lower.done()
    assert len(world.replica.waiting) == 1, "the lower one changes nothing"
    world.replica.commit()
    assert {place: record.offset for place, record in (await lower).items()} == {PLACE: 5}
    await higher


async def test_a_lower_commit_fails_with_the_higher_one_that_was_under_way(world: World) -> None:
    assert await world.coordinator.load()
    higher = world.commit(5)
    await turns()
    lower = world.commit(3)
    await turns()
    world.replica.waiting.pop()[0].set_exception(Unavailable("the log is full"))
    for each in (higher, lower):
        with pytest.raises(Unavailable):
            await each


async def test_a_lower_commit_counts_once_a_majority_confirms_that_the_higher_one_is_there(world: World) -> None:
    world.stored(OffsetKey("g", *PLACE), OffsetRecord(Offset(5), -1, "", 0))
    assert await world.coordinator.load()
    world.replica.lost = NotLeader("no majority")
    with pytest.raises(NotLeader):
        await world.commit(3)
    world.replica.lost = None
    assert (await world.commit(3))[PLACE].offset == 5
    assert not world.replica.waiting


async def test_nothing_is_committed_in_a_deleted_topic(world: World) -> None:
    assert await world.coordinator.load()
    with pytest.raises(UnknownTopic, match="was deleted"):
        await world.commit(3, DELETED)
    await turns()
    assert not world.replica.waiting


async def test_a_new_group_above_the_limit_is_refused_and_a_known_one_commits() -> None:
    world = World(max_groups=1)
    committed(world, 0)
    assert await world.coordinator.load()
    with pytest.raises(GroupFull):
        await world.commit(1, group="another")
    known = world.commit(9)
    await turns()
    world.replica.commit()
    assert (await known)[PLACE].offset == 9


async def test_a_commit_that_the_coordinator_cannot_fold_is_answered_as_it_was_made(world: World) -> None:
    """Unreadable records of another writer end the coordinator, and the commit is behind them in the log."""
    committed(world, 0)
    assert await world.coordinator.load()
    made = world.commit(9)
    await turns()
    world.replica._store(SMALL[0].batch)
    world.replica.commit()
    assert (await made)[PLACE].offset == 9
    assert world.coordinator.is_over


def committed(world: World, age_ms: int, partition: int = 0, topic: UUID = TOPIC) -> Place:
    record = OffsetRecord(Offset(5), -1, "", world.now_ms - age_ms)
    world.stored(OffsetKey("g", topic, partition), record)
    return topic, partition


def has_members(world: World, count: int, age_ms: int, group: str = "g") -> None:
    record = GroupRecord("consumer", 1, "range", "", True, world.now_ms - age_ms, (MEMBER,) * count)
    world.stored(GroupKey(group), record)


async def test_offsets_expire_together_once_the_newest_is_old_enough(world: World) -> None:
    places = [committed(world, RETENTION_MS + 1, 0), committed(world, RETENTION_MS, 1)]
    assert await world.coordinator.load()
    assert await world.expire() == places
    world.now_ms += 1
    assert await world.expire() == []
    assert world.around.counters.group_expired == 2


async def test_offsets_of_a_group_with_members_do_not_expire(world: World) -> None:
    place = committed(world, 10 * RETENTION_MS)
    has_members(world, 1, 10 * RETENTION_MS)
    assert await world.coordinator.load()
    assert await world.expire() == [place]
    world.coordinator.end()


async def test_the_retention_begins_when_the_last_member_has_left(world: World) -> None:
    place = committed(world, 10 * RETENTION_MS)
    has_members(world, 0, RETENTION_MS)
    assert await world.coordinator.load()
    assert await world.expire() == [place]
    world.now_ms += 1
    assert await world.expire() == []


async def test_a_commit_keeps_the_offsets_of_a_group_that_lost_its_members_long_ago(world: World) -> None:
    place = committed(world, RETENTION_MS)
    has_members(world, 0, 10 * RETENTION_MS)
    assert await world.coordinator.load()
    assert await world.expire() == [place]


async def test_offsets_in_deleted_topics_go_at_once(world: World) -> None:
    place = committed(world, 0)
    committed(world, 0, topic=DELETED)
    has_members(world, 1, 0)
    assert await world.coordinator.load()
    assert await world.expire() == [place]
    world.coordinator.end()


async def test_groups_without_offsets_or_members_expire(world: World) -> None:
    has_members(world, 1, 10 * RETENTION_MS, "f")
    has_members(world, 0, RETENTION_MS, "g")
    assert await world.coordinator.load()
    describe = world.coordinator.machine.group
    await world.expire()
    assert describe("g") is not None
    world.now_ms += 1
    await world.expire()
    assert describe("g") is None
    assert describe("f") is not None
    world.coordinator.end()


async def test_a_log_that_grew_is_stated_anew_and_trimmed_to_where_that_began() -> None:
    world = World(growth_bytes_max=1_000)
    places = [committed(world, 0, 0), committed(world, 0, 1)]
    world.replica.size_bytes = 1_000
    assert await world.coordinator.load()
    await world.expire()
    assert world.replica.calls == []
    world.replica.size_bytes += 1
    for _ in range(2):  # the second time it has not grown
        assert await world.expire() == places
        assert world.replica.calls == [("roll", 4), ("trim", 2)]
