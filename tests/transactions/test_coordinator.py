"""A coordinator of transactions over a log in memory: transitions, markers, fencing, timeouts, and its successors."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

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
    Unavailable,
    UnknownTopic,
    UnknownTransaction,
)
from raftlog.partitions.groups.results import GroupMarker
from raftlog.partitions.transactions import coordinator as module
from raftlog.partitions.transactions import markers, transitions
from raftlog.partitions.transactions.records import ProducerIdAndEpoch, TransactionRecord, TransactionState
from raftlog.partitions.transactions.results import AddToTransaction, EndTransaction, InitializeProducer
from raftlog.partitions.transactions.transitions import EPOCH_MAX
from tests.transactions.harness import DELETED, ID, PLACE, PLACE_2, TIMEOUT_MS, TOPIC, Coordination, soon
from tests.waiting import until

TERM = 3
FIRST = (TERM << 32) + 1
"""Number of the first transaction."""


@pytest.fixture
async def world() -> AsyncIterator[Coordination]:
    made = Coordination()
    await made.load()
    yield made
    made.coordinator.end()


async def test_a_transaction_is_committed_in_all_partitions_and_groups(world: Coordination) -> None:
    producer = await world.initialize()
    assert producer == (101, 0)
    await world.add(producer, PLACE, PLACE_2)
    await world.add(producer, group="g")
    assert (await world.verify(producer), await world.verify(producer, None, "g")) == (TERM, TERM)
    await world.end(producer)
    record = await world.settle()
    assert (record.state, record.partitions, record.groups) == (TransactionState.COMPLETE_COMMIT, (), ())
    marker = GroupMarker(*producer, True, TERM, FIRST)
    assert sorted(world.markers, key=str) == sorted([(PLACE, marker), (PLACE_2, marker), ("g", marker)], key=str)
    assert (world.counters.committed, world.counters.aborted) == (1, 0)


async def test_transactions_have_ascending_numbers_over_epochs_and_coordinators(world: Coordination) -> None:
    """Participants recognize repeated markers by them during a later transaction."""
    producer = await world.initialize()
    for _ in range(2):
        await world.add(producer, PLACE)
        await world.add(producer, PLACE_2)
        await world.end(producer)
        await world.settle()
    await world.add(producer, PLACE)
    producer = await world.initialize()
    await world.add(producer, PLACE)
    successor = await world.successor()
    await successor.end(producer)
    await successor.settle()
    await successor.add(producer, PLACE)
    await successor.end(producer)
    await successor.settle()
    sent = [*world.markers, *successor.markers]
    numbers = [marker.number for _, marker in sent]
    assert [number - min(numbers) for number in numbers[:6]] == [0, 0, 1, 1, 2, 3]
    assert numbers == sorted(numbers)
    assert numbers[0] > TERM << 32
    assert numbers[-1] > TERM + 1 << 32, "above numbers in entries that damage has cost"
    successor.coordinator.end()


async def test_no_marker_is_sent_before_the_decision_is_committed(world: Coordination) -> None:
    producer = await world.initialize()
    await world.add(producer, PLACE)
    asked = EndTransaction(ID, *producer, is_commit=True)
    request = asyncio.create_task(world.coordinator.end_transaction(asked, soon()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not world.markers
    assert not request.done()
    world.replica.commit()
    await request
    await world.settle()
    assert len(world.markers) == 1


async def test_requests_wait_for_the_markers_of_the_last_transaction(world: Coordination) -> None:
    producer = await world.initialize()
    await world.add(producer, PLACE)
    world.answers.clear()
    await world.end(producer)
    assert world.state is TransactionState.PREPARE_COMMIT
    following = asyncio.create_task(world.add(producer, PLACE_2))
    for _ in range(3):
        await world.step()
    assert not following.done()
    world.answers.set()
    await following
    assert world.coordinator.folded.records[ID].partitions == (PLACE_2,)


async def test_the_next_transaction_is_stored_in_place_of_the_end_of_the_last(world: Coordination) -> None:
    """All partitions and groups that wait for the markers begin it together."""
    producer = await world.initialize()
    await world.add(producer, PLACE)
    world.answers.clear()
    await world.end(producer)
    before = len(world.replica.batches)
    waiting = [
        asyncio.create_task(world.add(producer, PLACE)),
        asyncio.create_task(world.join(producer, PLACE_2)),
        asyncio.create_task(world.join(producer, group="g")),
    ]
    await world.step()
    world.answers.set()
    await world.run(asyncio.gather(*waiting))
    record = world.coordinator.folded.records[ID]
    assert (record.state, record.number) == (TransactionState.ONGOING, FIRST + 1)
    assert (record.partitions, record.groups) == ((PLACE, PLACE_2), ("g",))
    assert len(world.replica.batches) == before + 1
    assert [each.result() for each in waiting] == [None, (TERM, FIRST + 1), (TERM, FIRST + 1)]
    assert world.counters.committed == 1
    successor = await world.successor()
    assert successor.coordinator.folded.records[ID] == record
    assert not successor.markers, "nothing is left to do for the last transaction"
    successor.coordinator.end()


async def test_a_transaction_that_began_in_place_of_an_end_times_out(world: Coordination) -> None:
    producer = await world.run(world.coordinator.initialize(InitializeProducer(ID, 50), soon()))
    await world.add(producer, PLACE)
    world.answers.clear()
    await world.end(producer)
    waiting = asyncio.create_task(world.add(producer, PLACE_2))
    await world.step()
    world.answers.set()
    await world.run(waiting)
    await world.step_until(lambda: world.state is TransactionState.COMPLETE_ABORT)
    assert world.counters.timed_out == 1
    assert world.markers[-1][0] == PLACE_2


async def test_waiting_additions_beyond_the_limit_are_refused_alone() -> None:
    world = Coordination(max_partitions=2)
    await world.load()
    producer = await world.initialize()
    await world.add(producer, PLACE)
    world.answers.clear()
    await world.end(producer)
    places = (PLACE, PLACE_2, (TOPIC, 2))
    waiting = [asyncio.create_task(world.add(producer, place)) for place in places]
    await world.step()
    world.answers.set()
    found = await world.run(asyncio.gather(*waiting, return_exceptions=True))
    assert [type(each) for each in found] == [type(None), type(None), InvalidArgument]
    assert world.coordinator.folded.records[ID].partitions == (PLACE, PLACE_2)
    world.coordinator.end()


async def test_many_waiting_additions_are_stored_together_without_a_look_at_each_pair(
    world: Coordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may send records to all partitions of a topic at the same time."""
    calls = 0
    add = transitions.add

    def count_and_add(*args: Any) -> TransactionRecord:
        nonlocal calls
        calls += 1
        return add(*args)

    monkeypatch.setattr(transitions, "add", count_and_add)
    producer = await world.initialize()
    before = len(world.replica.batches)
    places = [(TOPIC, number) for number in range(100)]
    await world.run(asyncio.gather(*(world.add(producer, place) for place in places)))
    assert world.coordinator.folded.records[ID].partitions == tuple(places)
    assert len(world.replica.batches) <= before + 2
    assert calls <= 3 * len(places)


