"""Transactions at a replica: permissions, markers, the last stable offset, and reads of committed records."""

import asyncio
from dataclasses import replace

import pytest

from raftlog.errors import (
    ConcurrentTransactions,
    CoordinatorFenced,
    InvalidProducerMapping,
    InvalidTransactionState,
    NotLeader,
    OffsetNotAvailable,
    OutOfOrderSequence,
    ProducerFenced,
)
from raftlog.partitions.replica import leader_transactions
from raftlog.partitions.replica.read_queue import LogReader, ReadQueue
from raftlog.partitions.results import ConfirmedTransaction
from raftlog.raft import RaftSettings
from raftlog.records import ControlKind, read_control, read_header
from raftlog.types import Isolation, Term
from tests.replica.producing import batch_of
from tests.replica.transacting import TransactionWorld, transactional_batch, visible_values
from tests.replica.worlds import other_numbers
from tests.runtime.drivers import SMALL


def test_committed_records_are_read_and_aborted_ones_are_not() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"plain")
        world.transact(leader, 0, b"a", b"b")
        world.transact(leader, 2, b"c", b"d", is_commit=False)
        world.transact(leader, 4, b"e")
        assert world.committed_values(leader) == [b"plain", b"a", b"b", b"e"]
        assert world.committed_values(leader, max_bytes=1) == [b"plain", b"a", b"b", b"e"]
        found = world.committed_fetch(leader, 1)
        assert found.last_stable_offset == found.high_watermark == 9
        assert found.aborted == [(7, 4)]
        assert world.has_equal_tables()


def test_a_marker_is_fenced_by_committed_epochs_only() -> None:
    """For a coordinator a fenced marker is not needed: that must not follow from an entry that is lost later."""
    with TransactionWorld() as world:
        old = world.lead()
        world.begin(old)
        world.written(old, 0, b"a")
        world.isolate(old)
        newer = world.end(old, is_commit=False, epoch=1)
        world.run(0.01)
        assert world.replica(old).transactions._known_epoch(7) == 1
        commit = world.end(old, is_commit=True)
        world.run_until(commit.done)
        assert not isinstance(commit.exception(), ProducerFenced)
        world.run_until(newer.done)
        world.network.heal()
        leader = world.lead()
        world.ended(leader, is_commit=True)
        assert world.committed_values(leader) == [b"a"]


def test_no_batch_is_the_first_one_while_a_lower_sequence_waits() -> None:
    """Clients send batches without waiting for answers: the first one can fail, and the second one be permitted."""
    with TransactionWorld() as world:
        leader = world.lead()
        waiting = world.replica(leader).transactions
        world.run_at(leader, lambda: waiting.note_waiting(read_header(transactional_batch(0, b"a")), "tx"))
        world.run_at(leader, lambda: waiting.note_waiting(read_header(transactional_batch(1, b"b")), "tx"))
        world.begin(leader)
        for _ in range(2):
            assert world.error_of(world.write(leader, 1, b"b")) is OutOfOrderSequence
        world.written(leader, 0, b"a")
        world.written(leader, 1, b"b")
        assert world.written(leader, 1, b"b").is_duplicate
        world.ended(leader, is_commit=True)
        assert world.committed_values(leader) == [b"a", b"b"]


def test_a_waiting_sequence_counts_until_its_marker_and_for_its_epoch() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        waiting = world.replica(leader).transactions
        world.run_at(leader, lambda: waiting.note_waiting(read_header(transactional_batch(0, b"a")), "tx"))
        world.begin(leader, epoch=1)
        world.written(leader, 5, b"its state expired", epoch=1)
        world.ended(leader, is_commit=True, epoch=1)
        late = read_header(transactional_batch(3, b"b", producer=8))
        world.run_at(leader, lambda: waiting.note_waiting(late, "tx"))
        world.ended(leader, is_commit=False, producer=8)
        world.begin(leader, 8)
        world.written(leader, 4, b"c", producer=8)
        world.ended(leader, is_commit=True, producer=8)
        assert world.committed_values(leader) == [b"its state expired", b"c"]


