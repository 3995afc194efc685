"""Fetch: records of many partitions that this broker leads, with one wait for all of them.

Fetch sessions (KIP-227) are refused the way of a broker whose cache is full: every answer has session id 0, and clients
go on sending all partitions. Requests with isolation level read_committed get the same records: there are no
transactions."""

from typing import Final

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.wire import fetch as codec
from raftlog.api.kafka.wire.fetch import AnsweredPartition, FetchAnswer, PartitionsRequest
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.leader.fetch import PartitionFetch
from raftlog.runtime.memory_budget import MemoryBudget

VERSIONS: Final = (4, 12)
_FULL_FETCH: Final = (-1, 0)
"""Session epochs of requests that name all partitions: without a session, and to begin one."""
_READ_COMMITTED: Final = 1


class FetchHandler:
    """Handler of Fetch."""

    def __init__(self, broker: Broker, answers: MemoryBudget | None) -> None:
        self._broker, self._answers = broker, answers
        self._wait_ms_max = broker.settings.fetch_wait_ms_max

    async def handle(self, request: KafkaRequest) -> FetchAnswer:
        """Fetch from all partitions of a request."""
        message: PartitionsRequest = request.message
        has_aborted_list = message.isolation_level == _READ_COMMITTED
        if message.session_epoch not in _FULL_FETCH:
            return FetchAnswer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, has_aborted_list, ())
        requests = [PartitionFetch(topic, *row) for topic, rows in message.topics for row in rows]
        wait_ms = min(max(message.max_wait_ms, 0), self._wait_ms_max)
        max_bytes = message.max_bytes if self._answers is None else min(message.max_bytes, self._answers.free)
        fetched = iter(
            await self._broker.leader.fetches.fetch(
                requests, max_bytes=max_bytes, min_bytes=message.min_bytes, deadline=deadline_in(wait_ms)
            )
        )
        topics = []
        for topic, rows in message.topics:
            answered = []
            for row in rows:
                batches, watermark, start, error = next(fetched)
                code = ErrorCode.NONE if error is None else code_of(error)
                answered.append(AnsweredPartition(row[0], code, watermark, start, batches))
            topics.append((topic, answered))
        return FetchAnswer(ErrorCode.NONE, has_aborted_list, topics)


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the API."""
    handler = FetchHandler(context.broker, context.answers)
    return [KafkaApi(ApiKey.FETCH, VERSIONS, handler.handle, decode=codec.decode, encode=codec.encode)]
