"""Offsets of transactions in a coordinator over a log in memory: pending until the marker, fenced, kept on failover."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import pytest

from raftlog.errors import (
    ConcurrentTransactions,
    CoordinatorFenced,
    InvalidArgument,
    InvalidProducerMapping,
    InvalidTransactionState,
    NotLeader,
    Overloaded,
    ProducerFenced,
    StaleGeneration,
    Unavailable,
    UnknownMember,
    UnknownTopic,
)
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups import expiry, transactions
from raftlog.partitions.groups.coordinator import GroupCoordinator
from raftlog.partitions.groups.expiry import GroupExpiry
from raftlog.partitions.groups.records import GroupProducerKey, OffsetRecord
from raftlog.partitions.groups.results import GroupMarker, MemberIdentity, OffsetCommit, Place, TransactionalProducer
from raftlog.records import read_records
from raftlog.types import Offset
from tests.groups.test_coordinator import (
    DELETED,
    PLACE,
    RETENTION_MS,
    TOPIC,
    World,
    put_group,
    put_offset,
    run_pending_tasks,
)

NOBODY = MemberIdentity("", -1)
OTHER: Place = (TOPIC, 1)
BOTH = {PLACE: 9, OTHER: 4}
PID = 7


class TransactionsHarness(World):
    """Coordinator of groups whose log commits every append at once."""

    async def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Await a call while the log commits what it appends."""
        task = asyncio.ensure_future(call)
        for _ in range(20):
            await run_pending_tasks()
            if self.replica.waiting:
                self.replica.commit()
            if task.done():
                break
        return await task

    def start_commit(
        self,
        offsets: dict[Place, int] = {PLACE: 9},  # noqa: B006
        epoch: int = 0,
        *,
        producer_id: int = PID,
        group: str = "g",
        member: MemberIdentity = NOBODY,
        joins: bool = False,
        name: str = "tx",
    ) -> Coroutine[Any, Any, None]:
        made = {place: OffsetCommit(Offset(offset), f"at {offset}", 3) for place, offset in offsets.items()}
        producer = TransactionalProducer(name, producer_id, epoch)
        return self.coordinator.transactions.commit(group, made, producer, member, joins, deadline_in(10_000))

    async def commit_pending(self, *args: Any, **options: Any) -> None:
        await self.run(self.start_commit(*args, **options))

    def start_end(
        self, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 1, producer_id: int = PID, number: int = 0
    ) -> Coroutine[Any, Any, None]:
        marker = GroupMarker(producer_id, epoch, is_commit, coordinator_epoch, number)
        return self.coordinator.transactions.end("g", marker, deadline_in(10_000))

    async def end(self, is_commit: bool, *args: Any, **options: Any) -> None:
        await self.run(self.start_end(is_commit, *args, **options))

    async def commit_plain(self, offset: int) -> None:
        """Commit an offset as a Kafka client without a member does."""
        offsets = {PLACE: OffsetCommit(Offset(offset))}
        await self.run(self.coordinator.offsets.commit("g", offsets, NOBODY, deadline_in(10_000)))

    def committed(self) -> dict[Place, int]:
        return {place: int(record.offset) for place, record in self.coordinator.offsets.applied_offsets("g").items()}

    async def stable(self) -> dict[Place, tuple[int, bool]]:
        found = await self.run(self.coordinator.offsets.stable("g", deadline_in(10_000)))
        return {place: (int(each.offset), each.is_pending) for place, each in found.items()}

    async def fail_over(self) -> None:
        """Replace the coordinator by one that loads the log."""
        self.coordinator.end()
        self.coordinator = GroupCoordinator(self.replica, self.around, lambda coordinator: coordinator.end())
        assert await self.coordinator.load()


@pytest.fixture
async def world() -> TransactionsHarness:
    made = TransactionsHarness()
    assert await made.coordinator.load()
    return made


# pending until the end


@pytest.mark.parametrize("fails_over", [False, True])
@pytest.mark.parametrize("is_commit", [True, False])
async def test_offsets_are_pending_until_the_marker(
    world: TransactionsHarness, *, is_commit: bool, fails_over: bool
) -> None:
    await world.commit_plain(5)
    await world.commit_pending(BOTH)
    if fails_over:
        await world.fail_over()
    assert world.committed() == {PLACE: 5}
    assert await world.stable() == {PLACE: (5, True), OTHER: (-1, True)}
    await world.end(is_commit)
    if fails_over:
        await world.fail_over()
    assert world.committed() == (BOTH if is_commit else {PLACE: 5})
    assert {is_pending for _, is_pending in (await world.stable()).values()} == {False}
    assert not world.coordinator.folded.pending
    assert world.coordinator.folded.pending_count == 0


