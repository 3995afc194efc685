"""Handlers of OffsetCommit 2 to 8, OffsetFetch 1 to 7 and OffsetDelete 0.

A commit with generation −1 comes from a consumer that assigns partitions to itself, or from an administrator. It sets
the offset unchanged, even to a lower one, as in Kafka; the coordinator accepts it only while the group has no
members."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.groups.group_errors import authorize_group, check_coordinator, group_code
from raftlog.api.kafka.permissions import denied_topics, topic_resource
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import GroupNotEmpty, RaftlogError, UnknownGroup
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.records import METADATA_BYTES_MAX
from raftlog.partitions.groups.results import MemberIdentity, OffsetCommit, StableOffset
from raftlog.partitions.groups.service import Groups
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import AclOperation
from raftlog.types import Offset, TopicPartition

_GROUP_ERROR_SINCE: Final = 2
"""First version of OffsetFetch with an error code of the whole group."""
_NONE: Final = StableOffset(Offset(-1), -1, "", 0, is_pending=False)
"""Answer for a partition in which nothing was committed."""


class OffsetHandlers:
    """Handlers that commit, return and delete the offsets of consumer groups."""

    def __init__(self, groups: Groups, authorizer: Authorizer) -> None:
        self._groups, self._authorizer = groups, authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this handler serves, with their versions."""
        return [
            KafkaApi(ApiKey.OFFSET_COMMIT, (2, 8), self.commit),
            KafkaApi(ApiKey.OFFSET_FETCH, (1, 7), self.fetch),
            KafkaApi(ApiKey.OFFSET_DELETE, (0, 0), self.delete),
        ]

    async def commit(self, request: KafkaRequest) -> Any:
        """Commit offsets; each partition has its own error code."""
        asked = request.message
        offsets, codes = parse_commits(asked)
        member = MemberIdentity(asked.member_id, asked.generation_id_or_member_epoch, asked.group_instance_id)
        try:
            authorize_group(self._authorizer, request, AclOperation.READ, asked.group_id)
            offsets = remove_denied(self._authorizer, request, offsets, codes)
            check_coordinator(self._groups, asked.group_id)
            failed = await self._groups.commit_each(
                asked.group_id, offsets, member=member, deadline=deadline_in(NO_DEADLINE_MS)
            )
        except RaftlogError as error:
            codes |= dict.fromkeys(offsets, group_code(error))
        else:
            codes |= {place: group_code(error) for place, error in failed.items()}
        answer = answer_class(ApiKey.OFFSET_COMMIT)
        topic_row = answer.OffsetCommitResponseTopic
        row = topic_row.OffsetCommitResponsePartition
        return answer(topics=commit_rows(request, codes, topic_row, row))

    async def fetch(self, request: KafkaRequest) -> Any:
        """Return committed offsets: of the named partitions, or all offsets of the group.

        An error of the whole group is the code of each named partition as well: aiokafka 0.14 reads only these. It
        takes an answer without partitions for a group without offsets, and would begin at the earliest records."""
        asked = request.message
        code, committed = ErrorCode.NONE, dict[TopicPartition, StableOffset]()
        try:
            authorize_group(self._authorizer, request, AclOperation.DESCRIBE, asked.group_id)
            check_coordinator(self._groups, asked.group_id)
            topics = [topic.name for topic in asked.topics or ()]
            deadline = deadline_in(NO_DEADLINE_MS)
            committed = await self._groups.stable_offsets(asked.group_id, topics, deadline=deadline)
        except RaftlogError as error:
            code = group_code(error)
        answer = answer_class(ApiKey.OFFSET_FETCH)
        wanted: Mapping[str, list[int]]
        denied: frozenset[str] = frozenset()
        if asked.topics is None:
            visible = self._authorizer.allows
            known = (place for place, found in committed.items() if found.offset >= 0 or asked.require_stable)
            wanted = {
                topic: numbers
                for topic, numbers in _group_by_topic(known).items()
                if visible(request.caller, AclOperation.DESCRIBE, topic_resource(topic))
            }
        else:
            wanted = {topic.name: topic.partition_indexes for topic in asked.topics}
            denied = denied_topics(self._authorizer, request.caller, AclOperation.DESCRIBE, wanted)
        topic_row = answer.OffsetFetchResponseTopic
        row = topic_row.OffsetFetchResponsePartition

        def describe_partition(topic: str, number: int) -> Any:
            """Return the row of a partition with its committed offset, or with an error."""
            found, row_code = committed.get(TopicPartition(topic, number), _NONE), code
            if topic in denied:
                found, row_code = _NONE, code or ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif found.is_pending and asked.require_stable:
                found, row_code = _NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT
            return row(
                partition_index=number,
                committed_offset=found.offset,
                committed_leader_epoch=found.leader_epoch,
                metadata=found.metadata,
                error_code=row_code,
            )

        rows = [
            topic_row(name=topic, partitions=[describe_partition(topic, number) for number in numbers])
            for topic, numbers in wanted.items()
        ]
        has_group_error = request.version >= _GROUP_ERROR_SINCE
        return answer(error_code=code, topics=rows) if has_group_error else answer(topics=rows)

    async def delete(self, request: KafkaRequest) -> Any:
        """Delete committed offsets, except those of topics that a member subscribes to."""
        asked = request.message
        answer = answer_class(ApiKey.OFFSET_DELETE)
        topic_row = answer.OffsetDeleteResponseTopic
        row = topic_row.OffsetDeleteResponsePartition
        deadline = deadline_in(NO_DEADLINE_MS)
        topics = []
        try:
            authorize_group(self._authorizer, request, AclOperation.DELETE, asked.group_id)
            check_coordinator(self._groups, asked.group_id)
            for topic in asked.topics:
                numbers = [each.partition_index for each in topic.partitions]
                code = ErrorCode.NONE
                try:
                    self._authorizer.authorize(request.caller, AclOperation.READ, topic_resource(topic.name))
                    await self._groups.delete_partition_offsets(asked.group_id, topic.name, numbers, deadline=deadline)
                except UnknownGroup:
                    raise
                except GroupNotEmpty:
                    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                except RaftlogError as error:
                    code = group_code(error)
                rows = [row(partition_index=number, error_code=code) for number in numbers]
                topics.append(topic_row(name=topic.name, partitions=rows))
        except RaftlogError as error:
            return answer(error_code=group_code(error), topics=[])
        return answer(topics=topics)