def test_a_waiting_sequence_counts_in_its_term() -> None:
    """Another leader may have appended it since."""
    with TransactionWorld() as world:
        transactions = world.replica(world.lead())._sequence_check.transactions
        transactions.note_waiting(read_header(transactional_batch(0, b"a")), "tx", Term(3))
        transactions.reset(Term(3))
        assert transactions._waiting.keys() == {7}
        transactions.note_waiting(read_header(transactional_batch(5, b"a")), "tx", Term(4))
        assert transactions._waiting[7] == {"tx": (4, 0, 5)}
        transactions.reset(Term(5))
        assert not transactions._waiting


def test_waiting_sequences_are_remembered_for_a_bounded_number_of_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_transactions, "_WAITING_MAX", 2)
    with TransactionWorld() as world:
        transactions = world.replica(world.lead())._sequence_check.transactions
        for producer, epoch, sequence in ((7, 1, 5), (8, 0, 0), (7, 1, 3), (7, 1, 4), (7, 0, 0), (9, 0, 0)):
            header = read_header(transactional_batch(sequence, b"a", producer=producer, epoch=epoch))
            transactions.note_waiting(header, "tx", Term(3))
        assert transactions._waiting == {7: {"tx": (3, 1, 3)}, 9: {"tx": (3, 0, 0)}}


def test_a_batch_under_another_transactional_id_does_not_delay_the_producer() -> None:
    """Each reader of a topic knows the producer ids in it, and could send batches with them."""
    with TransactionWorld() as world:
        leader = world.lead()
        waiting = world.replica(leader).transactions
        lower, false = (read_header(transactional_batch(sequence, b"b")) for sequence in (1, 2_000_000_000))
        world.run_at(leader, lambda: waiting.note_waiting(lower, "tx"))
        for number in range(100):
            world.run_at(leader, lambda number=number: waiting.note_waiting(false, f"other {number}"))
        world.begin(leader)
        assert world.error_of(world.write(leader, 2, b"c")) is OutOfOrderSequence
        world.written(leader, 1, b"b")
        world.ended(leader, is_commit=True)
        assert world.committed_values(leader) == [b"b"]


def test_waiting_batches_under_refused_transactional_ids_are_forgotten() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        waiting = world.replica(leader).transactions
        header = read_header(transactional_batch(1, b"b"))
        for name in ("tx", "false"):
            world.run_at(leader, lambda name=name: waiting.note_waiting(header, name))
        world.run_at(leader, lambda: waiting.forget_name(7, "false"))
        transactions = world.replica(leader)._sequence_check.transactions
        assert transactions._waiting[7].keys() == {"tx"}
        world.run_at(leader, lambda: waiting.forget_name(7, "tx"))
        world.run_at(leader, lambda: waiting.forget_name(8, "tx"))
        assert (transactions._waiting, transactions._waiting_count) == ({}, 0)


def test_a_marker_takes_an_offset_and_is_delivered_with_its_fields() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.transact(leader, 0, b"a")
        world.begin(leader, 8, 3)
        world.ended(leader, is_commit=False, producer=8, epoch=3, coordinator=5)
        found = world.fetch_and_wait(leader, 1)
        data, commit, abort = map(read_header, found.batches)
        assert (data.is_transactional, data.is_control) == (True, False)
        assert [read_control(batch)[0] for batch in found.batches[1:]] == [ControlKind.COMMIT, ControlKind.ABORT]
        assert (commit.producer_id, commit.producer_epoch, commit.base_offset, commit.next_offset) == (7, 0, 2, 3)
        assert (abort.producer_id, abort.producer_epoch, abort.base_sequence, abort.record_count) == (8, 3, -1, 1)
        assert read_control(found.batches[2])[1] == bytes((0, 0, 0, 0, 0, 5))
        assert world.appended(leader, b"next").base_offset == 4


def test_the_last_stable_offset_stops_at_the_first_open_transaction() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"0")
        assert world.stable(leader) == 1
        for producer in (7, 8):
            world.begin(leader, producer)
            world.written(leader, 0, b"%d" % producer, producer=producer)
        world.appended(leader, b"3")
        assert world.stable(leader) == 1
        assert visible_values(world.committed_fetch(leader, 0)) == [b"0"]
        assert world.committed_fetch(leader, 1).batches == []
        assert world.committed_fetch(leader, 3).last_stable_offset == 1
        world.ended(leader, is_commit=True, producer=8)
        assert world.stable(leader) == 1
        world.ended(leader, is_commit=False, producer=7)
        assert world.stable(leader) == 6
        assert world.committed_values(leader) == [b"0", b"8", b"3"]
        bounds = world.get(leader, lambda replica: replica.offsets(True, world.deadline(leader, 1)))
        assert bounds.end == 6


