"""Client values about consumer groups; answers of brokers are in `raftlog.values.groups`."""

from typing import NamedTuple

from raftlog.types import Offset


class Membership(NamedTuple):
    """Identity of a group member, from the answer to its join.

    `instance_id` is that of a static member (KIP-345)."""

    member_id: str
    generation: int
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    """Offset of the group's next record. `metadata` is up to 4 KiB of text by the committer."""

    offset: Offset
    metadata: str = ""
    leader_epoch: int | None = None
