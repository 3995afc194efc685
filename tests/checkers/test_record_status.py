"""Status of each record: in histories written by hand, and compared with the checkers in generated histories."""

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jepsen.checkers import Op, Send, Trim, check_history, check_with
from jepsen.checkers.record_status import STATUSES, RecordStatuses, StatusColumns
from raftlog.types import Offset
from tests.checkers.model_log import CLEAN_HISTORIES
from tests.checkers.mutations import MUTATIONS
from tests.checkers.written_history import SECOND, T0, WrittenHistory


def find_statuses(ops: list[Op]) -> StatusColumns:
    checker = RecordStatuses()
    check_with(checker, ops)
    return checker.statuses()


def test_each_record_has_one_status() -> None:
    history = WrittenHistory()
    history.send(1, 70, 0)
    history.send(1, 71, 1)  # lost
    history.send(1, 72, 2)
    refused = history.begin_send(1, 73, 74)
    history.recorder.fail(refused)
    unknown = history.begin_send(1, 75, 76)
    history.recorder.info(unknown)
    open_ = history.begin_send(2, 77)
    history.poll(3, (0, 70), (2, 72), (3, 74), (4, 75), (5, 72))
    history.send(1, 78, 6)
    found = find_statuses(history.ops)
    rows = zip(found.invoked_ns, found.offset, [STATUSES[code] for code in found.status], strict=True)
    assert list(rows) == [
        (0, 0, "ok"),
        (2 * SECOND, 1, "lost"),
        (4 * SECOND, 2, "duplicate"),
        (6 * SECOND, -1, "refused"),
        (6 * SECOND, 3, "aborted"),
        (8 * SECOND, 4, "stored"),
        (8 * SECOND, -1, "absent"),
        (open_.time_ns, -1, "absent"),
        (history.ops[-2].time_ns, 6, "unseen"),
    ]
    assert found.partitions == (T0,)
    assert found.counts()["absent"] == 2


@pytest.mark.parametrize(("outcome", "status"), [("ok", "excused"), ("info", "excused"), ("fail", "lost")])
def test_records_possibly_deleted_are_excused(outcome: str, status: str) -> None:
    history = WrittenHistory()
    for number in range(3):
        history.send(1, 70 + number, number)
    getattr(history.recorder, outcome)(history.recorder.invoke(2, "trim", Trim(T0, Offset(1))))
    history.recorder.invoke(2, "trim", Trim(T0, Offset(2)))
    assert [STATUSES[code] for code in find_statuses(history.ops).status] == ["excused", "excused", "unseen"]
    history.recorder.fail(history.ops[-1])
    history.poll(3, (2, 72))
    assert [STATUSES[code] for code in find_statuses(history.ops).status] == [status, "lost", "ok"]


def test_records_removed_by_retention_or_a_newer_one_are_excused() -> None:
    history = WrittenHistory()
    history.send(1, 70, 0)
    history.list_offsets(2, 1, 1)
    for offset, (value, key) in enumerate([(71, "a"), (72, "b"), (73, "a"), (74, "c")], 1):
        send = Send(T0, (value,), keys=(key,), tombstones=(74,) if value == 74 else ())
        history.end_send(history.recorder.invoke(1, "send", send), offset)
    history.poll(2, (2, 72), (3, 73), (5, 0))
    assert [STATUSES[code] for code in find_statuses(history.ops).status] == [
        "excused",
        "excused",
        "ok",
        "ok",
        "excused",
    ]


@pytest.mark.parametrize(("outcome", "status"), [("info", "excused"), ("fail", "lost")])
def test_records_possibly_removed_by_a_tombstone_are_excused(outcome: str, status: str) -> None:
    history = WrittenHistory()
    history.end_send(history.recorder.invoke(1, "send", Send(T0, (70,), keys=("a",))), 0)
    removal = history.recorder.invoke(1, "send", Send(T0, (71,), keys=("a",), tombstones=(71,)))
    getattr(history.recorder, outcome)(removal)
    history.end_send(history.recorder.invoke(1, "send", Send(T0, (72,), keys=("b",))), 2)
    history.poll(2, (2, 72))
    found = [STATUSES[code] for code in find_statuses(history.ops).status]
    assert found[0] == status
    assert found[2] == "ok"


