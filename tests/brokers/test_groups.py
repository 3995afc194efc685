"""Consumer groups through any broker: members share partitions, commits are fenced, and coordinators change."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.errors import (
    GroupNotEmpty,
    InvalidArgument,
    NotLeader,
    OutcomeUnknown,
    RaftlogError,
    RebalanceInProgress,
    StaleGeneration,
    Unavailable,
    UnknownGroup,
    UnknownMember,
    UnknownPartition,
    UnknownTopic,
)
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups import service
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.results import (
    GroupHeartbeat,
    Leave,
    MemberIdentity,
    MemberToLeave,
    OffsetCommit,
    ResetTo,
)
from raftlog.partitions.replica import Replica
from raftlog.partitions.settings import BrokerSettings
from raftlog.records import NewRecord
from raftlog.types import Offset, OffsetRange, TopicPartition
from tests.brokers.conftest import Brokers, brokers_in
from tests.brokers.members import G, Member, commit, coordinator_node, fetch_committed, list_other_brokers, soon
from tests.small_journal import SMALL_JOURNAL
from tests.waiting import until

ALL_OF_T = [TopicPartition("t", number) for number in range(4)]


@pytest.fixture
async def topic(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with brokers_in(tmp_path, offsets_partitions=2) as brokers:
        await brokers.start()
        await brokers[1].create_topic("t", 4, deadline=soon())
        yield brokers


async def join_together(*members: Member) -> list[TopicPartition]:
    await asyncio.gather(*(member.begin() for member in members))
    return sorted(place for member in members for place in member.owned)


async def test_members_at_three_brokers_share_all_partitions(topic):
    members = [Member(topic[number]) for number in (1, 2, 3)]
    assert await join_together(*members) == ALL_OF_T
    assert {member.generation for member in members} == {1}
    described = await topic[2].groups.describe(G, deadline=soon())
    assert (described.state, described.protocol, described.generation) == ("Stable", "range", 1)
    assert {each.member_id: each.assignment.get("t") for each in described.members} == {
        member.member_id: [place.partition for place in member.owned] for member in members
    }
    assert described.coordinator == await coordinator_node(topic)


async def test_the_group_leader_assigns_for_all_members(topic):
    first, second = Member(topic[1], leads=True), Member(topic[2], leads=True)
    joined = await asyncio.gather(first.join(), second.join())
    leader, follower = (first, second) if joined[0].members else (second, first)
    assert {each.leader for each in joined} == {leader.member_id}
    given = {leader.member_id: ALL_OF_T[:1], follower.member_id: ALL_OF_T[1:]}
    assert await asyncio.gather(leader.sync(given), follower.sync()) == [ALL_OF_T[:1], ALL_OF_T[1:]]


async def test_a_waiting_heartbeat_answers_at_once_when_a_member_joins(topic):
    member = Member(topic[1])
    await member.begin()
    waiting = asyncio.ensure_future(member.heartbeat(wait_ms=5_000))
    newcomer = asyncio.ensure_future(Member(topic[2]).begin())
    with pytest.raises(RebalanceInProgress):
        await waiting
    assert len(await member.begin()) == len(await newcomer) == 2


async def test_waiting_heartbeats_beyond_the_limit_are_answered_soon(topic, monkeypatch):
    member = Member(topic[1])
    await member.begin()
    paused: list[float] = []

    async def pause(until: float) -> None:
        paused.append(until)

    monkeypatch.setattr(service, "HEARTBEATS_MAX", 0)
    monkeypatch.setattr(topic[1].node, "pause", pause)
    await member.heartbeat(wait_ms=5_000)
    assert len(paused) == 1
    groups = topic[await coordinator_node(topic)].groups
    coordinator = groups.coordinators.find(groups.router.partition_of(G))
    assert not coordinator._waiting


async def test_commits_of_members_apply_in_order_and_are_fenced(topic):
    member = Member(topic[1])
    await member.begin()
    for offset in (7, 2):
        await member.commit(offset, metadata="here")
    found = (await topic[3].groups.committed(G, deadline=soon()))[TopicPartition("t", 0)]
    assert (found.offset, found.metadata) == (2, "here")
    with pytest.raises(StaleGeneration):
        await commit(topic[2], {0: 9}, member=MemberIdentity(member.member_id, member.generation - 1))
    with pytest.raises(UnknownMember):
        await commit(topic[2], {0: 9}, member=MemberIdentity("nobody", member.generation))
    with pytest.raises(UnknownMember):
        await commit(topic[2], {0: 9})
    assert await fetch_committed(topic[2]) == {("t", 0): 2}


async def test_commits_without_a_member_only_raise_offsets(topic):
    for number, offset in ((1, 3), (2, 9), (3, 5)):
        await commit(topic[number], {0: offset})
    assert await fetch_committed(topic[1]) == {("t", 0): 9}
    await asyncio.gather(*(commit(topic[1 + offset % 3], {1: offset}) for offset in range(40)))
    assert await fetch_committed(topic[3]) == {("t", 0): 9, ("t", 1): 39}


async def test_a_call_with_an_invalid_commit_is_refused_as_a_whole(topic):
    good = {TopicPartition("t", 0): OffsetCommit(Offset(1))}
    bad: list[tuple[dict[TopicPartition, OffsetCommit], type[RaftlogError]]] = [
        ({TopicPartition("x", 0): OffsetCommit(Offset(1))}, UnknownTopic),
        ({TopicPartition("t", 4): OffsetCommit(Offset(1))}, UnknownPartition),
        ({TopicPartition("t", 1): OffsetCommit(Offset(-1))}, InvalidArgument),
        ({TopicPartition("t", 1): OffsetCommit(Offset(1 << 63))}, InvalidArgument),
        ({TopicPartition("t", 1): OffsetCommit(Offset(1), "x" * 4097)}, InvalidArgument),
        ({TopicPartition("t", 1): OffsetCommit(Offset(1), "\ud800")}, InvalidArgument),
        ({TopicPartition("t", 1): OffsetCommit(Offset(1), "", -2)}, InvalidArgument),
        ({TopicPartition("t", 1): OffsetCommit(Offset(1), "", 1 << 31)}, InvalidArgument),
    ]
    for more, error in bad:
        with pytest.raises(error):
            await topic[2].groups.commit(G, {**good, **more}, deadline=soon())
    for name in ("", "a/b", "x" * 256, "\ud800"):
        with pytest.raises(InvalidArgument):
            await topic[2].groups.commit(name, good, deadline=soon())
    assert await fetch_committed(topic[2]) == {}


async def test_offsets_of_a_deleted_topic_never_apply_to_a_later_one_of_that_name(topic):
    await commit(topic[1], {0: 5})
    await topic[1].delete_topic("t", deadline=soon())
    await topic[2].create_topic("t", 4, deadline=soon())
    await topic[3].metadata.barrier(soon())
    assert await fetch_committed(topic[3]) == {}
    await commit(topic[1], {0: 1})
    assert await fetch_committed(topic[3]) == {("t", 0): 1}


async def fail_over(brokers: Brokers, group: str = G) -> None:
    """Move the group's coordinator to another broker."""
    await brokers.stop(await coordinator_node(brokers, group))


