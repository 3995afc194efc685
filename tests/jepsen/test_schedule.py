"""The schedule of faults: equal for equal seeds, bounded, and with every requested kind."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jepsen.nemeses.fault import KINDS, Fault
from jepsen.nemeses.kind_table import FACTS
from jepsen.nemeses.network_faults import SHAPES, SHAPES_NODES_MIN
from jepsen.nemeses.schedule import QUIET_END_S, WARM_UP_S, WINDOW_S_MAX, draw_schedule

THREE = (1, 2, 3)
seeds = st.integers(0, 1 << 31)


def test_the_same_seed_draws_the_same_schedule() -> None:
    assert draw_schedule(7, KINDS, THREE, 60, 6) == draw_schedule(7, KINDS, THREE, 60, 6)
    assert draw_schedule(7, KINDS, THREE, 60, 6) != draw_schedule(8, KINDS, THREE, 60, 6)


def test_without_kinds_there_are_no_faults() -> None:
    assert draw_schedule(7, (), THREE, 60, 6) == ()


@given(seeds, st.sets(st.sampled_from(KINDS), min_size=1), st.integers(2, 7), st.floats(4, 120))
@settings(max_examples=80)
def test_every_fault_is_within_its_bounds(seed: int, kinds: set[str], count: int, length_s: float) -> None:
    nodes = tuple(range(1, count + 1))
    wanted = [kind for kind in KINDS if kind in kinds]
    faults = draw_schedule(seed, wanted, nodes, length_s, 6)
    assert [fault.begin_s for fault in faults] == sorted(fault.begin_s for fault in faults)
    for fault in faults:
        assert WARM_UP_S <= fault.begin_s < fault.end_s <= length_s - QUIET_END_S
        assert fault.end_s - fault.begin_s <= WINDOW_S_MAX
        assert fault.kind in kinds
        assert set(fault.nodes) <= set(nodes)
        assert len(set(fault.nodes)) == len(fault.nodes) > 0
        assert all(a != b and {a, b} <= set(nodes) for a, b in fault.links)
        assert bool(fault.links) == (fault.kind in ("cut", "packet"))
    cuts = [fault for fault in faults if fault.kind == "cut"]
    assert all(before.end_s <= after.begin_s for before, after in pairwise(cuts))


@example(293480)  # whose first fault takes all nodes
@given(seeds)
@settings(max_examples=40)
def test_a_minute_has_faults_of_every_kind(seed: int) -> None:
    assert {fault.kind for fault in draw_schedule(seed, KINDS, THREE, 60, 6)} == set(KINDS)


def test_a_long_schedule_has_quiet_time_and_faults_of_leaders() -> None:
    faults = draw_schedule(1, KINDS, THREE, 10_000, 6)
    busy_s, until = 0.0, 0.0
    for fault in faults:
        busy_s += max(0.0, fault.end_s - max(until, fault.begin_s))
        until = max(until, fault.end_s)
    assert 2_000 < busy_s < 7_500
    assert any(fault.of_leader is not None for fault in faults)
    assert {len(fault.nodes) for fault in faults if fault.kind == "kill"} == {1, 2, 3}
    assert {fault.shape for fault in faults if fault.kind == "cut"} == {*SHAPES, "flapping"} - {"ring of majorities"}


@pytest.mark.parametrize("shape", list(SHAPES))
def test_each_shape_cuts_some_links_and_leaves_others(shape: str) -> None:
    nodes = range(1, max(3, SHAPES_NODES_MIN[shape]) + 1)
    links = SHAPES[shape](list(nodes))
    everything = {(a, b) for a in nodes for b in nodes if a != b}
    assert links
    assert set(links) <= everything
    assert len(set(links)) == len(links)
    assert (set(links) == everything) == (shape == "all alone")


def test_in_a_ring_every_node_reaches_a_majority() -> None:
    nodes = [1, 2, 3, 4, 5]
    lost = set(SHAPES["ring of majorities"](nodes))
    heard = [frozenset(other for other in nodes if other == node or (other, node) not in lost) for node in nodes]
    assert all(len(each) >= 3 for each in heard)
    assert len(set(heard)) == len(nodes)


def test_a_fault_of_a_leader_swaps_its_node_with_the_leader() -> None:
    cut = Fault("cut", 1, 2, (3,), "not heard", ((3, 1), (3, 2)), 0)
    assert cut.with_leader(1).links == ((1, 3), (1, 2))
    assert cut.with_leader(3) == cut
    kill = Fault("kill", 1, 2, (3, 1), of_leader=0)
    assert kill.with_leader(1).nodes == (1, 3)
    assert kill.with_leader(2).nodes == (2, 1)


def test_every_kind_of_fault_has_a_row_in_code_and_document() -> None:
    assert tuple(FACTS) == KINDS
    document = (Path(__file__).parents[2] / "docs" / "JEPSEN.md").read_text()
    listed = document.partition("## Faults")[2].partition("**Power losses.**")[0]
    assert tuple(re.findall(r"^- `(\w+)`: ", listed, re.MULTILINE)) == KINDS
    for kind, facts in FACTS.items():
        assert (facts.make is None) == (kind in ("cut", "packet", "roll", "members")), kind
        assert facts.is_down or not facts.always_starts, kind
