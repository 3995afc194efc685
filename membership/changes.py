"""Changes of members and conflicts that the machine reports to its caller, besides messages to send."""

from typing import Final, NamedTuple

from raftlog.membership.member import Claim, GossipMember, MemberState
from raftlog.types import NodeId

CONFLICTS_MAX: Final = 256
CONFLICT_INTERVAL_S: Final = 60.0


class MemberChange(NamedTuple):
    """Another member's state changed, or it came (`before` is None), or was forgotten (`after` is None).

    Also given with `before == after` when its incarnation, address or description is new.
    """

    node_id: NodeId
    before: MemberState | None
    after: MemberState | None
    member: GossipMember


class Conflict(NamedTuple):
    """Another process claims a node id whose holder is up. The holder keeps it until it is dead or left."""

    known: GossipMember
    other: Claim


class Conflicts:
    """Conflicts to report, each pair of disks at most once a minute; bounded, as any process may claim anything."""

    def __init__(self) -> None:
        self._waiting: list[Conflict] = []
        self._said: dict[tuple[NodeId, bytes], float] = {}

    def note(self, conflict: Conflict, now: float) -> bool:
        """Whether that is news."""
        key = (conflict.known.node_id, conflict.other.disk_uuid)
        said = self._said.get(key)
        if said is not None and now - said < CONFLICT_INTERVAL_S:
            return False
        if said is None and len(self._said) >= CONFLICTS_MAX:
            del self._said[next(iter(self._said))]
        self._said[key] = now
        if len(self._waiting) < CONFLICTS_MAX:
            self._waiting.append(conflict)
        return True

    def take(self) -> list[Conflict]:
        waiting, self._waiting = self._waiting, []
        return waiting
