"""KIP-345: static members rejoin without a rebalance, and their former processes are fenced."""

import pytest

from raftlog.errors import FencedInstance, RebalanceInProgress, UnknownMember
from raftlog.partitions.groups.effects import Alive
from raftlog.partitions.groups.results import JoinedGeneration, MemberToLeave, SyncedGeneration
from raftlog.types import TopicPartition
from tests.groups.group_harness import REBALANCE_S, SESSION_S, GroupHarness, make_protocols


def form_static(harness: GroupHarness, count: int = 2) -> list[JoinedGeneration]:
    """Form a stable consumer group of static members s0, s1, …; the leader, s0, is first."""
    joined = harness.finish_joins([harness.join(instance_id=f"s{number}") for number in range(count)])
    harness.sync_all(joined)
    return joined


def test_the_id_of_a_static_member_begins_with_its_instance_id() -> None:
    assert form_static(GroupHarness())[1].member_id.startswith("s1-")


def test_a_static_member_joins_without_a_given_id() -> None:
    harness = GroupHarness()
    assert harness.finish_joins([harness.join(instance_id="s0", requires_known_id=True)])


def test_a_follower_that_rejoins_keeps_its_assignment_without_a_rebalance() -> None:
    harness = GroupHarness()
    one, two = form_static(harness)
    beat = harness.heartbeat(one.member_id, 1, wait_ms=5000)
    back = harness.answer_of(harness.join(instance_id="s1"), JoinedGeneration)
    assert back.member_id != two.member_id
    assert (back.generation, back.leader, back.members) == (1, one.member_id, ())
    assert (
        harness.answer_of(harness.sync(back.member_id, 1, instance_id="s1"), SyncedGeneration).assignment
        == two.member_id.encode()
    )
    assert harness.is_waiting(beat)
    assert {each.member_id for each in harness.log["readers"].members} == {one.member_id, back.member_id}


def test_owned_partitions_and_generation_are_no_change_of_the_subscription() -> None:
    harness = GroupHarness()
    form_static(harness)
    said = {"owned": (TopicPartition("t", 1),), "generation": 1}
    harness.answer_of(harness.join(instance_id="s1", protocols=make_protocols("t", **said)), JoinedGeneration)
    assert harness.state == "Stable"


@pytest.mark.parametrize(
    "other", [{"protocols": make_protocols("t", "u")}, {"protocols": make_protocols(names=["sticky", "range"])}]
)
def test_a_member_that_rejoins_with_another_subscription_begins_a_rebalance(other: dict[str, object]) -> None:
    harness = GroupHarness()
    one, _ = form_static(harness)
    back = harness.join(instance_id="s1", **other)
    assert harness.is_waiting(back)
    assert len(harness.finish_joins([harness.join(one.member_id), back])) == 2


def test_a_leader_that_rejoins_unable_to_lead_begins_a_rebalance() -> None:
    harness = GroupHarness()
    form_static(harness)
    assert harness.is_waiting(harness.join(instance_id="s0", can_lead=False))


def test_a_member_that_rejoins_with_another_preferred_protocol_begins_a_rebalance() -> None:
    harness = GroupHarness()
    names = {"protocols": make_protocols(names=["range", "sticky"])}
    harness.sync_all(harness.finish_joins([harness.join(instance_id=f"s{number}", **names) for number in range(2)]))
    harness.answer_of(
        harness.join(instance_id="s1", protocols=make_protocols(names=["sticky", "range"])), JoinedGeneration
    )
    assert harness.is_waiting(harness.join(instance_id="s0", protocols=make_protocols(names=["sticky", "range"])))


def test_a_leader_that_rejoins_leads_only_if_it_may_skip_the_assignment() -> None:
    """Clients before KIP-814 would assign as soon as an answer names them as leader."""
    harness = GroupHarness()
    one, _ = form_static(harness)
    old_client = harness.answer_of(harness.join(instance_id="s0"), JoinedGeneration)
    assert (old_client.leader, old_client.members, old_client.skip_assignment) == (one.member_id, (), False)
    new_client = harness.answer_of(harness.join(instance_id="s0", can_skip_assignment=True), JoinedGeneration)
    assert (new_client.leader, len(new_client.members), new_client.skip_assignment) == (new_client.member_id, 2, True)
    assert (
        harness.answer_of(harness.sync(new_client.member_id, 1), SyncedGeneration).assignment == one.member_id.encode()
    )


def test_the_older_process_of_an_instance_is_fenced() -> None:
    harness = GroupHarness()
    one, two = form_static(harness)
    beat = harness.heartbeat(two.member_id, 1, wait_ms=5000)
    back = harness.answer_of(harness.join(instance_id="s1"), JoinedGeneration)
    harness.answer_of(beat, FencedInstance)
    harness.answer_of(harness.heartbeat(two.member_id, 1, instance_id="s1"), FencedInstance)
    harness.answer_of(harness.sync(two.member_id, 1, instance_id="s1"), FencedInstance)
    harness.answer_of(harness.join(two.member_id, instance_id="s1"), FencedInstance)
    with pytest.raises(FencedInstance):
        harness.commit(two.member_id, 1, "s1")
    error = harness.leave(MemberToLeave(two.member_id, "s1"))[0].error
    assert isinstance(error, FencedInstance)
    harness.answer_of(harness.heartbeat(two.member_id, 1), UnknownMember)
    harness.answer_of(harness.heartbeat(back.member_id, 1, instance_id="s1"), Alive)
    harness.commit(one.member_id, 1, "s0")


