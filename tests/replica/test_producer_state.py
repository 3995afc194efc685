"""A replica's table of producers, folded from its log: rolls, snapshots after them, and entries that expire ids."""

from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.partitions.replica.producer_state import ProducerState
from raftlog.partitions.replica.producers import ProducerTable, encode_expired
from raftlog.partitions.replica.read_queue import ReadQueue
from raftlog.records import ControlKind
from raftlog.runtime.log.producer_entries import ProducerEntry
from raftlog.types import Index, Offset
from tests.replica.producing import ProducerWorld
from tests.replica.test_producer_table import header_of
from tests.replica.worlds import other_numbers


def empty_state() -> ProducerState:
    """Return the state of an empty log."""
    segments = SimpleNamespace(segments=[SimpleNamespace(base_index=1)])
    log = SimpleNamespace(
        segments=segments,
        boundary=SimpleNamespace(index=Index(0)),
        last_index=Index(0),
        producers=SimpleNamespace(follow=lambda: None),
    )
    group: Any = SimpleNamespace(applied_index=Index(0), log=log, rolls=SimpleNamespace(), unreadable={})
    return ProducerState("t/0", group, ReadQueue())


def table_of(*producers: int) -> ProducerTable:
    table = ProducerTable()
    for producer in producers:
        table.append(header_of(producer, 0, 0, 1), Offset(producer))
    return table


def apply_control(state: ProducerState, index: int, kind: ControlKind, payload: bytes = b"") -> None:
    state._apply_entry(ProducerEntry(Index(index), Offset(-1), None, kind, payload))


def apply_batch(state: ProducerState, index: int, producer: int) -> None:
    state._apply_entry(ProducerEntry(Index(index), Offset(index), header_of(producer, 0, 0, 1), None, b""))


def snapshot_of(roll_index: int, *producers: int) -> bytes:
    [payload] = table_of(*producers).snapshot(Index(roll_index))
    return payload


def test_ids_expired_between_a_roll_and_its_snapshot_stay_expired() -> None:
    state = empty_state()
    apply_control(state, 5, ControlKind.ROLL)
    apply_control(state, 6, ControlKind.EXPIRE_PRODUCERS, encode_expired([(7, 0)]))
    apply_control(state, 7, ControlKind.SNAPSHOT, snapshot_of(5, 7, 8))
    assert list(state.table) == [8]
    assert 7 in state.table.forgotten
    assert 8 not in state.table.forgotten


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        (
            ControlKind.SNAPSHOT,
            snapshot_of(5, 7) + bytes(4 + 4) + b"later",
            "5 bytes that this release does not know: run a newer",
        ),
        (ControlKind.EXPIRE_PRODUCERS, encode_expired([(7, 0)]) + b"later", "expire_producers entry of 1 producers"),
    ],
)
def test_unknown_records_end_the_fold_and_are_reported(
    kind: ControlKind, payload: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    state = empty_state()
    apply_control(state, 5, ControlKind.ROLL)
    apply_control(state, 6, kind, payload)
    apply_batch(state, 7, 8)
    assert list(state.table) == []
    assert why in str(state.problem)
    assert why in state._group.unreadable["producers"]
    assert not state.is_loaded
    assert [record.message for record in caplog.records] == ["log_unreadable"]


def test_a_snapshot_of_an_earlier_roll_is_not_that_of_the_newest() -> None:
    """Two leaders may have written a snapshot of the same roll."""
    state = empty_state()
    apply_batch(state, 1, 7)
    apply_control(state, 5, ControlKind.ROLL)
    apply_control(state, 6, ControlKind.SNAPSHOT, snapshot_of(5, 7))
    assert state.snapshot_index == 5
    apply_control(state, 9, ControlKind.ROLL)
    apply_control(state, 10, ControlKind.SNAPSHOT, snapshot_of(5, 7))
    assert state.snapshot_index == 5
    assert state._at_roll is not None
    apply_control(state, 11, ControlKind.SNAPSHOT, snapshot_of(9, 7))
    assert state.snapshot_index == 9
    assert state._at_roll is None


def test_payloads_of_expired_ids_are_kept_until_the_snapshot() -> None:
    expired = encode_expired([(7, 0)])
    state = empty_state()
    apply_control(state, 1, ControlKind.ROLL)  # the beginning of the log, so there is no run
    apply_control(state, 2, ControlKind.EXPIRE_PRODUCERS, expired)
    assert state._expired == []
    state = empty_state()
    apply_control(state, 5, ControlKind.ROLL)
    apply_control(state, 6, ControlKind.EXPIRE_PRODUCERS, expired)
    assert state._expired == [expired]
    apply_control(state, 9, ControlKind.ROLL)  # so the one before found no producers
    assert state._expired == []


def test_a_restart_reads_the_last_two_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table at the newest roll may not be stored after that roll yet."""
    with ProducerWorld() as world:
        leader = world.lead()
        away = other_numbers(leader)[0]
        world.send_and_wait(leader, 0, b"a")
        world.roll_segment(leader)
        world.send_and_wait(leader, 0, b"b", producer=8)
        world.converge()
        for number in (1, 2, 3):
            world.replica(number)._producers.write_run_if_due = lambda: None  # type: ignore[method-assign]
        [rolled] = world.run_at(leader, lambda: world.group(leader).roll_now())
        world.run_until(rolled.done)  # type: ignore[attr-defined]
        world.converge()
        world.crash(away)
        begun: list[int] = []
        read_some = ProducerState.read_some

        def note_and_read(state: ProducerState) -> None:
            begun.append(state._next)
            read_some(state)

        monkeypatch.setattr(ProducerState, "read_some", note_and_read)
        world.start(away)
        state = world.replica(away)._producers
        world.run_until(lambda: state.is_loaded)
        assert begun[0] == world.group(away).log.segments.segments[-2].base_index
        assert list(state.table) == [7, 8]
