"""Sync, heartbeat, commit and leave: members, leader and end of a generation."""

import pytest

from raftlog.assignors import encode_assignment
from raftlog.errors import (
    GroupNotEmpty,
    InconsistentProtocol,
    NotLeader,
    RebalanceInProgress,
    RecordTooLarge,
    StaleGeneration,
    UnknownMember,
)
from raftlog.partitions.groups.effects import Alive, Deleted
from raftlog.partitions.groups.operations import describe_group
from raftlog.partitions.groups.results import GroupDetails, JoinedGeneration, MemberIdGiven, SyncedGeneration
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.types import TopicPartition
from tests.groups.group_harness import REBALANCE_S, SESSION_S, GroupHarness, make_protocols

# sync


def test_followers_wait_for_the_leaders_assignments() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    early = harness.sync(two.member_id, 1)
    assert harness.is_waiting(early)
    harness.answer_of(harness.sync(one.member_id, 1, {one.member_id: b"1", two.member_id: b"2"}), SyncedGeneration)
    assert harness.answer_of(early, SyncedGeneration) == SyncedGeneration(b"2", 1, "range", "consumer")
    assert harness.state == "Stable"
    assert harness.answer_of(harness.sync(two.member_id, 1), SyncedGeneration).assignment == b"2"


def test_assignments_for_unknown_members_are_ignored_and_missing_ones_are_empty() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    harness.answer_of(harness.sync(one.member_id, 1, {"somebody": b"x", one.member_id: b"1"}), SyncedGeneration)
    assert harness.answer_of(harness.sync(two.member_id, 1), SyncedGeneration).assignment == b""
    assert {each.member_id for each in harness.log["readers"].members} == {one.member_id, two.member_id}


def test_a_member_without_an_assignment_loses_its_former_one() -> None:
    harness = GroupHarness()
    one, two = harness.rejoin(harness.form_stable(2), protocols=make_protocols("u"))
    harness.sync(one.member_id, 2, {one.member_id: b"all"})
    assert harness.answer_of(harness.sync(two.member_id, 2), SyncedGeneration).assignment == b""


def test_assignments_of_a_follower_are_ignored() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    harness.sync(two.member_id, 1, {two.member_id: b"everything"})
    assert harness.state == "CompletingRebalance"
    harness.sync(one.member_id, 1, {one.member_id: b"1"})
    assert harness.answer_of(harness.sync(two.member_id, 1), SyncedGeneration).assignment == b""


def test_too_large_assignments_are_refused() -> None:
    harness = GroupHarness(GroupSettings(max_metadata_bytes=100))
    (one,) = harness.form(1)
    harness.answer_of(harness.sync(one.member_id, 1, {one.member_id: bytes(101)}), RecordTooLarge)
    harness.answer_of(harness.sync(one.member_id, 1, {one.member_id: bytes(100)}), SyncedGeneration)


def test_a_sync_names_its_protocol() -> None:
    harness = GroupHarness()
    (one,) = harness.form(1)
    harness.answer_of(harness.sync(one.member_id, 1, {}, protocol="sticky"), InconsistentProtocol)
    harness.answer_of(harness.sync(one.member_id, 1, {}, protocol_type="connect"), InconsistentProtocol)
    harness.answer_of(harness.sync(one.member_id, 1, {}, protocol="range", protocol_type="consumer"), SyncedGeneration)


def test_a_leader_that_fails_before_its_sync_is_replaced_after_its_session() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    waiting = harness.sync(two.member_id, 1)
    harness.advance(SESSION_S)
    harness.answer_of(waiting, RebalanceInProgress)
    (joined,) = harness.rejoin([two])
    assert (joined.leader, joined.generation) == (two.member_id, 2)
    harness.answer_of(harness.heartbeat(one.member_id, 1), UnknownMember)


