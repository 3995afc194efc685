"""Handlers of AddPartitionsToTxn 0 to 3, AddOffsetsToTxn 0 to 4 and EndTxn 0 to 4."""

from functools import partial
from typing import Any, Final

from raftlog.api.kafka.api import ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.groups.group_errors import authorize_group
from raftlog.api.kafka.handlers.transaction_errors import authorize_transaction, transaction_code
from raftlog.api.kafka.handlers.transactions.connection_order import ConnectionOrder
from raftlog.api.kafka.permissions import denied_topics
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import Deadline, deadline_in
from raftlog.partitions.groups.results import TransactionalProducer
from raftlog.partitions.transactions.records import TransactionPlace
from raftlog.security.permissions import AclOperation
from raftlog.types import TopicPartition

_WAIT_MS: Final = 10_000
"""Time for the commit of a transition; clients retry afterwards."""


class TransactionHandlers:
    """Handlers of requests of transactional producers."""

    def __init__(self, broker: Broker) -> None:
        self._transactions, self._authorizer = broker.transactions.without_forwarding(), broker.security.authorizer
        self._order = ConnectionOrder(broker.transactions.taken_over_at)

    def apis(self) -> list[KafkaApi]:
        """Return the APIs that this handler serves, with their versions."""
        return [
            KafkaApi(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 3), self.add_partitions),
            KafkaApi(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), self.add_offsets),
            KafkaApi(ApiKey.END_TXN, (0, 4), self.end_transaction),
        ]

    async def add_partitions(self, request: KafkaRequest) -> Any:
        """Add partitions to a transaction: all of the request, or none."""
        asked = request.message
        producer = TransactionalProducer(
            asked.v3_and_below_transactional_id,
            asked.v3_and_below_producer_id,
            asked.v3_and_below_producer_epoch,
        )
        keys = [
            TopicPartition(topic.name, number) for topic in asked.v3_and_below_topics for number in topic.partitions
        ]
        deadline = deadline_in(_WAIT_MS)
        try:
            authorize_transaction(self._authorizer, request, AclOperation.WRITE, producer.transactional_id)
            places, codes = await self._find_partitions(request, keys, deadline)
            if not codes:
                add = partial(self._transactions.add_partitions, producer, places, deadline=deadline)
                await self._order.run(request, producer, add)
        except RaftlogError as error:
            codes = dict.fromkeys(keys, transaction_code(error, request))
        rest = ErrorCode.OPERATION_NOT_ATTEMPTED if codes else ErrorCode.NONE
        answer = answer_class(request.key)
        topic_row = answer.AddPartitionsToTxnTopicResult
        row = topic_row.AddPartitionsToTxnPartitionResult
        return answer(
            results_by_topic_v3_and_below=[
                topic_row(
                    name=topic.name,
                    results_by_partition=[
                        row(
                            partition_index=number,
                            partition_error_code=codes.get(TopicPartition(topic.name, number), rest),
                        )
                        for number in topic.partitions
                    ],
                )
                for topic in asked.v3_and_below_topics
            ]
        )

    async def _find_partitions(
        self, request: KafkaRequest, keys: list[TopicPartition], deadline: Deadline
    ) -> tuple[list[TransactionPlace], dict[TopicPartition, ErrorCode]]:
        """Return the partitions that exist and that the caller may write, and the error codes of the others."""
        names = {key.topic for key in keys}
        denied = denied_topics(self._authorizer, request.caller, AclOperation.WRITE, names)
        denied |= {name for name in names if name.startswith("__")}
        codes = {key: ErrorCode.TOPIC_AUTHORIZATION_FAILED for key in keys if key.topic in denied}
        wanted = [key for key in keys if key not in codes]
        places = []
        for key, place in (await self._transactions.find_partitions(wanted, deadline=deadline)).items():
            if isinstance(place, RaftlogError):
                codes[key] = transaction_code(place, request)
            else:
                places.append(place)
        return places, codes

    async def add_offsets(self, request: KafkaRequest) -> Any:
        """Add a consumer group to a transaction."""
        asked = request.message
        producer = TransactionalProducer(asked.transactional_id, asked.producer_id, asked.producer_epoch)
        code = ErrorCode.NONE
        try:
            authorize_transaction(self._authorizer, request, AclOperation.WRITE, asked.transactional_id)
            authorize_group(self._authorizer, request, AclOperation.READ, asked.group_id)
            add = partial(self._transactions.add_group, producer, asked.group_id, deadline=deadline_in(_WAIT_MS))
            await self._order.run(request, producer, add)
        except RaftlogError as error:
            code = transaction_code(error, request)
        return answer_class(request.key)(error_code=code)

    async def end_transaction(self, request: KafkaRequest) -> Any:
        """Commit or abort a transaction; return the answer once the decision is committed."""
        asked = request.message
        producer = TransactionalProducer(asked.transactional_id, asked.producer_id, asked.producer_epoch)
        code = ErrorCode.NONE
        try:
            authorize_transaction(self._authorizer, request, AclOperation.WRITE, asked.transactional_id)
            end = self._transactions.commit if asked.committed else self._transactions.abort
            await self._order.run(request, producer, partial(end, producer, deadline=deadline_in(_WAIT_MS)))
        except RaftlogError as error:
            code = transaction_code(error, request)
        return answer_class(request.key)(error_code=code)
