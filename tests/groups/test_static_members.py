"""KIP-345: static members come back without a rebalance, and the process that they were before is fenced."""

import pytest

from raftlog.errors import FencedInstance, RebalanceInProgress, UnknownMember
from raftlog.partitions.groups.effects import Alive
from raftlog.partitions.groups.results import JoinedGeneration, MemberToLeave, SyncedGeneration
from raftlog.types import TopicPartition
from tests.groups.desk import REBALANCE_S, SESSION_S, Desk, protocols


def static(desk: Desk, count: int = 2) -> list[JoinedGeneration]:
    """Form a stable consumer group of static members s0, s1, … ; the leader, s0, is first."""
    joined = desk.formed([desk.join(instance_id=f"s{number}") for number in range(count)])
    desk.assigned(joined)
    return joined


def test_its_id_begins_with_the_instance_id() -> None:
    assert static(Desk())[1].member_id.startswith("s1-")


def test_a_static_member_is_never_sent_away_to_come_with_an_id() -> None:
    desk = Desk()
    assert desk.formed([desk.join(instance_id="s0", requires_known_id=True)])


def test_a_follower_that_comes_back_keeps_its_assignment_without_a_rebalance() -> None:
    desk = Desk()
    one, two = static(desk)
    beat = desk.heartbeat(one.member_id, 1, wait_ms=5000)
    back = desk.said(desk.join(instance_id="s1"), JoinedGeneration)
    assert back.member_id != two.member_id
    assert (back.generation, back.leader, back.members) == (1, one.member_id, ())
    assert (
        desk.said(desk.sync(back.member_id, 1, instance_id="s1"), SyncedGeneration).assignment == two.member_id.encode()
    )
    assert desk.waits(beat)
    assert {each.member_id for each in desk.log["readers"].members} == {one.member_id, back.member_id}


def test_ownership_and_generation_do_not_change_a_subscription() -> None:
    desk = Desk()
    static(desk)
    said = {"owned": (TopicPartition("t", 1),), "generation": 1}
    desk.said(desk.join(instance_id="s1", protocols=protocols("t", **said)), JoinedGeneration)
    assert desk.state == "Stable"


@pytest.mark.parametrize(
    "other", [{"protocols": protocols("t", "u")}, {"protocols": protocols(names=["sticky", "range"])}]
)
def test_a_member_that_comes_back_with_another_subscription_begins_a_rebalance(other: dict[str, object]) -> None:
    desk = Desk()
    one, _ = static(desk)
    back = desk.join(instance_id="s1", **other)
    assert desk.waits(back)
    assert len(desk.formed([desk.join(one.member_id), back])) == 2


def test_a_leader_that_comes_back_and_cannot_lead_any_more_begins_a_rebalance() -> None:
    desk = Desk()
    static(desk)
    assert desk.waits(desk.join(instance_id="s0", can_lead=False))


def test_a_member_that_comes_back_and_votes_for_another_protocol_begins_a_rebalance() -> None:
    desk = Desk()
    names = {"protocols": protocols(names=["range", "sticky"])}
    desk.assigned(desk.formed([desk.join(instance_id=f"s{number}", **names) for number in range(2)]))
    desk.said(desk.join(instance_id="s1", protocols=protocols(names=["sticky", "range"])), JoinedGeneration)
    assert desk.waits(desk.join(instance_id="s0", protocols=protocols(names=["sticky", "range"])))


def test_a_leader_that_comes_back_does_not_lead_until_it_may_skip_the_assignment() -> None:
    """Clients before KIP-814 would assign as soon as an answer names them leader."""
    desk = Desk()
    one, _ = static(desk)
    old_client = desk.said(desk.join(instance_id="s0"), JoinedGeneration)
    assert (old_client.leader, old_client.members, old_client.skip_assignment) == (one.member_id, (), False)
    new_client = desk.said(desk.join(instance_id="s0", can_skip_assignment=True), JoinedGeneration)
    assert (new_client.leader, len(new_client.members), new_client.skip_assignment) == (new_client.member_id, 2, True)
    assert desk.said(desk.sync(new_client.member_id, 1), SyncedGeneration).assignment == one.member_id.encode()


def test_the_older_process_is_fenced() -> None:
    desk = Desk()
    one, two = static(desk)
    beat = desk.heartbeat(two.member_id, 1, wait_ms=5000)
    back = desk.said(desk.join(instance_id="s1"), JoinedGeneration)
    desk.said(beat, FencedInstance)
    desk.said(desk.heartbeat(two.member_id, 1, instance_id="s1"), FencedInstance)
    desk.said(desk.sync(two.member_id, 1, instance_id="s1"), FencedInstance)
    desk.said(desk.join(two.member_id, instance_id="s1"), FencedInstance)
    with pytest.raises(FencedInstance):
        desk.commit(two.member_id, 1, "s1")
    error = desk.leave(MemberToLeave(two.member_id, "s1"))[0].error
    assert isinstance(error, FencedInstance)
    desk.said(desk.heartbeat(two.member_id, 1), UnknownMember)
    desk.said(desk.heartbeat(back.member_id, 1, instance_id="s1"), Alive)
    desk.commit(one.member_id, 1, "s0")