def test_a_live_leader_that_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    waiting = harness.sync(two.member_id, 1)
    for _ in range(int(REBALANCE_S // 5)):
        assert harness.is_waiting(waiting)
        harness.check_alive(one)
        harness.advance(5)
    harness.answer_of(waiting, RebalanceInProgress)
    harness.answer_of(harness.heartbeat(one.member_id, 1), UnknownMember)
    assert harness.members() == [two.member_id]


def test_a_member_that_fails_between_join_and_sync_begins_another_rebalance() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    harness.answer_of(harness.sync(one.member_id, 1, {two.member_id: b"all"}), SyncedGeneration)
    harness.advance(SESSION_S - 1)
    harness.check_alive(one)
    harness.advance(2)
    harness.answer_of(harness.heartbeat(one.member_id, 1), RebalanceInProgress)
    assert harness.members() == [one.member_id]


def test_a_cancelled_sync_is_not_answered() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    gone = harness.sync(two.member_id, 1)
    harness.cancel(gone)
    harness.sync_all([one, two])
    assert harness.is_waiting(gone)


# heartbeats and sessions


def test_a_silent_member_is_removed_after_its_session() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    for _ in range(3):
        harness.advance(SESSION_S * 0.6)
        harness.answer_of(
            harness.heartbeat(one.member_id, 1), Alive if harness.state == "Stable" else RebalanceInProgress
        )
    assert harness.members() == [one.member_id]
    harness.answer_of(harness.heartbeat(two.member_id, 1), UnknownMember)
    assert harness.rejoin([one])[0].generation == 2


def test_each_member_has_its_requested_session_timeout() -> None:
    harness = GroupHarness()
    one, two = harness.finish_joins([harness.join(session_timeout_ms=30_000), harness.join(session_timeout_ms=5000)])
    harness.sync_all([one, two])
    harness.advance(5.1)
    assert harness.members() == [one.member_id]


def test_a_heartbeat_waits_at_most_its_timeout_and_half_the_session() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    short = harness.heartbeat(one.member_id, 1, wait_ms=1000)
    harness.advance(0.99)
    assert harness.is_waiting(short)
    harness.advance(0.02)
    harness.answer_of(short, Alive)
    long = harness.heartbeat(one.member_id, 1, wait_ms=60_000)
    harness.advance(SESSION_S / 2)
    harness.answer_of(long, Alive)
    harness.check_alive(one)


def test_a_second_waiting_heartbeat_replaces_the_first() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    first = harness.heartbeat(one.member_id, 1, wait_ms=3000)
    harness.advance(1)
    second = harness.heartbeat(one.member_id, 1, wait_ms=3000)
    harness.answer_of(first, Alive)
    harness.advance(2.5)
    assert harness.is_waiting(second)
    harness.join()
    harness.answer_of(second, RebalanceInProgress)


def test_a_waiting_heartbeat_does_not_extend_the_session() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    harness.heartbeat(two.member_id, 1, wait_ms=5000)
    harness.advance(SESSION_S - 1)
    harness.check_alive(one)
    harness.advance(2)
    assert harness.members() == [one.member_id]


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_requests_of_another_generation_are_fenced(generation: int) -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    harness.answer_of(harness.sync(one.member_id, generation), StaleGeneration)
    harness.answer_of(harness.heartbeat(one.member_id, generation), StaleGeneration)
    with pytest.raises(StaleGeneration):
        harness.commit(one.member_id, generation)


def test_requests_of_an_unknown_member_are_refused() -> None:
    harness, empty = GroupHarness(), GroupHarness()
    harness.form_stable(1)
    for each in (harness, empty):
        each.answer_of(each.sync("somebody", 1), UnknownMember)
        each.answer_of(each.heartbeat("somebody", 1), UnknownMember)
        with pytest.raises(UnknownMember):
            each.commit("somebody", 1)


# commits


def test_a_member_commits_in_its_generation_until_the_next_begins() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    with pytest.raises(RebalanceInProgress):
        harness.commit(one.member_id, 1)
    harness.sync_all([one, two])
    harness.commit(one.member_id, 1)
    harness.join(one.member_id)
    harness.commit(two.member_id, 1)  # before it joins again, what it has read
    harness.join(two.member_id)
    with pytest.raises(StaleGeneration):
        harness.commit(two.member_id, 1)


def test_f48_a_member_that_stalled_past_its_session_cannot_commit() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    harness.advance(SESSION_S - 1)
    harness.check_alive(one)
    harness.advance(2)
    with pytest.raises(UnknownMember):
        harness.commit(two.member_id, 1)
    assert harness.rejoin([one])[0].generation == 2
    with pytest.raises(UnknownMember):
        harness.commit(two.member_id, 2)


def test_a_commit_counts_as_a_heartbeat() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    for _ in range(3):
        harness.advance(SESSION_S - 1)
        harness.commit(one.member_id, 1)
    assert harness.members() == [one.member_id]


def test_commits_without_a_member_need_a_group_without_members() -> None:
    harness = GroupHarness()
    harness.commit()
    (one,) = harness.form_stable(1)
    with pytest.raises(UnknownMember):
        harness.commit()
    harness.leave(one.member_id)
    harness.commit()


def test_ids_in_a_commit_without_a_generation_are_checked_only_in_groups_with_members() -> None:
    harness = GroupHarness()
    harness.commit("somebody", instance_id="i")  # a consumer that assigns itself partitions
    (one,) = harness.form_stable(1)
    with pytest.raises(StaleGeneration):
        harness.commit(one.member_id)
    with pytest.raises(UnknownMember):
        harness.commit("somebody")
    with pytest.raises(UnknownMember):
        harness.commit(one.member_id, instance_id="i")
    harness.leave(one.member_id)
    harness.commit(one.member_id, instance_id="i")


# leaving


def test_a_leaving_member_is_removed_at_once_and_the_others_are_notified() -> None:
    harness = GroupHarness()
    one, two, three = harness.form_stable(3)
    beat = harness.heartbeat(one.member_id, 1, wait_ms=5000)
    left = harness.leave(two.member_id, "somebody", three.member_id, two.member_id)
    assert [type(each.error) for each in left] == [type(None), UnknownMember, type(None), UnknownMember]
    harness.answer_of(beat, RebalanceInProgress)
    assert harness.members() == [one.member_id]
    assert harness.rejoin([one])[0].generation == 2


def test_members_that_leave_together_cause_one_rebalance() -> None:
    harness = GroupHarness()
    joined = harness.form_stable(10)
    harness.leave(*[each.member_id for each in joined[1:]])
    assert harness.rejoin(joined[:1])[0].generation == 2


def test_a_leave_of_an_unknown_member_does_not_disturb_the_group() -> None:
    harness = GroupHarness()
    harness.form_stable(2)
    harness.leave("somebody")
    assert harness.state == "Stable"
    assert GroupHarness().leave("somebody")[0].error is not None


def test_an_id_that_was_given_can_leave_before_it_joins() -> None:
    harness = GroupHarness()
    given = harness.answer_of(harness.join(requires_known_id=True), MemberIdGiven)
    assert harness.leave(given.member_id)[0].error is None
    assert harness.machine.names() == []


def test_waiting_requests_of_a_leaving_member_fail() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    beat = harness.heartbeat(two.member_id, 1, wait_ms=5000)
    harness.leave(two.member_id)
    harness.answer_of(beat, UnknownMember)
    join = harness.join()
    harness.leave(harness.members()[-1])
    harness.answer_of(join, UnknownMember)
    assert harness.members() == [one.member_id]


def test_a_group_whose_last_member_leaves_is_empty_and_its_generation_ends() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    harness.leave(one.member_id)
    record = harness.log["readers"]
    assert (harness.state, record.generation, record.members, record.leader) == ("Empty", 2, (), "")
    assert harness.machine.next_timer() is None
    with pytest.raises(UnknownMember):
        harness.commit(one.member_id, 1)
    harness.answer_of(harness.heartbeat(one.member_id, 1), UnknownMember)
    assert harness.form(1)[0].generation == 3


def test_a_group_whose_members_all_fail_is_empty() -> None:
    harness = GroupHarness()
    harness.form_stable(3)
    harness.advance(REBALANCE_S + SESSION_S)
    assert (harness.state, harness.machine.next_timer()) == ("Empty", None)
    assert not harness.machine.has_members("readers")


# deletion


def test_an_empty_group_is_deleted_once_the_deletion_is_stored() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    harness.answer_of(harness.delete(), GroupNotEmpty)
    harness.leave(one.member_id)
    harness.stores_at_once = False
    deletion = harness.delete()
    assert harness.state == "Dead"
    harness.answer_of(harness.join(), NotLeader)
    harness.answer_of(harness.delete(), NotLeader)
    harness.answer_of(harness.heartbeat(one.member_id, 2), UnknownMember)
    with pytest.raises(NotLeader):
        harness.commit()
    harness.store()
    harness.answer_of(deletion, Deleted)
    assert (harness.machine.names(), harness.log) == ([], {})


def test_a_failed_deletion_keeps_the_group() -> None:
    harness = GroupHarness()
    harness.leave(harness.form_stable(1)[0].member_id)
    harness.stores_at_once = False
    deletion = harness.delete()
    harness.store(NotLeader("another leads"))
    harness.answer_of(deletion, NotLeader)
    assert (harness.state, harness.generation) == ("Empty", 2)


def test_a_failed_deletion_of_a_group_with_offsets_only_leaves_no_group() -> None:
    harness = GroupHarness()
    harness.stores_at_once = False
    harness.delete("offsets only")
    assert harness.machine.names() == ["offsets only"]
    harness.store(NotLeader("another leads"))
    assert harness.machine.names() == []


def test_a_group_with_a_pending_join_is_not_deleted() -> None:
    harness = GroupHarness()
    harness.join(requires_known_id=True)
    harness.answer_of(harness.delete(), GroupNotEmpty)
    assert harness.machine.names() == ["readers"]


def test_a_cancelled_deletion_is_still_executed() -> None:
    harness = GroupHarness()
    harness.stores_at_once = False
    harness.cancel(harness.delete())
    harness.store()
    assert harness.machine.names() == []


def test_a_group_is_described_in_every_state() -> None:
    harness = GroupHarness()
    leader, other = harness.form(2, client_id="c", client_host="h")
    harness.sync(other.member_id, 1)
    harness.sync(leader.member_id, 1, {other.member_id: encode_assignment([TopicPartition("t", 3)])})

    def describe() -> GroupDetails:
        found = harness.machine.group("readers")
        assert found is not None
        assert found.changed_ms == 1_000_000 + harness.now * 1000
        return describe_group(found)

    found = describe()
    assert (found.state, found.protocol_type, found.protocol, found.generation) == ("Stable", "consumer", "range", 1)
    assert found.leader == leader.member_id
    assert {(each.member_id, each.client_id, each.client_host) for each in found.members} == {
        (leader.member_id, "c", "h"),
        (other.member_id, "c", "h"),
    }
    assert {each.member_id: each.assignment for each in found.members} == {
        leader.member_id: {},
        other.member_id: {"t": [3]},
    }
    harness.join(other.member_id, protocols=make_protocols("u"))
    assert [each.assignment for each in describe().members] == [{}, {}]
    assert harness.machine.group("nobody") is None


def test_fifty_members_that_join_and_leave_at_once_end_in_one_generation() -> None:
    """Members join and leave at all possible moments; the work is bounded by the members that move."""
    harness = GroupHarness()
    harness.stores_at_once = False
    waiting = [harness.join() for _ in range(50)]
    harness.advance(2)
    for _ in range(3):
        harness.store(count=1)
        members = harness.members()
        harness.leave(*members[::5])
        waiting += [harness.join() for _ in members[::5]]
        waiting += [harness.join(each) for each in harness.members()[:40]]
    for _ in range(5):
        harness.store()
        waiting += [harness.join(each) for each in harness.members()]
    harness.store()
    joined = [harness.answer_of(harness.join(each), JoinedGeneration) for each in harness.members()]
    assert len(joined) == 50
    assert {each.generation for each in joined} == {harness.generation}
    assert not any(map(harness.is_waiting, waiting))
    assert len(harness.stored) < 30
    harness.stores_at_once = True
    harness.sync_all(sorted(joined, key=lambda each: each.member_id != each.leader))