async def test_a_committed_offset_keeps_metadata_leader_epoch_and_time(world: TransactionsHarness) -> None:
    await world.commit_pending()
    made_ms, world.now_ms = world.now_ms, world.now_ms + 50
    await world.end(True)
    assert world.coordinator.folded.offsets["g"][PLACE] == OffsetRecord(Offset(9), 3, "at 9", made_ms)


async def test_later_offsets_of_a_transaction_replace_earlier_ones(world: TransactionsHarness) -> None:
    await world.commit_pending(BOTH)
    await world.commit_pending({PLACE: 12})
    await world.end(True)
    assert world.committed() == {PLACE: 12, OTHER: 4}


async def test_transactions_of_other_producers_and_groups_stay_open(world: TransactionsHarness) -> None:
    await world.commit_pending({PLACE: 9})
    await world.commit_pending({OTHER: 4}, producer_id=8)
    await world.commit_pending({OTHER: 6}, group="another")
    await world.end(True)
    assert await world.stable() == {PLACE: (9, False), OTHER: (-1, True)}
    assert list(world.coordinator.folded.pending) == ["g", "another"]


async def test_a_plain_commit_after_a_pending_one_is_the_later_one(world: TransactionsHarness) -> None:
    """The order in the log counts, as in Kafka, whatever becomes of the transaction."""
    await world.commit_pending(BOTH)
    await world.commit_plain(7)
    assert await world.stable() == {PLACE: (7, False), OTHER: (-1, True)}
    await world.end(True)
    assert world.committed() == {PLACE: 7, OTHER: 4}


async def test_a_reset_replaces_pending_offsets_of_its_partitions(world: TransactionsHarness) -> None:
    await world.commit_pending(BOTH)
    await world.run(world.coordinator.offsets.reset("g", {PLACE: 1}, deadline_in(10_000)))
    await world.end(True)
    assert world.committed() == {PLACE: 1, OTHER: 4}


async def test_entries_of_an_end_are_one_append(world: TransactionsHarness) -> None:
    await world.commit_pending(BOTH)
    task = asyncio.ensure_future(world.start_end(True))
    await run_pending_tasks()
    ((_, batches),) = world.replica.waiting
    assert sum(len(list(read_records(batch))) for batch in batches) == 5
    world.replica.commit()
    await task


# repeated, late and fenced


@pytest.mark.parametrize("fails_over", [False, True])
async def test_a_repeated_marker_changes_nothing(world: TransactionsHarness, *, fails_over: bool) -> None:
    await world.commit_pending()
    await world.end(True, number=5)
    await world.commit_plain(11)
    if fails_over:
        await world.fail_over()
    end = world.replica.high_watermark
    await world.end(True, number=5)
    assert world.replica.high_watermark == end
    assert world.committed() == {PLACE: 11}


async def test_a_marker_that_comes_again_does_not_end_the_next_transaction(world: TransactionsHarness) -> None:
    await world.commit_pending()
    await world.end(True, number=5)
    await world.commit_pending({PLACE: 20})
    questions = len(world.verifications)
    await world.end(True, number=5)
    await world.end(False, number=4, coordinator_epoch=2)
    await world.commit_pending({OTHER: 6})
    assert len(world.verifications) == questions, "it leaves the permission"
    assert world.committed() == {PLACE: 9}
    assert await world.stable() == {PLACE: (9, True), OTHER: (-1, True)}
    await world.end(True, number=6)
    assert world.committed() == {PLACE: 20, OTHER: 6}


async def test_a_repeated_marker_is_answered_once_the_first_one_is_committed(world: TransactionsHarness) -> None:
    commit = asyncio.ensure_future(world.start_commit())  # both markers wait for it
    await run_pending_tasks()
    first, second = (asyncio.ensure_future(world.start_end(False, number=5)) for _ in range(2))
    await run_pending_tasks()
    world.replica.commit()
    await run_pending_tasks()
    assert commit.done()
    assert len(world.replica.waiting) == 1, "the first marker"
    assert not second.done()
    world.replica.waiting.pop()[0].set_exception(Unavailable("the disk is full"))
    for each in (first, second):
        with pytest.raises(Unavailable):
            await each


