"""Effects of the machine: answers to requests, identified by tokens, and records to store. Values only.

A `Token` is chosen by the caller; the one answer carries it."""

from typing import NamedTuple, TypeAlias

from raftlog.errors import RaftlogError
from raftlog.partitions.groups.records import GroupRecord
from raftlog.partitions.groups.results import JoinedGeneration, LeftMember, MemberIdGiven, SyncedGeneration

Token: TypeAlias = int
Ticket: TypeAlias = int


class Alive(NamedTuple):
    """Answer to a heartbeat while the group does not rebalance."""


class Deleted(NamedTuple):
    """Answer after the deletion of a group is durable."""


Result: TypeAlias = JoinedGeneration | MemberIdGiven | SyncedGeneration | Alive | tuple[LeftMember, ...] | Deleted


class GroupAnswer(NamedTuple):
    """Answer to the request of `token`: at most one for each token, and exactly one unless it was cancelled."""

    token: Token
    outcome: Result | RaftlogError


class Store(NamedTuple):
    """Effect: append this record, in the order of the effects; the caller passes the outcome to `Machine.on_stored`.

    `record` None: delete the group and all its records (append tombstones for its offsets too)."""

    group: str
    ticket: Ticket
    record: GroupRecord | None


Effect: TypeAlias = GroupAnswer | Store