async def test_a_new_coordinator_keeps_members_and_offsets(topic):
    first, second = (Member(broker) for broker in await list_other_brokers(topic))
    await join_together(first, second)
    await first.commit(5, first.owned[0].partition)
    await fail_over(topic)
    await asyncio.gather(first.heartbeat(), second.heartbeat())
    assert await fetch_committed(first.broker) == {tuple(first.owned[0]): 5}
    await second.commit(6, second.owned[0].partition)
    assert (await second.broker.groups.describe(G, deadline=soon())).generation == 1
    assert (await first.leave()).error is None
    with pytest.raises(UnknownMember):
        await first.commit(9)


async def test_a_join_survives_a_change_of_the_coordinator(topic):
    first, second = (Member(broker) for broker in await list_other_brokers(topic))
    joining = asyncio.ensure_future(join_together(first, second))  # held back for more members by the first coordinator
    await asyncio.sleep(0)
    await fail_over(topic)
    assert await joining == ALL_OF_T
    assert first.generation == second.generation


async def test_a_change_of_the_coordinator_before_the_assignment_keeps_the_generation(topic):
    first, second = (Member(broker, leads=True) for broker in await list_other_brokers(topic))
    joined = await asyncio.gather(first.join(), second.join())
    leader, follower = (first, second) if joined[0].members else (second, first)
    waiting = asyncio.ensure_future(follower.sync())
    await asyncio.sleep(0)
    await fail_over(topic)
    given = {leader.member_id: ALL_OF_T[:1], follower.member_id: ALL_OF_T[1:]}
    assert await leader.sync(given) == ALL_OF_T[:1]
    assert await waiting == ALL_OF_T[1:]


async def test_acknowledged_commits_survive_changes_of_coordinators(topic):
    member = Member((await list_other_brokers(topic))[0])
    await member.begin()
    acknowledged = 0

    async def keep_committing() -> None:
        nonlocal acknowledged
        for offset in range(1, 100):
            try:
                await member.commit(offset)
            except OutcomeUnknown:
                continue
            acknowledged = offset

    committing = asyncio.ensure_future(keep_committing())
    await until(lambda: acknowledged >= 20)
    await fail_over(topic)
    await committing
    assert acknowledged == 99
    assert (await fetch_committed(member.broker))["t", 0] == 99


