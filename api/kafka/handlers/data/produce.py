"""Handler of Produce: proposes batches in the order of the requests, and answers when they have the wanted durability.

The partitions of a request are appended in parallel, each with its own result. With acks 0 the client gets no answer;
an error then closes the connection, so that the client refreshes its metadata. The first batches of a transaction in a
partition wait for the transaction's coordinator (`partitions.leader.enlistments`)."""

from collections.abc import Sequence
from typing import Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.context import KafkaContext
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.handlers.transaction_errors import authorize_transaction
from raftlog.api.kafka.permissions import denied_topics
from raftlog.api.kafka.wire import produce as codec
from raftlog.api.kafka.wire.produce import ProduceAnswer, ProducedPartition, ProducedRecords, ProduceRequest
from raftlog.errors import ConcurrentTransactions, CoordinatorLoading, InvalidArgument, NotAuthorized, RaftlogError
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.leader.appends import LeaderAppends
from raftlog.partitions.leader.enlistments import LeaderAppend
from raftlog.partitions.replica import ReplicaAppended
from raftlog.partitions.results import Acks
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.security.permissions import AclOperation

VERSIONS: Final = (0, 9)
SERVED_FROM: Final = 3
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_ACKS: Final[dict[int, Acks]] = {-1: -1, 0: 0, 1: 1}
_MESSAGE_MAX: Final = 1_000
"""Characters of an error message in an answer."""

Rows = list[ProducedPartition | None]


class ProduceHandler:
    """Handler of Produce."""

    def __init__(self, appends: LeaderAppends, authorizer: Authorizer) -> None:
        self._appends, self._authorizer = appends, authorizer

    async def handle(self, request: KafkaRequest) -> ProduceAnswer | None:
        """Append the batches of a request; return None with acks 0.

        All steps that depend on the order of requests are done before the first `await`."""
        message: ProduceRequest = request.message
        acks = _ACKS.get(message.acks)
        if acks is None:
            return _refuse_all(message, ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {message.acks}; use -1, 0 or 1")
        transactional_id = message.transactional_id
        if transactional_id is not None:
            try:
                authorize_transaction(self._authorizer, request, AclOperation.WRITE, transactional_id)
            except NotAuthorized as error:
                return _refuse_all(message, code_of(error), str(error), acks)
        wait_ms = min(message.timeout_ms, NO_DEADLINE_MS) if message.timeout_ms > 0 else NO_DEADLINE_MS
        deadline = deadline_in(wait_ms)
        begun: list[LeaderAppend] = []
        answer: list[tuple[str, Rows]] = []
        seen: set[tuple[str, int]] = set()
        denied: frozenset[str] = frozenset()
        if self._authorizer.is_on:
            names = (topic for topic, _ in message.topics)
            denied = denied_topics(self._authorizer, request.caller, AclOperation.WRITE, names)
        for topic, partitions in message.topics:
            if topic in denied:
                answer.append((topic, [_denied_row(number) for number, _ in partitions]))
                continue
            rows: Rows = []
            for partition in partitions:
                place = topic, partition[0]
                if place in seen:
                    rows.append(_duplicate_row(partition[0]))
                    continue
                seen.add(place)
                rows.append(self._begin(topic, partition, acks, deadline, begun, transactional_id))
            answer.append((topic, rows))
        outcomes = await self._appends.wait_for_outcomes(begun)
        _fill_missing_rows(answer, begun, outcomes)
        if acks == 0:
            _raise_first([each for _, rows in answer for each in rows])
            return None
        return answer  # type: ignore[return-value]  # no row is missing any more

    def _begin(
        self,
        topic: str,
        produced: ProducedRecords,
        acks: Acks,
        deadline: Deadline,
        begun: list[LeaderAppend],
        transactional_id: str | None,
    ) -> ProducedPartition | None:
        """Begin an append, add it to `begun` and return None; or return the answer's row if it is refused at once."""
        number, records = produced
        if records is None or len(records) <= _MAGIC_AT:
            return ProducedPartition(number, ErrorCode.INVALID_RECORD, error_message="no record batch was sent")
        if records[_MAGIC_AT] != _MAGIC:
            text = f"magic {records[_MAGIC_AT]}: only record batches of version 2 are stored"
            return ProducedPartition(number, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, error_message=text)
        try:
            begun.append(self._appends.begin(topic, number, records, acks, deadline, transactional_id))
        except RaftlogError as error:
            return _error_row(number, error)
        return None


def _denied_row(number: int) -> ProducedPartition:
    """Return the row of a partition to which the caller may not write."""
    return ProducedPartition(
        number, ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message="the caller may not write to the topic"
    )


def _duplicate_row(number: int) -> ProducedPartition:
    """Return the row of a partition that the request names twice."""
    return ProducedPartition(number, ErrorCode.INVALID_REQUEST, error_message="the request names the partition twice")


def _fill_missing_rows(
    answer: list[tuple[str, Rows]], begun: Sequence[LeaderAppend], outcomes: Sequence[ReplicaAppended | RaftlogError]
) -> None:
    """Replace each row that is None by the row of the next append in `begun` and of its outcome."""
    ended = iter(zip(begun, outcomes, strict=True))
    for _, rows in answer:
        for place, row in enumerate(rows):
            if row is None:
                append, outcome = next(ended)
                rows[place] = _outcome_row(append, outcome)


def _outcome_row(append: LeaderAppend, outcome: ReplicaAppended | RaftlogError) -> ProducedPartition:
    """Return the row of a partition whose append has an outcome."""
    if isinstance(outcome, RaftlogError):
        return _error_row(append.number, outcome)
    return ProducedPartition(
        append.number, ErrorCode.NONE, outcome.base_offset, append.replica.group.committed_start_offset
    )


def _error_row(partition: int, error: RaftlogError) -> ProducedPartition:
    """Return the row of a partition whose append failed."""
    # Producers do not expect CONCURRENT_TRANSACTIONS for records, and retry NOT_ENOUGH_REPLICAS.
    is_retried = isinstance(error, ConcurrentTransactions | CoordinatorLoading)
    code = ErrorCode.NOT_ENOUGH_REPLICAS if is_retried else code_of(error)
    return ProducedPartition(partition, code, error_message=str(error)[:_MESSAGE_MAX])


def _refuse_all(
    message: ProduceRequest, code: ErrorCode, why: str, acks: Acks | None = None
) -> Sequence[tuple[str, Sequence[ProducedPartition]]]:
    """Return an answer with an error for every partition. Raises `InvalidArgument` if the client expects no answer."""
    if acks == 0:
        raise InvalidArgument(why)
    return [
        (topic, [ProducedPartition(number, code, error_message=why) for number, _ in partitions])
        for topic, partitions in message.topics
    ]


def _raise_first(rows: Sequence[ProducedPartition | None]) -> None:
    """Raise `InvalidArgument` for the first failed row, to close the connection of a client that gets no answer."""
    for row in rows:
        if row is not None and row.error_code != ErrorCode.NONE:
            raise InvalidArgument(f"Produce with acks 0 failed for partition {row.partition}: {row.error_message}")


def apis(context: KafkaContext) -> list[KafkaApi]:
    """Return the declaration of Produce."""
    handler = ProduceHandler(context.broker.leader.appends, context.broker.security.authorizer)
    return [
        KafkaApi(
            ApiKey.PRODUCE,
            VERSIONS,
            handler.handle,
            served_from=SERVED_FROM,
            decode=codec.decode,
            encode=codec.encode,
            is_pipelined=True,
        )
    ]
