"""`PendingAppends` alone: conditions under which an append is answered, before or after its commit."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from raftlog.errors import LogClosed, OutcomeUnknown, Unavailable
from raftlog.partitions.replica.pending_appends import PendingAppends, ReplicaAppended, _durable_indexes, active_members
from raftlog.raft import Accepted, ReplicaId, Role
from raftlog.runtime.replica.partition_replica import Committed
from raftlog.types import Index, NodeId, Offset, Term

ME, SECOND, THIRD, LEARNER = (ReplicaId(NodeId(number), UUID(int=number)) for number in (1, 2, 3, 4))
TERM = Term(3)
COMMITTED = Committed(TERM, Index(4), Index(6), Offset(40), Offset(43))


def make_answer(committed: Committed) -> ReplicaAppended:
    return ReplicaAppended(committed.base_offset, committed.next_offset, committed.term, Offset(0))


class AppendWorld:
    """Leader with three voters and a learner; offsets are ten times their indices."""

    def __init__(self) -> None:
        self.held = {SECOND: 6, THIRD: 6, LEARNER: 6}
        self.voters: tuple[ReplicaId, ...] = (ME, SECOND, THIRD)
        self.durable = 6
        self.active = {SECOND, THIRD, LEARNER}
        self.is_quiesced = False
        self.core: Any = SimpleNamespace(role=Role.LEADER, term=TERM, leader=None, status=self.status)
        self.log: Any = SimpleNamespace(
            last_index=6,
            boundary=SimpleNamespace(index=0),
            term_at=lambda index: TERM,
            offset_of=lambda index: 10 * index,
        )
        self.sends = 0
        group: Any = SimpleNamespace(core=self.core, log=self.log, high_watermark=41, on_turn=None)
        group.send_deferred_appends = self.count_send
        self.group = group
        self.appending = PendingAppends("t/0", group)

    def count_send(self) -> None:
        self.sends += 1

    def status(self) -> Any:
        """Return a leader's status with these indexes of its followers."""
        followers = [
            SimpleNamespace(member=each, match_index=index, is_active=each in self.active)
            for each, index in self.held.items()
        ]
        configuration = SimpleNamespace(voters=self.voters, has_voter=self.voters.__contains__)
        return SimpleNamespace(
            me=ME,
            followers=followers,
            configuration=configuration,
            durable_index=self.durable,
            is_quiesced=self.is_quiesced,
        )

    def add_append(self, copies: int) -> "asyncio.Future[ReplicaAppended]":
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
        self.appending.count_copies(COMMITTED, copies, make_answer, future)
        return future

    def written(self, first: int = 4, last: int = 6) -> "asyncio.Future[ReplicaAppended]":
        future: asyncio.Future[ReplicaAppended] = asyncio.get_running_loop().create_future()
        self.appending.answer_written(Accepted(TERM, Index(first), Index(last)), make_answer, future)
        return future


@pytest.fixture
async def world() -> AppendWorld:
    return AppendWorld()


async def test_the_watermark_of_an_answer_covers_the_append(world: AppendWorld) -> None:
    assert world.appending.answer_to_commit(COMMITTED).high_watermark == 43
    world.group.high_watermark = 50
    assert world.appending.answer_to_commit(COMMITTED).high_watermark == 50


async def test_existing_copies_are_counted_at_once(world: AppendWorld) -> None:
    assert world.add_append(3).result().base_offset == 40
    assert (world.group.on_turn, world.sends) == (None, 0)


async def test_a_copy_counts_when_it_has_the_last_entry(world: AppendWorld) -> None:
    world.held[THIRD] = 5
    future = world.add_append(3)
    assert not future.done()
    assert world.sends == 1, "the third replica is not to wait for the deferral"
    world.held[THIRD] = 6
    world.group.on_turn()
    assert future.done()


async def test_with_fewer_voters_than_copies_an_append_keeps_waiting(world: AppendWorld) -> None:
    world.voters = (ME, SECOND)
    future = world.add_append(3)
    assert not future.done()
    world.appending.end(LogClosed("the process stops"))
    assert isinstance(future.exception(), OutcomeUnknown)


async def test_a_leader_that_is_no_voter_does_not_count_its_own_copy(world: AppendWorld) -> None:
    assert _durable_indexes(world.status()) == [6, 6, 6]
    world.voters = (SECOND, THIRD)
    world.durable = 9
    assert _durable_indexes(world.status()) == [6, 6]


async def test_only_voters_count_as_active_replicas(world: AppendWorld) -> None:
    assert world.appending.too_few_error(3) is None
    world.active = {SECOND, LEARNER}
    assert isinstance(world.appending.too_few_error(3), Unavailable)
    assert world.appending.too_few_error(2) is None


async def test_in_a_quiesced_group_all_members_count_as_active(world: AppendWorld) -> None:
    world.active = set()
    assert active_members(world.status()) == [ME]
    world.is_quiesced = True
    assert active_members(world.status()) == [ME, SECOND, THIRD, LEARNER]


async def test_an_append_of_a_cancelled_caller_delays_no_other(world: AppendWorld) -> None:
    world.log.last_index = 3
    gone, following = world.written(), world.written()
    gone.cancel()
    world.log.last_index = 6
    world.appending.answer_pending()
    assert following.result()[:2] == (40, 70)


async def test_an_append_missing_in_a_later_term_of_this_leader_is_unknown(world: AppendWorld) -> None:
    world.log.last_index = 3
    future = world.written()
    assert not future.done()
    world.core.term = Term(5)
    world.appending.answer_pending()
    assert isinstance(future.exception(), OutcomeUnknown)


async def test_an_append_that_was_trimmed_before_its_answer_is_unknown(world: AppendWorld) -> None:
    world.log.boundary.index = 4
    assert isinstance(world.written(first=4).exception(), OutcomeUnknown)
    assert world.written(first=5).result().base_offset == 50
