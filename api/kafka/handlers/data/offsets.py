"""Handlers of ListOffsets, OffsetForLeaderEpoch and DeleteRecords; only the leader of a partition serves it.

A new leader whose high watermark is not yet confirmed answers OFFSET_NOT_AVAILABLE, or before version 5 of ListOffsets
LEADER_NOT_AVAILABLE (KIP-207)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.isolation import isolation_of
from raftlog.api.kafka.permissions import topic_resource
from raftlog.api.kafka.wire import schemas
from raftlog.errors import InvalidArgument, RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.leader.offsets import NO_OFFSET, UNKNOWN, FoundOffset, LeaderOffsets
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import AclOperation
from raftlog.types import Isolation

LIST_OFFSETS_VERSIONS: Final = (1, 6)
EPOCH_VERSIONS: Final = (2, 4)
DELETE_VERSIONS: Final = (0, 2)
LATEST, EARLIEST = -1, -2
_NOT_AVAILABLE_FROM: Final = 5
_END_MS: Final = 1_000
"""Time for a new leader to commit its first entry, and for a majority to confirm that it still leads."""
_AT_ONCE: Final = 256
"""Partitions of a request that are looked up at the same time."""
HIGH_WATERMARK: Final = -1
"""Offset of DeleteRecords that stands for all committed records."""

T = TypeVar("T")


class OffsetsHandler:
    """Handlers of ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

    def __init__(self, reads: LeaderOffsets, authorizer: Authorizer) -> None:
        self._reads, self._authorizer = reads, authorizer

    def _authorize(self, request: KafkaRequest, operation: AclOperation, topic: str) -> None:
        """Raise `NotAuthorized` unless the caller may perform the operation on the topic."""
        self._authorizer.authorize(request.caller, operation, topic_resource(topic))

    # ListOffsets

    async def list_offsets(self, request: KafkaRequest) -> Any:
        """Return the first or last offset of partitions, or the first offset at or after a timestamp."""
        version, isolation = request.version, isolation_of(request.message.isolation_level)

        async def find_offset(topic: Any, partition: Any, is_duplicate: bool) -> Any:
            """Return the row of a partition with the offset for the requested timestamp, or with an error."""
            found, code = FoundOffset(NO_OFFSET, UNKNOWN), ErrorCode.NONE
            try:
                _check_once(is_duplicate)
                self._authorize(request, AclOperation.DESCRIBE, topic.name)
                found = await self._find_offset(topic.name, partition, isolation)
            except RaftlogError as error:
                code = code_of(error)
                if code is ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_FROM:
                    code = ErrorCode.LEADER_NOT_AVAILABLE
            return topic_answer.ListOffsetsPartitionResponse(
                partition_index=partition.partition_index,
                error_code=code,
                timestamp=found.timestamp,
                offset=found.offset,
                leader_epoch=found.leader_epoch,
            )

        answer = schemas.answer_class(ApiKey.LIST_OFFSETS)
        topic_answer = answer.ListOffsetsTopicResponse
        return answer(
            topics=[
                topic_answer(name=topic.name, partitions=rows)
                for topic, rows in await _for_each(request.message.topics, find_offset)
            ]
        )

    async def _find_offset(self, topic: str, partition: Any, isolation: Isolation) -> FoundOffset:
        """Return the offset for the timestamp of a request, also a special one (-1 latest, -2 earliest)."""
        number, epoch, timestamp = partition.partition_index, partition.current_leader_epoch, partition.timestamp
        if timestamp == LATEST:
            return await self._reads.end_offset(topic, number, epoch, deadline_in(_END_MS), isolation)
        if timestamp == EARLIEST:
            return await self._reads.first_offset(topic, number, epoch, deadline_in(_END_MS))
        if timestamp < 0:
            raise InvalidArgument(f"the timestamp {timestamp} has no meaning; use -1, -2 or a time")
        deadline = deadline_in(_END_MS)
        return await self._reads.offset_for_timestamp(topic, number, epoch, timestamp, deadline, isolation)

    # OffsetForLeaderEpoch

    async def end_of_epochs(self, request: KafkaRequest) -> Any:
        """Handle OffsetForLeaderEpoch: return for each partition the end offset of a leader epoch."""

        async def find_end(topic: Any, partition: Any, is_duplicate: bool) -> Any:
            """Return the row of a partition with the end of the requested leader epoch, or with an error."""
            found, code = FoundOffset(NO_OFFSET, UNKNOWN), ErrorCode.NONE
            try:
                _check_once(is_duplicate)
                self._authorize(request, AclOperation.DESCRIBE, topic.topic)
                found = self._reads.end_of_epoch(
                    topic.topic, partition.partition, partition.current_leader_epoch, partition.leader_epoch
                )
            except RaftlogError as error:
                code = code_of(error)
            return topic_answer.EpochEndOffset(
                error_code=code,
                partition=partition.partition,
                leader_epoch=found.leader_epoch,
                end_offset=found.offset,
            )

        answer = schemas.answer_class(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        topic_answer = answer.OffsetForLeaderTopicResult
        return answer(
            topics=[
                topic_answer(topic=topic.topic, partitions=rows)
                for topic, rows in await _for_each(request.message.topics, find_end)
            ]
        )

    # DeleteRecords

    async def delete_records(self, request: KafkaRequest) -> Any:
        """Delete the records of each partition below its offset."""
        timeout_ms = request.message.timeout_ms
        deadline = deadline_in(min(timeout_ms, NO_DEADLINE_MS) if timeout_ms > 0 else NO_DEADLINE_MS)

        async def delete_up_to(topic: Any, partition: Any, is_duplicate: bool) -> Any:
            """Delete the records of a partition below the requested offset; return the row with the result."""
            low, code = UNKNOWN, ErrorCode.NONE
            try:
                _check_once(is_duplicate)
                self._authorize(request, AclOperation.DELETE, topic.name)
                low = await self._delete(topic.name, partition.partition_index, partition.offset, deadline)
            except RaftlogError as error:
                code = code_of(error)
            return topic_answer.DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=low, error_code=code
            )

        answer = schemas.answer_class(ApiKey.DELETE_RECORDS)
        topic_answer = answer.DeleteRecordsTopicResult
        return answer(
            topics=[
                topic_answer(name=topic.name, partitions=rows)
                for topic, rows in await _for_each(request.message.topics, delete_up_to)
            ]
        )

    async def _delete(self, topic: str, number: int, offset: int, deadline: Deadline) -> int:
        """Delete the records below an offset (-1: the last stable one); return the new log start offset."""
        before = None if offset == HIGH_WATERMARK else offset
        return await self._reads.delete_before(topic, number, before, deadline)


