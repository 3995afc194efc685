"""Small histories of consumer groups, idempotent producers, compacted and trimmed partitions.

Planted errors are detected with the entries that prove them, and a similar history without an error passes."""

import pytest

from jepsen.checkers import (
    GroupOffsets,
    Membership,
    Op,
    Send,
    Sequenced,
    Trim,
    judge_history,
    judge_with,
    read_lines,
    write_lines,
)
from jepsen.checkers.compaction import Compaction
from jepsen.checkers.going_back import CommittedOffsets, LogStarts
from jepsen.checkers.history import OPERATOR
from jepsen.checkers.judge import Findings
from jepsen.checkers.member_commits import MemberCommits
from jepsen.checkers.ownership import Ownership
from jepsen.checkers.panel import Pairing
from jepsen.checkers.records import RecordBook
from jepsen.checkers.sequences import Sequences
from raftlog.types import Offset, TopicPartition
from tests.checkers.story import T0, Story

T1 = TopicPartition("t", 1)


class Tale(Story):
    """With what members of the group `g`, idempotent producers and those of compacted partitions do."""

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

    def number(self, process: int, value: int, number: int, offset: int | None, *, epoch: int = 0) -> Op:
        send = Send(T0, (value,), sequenced=Sequenced(9, epoch, number))
        invocation = self.recorder.invoke(process, "send", send)
        if offset is None:
            return self.recorder.info(invocation)
        return self.recorder.ok(invocation, send._replace(offsets=(Offset(offset),)))

    def keyed(self, value: int, key: str, offset: int | None, *, tombstone: bool = False) -> Op:
        send = Send(T0, (value,), keys=(key,), tombstones=(value,) if tombstone else ())
        invocation = self.recorder.invoke(7, "send", send)
        if offset is None:
            return self.recorder.info(invocation)
        return self.recorder.ok(invocation, send._replace(offsets=(Offset(offset),)))

    def read(self, process: int, *records: tuple[int, int]) -> list[Op]:
        """From the start of the log, each record by a poll of its own."""
        return [self.assign(process, 0), *(self.poll(process, record) for record in records)]

    def at_the_end(self, judge_of: type[Sequences] | type[Compaction]) -> Findings:
        """Return the findings of a checker that reads the book, which is shown the same history."""
        findings = Findings()
        book = RecordBook()
        judge = judge_of(book, findings)
        pairing = Pairing((book, judge))
        for op in self.ops:
            pairing.feed(op)
        judge.finish()
        return findings


@pytest.fixture
def tale() -> Tale:
    return Tale()


# who owns what


def test_a_partition_has_one_owner_in_a_generation(tale: Tale) -> None:
    one = tale.join(1, "m1", 1, T0, T1)
    two = tale.join(2, "m2", 1, T1)
    tale.join(3, "m3", 2, T0, T1)
    assert "t/1" in tale.only(Ownership(), "two-owners", one, two)


def test_who_is_told_again_owns_what_it_owned(tale: Tale) -> None:
    tale.join(1, "m1", 1, T0)
    tale.join(1, "m1", 1, T0)
    tale.join(2, "m2", 1, T1)
    assert tale.kinds(Ownership()) == []


def test_a_static_member_takes_the_place_of_the_one_before_in_the_same_generation(tale: Tale) -> None:
    tale.join(1, "m1", 1, T0, instance="i")
    tale.commit_as(1, 5, "m1")
    late = tale.begin_commit(1, 6, "m1")
    place = tale.join(2, "m2", 1, T0, instance="i")
    tale.recorder.ok(late)
    fenced = tale.commit_as(1, 7, "m1")
    tale.commit_as(2, 7, "m2")
    tale.only(Ownership(), "fenced-commit", place, fenced)


def test_a_generation_that_is_known_is_followed_by_no_older_one(tale: Tale) -> None:
    early = tale.begin_join(1, "m1")
    newer = tale.join(2, "m2", 5)
    tale.end_join(early, 4)
    older = tale.join(3, "m3", 4)
    tale.only(Ownership(), "generation-went-back", newer, older)


def test_a_member_of_an_older_generation_commits_nothing(tale: Tale) -> None:
    tale.join(1, "m1", 1, T0)
    under_way = tale.begin_commit(1, 5, "m1", 1)
    newer = tale.join(2, "m2", 2, T0)
    tale.recorder.ok(under_way)
    tale.recorder.fail(tale.begin_commit(1, 6, "m1", 1))
    tale.recorder.info(tale.begin_commit(1, 6, "m1", 1))
    assert tale.kinds(Ownership()) == []
    late = tale.commit_as(1, 6, "m1", 1)
    tale.only(Ownership(), "fenced-commit", newer, late)


