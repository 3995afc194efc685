"""Handler of Fetch: records of many partitions that this broker leads, with one long poll for all of them.

Fetch sessions (KIP-227) are refused the way of a broker whose cache is full: every answer has session id 0, and clients
go on sending all partitions. Requests with isolation level read_committed get the same records: there are no
transactions. While the memory for answers is used up, an answer has no records, and is held for a moment first."""

import asyncio
from collections.abc import Sequence
from typing import Final

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.wire import fetch as codec
from raftlog.api.kafka.wire.fetch import AnsweredPartition, FetchAnswer, PartitionRow, PartitionsRequest
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.leader.fetch import PartitionFetch
from raftlog.runtime.memory_budget import MemoryBudget

VERSIONS: Final = (4, 12)
_FULL_FETCH: Final = (-1, 0)
"""Session epochs of requests that name all partitions: without a session, and to begin one."""
_READ_COMMITTED: Final = 1
_MEMORY_MS: Final = 500
"""Longest wait for free memory."""
_LOOK_MS: Final = 50
"""Pause between two looks for it."""

Topics = Sequence[tuple[str, Sequence[PartitionRow]]]


class FetchHandler:
    """Handler of Fetch."""

    def __init__(self, broker: Broker, answers: MemoryBudget | None) -> None:
        self._broker, self._answers = broker, answers
        self._free_bytes = None if answers is None else lambda: answers.free
        self._wait_ms_max = broker.settings.fetch_wait_ms_max

    async def handle(self, request: KafkaRequest) -> FetchAnswer:
        """Fetch from all partitions of a request, with one long poll."""
        message: PartitionsRequest = request.message
        has_aborted_list = message.isolation_level == _READ_COMMITTED
        if message.session_epoch not in _FULL_FETCH:
            return FetchAnswer(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, has_aborted_list, ())
        asked = _distinct(message.topics)
        requests = [PartitionFetch(topic, *row) for topic, rows in asked for row in rows]
        deadline = deadline_in(min(max(message.max_wait_ms, 0), self._wait_ms_max))
        if self._answers is not None and self._answers.free <= 0:
            await self._wait_for_memory(self._answers, deadline)
        fetched = iter(
            await self._broker.leader.fetches.fetch(
                requests,
                max_bytes=message.max_bytes,
                min_bytes=message.min_bytes,
                deadline=deadline,
                free_bytes=self._free_bytes,
            )
        )
        topics = []
        for topic, rows in asked:
            answered = []
            for row in rows:
                batches, watermark, start, error = next(fetched)
                code = ErrorCode.NONE if error is None else code_of(error)
                answered.append(AnsweredPartition(row[0], code, watermark, start, batches))
            topics.append((topic, answered))
        return FetchAnswer(ErrorCode.NONE, has_aborted_list, topics)

    async def _wait_for_memory(self, answers: MemoryBudget, deadline: Deadline) -> None:
        """Wait shortly for free memory for answers, because clients retry at once after an empty answer."""
        answers.refused += 1
        until = min(deadline, deadline_in(_MEMORY_MS))
        while answers.free <= 0 and asyncio.get_running_loop().time() < until:
            await self._broker.node.pause(Deadline(min(until, deadline_in(_LOOK_MS))))


def _distinct(topics: Topics) -> Topics:
    """Return each partition once, with its first row; the answer has no rows for further ones."""
    names = dict.fromkeys(name for name, _ in topics)
    if len(names) == len(topics) and all(len({row[0] for row in rows}) == len(rows) for _, rows in topics):
        return topics
    merged: dict[str, dict[int, PartitionRow]] = {name: {} for name in names}
    for name, rows in topics:
        known = merged[name]
        for row in rows:
            known.setdefault(row[0], row)
    return [(name, list(rows.values())) for name, rows in merged.items()]


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the declaration of Fetch."""
    handler = FetchHandler(context.broker, context.answers)
    return [KafkaApi(ApiKey.FETCH, VERSIONS, handler.handle, decode=codec.decode, encode=codec.encode)]