def test_two_processes_of_one_instance_that_wait_together() -> None:
    desk = Desk()
    one, _ = static(desk)
    desk.join()
    first = desk.join(instance_id="s1")
    second = desk.join(instance_id="s1")
    desk.said(first, FencedInstance)
    assert desk.waits(second)
    desk.join(one.member_id)
    assert desk.said(second, JoinedGeneration).generation == 2


def test_an_unknown_static_member() -> None:
    desk = Desk()
    one, _ = static(desk)
    desk.said(desk.join(one.member_id, instance_id="s9"), UnknownMember)
    desk.said(desk.heartbeat(one.member_id, 1, instance_id="s9"), UnknownMember)


def test_a_static_member_that_is_away_during_a_rebalance_stays_until_its_session_ends() -> None:
    desk = Desk()
    one, two = desk.formed([desk.join(instance_id=f"s{n}", session_timeout_ms=120_000) for n in range(2)])
    desk.assigned([one, two])
    new = desk.join(session_timeout_ms=120_000)
    again = desk.join(one.member_id, session_timeout_ms=120_000)
    desk.after(REBALANCE_S)
    joined = desk.formed([again, new])
    assert {each.member_id for each in joined[0].members} >= {two.member_id}
    desk.assigned(joined)
    desk.after(59)
    for each in joined:
        desk.said(desk.heartbeat(each.member_id, 2), Alive)
    desk.after(2)
    desk.said(desk.heartbeat(one.member_id, 2), RebalanceInProgress)
    assert two.member_id not in desk.members()


def test_when_only_static_members_are_left_and_all_are_away_nothing_is_decided() -> None:
    desk = Desk()
    tokens = [desk.join(instance_id=f"s{n}", session_timeout_ms=200_000) for n in range(2)]
    one, two = desk.formed(tokens)
    desk.assigned([one, two])
    desk.leave(desk.said(_third(desk, [one, two]), JoinedGeneration).member_id)
    desk.after(REBALANCE_S * 2 + 1)
    assert (desk.state, desk.generation, len(desk.members())) == ("PreparingRebalance", 2, 2)
    assert desk.again([one, two])[0].generation == 3


def _third(desk: Desk, joined: list[JoinedGeneration]) -> int:
    token = desk.join(session_timeout_ms=200_000)
    desk.assigned(desk.formed([*(desk.join(each.member_id, session_timeout_ms=200_000) for each in joined), token]))
    return token


def test_a_static_member_absent_for_its_session_is_removed() -> None:
    desk = Desk()
    one, _ = static(desk)
    desk.after(SESSION_S - 1)
    desk.alive(one)
    desk.after(2)
    assert desk.members() == [one.member_id]


def test_an_operator_removes_a_static_member_by_its_instance_id() -> None:
    desk = Desk()
    one, two = static(desk)
    told = desk.leave(MemberToLeave("", "s1"), MemberToLeave("", "s9"))
    assert [each.error is None for each in told] == [True, False]
    assert desk.members() == [one.member_id]
    desk.said(desk.heartbeat(two.member_id, 1), UnknownMember)


def test_coming_back_while_others_sync_begins_another_rebalance() -> None:
    desk = Desk()
    one, two = desk.formed([desk.join(instance_id=f"s{number}") for number in range(2)])
    waiting = desk.sync(one.member_id, 1) if not one.members else desk.sync(two.member_id, 1)
    back = desk.join(instance_id="s0")
    desk.said(waiting, RebalanceInProgress)
    assert desk.said(back, JoinedGeneration).generation == 2 if not desk.waits(back) else True
    assert len(desk.formed([back, desk.join(two.member_id)])) == 2


def test_a_static_member_survives_a_fail_over() -> None:
    desk = Desk()
    _, two = static(desk)
    desk.fail_over()
    back = desk.said(desk.join(instance_id="s1"), JoinedGeneration)
    assert desk.said(desk.sync(back.member_id, 1), SyncedGeneration).assignment == two.member_id.encode()
    assert desk.state == "Stable"


def test_it_is_not_announced_before_its_new_id_is_stored() -> None:
    desk = Desk()
    static(desk)
    desk.stores_at_once = False
    back = desk.join(instance_id="s1")
    assert desk.waits(back)
    desk.store()
    desk.said(back, JoinedGeneration)