# commits of members


def test_commits_of_a_member_count_in_their_order_and_backwards_too(tale: Tale) -> None:
    tale.commit_as(1, 8)
    tale.commit_as(1, 5)
    tale.committed(2, 5)
    assert judge_history(tale.ops).is_clean()
    newer = tale.ops[3]
    stale = tale.committed(2, 8)
    tale.only(MemberCommits(), "lost-commit", newer, stale)


def test_what_was_answered_is_seen_by_reads_that_begin_later(tale: Tale) -> None:
    reading = tale.recorder.invoke(2, "committed", GroupOffsets("g"))
    done = tale.commit_as(1, 8)
    tale.recorder.ok(reading, GroupOffsets("g", ((T0, None),)))
    nothing = tale.committed(3, None)
    tale.only(MemberCommits(), "lost-commit", done, nothing)


def test_a_late_commit_of_an_older_generation_never_counts(tale: Tale) -> None:
    tale.recorder.info(tale.begin_commit(1, 3, "m1", 1))
    tale.committed(3, None)
    newer = tale.commit_as(2, 8, "m2", 2)
    late = tale.committed(3, 3)
    tale.only(MemberCommits(), "lost-commit", newer, late)


def test_a_commit_of_unknown_outcome_may_show_up_and_then_stays(tale: Tale) -> None:
    tale.commit_as(1, 8)
    tale.recorder.info(tale.begin_commit(1, 9))
    tale.committed(3, 8)
    shown = tale.committed(3, 9)
    assert tale.kinds(MemberCommits()) == []
    back = tale.committed(3, 8)
    tale.only(MemberCommits(), "lost-commit", shown, back)


def test_a_reset_counts_as_it_is_and_what_nobody_commits_does_not_replace(tale: Tale) -> None:
    tale.commit_as(1, 8)
    tale.commit_as(1, 2, OPERATOR, -1)
    tale.commit(4, 1)
    tale.committed(3, 2)
    tale.commit(4, 6)
    tale.committed(3, 6)
    assert judge_history(tale.ops).is_clean()


def test_commits_without_members_are_judged_where_they_were(tale: Tale) -> None:
    tale.commit(1, 8)
    tale.committed(2, 7)
    assert tale.kinds(MemberCommits()) == []
    assert tale.kinds(CommittedOffsets()) == ["committed-went-back", "phantom-commit"]


# idempotent producers


def test_numbers_of_a_producer_stand_in_their_order(tale: Tale) -> None:
    tale.number(1, 70, 0, 4)
    tale.number(1, 71, 1, 3)
    tale.number(1, 72, 0, 5, epoch=1)
    tale.poll(2, (3, 71), (4, 70))
    assert tale.at_the_end(Sequences).counts == {"sequence-order": 1}


def test_a_number_that_is_missing_in_what_was_read_is_a_gap(tale: Tale) -> None:
    tale.number(1, 70, 0, 0)
    tale.number(1, 71, 1, None)
    tale.number(1, 72, 2, 1)
    assert tale.at_the_end(Sequences).counts == {}, "nobody has read so far"
    tale.poll(2, (0, 70), (1, 72))
    assert tale.at_the_end(Sequences).counts == {"sequence-gap": 1}
    tale.list_offsets(3, 1, 2)
    assert tale.at_the_end(Sequences).counts == {}, "it may be gone"


@pytest.mark.parametrize("offsets", [(0, 1, 2), (0, 2, 1)])
def test_numbers_that_answers_alone_say_are_judged_for_their_order(tale: Tale, offsets: tuple[int, ...]) -> None:
    for value, number, offset in zip((70, 71, 72), (1, 2, 4), offsets, strict=True):
        invocation = tale.recorder.invoke(value, "send", Send(T0, (value,)))
        send = Send(T0, (value,), (Offset(offset),), sequenced=Sequenced(9, 0, number))
        tale.recorder.ok(invocation, send)
    tale.poll(2, (0, 70))
    assert tale.at_the_end(Sequences).counts == ({} if offsets == (0, 1, 2) else {"sequence-order": 1})


def test_the_last_number_may_be_missing_when_nobody_knows_what_became_of_it(tale: Tale) -> None:
    tale.number(1, 70, 0, 0)
    tale.number(1, 71, 1, None)
    tale.poll(2, (0, 70))
    assert judge_history(tale.ops).is_clean()


