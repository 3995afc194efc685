"""Consumer instances with a fake coordinator: rebalances, fencing, lost memberships, failed commits."""

import asyncio
from itertools import count
from uuid import UUID

import msgspec
import pytest

from raftlog.assignors import encode_assignment
from raftlog.errors import (
    ConsumerState,
    InvalidArgument,
    NotLeader,
    OutcomeUnknown,
    Overloaded,
    RebalanceInProgress,
    StaleGeneration,
    Unavailable,
    UnknownConsumer,
    UnknownMember,
)
from raftlog.partitions.consumers import offset_commits as committing
from raftlog.partitions.consumers.instance_host import InstanceHost, ReadBounds
from raftlog.partitions.consumers.operations import POLL
from raftlog.partitions.consumers.registry import Registry
from raftlog.partitions.consumers.results import (
    ChosenPosition,
    ConsumedRecord,
    InstancePoll,
    MovedPosition,
    PollDelivery,
    RecordPiece,
)
from raftlog.partitions.consumers.settings import read_settings
from raftlog.partitions.consumers.stored_instance import from_record
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.records import OffsetRecord
from raftlog.partitions.groups.results import JoinedGeneration, MemberIdentity, StableOffset, SyncedGeneration
from raftlog.partitions.results import Fetched
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.records import NewRecord, build_batch, read_records, stamp
from raftlog.runtime.batch_opener import BatchOpener
from raftlog.runtime.rpc.calls import Answer
from raftlog.types import Offset, OffsetRange, Term, TopicPartition
from tests.waiting import until

G, C = "g", "c"
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def soon():
    return deadline_in(10_000)


class FakeCoordinator:
    """Coordinator that assigns `assignment`; the test begins each rebalance."""

    def __init__(self):
        self.instances, self.generation, self.assignment = {}, 1, [A, B]
        self.joins, self.left, self.confirmed = [], [], 0
        self.is_deposed = False
        self.next_join_error = self.next_sync_error = None
        self._beats = []

    async def join(self, join, *, deadline):
        self.joins.append(join)
        if self.next_join_error is not None:
            error, self.next_join_error = self.next_join_error, None
            raise error
        return JoinedGeneration(join.member_id or "c-1", self.generation, "range", "", ())

    async def sync(self, sync, *, deadline):
        if self.next_sync_error is not None:
            self.generation += 1
            error, self.next_sync_error = self.next_sync_error, None
            raise error
        return SyncedGeneration(encode_assignment(self.assignment), self.generation, "range")

    async def heartbeat(self, heartbeat, *, deadline):
        future = asyncio.get_running_loop().create_future()
        self._beats.append(future)
        await future

    async def leave(self, leave, *, deadline):
        self.left += [member.member_id for member in leave.members]

    async def store_instance(self, group, name, record, *, deadline):
        if self.is_deposed:
            raise NotLeader("deposed")
        if record is None:
            self.instances.pop((group, name), None)
        else:
            self.instances[group, name] = record

    async def wait_until_ready(self, deadline):
        pass

    async def confirm(self, deadline):
        self.confirmed += 1
        if self.is_deposed:
            raise NotLeader("deposed")

    async def fail_heartbeat(self, error):
        """Fail the member's waiting heartbeat with the error."""
        await until(lambda: self._beats and not self._beats[-1].done())
        self._beats[-1].set_exception(error)


