"""Small histories of consumer groups, idempotent producers, and compacted and trimmed partitions.

Planted errors are detected with the entries that prove them, and a similar history without an error passes."""

import pytest

from jepsen.checkers import (
    GroupOffsets,
    Membership,
    Op,
    Send,
    Sequenced,
    Trim,
    check_history,
    check_with,
    read_lines,
    write_lines,
)
from jepsen.checkers.checker import Findings
from jepsen.checkers.compaction import Compaction
from jepsen.checkers.history import OPERATOR
from jepsen.checkers.history_checker import Pairing
from jepsen.checkers.member_commits import MemberCommits
from jepsen.checkers.monotonicity import CommittedOffsets, LogStarts
from jepsen.checkers.ownership import Ownership
from jepsen.checkers.records import RecordBook
from jepsen.checkers.sequences import Sequences
from raftlog.types import Offset, TopicPartition
from tests.checkers.written_history import T0, WrittenHistory

T1 = TopicPartition("t", 1)


class GroupHistory(WrittenHistory):
    """History with operations of members of the group `g`, idempotent producers and compacted partitions."""

    def begin_join(self, process: int, member: str) -> Op:
        return self.recorder.invoke(process, "join", Membership("g", member))

    def end_join(self, join: Op, generation: int, *partitions: TopicPartition, instance: str = "") -> Op:
        assert isinstance(join.payload, Membership)
        joined = join.payload._replace(generation=generation, partitions=partitions, instance=instance)
        return self.recorder.ok(join, joined)

    def join(self, process: int, member: str, generation: int, *partitions: TopicPartition, instance: str = "") -> Op:
        return self.end_join(self.begin_join(process, member), generation, *partitions, instance=instance)

    def begin_commit(self, process: int, offset: int, member: str = "m1", generation: int = 1) -> Op:
        offsets = GroupOffsets("g", ((T0, Offset(offset)),), member, generation)
        return self.recorder.invoke(process, "commit", offsets)

    def commit_as(self, process: int, offset: int, member: str = "m1", generation: int = 1) -> Op:
        return self.recorder.ok(self.begin_commit(process, offset, member, generation))

    def send_numbered(self, process: int, value: int, number: int, offset: int | None, *, epoch: int = 0) -> Op:
        send = Send(T0, (value,), sequenced=Sequenced(9, epoch, number))
        invocation = self.recorder.invoke(process, "send", send)
        if offset is None:
            return self.recorder.info(invocation)
        return self.recorder.ok(invocation, send._replace(offsets=(Offset(offset),)))

    def send_keyed(self, value: int, key: str, offset: int | None, *, tombstone: bool = False) -> Op:
        send = Send(T0, (value,), keys=(key,), tombstones=(value,) if tombstone else ())
        invocation = self.recorder.invoke(7, "send", send)
        if offset is None:
            return self.recorder.info(invocation)
        return self.recorder.ok(invocation, send._replace(offsets=(Offset(offset),)))

    def read_from_start(self, process: int, *records: tuple[int, int]) -> list[Op]:
        """Read from the start of the log, each record by a poll of its own."""
        return [self.assign(process, 0), *(self.poll(process, record) for record in records)]

    def check_at_end(self, judge_of: type[Sequences] | type[Compaction]) -> Findings:
        """Check the whole history with a checker that reads the `RecordBook` of that history; return its findings."""
        findings = Findings()
        book = RecordBook()
        checker = judge_of(book, findings)
        pairing = Pairing((book, checker))
        for op in self.ops:
            pairing.feed(op)
        checker.finish()
        return findings


@pytest.fixture
def history() -> GroupHistory:
    return GroupHistory()


# who owns what


def test_a_partition_has_one_owner_in_a_generation(history: GroupHistory) -> None:
    one = history.join(1, "m1", 1, T0, T1)
    two = history.join(2, "m2", 1, T1)
    history.join(3, "m3", 2, T0, T1)
    assert "t/1" in history.check_single(Ownership(), "two-owners", one, two)


def test_a_repeated_answer_keeps_the_owned_partitions(history: GroupHistory) -> None:
    history.join(1, "m1", 1, T0)
    history.join(1, "m1", 1, T0)
    history.join(2, "m2", 1, T1)
    assert history.kinds(Ownership()) == []


def test_a_static_member_replaces_its_former_process_in_the_same_generation(history: GroupHistory) -> None:
    history.join(1, "m1", 1, T0, instance="i")
    history.commit_as(1, 5, "m1")
    late = history.begin_commit(1, 6, "m1")
    place = history.join(2, "m2", 1, T0, instance="i")
    history.recorder.ok(late)
    fenced = history.commit_as(1, 7, "m1")
    history.commit_as(2, 7, "m2")
    history.check_single(Ownership(), "fenced-commit", place, fenced)


