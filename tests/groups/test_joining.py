"""The join phase: members, leader and protocol of the next generation."""

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
from tests.groups.desk import HOLD_S, REBALANCE_S, SESSION_S, Desk, protocols


def test_a_group_has_one_leader_that_gets_all_members() -> None:
    desk = Desk()
    leader, *others = desk.form(3)
    assert [each.member_id for each in leader.members] == desk.members()
    assert all(each.metadata == protocols()[0].metadata for each in leader.members)
    assert all(each.leader == leader.member_id and each.members == () for each in others)
    assert desk.state == "CompletingRebalance"


def test_member_ids_are_assigned_here_and_contain_the_client() -> None:
    (joined,) = Desk().form(1, client_id="loader")
    assert joined.member_id.startswith("loader-")
    assert len({each.member_id for each in Desk().form(5)}) == 5


def test_kip_394_a_dynamic_member_has_to_join_with_the_id_that_it_is_given() -> None:
    desk = Desk()
    given = desk.said(desk.join(requires_known_id=True), MemberIdGiven)
    assert desk.members() == []
    token = desk.join(given.member_id, requires_known_id=True)
    desk.after(1)
    assert desk.said(token, JoinedGeneration).member_id == given.member_id


def test_kip_394_a_given_id_is_forgotten_after_the_session_timeout() -> None:
    desk = Desk()
    given = desk.said(desk.join(requires_known_id=True), MemberIdGiven)
    desk.after(SESSION_S + 1)
    assert desk.state == ""
    desk.said(desk.join(given.member_id), UnknownMember)


def test_kip_394_the_join_phase_waits_for_members_that_were_given_ids() -> None:
    desk = Desk()
    one = desk.stable(1)[0]
    given = desk.said(desk.join(requires_known_id=True), MemberIdGiven)
    first = desk.join(one.member_id)
    assert desk.waits(first)
    second = desk.join(given.member_id)
    assert len(desk.formed([first, second])) == 2


def test_kip_134_an_empty_group_waits_for_more_members_and_each_new_one_extends_that() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay_ms=3000))
    tokens = [desk.join(rebalance_timeout_ms=7000)]
    for _ in range(2):
        desk.after(2.9)
        tokens.append(desk.join(rebalance_timeout_ms=7000))
    assert all(map(desk.waits, tokens))
    desk.after(7 - 5.8)  # the rebalance timeout is the most
    assert len(desk.formed(tokens)) == 3


def test_a_group_with_members_does_not_wait_for_more() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    new = desk.join()
    assert {each.generation for each in desk.formed([desk.join(one.member_id), new])} == {2}


def test_without_a_delay_the_first_member_begins_at_once() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay_ms=0))
    assert desk.said(desk.join(), JoinedGeneration).generation == 1


def test_a_waiting_heartbeat_and_a_waiting_sync_are_answered_when_a_rebalance_begins() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    beat = desk.heartbeat(two.member_id, 1, wait_ms=4000)
    assert desk.waits(beat)
    desk.join()
    desk.said(beat, RebalanceInProgress)
    desk.said(desk.heartbeat(one.member_id, 1), RebalanceInProgress)

    waiting = Desk()
    _, follower = waiting.form(2)
    sync = waiting.sync(follower.member_id, 1)
    waiting.join()
    waiting.said(sync, RebalanceInProgress)


def test_a_member_that_does_not_rejoin_is_removed_after_the_longest_rebalance_timeout() -> None:
    desk = Desk()
    one, two = desk.formed([desk.join(rebalance_timeout_ms=5000), desk.join(rebalance_timeout_ms=8000)])
    desk.assigned([one, two])
    new = desk.join(rebalance_timeout_ms=1000)
    desk.after(7.9)
    desk.said(desk.heartbeat(one.member_id, 1), RebalanceInProgress)
    desk.said(desk.heartbeat(two.member_id, 1), RebalanceInProgress)
    assert desk.waits(new)
    desk.after(0.2)
    assert desk.said(new, JoinedGeneration).generation == 2
    assert desk.members() == [desk.said(new, JoinedGeneration).member_id]
    desk.said(desk.heartbeat(one.member_id, 1), UnknownMember)


