"""Handler of Fetch: records of many partitions that this broker leads, with one long poll for all of them.

    session epoch −1   fetches all partitions of the request, without a session; the named session ends
    session epoch 0    the same; the partitions become a new session if there is room for it
    other epochs       fetches the session's partitions, after the request's changes to them; the answer has only
                       partitions with new records, offsets or errors

With isolation level read_committed an answer ends at the last stable offset, and lists aborted transactions. A session
has the isolation level of its first request. While no memory for answers is free, a request waits for up to
`_MEMORY_MS`, and is then answered without records."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.fetch_sessions import FetchSession, FetchSessions
from raftlog.api.kafka.isolation import isolation_of
from raftlog.api.kafka.permissions import denied_topics, topic_resource
from raftlog.api.kafka.wire import fetch as codec
from raftlog.api.kafka.wire.fetch import AnsweredPartition, FetchAnswer, PartitionRow, PartitionsRequest
from raftlog.errors import TopicNotAuthorized
from raftlog.partitions.broker import Broker
from raftlog.partitions.caller import Caller
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.leader.fetch import FetchedPartition, PartitionFetch
from raftlog.runtime.memory_budget import MemoryBudget
from raftlog.security.permissions import AclOperation, AclResourceType

VERSIONS: Final = (4, 12)
_NO_SESSION: Final = -1
_NEW_SESSION: Final = 0
_READ_COMMITTED: Final = 1
_UNKNOWN: Final = -1
_MEMORY_MS: Final = 500
"""Maximum wait for free memory for answers."""
_LOOK_MS: Final = 50
"""Interval of the check for free memory."""

Topics = Sequence[tuple[str, Sequence[PartitionRow]]]
AnsweredTopics = Sequence[tuple[str, Sequence[AnsweredPartition]]]


class FetchHandler:
    """Handler of Fetch; `sessions`: the fetch sessions of its listener."""

    def __init__(self, broker: Broker, answers: MemoryBudget | None) -> None:
        """Create the handler with no fetch sessions; `answers` is the memory for answers, None without a limit."""
        self._broker, self._answers, self._authorizer = broker, answers, broker.security.authorizer
        self._free_bytes = None if answers is None else lambda: answers.free
        self._wait_ms_max = broker.settings.fetch_wait_ms_max
        fetches = broker.leader.fetches
        self.sessions = FetchSessions(
            lambda: fetches.begin_session(self._free_bytes),
            broker.node.environment.random,
            broker.measuring.counters.kafka,
        )

    async def handle(self, request: KafkaRequest) -> FetchAnswer:
        """Fetch from all partitions of a request or of its session, with one long poll."""
        message: PartitionsRequest = request.message
        if message.session_epoch not in (_NO_SESSION, _NEW_SESSION):
            return await self._fetch_incrementally(request, message)
        if message.session_id:
            ended = self.sessions.find(message.session_id, request.caller.principal)
            if ended is not None:
                self.sessions.remove(ended)
        asked = _drop_repeated_partitions(message.topics)
        while True:
            with suppress(TopicNotAuthorized):  # a permission ended during the long poll: answer with its refusal
                return await self._fetch_anew(request, message, asked)

    async def _fetch_anew(self, request: KafkaRequest, message: PartitionsRequest, topics: Topics) -> FetchAnswer:
        """Fetch from all partitions of a request; raises `TopicNotAuthorized` if a permission ends meanwhile."""
        denied: frozenset[str] = frozenset()
        names: Collection[str] = ()
        if self._authorizer.is_on:
            names = [topic for topic, _ in topics]
            denied = denied_topics(self._authorizer, request.caller, AclOperation.READ, names)
            names = [topic for topic in names if topic not in denied] if denied else names
        async with self._while_readable(request.caller, names):
            if message.session_epoch == _NEW_SESSION and not denied:
                size = sum(len(rows) for _, rows in topics)
                session = self.sessions.create(size, request.caller.principal, request.connection)
                if session is not None:
                    session.fetch.isolation = isolation_of(message.isolation_level)
                    _put_all(session, topics)
                    return await self._fetch_session(session, message)
            return await self._fetch_all(message, topics, denied)

    def _while_readable(self, caller: Caller, topics: Collection[str]) -> AbstractAsyncContextManager[None]:
        """Return a context that raises `TopicNotAuthorized` once the caller may no longer read one of these topics."""
        return self._authorizer.while_allowed(caller, AclOperation.READ, AclResourceType.TOPIC, topics, is_checked=True)

    async def _fetch_all(self, message: PartitionsRequest, requested: Topics, denied: frozenset[str]) -> FetchAnswer:
        """Fetch from the partitions of a request, without a session; an answer with denied topics is not delayed."""
        requests = [PartitionFetch(topic, *row) for topic, rows in requested if topic not in denied for row in rows]
        fetched = iter(
            await self._broker.leader.fetches.fetch(
                requests,
                max_bytes=message.max_bytes,
                min_bytes=0 if denied else message.min_bytes,
                deadline=await self._begin(message),
                free_bytes=self._free_bytes,
                isolation=isolation_of(message.isolation_level),
            )
        )
        topics = [
            (topic, [_denied(row[0]) if topic in denied else _answered(row[0], next(fetched)) for row in rows])
            for topic, rows in requested
        ]
        return FetchAnswer(ErrorCode.NONE, message.isolation_level == _READ_COMMITTED, topics)

    async def _fetch_incrementally(self, request: KafkaRequest, message: PartitionsRequest) -> FetchAnswer:
        """Fetch from the partitions of a session after the changes of the request."""
        session = self.sessions.find(message.session_id, request.caller.principal)
        if session is None:
            return _session_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message)
        if session.is_busy or session.epoch != message.session_epoch:
            return _session_error(ErrorCode.INVALID_FETCH_SESSION_EPOCH, message)
        if isolation_of(message.isolation_level) is not session.fetch.isolation:
            self.sessions.remove(session)  # the client begins anew
            return _session_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message)
        session.advance()
        self.sessions.use(session, request.connection)
        if message.topics:
            _put_all(session, message.topics)
        for topic, numbers in message.forgotten:
            for number in numbers:
                session.fetch.forget(topic, number)
        if not len(session.fetch):
            self.sessions.remove(session)
            return FetchAnswer(ErrorCode.NONE, message.isolation_level == _READ_COMMITTED, ())
        if self._authorizer.is_on and not self._may_read(request.caller, session.topics):
            self.sessions.remove(session)  # the client begins anew, and gets the refusals
            return _session_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message)
        try:
            async with self._while_readable(request.caller, session.topics):
                return await self._fetch_session(session, message)
        except TopicNotAuthorized:
            self.sessions.remove(session)
            return _session_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message)

    def _may_read(self, caller: Caller, topics: Iterable[str]) -> bool:
        """Return whether the caller may read all these topics."""
        return all(self._authorizer.allows(caller, AclOperation.READ, topic_resource(topic)) for topic in topics)

    async def _fetch_session(self, session: FetchSession, message: PartitionsRequest) -> FetchAnswer:
        """Fetch within a session. After a failure the session is removed."""
        if not self.sessions.count(session):
            return _session_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, message)
        session.is_busy = True
        try:
            news = await session.fetch.fetch(
                max_bytes=message.max_bytes, min_bytes=message.min_bytes, deadline=await self._begin(message)
            )
        except BaseException:
            self.sessions.remove(session)  # which of its partitions are ready is not known any more
            raise
        session.is_busy = False
        has_aborted_list = message.isolation_level == _READ_COMMITTED
        return FetchAnswer(ErrorCode.NONE, has_aborted_list, _by_topic(news), session.id)

    async def _begin(self, message: PartitionsRequest) -> Deadline:
        """Return the deadline of the long poll; before that, wait up to `_MEMORY_MS` if no memory is free."""
        deadline = deadline_in(min(max(message.max_wait_ms, 0), self._wait_ms_max))
        if self._answers is not None and self._answers.free <= 0:
            await self._wait_for_memory(self._answers, deadline)
        return deadline

    async def _wait_for_memory(self, answers: MemoryBudget, deadline: Deadline) -> None:
        """Wait up to `_MEMORY_MS` for free memory for answers: clients retry at once after an empty answer."""
        answers.refused += 1
        until = min(deadline, deadline_in(_MEMORY_MS))
        while answers.free <= 0 and asyncio.get_running_loop().time() < until:
            await self._broker.node.pause(Deadline(min(until, deadline_in(_LOOK_MS))))


def _drop_repeated_partitions(topics: Topics) -> Topics:
    """Return the request's rows without repeated partitions: the first row of each counts."""
    names = dict.fromkeys(name for name, _ in topics)
    if len(names) == len(topics) and all(len({row[0] for row in rows}) == len(rows) for _, rows in topics):
        return topics
    merged: dict[str, dict[int, PartitionRow]] = {name: {} for name in names}
    for name, rows in topics:
        known = merged[name]
        for row in rows:
            known.setdefault(row[0], row)
    return [(name, list(rows.values())) for name, rows in merged.items()]