def test_offsets_of_committed_records_end_at_the_last_stable_offset() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.begin(leader)
        world.written(leader, 0, b"1")
        deadline, committed = world.deadline(leader, 5), Isolation.READ_COMMITTED
        assert world.get(leader, lambda replica: replica.offsets(True, deadline, committed)).end == 1
        assert world.get(leader, lambda replica: replica.offsets(True, deadline)).end == 2
        assert world.get(leader, lambda replica: replica.offset_for_timestamp(0, deadline, committed)) == (0, 1000)
        world.ended(leader, is_commit=True)
        assert world.get(leader, lambda replica: replica.offsets(True, deadline, committed)).end == 3


def test_a_fetch_of_committed_records_waits_for_the_end_of_the_transaction() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        world.written(leader, 0, bytes(5000))
        waiting = world.fetch_committed(leader, 0, wait=100, min_bytes=1)
        many = world.fetch_committed(leader, 0, wait=100, min_bytes=4000)
        for _ in range(10):
            world.appended(leader, bytes(1000))
        assert not waiting.done()
        world.ended(leader, is_commit=True)
        world.run(0.01)
        assert waiting.result().last_stable_offset == 12
        assert many.done()


def test_a_batch_without_a_permission_is_refused() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        assert world.error_of(world.write(leader, 0, b"?")) is InvalidTransactionState
        world.begin(leader)
        world.written(leader, 0, b"a")
        assert world.error_of(world.write(leader, 0, b"?", epoch=1)) is InvalidTransactionState
        assert world.error_of(world.send(leader, 1, b"plain")) is InvalidTransactionState
        assert world.written(leader, 0, b"a").is_duplicate
        world.ended(leader, is_commit=True)
        assert world.error_of(world.write(leader, 1, b"late")) is InvalidTransactionState
        assert world.written(leader, 0, b"a").is_duplicate
        world.send_and_wait(leader, 1, b"plain")
        assert world.committed_values(leader) == [b"a", b"plain"]


def test_a_marker_breaks_the_guard_of_a_question() -> None:
    """KIP-890: the answer may be older than the marker, and the batch would never be followed by one."""
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        world.written(leader, 0, b"a")
        world.ended(leader, is_commit=True)
        answer: asyncio.Future[ConfirmedTransaction] = world.group_loop(leader).create_future()

        async def verify() -> ConfirmedTransaction:
            return await answer

        late = world.enlist(leader, verify=verify)
        second = world.enlist(leader, verify=verify)
        world.run(0.01)
        world.ended(leader, is_commit=True)
        world.run_at(leader, lambda: answer.set_result(ConfirmedTransaction(1)))
        assert world.error_of(late) is ConcurrentTransactions
        assert world.error_of(second) is ConcurrentTransactions
        assert world.error_of(world.write(leader, 1, b"late")) is InvalidTransactionState
        world.begin(leader)
        world.written(leader, 1, b"b")


def test_a_partition_joins_after_the_end_of_the_last_transaction() -> None:
    """The marker of the last one arrives while the partition joins, and has the epoch of the next one."""
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        world.written(leader, 0, b"a")
        answer: asyncio.Future[ConfirmedTransaction] = world.group_loop(leader).create_future()

        async def join() -> ConfirmedTransaction:
            return await answer

        joining = world.enlist(leader, epoch=1, verify=join, joins=True)
        world.run(0.01)
        assert not joining.done()
        world.ended(leader, is_commit=True, epoch=1, transaction=4)
        world.run_at(leader, lambda: answer.set_result(ConfirmedTransaction(1, 5)))
        world.run_until(joining.done)
        joining.result()
        world.written(leader, 0, b"b", epoch=1)
        world.ended(leader, is_commit=True, epoch=2, transaction=5)
        assert world.committed_values(leader) == [b"a", b"b"]


