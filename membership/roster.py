"""All known members, the order of the live ones on a ring, and the digest of all.

The ring is the order of the members that are up, by a hash of the node id, so all members compute the same ring; each
member probes the next one on the ring. Only the machine changes the roster, through `put` and `forget`."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from random import Random

from raftlog.membership.digest import Digest, bucket_of
from raftlog.membership.member import GossipMember, MemberState
from raftlog.types import NodeId


def ring_position(node_id: NodeId) -> int:
    """Return the position of a member on the ring: a hash, which separates neighbouring ids of one host."""
    return (node_id * 0x9E3779B1) & 0xFFFFFFFF


class Roster:
    """All known members by node id, this one first, with the ring that gives each a neighbour to probe."""

    def __init__(self, me: GossipMember) -> None:
        """Create a roster with this process as its only member."""
        self.me = me.node_id
        self._members: dict[NodeId, GossipMember] = {}
        self._ring: list[tuple[int, NodeId]] = []
        """Ring positions and node ids of the other members that are up, sorted."""
        self._suspects: set[NodeId] = set()
        self.dead: dict[NodeId, None] = {}
        """Members that were declared dead and are not forgotten, in the order of their deaths."""
        self.digest = Digest()
        self.put(me)

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[GossipMember]:
        return iter(self._members.values())

    def get(self, node_id: NodeId) -> GossipMember | None:
        """Return a member; None if it is unknown."""
        return self._members.get(node_id)

    def member(self, node_id: NodeId) -> GossipMember:
        """Return a member. Raises `KeyError` for an unknown id."""
        return self._members[node_id]

    @property
    def myself(self) -> GossipMember:
        """The state of this member."""
        return self._members[self.me]

    @property
    def up_count(self) -> int:
        """Number of members that are alive or suspected, this one included."""
        return len(self._ring) + 1

    @property
    def alive_count(self) -> int:
        """Number of members that are up and not suspected."""
        return self.up_count - len(self._suspects)

    def members_in_buckets(self, buckets: tuple[int, ...]) -> list[GossipMember]:
        """Return the members that belong to these buckets of the digest."""
        wanted = frozenset(buckets)
        return [member for member in self if bucket_of(member.node_id) in wanted]

    def put(self, member: GossipMember) -> None:
        """Add or replace a member."""
        before = self._members.get(member.node_id)
        self._members[member.node_id] = member
        self.digest.replace(before, member)
        if member.node_id != self.me:
            self._update_ring(member.node_id, None if before is None else before.state, member.state)

    def forget(self, member: GossipMember) -> None:
        """Remove a dead or left member."""
        assert not member.state.is_up, f"{member} is up"
        assert member.node_id != self.me, f"{member} is this process"
        del self._members[member.node_id]
        self.digest.replace(member, None)
        self.dead.pop(member.node_id, None)

    def _update_ring(self, node_id: NodeId, before: MemberState | None, after: MemberState) -> None:
        """Update the ring, the suspects and the dead after a member's change of state."""
        was_up = before is not None and before.is_up
        place = (ring_position(node_id), node_id)
        if after.is_up and not was_up:
            insort(self._ring, place)
        if was_up and not after.is_up:
            del self._ring[bisect_left(self._ring, place)]
        self._suspects.discard(node_id)
        self.dead.pop(node_id, None)
        if after is MemberState.SUSPECT:
            self._suspects.add(node_id)
        if after is MemberState.DEAD:
            self.dead[node_id] = None

    def others_up(self) -> list[NodeId]:
        """Return the other members that are up, in the order of the ring."""
        return [node_id for _, node_id in self._ring]

    def neighbour(self) -> NodeId | None:
        """Return the next member on the ring that is not suspected.

        Suspects are skipped, so that the member after a suspect is still probed; other probes check the suspect.
        None if all others are suspected or there are no others."""
        start = bisect_left(self._ring, (ring_position(self.me), self.me))
        for step in range(len(self._ring)):
            node_id = self._ring[(start + step) % len(self._ring)][1]
            if node_id not in self._suspects:
                return node_id
        return None

    def draw(self, random: Random, count: int, excluded: NodeId | None = None) -> list[NodeId]:
        """Return up to `count` random other members that are up, without the member `excluded`."""
        others = len(self._ring)
        drawn = random.sample(range(others), min(count + 1, others))
        chosen = [self._ring[each][1] for each in drawn]
        return [node_id for node_id in chosen if node_id != excluded][:count]
