"""Effects of the machine: answers to requests, by their tokens, and records to store. Values only.

A `Token` is whatever the caller likes; it comes back with the one answer.
"""

from typing import NamedTuple, TypeAlias

from raftlog.errors import RaftlogError
from raftlog.partitions.groups.records import GroupRecord
from raftlog.partitions.groups.results import JoinedGeneration, LeftMember, MemberIdGiven, SyncedGeneration

Token: TypeAlias = int
Ticket: TypeAlias = int


class Alive(NamedTuple):
    """Answer to a heartbeat when there is nothing to do."""


class Deleted(NamedTuple):
    """The group is gone, durably."""


Result: TypeAlias = JoinedGeneration | MemberIdGiven | SyncedGeneration | Alive | tuple[LeftMember, ...] | Deleted


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