async def test_a_marker_without_pending_offsets_fences_older_epochs(world: TransactionsHarness) -> None:
    await world.end(False, epoch=4)
    await world.fail_over()
    with pytest.raises(ProducerFenced, match="has epoch 3; epoch 4 has replaced it"):
        await world.commit_pending(epoch=3)
    assert world.verifications == [], "no other broker is asked"
    await world.commit_pending(epoch=4)


async def test_older_markers_are_fenced(world: TransactionsHarness) -> None:
    await world.end(True, epoch=4, coordinator_epoch=6)
    await world.commit_pending(epoch=5)
    with pytest.raises(CoordinatorFenced, match="is of coordinator epoch 5; 6 has replaced it"):
        await world.end(True, epoch=5, coordinator_epoch=5)
    with pytest.raises(ProducerFenced, match="has epoch 5; the marker has 4"):
        await world.end(True, epoch=4, coordinator_epoch=6)
    assert await world.stable() == {PLACE: (-1, True)}
    await world.end(True, epoch=5, coordinator_epoch=7)
    assert world.committed() == {PLACE: 9}


async def test_a_deposed_coordinator_does_not_fence(world: TransactionsHarness) -> None:
    """Its state may be older than that of the coordinator that has replaced it."""
    await world.end(True, epoch=4, coordinator_epoch=6)
    world.replica.lost = NotLeader("another replica leads")
    with pytest.raises(NotLeader):
        await world.commit_pending(epoch=3)
    with pytest.raises(NotLeader):
        await world.end(True, epoch=4, coordinator_epoch=5)


async def test_an_abort_with_a_higher_epoch_ends_the_older_transaction(world: TransactionsHarness) -> None:
    await world.commit_pending(epoch=2)
    await world.end(False, epoch=3)
    assert await world.stable() == {}
    with pytest.raises(ProducerFenced):
        await world.commit_pending(epoch=2)


async def test_a_higher_epoch_waits_for_the_end_of_the_lower_one(world: TransactionsHarness) -> None:
    await world.commit_pending(epoch=2)
    with pytest.raises(ConcurrentTransactions, match="epoch 2 is open"):
        await world.commit_pending({PLACE: 20}, epoch=3)
    with pytest.raises(ProducerFenced):
        await world.commit_pending(epoch=1)
    await world.end(False, epoch=3)
    await world.commit_pending({PLACE: 20}, epoch=3)


# permission


async def test_a_transaction_is_verified_once_in_a_term(world: TransactionsHarness) -> None:
    await world.commit_pending({PLACE: 1})
    await world.commit_pending({PLACE: 2})
    assert world.verifications == [TransactionalProducer("tx", PID, 0)]
    await world.fail_over()
    await world.commit_pending({PLACE: 3})
    await world.end(True)
    await world.commit_pending({PLACE: 4})
    assert len(world.verifications) == 3


async def test_permission_is_for_the_confirmed_transactional_id(world: TransactionsHarness) -> None:
    await world.commit_pending({PLACE: 1})
    world.refusal = InvalidProducerMapping("it has another producer")
    with pytest.raises(InvalidProducerMapping):
        await world.commit_pending({PLACE: 2}, name="other")
    await world.commit_pending({PLACE: 3})


async def test_a_commit_outside_of_a_transaction_is_refused(world: TransactionsHarness) -> None:
    world.refusal = InvalidTransactionState("the group is in no transaction")
    with pytest.raises(InvalidTransactionState):
        await world.commit_pending()
    assert await world.stable() == {}
    world.refusal = None
    await world.commit_pending()


async def test_a_commit_whose_transaction_ended_while_it_was_verified_is_refused(world: TransactionsHarness) -> None:
    """Otherwise its offsets stay pending: no marker follows."""
    world.is_verified.clear()
    late = asyncio.ensure_future(world.start_commit())
    await run_pending_tasks()
    await world.end(True)
    world.is_verified.set()
    with pytest.raises(ConcurrentTransactions, match="ended meanwhile"):
        await late
    assert await world.stable() == {}


