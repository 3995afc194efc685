"""What becomes of a member when something is claimed of it: one table, which tests walk and docs/MEMBERSHIP.md shows.

Claims of one member are ordered by incarnation, then by state; the table says the same cell by cell, and what else
happens. So it does not matter in which order, how often, or by whom one hears them: all who heard the same believe the
same (`join` is commutative, associative and idempotent; SWIM 4.2). Called by the machine; pure.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

from raftlog.membership.member import Claim, GossipMember, MemberState


class Order(Enum):
    """A claim's incarnation, against that of what is known."""

    OLDER = "older"
    SAME = "same"
    NEWER = "newer"


class Effect(Enum):
    """What a claim does besides giving a new state."""

    KEEP = "-"
    """Nothing: it is old, or known."""
    CONFIRM = "confirm"
    """One more who suspects it: the suspicion gets shorter (Lifeguard: LHA-Suspicion)."""
    CONFLICT = "conflict"
    """Somebody else claims the name: the holder keeps it."""


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
"""By what is known (None: nobody of that id), the order of the incarnations, and what is claimed."""


def judge(known: GossipMember | None, claim: Claim) -> Verdict:
    """What a claim about somebody else does to what is known of it."""
    if known is None:
        return TRANSITIONS[None][NEWER][claim.state]
    if known.disk_uuid != claim.disk_uuid and known.state.is_up:
        return CONFLICT if claim.state.is_up else KEEP
    return TRANSITIONS[known.state][order(known, claim)][claim.state]


def order(known: GossipMember, claim: Claim) -> Order:
    """Between two disks of one name of which the holder is gone, the greater uuid breaks a tie."""
    ours, theirs = (known.incarnation, known.disk_uuid), (claim.incarnation, claim.disk_uuid)
    if ours == theirs:
        return SAME
    return OLDER if theirs < ours else NEWER