class World:
    """Host of instances with two partitions of ten records each, and the committed offsets."""

    def __init__(self):
        self.coordinator = FakeCoordinator()
        self.commits, self.committed_offsets, self.commit_errors = [], {}, []
        self.unstable = set()
        self.topics = {"t": UUID(int=1)}
        self.registry = Registry(
            lambda coordinator: InstanceHost(
                coordinator, self, self, self, ReadBounds(60_000, 1 << 20, BatchOpener(1 << 20)), Authorizer()
            ),
            3,
            60_000,
        )
        self.registry.add_coordinator(self.coordinator)

    # records
    async def fetch(self, topic, partition, offset, *, max_bytes, min_bytes, deadline):
        batches = []
        if offset < 10:
            batch = build_batch([NewRecord(b"%d" % number) for number in range(10)])
            stamp(batch, Offset(0), Term(1))
            batches.append(memoryview(batch))
        elif min_bytes:
            await asyncio.Event().wait()  # for ever
        return Fetched(batches, Offset(10), Offset(0), 1)

    async def offsets(self, topic, partition, *, linearizable=False, deadline):
        return OffsetRange(Offset(0), Offset(10))

    async def offset_for_timestamp(self, topic, partition, timestamp_ms, *, deadline):
        return None

    # topics
    def topic_id(self, name):
        return self.topics.get(name)

    def names(self):
        return iter(self.topics)

    async def check(self, partition, deadline):
        return None

    # committed offsets
    async def commit(self, group, offsets, *, member=None, deadline):
        self.commits.append((member, {place: commit.offset for place, commit in offsets.items()}))
        if self.commit_errors:
            raise self.commit_errors.pop(0)
        if member is not None and member.generation != self.coordinator.generation:
            raise StaleGeneration(f"generation {member.generation}")
        self.committed_offsets |= {
            place: OffsetRecord(commit.offset, commit.leader_epoch, commit.metadata, 0)
            for place, commit in offsets.items()
        }
        return dict(self.committed_offsets)

    async def committed(self, group, *, deadline):
        return dict(self.committed_offsets)

    async def stable_offsets(self, group, *, deadline):
        found = {place: StableOffset(*each, is_pending=False) for place, each in self.committed_offsets.items()}
        nothing = StableOffset(Offset(-1), -1, "", 0, is_pending=False)
        return found | {place: found.get(place, nothing)._replace(is_pending=True) for place in self.unstable}

    # instances
    async def create_instance(self, **settings):
        given = {"auto.offset.reset": "earliest"} | {key.replace("_", "."): value for key, value in settings.items()}
        await self.registry.create(self.coordinator, G, C, read_settings(given), soon())
        return next(iter(self.registry))

    async def create_subscribed(self, **settings):
        found = await self.create_instance(**settings)
        await found.subscribe(("t",), None, soon())
        await until(lambda: found.assignment)
        return found

    def read_stored(self):
        return from_record(self.coordinator.instances[G, C])


@pytest.fixture
def world():
    found = World()
    yield found
    found.registry.remove_coordinator(found.coordinator)
    found.registry.close()


IDS = map(str, count())


async def poll(instance, wait_ms=0, poll_id=None):
    delivery = await instance.poll(poll_id or next(IDS), wait_ms, 1 << 20, ["binary"])
    return {
        piece.partition: [
            int(record.value)
            for batch in piece.batches
            for record in read_records(batch)
            if piece.offset <= record.offset < piece.end
        ]
        for piece in delivery.pieces
    }


async def commit(instance, *consumed):
    outcomes = await instance.commit(
        [ConsumedRecord(place, offset) for place, offset in consumed] or None, is_waited_for=True, deadline=soon()
    )
    return {each.partition: each.committed for each in outcomes}


EVERYTHING = {0: list(range(10)), 1: list(range(10))}


async def test_an_instance_is_in_the_log_before_the_answer(world):
    found = await world.create_subscribed()
    assert (world.read_stored().topics, world.read_stored().member_id) == (("t",), "c-1")
    await found.unsubscribe(soon())
    assert (world.read_stored().topics, world.read_stored().member_id, found.assignment) == ((), "", ())
    assert world.coordinator.left == ["c-1"]
    await found.assign([B], soon())
    assert world.read_stored().assigned == (B,)
    world.coordinator.is_deposed = True
    with pytest.raises(NotLeader):
        await found.assign([A], soon())
    assert found.assignment == (B,)


async def test_a_partition_waits_for_a_transaction_with_its_offset(world):
    """The transaction's records are processed already; its offset counts soon."""
    world.unstable = {A}
    found = await world.create_subscribed()
    assert await poll(found) == {1: list(range(10))}
    assert await poll(found) == {}
    world.unstable, world.committed_offsets = set(), {A: OffsetRecord(Offset(7), -1, "", 0)}
    assert await poll(found) == {0: [7, 8, 9]}


async def test_a_member_keeps_the_positions_of_partitions_that_stay_assigned(world):
    found = await world.create_subscribed()
    assert await poll(found) == EVERYTHING
    world.coordinator.generation, world.coordinator.assignment = 2, [A]
    await world.coordinator.fail_heartbeat(RebalanceInProgress("again"))
    await until(lambda: found.assignment == (A,))
    assert await poll(found) == {}
    # Nothing was acknowledged when the partition went, so nothing was committed for it.
    assert all(B not in offsets for _, offsets in world.commits)
    world.coordinator.generation, world.coordinator.assignment = 3, [A, B]
    await world.coordinator.fail_heartbeat(RebalanceInProgress("again"))
    await until(lambda: len(found.assignment) == 2)
    assert await poll(found) == {1: list(range(10))}


async def test_acknowledged_records_are_committed_before_the_partitions_are_revoked(world):
    found = await world.create_subscribed()
    await poll(found)
    await poll(found)
    world.commits.clear()
    world.committed_offsets.clear()
    for position in found._positions._known.values():
        position.committed = None  # the commits of the polls were lost
    await world.coordinator.fail_heartbeat(RebalanceInProgress("again"))
    await until(lambda: len(world.coordinator.joins) == 2 and world.commits)
    assert world.commits[0] == (MemberIdentity("c-1", 1), {A: 10, B: 10})


