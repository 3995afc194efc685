"""No generation or assignment is answered before it is stored; and the state that a later coordinator reads."""

import pytest

from raftlog.errors import NotLeader, OutcomeUnknown, Overloaded, RebalanceInProgress, StaleGeneration, UnknownMember
from raftlog.partitions.groups.effects import Alive
from raftlog.partitions.groups.results import JoinedGeneration, SyncedGeneration
from tests.groups.desk import HOLD_S, REBALANCE_S, SESSION_S, Desk, protocols

LOST = OutcomeUnknown("another leads before it was committed")


def waiting_desk() -> Desk:
    desk = Desk()
    desk.stores_at_once = False
    return desk


def test_joins_are_answered_when_the_generation_is_stored() -> None:
    desk = waiting_desk()
    tokens = [desk.join(), desk.join()]
    desk.after(3 * HOLD_S)
    assert all(map(desk.waits, tokens))
    (store,) = desk.unstored
    assert store.record is not None
    assert (store.record.generation, len(store.record.members), store.record.is_assigned) == (1, 2, False)
    desk.store()
    assert desk.formed(tokens)[0].generation == 1


def test_while_a_generation_is_stored_nothing_of_it_is_answered() -> None:
    """Neither a repeated request nor one with the guessed number is answered."""
    desk = Desk()
    one, two = desk.stable(2)
    desk.stores_at_once = False
    tokens = [desk.join(one.member_id, protocols=protocols("u")), desk.join(two.member_id)]
    assert desk.state == "CompletingRebalance"
    repeated = desk.join(two.member_id)
    desk.said(tokens[1], RebalanceInProgress)
    desk.said(desk.sync(one.member_id, 2, {}), RebalanceInProgress)
    assert desk.waits(repeated)
    desk.store()
    assert desk.formed([tokens[0], repeated])[0].generation == 2


def test_syncs_are_answered_when_the_assignments_are_stored() -> None:
    desk = Desk()
    one, two = desk.form(2)
    desk.stores_at_once = False
    tokens = [desk.sync(one.member_id, 1, {one.member_id: b"1", two.member_id: b"2"}), desk.sync(two.member_id, 1)]
    repeated = desk.sync(one.member_id, 1, {one.member_id: b"other"})
    assert (desk.waits(tokens[1]), desk.waits(repeated), desk.state) == (True, True, "CompletingRebalance")
    (store,) = desk.unstored
    assert store.record is not None
    assert store.record.is_assigned
    desk.store()
    assert desk.said(repeated, SyncedGeneration).assignment == b"1"
    assert desk.said(tokens[1], SyncedGeneration).assignment == b"2"


def test_a_generation_that_was_not_stored_is_never_answered() -> None:
    desk = waiting_desk()
    tokens = [desk.join(instance_id="s0"), desk.join()]
    desk.after(3 * HOLD_S)
    desk.store(LOST)
    assert all(isinstance(desk.said(token, NotLeader), NotLeader) for token in tokens)
    assert len(desk.members()) == 1  # the member without its id was removed
    desk.stores_at_once = True
    assert desk.formed([desk.join(instance_id="s0")])[0].generation == 2


def test_a_definite_refusal_is_passed_on() -> None:
    desk = waiting_desk()
    token = desk.join()
    desk.after(3 * HOLD_S)
    desk.store(Overloaded("the log is full of work"))
    desk.said(token, Overloaded)


def test_assignments_that_were_not_stored_are_never_answered() -> None:
    desk = Desk()
    one, two = desk.form(2)
    desk.stores_at_once = False
    tokens = [desk.sync(two.member_id, 1), desk.sync(one.member_id, 1, {two.member_id: b"2"})]
    desk.store(LOST)
    for token in tokens:
        desk.said(token, NotLeader)
    desk.stores_at_once = True
    joined = desk.again([one, two])
    assert joined[0].generation == 2
    desk.assigned(joined)


def test_members_that_come_while_a_generation_is_stored_share_the_next() -> None:
    desk = waiting_desk()
    first = desk.join()
    desk.after(3 * HOLD_S)
    more = [desk.join() for _ in range(20)]
    assert len(desk.unstored) == 1
    desk.store(count=1)
    assert len(desk.unstored) == 1
    desk.store()
    assert {each.generation for each in desk.formed([first, *more])} == {2}
    assert len(desk.stored) == 2