def test_a_known_generation_is_followed_by_no_older_one(history: GroupHistory) -> None:
    early = history.begin_join(1, "m1")
    newer = history.join(2, "m2", 5)
    history.end_join(early, 4)
    older = history.join(3, "m3", 4)
    history.check_single(Ownership(), "generation-went-back", newer, older)


def test_a_commit_of_a_member_of_an_older_generation_is_detected(history: GroupHistory) -> None:
    history.join(1, "m1", 1, T0)
    under_way = history.begin_commit(1, 5, "m1", 1)
    newer = history.join(2, "m2", 2, T0)
    history.recorder.ok(under_way)
    history.recorder.fail(history.begin_commit(1, 6, "m1", 1))
    history.recorder.info(history.begin_commit(1, 6, "m1", 1))
    assert history.kinds(Ownership()) == []
    late = history.commit_as(1, 6, "m1", 1)
    history.check_single(Ownership(), "fenced-commit", newer, late)


# commits of members


def test_commits_of_a_member_apply_in_order_and_may_lower_an_offset(history: GroupHistory) -> None:
    history.commit_as(1, 8)
    history.commit_as(1, 5)
    history.read_committed(2, 5)
    assert check_history(history.ops).is_clean()
    newer = history.ops[3]
    stale = history.read_committed(2, 8)
    history.check_single(MemberCommits(), "lost-commit", newer, stale)


def test_later_reads_see_acknowledged_commits(history: GroupHistory) -> None:
    reading = history.recorder.invoke(2, "committed", GroupOffsets("g"))
    done = history.commit_as(1, 8)
    history.recorder.ok(reading, GroupOffsets("g", ((T0, None),)))
    nothing = history.read_committed(3, None)
    history.check_single(MemberCommits(), "lost-commit", done, nothing)


def test_a_late_commit_of_an_older_generation_never_counts(history: GroupHistory) -> None:
    history.recorder.info(history.begin_commit(1, 3, "m1", 1))
    history.read_committed(3, None)
    newer = history.commit_as(2, 8, "m2", 2)
    late = history.read_committed(3, 3)
    history.check_single(MemberCommits(), "lost-commit", newer, late)


def test_a_commit_of_unknown_outcome_may_show_up_and_then_stays(history: GroupHistory) -> None:
    history.commit_as(1, 8)
    history.recorder.info(history.begin_commit(1, 9))
    history.read_committed(3, 8)
    shown = history.read_committed(3, 9)
    assert history.kinds(MemberCommits()) == []
    back = history.read_committed(3, 8)
    history.check_single(MemberCommits(), "lost-commit", shown, back)


def test_a_reset_counts_as_sent_and_uncommitted_offsets_do_not_replace_it(history: GroupHistory) -> None:
    history.commit_as(1, 8)
    history.commit_as(1, 2, OPERATOR, -1)
    history.commit(4, 1)
    history.read_committed(3, 2)
    history.commit(4, 6)
    history.read_committed(3, 6)
    assert check_history(history.ops).is_clean()


def test_commits_without_members_are_checked_at_their_place(history: GroupHistory) -> None:
    history.commit(1, 8)
    history.read_committed(2, 7)
    assert history.kinds(MemberCommits()) == []
    assert history.kinds(CommittedOffsets()) == ["committed-went-back", "phantom-commit"]


# idempotent producers


def test_numbers_of_a_producer_are_stored_in_order(history: GroupHistory) -> None:
    history.send_numbered(1, 70, 0, 4)
    history.send_numbered(1, 71, 1, 3)
    history.send_numbered(1, 72, 0, 5, epoch=1)
    history.poll(2, (3, 71), (4, 70))
    assert history.check_at_end(Sequences).counts == {"sequence-order": 1}


def test_a_number_missing_between_read_ones_is_a_gap(history: GroupHistory) -> None:
    history.send_numbered(1, 70, 0, 0)
    history.send_numbered(1, 71, 1, None)
    history.send_numbered(1, 72, 2, 1)
    assert history.check_at_end(Sequences).counts == {}, "no client has read so far"
    history.poll(2, (0, 70), (1, 72))
    assert history.check_at_end(Sequences).counts == {"sequence-gap": 1}
    history.list_offsets(3, 1, 2)
    assert history.check_at_end(Sequences).counts == {}, "it may be gone"