async def test_a_group_joins_after_the_end_of_the_last_transaction(world: TransactionsHarness) -> None:
    """The marker of the last one arrives while the group joins, and has the epoch of the next one."""
    await world.commit_pending(joins=True)
    world.is_verified.clear()
    following = asyncio.ensure_future(world.start_commit({PLACE: 20}, epoch=1, joins=True))
    await run_pending_tasks()
    assert not following.done()
    await world.end(True, epoch=1, number=1)
    world.number = 2
    world.is_verified.set()
    await world.run(following)
    assert await world.stable() == {PLACE: (9, True)}
    await world.commit_pending({OTHER: 5}, epoch=1, joins=True)
    assert len(world.verifications) == 2
    await world.end(True, epoch=2, number=2)
    assert world.committed() == {PLACE: 20, OTHER: 5}
    with pytest.raises(ProducerFenced):
        await world.commit_pending(epoch=1, joins=True)


@pytest.mark.parametrize("number", [4, 5, 0])
async def test_the_end_of_a_transaction_refuses_a_group_that_joins_meanwhile(
    world: TransactionsHarness, number: int
) -> None:
    world.number = 4
    world.is_verified.clear()
    late = asyncio.ensure_future(world.start_commit(joins=True))
    await run_pending_tasks()
    await world.end(True, number=number)
    world.is_verified.set()
    with pytest.raises(ConcurrentTransactions, match="ended meanwhile"):
        await late
    assert await world.stable() == {}


async def test_a_deposed_coordinator_cannot_add_a_group_to_an_ended_transaction(world: TransactionsHarness) -> None:
    await world.end(True, number=4)
    world.number = 4
    with pytest.raises(ConcurrentTransactions, match="ended meanwhile"):
        await world.commit_pending(joins=True)
    assert await world.stable() == {}
    world.number = 5
    await world.commit_pending(joins=True)


async def test_a_marker_waits_for_commits_that_are_being_appended(world: TransactionsHarness) -> None:
    first = asyncio.ensure_future(world.start_commit())
    await run_pending_tasks()
    assert len(world.replica.waiting) == 1
    end = asyncio.ensure_future(world.start_end(True))
    await run_pending_tasks()
    assert len(world.replica.waiting) == 1
    world.replica.waiting.pop()[0].set_exception(Unavailable("the disk is full"))
    for each in (first, end):
        with pytest.raises(Unavailable):
            await each
    await world.end(True)
    assert world.committed() == {}, "the offsets were refused"


async def test_a_marker_shares_an_append_with_commits_of_other_producers(world: TransactionsHarness) -> None:
    await world.commit_pending()
    others = []
    for producer_id in (8, 9):  # one is in flight, and the next append has the other
        commit = world.start_commit({OTHER: producer_id}, producer_id=producer_id, name=f"of {producer_id}")
        others.append(asyncio.ensure_future(commit))
        await run_pending_tasks()
    end = asyncio.ensure_future(world.start_end(True))
    await run_pending_tasks()
    for _ in range(2):
        assert not end.done()
        assert len(world.replica.waiting) == 1
        world.replica.commit()
        await run_pending_tasks()
    assert not world.replica.waiting
    await asyncio.gather(end, *others)
    assert world.committed() == {PLACE: 9}