def parse_commits(topics: Any) -> tuple[dict[TopicPartition, OffsetCommit], dict[TopicPartition, ErrorCode]]:
    """Return the offsets to commit, and an error code for each partition whose metadata is too large."""
    offsets, codes = dict[TopicPartition, OffsetCommit](), dict[TopicPartition, ErrorCode]()
    for topic in topics.topics:
        for each in topic.partitions:
            place = TopicPartition(topic.name, each.partition_index)
            metadata = each.committed_metadata or ""
            if len(metadata.encode()) > METADATA_BYTES_MAX:
                codes[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                epoch = max(-1, each.committed_leader_epoch)
                offsets[place] = OffsetCommit(Offset(each.committed_offset), metadata, epoch)
    return offsets, codes


def remove_denied(
    authorizer: Authorizer,
    request: KafkaRequest,
    offsets: Mapping[TopicPartition, OffsetCommit],
    codes: dict[TopicPartition, ErrorCode],
) -> dict[TopicPartition, OffsetCommit]:
    """Return the offsets in topics that the caller may read; add the error code of the other partitions to `codes`."""
    topics = (topic.name for topic in request.message.topics)
    denied = denied_topics(authorizer, request.caller, AclOperation.READ, topics)
    codes |= {place: ErrorCode.TOPIC_AUTHORIZATION_FAILED for place in offsets if place.topic in denied}
    return {place: commit for place, commit in offsets.items() if place.topic not in denied}


def commit_rows(
    request: KafkaRequest, codes: Mapping[TopicPartition, ErrorCode], topic_row: Any, partition_row: Any
) -> list[Any]:
    """Return the rows of the answer to a commit, in the order of the request; partitions not in `codes` have no error.

    `topic_row` and `partition_row` are the library's classes of the rows."""
    return [
        topic_row(
            name=topic.name,
            partitions=[
                partition_row(
                    partition_index=each.partition_index,
                    error_code=codes.get(TopicPartition(topic.name, each.partition_index), ErrorCode.NONE),
                )
                for each in topic.partitions
            ],
        )
        for topic in request.message.topics
    ]


def _group_by_topic(committed: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, both sorted."""
    found: dict[str, list[int]] = {}
    for topic, number in sorted(committed):
        found.setdefault(topic, []).append(number)
    return found