async def _for_each(
    topics: Sequence[Any], work: Callable[[Any, Any, bool], Coroutine[Any, Any, T]]
) -> list[tuple[Any, list[T]]]:
    """Run `work` for all partitions, up to `_AT_ONCE` at a time; return each topic with its results, in order.

    `work` gets the topic, the partition, and whether the request names this partition more than once."""
    asked = [(topic, partition) for topic in topics for partition in topic.partitions]
    counts = Counter(map(_place, asked))
    found: list[T] = []
    for at in range(0, len(asked), _AT_ONCE):
        some = asked[at : at + _AT_ONCE]
        found += await asyncio.gather(*(work(*each, counts[_place(each)] > 1) for each in some))
    results = iter(found)
    return [(topic, [next(results) for _ in topic.partitions]) for topic in topics]


def _place(row: tuple[Any, Any]) -> tuple[str, int]:
    """Return topic and partition of a row; the field names differ in OffsetForLeaderEpoch."""
    topic, partition = row
    if hasattr(topic, "topic"):
        return topic.topic, partition.partition
    return topic.name, partition.partition_index


def _check_once(is_duplicate: bool) -> None:
    """Raise `InvalidArgument`, as Kafka does, if the request names the partition more than once."""
    if is_duplicate:
        raise InvalidArgument("the request names this partition twice")


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the declarations of ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""
    handler = OffsetsHandler(context.broker.leader.offsets, context.broker.security.authorizer)
    return [
        KafkaApi(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSIONS, handler.list_offsets),
        KafkaApi(ApiKey.OFFSET_FOR_LEADER_EPOCH, EPOCH_VERSIONS, handler.end_of_epochs),
        KafkaApi(ApiKey.DELETE_RECORDS, DELETE_VERSIONS, handler.delete_records),
    ]
