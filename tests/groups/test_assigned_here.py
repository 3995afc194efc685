"""Groups whose members leave the assignment to the coordinator, also beside members that lead."""

import pytest

from raftlog.assignors import decode_assignment
from raftlog.errors import RebalanceInProgress
from raftlog.partitions.groups.results import JoinedGeneration, SyncedGeneration
from raftlog.types import TopicPartition
from tests.groups.group_harness import GroupHarness, make_protocols


def form_without_leader(harness: GroupHarness, count: int, **join: object) -> list[JoinedGeneration]:
    return harness.form(count, can_lead=False, **join)


def find_owners(harness: GroupHarness, joined: list[JoinedGeneration]) -> dict[TopicPartition, str]:
    found = {}
    for each in joined:
        assignment = harness.answer_of(harness.sync(each.member_id, each.generation), SyncedGeneration).assignment
        for partition in decode_assignment(assignment).partitions:
            assert partition not in found
            found[partition] = each.member_id
    return found


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
def test_the_coordinator_assigns_when_no_member_can_lead(name: str) -> None:
    harness = GroupHarness(partitions={"t": 5, "u": 3})
    joined = form_without_leader(harness, 3, protocols=make_protocols("t", "u", names=[name]))
    assert harness.state == "Stable"
    assert {(each.leader, each.members, each.protocol) for each in joined} == {("", (), name)}
    found = find_owners(harness, joined)
    assert set(found) == {TopicPartition("t", n) for n in range(5)} | {TopicPartition("u", n) for n in range(3)}
    assert len(harness.stored) == 1


def test_joins_and_assignments_are_stored_together_before_any_answer() -> None:
    harness = GroupHarness()
    harness.stores_at_once = False
    token = harness.join(can_lead=False)
    harness.advance(1)
    assert harness.is_waiting(token)
    assert harness.unstored[0].record is not None
    assert harness.unstored[0].record.is_assigned
    harness.store()
    assert len(find_owners(harness, [harness.answer_of(token, JoinedGeneration)])) == 4


def test_a_capable_member_leads_for_all() -> None:
    harness = GroupHarness()
    joined = harness.finish_joins([harness.join(can_lead=False), harness.join(), harness.join(can_lead=False)])
    assert joined[0].leader == harness.members()[1]
    harness.sync_all(joined)
    harness.leave(joined[0].member_id)
    again = [harness.join(each.member_id, can_lead=False) for each in joined[1:]]
    assert {harness.answer_of(token, JoinedGeneration).leader for token in again} == {""}
    assert harness.state == "Stable"


def test_the_coordinator_assigns_while_the_static_leader_is_away() -> None:
    harness = GroupHarness()
    first = harness.join(instance_id="s0", session_timeout_ms=300_000)
    joined = harness.finish_joins([first, harness.join(can_lead=False, session_timeout_ms=300_000)])
    harness.sync_all(joined)
    other = joined[1].member_id
    again = harness.join(other, can_lead=False, protocols=make_protocols("t", generation=1), session_timeout_ms=300_000)
    harness.advance(61)
    assert harness.answer_of(again, JoinedGeneration).leader == ""
    assert len(find_owners(harness, [harness.answer_of(again, JoinedGeneration)])) == 2


def test_new_partitions_and_topics_begin_a_rebalance_only_of_their_subscribers() -> None:
    harness = GroupHarness()
    (one,) = form_without_leader(harness, 1, protocols=make_protocols("t", "later"))
    beat = harness.heartbeat(one.member_id, 1, wait_ms=5000)
    harness.partitions["other"] = 3
    harness.machine.topics_changed(harness.now)
    harness.take_effects()
    assert harness.is_waiting(beat)
    for topic, count in (("t", 6), ("later", 1)):
        harness.partitions[topic] = count
        harness.machine.topics_changed(harness.now)
        harness.take_effects()
        assert harness.state == "PreparingRebalance"
        (one,) = harness.rejoin([one], protocols=make_protocols("t", "later"), can_lead=False)
    harness.answer_of(beat, RebalanceInProgress)
    assert len(find_owners(harness, [one])) == 7
    del harness.partitions["t"]
    harness.machine.topics_changed(harness.now)
    assert harness.state == "PreparingRebalance"


def test_a_leader_watches_its_topics_without_the_coordinator() -> None:
    harness = GroupHarness()
    harness.form_stable(1)
    harness.partitions["t"] = 9
    harness.machine.topics_changed(harness.now)
    assert harness.state == "Stable"


def test_a_fail_over_begins_a_rebalance_only_if_topics_changed_meanwhile() -> None:
    harness = GroupHarness()
    form_without_leader(harness, 2)
    harness.fail_over()
    assert harness.state == "Stable"
    harness.partitions["t"] = 9
    harness.fail_over()
    assert harness.state == "PreparingRebalance"


def test_sticky_members_with_owned_partitions_keep_them() -> None:
    harness = GroupHarness()
    one, two = form_without_leader(harness, 2, protocols=make_protocols(names=["sticky"]))
    mine = {one.member_id: [0, 1], two.member_id: [2, 3]}
    if TopicPartition("t", 0) in find_owners(harness, [one]):
        mine = {one.member_id: [2, 3], two.member_id: [0, 1]}
    said = {
        member: make_protocols(names=["sticky"], owned=tuple(TopicPartition("t", number) for number in numbers))
        for member, numbers in mine.items()
    }
    tokens = [harness.join(member, can_lead=False, protocols=each) for member, each in said.items()]
    found = find_owners(harness, harness.finish_joins(tokens))
    assert found == {TopicPartition("t", number): member for member, numbers in mine.items() for number in numbers}


def test_sticky_members_without_owned_partitions_keep_their_assignment() -> None:
    harness = GroupHarness(partitions={"t": 12})
    sticky = make_protocols(names=["sticky"])
    joined = form_without_leader(harness, 3, protocols=sticky)
    before = find_owners(harness, joined)
    new = harness.join(can_lead=False, protocols=sticky)
    tokens = [harness.join(each.member_id, can_lead=False, protocols=sticky) for each in reversed(joined)]
    after = find_owners(harness, harness.finish_joins([new, *tokens]))
    assert sum(after[partition] != owner for partition, owner in before.items()) == 3