@pytest.mark.parametrize("transaction", [4, 5, 0])
def test_the_end_of_a_transaction_refuses_a_partition_that_joins_meanwhile(transaction: int) -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        answer: asyncio.Future[ConfirmedTransaction] = world.group_loop(leader).create_future()

        async def join() -> ConfirmedTransaction:
            return await answer

        joining = world.enlist(leader, verify=join, joins=True)
        world.run(0.01)
        world.ended(leader, is_commit=True, transaction=transaction)
        world.run_at(leader, lambda: answer.set_result(ConfirmedTransaction(1, 4)))
        assert world.error_of(joining) is ConcurrentTransactions
        assert world.error_of(world.write(leader, 0, b"late")) is InvalidTransactionState


def test_no_partition_joins_a_transaction_whose_marker_it_has() -> None:
    async def join() -> ConfirmedTransaction:
        return ConfirmedTransaction(1, 4)

    with TransactionWorld() as world:
        leader = world.lead()
        world.ended(leader, is_commit=True, transaction=4)
        assert world.error_of(world.enlist(leader, verify=join, joins=True)) is ConcurrentTransactions


def test_permission_is_for_the_confirmed_transactional_id() -> None:
    async def refuse() -> ConfirmedTransaction:
        raise InvalidProducerMapping("it has another producer")

    with TransactionWorld() as world:
        leader = world.lead()
        answer: asyncio.Future[ConfirmedTransaction] = world.group_loop(leader).create_future()

        async def verify() -> ConfirmedTransaction:
            return await answer

        task = world.enlist(leader, verify=verify)
        for _ in range(2):  # before and after the confirmation
            assert world.error_of(world.enlist(leader, verify=refuse, name="other")) is InvalidProducerMapping
            world.run_at(leader, lambda: answer.done() or answer.set_result(ConfirmedTransaction(1)))
            world.run_until(task.done)
        task.result()
        world.written(leader, 0, b"a")


def test_the_answer_of_a_deposed_coordinator_does_not_count() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.ended(leader, is_commit=False, coordinator=2)
        assert world.error_of(world.enlist(leader)) is ConcurrentTransactions


def test_a_permission_ends_with_its_term() -> None:
    with TransactionWorld() as world:
        old = world.lead()
        world.begin(old)
        world.written(old, 0, b"a")
        world.isolate(old)
        new = world.wait_for_new_leader(old)
        world.appended(new, b"own term")
        assert world.error_of(world.write(new, 1, b"b")) is InvalidTransactionState
        assert world.stable(new) == 0
        world.network.heal()
        world.converge()
        world.isolate(new)
        again = world.wait_for_new_leader(new)
        world.network.heal()
        assert world.error_of(world.write(again, 1, b"b")) is InvalidTransactionState
        world.begin(again)
        world.written(again, 1, b"b")
        world.ended(again, is_commit=True)
        assert world.committed_values(again) == [b"a", b"own term", b"b"]


def test_a_leader_that_leads_again_has_no_permissions() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        answer: asyncio.Future[ConfirmedTransaction] = world.group_loop(leader).create_future()

        async def verify() -> ConfirmedTransaction:
            return await answer

        late = world.enlist(leader, 8, verify=verify)
        term = world.group(leader).core.term
        world.run_at(leader, lambda: world.group(leader).step_down("test"))
        world.run_until(lambda: world.group(leader).core.term > term)
        new = world.lead()
        while new != leader:
            world.isolate(new)
            new = world.wait_for_new_leader(new)
            world.network.heal()
            world.converge()
        world.run_at(leader, lambda: answer.set_result(ConfirmedTransaction(1)))
        assert world.error_of(late) is ConcurrentTransactions
        assert world.error_of(world.write(leader, 0, b"?")) is InvalidTransactionState
        assert world.error_of(world.write(leader, 0, b"?", producer=8)) is InvalidTransactionState


def test_epochs_fence_producers_and_coordinators() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader, epoch=1)
        world.written(leader, 0, b"a", epoch=1)
        assert world.error_of(world.enlist(leader, epoch=0)) is ProducerFenced
        assert world.error_of(world.enlist(leader, epoch=2)) is ConcurrentTransactions
        assert world.error_of(world.end(leader, is_commit=True, epoch=0)) is ProducerFenced
        world.ended(leader, is_commit=False, epoch=2, coordinator=4)
        assert world.stable(leader) == 2
        assert world.error_of(world.write(leader, 1, b"b", epoch=1)) is ProducerFenced
        assert world.error_of(world.enlist(leader, epoch=1)) is ProducerFenced
        assert world.error_of(world.end(leader, is_commit=True, epoch=2, coordinator=3)) is CoordinatorFenced
        world.ended(leader, is_commit=True, epoch=2, coordinator=4)
        assert world.error_of(world.send(leader, 0, b"plain", epoch=1)) is ProducerFenced