def test_a_member_that_waits_for_the_others_does_not_lose_its_session() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    first = desk.join(one.member_id, protocols=protocols("u"))
    for _ in range(4):
        desk.after(SESSION_S - 1)
        desk.said(desk.heartbeat(two.member_id, 1), RebalanceInProgress)
    assert desk.waits(first)
    assert len(desk.formed([first, desk.join(two.member_id)])) == 2


def test_a_member_that_joins_while_others_sync_begins_another_rebalance() -> None:
    desk = Desk()
    one, two = desk.form(2)
    new = desk.join()
    desk.said(desk.sync(one.member_id, 1, {}), RebalanceInProgress)
    joined = desk.formed([desk.join(one.member_id), desk.join(two.member_id), new])
    assert joined[0].generation == 2


def test_a_join_that_is_repeated_while_others_sync_gets_the_same_answer() -> None:
    """Its answer was lost."""
    desk = Desk()
    one, two = desk.form(2)
    assert desk.said(desk.join(one.member_id), JoinedGeneration) == one
    assert desk.said(desk.join(two.member_id), JoinedGeneration) == two
    desk.assigned([one, two])


def test_a_member_that_wants_something_else_begins_a_rebalance() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    changed = desk.join(two.member_id, protocols=protocols("u"))
    assert desk.waits(changed)
    joined = desk.formed([desk.join(one.member_id), changed])
    assert {each.metadata for each in joined[0].members} == {protocols()[0].metadata, protocols("u")[0].metadata}


def test_a_member_that_does_not_lead_any_more_begins_a_rebalance() -> None:
    desk = Desk()
    _, two = desk.stable(2)
    assert desk.waits(desk.join(two.member_id, can_lead=False))


def test_in_stable_a_follower_that_wants_nothing_new_is_answered_at_once() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    beat = desk.heartbeat(one.member_id, 1, wait_ms=5000)
    assert desk.said(desk.join(two.member_id), JoinedGeneration) == two
    assert desk.waits(beat)
    assert desk.said(desk.sync(two.member_id, 1), SyncedGeneration).assignment == two.member_id.encode()


def test_in_stable_a_leader_that_joins_again_begins_a_rebalance() -> None:
    """The leader requests this after a change of the topics."""
    desk = Desk()
    one, two = desk.stable(2)
    assert desk.waits(desk.join(one.member_id))
    assert desk.state == "PreparingRebalance"
    assert desk.again([one, two])[0].leader == one.member_id


def test_the_leader_stays_and_another_takes_over_when_it_fails() -> None:
    desk = Desk()
    one, two, three = desk.stable(3)
    joined = desk.again([three, two, one], protocols=protocols("u"))
    assert joined[0].leader == one.member_id
    desk.leave(one.member_id)
    assert desk.again([three, two])[0].leader in (two.member_id, three.member_id)


def test_the_protocol_is_chosen_by_votes_among_those_that_all_have() -> None:
    desk = Desk()
    lists = (["sticky", "range", "roundrobin"], ["roundrobin", "range"], ["mine", "roundrobin", "range"])
    joined = desk.formed([desk.join(protocols=protocols(names=names)) for names in lists])
    assert {each.protocol for each in joined} == {"roundrobin"}


def test_a_member_that_shares_no_protocol_is_refused() -> None:
    desk = Desk()
    desk.stable(2, protocols=protocols(names=["range", "sticky"]))
    desk.said(desk.join(protocols=protocols(names=["roundrobin"])), InconsistentProtocol)
    desk.said(desk.join(protocol_type="connect", protocols=protocols(names=["range"])), InconsistentProtocol)
    assert desk.state == "Stable"


def test_the_only_member_may_change_to_what_it_likes() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    (joined,) = desk.again([one], protocols=protocols(names=["sticky"]))
    assert joined.protocol == "sticky"