async def test_a_zombie_member_cannot_commit_after_the_coordinator_moved(topic):
    zombie, other = (Member(broker) for broker in await list_other_brokers(topic))
    await zombie.begin()
    await zombie.commit(3)
    stale = zombie.identity
    newcomer = asyncio.ensure_future(other.begin())
    with pytest.raises(RebalanceInProgress):
        await zombie.heartbeat(wait_ms=5_000)
    await zombie.begin()
    await newcomer
    await fail_over(topic)
    with pytest.raises(StaleGeneration):
        await commit(other.broker, {0: 99}, member=stale)
    assert await fetch_committed(other.broker) == {("t", 0): 3}


def lose_answers(monkeypatch: pytest.MonkeyPatch, broker: Broker, name: str, count: int) -> list[str]:
    """Lose the next `count` answers of other brokers to requests of this name; return the list of lost answers."""
    read, lost = broker.parts.router.read, []

    async def read_and_lose(node: Any, asked: str, *args: Any) -> Any:
        answer = await read(node, asked, *args)
        if asked == name and len(lost) < count:
            lost.append(asked)
            raise OutcomeUnknown("the connection broke")
        return answer

    monkeypatch.setattr(broker.parts.router, "read", read_and_lose)
    return lost


async def test_a_members_commit_with_a_lost_answer_is_unknown_and_not_resent(topic, monkeypatch):
    member = Member((await list_other_brokers(topic))[0])
    await member.begin()
    lost = lose_answers(monkeypatch, member.broker, "groups.commit", 1)
    with pytest.raises(OutcomeUnknown, match="the connection broke"):
        await member.commit(4)
    assert len(lost) == 1
    assert await fetch_committed(member.broker) == {("t", 0): 4}


async def test_a_commit_without_a_member_is_resent_after_a_lost_answer(topic, monkeypatch):
    broker = (await list_other_brokers(topic))[0]
    lost = lose_answers(monkeypatch, broker, "groups.commit", 2)
    await commit(broker, {0: 4})
    assert len(lost) == 2
    lose_answers(monkeypatch, broker, "groups.commit", 1_000)
    with pytest.raises(OutcomeUnknown, match="may have succeeded"):
        await commit(broker, {0: 5}, deadline=deadline_in(300))


async def test_a_coordinator_that_may_be_deposed_refuses_no_member(topic, monkeypatch):
    member = Member((await list_other_brokers(topic))[0])
    await member.begin()
    confirm, doubts = GroupCoordinator.confirm, []

    async def fail_once(self: GroupCoordinator, deadline: Deadline) -> None:
        if not doubts:
            doubts.append(self)
            raise NotLeader("another one leads, as it turns out")
        await confirm(self, deadline)

    monkeypatch.setattr(GroupCoordinator, "confirm", fail_once)
    stranger = MemberIdentity("stranger", 1)
    for refused in (
        lambda: commit(member.broker, {0: 1}, member=stranger),
        lambda: member.broker.groups.heartbeat(GroupHeartbeat(G, *stranger), deadline=soon()),
        lambda: member.broker.groups.leave(Leave(G, (MemberToLeave("stranger"),)), deadline=soon()),
    ):
        doubts.clear()
        try:
            told = await refused()
        except UnknownMember:
            pass
        else:
            assert isinstance(told[0].error, UnknownMember)
        assert len(doubts) == 1


async def test_commits_are_read_once_a_majority_confirms_the_leader(topic, monkeypatch):
    """A deposed coordinator that has not noticed it lacks commits acknowledged elsewhere."""
    broker = (await list_other_brokers(topic))[0]
    await commit(broker, {0: 5})
    offsets, doubts = Replica.offsets, []

    async def fail_once(self: Replica, linearizable: bool, deadline: Deadline) -> OffsetRange:
        if linearizable and not doubts:
            doubts.append(self.name)
            raise NotLeader("another one leads, as it turns out")
        return await offsets(self, linearizable, deadline)

    monkeypatch.setattr(Replica, "offsets", fail_once)
    assert await fetch_committed(broker) == {("t", 0): 5}
    assert [name.split("/")[0] for name in doubts] == ["__consumer_offsets"]