@pytest.mark.parametrize("offsets", [(0, 1, 2), (0, 2, 1)])
def test_sequence_numbers_known_only_from_answers_are_checked_for_order(
    history: GroupHistory, offsets: tuple[int, ...]
) -> None:
    for value, number, offset in zip((70, 71, 72), (1, 2, 4), offsets, strict=True):
        invocation = history.recorder.invoke(value, "send", Send(T0, (value,)))
        send = Send(T0, (value,), (Offset(offset),), sequenced=Sequenced(9, 0, number))
        history.recorder.ok(invocation, send)
    history.poll(2, (0, 70))
    assert history.check_at_end(Sequences).counts == ({} if offsets == (0, 1, 2) else {"sequence-order": 1})


def test_the_last_number_may_be_missing_if_its_outcome_is_unknown(history: GroupHistory) -> None:
    history.send_numbered(1, 70, 0, 0)
    history.send_numbered(1, 71, 1, None)
    history.poll(2, (0, 70))
    assert check_history(history.ops).is_clean()


def test_a_retry_answered_with_another_offset_is_a_duplicate(history: GroupHistory) -> None:
    invocation = history.recorder.invoke(1, "send", Send(T0, (70,), sequenced=Sequenced(9, 0, 0)))
    history.poll(2, (0, 70))
    history.end_send(invocation, 1)
    assert "duplicate" in check_history(history.ops).counts


# compaction


def test_the_newest_value_of_a_key_is_kept(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 0)
    lost = history.send_keyed(71, "b", 1)
    history.send_keyed(72, "a", 2)
    passed = history.read_from_start(2, (2, 72))[-1]
    findings = history.check_at_end(Compaction)
    assert [(anomaly.kind, anomaly.ops) for anomaly in findings.anomalies] == [("lost-key", (lost, passed))]
    assert list(check_history(history.ops).counts) == ["lost-write", "lost-key"]


def test_replaced_records_and_tombstones_may_be_missing(history: GroupHistory) -> None:
    for value, key, offset in ((70, "a", 0), (71, "b", 1), (72, "a", 2), (73, "b", 3), (74, "c", 4)):
        history.send_keyed(value, key, offset, tombstone=value == 73)
    history.read_from_start(2, (2, 72), (4, 74))
    assert check_history(history.ops).is_clean()


def test_a_value_missing_before_a_newer_one_was_sent_is_lost(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 0)
    history.send_keyed(71, "b", 1)
    history.read_from_start(2, (1, 71))
    history.send_keyed(72, "a", 2)
    history.read_from_start(3, (1, 71), (2, 72))
    assert check_history(history.ops).counts == {"lost-key": 1}


def test_a_value_may_be_missing_because_of_an_unseen_tombstone(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 0)
    history.send_keyed(71, "a", None, tombstone=True)
    history.send_keyed(72, "b", 2)
    history.read_from_start(2, (2, 72))
    assert history.check_at_end(Compaction).counts == {}
    assert check_history(history.ops).is_clean()


def test_a_tombstone_that_was_refused_or_is_of_another_key_excuses_nothing(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 0)
    refused = history.recorder.invoke(1, "send", Send(T0, (71,), keys=("a",), tombstones=(71,)))
    history.recorder.fail(refused)
    history.send_keyed(72, "b", None, tombstone=True)
    history.send_keyed(73, "c", 2)
    history.read_from_start(2, (2, 73))
    assert check_history(history.ops).counts == {"lost-write": 1, "lost-key": 1}


def test_a_last_reader_short_of_the_end_may_have_missed_a_replacement(history: GroupHistory) -> None:
    lost = history.send_keyed(70, "a", 0)
    history.send_keyed(71, "a", None)
    history.send_keyed(72, "b", 2)
    history.send_keyed(73, "c", 3)
    history.read_from_start(2, (2, 72))
    assert history.check_at_end(Compaction).counts == {}, "the newest of the key may stand behind"
    history.read_from_start(3, (2, 72), (3, 73))
    findings = history.check_at_end(Compaction)
    assert [(anomaly.kind, anomaly.ops[0]) for anomaly in findings.anomalies] == [("lost-key", lost)]


def test_a_last_reader_amid_sends_may_have_missed_a_replacement(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 0)
    history.send_keyed(71, "a", None)
    history.send_keyed(72, "b", 2)
    history.assign(2, 0)
    history.poll(2, (2, 72))
    history.send_keyed(73, "a", 3)
    history.poll(2, (3, 73))
    assert history.check_at_end(Compaction).counts == {}, "the newest of then was replaced in its turn"