def test_a_marker_that_comes_again_does_not_end_the_next_transaction() -> None:
    """A coordinator gave up a request, which arrives late: F50 between brokers, with equal epochs."""
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        world.written(leader, 0, b"first")
        world.ended(leader, is_commit=True, transaction=5)
        world.begin(leader)
        world.written(leader, 1, b"second")
        end = world.group(leader).high_watermark
        for coordinator in (1, 2):
            world.ended(leader, is_commit=True, transaction=5, coordinator=coordinator)
            world.ended(leader, is_commit=False, transaction=4, coordinator=coordinator)
        assert world.group(leader).high_watermark == end, "repeated markers take no offsets"
        assert world.stable(leader) == 2
        world.written(leader, 2, b"second")
        world.ended(leader, is_commit=False, transaction=6)
        assert world.committed_values(leader) == [b"first"]


def test_a_new_leader_knows_the_transactions_that_have_ended() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        world.written(leader, 0, b"first")
        world.ended(leader, is_commit=True, transaction=5)
        world.ended(leader, is_commit=False, producer=8, transaction=3)
        world.ended(leader, is_commit=False, producer=8)
        world.roll_segment(leader)
        world.appended(leader, b"plain")
        world.roll_segment(leader)
        world.crash_and_restart_all()
        leader = world.lead()
        for producer, last in ((7, 5), (8, 3)):
            world.begin(leader, producer)
            world.written(leader, 1, b"open", producer=producer)
            world.ended(leader, is_commit=True, transaction=last, producer=producer)
        assert sorted(world.replica(leader)._producers.table.transactions.open) == [7, 8]
        assert world.committed_values(leader) == [b"first", b"plain"]
        world.ended(leader, is_commit=True, producer=8)
        world.ended(leader, is_commit=True, transaction=6)
        assert world.committed_values(leader) == [b"first", b"plain", b"open", b"open"]


def test_f46_sequences_that_begin_anew_after_an_abort_are_new_records() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        aborted = world.written(leader, 0, b"aborted")
        world.ended(leader, is_commit=False)
        late = world.written(leader, 0, b"aborted")
        assert (late.base_offset, late.is_duplicate) == (aborted.base_offset, True)
        world.ended(leader, is_commit=False, epoch=1)
        world.begin(leader, epoch=1)
        assert not world.written(leader, 0, b"new", epoch=1).is_duplicate
        world.ended(leader, is_commit=True, epoch=1)
        assert world.committed_values(leader) == [b"new"]


def test_a_marker_after_its_producer_expired_is_written() -> None:
    """KAFKA-9144: the transaction had no record here, or its records are older than the memory of the partition."""
    with TransactionWorld() as world:
        leader = world.lead()
        world.transact(leader, 0, b"a", epoch=3)
        [mark] = world.run_at(leader, lambda: world.replica(leader)._sequence_check.expire([(7, 3)], "test"))
        world.run_until(mark.done)  # type: ignore[attr-defined]
        assert world.producers_of(leader) == {}
        world.ended(leader, is_commit=False, epoch=4, coordinator=2, transaction=9)
        assert world.error_of(world.enlist(leader, epoch=3)) is ProducerFenced
        assert world.stable(leader) == world.group(leader).high_watermark == 3
        assert world.has_equal_tables()


def test_a_marker_without_a_transaction_fences_its_epoch() -> None:
    """KAFKA-9144, PR#30003: the state without batches survives a roll, and a new leader knows it."""
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.ended(leader, is_commit=False, epoch=5, coordinator=9)
        world.roll_segment(leader)
        world.appended(leader, b"2")
        world.roll_segment(leader)
        assert world.has_equal_tables()
        world.crash_and_restart_all()
        leader = world.lead()
        world.appended(leader, b"3")
        assert world.error_of(world.enlist(leader, epoch=4)) is ProducerFenced
        assert world.error_of(world.end(leader, is_commit=True, epoch=5, coordinator=8)) is CoordinatorFenced