def test_an_empty_group_takes_another_type_of_protocol() -> None:
    desk = Desk()
    desk.leave(desk.stable(1)[0].member_id)
    assert desk.form(1, protocol_type="connect")[0].protocol_type == "connect"


def test_no_member_joins_with_an_unassigned_id() -> None:
    desk = Desk()
    desk.said(desk.join("somebody"), UnknownMember)
    desk.stable(1)
    desk.said(desk.join("somebody"), UnknownMember)


def test_a_join_that_is_asked_twice_is_answered_once() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    first = desk.join(one.member_id)
    second = desk.join(one.member_id)
    desk.said(first, RebalanceInProgress)
    assert len(desk.formed([second, desk.join(two.member_id)])) == 2


def test_a_join_without_a_waiter_counts_when_the_member_has_its_id() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    desk.cancel(desk.join(one.member_id))
    desk.join(two.member_id)
    assert desk.state == "CompletingRebalance"
    assert [each.member_id for each in desk.said(desk.join(one.member_id), JoinedGeneration).members] == desk.members()


def test_a_member_without_its_id_is_removed_when_its_join_has_no_waiter() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    gone = desk.join()
    assert len(desk.members()) == 2
    desk.cancel(gone)
    assert desk.members() == [one.member_id]
    assert desk.again([one])[0].generation == 2


def test_a_group_that_no_member_joined_leaves_nothing() -> None:
    desk = Desk()
    desk.cancel(desk.join())
    desk.after(10)
    assert (desk.machine.names(), desk.stored, desk.machine.next_timer()) == ([], [], None)


# bounds


def test_members_groups_and_subscriptions_are_bounded() -> None:
    desk = Desk(GroupSettings(max_members=2, max_groups=2, max_metadata_bytes=1000))
    desk.said(desk.join(protocols=(Protocol("range", bytes(1000)),)), InvalidArgument)
    one, two = desk.stable(2)
    desk.said(desk.join(), GroupFull)
    desk.said(desk.join(requires_known_id=True), GroupFull)
    desk.said(desk.join(one.member_id, protocols=(Protocol("range", bytes(990)),)), GroupFull)
    assert desk.state == "Stable"
    desk.join(group="second")
    desk.said(desk.join(group="third"), GroupFull)
    desk.leave(two.member_id)
    assert len(desk.formed([desk.join(), desk.join(one.member_id)])) == 2


def test_a_given_id_counts_as_a_member_and_finds_its_place() -> None:
    desk = Desk(GroupSettings(max_members=1))
    given = desk.said(desk.join(requires_known_id=True), MemberIdGiven)
    desk.said(desk.join(), GroupFull)
    assert desk.formed([desk.join(given.member_id)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_timeout_ms": 999},
        {"session_timeout_ms": 1_800_001},
        {"rebalance_timeout_ms": 0},
        {"rebalance_timeout_ms": 3_600_001},
        {"protocols": ()},
        {"protocols": protocols(names=["range", "range"])},
        {"protocols": protocols(names=[str(number) for number in range(33)])},
        {"protocols": protocols(names=[""])},
        {"protocol_type": ""},
        {"instance_id": ""},
        {"client_id": "x" * 256},
        {"client_host": "x" * 256},
        {"instance_id": "x" * 256},
        {"can_lead": False, "protocols": protocols(names=["mine"])},
        {"can_lead": False, "protocols": (Protocol("range", b"garbage"),)},
    ],
    ids=str,
)
def test_invalid_values_are_refused_and_leave_nothing(wrong: dict[str, object]) -> None:
    desk = Desk()
    desk.said(desk.join(**wrong), InvalidArgument)
    assert desk.machine.names() == []


def test_a_new_member_that_dies_in_the_join_phase_does_not_hold_it_up() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    new = desk.join()
    token = desk.join(one.member_id)
    desk.said(token, JoinedGeneration)
    second = desk.said(new, JoinedGeneration)
    desk.said(desk.heartbeat(second.member_id, 1), StaleGeneration)
    desk.after(SESSION_S + HOLD_S)
    assert desk.members() == []
    assert desk.now < REBALANCE_S