def test_the_last_reader_sees_no_removed_key(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 0)
    removed = history.send_keyed(71, "a", 1, tombstone=True)
    history.send_keyed(72, "b", 2)
    passed = history.read_from_start(2, (0, 70), (2, 72))[-1]
    findings = history.check_at_end(Compaction)
    assert [(anomaly.kind, anomaly.ops) for anomaly in findings.anomalies] == [("resurrected-key", (removed, passed))]
    history.read_from_start(3, (0, 70), (1, 71), (2, 72))
    assert check_history(history.ops).is_clean(), "an early reader may have come too late for the tombstone"


def test_a_newer_record_may_restore_a_removed_key(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 0)
    history.send_keyed(71, "a", 1, tombstone=True)
    history.send_keyed(72, "b", 2)
    history.read_from_start(2, (0, 70), (2, 72))
    history.send_keyed(73, "a", 3)
    assert history.check_at_end(Compaction).counts == {}


def test_records_of_a_compacted_partition_keep_their_offsets(history: GroupHistory) -> None:
    history.send_keyed(70, "a", 5)
    history.send_keyed(71, "b", 6)
    history.read_from_start(2, (5, 71), (6, 70))
    assert {"inconsistent-offset", "duplicate"} <= set(check_history(history.ops).counts)


# deleted records


def test_deleted_records_stay_deleted(history: GroupHistory) -> None:
    history.send(1, 70, 0)
    asking = history.recorder.invoke(5, "trim", Trim(T0, Offset(1)))
    history.list_offsets(3, 0, 1, linearizable=True)
    deleted = history.recorder.ok(asking, Trim(T0, Offset(1)))
    history.list_offsets(4, 0, 1)
    back = history.list_offsets(3, 0, 1, linearizable=True)
    history.check_single(LogStarts(), "trim-undone", deleted, back)
    assert "unseen" not in check_history(history.ops).counts, "it was deleted"


def test_a_deletion_is_answered_only_once_the_log_begins_there(history: GroupHistory) -> None:
    asking = history.recorder.invoke(5, "trim", Trim(T0, Offset(4)))
    answered = history.recorder.ok(asking, Trim(T0, Offset(3)))
    history.check_single(LogStarts(), "trim-undone", asking, answered)
    history.complete(5, "trim", Trim(T0, Offset(4)), Trim(T0, Offset(9)))
    assert check_with(LogStarts(), history.ops).counts == {"trim-undone": 1}, "the log may have begun behind it"


@pytest.mark.parametrize("outcome", ["ok", "info", "crash", "open"])
def test_records_possibly_deleted_are_neither_lost_nor_unseen(history: GroupHistory, outcome: str) -> None:
    missing_below_a_trim(history, outcome)
    assert check_history(history.ops).is_clean()
    history.list_offsets(6, 0, 4, linearizable=True)
    assert check_history(history.ops).is_clean() == (outcome != "ok"), "an unknown one may happen later, or never"


def test_records_outside_of_a_deletion_are_lost_or_unseen(history: GroupHistory) -> None:
    missing_below_a_trim(history, "fail")
    assert check_history(history.ops).counts == {"lost-write": 2}
    history.send(1, 74, 4)
    history.recorder.info(history.recorder.invoke(7, "trim", Trim(T0, Offset(2))))
    history.recorder.info(history.recorder.invoke(7, "trim", Trim(T1, Offset(5))))
    assert check_history(history.ops).counts == {"lost-write": 1, "unseen": 1}, "behind it, or elsewhere"


def test_a_skip_over_a_possibly_deleted_record_is_still_a_skip(history: GroupHistory) -> None:
    missing_below_a_trim(history, "info")
    history.assign(3, 1)
    history.poll(3, (1, 71))
    history.poll(3, (3, 73))
    assert check_history(history.ops).counts == {"poll-skip": 1}


def missing_below_a_trim(history: GroupHistory, outcome: str) -> None:
    """Poll two of four records; delete the third with all before it, with this outcome."""
    for number in range(4):
        history.send(1, 70 + number, number)
    asking = history.recorder.invoke(2, "trim", Trim(T0, Offset(3)))
    if outcome == "crash":
        history.recorder.crash(2)
    elif outcome != "open":
        getattr(history.recorder, outcome)(asking)
    history.poll(3, (1, 71))
    history.poll(4, (3, 73))


# lines


def test_all_these_entries_equal_those_read_from_their_lines(history: GroupHistory) -> None:
    history.join(1, "m1", 1, T0, T1, instance="i")
    history.commit_as(1, 5)
    history.send_numbered(1, 70, 0, 4)
    history.send_keyed(71, "a", 5, tombstone=True)
    history.complete(1, "trim", Trim(T0, Offset(3)))
    assert list(read_lines(write_lines(history.ops))) == history.ops
    assert all(str(op) for op in history.ops)
    assert check_with(Ownership(), history.ops).counts == {}
