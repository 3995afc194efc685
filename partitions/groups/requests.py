"""What members ask of the machine, what they are answered, and what the machine wants done: all plain values.

A `Token` is whatever the caller likes; it comes back with the one answer. Times in requests are milliseconds.
"""

from typing import NamedTuple, TypeAlias

from raftlog.errors import RaftlogError
from raftlog.partitions.groups.records import GroupRecord, Protocol

Token: TypeAlias = int
Ticket: TypeAlias = int


class Join(NamedTuple):
    """JoinGroup. `member_id` "" asks for one (then `instance_id` may name a static member, KIP-345)."""

    group: str
    member_id: str
    protocols: tuple[Protocol, ...]
    """In the order of preference."""
    protocol_type: str = "consumer"
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    can_lead: bool = True
    """False (`assigned_by` "broker"): it never leads; its protocols must be assignors that the coordinator has."""
    requires_known_id: bool = False
    """KIP-394, JoinGroup from v4 on: a dynamic member without id is only given one, and joins with it."""
    can_skip_assignment: bool = False
    """KIP-814, JoinGroup from v9 on: understands `Joined.skip_assignment`."""


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes
    """Of the chosen protocol."""


class Joined(NamedTuple):
    """The join phase is over, and its generation is stored."""

    member_id: str
    generation: int
    protocol: str
    leader: str
    """"": the coordinator assigns by itself."""
    members: tuple[JoinedMember, ...]
    """Only to the leader."""
    protocol_type: str = "consumer"
    skip_assignment: bool = False
    """To a static leader that came back: the assignment stands; it leads, but assigns nothing now (KIP-814)."""


class MemberIdGiven(NamedTuple):
    """Kafka's MEMBER_ID_REQUIRED: join again with this id before the session timeout."""

    member_id: str


class Sync(NamedTuple):
    """SyncGroup. `assignments` by member id, from the leader; the others' is ignored."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    protocol_type: str | None = None
    protocol: str | None = None
    """Checked when given (SyncGroup from v5 on)."""


class Synced(NamedTuple):
    """The generation's assignments are stored."""

    assignment: bytes
    generation: int
    protocol: str
    protocol_type: str = "consumer"


class GroupHeartbeat(NamedTuple):
    """With `wait_ms`, answered when the group begins to rebalance, or after `wait_ms` or half the session timeout."""

    group: str
    member_id: str
    generation: int
    instance_id: str | None = None
    wait_ms: int = 0


class Alive(NamedTuple):
    """Answer to a heartbeat when there is nothing to do."""


class MemberToLeave(NamedTuple):
    """A static member can be named by its instance id alone (`member_id` "")."""

    member_id: str
    instance_id: str | None = None


class Leave(NamedTuple):
    group: str
    members: tuple[MemberToLeave, ...]


class Left(NamedTuple):
    """For each member that was named, in order: None, or why it could not leave (UnknownMember, FencedInstance)."""

    members: tuple[tuple[MemberToLeave, RaftlogError | None], ...]


class Deleted(NamedTuple):
    """The group is gone, durably."""


Result: TypeAlias = Joined | MemberIdGiven | Synced | Alive | Left | Deleted


class GroupAnswer(NamedTuple):
    """To the request of `token`: each token is answered at most once, and exactly once unless it was cancelled."""

    token: Token
    outcome: Result | RaftlogError


class Store(NamedTuple):
    """Append this record now, in the order of the effects, and say what became of it with `Machine.stored`.

    `record` None: the group goes, with everything else that is kept for it (append tombstones for its offsets too).
    """

    group: str
    ticket: Ticket
    record: GroupRecord | None


Effect: TypeAlias = GroupAnswer | Store


class MemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    subscription: bytes
    """Of the chosen protocol; b"" while there is none."""
    assignment: bytes


class GroupDescription(NamedTuple):
    group: str
    state: str
    """Kafka's name: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead."""
    protocol_type: str
    protocol: str
    """Chosen assignor; "" while there is none."""
    generation: int
    leader: str
    members: tuple[MemberDescription, ...]
    changed_ms: int
    """When the group became what it is (wall clock of the coordinator then): since when it is empty, when it is."""
