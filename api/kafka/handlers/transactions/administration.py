"""Handlers of DescribeTransactions 0, ListTransactions 0 to 1 and WriteTxnMarkers 1."""

from itertools import groupby
from typing import Any

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.handlers.transaction_errors import (
    authorize_transaction,
    check_transaction_coordinator,
    transaction_code,
)
from raftlog.api.kafka.permissions import topic_resource, transactional_id_resource
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import NotAuthorized, RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.transactions.records import TransactionState
from raftlog.partitions.transactions.results import TransactionListing
from raftlog.records import TransactionMarker
from raftlog.security.permissions import CLUSTER, AclOperation

_STATES = frozenset(state.kafka_name for state in TransactionState)


class TransactionAdministration:
    """Handlers of requests by administrators."""

    def __init__(self, broker: Broker) -> None:
        self._transactions, self._authorizer = broker.transactions.without_forwarding(), broker.security.authorizer

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this handler serves, with their versions."""
        return [
            KafkaApi(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0), self.describe_transactions),
            KafkaApi(ApiKey.LIST_TRANSACTIONS, (0, 1), self.list_transactions),
            KafkaApi(ApiKey.WRITE_TXN_MARKERS, (1, 1), self.write_markers),
        ]

    async def describe_transactions(self, request: KafkaRequest) -> Any:
        """Return the states of transactional ids that this broker coordinates."""
        deadline, answer = deadline_in(NO_DEADLINE_MS), answer_class(request.key)
        rows = [
            await self._describe(answer.TransactionState, name, request, deadline)
            for name in request.message.transactional_ids
        ]
        return answer(transaction_states=rows)

    async def _describe(self, row: Any, name: str, request: KafkaRequest, deadline: Deadline) -> Any:
        """Return the row of one transactional id, or of its error."""
        try:
            authorize_transaction(self._authorizer, request, AclOperation.DESCRIBE, name)
            check_transaction_coordinator(self._transactions, name)
            found = await self._transactions.describe(name, deadline=deadline)
        except RaftlogError as error:
            return row(
                error_code=transaction_code(error, request),
                transactional_id=name,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=-1,
                producer_id=-1,
                producer_epoch=-1,
                topics=[],
            )
        details = found.details
        topics = [
            row.TopicData(topic=topic, partitions=[number for _, number in places])
            for topic, places in groupby(found.partitions, key=lambda place: place.topic)
            if self._authorizer.allows(request.caller, AclOperation.DESCRIBE, topic_resource(topic))
        ]
        return row(
            error_code=ErrorCode.NONE,
            transactional_id=name,
            transaction_state=details.state,
            transaction_timeout_ms=details.timeout_ms,
            transaction_start_time_ms=details.started_ms or -1,
            producer_id=details.producer_id,
            producer_epoch=details.epoch,
            topics=topics,
        )

    async def list_transactions(self, request: KafkaRequest) -> Any:
        """Return the transactional ids that this broker coordinates; clients send the request to all brokers."""
        asked, answer = request.message, answer_class(request.key)
        unknown = [state for state in asked.state_filters if state not in _STATES]
        try:
            listings = await self._transactions.local_listings(deadline=deadline_in(NO_DEADLINE_MS))
        except RaftlogError as error:
            return answer(
                error_code=transaction_code(error, request), unknown_state_filters=unknown, transaction_states=[]
            )
        return answer(
            error_code=ErrorCode.NONE,
            unknown_state_filters=unknown,
            transaction_states=[
                answer.TransactionState(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state,
                )
                for each in listings
                if _is_wanted(each, request)
                and self._authorizer.allows(
                    request.caller, AclOperation.DESCRIBE, transactional_id_resource(each.transactional_id)
                )
            ],
        )

    async def write_markers(self, request: KafkaRequest) -> Any:
        """Write transaction markers to partitions that this broker leads; operators so end a hanging transaction."""
        refusal: RaftlogError | None = None
        try:
            self._authorizer.authorize(request.caller, AclOperation.ALTER, CLUSTER)
        except NotAuthorized as error:
            refusal = error
        deadline, answer = deadline_in(NO_DEADLINE_MS), answer_class(request.key)
        marker_row = answer.WritableTxnMarkerResult
        topic_row = marker_row.WritableTxnMarkerTopicResult
        row = topic_row.WritableTxnMarkerPartitionResult
        rows = []
        for each in request.message.markers:
            marker = TransactionMarker(
                each.producer_id, each.producer_epoch, bool(each.transaction_result), each.coordinator_epoch
            )
            topics = []
            for topic in each.topics:
                parts = []
                for number in topic.partition_indexes:
                    code = code_of(refusal) if refusal else await self._write(topic.name, number, marker, deadline)
                    parts.append(row(partition_index=number, error_code=code))
                topics.append(topic_row(name=topic.name, partitions=parts))
            rows.append(marker_row(producer_id=each.producer_id, topics=topics))
        return answer(markers=rows)

    async def _write(self, topic: str, number: int, marker: TransactionMarker, deadline: Deadline) -> ErrorCode:
        """Write a marker to a partition; return the error code."""
        try:
            await self._transactions.write_marker(topic, number, marker, deadline=deadline)
        except RaftlogError as error:
            return code_of(error)
        return ErrorCode.NONE


def _is_wanted(listing: TransactionListing, request: KafkaRequest) -> bool:
    """Return whether a transactional id passes all filters of the request: state, producer id and duration."""
    asked = request.message
    states, producer_ids = asked.state_filters, asked.producer_id_filters
    duration_ms = asked.duration_filter if request.version >= 1 else -1
    return (
        (not states or listing.state in states)
        and (not producer_ids or listing.producer_id in producer_ids)
        and (duration_ms < 0 or (listing.started_ms > 0 and listing.age_ms > duration_ms))
    )
