"""Join phase: members, leader and protocol of the next generation."""

import pytest

from raftlog.errors import (
    GroupFull,
    InconsistentProtocol,
    InvalidArgument,
    RebalanceInProgress,
    StaleGeneration,
    UnknownMember,
)
from raftlog.partitions.groups.records import Protocol
from raftlog.partitions.groups.results import JoinedGeneration, MemberIdGiven, SyncedGeneration
from raftlog.partitions.groups.settings import GroupSettings
from tests.groups.group_harness import HOLD_S, REBALANCE_S, SESSION_S, GroupHarness, make_protocols


def test_a_group_has_one_leader_that_gets_all_members() -> None:
    harness = GroupHarness()
    leader, *others = harness.form(3)
    assert [each.member_id for each in leader.members] == harness.members()
    assert all(each.metadata == make_protocols()[0].metadata for each in leader.members)
    assert all(each.leader == leader.member_id and each.members == () for each in others)
    assert harness.state == "CompletingRebalance"


def test_member_ids_are_assigned_by_the_coordinator_and_contain_the_client_id() -> None:
    (joined,) = GroupHarness().form(1, client_id="loader")
    assert joined.member_id.startswith("loader-")
    assert len({each.member_id for each in GroupHarness().form(5)}) == 5


def test_kip_394_a_dynamic_member_must_join_with_its_given_id() -> None:
    harness = GroupHarness()
    given = harness.answer_of(harness.join(requires_known_id=True), MemberIdGiven)
    assert harness.members() == []
    token = harness.join(given.member_id, requires_known_id=True)
    harness.advance(1)
    assert harness.answer_of(token, JoinedGeneration).member_id == given.member_id


def test_kip_394_a_given_id_is_forgotten_after_the_session_timeout() -> None:
    harness = GroupHarness()
    given = harness.answer_of(harness.join(requires_known_id=True), MemberIdGiven)
    harness.advance(SESSION_S + 1)
    assert harness.state == ""
    harness.answer_of(harness.join(given.member_id), UnknownMember)


def test_kip_394_the_join_phase_waits_for_members_with_pending_ids() -> None:
    harness = GroupHarness()
    one = harness.form_stable(1)[0]
    given = harness.answer_of(harness.join(requires_known_id=True), MemberIdGiven)
    first = harness.join(one.member_id)
    assert harness.is_waiting(first)
    second = harness.join(given.member_id)
    assert len(harness.finish_joins([first, second])) == 2


def test_kip_134_an_empty_group_waits_for_members_and_each_new_one_extends_the_delay() -> None:
    harness = GroupHarness(GroupSettings(initial_rebalance_delay_ms=3000))
    tokens = [harness.join(rebalance_timeout_ms=7000)]
    for _ in range(2):
        harness.advance(2.9)
        tokens.append(harness.join(rebalance_timeout_ms=7000))
    assert all(map(harness.is_waiting, tokens))
    harness.advance(7 - 5.8)  # the rebalance timeout is the most
    assert len(harness.finish_joins(tokens)) == 3


def test_a_group_with_members_does_not_wait_for_more() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    new = harness.join()
    assert {each.generation for each in harness.finish_joins([harness.join(one.member_id), new])} == {2}


def test_without_a_delay_the_first_member_completes_the_join_at_once() -> None:
    harness = GroupHarness(GroupSettings(initial_rebalance_delay_ms=0))
    assert harness.answer_of(harness.join(), JoinedGeneration).generation == 1


def test_a_waiting_heartbeat_and_a_waiting_sync_are_answered_when_a_rebalance_begins() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    beat = harness.heartbeat(two.member_id, 1, wait_ms=4000)
    assert harness.is_waiting(beat)
    harness.join()
    harness.answer_of(beat, RebalanceInProgress)
    harness.answer_of(harness.heartbeat(one.member_id, 1), RebalanceInProgress)

    waiting = GroupHarness()
    _, follower = waiting.form(2)
    sync = waiting.sync(follower.member_id, 1)
    waiting.join()
    waiting.answer_of(sync, RebalanceInProgress)


