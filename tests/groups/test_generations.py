"""Sync, heartbeat, commit, leave: members, leader and end of a generation."""

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
from tests.groups.desk import REBALANCE_S, SESSION_S, Desk, protocols

# sync


def test_followers_wait_for_the_leaders_assignments() -> None:
    desk = Desk()
    one, two = desk.form(2)
    early = desk.sync(two.member_id, 1)
    assert desk.waits(early)
    desk.said(desk.sync(one.member_id, 1, {one.member_id: b"1", two.member_id: b"2"}), SyncedGeneration)
    assert desk.said(early, SyncedGeneration) == SyncedGeneration(b"2", 1, "range", "consumer")
    assert desk.state == "Stable"
    assert desk.said(desk.sync(two.member_id, 1), SyncedGeneration).assignment == b"2"


def test_assignments_for_strangers_are_ignored_and_missing_ones_are_empty() -> None:
    desk = Desk()
    one, two = desk.form(2)
    desk.said(desk.sync(one.member_id, 1, {"somebody": b"x", one.member_id: b"1"}), SyncedGeneration)
    assert desk.said(desk.sync(two.member_id, 1), SyncedGeneration).assignment == b""
    assert {each.member_id for each in desk.log["readers"].members} == {one.member_id, two.member_id}


def test_a_member_without_an_assignment_does_not_keep_its_former_one() -> None:
    desk = Desk()
    one, two = desk.again(desk.stable(2), protocols=protocols("u"))
    desk.sync(one.member_id, 2, {one.member_id: b"all"})
    assert desk.said(desk.sync(two.member_id, 2), SyncedGeneration).assignment == b""


def test_assignments_of_a_follower_are_ignored() -> None:
    desk = Desk()
    one, two = desk.form(2)
    desk.sync(two.member_id, 1, {two.member_id: b"everything"})
    assert desk.state == "CompletingRebalance"
    desk.sync(one.member_id, 1, {one.member_id: b"1"})
    assert desk.said(desk.sync(two.member_id, 1), SyncedGeneration).assignment == b""


def test_assignments_that_no_record_could_hold_are_refused() -> None:
    desk = Desk(GroupSettings(max_metadata_bytes=100))
    (one,) = desk.form(1)
    desk.said(desk.sync(one.member_id, 1, {one.member_id: bytes(101)}), RecordTooLarge)
    desk.said(desk.sync(one.member_id, 1, {one.member_id: bytes(100)}), SyncedGeneration)


def test_a_sync_names_its_protocol() -> None:
    desk = Desk()
    (one,) = desk.form(1)
    desk.said(desk.sync(one.member_id, 1, {}, protocol="sticky"), InconsistentProtocol)
    desk.said(desk.sync(one.member_id, 1, {}, protocol_type="connect"), InconsistentProtocol)
    desk.said(desk.sync(one.member_id, 1, {}, protocol="range", protocol_type="consumer"), SyncedGeneration)


def test_a_leader_that_dies_before_it_syncs_is_replaced_after_its_session() -> None:
    desk = Desk()
    one, two = desk.form(2)
    waiting = desk.sync(two.member_id, 1)
    desk.after(SESSION_S)
    desk.said(waiting, RebalanceInProgress)
    (joined,) = desk.again([two])
    assert (joined.leader, joined.generation) == (two.member_id, 2)
    desk.said(desk.heartbeat(one.member_id, 1), UnknownMember)


