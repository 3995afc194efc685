"""Transitions of the state of a member by claims: one table, which tests check and docs/MEMBERSHIP.md shows.

Claims about one member are ordered by incarnation, then by state; the table has the result of this order for each case,
and further effects. So the order, repetition and source of claims do not matter: members that received the same claims
have the same state (the join is commutative, associative and idempotent; SWIM 4.2). Called by the machine; pure."""

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

from raftlog.membership.member import Claim, GossipMember, MemberState


class Order(Enum):
    """Order of the incarnation of a claim relative to the known one."""

    OLDER = "older"
    SAME = "same"
    NEWER = "newer"


class Effect(Enum):
    """Effect of a claim besides a new state."""

    KEEP = "-"
    """No effect: the claim is old, or known."""
    CONFIRM = "confirm"
    """Confirmation by another accuser: the suspicion gets shorter (Lifeguard: LHA-Suspicion)."""
    CONFLICT = "conflict"
    """Another process claims the node id of a live member, which keeps the node id."""


Verdict: TypeAlias = MemberState | Effect
"""The next state, or an effect without one."""

ALIVE, SUSPECT, DEAD, LEFT = MemberState
KEEP, CONFIRM, CONFLICT = Effect
OLDER, SAME, NEWER = Order

_NOTHING: Final = dict.fromkeys(MemberState, KEEP)

TRANSITIONS: Final[Mapping[MemberState | None, Mapping[Order, Mapping[MemberState, Verdict]]]] = {
    None: {
        NEWER: {ALIVE: ALIVE, SUSPECT: SUSPECT, DEAD: DEAD, LEFT: LEFT},
    },
    ALIVE: {
        OLDER: _NOTHING,
        SAME: {ALIVE: KEEP, SUSPECT: SUSPECT, DEAD: DEAD, LEFT: LEFT},
        NEWER: {ALIVE: ALIVE, SUSPECT: SUSPECT, DEAD: DEAD, LEFT: LEFT},
    },
    SUSPECT: {
        OLDER: _NOTHING,
        SAME: {ALIVE: KEEP, SUSPECT: CONFIRM, DEAD: DEAD, LEFT: LEFT},
        NEWER: {ALIVE: ALIVE, SUSPECT: SUSPECT, DEAD: DEAD, LEFT: LEFT},
    },
    DEAD: {
        OLDER: _NOTHING,
        SAME: {ALIVE: KEEP, SUSPECT: KEEP, DEAD: KEEP, LEFT: LEFT},
        NEWER: {ALIVE: ALIVE, SUSPECT: SUSPECT, DEAD: DEAD, LEFT: LEFT},
    },
    LEFT: {
        OLDER: _NOTHING,
        SAME: {ALIVE: KEEP, SUSPECT: KEEP, DEAD: KEEP, LEFT: KEEP},
        NEWER: {ALIVE: ALIVE, SUSPECT: SUSPECT, DEAD: DEAD, LEFT: LEFT},
    },
}
"""Verdicts by known state (None: unknown id), order of the incarnations, and claimed state."""


def find_verdict(known: GossipMember | None, claim: Claim) -> Verdict:
    """Return the state of another member after a claim, or an effect if the state does not change."""
    if known is None:
        return TRANSITIONS[None][NEWER][claim.state]
    if known.disk_uuid != claim.disk_uuid and known.state.is_up:
        return CONFLICT if claim.state.is_up else KEEP
    return TRANSITIONS[known.state][compare_incarnations(known, claim)][claim.state]


def compare_incarnations(known: GossipMember, claim: Claim) -> Order:
    """Return whether the claim's incarnation is older than the known one, the same, or newer.

    Of equal incarnations of two disks of a node id, the one of the higher disk uuid is newer."""
    before, after = (known.incarnation, known.disk_uuid), (claim.incarnation, claim.disk_uuid)
    if before == after:
        return SAME
    return OLDER if after < before else NEWER