def test_a_member_that_does_not_rejoin_is_removed_after_the_longest_rebalance_timeout() -> None:
    harness = GroupHarness()
    one, two = harness.finish_joins([harness.join(rebalance_timeout_ms=5000), harness.join(rebalance_timeout_ms=8000)])
    harness.sync_all([one, two])
    new = harness.join(rebalance_timeout_ms=1000)
    harness.advance(7.9)
    harness.answer_of(harness.heartbeat(one.member_id, 1), RebalanceInProgress)
    harness.answer_of(harness.heartbeat(two.member_id, 1), RebalanceInProgress)
    assert harness.is_waiting(new)
    harness.advance(0.2)
    assert harness.answer_of(new, JoinedGeneration).generation == 2
    assert harness.members() == [harness.answer_of(new, JoinedGeneration).member_id]
    harness.answer_of(harness.heartbeat(one.member_id, 1), UnknownMember)


def test_a_member_that_waits_for_the_others_keeps_its_session() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    first = harness.join(one.member_id, protocols=make_protocols("u"))
    for _ in range(4):
        harness.advance(SESSION_S - 1)
        harness.answer_of(harness.heartbeat(two.member_id, 1), RebalanceInProgress)
    assert harness.is_waiting(first)
    assert len(harness.finish_joins([first, harness.join(two.member_id)])) == 2


def test_a_member_that_joins_while_others_sync_begins_another_rebalance() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    new = harness.join()
    harness.answer_of(harness.sync(one.member_id, 1, {}), RebalanceInProgress)
    joined = harness.finish_joins([harness.join(one.member_id), harness.join(two.member_id), new])
    assert joined[0].generation == 2


def test_a_repeated_join_during_the_sync_gets_the_same_answer() -> None:
    """The answer to the first join was lost."""
    harness = GroupHarness()
    one, two = harness.form(2)
    assert harness.answer_of(harness.join(one.member_id), JoinedGeneration) == one
    assert harness.answer_of(harness.join(two.member_id), JoinedGeneration) == two
    harness.sync_all([one, two])


def test_a_member_with_another_subscription_begins_a_rebalance() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    changed = harness.join(two.member_id, protocols=make_protocols("u"))
    assert harness.is_waiting(changed)
    joined = harness.finish_joins([harness.join(one.member_id), changed])
    assert {each.metadata for each in joined[0].members} == {
        make_protocols()[0].metadata,
        make_protocols("u")[0].metadata,
    }


def test_a_leader_that_can_lead_no_longer_begins_a_rebalance() -> None:
    harness = GroupHarness()
    _, two = harness.form_stable(2)
    assert harness.is_waiting(harness.join(two.member_id, can_lead=False))


def test_in_stable_an_unchanged_follower_is_answered_at_once() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    beat = harness.heartbeat(one.member_id, 1, wait_ms=5000)
    assert harness.answer_of(harness.join(two.member_id), JoinedGeneration) == two
    assert harness.is_waiting(beat)
    assert harness.answer_of(harness.sync(two.member_id, 1), SyncedGeneration).assignment == two.member_id.encode()


def test_in_stable_a_leader_that_joins_again_begins_a_rebalance() -> None:
    """The leader does this after a change of the topics."""
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    assert harness.is_waiting(harness.join(one.member_id))
    assert harness.state == "PreparingRebalance"
    assert harness.rejoin([one, two])[0].leader == one.member_id


def test_the_leader_stays_and_another_member_replaces_it_when_it_fails() -> None:
    harness = GroupHarness()
    one, two, three = harness.form_stable(3)
    joined = harness.rejoin([three, two, one], protocols=make_protocols("u"))
    assert joined[0].leader == one.member_id
    harness.leave(one.member_id)
    assert harness.rejoin([three, two])[0].leader in (two.member_id, three.member_id)


def test_the_protocol_is_chosen_by_votes_among_those_common_to_all() -> None:
    harness = GroupHarness()
    lists = (["sticky", "range", "roundrobin"], ["roundrobin", "range"], ["mine", "roundrobin", "range"])
    joined = harness.finish_joins([harness.join(protocols=make_protocols(names=names)) for names in lists])
    assert {each.protocol for each in joined} == {"roundrobin"}


def test_a_member_that_shares_no_protocol_is_refused() -> None:
    harness = GroupHarness()
    harness.form_stable(2, protocols=make_protocols(names=["range", "sticky"]))
    harness.answer_of(harness.join(protocols=make_protocols(names=["roundrobin"])), InconsistentProtocol)
    harness.answer_of(
        harness.join(protocol_type="connect", protocols=make_protocols(names=["range"])), InconsistentProtocol
    )
    assert harness.state == "Stable"