def test_a_retry_that_is_answered_with_another_offset_is_a_duplicate(tale: Tale) -> None:
    invocation = tale.recorder.invoke(1, "send", Send(T0, (70,), sequenced=Sequenced(9, 0, 0)))
    tale.poll(2, (0, 70))
    tale.end_send(invocation, 1)
    assert "duplicate" in judge_history(tale.ops).counts


# compaction


def test_the_newest_value_of_a_key_is_kept(tale: Tale) -> None:
    tale.keyed(70, "a", 0)
    lost = tale.keyed(71, "b", 1)
    tale.keyed(72, "a", 2)
    passed = tale.read(2, (2, 72))[-1]
    findings = tale.at_the_end(Compaction)
    assert [(anomaly.kind, anomaly.ops) for anomaly in findings.anomalies] == [("lost-key", (lost, passed))]
    assert list(judge_history(tale.ops).counts) == ["lost-write", "lost-key"]


def test_what_was_replaced_and_tombstones_may_be_gone(tale: Tale) -> None:
    for value, key, offset in ((70, "a", 0), (71, "b", 1), (72, "a", 2), (73, "b", 3), (74, "c", 4)):
        tale.keyed(value, key, offset, tombstone=value == 73)
    tale.read(2, (2, 72), (4, 74))
    assert judge_history(tale.ops).is_clean()


def test_a_value_that_was_gone_before_anybody_sent_a_newer_one_is_lost(tale: Tale) -> None:
    tale.keyed(70, "a", 0)
    tale.keyed(71, "b", 1)
    tale.read(2, (1, 71))
    tale.keyed(72, "a", 2)
    tale.read(3, (1, 71), (2, 72))
    assert judge_history(tale.ops).counts == {"lost-key": 1}


def test_a_value_may_be_gone_for_a_tombstone_that_nobody_saw(tale: Tale) -> None:
    tale.keyed(70, "a", 0)
    tale.keyed(71, "a", None, tombstone=True)
    tale.keyed(72, "b", 2)
    tale.read(2, (2, 72))
    assert tale.at_the_end(Compaction).counts == {}
    assert judge_history(tale.ops).is_clean()


def test_a_tombstone_that_was_refused_or_is_of_another_key_excuses_nothing(tale: Tale) -> None:
    tale.keyed(70, "a", 0)
    refused = tale.recorder.invoke(1, "send", Send(T0, (71,), keys=("a",), tombstones=(71,)))
    tale.recorder.fail(refused)
    tale.keyed(72, "b", None, tombstone=True)
    tale.keyed(73, "c", 2)
    tale.read(2, (2, 73))
    assert judge_history(tale.ops).counts == {"lost-write": 1, "lost-key": 1}


def test_who_comes_last_and_stops_short_of_the_end_may_have_missed_what_replaced_a_value(tale: Tale) -> None:
    lost = tale.keyed(70, "a", 0)
    tale.keyed(71, "a", None)
    tale.keyed(72, "b", 2)
    tale.keyed(73, "c", 3)
    tale.read(2, (2, 72))
    assert tale.at_the_end(Compaction).counts == {}, "the newest of the key may stand behind"
    tale.read(3, (2, 72), (3, 73))
    findings = tale.at_the_end(Compaction)
    assert [(anomaly.kind, anomaly.ops[0]) for anomaly in findings.anomalies] == [("lost-key", lost)]


def test_who_comes_last_amid_sends_may_have_missed_what_replaced_a_value(tale: Tale) -> None:
    tale.keyed(70, "a", 0)
    tale.keyed(71, "a", None)
    tale.keyed(72, "b", 2)
    tale.assign(2, 0)
    tale.poll(2, (2, 72))
    tale.keyed(73, "a", 3)
    tale.poll(2, (3, 73))
    assert tale.at_the_end(Compaction).counts == {}, "the newest of then was replaced in its turn"


def test_who_reads_last_sees_no_removed_key(tale: Tale) -> None:
    tale.keyed(70, "a", 0)
    removed = tale.keyed(71, "a", 1, tombstone=True)
    tale.keyed(72, "b", 2)
    passed = tale.read(2, (0, 70), (2, 72))[-1]
    findings = tale.at_the_end(Compaction)
    assert [(anomaly.kind, anomaly.ops) for anomaly in findings.anomalies] == [("resurrected-key", (removed, passed))]
    tale.read(3, (0, 70), (1, 71), (2, 72))
    assert judge_history(tale.ops).is_clean(), "an early reader may have come too late for the tombstone"