@pytest.mark.parametrize("missed", [StaleGeneration("old"), UnknownMember("who")])
async def test_a_member_that_missed_a_generation_begins_at_the_committed_offset(world, missed):
    found = await world.create_subscribed(**{"auto.commit.enable": False})
    assert await poll(found) == EVERYTHING
    world.committed_offsets[A] = OffsetRecord(Offset(4), -1, "", 0)
    world.coordinator.generation = 5
    await world.coordinator.fail_heartbeat(missed)
    await until(lambda: len(world.coordinator.joins) == 2 and len(found.assignment) == 2)
    assert world.coordinator.joins[1].member_id == ("" if isinstance(missed, UnknownMember) else "c-1")
    assert await poll(found) == {0: list(range(4, 10)), 1: list(range(10))}


async def test_after_a_generation_without_an_assignment_positions_are_read_from_commits(world):
    found = await world.create_subscribed(**{"auto.commit.enable": False})
    assert await poll(found) == EVERYTHING
    world.committed_offsets[A] = OffsetRecord(Offset(4), -1, "", 0)
    world.coordinator.generation, world.coordinator.next_sync_error = 2, RebalanceInProgress("once more")
    await world.coordinator.fail_heartbeat(RebalanceInProgress("again"))
    await until(lambda: len(world.coordinator.joins) == 3 and found._member.settled.is_set())
    assert await poll(found) == {0: list(range(4, 10)), 1: list(range(10))}


async def test_a_commit_during_a_rebalance_is_repeated_in_the_next_generation(world):
    found = await world.create_subscribed(**{"auto.commit.enable": False})
    await poll(found)
    world.coordinator.generation, world.coordinator.assignment = 2, [A]
    committing_ = asyncio.ensure_future(commit(found, (A, 3), (B, 3)))
    await world.coordinator.fail_heartbeat(RebalanceInProgress("again"))
    # By then one of the partitions is another member's, and is not committed.
    assert await committing_ == {0: 4, 1: None}
    assert world.commits[-1] == (MemberIdentity("c-1", 2), {A: 4})


async def test_a_failed_auto_commit_is_retried(world, monkeypatch):
    monkeypatch.setattr(committing, "AUTO_COMMIT_S", 0.01)
    found = await world.create_subscribed()
    await poll(found)
    world.commit_errors = [Unavailable("not now"), Overloaded("nor now")]
    await poll(found)
    await until(lambda: world.committed_offsets)
    assert [offsets for _, offsets in world.commits] == [{A: 10, B: 10}] * 3


async def test_a_repeated_poll_returns_the_same_records(world):
    found = await world.create_subscribed()
    assert await poll(found, poll_id="x") == EVERYTHING
    assert await poll(found, poll_id="x") == EVERYTHING
    assert world.commits == []
    assert await poll(found, poll_id="y") == {}
    await until(lambda: world.commits)
    assert world.commits == [(MemberIdentity("c-1", 1), {A: 10, B: 10})]


async def test_a_repeated_poll_does_not_undo_a_seek(world):
    found = await world.create_subscribed()
    await poll(found, poll_id="x")
    await found.seek([ChosenPosition(A, offset=8)], soon())
    assert await poll(found, poll_id="x") == {0: [8, 9], 1: list(range(10))}


async def test_commits_without_waiters_are_bounded(world):
    found = await world.create_subscribed()
    await poll(found)
    for _ in range(16):
        await found.commit([ConsumedRecord(A, 1)], is_waited_for=False, deadline=soon())
    with pytest.raises(Overloaded):
        await found.commit([ConsumedRecord(A, 1)], is_waited_for=False, deadline=soon())
    with pytest.raises(ConsumerState):
        await found.commit([ConsumedRecord(TopicPartition("u", 0), 1)], is_waited_for=False, deadline=soon())


async def test_a_poll_fails_with_the_reason_of_the_lost_membership(world):
    world.coordinator.next_join_error = InvalidArgument("too much metadata")
    found = await world.create_instance()
    await found.subscribe(("t",), None, soon())
    with pytest.raises(InvalidArgument, match="too much metadata"):
        await poll(found, 10_000)
    await until(lambda: found.assignment)
    assert await poll(found) == EVERYTHING