def test_the_only_member_may_change_the_protocol() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    (joined,) = harness.rejoin([one], protocols=make_protocols(names=["sticky"]))
    assert joined.protocol == "sticky"


def test_an_empty_group_accepts_another_protocol_type() -> None:
    harness = GroupHarness()
    harness.leave(harness.form_stable(1)[0].member_id)
    assert harness.form(1, protocol_type="connect")[0].protocol_type == "connect"


def test_a_join_with_an_unassigned_id_is_refused() -> None:
    harness = GroupHarness()
    harness.answer_of(harness.join("somebody"), UnknownMember)
    harness.form_stable(1)
    harness.answer_of(harness.join("somebody"), UnknownMember)


def test_a_repeated_join_replaces_the_first() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    first = harness.join(one.member_id)
    second = harness.join(one.member_id)
    harness.answer_of(first, RebalanceInProgress)
    assert len(harness.finish_joins([second, harness.join(two.member_id)])) == 2


def test_a_cancelled_join_counts_if_the_member_has_its_id() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    harness.cancel(harness.join(one.member_id))
    harness.join(two.member_id)
    assert harness.state == "CompletingRebalance"
    assert [
        each.member_id for each in harness.answer_of(harness.join(one.member_id), JoinedGeneration).members
    ] == harness.members()


def test_a_member_without_an_id_is_removed_when_its_join_is_cancelled() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    gone = harness.join()
    assert len(harness.members()) == 2
    harness.cancel(gone)
    assert harness.members() == [one.member_id]
    assert harness.rejoin([one])[0].generation == 2


def test_a_group_whose_only_join_was_cancelled_leaves_no_state() -> None:
    harness = GroupHarness()
    harness.cancel(harness.join())
    harness.advance(10)
    assert (harness.machine.names(), harness.stored, harness.machine.next_timer()) == ([], [], None)


# bounds


def test_members_groups_and_subscriptions_are_bounded() -> None:
    harness = GroupHarness(GroupSettings(max_members=2, max_groups=2, max_metadata_bytes=1000))
    harness.answer_of(harness.join(protocols=(Protocol("range", bytes(1000)),)), InvalidArgument)
    one, two = harness.form_stable(2)
    harness.answer_of(harness.join(), GroupFull)
    harness.answer_of(harness.join(requires_known_id=True), GroupFull)
    harness.answer_of(harness.join(one.member_id, protocols=(Protocol("range", bytes(990)),)), GroupFull)
    assert harness.state == "Stable"
    harness.join(group="second")
    harness.answer_of(harness.join(group="third"), GroupFull)
    harness.leave(two.member_id)
    assert len(harness.finish_joins([harness.join(), harness.join(one.member_id)])) == 2


def test_a_given_id_counts_as_a_member() -> None:
    harness = GroupHarness(GroupSettings(max_members=1))
    given = harness.answer_of(harness.join(requires_known_id=True), MemberIdGiven)
    harness.answer_of(harness.join(), GroupFull)
    assert harness.finish_joins([harness.join(given.member_id)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_timeout_ms": 999},
        {"session_timeout_ms": 1_800_001},
        {"rebalance_timeout_ms": 0},
        {"rebalance_timeout_ms": 3_600_001},
        {"protocols": ()},
        {"protocols": make_protocols(names=["range", "range"])},
        {"protocols": make_protocols(names=[str(number) for number in range(33)])},
        {"protocols": make_protocols(names=[""])},
        {"protocol_type": ""},
        {"instance_id": ""},
        {"client_id": "x" * 256},
        {"client_host": "x" * 256},
        {"instance_id": "x" * 256},
        {"can_lead": False, "protocols": make_protocols(names=["mine"])},
        {"can_lead": False, "protocols": (Protocol("range", b"garbage"),)},
    ],
    ids=str,
)
def test_invalid_values_are_refused_and_change_nothing(wrong: dict[str, object]) -> None:
    harness = GroupHarness()
    harness.answer_of(harness.join(**wrong), InvalidArgument)
    assert harness.machine.names() == []


def test_a_new_member_that_fails_in_the_join_phase_does_not_delay_it() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    new = harness.join()
    token = harness.join(one.member_id)
    harness.answer_of(token, JoinedGeneration)
    second = harness.answer_of(new, JoinedGeneration)
    harness.answer_of(harness.heartbeat(second.member_id, 1), StaleGeneration)
    harness.advance(SESSION_S + HOLD_S)
    assert harness.members() == []
    assert harness.now < REBALANCE_S