def _put_all(session: FetchSession, topics: Topics) -> None:
    """Add the partitions of a request to a session."""
    for topic, rows in topics:
        session.topics.add(topic)
        for row in rows:
            session.fetch.put(PartitionFetch(topic, *row))


def _denied(partition: int) -> AnsweredPartition:
    """Return the row of a partition that the caller may not read."""
    return AnsweredPartition(partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _UNKNOWN, _UNKNOWN, ())


def _answered(partition: int, fetched: FetchedPartition) -> AnsweredPartition:
    """Return the row of a partition with the fetched batches, or with an error."""
    batches, watermark, start, error, stable, aborted = fetched
    code = ErrorCode.NONE if error is None else code_of(error)
    return AnsweredPartition(partition, code, watermark, start, batches, stable, aborted)


def _by_topic(news: Iterable[tuple[PartitionFetch, FetchedPartition]]) -> AnsweredTopics:
    """Return the rows of an answer, grouped by topic."""
    topics: dict[str, list[AnsweredPartition]] = {}
    for request, fetched in news:
        topics.setdefault(request.topic, []).append(_answered(request.partition, fetched))
    return list(topics.items())


def _session_error(code: ErrorCode, message: PartitionsRequest) -> FetchAnswer:
    """Return an answer that has only an error code."""
    return FetchAnswer(code, message.isolation_level == _READ_COMMITTED, ())


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the declaration of Fetch."""
    handler = FetchHandler(context.broker, context.answers)
    return [KafkaApi(ApiKey.FETCH, VERSIONS, handler.handle, decode=codec.decode, encode=codec.encode)]