def test_of_two_waiting_processes_of_one_instance_the_first_is_fenced() -> None:
    harness = GroupHarness()
    one, _ = form_static(harness)
    harness.join()
    first = harness.join(instance_id="s1")
    second = harness.join(instance_id="s1")
    harness.answer_of(first, FencedInstance)
    assert harness.is_waiting(second)
    harness.join(one.member_id)
    assert harness.answer_of(second, JoinedGeneration).generation == 2


def test_an_unknown_instance_id_is_refused() -> None:
    harness = GroupHarness()
    one, _ = form_static(harness)
    harness.answer_of(harness.join(one.member_id, instance_id="s9"), UnknownMember)
    harness.answer_of(harness.heartbeat(one.member_id, 1, instance_id="s9"), UnknownMember)


def test_a_static_member_that_is_down_during_a_rebalance_stays_until_its_session_ends() -> None:
    harness = GroupHarness()
    one, two = harness.finish_joins([harness.join(instance_id=f"s{n}", session_timeout_ms=120_000) for n in range(2)])
    harness.sync_all([one, two])
    new = harness.join(session_timeout_ms=120_000)
    again = harness.join(one.member_id, session_timeout_ms=120_000)
    harness.advance(REBALANCE_S)
    joined = harness.finish_joins([again, new])
    assert {each.member_id for each in joined[0].members} >= {two.member_id}
    harness.sync_all(joined)
    harness.advance(59)
    for each in joined:
        harness.answer_of(harness.heartbeat(each.member_id, 2), Alive)
    harness.advance(2)
    harness.answer_of(harness.heartbeat(one.member_id, 2), RebalanceInProgress)
    assert two.member_id not in harness.members()


def test_the_join_phase_continues_while_all_remaining_members_are_static_and_down() -> None:
    harness = GroupHarness()
    tokens = [harness.join(instance_id=f"s{n}", session_timeout_ms=200_000) for n in range(2)]
    one, two = harness.finish_joins(tokens)
    harness.sync_all([one, two])
    harness.leave(harness.answer_of(_join_third(harness, [one, two]), JoinedGeneration).member_id)
    harness.advance(REBALANCE_S * 2 + 1)
    assert (harness.state, harness.generation, len(harness.members())) == ("PreparingRebalance", 2, 2)
    assert harness.rejoin([one, two])[0].generation == 3


def _join_third(harness: GroupHarness, joined: list[JoinedGeneration]) -> int:
    token = harness.join(session_timeout_ms=200_000)
    harness.sync_all(
        harness.finish_joins([*(harness.join(each.member_id, session_timeout_ms=200_000) for each in joined), token])
    )
    return token


def test_a_static_member_that_is_silent_for_its_session_is_removed() -> None:
    harness = GroupHarness()
    one, _ = form_static(harness)
    harness.advance(SESSION_S - 1)
    harness.check_alive(one)
    harness.advance(2)
    assert harness.members() == [one.member_id]


def test_an_operator_removes_a_static_member_by_its_instance_id() -> None:
    harness = GroupHarness()
    one, two = form_static(harness)
    told = harness.leave(MemberToLeave("", "s1"), MemberToLeave("", "s9"))
    assert [each.error is None for each in told] == [True, False]
    assert harness.members() == [one.member_id]
    harness.answer_of(harness.heartbeat(two.member_id, 1), UnknownMember)


def test_a_rejoin_while_others_sync_begins_another_rebalance() -> None:
    harness = GroupHarness()
    one, two = harness.finish_joins([harness.join(instance_id=f"s{number}") for number in range(2)])
    waiting = harness.sync(one.member_id, 1) if not one.members else harness.sync(two.member_id, 1)
    back = harness.join(instance_id="s0")
    harness.answer_of(waiting, RebalanceInProgress)
    assert harness.answer_of(back, JoinedGeneration).generation == 2 if not harness.is_waiting(back) else True
    assert len(harness.finish_joins([back, harness.join(two.member_id)])) == 2


def test_a_static_member_survives_a_fail_over() -> None:
    harness = GroupHarness()
    _, two = form_static(harness)
    harness.fail_over()
    back = harness.answer_of(harness.join(instance_id="s1"), JoinedGeneration)
    assert harness.answer_of(harness.sync(back.member_id, 1), SyncedGeneration).assignment == two.member_id.encode()
    assert harness.state == "Stable"


def test_a_rejoin_is_answered_only_once_the_new_id_is_stored() -> None:
    harness = GroupHarness()
    form_static(harness)
    harness.stores_at_once = False
    back = harness.join(instance_id="s1")
    assert harness.is_waiting(back)
    harness.store()
    harness.answer_of(back, JoinedGeneration)
