"""Suspicion, awareness, broadcasts, and the order of probes: each alone."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.membership.awareness import Awareness
from raftlog.membership.broadcasts import Broadcasts
from raftlog.membership.config import SwimConfig
from raftlog.membership.encoding import claim_bytes
from raftlog.membership.member import MemberState
from raftlog.membership.roster import Roster
from raftlog.membership.rounds import Rounds
from raftlog.membership.suspicion import Suspicion, timeout_s
from raftlog.types import NodeId
from tests.membership.gossip import ALIVE, DEAD, SUSPECT, claim, make_about, member


def test_lifeguard_lha_suspicion_shrinks_by_the_logarithm_of_its_confirmations() -> None:
    assert [round(timeout_s(5, 30, each, 3), 2) for each in range(5)] == [30, 17.5, 10.19, 5, 5]


def test_lifeguard_lha_suspicion_is_shortest_without_possible_confirmations() -> None:
    assert timeout_s(5, 30, 0, 0) == 5


def test_the_same_accuser_confirms_nothing() -> None:
    suspicion = Suspicion(NodeId(1), 10.0)
    assert not suspicion.add_accuser(NodeId(1), 3)
    assert suspicion.add_accuser(NodeId(2), 3)
    assert not suspicion.add_accuser(NodeId(2), 3)
    assert suspicion.deadline(5, 30, 3) == 10.0 + timeout_s(5, 30, 1, 3)


def test_confirmations_beyond_the_wanted_number_change_nothing() -> None:
    suspicion = Suspicion(NodeId(1), 0.0)
    assert [suspicion.add_accuser(NodeId(each), 2) for each in (2, 3, 4)] == [True, True, False]


def test_lifeguard_lha_probe_awareness_stays_in_its_bounds() -> None:
    awareness = Awareness(3)
    awareness.improve()
    assert awareness.factor == 1
    awareness.worsen(2)
    awareness.worsen(2)
    assert awareness.factor == 4
    awareness.improve()
    assert awareness.score == 2


@pytest.mark.parametrize(("n", "seconds"), [(1, 2.5), (10, 3.5), (100, 4.5), (1000, 5.5)])
def test_suspicion_times_grow_with_the_logarithm_of_the_cluster(n: int, seconds: float) -> None:
    config = SwimConfig()
    assert config.suspicion_min_s(n) == pytest.approx(seconds)
    assert config.suspicion_max_s(n) == pytest.approx(6 * seconds)


# broadcasts


def test_swim_4_1_news_is_sent_a_bounded_number_of_times() -> None:
    broadcasts = Broadcasts(10)
    broadcasts.add(claim(1, ALIVE, 1))
    assert [len(broadcasts.take(1000, 3)) for _ in range(5)] == [1, 1, 1, 0, 0]
    assert not broadcasts


def test_swim_4_1_the_least_sent_news_is_sent_first() -> None:
    broadcasts = Broadcasts(10)
    old, new = claim(1, ALIVE, 1), claim(2, ALIVE, 1)
    broadcasts.add(old)
    broadcasts.take(1000, 9)
    broadcasts.add(new)
    assert broadcasts.take(claim_bytes(new), 9) == [new]
    assert broadcasts.take(1000, 9) == [old, new]


def test_newer_news_about_a_member_replaces_older() -> None:
    broadcasts = Broadcasts(10)
    broadcasts.add(claim(1, SUSPECT, 1))
    broadcasts.take(1000, 9)
    broadcasts.add(claim(1, ALIVE, 2))
    assert broadcasts.take(1000, 9) == [claim(1, ALIVE, 2)]


def test_past_the_bound_the_most_sent_news_is_dropped() -> None:
    broadcasts = Broadcasts(2)
    for node in (1, 2):
        broadcasts.add(claim(node, ALIVE, 1))
    broadcasts.take(claim_bytes(claim(1, ALIVE, 1)), 9)
    broadcasts.add(claim(3, ALIVE, 1))
    assert len(broadcasts) == 2
    assert {each.node_id for each in broadcasts.take(1000, 9)} == {2, 3}


def test_a_claim_that_does_not_fit_lets_smaller_ones_pass() -> None:
    broadcasts = Broadcasts(10)
    large = claim(1, ALIVE, 1)._replace(about=make_about(1, 1, bytes(400)))
    small = claim(2, DEAD, 1, told=False)
    broadcasts.add(large)
    broadcasts.add(small)
    assert broadcasts.take(200, 9) == [small]


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(20, 900)), max_size=40))
def test_broadcasts_never_exceed_the_room(steps: list[tuple[int, int]]) -> None:
    broadcasts = Broadcasts(4)
    for node, room in steps:
        broadcasts.add(claim(node, SUSPECT, 1, told=node % 2 == 0))
        taken = broadcasts.take(room, 3)
        assert sum(map(claim_bytes, taken)) <= room
        assert len({each.node_id for each in taken}) == len(taken)
        assert len(broadcasts) <= 4


# order of probes


def make_roster(*others: int) -> Roster:
    known = Roster(member(1, ALIVE, 1))
    for node in others:
        known.put(member(node, ALIVE, 1))
    return known


def test_swim_4_3_every_member_is_probed_within_two_rounds_less_one_turn() -> None:
    known = make_roster(*range(2, 12))
    rounds = Rounds(known, Random(1))
    order = [rounds.next_target() for _ in range(200)]
    for node in range(2, 12):
        turns = [turn for turn, probed in enumerate(order) if probed == node]
        assert max(after - before for before, after in pairwise(turns)) <= 2 * 10 - 1


def test_swim_4_3_each_round_has_a_different_order() -> None:
    rounds = Rounds(make_roster(*range(2, 12)), Random(1))
    orders = {tuple(rounds.next_target() for _ in range(10)) for _ in range(5)}
    assert len(orders) == 5


def test_swim_4_3_a_joining_member_is_inserted_at_random() -> None:
    places = set()
    for seed in range(30):
        known = make_roster(*range(2, 6))
        rounds = Rounds(known, Random(seed))
        rounds.next_target()
        known.put(member(9, ALIVE, 1))
        rounds.insert(NodeId(9))
        places.add([rounds.next_target() for _ in range(4)].index(NodeId(9)))
    assert places == {0, 1, 2, 3}


def test_dead_members_are_not_probed() -> None:
    known = make_roster(2, 3)
    rounds = Rounds(known, Random(1))
    known.put(member(2, DEAD, 1))
    assert {rounds.next_target() for _ in range(6)} == {3}
    known.put(member(3, DEAD, 1))
    assert rounds.next_target() is None


def test_each_member_has_exactly_one_watcher_on_the_ring() -> None:
    nodes = range(1, 20)
    watched = [make_ring(node, nodes).neighbour() for node in nodes]
    assert sorted(watched, key=str) == sorted(nodes, key=str)


def test_the_successor_of_a_suspect_is_watched_too() -> None:
    known = make_ring(1, range(1, 6))
    first = known.neighbour()
    assert first is not None
    known.put(member(first, SUSPECT, 1))
    second = known.neighbour()
    assert second not in (None, first)
    known.put(member(first, DEAD, 1))
    assert known.neighbour() == second
    known.put(member(first, ALIVE, 2))
    assert known.neighbour() == first


def make_ring(me: int, nodes: range) -> Roster:
    known = Roster(member(me, ALIVE, 1))
    for node in nodes:
        if node != me:
            known.put(member(node, ALIVE, 1))
    return known


def test_the_roster_counts_members_that_are_up_and_alive() -> None:
    known = make_roster(2, 3, 4)
    for node, state in ((2, SUSPECT), (3, DEAD), (4, MemberState.LEFT)):
        known.put(member(node, state, 1))
    assert (len(known), known.up_count, known.alive_count, list(known.dead)) == (4, 2, 1, [3])
