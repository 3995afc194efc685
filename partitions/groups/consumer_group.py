"""Consumer group and its members in the group machine: data, and values derived from the data. Pure.

    storing ≠ {}      ⇒ the group's generation is not announced yet
    join ≠ None       ⇒ the member waits for the end of the join phase, or for its generation to be stored
    sync ≠ None       ⇒ it waits for its assignment;   beat ≠ None ⇒ for the next rebalance

Changed by `rebalance` and `joins` only."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum

from raftlog.partitions.groups.effects import Ticket, Token
from raftlog.partitions.groups.records import GroupRecord, MemberRecord, Protocol
from raftlog.partitions.groups.results import Join, JoinedGeneration, JoinedMember
from raftlog.partitions.groups.states import ConsumerGroupState


class StoreContent(Enum):
    """Content of a record that the coordinator is storing for a group."""

    MEMBERS = "members"
    """New generation, not assigned yet."""
    ASSIGNMENTS = "assignments"
    STATIC_MEMBER = "static member"
    """Same generation, in which a static member has another id."""
    EMPTY = "empty"
    NOTHING = "nothing"
    """Deletion of the group."""


@dataclass(slots=True, eq=False)
class Member:
    """Group member; `join`, `sync` and `beat` identify its waiting join, sync and heartbeat requests, or are None."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    can_lead: bool
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    """Last assignment; in `Stable`, that of the present generation."""
    join: Token | None = None
    sync: Token | None = None
    beat: Token | None = None
    has_joined: bool = False
    """Whether the member joined in this join phase or, after the phase, in this generation."""
    has_synced: bool = False
    """Whether the member synced in this generation."""
    has_id: bool = False
    """Whether the member received its id, so it can retry with it."""
    replaced: str | None = None
    """Former id of a static member whose process was replaced, until its join request is answered."""
    can_skip_assignment: bool = False
    """Whether the client accepts an answer by which a group leader skips the assignment."""

    def update_from(self, join: Join) -> None:
        """Replace client, timeouts and protocols by those of a new join request."""
        self.client_id, self.client_host = join.client_id, join.client_host
        self.session_timeout_ms, self.rebalance_timeout_ms = join.session_timeout_ms, join.rebalance_timeout_ms
        self.can_lead, self.can_skip_assignment = join.can_lead, join.can_skip_assignment
        self.protocols = join.protocols

    @property
    def waits(self) -> bool:
        """Whether a join or sync request of the member waits; its session does not expire meanwhile."""
        return self.join is not None or self.sync is not None

    def metadata(self, protocol: str) -> bytes:
        """Return the metadata for a protocol; b"" if the member does not support it."""
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def record(self) -> MemberRecord:
        """Return the member's row in the group's record."""
        return MemberRecord(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.can_lead,
            self.assignment,
            self.protocols,
        )


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """Consumer group. `generation` is 0 before its first generation."""

    name: str
    state: ConsumerGroupState = ConsumerGroupState.EMPTY
    protocol_type: str = ""
    generation: int = 0
    protocol: str = ""
    leader: str = ""
    """Member id of the group leader; "" when the coordinator assigns."""
    changed_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    """Group members in the order in which they joined."""
    instances: dict[str, str] = field(default_factory=dict)
    """Ids of static members by instance id."""
    pending_ids: set[str] = field(default_factory=set)
    """Ids given to members that have not joined with them yet (KIP-394)."""
    storing: dict[Ticket, StoreContent] = field(default_factory=dict)
    holds: bool = False
    """Whether the join phase of a group that was empty waits for more members (KIP-134)."""
    grew: bool = False
    """Whether a new member joined since the wait of `holds` began."""
    is_overdue: bool = False
    """Whether the join phase has timed out; it ends as soon as no Store is pending."""
    phase_began: float = 0.0
    """Time when the last rebalance began, by the machine's clock."""
    assigned_counts: dict[str, int] | None = None
    """Partitions of each topic when the coordinator assigned; None: not known (any more)."""
    deletion: Token | None = None
    """Token of the request that waits for the group's deletion."""

    @classmethod
    def from_record(cls, name: str, record: GroupRecord) -> "ConsumerGroup":
        """Restore a group from its stored record; its members keep their assignments."""
        group = cls(name, ConsumerGroupState.EMPTY, *record[:4], record.changed_ms)
        for each in record.members:
            has_joined = not record.is_assigned
            group.add(Member(*each[:7], each.protocols, each.assignment, has_joined=has_joined, has_id=True))
        if group.members:
            group.state = ConsumerGroupState.STABLE if record.is_assigned else ConsumerGroupState.COMPLETING
        return group

    def record(self) -> GroupRecord:
        """Return the record to store.

        It includes assignments in state `Stable`, and while the storing of assignments is pending."""
        return GroupRecord(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            self.state is ConsumerGroupState.STABLE or StoreContent.ASSIGNMENTS in self.storing.values(),
            self.changed_ms,
            tuple(member.record() for member in self.members.values()),
        )

    def add(self, member: Member) -> None:
        """Add a member; a static one is found by its instance id, too."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def remove(self, member: Member) -> None:
        """Remove a member of the group."""
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self.instances[member.instance_id]

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member the id of a new process; it keeps its position among the members."""
        member.replaced, member.member_id = member.member_id, member_id
        members = list(self.members.values())
        self.members = {each.member_id: each for each in members}
        if member.instance_id is not None:
            self.instances[member.instance_id] = member_id
        if self.leader == member.replaced:
            self.leader = member_id

    def others(self, member: Member | None) -> Iterator[Member]:
        """Yield all members except this one."""
        return (each for each in self.members.values() if each is not member)

    def rebalance_timeout_ms(self) -> int:
        """Return the largest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def metadata_bytes(self, without: Member | None = None) -> int:
        """Return the total size of the protocols of all members."""
        return sum(metadata_bytes(member.protocols) for member in self.others(without))

    def has_common_protocol(self, protocols: Collection[Protocol], without: Member | None) -> bool:
        """Return whether one of these protocols is common to all other members."""
        common = {each.name for each in protocols}
        for member in self.others(without):
            common &= {each.name for each in member.protocols}
        return bool(common)

    def chosen_protocol(self) -> str:
        """Return the protocol with the most votes; the first member's list breaks ties.

        Each member votes for the first in its list that all members have."""
        first, *others = self.members.values()
        names = [each.name for each in first.protocols]
        common = set(names).intersection(*({each.name for each in member.protocols} for member in others))
        votes = Counter(
            next(each.name for each in member.protocols if each.name in common) for member in self.members.values()
        )
        return max((name for name in names if name in common), key=lambda name: votes[name])

    def chosen_leader(self) -> str:
        """Return the present group leader if it can still lead, else the first joined member that can.

        "" when no member can lead: the coordinator assigns."""
        able = [each.member_id for each in self.members.values() if each.has_joined and each.can_lead]
        return self.leader if self.leader in able else next(iter(able), "")

    def join_answer(self, member: Member) -> JoinedGeneration:
        """Return the answer to a join in the present generation."""
        leads = member.member_id == self.leader
        skips = leads and self.state is ConsumerGroupState.STABLE
        leader = member.replaced if skips and not member.can_skip_assignment and member.replaced else self.leader
        listed = (
            JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol))
            for each in self.members.values()
        )
        return JoinedGeneration(
            member.member_id,
            self.generation,
            self.protocol,
            leader,
            tuple(listed) if leader == member.member_id else (),
            self.protocol_type,
            skips and leader == member.member_id,
        )


def metadata_bytes(protocols: Collection[Protocol]) -> int:
    """Return the approximate size of the protocols in a record."""
    return sum(len(each.name) + len(each.metadata) for each in protocols)