def test_a_leader_that_lives_but_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    desk = Desk()
    one, two = desk.form(2)
    waiting = desk.sync(two.member_id, 1)
    for _ in range(int(REBALANCE_S // 5)):
        assert desk.waits(waiting)
        desk.alive(one)
        desk.after(5)
    desk.said(waiting, RebalanceInProgress)
    desk.said(desk.heartbeat(one.member_id, 1), UnknownMember)
    assert desk.members() == [two.member_id]


def test_a_member_that_dies_between_join_and_sync_begins_another_rebalance() -> None:
    desk = Desk()
    one, two = desk.form(2)
    desk.said(desk.sync(one.member_id, 1, {two.member_id: b"all"}), SyncedGeneration)
    desk.after(SESSION_S - 1)
    desk.alive(one)
    desk.after(2)
    desk.said(desk.heartbeat(one.member_id, 1), RebalanceInProgress)
    assert desk.members() == [one.member_id]


def test_a_sync_without_a_waiter_is_not_answered() -> None:
    desk = Desk()
    one, two = desk.form(2)
    gone = desk.sync(two.member_id, 1)
    desk.cancel(gone)
    desk.assigned([one, two])


# heartbeats and sessions


def test_a_member_that_is_silent_for_its_session_is_out() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    for _ in range(3):
        desk.after(SESSION_S * 0.6)
        desk.said(desk.heartbeat(one.member_id, 1), Alive if desk.state == "Stable" else RebalanceInProgress)
    assert desk.members() == [one.member_id]
    desk.said(desk.heartbeat(two.member_id, 1), UnknownMember)
    assert desk.again([one])[0].generation == 2


def test_each_member_has_the_session_that_it_asked_for() -> None:
    desk = Desk()
    one, two = desk.formed([desk.join(session_timeout_ms=30_000), desk.join(session_timeout_ms=5000)])
    desk.assigned([one, two])
    desk.after(5.1)
    assert desk.members() == [one.member_id]


def test_a_heartbeat_waits_at_most_its_timeout_and_half_the_session() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    short = desk.heartbeat(one.member_id, 1, wait_ms=1000)
    desk.after(0.99)
    assert desk.waits(short)
    desk.after(0.02)
    desk.said(short, Alive)
    long = desk.heartbeat(one.member_id, 1, wait_ms=60_000)
    desk.after(SESSION_S / 2)
    desk.said(long, Alive)
    desk.alive(one)


def test_a_second_waiting_heartbeat_takes_the_place_of_the_first() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    first = desk.heartbeat(one.member_id, 1, wait_ms=3000)
    desk.after(1)
    second = desk.heartbeat(one.member_id, 1, wait_ms=3000)
    desk.said(first, Alive)
    desk.after(2.5)
    assert desk.waits(second)
    desk.join()
    desk.said(second, RebalanceInProgress)


def test_a_heartbeat_that_waits_does_not_keep_a_dead_member() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    desk.heartbeat(two.member_id, 1, wait_ms=5000)
    desk.after(SESSION_S - 1)
    desk.alive(one)
    desk.after(2)
    assert desk.members() == [one.member_id]


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_fenced_everywhere(generation: int) -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    desk.said(desk.sync(one.member_id, generation), StaleGeneration)
    desk.said(desk.heartbeat(one.member_id, generation), StaleGeneration)
    with pytest.raises(StaleGeneration):
        desk.commit(one.member_id, generation)


def test_a_stranger_is_refused_everywhere() -> None:
    desk, empty = Desk(), Desk()
    desk.stable(1)
    for each in (desk, empty):
        each.said(each.sync("somebody", 1), UnknownMember)
        each.said(each.heartbeat("somebody", 1), UnknownMember)
        with pytest.raises(UnknownMember):
            each.commit("somebody", 1)


# commits


def test_a_member_commits_in_its_generation_until_the_next_begins() -> None:
    desk = Desk()
    one, two = desk.form(2)
    with pytest.raises(RebalanceInProgress):
        desk.commit(one.member_id, 1)
    desk.assigned([one, two])
    desk.commit(one.member_id, 1)
    desk.join(one.member_id)
    desk.commit(two.member_id, 1)  # before it joins again, what it has read
    desk.join(two.member_id)
    with pytest.raises(StaleGeneration):
        desk.commit(two.member_id, 1)


def test_f48_a_member_that_stalled_past_its_session_cannot_commit() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    desk.after(SESSION_S - 1)
    desk.alive(one)
    desk.after(2)
    with pytest.raises(UnknownMember):
        desk.commit(two.member_id, 1)
    assert desk.again([one])[0].generation == 2
    with pytest.raises(UnknownMember):
        desk.commit(two.member_id, 2)


def test_a_commit_is_a_heartbeat() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    for _ in range(3):
        desk.after(SESSION_S - 1)
        desk.commit(one.member_id, 1)
    assert desk.members() == [one.member_id]


def test_without_a_member_only_groups_without_members_take_commits() -> None:
    desk = Desk()
    desk.commit()
    (one,) = desk.stable(1)
    with pytest.raises(UnknownMember):
        desk.commit()
    desk.leave(one.member_id)
    desk.commit()


def test_ids_in_a_commit_without_a_generation_count_only_in_groups_with_members() -> None:
    desk = Desk()
    desk.commit("somebody", instance_id="i")  # a consumer that assigns itself partitions
    (one,) = desk.stable(1)
    with pytest.raises(StaleGeneration):
        desk.commit(one.member_id)
    with pytest.raises(UnknownMember):
        desk.commit("somebody")
    with pytest.raises(UnknownMember):
        desk.commit(one.member_id, instance_id="i")
    desk.leave(one.member_id)
    desk.commit(one.member_id, instance_id="i")


# leaving


def test_a_leaving_member_is_removed_at_once_and_the_others_are_notified() -> None:
    desk = Desk()
    one, two, three = desk.stable(3)
    beat = desk.heartbeat(one.member_id, 1, wait_ms=5000)
    left = desk.leave(two.member_id, "somebody", three.member_id, two.member_id)
    assert [type(each.error) for each in left] == [type(None), UnknownMember, type(None), UnknownMember]
    desk.said(beat, RebalanceInProgress)
    assert desk.members() == [one.member_id]
    assert desk.again([one])[0].generation == 2


def test_members_that_leave_together_cause_one_rebalance() -> None:
    desk = Desk()
    joined = desk.stable(10)
    desk.leave(*[each.member_id for each in joined[1:]])
    assert desk.again(joined[:1])[0].generation == 2


def test_a_stranger_does_not_disturb_a_group() -> None:
    desk = Desk()
    desk.stable(2)
    desk.leave("somebody")
    assert desk.state == "Stable"
    assert Desk().leave("somebody")[0].error is not None


def test_a_given_id_can_be_given_back() -> None:
    desk = Desk()
    given = desk.said(desk.join(requires_known_id=True), MemberIdGiven)
    assert desk.leave(given.member_id)[0].error is None
    assert desk.machine.names() == []


def test_the_requests_of_a_leaving_member_are_answered() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    beat = desk.heartbeat(two.member_id, 1, wait_ms=5000)
    desk.leave(two.member_id)
    desk.said(beat, UnknownMember)
    join = desk.join()
    desk.leave(desk.members()[-1])
    desk.said(join, UnknownMember)
    assert desk.members() == [one.member_id]


def test_a_group_whose_last_member_leaves_is_empty_and_its_generation_is_over() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    desk.leave(one.member_id)
    record = desk.log["readers"]
    assert (desk.state, record.generation, record.members, record.leader) == ("Empty", 2, (), "")
    assert desk.machine.next_timer() is None
    with pytest.raises(UnknownMember):
        desk.commit(one.member_id, 1)
    desk.said(desk.heartbeat(one.member_id, 1), UnknownMember)
    assert desk.form(1)[0].generation == 3


def test_a_group_whose_members_all_die_is_empty() -> None:
    desk = Desk()
    desk.stable(3)
    desk.after(REBALANCE_S + SESSION_S)
    assert (desk.state, desk.machine.next_timer()) == ("Empty", None)
    assert not desk.machine.has_members("readers")


# deletion


def test_an_empty_group_is_deleted_once_that_is_stored() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    desk.said(desk.delete(), GroupNotEmpty)
    desk.leave(one.member_id)
    desk.stores_at_once = False
    deletion = desk.delete()
    assert desk.state == "Dead"
    desk.said(desk.join(), NotLeader)
    desk.said(desk.delete(), NotLeader)
    desk.said(desk.heartbeat(one.member_id, 2), UnknownMember)
    with pytest.raises(NotLeader):
        desk.commit()
    desk.store()
    desk.said(deletion, Deleted)
    assert (desk.machine.names(), desk.log) == ([], {})


def test_a_deletion_that_is_not_stored_keeps_the_group() -> None:
    desk = Desk()
    desk.leave(desk.stable(1)[0].member_id)
    desk.stores_at_once = False
    deletion = desk.delete()
    desk.store(NotLeader("another leads"))
    desk.said(deletion, NotLeader)
    assert (desk.state, desk.generation) == ("Empty", 2)


def test_a_deletion_of_what_is_not_here_leaves_nothing_when_it_is_not_stored() -> None:
    desk = Desk()
    desk.stores_at_once = False
    desk.delete("offsets only")
    assert desk.machine.names() == ["offsets only"]
    desk.store(NotLeader("another leads"))
    assert desk.machine.names() == []


def test_a_group_with_a_pending_join_is_not_deleted() -> None:
    desk = Desk()
    desk.join(requires_known_id=True)
    desk.said(desk.delete(), GroupNotEmpty)


def test_a_deletion_without_a_waiter_happens_all_the_same() -> None:
    desk = Desk()
    desk.stores_at_once = False
    desk.cancel(desk.delete())
    desk.store()
    assert desk.machine.names() == []


def test_described_fields_of_a_group() -> None:
    desk = Desk()
    leader, other = desk.form(2, client_id="c", client_host="h")
    desk.sync(other.member_id, 1)
    desk.sync(leader.member_id, 1, {other.member_id: encode_assignment([TopicPartition("t", 3)])})

    def described() -> GroupDetails:
        found = desk.machine.group("readers")
        assert found is not None
        assert found.changed_ms == 1_000_000 + desk.now * 1000
        return describe_group(found)

    found = described()
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
    desk.join(other.member_id, protocols=protocols("u"))
    assert [each.assignment for each in described().members] == [{}, {}]
    assert desk.machine.group("nobody") is None


def test_a_storm_of_50_members_ends_in_one_generation_with_all_of_them() -> None:
    """Joining and leaving in all possible moments; the work is bounded by the members that move."""
    desk = Desk()
    desk.stores_at_once = False
    waiting = [desk.join() for _ in range(50)]
    desk.after(2)
    for _ in range(3):
        desk.store(count=1)
        members = desk.members()
        desk.leave(*members[::5])
        waiting += [desk.join() for _ in members[::5]]
        waiting += [desk.join(each) for each in desk.members()[:40]]
    for _ in range(5):
        desk.store()
        waiting += [desk.join(each) for each in desk.members()]
    desk.store()
    joined = [desk.said(desk.join(each), JoinedGeneration) for each in desk.members()]
    assert len(joined) == 50
    assert {each.generation for each in joined} == {desk.generation}
    assert not any(map(desk.waits, waiting))
    assert len(desk.stored) < 30
    desk.stores_at_once = True
    desk.assigned(sorted(joined, key=lambda each: each.member_id != each.leader))