@pytest.mark.parametrize(
    ("outcome", "end", "status"), [("info", 4, "excused"), ("fail", 4, "lost"), ("info", 3, "lost")]
)
def test_records_possibly_replaced_behind_the_last_poll_are_excused(outcome: str, end: int, status: str) -> None:
    history = WrittenHistory()
    history.end_send(history.recorder.invoke(1, "send", Send(T0, (70,), keys=("a",))), 0)
    newer = history.recorder.invoke(1, "send", Send(T0, (71,), keys=("a",)))
    getattr(history.recorder, outcome)(newer)
    for offset in range(2, end):
        history.end_send(history.recorder.invoke(1, "send", Send(T0, (70 + offset,), keys=(f"b{offset}",))), offset)
    history.poll(2, (2, 72))
    assert STATUSES[find_statuses(history.ops).status[0]] == status
    assert ("lost-write" in check_history(history.ops).counts) == (status == "lost")


def test_polls_before_a_send_count_as_polls() -> None:
    history = WrittenHistory()
    history.poll(2, (0, 70), (1, 71))
    history.send(1, 70, 0)
    history.send(1, 71, 2)
    assert [STATUSES[code] for code in find_statuses(history.ops).status] == ["ok", "duplicate"]


def test_unread_records_of_a_possibly_deleted_topic_are_excused() -> None:
    history = WrittenHistory()
    for offset in range(3):
        history.send(1, 70 + offset, offset)
    history.poll(2, (1, 71))
    checker = RecordStatuses(may_be_deleted=lambda partition: partition == T0)
    check_with(checker, history.ops)
    assert [STATUSES[code] for code in checker.statuses().status] == ["excused", "ok", "excused"]


def test_overwritten_or_cut_off_records_that_were_read_have_vanished() -> None:
    history = WrittenHistory()
    for offset in range(4):
        history.send(1, 70 + offset, offset)
    history.poll(2, (0, 70), (1, 71), (2, 72), (3, 73))
    late = history.begin_send(3, 75)
    history.list_offsets(4, 0, 2, linearizable=True)
    history.end_send(late, 4)
    history.poll(5, (0, 70), (2, 74))
    history.send(6, 74, 2)
    history.poll(5, (4, 75), (3, 73))
    history.list_offsets(4, 0, 1)
    names = [STATUSES[code] for code in find_statuses(history.ops).status]
    assert names == ["ok", "ok", "vanished", "ok", "ok", "ok"], "a list that may be old takes nothing away"
    history.list_offsets(4, 0, 1, linearizable=True)
    names = [STATUSES[code] for code in find_statuses(history.ops).status]
    assert names == ["ok", "vanished", "vanished", "vanished", "vanished", "vanished"]


@settings(max_examples=80)
@given(
    history=CLEAN_HISTORIES,
    name=st.sampled_from(["", *MUTATIONS]),
    seed=st.integers(0, 2**32),
    share=st.floats(0, 1),
)
def test_the_statuses_agree_with_the_checkers(history: list[Op], name: str, seed: int, share: float) -> None:
    planted = MUTATIONS[name].plant(history, Random(seed)) if name else history
    assume(planted is not None)
    planted = planted[: round(len(planted) * share)] if share < 0.5 else planted
    verdict, found = check_history(planted), find_statuses(planted)
    counts = found.counts()
    assert counts.get("lost", 0) == verdict.counts.get("lost-write", 0)
    assert counts.get("unseen", 0) == verdict.counts.get("unseen", 0)
    assert ("duplicate" in counts) == ("duplicate" in verdict.counts)
    assert "vanished" not in counts or not verdict.is_clean()
    assert counts.get("aborted", 0) <= verdict.counts.get("aborted-read", 0), "one that stands twice is a duplicate"
    assert len(found.status) == sum(
        len(op.payload.values) for op in planted if op.type == "invoke" and op.kind == "send"
    )
