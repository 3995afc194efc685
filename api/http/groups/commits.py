"""Offsets to commit in request bodies, and the group member that commits them."""

from raftlog.api.codes import INVALID_JSON
from raftlog.api.http.requests import CommitBody, TransactionOffsetsBody
from raftlog.api.http.server.problems import HttpProblem
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit
from raftlog.types import Offset, TopicPartition


def parse_commits(
    body: CommitBody | TransactionOffsetsBody, member: MemberIdentity | None
) -> dict[TopicPartition, OffsetCommit]:
    """Return one commit for each partition: the last row with a member's identity, otherwise the highest offset."""
    offsets: dict[TopicPartition, OffsetCommit] = {}
    for row in body.offsets:
        offset = Offset(row.offset)
        if member is not None or row.place not in offsets or offset > offsets[row.place].offset:
            epoch = -1 if row.leader_epoch is None else row.leader_epoch
            offsets[row.place] = OffsetCommit(offset, row.metadata or "", epoch)
    return offsets


def parse_member(body: CommitBody | TransactionOffsetsBody) -> MemberIdentity | None:
    """Return the group member that commits; None for a commit outside of a membership. Raises `HttpProblem`."""
    if body.member_id is None and body.generation is None and body.instance_id is None:
        return None
    if body.member_id is None or body.generation is None:
        raise HttpProblem(INVALID_JSON, 'a commit of a group member must have its "member_id" and "generation"')
    return MemberIdentity(body.member_id, body.generation, body.instance_id)