async def test_another_coordinator_continues_with_the_stored_instance(world):
    found = await world.create_subscribed()
    await found.seek([ChosenPosition(A, offset=7)], soon())
    polling = asyncio.ensure_future(poll(found, 0))
    assert (await polling)[0] == [7, 8, 9]
    waiting = asyncio.ensure_future(found.poll(next(IDS), 60_000, 1, ["binary"]))
    await asyncio.sleep(0)
    world.registry.remove_coordinator(world.coordinator)
    with pytest.raises(NotLeader):
        await waiting
    with pytest.raises(NotLeader):
        async with world.registry.use(world.coordinator, G, C):
            pass
    world.registry.add_coordinator(world.coordinator)
    (again,) = world.registry
    await until(lambda: again.assignment)
    assert world.coordinator.joins[-1].member_id == "c-1"
    assert await poll(again) == {0: [7, 8, 9], 1: list(range(10))}  # the anchor holds: nothing was committed since
    world.committed_offsets[A] = OffsetRecord(Offset(9), -1, "", 0)
    world.registry.remove_coordinator(world.coordinator)
    world.registry.add_coordinator(world.coordinator)
    (last,) = world.registry
    await until(lambda: last.assignment)
    assert (await poll(last))[0] == [9]


async def test_an_undecodable_stored_instance_is_skipped(world):
    await world.create_instance()
    world.coordinator.instances[G, "newer"] = {"version": 9}
    world.registry.remove_coordinator(world.coordinator)
    world.registry.add_coordinator(world.coordinator)
    assert [instance.name for instance in world.registry] == [C]


async def test_a_deposed_coordinator_answers_no_request_about_instances(world):
    asked = InstancePoll(G, "made elsewhere", "1", 0, 1, ["json"])
    with pytest.raises(UnknownConsumer):
        await POLL.serve(world.registry, world.coordinator, asked, soon())
    assert world.coordinator.confirmed == 1
    world.coordinator.is_deposed = True
    with pytest.raises(NotLeader):
        await POLL.serve(world.registry, world.coordinator, asked, soon())


@pytest.mark.parametrize(
    "fields",
    [[G, C, "1", 0, 1, "json"], [G, C, "1", "0", 1, []], [G, C, "1", 0, 1], [G, C, "1", 0, 1, [], 2], {"group": G}],
)
def test_undecodable_requests_are_refused(fields):
    with pytest.raises(InvalidArgument, match="check that the other broker runs a compatible release"):
        POLL.unpack_request(msgspec.msgpack.encode(fields))


def test_deliveries_are_encoded_with_their_batches_unchanged():
    pieces = [RecordPiece("t", number, Offset(1), Offset(3), [b"x"] * number) for number in range(3)]
    moved = [MovedPosition("t", 0, -1, None, Offset(0), Offset(9))]
    delivery = PollDelivery("binary", pieces, moved, 7)
    assert POLL.unpack_answer(POLL.pack_answer(delivery)) == delivery
    with pytest.raises(OutcomeUnknown, match="cannot be read"):
        POLL.unpack_answer(Answer(None, (msgspec.msgpack.encode(["binary"]),)))


async def test_a_stopping_broker_answers_all_waiters(world):
    found = await world.create_subscribed(**{"consumer.request.timeout.ms": 60_000})
    await poll(found)
    waiting = asyncio.ensure_future(found.poll(next(IDS), 60_000, 1, ["binary"]))
    await asyncio.sleep(0)
    world.registry.stop_waiting()
    assert (await waiting).pieces == []
    assert (await found.poll(next(IDS), 60_000, 1, ["binary"])).pieces == []


async def test_a_failed_member_rejoins_as_a_new_one(world, caplog):
    world.coordinator.next_join_error = ZeroDivisionError("a bug")
    found = await world.create_instance()
    await found.subscribe(("t",), None, soon())
    with pytest.raises(Unavailable, match="failed"):
        await poll(found, 10_000)
    await until(lambda: found.assignment)
    assert "a bug" in caplog.text


@pytest.mark.parametrize("what", [{"topics": ("t",)}, {"pattern": "t.*"}])
async def test_a_poll_waits_until_the_member_has_rejoined(world, what):
    found = await world.create_instance()
    await found.subscribe(what.get("topics", ()), what.get("pattern"), soon())
    await until(lambda: found.assignment)
    world.registry.remove_coordinator(world.coordinator)
    world.registry.add_coordinator(world.coordinator)
    (again,) = world.registry
    assert await poll(again, 1_000) == EVERYTHING


async def test_a_pending_commit_does_not_undo_a_seek(world):
    found = await world.create_subscribed()
    await poll(found)
    held = asyncio.Event()
    commit_now = world.commit

    async def commit_slowly(*arguments, **options):
        await held.wait()
        return await commit_now(*arguments, **options)

    world.commit = commit_slowly
    await poll(found)  # commits what the first one gave
    seeking = asyncio.ensure_future(found.seek([ChosenPosition(A, offset=3)], soon()))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not seeking.done()
    held.set()
    await seeking
    assert world.committed_offsets[A].offset == 10
    assert world.read_stored().anchors[A] == (3, 10)
