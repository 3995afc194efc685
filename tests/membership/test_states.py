"""The table of states: every cell follows its rule; the resulting view does not depend on the order of claims."""

from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.membership.config import SwimConfig
from raftlog.membership.member import Claim, GossipIdentity, MemberState
from raftlog.membership.states import TRANSITIONS, Effect, Order, compare_incarnations, find_verdict
from raftlog.membership.view import MembershipView
from raftlog.types import NodeId
from tests.membership.gossip import ALIVE, DEAD, LEFT, SUSPECT, address, claim, disk, member

INCARNATION = {Order.OLDER: 4, Order.SAME: 5, Order.NEWER: 6}


@pytest.mark.parametrize(("known", "claimed", "when"), list(product(MemberState, MemberState, Order)))
def test_every_cell_of_the_table_follows_its_rule(known: MemberState, claimed: MemberState, when: Order) -> None:
    verdict = find_verdict(member(7, known, 5), claim(7, claimed, INCARNATION[when]))
    if when is Order.OLDER:
        assert verdict is Effect.KEEP
    elif when is Order.NEWER or claimed > known:
        assert verdict is claimed
    elif claimed is known is SUSPECT:
        assert verdict is Effect.CONFIRM
    else:
        assert verdict is Effect.KEEP
    assert verdict is TRANSITIONS[known][when][claimed]


@pytest.mark.parametrize("claimed", list(MemberState))
def test_any_claim_about_an_unknown_member_is_accepted(claimed: MemberState) -> None:
    assert find_verdict(None, claim(7, claimed, 1)) is claimed


def test_the_table_has_every_state_and_claim() -> None:
    assert set(TRANSITIONS) == {None, *MemberState}
    assert all(set(TRANSITIONS[state]) == set(Order) for state in MemberState)
    assert all(set(cells) == set(MemberState) for orders in TRANSITIONS.values() for cells in orders.values())


@pytest.mark.parametrize(("known", "claimed", "when"), list(product(MemberState, MemberState, Order)))
def test_another_disk_replaces_the_holder_of_a_node_id_only_when_it_is_down(
    known: MemberState, claimed: MemberState, when: Order
) -> None:
    """The holder keeps the node id while it is up, whatever the state of other disks."""
    verdict = find_verdict(member(7, known, 5), claim(7, claimed, INCARNATION[when], on=disk(7, 1)))
    if known.is_up:
        assert verdict is (Effect.CONFLICT if claimed.is_up else Effect.KEEP)
    else:
        assert verdict is (Effect.KEEP if when is Order.OLDER else claimed)


def test_between_two_dead_disks_the_greater_uuid_breaks_a_tie() -> None:
    ours, theirs = member(7, DEAD, 5), claim(7, DEAD, 5, on=disk(7, 1))
    assert compare_incarnations(ours, theirs) is Order.NEWER
    assert compare_incarnations(ours._replace(disk_uuid=disk(7, 2)), theirs) is Order.OLDER


# results of many claims

CLAIMS = st.builds(
    claim,
    node=st.just(7),
    state=st.sampled_from(MemberState),
    incarnation=st.integers(1, 4),
    by=st.integers(1, 4),
    told=st.booleans(),
)


def make_view(me: int = 1) -> MembershipView:
    """Return a view that has node 7, alive, from one claim."""
    identity = GossipIdentity(NodeId(me), disk(me), address(me), 1)
    new = MembershipView(identity, b"", SwimConfig(), Random(0))
    new.handle_claim(claim(7, ALIVE, 1), 0.0)
    return new


def state_in(by: MembershipView) -> tuple[int, MemberState, int]:
    known = by.roster.get(NodeId(7))
    assert known is not None
    return known.incarnation, known.state, known.about.incarnation


def state_after(claims: list[Claim]) -> tuple[int, MemberState, int]:
    one = make_view()
    for each in claims:
        one.handle_claim(each, 0.0)
    return state_in(one)


@given(st.lists(CLAIMS, max_size=12), st.randoms(use_true_random=False))
def test_swim_4_2_claims_commute_and_repeat_without_effect(claims: list[Claim], random: Random) -> None:
    shuffled = [*claims, *random.sample(claims, len(claims) // 2)]
    random.shuffle(shuffled)
    assert state_after(shuffled) == state_after(claims)


@given(st.lists(CLAIMS, max_size=8), st.lists(CLAIMS, max_size=8), st.lists(CLAIMS, max_size=8))
def test_claims_are_associative(one: list[Claim], two: list[Claim], three: list[Claim]) -> None:
    def claim_after(claims: list[Claim]) -> Claim:
        sender_identity = make_view(2)
        for each in claims:
            sender_identity.handle_claim(each, 0.0)
        known = sender_identity.roster.get(NodeId(7))
        assert known is not None
        return sender_identity.claim_about(known, 0.0, with_about=True)

    left = state_after([claim_after([claim_after(one), *two]), *three])
    right = state_after([*one, claim_after([*two, claim_after(three)])])
    assert left == right == state_after([*one, *two, *three])


@given(st.lists(CLAIMS, min_size=1, max_size=12))
def test_the_newest_claim_holds(claims: list[Claim]) -> None:
    newest = max([(1, ALIVE), *((each.incarnation, each.state) for each in claims)])
    assert state_after(claims)[:2] == newest


@given(st.lists(CLAIMS, max_size=12))
def test_a_suspicion_runs_exactly_while_a_member_is_suspected(claims: list[Claim]) -> None:
    one = make_view()
    for each in claims:
        one.handle_claim(each, 0.0)
        assert (NodeId(7) in one.suspicions) == (state_in(one)[1] is SUSPECT)


@given(st.lists(CLAIMS, max_size=12))
def test_incarnations_in_a_view_never_fall(claims: list[Claim]) -> None:
    one = make_view()
    before = state_in(one)
    for each in claims:
        one.handle_claim(each, 0.0)
        now = state_in(one)
        assert now[:2] >= before[:2]
        assert now[2] >= before[2]
        before = now


def test_states_rise_from_alive_to_left() -> None:
    assert ALIVE < SUSPECT < DEAD < LEFT
    assert [state.is_up for state in MemberState] == [True, True, False, False]