async def test_pending_offsets_and_permissions_are_bounded(
    world: TransactionsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PENDING_MAX", 2)
    monkeypatch.setattr(transactions, "_PERMISSIONS_MAX", 1)
    with pytest.raises(Overloaded, match="2 offsets of open transactions"):
        await world.commit_pending({(TOPIC, number): 1 for number in range(3)})
    with pytest.raises(Overloaded, match="1 open transactions"):
        await world.commit_pending(producer_id=8)
    await world.commit_pending(BOTH)


# members and topics


async def test_members_commit_in_their_generation_and_commits_without_a_member_are_accepted() -> None:
    """Kafka's older clients name no member in a transaction, so only their transactional id fences them."""
    world = TransactionsHarness()
    put_group(world, 1, 0)
    assert await world.coordinator.load()
    await world.commit_pending({PLACE: 1}, member=MemberIdentity("m", 1))
    await world.commit_pending({OTHER: 2})
    with pytest.raises(StaleGeneration):
        await world.commit_pending({PLACE: 3}, member=MemberIdentity("m", 0))
    with pytest.raises(UnknownMember):
        await world.commit_pending({PLACE: 3}, member=MemberIdentity("x", 1))
    await world.end(True)
    assert world.committed() == {PLACE: 1, OTHER: 2}
    world.coordinator.end()


async def test_pending_offsets_of_deleted_topics_vanish(world: TransactionsHarness) -> None:
    with pytest.raises(UnknownTopic):
        await world.commit_pending({(DELETED, 0): 1})
    await world.commit_pending(BOTH)
    object.__setattr__(world.around, "is_deleted", lambda topic_id: topic_id == TOPIC)
    await world.end(True)
    assert await world.stable() == {}


# expiry, deletion, shortening, formats


async def test_a_group_with_an_open_transaction_does_not_expire() -> None:
    world = TransactionsHarness()
    place = put_offset(world, 10 * RETENTION_MS)
    put_group(world, 0, 10 * RETENTION_MS)
    assert await world.coordinator.load()
    await world.commit_pending({OTHER: 4})
    assert await world.expire() == [place]
    assert world.coordinator.machine.group("g") is not None
    await world.end(False)
    assert await world.expire() == []


async def test_an_empty_group_with_pending_offsets_only_does_not_expire() -> None:
    world = TransactionsHarness()
    put_group(world, 0, 10 * RETENTION_MS)
    assert await world.coordinator.load()
    await world.commit_pending({OTHER: 4})
    await world.expire()
    assert world.coordinator.machine.group("g") is not None
    await world.end(False)
    await world.expire()
    assert world.coordinator.machine.group("g") is None


async def test_a_deletion_of_offsets_leaves_pending_ones(world: TransactionsHarness) -> None:
    await world.commit_plain(5)
    await world.commit_pending(BOTH)
    await world.run(world.coordinator.offsets.delete_group("g", deadline_in(10_000)))
    assert await world.stable() == {PLACE: (-1, True), OTHER: (-1, True)}
    await world.end(True)
    assert world.committed() == BOTH


async def test_the_last_marker_of_a_producer_expires_after_its_transactions(world: TransactionsHarness) -> None:
    await world.end(False)
    world.now_ms += RETENTION_MS + 1
    await world.commit_pending()
    await world.expire()
    assert list(world.coordinator.folded.producers) == [GroupProducerKey("g", PID)]
    await world.run(world.coordinator.offsets.reset("g", {PLACE: 1}, deadline_in(10_000)))
    await world.expire()
    assert not world.coordinator.folded.producers


async def test_a_marker_that_is_written_during_the_expiry_stays(
    world: TransactionsHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "_SLICE", 1)
    for group in ("a", "g"):
        marker = GroupMarker(PID, 0, False, 1)
        await world.run(world.coordinator.transactions.end(group, marker, deadline_in(10_000)))
    world.now_ms += RETENTION_MS + 1
    expiring = asyncio.ensure_future(GroupExpiry(world.coordinator, world.around).run())
    await world.end(True)  # committed by the same append as the deletion of the first one
    await world.run(expiring)
    assert list(world.coordinator.folded.producers) == [GroupProducerKey("g", PID)]


async def test_a_rewritten_log_has_pending_offsets_and_markers() -> None:
    world = TransactionsHarness(growth_bytes_max=0)
    assert await world.coordinator.load()
    await world.commit_pending(BOTH)
    await world.end(True, producer_id=8)
    begin = world.replica.high_watermark
    world.replica.size_bytes = 1
    await world.expire()
    assert world.replica.calls == [("roll", begin + 3), ("trim", begin)]
    world.replica.log_start_offset = Offset(begin)
    await world.fail_over()
    assert await world.stable() == {PLACE: (-1, True), OTHER: (-1, True)}
    assert list(world.coordinator.folded.producers) == [GroupProducerKey("g", 8)]


async def test_nothing_is_written_below_the_feature_level_of_transactions(world: TransactionsHarness) -> None:
    world.feature_level -= 1
    with pytest.raises(InvalidArgument, match="PendingOffsetRecord needs feature level 4; the cluster runs at 3"):
        await world.commit_pending()
    with pytest.raises(InvalidArgument, match="GroupProducerRecord needs feature level 4"):
        await world.end(True)
    assert not world.replica.batches


async def test_invalid_offsets_are_refused(world: TransactionsHarness) -> None:
    with pytest.raises(InvalidArgument):
        await world.commit_pending({(UUID(int=7), 0): -1})
    assert not world.verifications
