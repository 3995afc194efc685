"""Claims that this member gossips: at most one about each member, each sent a bounded number of times (SWIM 4.1).

Claims that were sent least often go first, so that new claims overtake old ones. A newer claim about a member replaces
the older one. Sizes are those of the encoded claims: `take` never returns more than `room` bytes. Above `items_max`
claims the one that was sent most often is dropped; the exchange of digests delivers it later. Called by the machine."""

from typing import Final, NamedTuple

from raftlog.membership.encoding import claim_bytes
from raftlog.membership.member import Claim
from raftlog.types import NodeId

SMALLEST_BYTES: Final = 32
"""Minimum size of a claim: with less room no claim fits."""
MISFITS_MAX: Final = 8
"""Number of claims that did not fit after which the datagram counts as full."""


class _QueuedClaim(NamedTuple):
    """Claim and its encoded size."""

    claim: Claim
    size: int


class Broadcasts:
    """Queue of claims to gossip, in levels: level i has the claims that were sent i times."""

    def __init__(self, items_max: int) -> None:
        self._items_max = items_max
        self._levels: list[dict[NodeId, _QueuedClaim]] = [{}]
        self._level_of: dict[NodeId, int] = {}

    def __len__(self) -> int:
        """Return the number of queued claims."""
        return len(self._level_of)

    def add(self, claim: Claim) -> None:
        """Queue a claim; it replaces an earlier one about the same member."""
        self.drop(claim.node_id)
        if len(self._level_of) >= self._items_max:
            self.drop(self._find_most_sent())
        self._levels[0][claim.node_id] = _QueuedClaim(claim, claim_bytes(claim))
        self._level_of[claim.node_id] = 0

    def drop(self, node_id: NodeId) -> None:
        """Remove the claim about this member, if there is one."""
        level = self._level_of.pop(node_id, None)
        if level is not None:
            del self._levels[level][node_id]

    def take(self, room: int, times_max: int, excluded: NodeId | None = None) -> list[Claim]:
        """Return claims for one datagram with `room` bytes, each counted as sent once more.

        A claim sent `times_max` times is dropped. A claim about the member `excluded` is left out."""
        taken: list[tuple[int, _QueuedClaim]] = []
        misfits = 0
        for level, items in enumerate(self._levels):
            for node_id, item in items.items():
                if room < SMALLEST_BYTES or misfits >= MISFITS_MAX:
                    break
                if node_id == excluded:
                    continue
                if item.size > room:
                    misfits += 1
                    continue
                room -= item.size
                taken.append((level, item))
        for level, item in taken:
            self._count_sent(level, item, times_max)
        return [item.claim for _, item in taken]

    def _count_sent(self, level: int, item: _QueuedClaim, times_max: int) -> None:
        """Move a claim to the next level, or drop it after `times_max` sends."""
        node_id = item.claim.node_id
        del self._levels[level][node_id]
        if level + 1 >= times_max:
            del self._level_of[node_id]
            return
        if level + 1 == len(self._levels):
            self._levels.append({})
        self._levels[level + 1][node_id] = item
        self._level_of[node_id] = level + 1

    def _find_most_sent(self) -> NodeId:
        """Return the member of the oldest claim among those sent most often."""
        return next(next(iter(level)) for level in reversed(self._levels) if level)
