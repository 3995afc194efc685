"""The table of a group's life: every cell by the rule that it stands for."""

from itertools import product

import pytest

from raftlog.partitions.groups.states import TRANSITIONS, ConsumerGroupState, Event, after

E, P, C, S, D = ConsumerGroupState
MEMBERS = {P, C, S}
"""States of a group with members."""


@pytest.mark.parametrize(("state", "event"), list(product(ConsumerGroupState, Event)))
def test_every_cell(state: ConsumerGroupState, event: Event) -> None:
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
        assert after(state, event) is becomes
    else:
        with pytest.raises(AssertionError):
            after(state, event)


def test_the_table_has_every_state() -> None:
    assert set(TRANSITIONS) == set(ConsumerGroupState)


def test_states_are_named_as_kafka_names_them() -> None:
    assert [state.value for state in ConsumerGroupState] == [
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
    ]
