"""Handler of TxnOffsetCommit 0 to 4: offsets of a consumer group that count once the transaction is committed.

The group's coordinator stores them as pending; AddOffsetsToTxn has added the group to the transaction before."""

from functools import partial
from typing import Any, Final

from raftlog.api.kafka.api import NO_DEADLINE_MS, ApiKey, KafkaApi, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode
from raftlog.api.kafka.handlers.groups.group_errors import authorize_group, check_coordinator, group_code
from raftlog.api.kafka.handlers.groups.offsets import commit_rows, parse_commits, remove_denied
from raftlog.api.kafka.handlers.transaction_errors import authorize_transaction
from raftlog.api.kafka.handlers.transactions.connection_order import ConnectionOrder
from raftlog.api.kafka.wire.schemas import answer_class
from raftlog.errors import ConcurrentTransactions, RaftlogError
from raftlog.partitions.broker import Broker
from raftlog.partitions.deadline import deadline_in
from raftlog.partitions.groups.results import MemberIdentity, TransactionalProducer
from raftlog.security.permissions import AclOperation

_MEMBER_SINCE: Final = 3
"""First version with the group member, whose generation fences it (KIP-447)."""


class TransactionOffsetHandlers:
    """Handler of TxnOffsetCommit."""

    def __init__(self, broker: Broker) -> None:
        self._groups, self._authorizer = broker.groups.without_forwarding(), broker.security.authorizer
        self._order = ConnectionOrder()

    def apis(self) -> list[KafkaApi]:
        """Return the API that this handler serves, with its versions."""
        return [KafkaApi(ApiKey.TXN_OFFSET_COMMIT, (0, 4), self.commit)]

    async def commit(self, request: KafkaRequest) -> Any:
        """Commit offsets in a transaction; each partition has its own error code."""
        asked, member = request.message, MemberIdentity("", -1)
        if request.version >= _MEMBER_SINCE:
            member = MemberIdentity(asked.member_id, asked.generation_id, asked.group_instance_id)
        producer = TransactionalProducer(asked.transactional_id, asked.producer_id, asked.producer_epoch)
        offsets, codes = parse_commits(asked)
        try:
            authorize_transaction(self._authorizer, request, AclOperation.WRITE, asked.transactional_id)
            authorize_group(self._authorizer, request, AclOperation.READ, asked.group_id)
            offsets = remove_denied(self._authorizer, request, offsets, codes)
            check_coordinator(self._groups, asked.group_id)
            commit = partial(
                self._groups.commit_pending,
                asked.group_id,
                offsets,
                producer=producer,
                member=member,
                deadline=deadline_in(NO_DEADLINE_MS),
            )
            failed = await self._order.run(request, producer, commit)
        except RaftlogError as error:
            codes |= dict.fromkeys(offsets, _offset_code(error))
        else:
            codes |= {place: _offset_code(error) for place, error in failed.items()}
        answer = answer_class(request.key)
        topic_row = answer.TxnOffsetCommitResponseTopic
        row = topic_row.TxnOffsetCommitResponsePartition
        return answer(topics=commit_rows(request, codes, topic_row, row))


def _offset_code(error: RaftlogError) -> ErrorCode:
    """Return the error code; 14, which clients retry, in place of 51, which they do not expect in this answer."""
    if isinstance(error, ConcurrentTransactions):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return group_code(error)