async def test_operators_reset_the_offsets_of_an_empty_group(topic):
    for number in range(2):
        records = [NewRecord(b"x", timestamp=1_000 * at) for at in range(10)]
        await topic[1].produce_records("t", number, records, deadline=soon())
    await commit(topic[1], {0: 4, 1: 7})

    async def reset(to: ResetTo, **where: Any) -> list[tuple[int, int | None, int, bool]]:
        rows = await topic[2].groups.reset(G, to, **where, deadline=soon())
        return [(row.partition, row.before, row.after, row.clamped) for row in rows]

    assert await reset(ResetTo(edge="latest"), dry_run=True) == [(0, 4, 10, False), (1, 7, 10, False)]
    assert await fetch_committed(topic[3]) == {("t", 0): 4, ("t", 1): 7}
    assert await reset(ResetTo(shift=-5)) == [(0, 4, 0, True), (1, 7, 2, False)]
    assert await reset(ResetTo(timestamp_ms=6_500)) == [(0, 0, 7, False), (1, 2, 7, False)]
    assert await reset(ResetTo(offset=99), partitions=[TopicPartition("t", 1)]) == [(1, 7, 10, True)]
    assert await reset(ResetTo(edge="earliest"), topics=["t"]) == [
        (0, 7, 0, False),
        (1, 10, 0, False),
        (2, None, 0, False),
        (3, None, 0, False),
    ]
    assert await fetch_committed(topic[3]) == {("t", number): 0 for number in range(4)}
    with pytest.raises(InvalidArgument, match="name the topics or partitions"):
        await topic[2].groups.reset("new", ResetTo(edge="latest"), deadline=soon())
    member = Member(topic[1])
    await member.begin()
    for dry_run in (True, False):
        with pytest.raises(GroupNotEmpty):
            await topic[2].groups.reset(G, ResetTo(edge="latest"), dry_run=dry_run, deadline=soon())


async def test_lag_counts_unread_records_and_names_their_member(topic):
    await topic[1].produce_records("t", 0, [NewRecord(b"x")] * 10, deadline=soon())
    member = Member(topic[2])
    await member.begin()
    await member.commit(4)
    rows = await topic[3].groups.lag(G, deadline=soon())
    assert [(row.partition, row.current_offset, row.log_end_offset, row.lag) for row in rows] == [
        (0, 4, 10, 6),
        (1, -1, 0, 0),
        (2, -1, 0, 0),
        (3, -1, 0, 0),
    ]
    assert {row.member.member_id for row in rows if row.member} == {member.member_id}
    with pytest.raises(UnknownGroup):
        await topic[3].groups.lag("nobody", deadline=soon())


async def test_groups_and_their_offsets_can_be_deleted(topic):
    member = Member(topic[2])
    await member.begin()
    await member.commit(4)
    with pytest.raises(GroupNotEmpty):
        await topic[3].groups.delete(G, deadline=soon())
    with pytest.raises(GroupNotEmpty):
        await topic[3].groups.delete_offsets(G, "t", deadline=soon())
    await member.leave()
    assert await topic[3].groups.delete_offsets(G, "t", deadline=soon()) == [0]
    assert await fetch_committed(topic[1]) == {}
    assert await topic[1].groups.names(deadline=soon()) == [G]
    await topic[1].groups.delete(G, deadline=soon())
    await commit(topic[1], {0: 1}, "simple")
    [row] = await topic[3].groups.listings(deadline=soon())
    assert (row.group, row.state, row.protocol_type, row.generation, row.members) == ("simple", "Empty", "", 0, 0)
    await topic[2].groups.delete("simple", deadline=soon())
    assert await topic[1].groups.names(deadline=soon()) == []
    with pytest.raises(UnknownGroup):
        await topic[2].groups.delete("simple", deadline=soon())


async def test_a_join_that_times_out_leaves_no_member(topic):
    await Member(topic[1]).begin()  # it does not join again
    late = Member(topic[2])
    with pytest.raises(RebalanceInProgress):
        await late.join(deadline=deadline_in(300))
    described = await topic[3].groups.describe(G, deadline=soon())
    assert len(described.members) == 1


async def test_fifty_members_that_join_at_once_end_in_one_generation(topic):
    await topic[1].create_topic("wide", 50, deadline=soon())
    members = [Member(topic[1 + number % 3]) for number in range(50)]

    async def join_until_stable(member: Member) -> None:
        while True:
            try:
                await member.join("wide")
                await member.sync()
                await member.heartbeat()
            except (RebalanceInProgress, StaleGeneration):
                continue
            return

    await asyncio.gather(*map(join_until_stable, members))
    assert len({member.generation for member in members}) == 1
    assert sorted(place.partition for member in members for place in member.owned) == list(range(50))


async def test_a_broker_without_the_controllers_state_refuses_with_unavailable(tmp_path):
    """The broker was opened on an empty disk, as after the loss of a disk, and lacks the controller's state."""
    broker = await Broker.open(BrokerSettings(data_dir=str(tmp_path), driver=SMALL_JOURNAL))
    groups = broker.groups
    try:
        for asked in (
            Member(broker).join(deadline=soon()),
            groups.delete(G, deadline=soon()),
            groups.delete_offsets(G, "t", deadline=soon()),
            groups.reset(G, ResetTo("earliest"), deadline=soon()),
        ):
            with pytest.raises(Unavailable):
                await asked
    finally:
        await broker.close()