def test_a_removed_key_may_have_come_back_by_a_newer_record(tale: Tale) -> None:
    tale.keyed(70, "a", 0)
    tale.keyed(71, "a", 1, tombstone=True)
    tale.keyed(72, "b", 2)
    tale.read(2, (0, 70), (2, 72))
    tale.keyed(73, "a", 3)
    assert tale.at_the_end(Compaction).counts == {}


def test_records_of_a_compacted_partition_stay_where_they_are(tale: Tale) -> None:
    tale.keyed(70, "a", 5)
    tale.keyed(71, "b", 6)
    tale.read(2, (5, 71), (6, 70))
    assert {"inconsistent-offset", "duplicate"} <= set(judge_history(tale.ops).counts)


# deleted records


def test_records_that_were_deleted_stay_so(tale: Tale) -> None:
    tale.send(1, 70, 0)
    asking = tale.recorder.invoke(5, "trim", Trim(T0, Offset(1)))
    tale.list_offsets(3, 0, 1, linearizable=True)
    deleted = tale.recorder.ok(asking, Trim(T0, Offset(1)))
    tale.list_offsets(4, 0, 1)
    back = tale.list_offsets(3, 0, 1, linearizable=True)
    tale.only(LogStarts(), "trim-undone", deleted, back)
    assert "unseen" not in judge_history(tale.ops).counts, "it was deleted"


def test_a_deletion_is_not_answered_before_the_log_begins_there(tale: Tale) -> None:
    asking = tale.recorder.invoke(5, "trim", Trim(T0, Offset(4)))
    answered = tale.recorder.ok(asking, Trim(T0, Offset(3)))
    tale.only(LogStarts(), "trim-undone", asking, answered)
    tale.do(5, "trim", Trim(T0, Offset(4)), Trim(T0, Offset(9)))
    assert judge_with(LogStarts(), tale.ops).counts == {"trim-undone": 1}, "the log may have begun behind it"


@pytest.mark.parametrize("outcome", ["ok", "info", "crash", "open"])
def test_what_a_deletion_may_have_taken_is_neither_lost_nor_unseen(tale: Tale, outcome: str) -> None:
    missing_below_a_trim(tale, outcome)
    assert judge_history(tale.ops).is_clean()
    tale.list_offsets(6, 0, 4, linearizable=True)
    assert judge_history(tale.ops).is_clean() == (outcome != "ok"), "an unknown one may happen later, or never"


def test_what_a_deletion_did_not_take_is_lost_or_unseen(tale: Tale) -> None:
    missing_below_a_trim(tale, "fail")
    assert judge_history(tale.ops).counts == {"lost-write": 2}
    tale.send(1, 74, 4)
    tale.recorder.info(tale.recorder.invoke(7, "trim", Trim(T0, Offset(2))))
    tale.recorder.info(tale.recorder.invoke(7, "trim", Trim(T1, Offset(5))))
    assert judge_history(tale.ops).counts == {"lost-write": 1, "unseen": 1}, "behind it, or elsewhere"


def test_who_reads_past_a_record_that_a_deletion_may_have_taken_skips_it_all_the_same(tale: Tale) -> None:
    missing_below_a_trim(tale, "info")
    tale.assign(3, 1)
    tale.poll(3, (1, 71))
    tale.poll(3, (3, 73))
    assert judge_history(tale.ops).counts == {"poll-skip": 1}


def missing_below_a_trim(tale: Tale, outcome: str) -> None:
    """Of four records two were polled; the third was deleted with all before it, with this outcome."""
    for number in range(4):
        tale.send(1, 70 + number, number)
    asking = tale.recorder.invoke(2, "trim", Trim(T0, Offset(3)))
    if outcome == "crash":
        tale.recorder.crash(2)
    elif outcome != "open":
        getattr(tale.recorder, outcome)(asking)
    tale.poll(3, (1, 71))
    tale.poll(4, (3, 73))


# lines


def test_entries_of_all_these_come_back_from_their_lines(tale: Tale) -> None:
    tale.join(1, "m1", 1, T0, T1, instance="i")
    tale.commit_as(1, 5)
    tale.number(1, 70, 0, 4)
    tale.keyed(71, "a", 5, tombstone=True)
    tale.do(1, "trim", Trim(T0, Offset(3)))
    assert list(read_lines(write_lines(tale.ops))) == tale.ops
    assert all(str(op) for op in tale.ops)
    assert judge_with(Ownership(), tale.ops).counts == {}