async def test_a_fenced_producer_that_waits_begins_no_transaction(world: Coordination) -> None:
    old = await world.initialize()
    await world.add(old, PLACE)
    world.answers.clear()
    fencing = asyncio.create_task(world.initialize())
    for _ in range(3):
        await world.step()
    assert world.state is TransactionState.PREPARE_ABORT
    late = asyncio.create_task(world.add(old, PLACE_2))
    await world.step()
    world.answers.set()
    new = await world.run(fencing)
    with pytest.raises(ProducerFenced):
        await world.run(late)
    assert [place for place, _ in world.markers] == [PLACE], "one transaction was aborted"
    await world.add(new, PLACE)
    assert world.coordinator.folded.records[ID].partitions == (PLACE,)


async def test_a_request_that_has_waited_long_is_told_to_retry(
    world: Coordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WAIT_MS", 10)
    producer = await world.initialize()
    await world.add(producer, PLACE)
    world.answers.clear()
    await world.end(producer)
    for request in (world.add(producer, PLACE), world.verify(producer), world.initialize()):
        with pytest.raises(ConcurrentTransactions):
            await request
    world.answers.set()
    await world.settle()


@pytest.mark.parametrize("is_commit", [True, False])
async def test_an_end_can_be_repeated_and_not_reversed(world: Coordination, is_commit: bool) -> None:
    producer = await world.initialize()
    with pytest.raises(InvalidTransactionState):
        await world.end(producer, is_commit=is_commit)
    await world.add(producer, PLACE)
    for _ in range(3):
        await world.end(producer, is_commit=is_commit)
    with pytest.raises(InvalidTransactionState):
        await world.end(producer, is_commit=not is_commit)
    assert len(world.markers) == 1
    assert world.markers[0][1].is_commit is is_commit


async def test_a_repeated_end_is_confirmed(world: Coordination) -> None:
    """A deposed coordinator would take the commit of a later transaction for that of its own last one."""
    producer = await world.initialize()
    await world.add(producer, PLACE)
    await world.end(producer)
    await world.settle()
    world.replica.lost = NotLeader("elsewhere", None)
    with pytest.raises(NotLeader):
        await world.end(producer)
    with pytest.raises(NotLeader):
        await world.end(ProducerIdAndEpoch(producer.producer_id, 7))


async def test_a_new_producer_aborts_and_fences_the_old_one(world: Coordination) -> None:
    old = await world.initialize()
    await world.add(old, PLACE)
    new = await world.initialize()
    assert new == (old.producer_id, 2)
    assert world.markers == [(PLACE, GroupMarker(old.producer_id, 1, False, TERM, FIRST))]
    for request in (world.add(old, PLACE), world.end(old), world.verify(old)):
        with pytest.raises(ProducerFenced):
            await request
    with pytest.raises(InvalidProducerMapping):
        await world.add(ProducerIdAndEpoch(77, 0), PLACE)
    assert world.counters.fenced == 1


async def test_a_producer_gets_its_next_epoch_and_its_retry_the_same(world: Coordination) -> None:
    first = await world.initialize()
    second = await world.initialize(first)
    assert second == (first.producer_id, 1)
    assert await world.initialize(first) == second
    await world.add(second, PLACE)
    assert await world.initialize(first) == second, "a delayed retry aborts no transaction"
    assert world.state is TransactionState.ONGOING
    third = await world.initialize(second)
    assert third == (first.producer_id, 2)
    assert world.markers[-1][1] == GroupMarker(first.producer_id, 2, False, TERM, FIRST)
    with pytest.raises(ProducerFenced):
        await world.initialize(first)
    with pytest.raises(ProducerFenced):
        await world.initialize(ProducerIdAndEpoch(99, 0))


async def test_a_new_producer_id_follows_the_last_epoch(world: Coordination) -> None:
    producer = await world.initialize()
    record = world.coordinator.folded.records[ID]
    world.coordinator.folded.records[ID] = record._replace(epoch=EPOCH_MAX - 1)
    last = ProducerIdAndEpoch(producer.producer_id, EPOCH_MAX - 1)
    await world.add(last, PLACE)
    renewed = await world.initialize(last)
    assert world.markers == [(PLACE, GroupMarker(producer.producer_id, EPOCH_MAX, False, TERM, FIRST))]
    assert renewed == (producer.producer_id + 1, 0)
    assert await world.initialize(last) == renewed
    with pytest.raises(InvalidProducerMapping):
        await world.add(last, PLACE)
    await world.add(renewed, PLACE)


async def test_the_last_epoch_is_kept_for_an_abort(world: Coordination) -> None:
    """A producer with it could not be fenced any more."""
    producer = await world.initialize()
    record = world.coordinator.folded.records[ID]
    world.coordinator.folded.records[ID] = record._replace(epoch=EPOCH_MAX - 2)
    assert await world.initialize() == (producer.producer_id, EPOCH_MAX - 1)
    assert await world.initialize() == (producer.producer_id + 1, 0)


async def test_two_first_producers_get_two_epochs_of_one_id(world: Coordination) -> None:
    first, second = await asyncio.gather(world.initialize(), world.initialize())
    assert {first.producer_id} == {second.producer_id}
    assert {first.epoch, second.epoch} == {0, 1}


async def test_only_members_of_an_ongoing_transaction_are_confirmed(world: Coordination) -> None:
    producer = await world.initialize()
    for place, group in ((PLACE, None), (None, "g")):
        with pytest.raises(InvalidTransactionState):
            await world.verify(producer, place, group)
    await world.add(producer, PLACE)
    with pytest.raises(InvalidTransactionState):
        await world.verify(producer, PLACE_2)
    with pytest.raises(InvalidTransactionState):
        await world.verify(producer, None, "g")
    await world.end(producer)
    with pytest.raises(InvalidTransactionState):
        await world.verify(producer, PLACE)


async def test_markers_are_sent_until_they_are_written(world: Coordination, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await world.initialize()
    await world.add(producer, PLACE, PLACE_2, (DELETED, 0))
    world.failures = {
        PLACE: [Unavailable("not now"), NotLeader("elsewhere", None)],
        PLACE_2: [ProducerFenced("a newer epoch is there already")],
        (DELETED, 0): [UnknownTopic("deleted")],
    }
    await world.end(producer)
    await world.settle()
    assert sorted(place for place, _ in world.markers) == sorted([PLACE, PLACE, PLACE, PLACE_2, (DELETED, 0)])


async def test_markers_for_unreachable_leaders_delay_no_other_transactions(
    world: Coordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while they are sent for the first time, nor while they are repeated."""
    monkeypatch.setattr(markers, "_SENT_OF_ONE_MAX", 2)
    monkeypatch.setattr(markers, "_SENT_MAX", 4)
    monkeypatch.setattr(markers, "_FIRST_ATTEMPT_MS", 50)
    monkeypatch.setattr(markers, "_ATTEMPT_MS", 600_000)
    world.coordinator._sender = markers.MarkerSender("m", world.coordinator._environment, lambda: False)
    places = [(TOPIC, number) for number in range(10, 16)]
    world.unreachable.update(places)
    stuck = await world.initialize()
    await world.add(stuck, *places)
    await world.end(stuck)
    for attempts in (2, 8):  # the first two of the transaction; then all of them, of which some for the second time
        await world.step_until(lambda attempts=attempts: len(world.markers) >= attempts)
        sent = len(world.markers)
        world.failures[PLACE] = [Unavailable("elects")] * 2  # so that its marker is repeated too
        other = await world.initialize(name="other")
        await world.add(other, PLACE, name="other")
        await world.end(other, name="other")
        await world.step_until(lambda sent=sent: PLACE in [place for place, _ in world.markers[sent:]])
        assert (await world.settle("other")).state is TransactionState.COMPLETE_COMMIT
        assert world.state is TransactionState.PREPARE_COMMIT


async def test_the_successor_writes_the_markers_of_a_stored_decision(world: Coordination) -> None:
    producer = await world.initialize()
    await world.add(producer, PLACE)
    world.answers.clear()
    await world.end(producer)
    successor = await world.successor()
    record = await successor.settle()
    assert record.state is TransactionState.COMPLETE_COMMIT
    assert successor.markers == [(PLACE, GroupMarker(*producer, True, TERM + 1, FIRST))]
    await successor.end(producer)
    with pytest.raises(NotLeader):
        await world.add(producer, PLACE)
    successor.coordinator.end()


async def test_f51_the_successor_confirms_partitions_that_were_added_before(world: Coordination) -> None:
    """The records that follow get a marker, also where none was written yet."""
    producer = await world.initialize()
    await world.add(producer, PLACE, PLACE_2)
    successor = await world.successor()
    assert await successor.verify(producer, PLACE) == TERM + 1
    with pytest.raises(NotLeader):
        await world.verify(producer, PLACE)
    await successor.end(producer)
    await successor.settle()
    assert sorted(place for place, _ in successor.markers) == [PLACE, PLACE_2]
    with pytest.raises(InvalidTransactionState):
        await successor.verify(producer, PLACE)
    successor.coordinator.end()


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_producer_that_is_not_stored_replaces_none(world: Coordination, *, is_open: bool) -> None:
    """KAFKA-9666, KAFKA-14880: the log refuses records while a producer is initialized."""
    old = await world.initialize()
    if is_open:
        await world.add(old, PLACE)
    request = asyncio.create_task(world.coordinator.initialize(InitializeProducer(ID, TIMEOUT_MS), soon()))
    await until(lambda: world.replica.waiting)
    world.replica.waiting.pop()[0].set_exception(Overloaded("no room"))
    with pytest.raises(Overloaded):
        await request
    assert world.coordinator.folded.records[ID].epoch == old.epoch
    await world.add(old, PLACE_2)
    assert not world.markers
    new = await world.initialize()
    assert new == (old.producer_id, old.epoch + 2)
    assert {(marker.epoch, marker.is_commit) for _, marker in world.markers} == {(old.epoch + 1, False)}


async def test_a_decision_that_was_not_committed_is_not_made(world: Coordination) -> None:
    producer = await world.initialize()
    await world.add(producer, PLACE)
    request = asyncio.create_task(
        world.coordinator.end_transaction(EndTransaction(ID, *producer, is_commit=True), soon())
    )
    await until(lambda: world.replica.waiting)
    future, _ = world.replica.waiting.pop()
    future.set_exception(Overloaded("no room"))
    with pytest.raises(Overloaded):
        await request
    assert not world.markers
    await world.end(producer, is_commit=False)
    assert (await world.settle()).state is TransactionState.COMPLETE_ABORT


async def test_a_transaction_times_out_by_the_monotonic_clock(
    world: Coordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall clock goes back meanwhile; a refused append is repeated, with the same epoch."""
    monkeypatch.setattr(module, "_RETRY_S", 0.01)
    asked = InitializeProducer(ID, 30)
    producer = await world.run(world.coordinator.initialize(asked, soon()))
    await world.add(producer, PLACE)
    world.now_ms -= 1_000_000
    for _ in range(2):
        await until(lambda: world.replica.waiting)
        future, _ = world.replica.waiting.pop()
        future.set_exception(Overloaded("no room"))
    await world.step_until(lambda: world.state is TransactionState.COMPLETE_ABORT)
    assert world.markers == [(PLACE, GroupMarker(producer.producer_id, producer.epoch + 1, False, TERM, FIRST))]
    with pytest.raises(ProducerFenced):
        await world.end(producer)
    assert (world.counters.timed_out, world.counters.aborted) == (1, 1)
    assert not world.coordinator._timeouts


async def test_a_successor_starts_the_timeout_again(world: Coordination) -> None:
    producer = await world.run(world.coordinator.initialize(InitializeProducer(ID, 50), soon()))
    await world.add(producer, PLACE)
    successor = await world.successor()
    assert successor.coordinator.taken_over_at(ID) > 0
    await successor.step_until(lambda: successor.state is TransactionState.COMPLETE_ABORT)
    assert successor.coordinator.taken_over_at(ID) == 0
    assert successor.markers == [(PLACE, GroupMarker(producer.producer_id, 1, False, TERM + 1, FIRST))]
    successor.coordinator.end()


async def test_a_loading_coordinator_may_take_over_every_transaction() -> None:
    """A late request must not wait for the load, and end a transaction that began since at another coordinator."""
    world = Coordination()
    began_at = world.coordinator.taken_over_at(ID)
    assert began_at > 0
    await world.load()
    assert world.coordinator.taken_over_at(ID) == 0
    producer = await world.initialize()
    await world.add(producer, PLACE)
    assert world.coordinator.taken_over_at(ID) == 0
    world.coordinator.end()


async def test_an_ended_transaction_does_not_time_out(world: Coordination) -> None:
    producer = await world.initialize()
    await world.add(producer, PLACE)
    assert list(world.coordinator._timeouts) == [ID]
    await world.end(producer)
    await world.settle()
    assert not world.coordinator._timeouts
    assert world.state is TransactionState.COMPLETE_COMMIT
    assert world.counters.timed_out == 0


async def test_a_fenced_coordinator_sends_its_marker_again_until_it_is_over(
    world: Coordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await world.initialize()
    await world.add(producer, PLACE)
    world.failures = {PLACE: [CoordinatorFenced("newer") for _ in range(9)]}
    await world.end(producer)
    await world.step()
    assert world.state is TransactionState.PREPARE_COMMIT
    world.coordinator.end()
    await asyncio.sleep(0)
    assert not world.coordinator._transitions


async def test_an_operator_aborts_a_transaction(world: Coordination) -> None:
    with pytest.raises(UnknownTransaction):
        await world.run(world.coordinator.fence(ID, soon()))
    producer = await world.initialize()
    await world.run(world.coordinator.fence(ID, soon()))
    assert await world.initialize(producer) == (producer.producer_id, 1)
    await world.add(ProducerIdAndEpoch(producer.producer_id, 1), PLACE)
    await world.run(world.coordinator.fence(ID, soon()))
    assert world.state is TransactionState.COMPLETE_ABORT
    with pytest.raises(ProducerFenced):
        await world.end(ProducerIdAndEpoch(producer.producer_id, 1))


async def test_idle_ids_expire_and_begin_anew(world: Coordination) -> None:
    producer = await world.initialize()
    await world.initialize(name="busy")
    busy = world.coordinator.folded.records["busy"]
    world.coordinator.folded.records["busy"] = busy._replace(state=TransactionState.ONGOING)
    await world.run(world.coordinator.expire())
    assert set(world.coordinator.folded.records) == {ID, "busy"}
    world.now_ms += 8 * 86_400_000
    await world.run(world.coordinator.expire())
    assert set(world.coordinator.folded.records) == {"busy"}
    with pytest.raises(InvalidProducerMapping):
        await world.add(producer, PLACE)
    assert await world.initialize(producer) == (producer.producer_id + 2, 0)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_f50_an_end_that_waited_for_the_markers_does_not_end_the_next_transaction(
    world: Coordination, *, is_commit: bool
) -> None:
    """The producer repeated it on another connection, got the answer, and begins its next transaction meanwhile."""
    producer = await world.initialize()
    await world.add(producer, PLACE)
    world.answers.clear()
    await world.end(producer)
    late = asyncio.ensure_future(
        world.coordinator.end_transaction(EndTransaction(ID, *producer, is_commit), soon()),
    )
    await world.step()
    following = asyncio.ensure_future(
        world.coordinator.add(AddToTransaction(ID, *producer, (PLACE_2,), ()), soon()),
    )
    await world.step()
    world.answers.set()
    await world.step_until(lambda: late.done() and following.done())
    await following
    with pytest.raises(InvalidTransactionState):
        await late
    record = world.coordinator.folded.records[ID]
    assert (record.state, record.partitions) == (TransactionState.ONGOING, (PLACE_2,))
    await world.end(producer)
    assert (await world.settle()).state is TransactionState.COMPLETE_COMMIT


async def test_a_check_that_waited_for_the_markers_does_not_belong_to_the_next_transaction(world: Coordination) -> None:
    """A late batch of the last transaction would get into the next one, which has the same epoch."""
    producer = await world.initialize()
    await world.add(producer, PLACE, PLACE_2)
    world.answers.clear()
    await world.end(producer)
    late = asyncio.ensure_future(world.verify(producer))
    await world.step()
    following = asyncio.ensure_future(
        world.coordinator.add(AddToTransaction(ID, *producer, (PLACE,), ()), soon()),
    )
    await world.step()
    world.answers.set()
    await world.step_until(lambda: late.done() and following.done())
    with pytest.raises(InvalidTransactionState, match="earlier transaction"):
        await late
    assert await world.verify(producer) == TERM


async def test_an_id_that_is_used_again_during_the_expiry_stays(world: Coordination) -> None:
    """Otherwise the record of its open transaction is deleted, and its partitions never get a marker."""
    for name in ("first", ID):
        await world.initialize(name=name)
    world.now_ms += 8 * 86_400_000
    expiry = asyncio.ensure_future(world.coordinator.expire())
    producer = await world.initialize()  # committed by the same append as the deletion of the first id
    await world.run(expiry)
    assert list(world.coordinator.folded.records) == [ID]
    await world.add(producer, PLACE)
    assert world.state is TransactionState.ONGOING


async def test_the_number_of_ids_is_bounded() -> None:
    world = Coordination(max_ids=1)
    await world.load()
    await world.initialize()
    with pytest.raises(Overloaded):
        await world.initialize(name="another")
    await world.initialize()
    world.coordinator.end()


async def test_the_default_timeout_is_kept(world: Coordination) -> None:
    await world.initialize()
    assert world.coordinator.folded.records[ID].timeout_ms == TIMEOUT_MS
