"""Changes of members, and conflicts, that the machine reports to its caller."""

from typing import Final, NamedTuple

from raftlog.membership.member import Claim, GossipMember, MemberState
from raftlog.types import NodeId

CONFLICTS_MAX: Final = 256
CONFLICT_INTERVAL_S: Final = 60.0


class MemberChange(NamedTuple):
    """Change of another member's state; `before` is None for a new one, `after` for a forgotten one.

    If only its incarnation, address or description is new, `before` and `after` are equal."""

    node_id: NodeId
    before: MemberState | None
    after: MemberState | None
    member: GossipMember


class Conflict(NamedTuple):
    """Claim of another process to a node id that a live member has; the member keeps it until it is dead or left."""

    known: GossipMember
    other: Claim


class Conflicts:
    """Conflicts to report, each pair of disks at most once a minute; bounded, since claims are not trusted."""

    def __init__(self) -> None:
        self._waiting: list[Conflict] = []
        self._reported: dict[tuple[NodeId, bytes], float] = {}

    def record(self, conflict: Conflict, now: float) -> bool:
        """Record a conflict; return whether it is to be reported."""
        key = (conflict.known.node_id, conflict.other.disk_uuid)
        reported_at = self._reported.get(key)
        if reported_at is not None and now - reported_at < CONFLICT_INTERVAL_S:
            return False
        if reported_at is None and len(self._reported) >= CONFLICTS_MAX:
            del self._reported[next(iter(self._reported))]
        self._reported[key] = now
        if len(self._waiting) < CONFLICTS_MAX:
            self._waiting.append(conflict)
        return True

    def take(self) -> list[Conflict]:
        """Remove and return the conflicts to report."""
        waiting, self._waiting = self._waiting, []
        return waiting
