"""Generations and assignments are answered only once they are stored; a later coordinator reads the same state."""

import pytest

from raftlog.errors import NotLeader, OutcomeUnknown, Overloaded, RebalanceInProgress, StaleGeneration, UnknownMember
from raftlog.partitions.groups.effects import Alive
from raftlog.partitions.groups.results import JoinedGeneration, SyncedGeneration
from tests.groups.group_harness import HOLD_S, REBALANCE_S, SESSION_S, GroupHarness, make_protocols

LOST = OutcomeUnknown("another leads before it was committed")


def make_unstored_harness() -> GroupHarness:
    harness = GroupHarness()
    harness.stores_at_once = False
    return harness


def test_joins_are_answered_when_the_generation_is_stored() -> None:
    harness = make_unstored_harness()
    tokens = [harness.join(), harness.join()]
    harness.advance(3 * HOLD_S)
    assert all(map(harness.is_waiting, tokens))
    (store,) = harness.unstored
    assert store.record is not None
    assert (store.record.generation, len(store.record.members), store.record.is_assigned) == (1, 2, False)
    harness.store()
    assert harness.finish_joins(tokens)[0].generation == 1


def test_nothing_of_a_generation_is_answered_before_it_is_stored() -> None:
    """Neither a repeated request nor one with the guessed generation is answered."""
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    harness.stores_at_once = False
    tokens = [harness.join(one.member_id, protocols=make_protocols("u")), harness.join(two.member_id)]
    assert harness.state == "CompletingRebalance"
    repeated = harness.join(two.member_id)
    harness.answer_of(tokens[1], RebalanceInProgress)
    harness.answer_of(harness.sync(one.member_id, 2, {}), RebalanceInProgress)
    assert harness.is_waiting(repeated)
    harness.store()
    assert harness.finish_joins([tokens[0], repeated])[0].generation == 2


def test_syncs_are_answered_when_the_assignments_are_stored() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    harness.stores_at_once = False
    tokens = [
        harness.sync(one.member_id, 1, {one.member_id: b"1", two.member_id: b"2"}),
        harness.sync(two.member_id, 1),
    ]
    repeated = harness.sync(one.member_id, 1, {one.member_id: b"other"})
    assert (harness.is_waiting(tokens[1]), harness.is_waiting(repeated), harness.state) == (
        True,
        True,
        "CompletingRebalance",
    )
    (store,) = harness.unstored
    assert store.record is not None
    assert store.record.is_assigned
    harness.store()
    assert harness.answer_of(repeated, SyncedGeneration).assignment == b"1"
    assert harness.answer_of(tokens[1], SyncedGeneration).assignment == b"2"


def test_a_generation_that_was_not_stored_is_never_answered() -> None:
    harness = make_unstored_harness()
    tokens = [harness.join(instance_id="s0"), harness.join()]
    harness.advance(3 * HOLD_S)
    harness.store(LOST)
    assert all(isinstance(harness.answer_of(token, NotLeader), NotLeader) for token in tokens)
    assert len(harness.members()) == 1  # the member without its id was removed
    harness.stores_at_once = True
    assert harness.finish_joins([harness.join(instance_id="s0")])[0].generation == 2


def test_a_definite_refusal_by_the_log_is_returned() -> None:
    harness = make_unstored_harness()
    token = harness.join()
    harness.advance(3 * HOLD_S)
    harness.store(Overloaded("the log is full of work"))
    harness.answer_of(token, Overloaded)


def test_assignments_that_were_not_stored_are_never_answered() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    harness.stores_at_once = False
    tokens = [harness.sync(two.member_id, 1), harness.sync(one.member_id, 1, {two.member_id: b"2"})]
    harness.store(LOST)
    for token in tokens:
        harness.answer_of(token, NotLeader)
    harness.stores_at_once = True
    joined = harness.rejoin([one, two])
    assert joined[0].generation == 2
    harness.sync_all(joined)


def test_members_that_join_while_a_generation_is_stored_share_the_next() -> None:
    harness = make_unstored_harness()
    first = harness.join()
    harness.advance(3 * HOLD_S)
    more = [harness.join() for _ in range(20)]
    assert len(harness.unstored) == 1
    harness.store(count=1)
    assert len(harness.unstored) == 1
    harness.store()
    assert {each.generation for each in harness.finish_joins([first, *more])} == {2}
    assert len(harness.stored) == 2


