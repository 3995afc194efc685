"""States of a group as one table, which tests check and docs/GROUPS.md shows. Pure; called by the machine.

States and their names are Kafka's (classic protocol):

    Empty                no members; a record with its last generation may be stored
    PreparingRebalance   the join phase: it waits for members to (re)join, at most the rebalance timeout
    CompletingRebalance  the generation's members are known; it waits for the assignments of the leader
    Stable               assigned: members read, heartbeat, commit
    Dead                 it is being deleted
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ConsumerGroupState(Enum):
    """State of a consumer group, by Kafka's name."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """Event of a group as a whole."""

    REBALANCE = "rebalance"
    """Change of the members or their subscriptions: all members have to rejoin."""
    JOINED = "joined"
    """End of the join phase, with members."""
    ASSIGNED = "assigned"
    """Assignments stored."""
    EMPTIED = "emptied"
    """Removal of the last member."""
    DELETED = "deleted"
    """Deletion by an operator, or expiry."""
    KEPT = "kept"
    """Failure to store the deletion."""


_E, _P, _C, _S, _D = ConsumerGroupState

TRANSITIONS: Final[Mapping[ConsumerGroupState, Mapping[Event, ConsumerGroupState]]] = {
    _E: {Event.REBALANCE: _P, Event.DELETED: _D},
    _P: {Event.JOINED: _C, Event.EMPTIED: _E},
    _C: {Event.REBALANCE: _P, Event.ASSIGNED: _S, Event.EMPTIED: _E},
    _S: {Event.REBALANCE: _P, Event.EMPTIED: _E},
    _D: {Event.KEPT: _E},
}
"""All possible transitions; the machine asserts that no other occurs."""


def state_after(state: ConsumerGroupState, event: Event) -> ConsumerGroupState:
    """Return the state that follows an event."""
    assert event in TRANSITIONS[state], f"{event} cannot happen to a group in {state}"
    return TRANSITIONS[state][event]
