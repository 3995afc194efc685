"""Answers of a leader to idempotent producers, by examples."""

from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.errors import DuplicateSequence, OutOfOrderSequence
from raftlog.partitions.replica.expiry import ProducerExpiry
from raftlog.partitions.replica.producers import ProducerTable, SnapshotRun, check_sequence, encode_expired
from raftlog.types import Index, Offset
from tests.replica.producing import ProducerWorld
from tests.replica.test_producer_table import header_of


def table_of(*batches: tuple[int, int], epoch: int = 0) -> ProducerTable:
    """Return the table of producer 7 after batches of (base sequence, record count); offsets equal sequences."""
    table = ProducerTable()
    for base, count in batches:
        table.append(header_of(7, epoch, base, count), Offset(base))
    return table


def test_a_partly_appended_batch_is_out_of_order_and_not_a_duplicate() -> None:
    """Its end was not appended: `DuplicateSequence` would claim that all of it was."""
    table = table_of((0, 5))
    with pytest.raises(OutOfOrderSequence):
        check_sequence("t/0", table.get(7), header_of(7, 0, 3, 4))
    with pytest.raises(DuplicateSequence):
        check_sequence("t/0", table.get(7), header_of(7, 0, 3, 2))


def test_a_batch_before_the_first_one_is_no_duplicate() -> None:
    """Clients count `DuplicateSequence` as a success, and this batch was never appended: it would be lost."""
    table = table_of((1, 2), (3, 1))
    with pytest.raises(OutOfOrderSequence, match="begun with 1"):
        check_sequence("t/0", table.get(7), header_of(7, 0, 0, 1), any_first_sequence=True)
    with pytest.raises(DuplicateSequence):
        check_sequence("t/0", table.get(7), header_of(7, 0, 1, 1), any_first_sequence=True)
    with pytest.raises(DuplicateSequence):  # it was perhaps appended before the expiry
        check_sequence("t/0", table.get(7), header_of(7, 0, 0, 1), any_first_sequence=True, is_forgotten=True)
    table = table_of(*((sequence, 1) for sequence in range(1, 7)))
    with pytest.raises(DuplicateSequence):  # earlier batches are not kept
        check_sequence("t/0", table.get(7), header_of(7, 0, 1, 1), any_first_sequence=True)


def test_producers_continue_across_a_roll() -> None:
    since = table_of((5, 2))
    since.put_below(table_of((0, 5)), ())
    known = since.get(7)
    assert known is not None
    assert [batch[:2] for batch in known.batches] == [(0, 4), (5, 6)]
    assert check_sequence("t/0", known, header_of(7, 0, 0, 5)) == (0, 4, 0), "a retry is reported as such"


def test_a_new_producer_epoch_after_a_roll_replaces_the_old_one() -> None:
    since = table_of((0, 2), epoch=1)
    since.put_below(table_of((0, 5)), ())
    known = since.get(7)
    assert known is not None
    assert (known.epoch, [batch[:2] for batch in known.batches]) == (1, [(0, 1)])


def test_an_expiry_of_an_older_epoch_leaves_the_producer() -> None:
    """The producer returned with a newer epoch before the entry was committed."""
    table = table_of((0, 2), epoch=1)
    table.expire(encode_expired([(7, 0)]))
    assert table.get(7) is not None
    table.expire(encode_expired([(7, 1)]))
    assert table.get(7) is None


def test_pieces_of_two_snapshots_are_not_joined() -> None:
    table = ProducerTable()
    for producer in range(1_500):
        table.append(header_of(producer, 0, 0, 1), Offset(producer))
    (first, _), (_, second) = (list(table.snapshot(Index(roll))) for roll in (5, 9))
    run = SnapshotRun()
    assert run.take(first) is None
    assert run.take(second) is None


def test_a_batch_in_flight_is_known_after_its_predecessor_was_delivered() -> None:
    with ProducerWorld() as world:
        leader = world.lead()
        world.send_and_wait(leader, 0, b"before")
        world.isolate(leader)
        for sequence, value in ((1, b"a"), (2, b"b")):
            world.send(leader, sequence, value)
        world.run(0.01)
        sequencing = world.replica(leader)._sequence_check
        last = sequencing._ahead[7].last_index
        world.run_at(leader, lambda: sequencing.on_delivered(Index(last - 1)))
        again = world.send(leader, 2, b"b", acks=1)
        world.run(0.01)
        assert again.result().is_duplicate
        assert again.result().base_offset == 2


def test_a_producer_with_a_batch_in_flight_is_not_silent() -> None:
    expired: list[Any] = []
    busy = {7}

    def expire(due: list[Any], why: str) -> Any:
        expired.append(due)
        return SimpleNamespace(add_done_callback=lambda done: None)

    sequencing: Any = SimpleNamespace(can_decide=lambda: True, heard={}, is_busy=busy.__contains__, expire=expire)
    state: Any = SimpleNamespace(table=table_of((0, 1)))
    expiry = ProducerExpiry("t/0", SimpleNamespace(core=SimpleNamespace(term=1)), state, sequencing)  # type: ignore[arg-type]
    expiry.propose_if_due(1_000, 0)
    expiry.propose_if_due(1_000, 5_000)
    assert expired == []
    busy.clear()
    expiry.propose_if_due(1_000, 5_000)
    assert expired == [[(7, 0)]]
