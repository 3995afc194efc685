"""Groups whose members leave the assignment to the coordinator, and such members beside others that lead."""

import pytest

from raftlog.assignors import decode_assignment
from raftlog.errors import RebalanceInProgress
from raftlog.partitions.groups.results import JoinedGeneration, SyncedGeneration
from raftlog.types import TopicPartition
from tests.groups.desk import Desk, protocols


def here(desk: Desk, count: int, **join: object) -> list[JoinedGeneration]:
    return desk.form(count, can_lead=False, **join)


def owners(desk: Desk, joined: list[JoinedGeneration]) -> dict[TopicPartition, str]:
    found = {}
    for each in joined:
        assignment = desk.said(desk.sync(each.member_id, each.generation), SyncedGeneration).assignment
        for partition in decode_assignment(assignment).partitions:
            assert partition not in found
            found[partition] = each.member_id
    return found


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
def test_the_coordinator_assigns_when_no_member_can_lead(name: str) -> None:
    desk = Desk(partitions={"t": 5, "u": 3})
    joined = here(desk, 3, protocols=protocols("t", "u", names=[name]))
    assert desk.state == "Stable"
    assert {(each.leader, each.members, each.protocol) for each in joined} == {("", (), name)}
    found = owners(desk, joined)
    assert set(found) == {TopicPartition("t", n) for n in range(5)} | {TopicPartition("u", n) for n in range(3)}
    assert len(desk.stored) == 1


def test_joins_and_assignments_are_stored_together_before_any_answer() -> None:
    desk = Desk()
    desk.stores_at_once = False
    token = desk.join(can_lead=False)
    desk.after(1)
    assert desk.waits(token)
    assert desk.unstored[0].record is not None
    assert desk.unstored[0].record.is_assigned
    desk.store()
    assert len(owners(desk, [desk.said(token, JoinedGeneration)])) == 4


def test_a_capable_member_leads_for_all() -> None:
    desk = Desk()
    joined = desk.formed([desk.join(can_lead=False), desk.join(), desk.join(can_lead=False)])
    assert joined[0].leader == desk.members()[1]
    desk.assigned(joined)
    desk.leave(joined[0].member_id)
    again = [desk.join(each.member_id, can_lead=False) for each in joined[1:]]
    assert {desk.said(token, JoinedGeneration).leader for token in again} == {""}
    assert desk.state == "Stable"


def test_a_static_leader_that_is_away_leaves_it_to_the_coordinator() -> None:
    desk = Desk()
    first = desk.join(instance_id="s0", session_timeout_ms=300_000)
    joined = desk.formed([first, desk.join(can_lead=False, session_timeout_ms=300_000)])
    desk.assigned(joined)
    other = joined[1].member_id
    again = desk.join(other, can_lead=False, protocols=protocols("t", generation=1), session_timeout_ms=300_000)
    desk.after(61)
    assert desk.said(again, JoinedGeneration).leader == ""
    assert len(owners(desk, [desk.said(again, JoinedGeneration)])) == 2


def test_new_partitions_and_topics_begin_a_rebalance_where_they_matter() -> None:
    desk = Desk()
    (one,) = here(desk, 1, protocols=protocols("t", "later"))
    beat = desk.heartbeat(one.member_id, 1, wait_ms=5000)
    desk.partitions["other"] = 3
    desk.machine.topics_changed(desk.now)
    desk.effects()
    assert desk.waits(beat)
    for topic, count in (("t", 6), ("later", 1)):
        desk.partitions[topic] = count
        desk.machine.topics_changed(desk.now)
        desk.effects()
        assert desk.state == "PreparingRebalance"
        (one,) = desk.again([one], protocols=protocols("t", "later"), can_lead=False)
    desk.said(beat, RebalanceInProgress)
    assert len(owners(desk, [one])) == 7
    del desk.partitions["t"]
    desk.machine.topics_changed(desk.now)
    assert desk.state == "PreparingRebalance"


def test_a_leader_looks_after_topics_itself() -> None:
    desk = Desk()
    desk.stable(1)
    desk.partitions["t"] = 9
    desk.machine.topics_changed(desk.now)
    assert desk.state == "Stable"


def test_after_a_fail_over_only_what_changed_meanwhile_begins_a_rebalance() -> None:
    desk = Desk()
    here(desk, 2)
    desk.fail_over()
    assert desk.state == "Stable"
    desk.partitions["t"] = 9
    desk.fail_over()
    assert desk.state == "PreparingRebalance"


def test_sticky_members_with_owned_partitions_keep_them() -> None:
    desk = Desk()
    one, two = here(desk, 2, protocols=protocols(names=["sticky"]))
    mine = {one.member_id: [0, 1], two.member_id: [2, 3]}
    if TopicPartition("t", 0) in owners(desk, [one]):
        mine = {one.member_id: [2, 3], two.member_id: [0, 1]}
    said = {
        member: protocols(names=["sticky"], owned=tuple(TopicPartition("t", number) for number in numbers))
        for member, numbers in mine.items()
    }
    tokens = [desk.join(member, can_lead=False, protocols=each) for member, each in said.items()]
    found = owners(desk, desk.formed(tokens))
    assert found == {TopicPartition("t", number): member for member, numbers in mine.items() for number in numbers}


def test_sticky_members_without_owned_partitions_keep_their_assignment() -> None:
    desk = Desk(partitions={"t": 12})
    sticky = protocols(names=["sticky"])
    joined = here(desk, 3, protocols=sticky)
    before = owners(desk, joined)
    new = desk.join(can_lead=False, protocols=sticky)
    tokens = [desk.join(each.member_id, can_lead=False, protocols=sticky) for each in reversed(joined)]
    after = owners(desk, desk.formed([new, *tokens]))
    assert sum(after[partition] != owner for partition, owner in before.items()) == 3