def test_an_open_transaction_survives_rolls_restarts_and_new_leaders() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.begin(leader)
        world.written(leader, 0, b"open")
        for number in range(3):
            world.appended(leader, b"%d" % number)
            world.roll_segment(leader)
        assert world.has_equal_tables()
        world.crash_and_restart_all()
        leader = world.lead()
        world.appended(leader, b"after")
        assert world.stable(leader) == 1
        for number in other_numbers(leader):
            assert world.stable(number) == 1
        world.ended(leader, is_commit=False)
        assert b"open" not in world.committed_values(leader)
        assert world.stable(leader) == world.group(leader).high_watermark
        assert world.has_equal_tables()


class HeldQueue(ReadQueue):
    """Queue of replicas that read nothing until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[LogReader] = []
        self.is_held = True

    def enqueue(self, reading: LogReader) -> None:
        if self.is_held:
            self.held.append(reading)
        else:
            super().enqueue(reading)

    def release(self) -> None:
        self.is_held = False
        for each in self.held:
            self.enqueue(each)


def test_the_last_stable_offset_is_unknown_until_the_producers_are_read() -> None:
    """PR#10671: otherwise it would be the high watermark after a start, and then fall."""
    with TransactionWorld() as world:
        leader = world.lead()
        world.appended(leader, b"0")
        world.begin(leader)
        for number in range(3):
            world.written(leader, number, b"open")
            world.appended(leader, b"plain")
        assert world.stable(leader) == 1
        world.converge()
        world.run(5)
        world.queues = {number: HeldQueue() for number in (1, 2, 3)}
        world.crash_and_restart_all()
        leader = world.lead()
        world.run_until(lambda: all(world.group(number).high_watermark == 7 for number in (1, 2, 3)))
        for number in (1, 2, 3):
            with pytest.raises(OffsetNotAvailable):
                world.stable(number)
        for number in (1, 2, 3):
            world.run_at(number, world.queues[number].release)
        world.run(0.1)
        assert {world.stable(number) for number in (1, 2, 3)} == {1}
        assert world.committed_fetch(leader, 0).last_stable_offset == 1


def test_a_transaction_over_segments_is_aborted_in_each() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        for number in range(4):
            world.written(leader, number, b"aborted")
            world.appended(leader, b"%d" % number)
            world.roll_segment(leader)
        world.ended(leader, is_commit=False)
        world.transact(leader, 4, b"later")
        expected = [b"0", b"1", b"2", b"3", b"later"]
        assert world.committed_values(leader) == expected
        assert world.committed_values(leader, max_bytes=1) == expected
        world.crash_and_restart_all()
        leader = world.lead()
        world.appended(leader, b"end")
        assert world.committed_values(leader, max_bytes=1) == [*expected, b"end"]


def test_an_uncommitted_marker_does_not_release_records() -> None:
    with TransactionWorld() as world:
        old = world.lead()
        world.begin(old)
        world.written(old, 0, b"a")
        world.converge()
        world.isolate(old)
        lost = world.end(old, is_commit=True)
        world.run(0.05)
        assert world.stable(old) == 0
        new = world.wait_for_new_leader(old)
        world.ended(new, is_commit=False)
        world.network.heal()
        assert world.error_of(lost) is NotLeader
        world.converge()
        assert world.committed_values(new) == []


def test_a_follower_refuses_requests_of_transactions() -> None:
    with TransactionWorld() as world:
        other = other_numbers(world.lead())[0]
        assert world.error_of(world.enlist(other)) is NotLeader
        assert world.error_of(world.end(other, is_commit=True)) is NotLeader


def test_transactions_and_plain_batches_of_other_producers_do_not_mix() -> None:
    with TransactionWorld() as world:
        leader = world.lead()
        world.begin(leader)
        world.written(leader, 0, b"a")
        future = world.send_batches(leader, batch_of(0, b"plain", producer=9))
        world.run_until(future.done)
        assert future.result().base_offset == 1


def test_a_replica_created_over_a_quiescent_group_reads_its_transactions() -> None:
    with TransactionWorld(config=replace(SMALL, raft=RaftSettings(quiesce_after_ticks=20))) as world:
        number = world.leader()
        world.run_until(lambda: world.group(number).core.is_quiesced, 60)
        deadline = world.deadline(number, 2.0)
        found = world.get(number, lambda replica: replica.offsets(False, deadline, Isolation.READ_COMMITTED))
        assert found == (0, 0)
