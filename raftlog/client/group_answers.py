"""Values of the client about consumer groups; answers themselves are in `raftlog.values.groups`."""

from typing import NamedTuple

from raftlog.types import Offset


class Membership(NamedTuple):
    """Who speaks for a group: what a join answered. `instance_id` is that of a static member (KIP-345)."""

    member_id: str
    generation: int
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    """The next offset that the group will read. `metadata` is at most 4 KiB of the committer's own text."""

    offset: Offset
    metadata: str = ""
    leader_epoch: int | None = None