def test_the_join_phase_ends_although_storing_is_slow() -> None:
    harness = make_unstored_harness()
    one = harness.join()
    harness.advance(3 * HOLD_S)
    two = harness.join()
    harness.advance(2 * REBALANCE_S)
    assert harness.is_waiting(one)
    assert harness.is_waiting(two)
    harness.store()
    assert len(harness.finish_joins([one, two])) == 2


def test_a_group_may_become_empty_while_its_generation_is_stored() -> None:
    harness = make_unstored_harness()
    token = harness.join()
    harness.advance(3 * HOLD_S)
    harness.cancel(token)
    assert harness.state == "Empty"
    harness.store()
    assert (harness.state, harness.log["readers"].generation) == ("Empty", 2)
    harness.stores_at_once = True
    assert harness.form(1)[0].generation == 3


def test_a_group_works_after_its_emptiness_was_not_stored() -> None:
    harness = GroupHarness()
    (one,) = harness.form_stable(1)
    harness.stores_at_once = False
    harness.leave(one.member_id)
    harness.store(LOST)
    harness.stores_at_once = True
    assert harness.form(1)[0].generation == 3


def test_waiting_requests_fail_when_the_coordinator_stops() -> None:
    harness = GroupHarness()
    one, _ = harness.form(2)
    tokens = [harness.heartbeat(one.member_id, 1, wait_ms=5000), harness.join(group="other"), harness.delete("third")]
    harness.stores_at_once = False
    tokens = [*tokens[:2], harness.sync(one.member_id, 1, {}), harness.delete("fourth")]
    harness.machine.stop(NotLeader("another leads"))
    harness.take_effects()
    for token in tokens:
        harness.answer_of(token, NotLeader)
    harness.store()  # the outcome of the last record affects no request
    assert harness.machine.names() == []


# a later coordinator


def test_a_stable_group_continues_after_a_fail_over() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    harness.fail_over()
    assert harness.state == "Stable"
    harness.commit(one.member_id, 1)
    harness.check_alive(one, two)
    assert harness.answer_of(harness.sync(two.member_id, 1), SyncedGeneration).assignment == two.member_id.encode()
    assert harness.answer_of(harness.join(two.member_id), JoinedGeneration) == two
    harness.advance(SESSION_S - 1)
    harness.check_alive(one)
    harness.advance(2)
    assert harness.members() == [one.member_id]


def test_f47_a_fail_over_between_join_and_sync_keeps_the_generation() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    harness.fail_over()
    assert harness.state == "CompletingRebalance"
    harness.sync_all([one, two])
    assert harness.generation == 1


def test_f47_a_fail_over_before_the_generation_is_stored_continues_the_one_before() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    harness.stores_at_once = False
    tokens = [harness.join(one.member_id, protocols=make_protocols("u")), harness.join(two.member_id)]
    harness.fail_over()
    assert all(map(harness.is_waiting, tokens))
    harness.stores_at_once = True
    harness.commit(two.member_id, 1)
    assert harness.rejoin([one, two], protocols=make_protocols("u"))[0].generation == 2


def test_f47_a_stored_generation_without_an_answer_is_not_used_again() -> None:
    harness = GroupHarness()
    one, two = harness.form_stable(2)
    harness.leave(two.member_id)
    harness.stores_at_once = False
    harness.join(one.member_id)
    harness.log["readers"] = (
        harness.unstored[0].record or harness.log["readers"]
    )  # it is in the log, but was not answered
    harness.fail_over()
    harness.stores_at_once = True
    with pytest.raises(StaleGeneration):
        harness.commit(one.member_id, 1)
    with pytest.raises(UnknownMember):
        harness.commit(two.member_id, 1)
    assert harness.answer_of(harness.join(one.member_id), JoinedGeneration).generation == 2


def test_members_that_do_not_reach_the_new_coordinator_expire_after_their_sessions() -> None:
    harness = GroupHarness()
    harness.form_stable(3)
    harness.fail_over()
    harness.advance(SESSION_S + REBALANCE_S)
    assert (harness.state, harness.generation) == ("Empty", 2)
    harness.fail_over()
    assert (harness.state, harness.generation, harness.machine.next_timer()) == ("Empty", 2, None)
    assert harness.form(1)[0].generation == 3


def test_a_loaded_member_that_never_syncs_is_removed_after_the_rebalance_timeout() -> None:
    harness = GroupHarness()
    one, two = harness.form(2)
    harness.fail_over()
    for _ in range(int(REBALANCE_S // 5)):
        harness.answer_of(harness.heartbeat(one.member_id, 1), Alive)
        harness.sync(two.member_id, 1)
        harness.advance(5)
    assert harness.members() == [two.member_id]
