"""Table of a group's states: every cell is tested against the rule that it documents."""

from itertools import product

import pytest

from raftlog.partitions.groups.states import TRANSITIONS, ConsumerGroupState, Event, state_after

E, P, C, S, D = ConsumerGroupState
MEMBERS = {P, C, S}
"""States of a group with members."""


@pytest.mark.parametrize(("state", "event"), list(product(ConsumerGroupState, Event)))
def test_a_cell_matches_its_rule(state: ConsumerGroupState, event: Event) -> None:
    rules = {
        Event.REBALANCE: (state not in {P, D}, P),
        Event.JOINED: (state is P, C),
        Event.ASSIGNED: (state is C, S),
        Event.EMPTIED: (state in MEMBERS, E),
        Event.DELETED: (state is E, D),
        Event.KEPT: (state is D, E),
    }
    can_happen, becomes = rules[event]
    assert (event in TRANSITIONS[state]) == can_happen
    if can_happen:
        assert state_after(state, event) is becomes
    else:
        with pytest.raises(AssertionError):
            state_after(state, event)


def test_the_table_has_every_state() -> None:
    assert set(TRANSITIONS) == set(ConsumerGroupState)


def test_states_have_kafkas_names() -> None:
    assert [state.value for state in ConsumerGroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