def test_the_join_phase_of_a_group_that_is_slow_to_store_still_ends() -> None:
    desk = waiting_desk()
    one = desk.join()
    desk.after(3 * HOLD_S)
    two = desk.join()
    desk.after(2 * REBALANCE_S)
    assert desk.waits(one)
    assert desk.waits(two)
    desk.store()
    assert len(desk.formed([one, two])) == 2


def test_a_group_that_becomes_empty_while_it_is_stored() -> None:
    desk = waiting_desk()
    token = desk.join()
    desk.after(3 * HOLD_S)
    desk.cancel(token)
    assert desk.state == "Empty"
    desk.store()
    assert (desk.state, desk.log["readers"].generation) == ("Empty", 2)
    desk.stores_at_once = True
    assert desk.form(1)[0].generation == 3


def test_an_emptiness_that_was_not_stored_harms_nothing() -> None:
    desk = Desk()
    (one,) = desk.stable(1)
    desk.stores_at_once = False
    desk.leave(one.member_id)
    desk.store(LOST)
    desk.stores_at_once = True
    assert desk.form(1)[0].generation == 3


def test_waiting_requests_fail_when_the_coordinator_stops() -> None:
    desk = Desk()
    one, _ = desk.form(2)
    tokens = [desk.heartbeat(one.member_id, 1, wait_ms=5000), desk.join(group="other"), desk.delete("third")]
    desk.stores_at_once = False
    tokens = [*tokens[:2], desk.sync(one.member_id, 1, {}), desk.delete("fourth")]
    desk.machine.stop(NotLeader("another leads"))
    desk.effects()
    for token in tokens:
        desk.said(token, NotLeader)
    desk.store()  # the outcome of the last record affects no request
    assert desk.machine.names() == []


# a later coordinator


def test_a_stable_group_goes_on_after_a_fail_over() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    desk.fail_over()
    assert desk.state == "Stable"
    desk.commit(one.member_id, 1)
    desk.alive(one, two)
    assert desk.said(desk.sync(two.member_id, 1), SyncedGeneration).assignment == two.member_id.encode()
    assert desk.said(desk.join(two.member_id), JoinedGeneration) == two
    desk.after(SESSION_S - 1)
    desk.alive(one)
    desk.after(2)
    assert desk.members() == [one.member_id]


def test_f47_a_fail_over_between_join_and_sync_keeps_the_generation() -> None:
    desk = Desk()
    one, two = desk.form(2)
    desk.fail_over()
    assert desk.state == "CompletingRebalance"
    desk.assigned([one, two])
    assert desk.generation == 1


def test_f47_a_fail_over_before_the_generation_is_stored_goes_on_with_the_one_before() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    desk.stores_at_once = False
    tokens = [desk.join(one.member_id, protocols=protocols("u")), desk.join(two.member_id)]
    desk.fail_over()
    assert all(map(desk.waits, tokens))
    desk.stores_at_once = True
    desk.commit(two.member_id, 1)
    assert desk.again([one, two], protocols=protocols("u"))[0].generation == 2


def test_f47_a_generation_that_was_stored_and_not_answered_is_not_used_again() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    desk.leave(two.member_id)
    desk.stores_at_once = False
    desk.join(one.member_id)
    desk.log["readers"] = desk.unstored[0].record or desk.log["readers"]  # it is in the log, but was not answered
    desk.fail_over()
    desk.stores_at_once = True
    with pytest.raises(StaleGeneration):
        desk.commit(one.member_id, 1)
    with pytest.raises(UnknownMember):
        desk.commit(two.member_id, 1)
    assert desk.said(desk.join(one.member_id), JoinedGeneration).generation == 2


def test_members_that_do_not_reach_the_new_coordinator_expire_after_their_sessions() -> None:
    desk = Desk()
    desk.stable(3)
    desk.fail_over()
    desk.after(SESSION_S + REBALANCE_S)
    assert (desk.state, desk.generation) == ("Empty", 2)
    desk.fail_over()
    assert (desk.state, desk.generation, desk.machine.next_timer()) == ("Empty", 2, None)
    assert desk.form(1)[0].generation == 3


def test_a_loaded_member_that_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    desk = Desk()
    one, two = desk.form(2)
    desk.fail_over()
    for _ in range(int(REBALANCE_S // 5)):
        desk.said(desk.heartbeat(one.member_id, 1), Alive)
        desk.sync(two.member_id, 1)
        desk.after(5)
    assert desk.members() == [two.member_id]
