"""Error codes of requests about transactions where they differ from those about records, and their permissions.

Temporary failures, and answers that were lost between brokers, are codes on which a client waits or looks for the
coordinator again (14, 15, 16 and 51): every request about a transaction can be repeated."""

from collections.abc import Mapping
from typing import Final

from raftlog import errors
from raftlog.api.kafka.api import ApiKey, KafkaRequest
from raftlog.api.kafka.error_codes import ErrorCode, code_of
from raftlog.api.kafka.permissions import transactional_id_resource
from raftlog.errors import NotLeader, RaftlogError
from raftlog.partitions.security.authorizer import Authorizer
from raftlog.partitions.transactions.names import check_transactional_id
from raftlog.partitions.transactions.service import Transactions
from raftlog.security.permissions import AclOperation

_CODES: Final[Mapping[type[RaftlogError], ErrorCode]] = {
    errors.Unavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotLeader: ErrorCode.NOT_COORDINATOR,
    errors.CoordinatorLoading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    errors.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.StorageError: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
_FENCED_SINCE: Final[Mapping[ApiKey, int]] = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""First version of an API that returns PRODUCER_FENCED; earlier versions and other APIs use INVALID_PRODUCER_EPOCH."""


def transaction_code(error: RaftlogError, request: KafkaRequest) -> ErrorCode:
    """Return the error code of a request about a transaction."""
    if error.outcome == "unknown":
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    since = _FENCED_SINCE.get(request.key)
    if isinstance(error, errors.ProducerFenced) and since is not None and request.version >= since:
        return ErrorCode.PRODUCER_FENCED
    for kind in type(error).__mro__:
        found = _CODES.get(kind)
        if found is not None:
            return found
    return code_of(error)


def authorize_transaction(
    authorizer: Authorizer, request: KafkaRequest, operation: AclOperation, transactional_id: str
) -> None:
    """Raise `TransactionalIdNotAuthorized` unless the caller may perform an operation on a transactional id."""
    if authorizer.is_on:
        authorizer.authorize(request.caller, operation, transactional_id_resource(transactional_id))


def check_transaction_coordinator(transactions: Transactions, transactional_id: str) -> None:
    """Raise `NotLeader` unless this node coordinates the id, and `InvalidArgument` for an invalid one."""
    check_transactional_id(transactional_id)
    if not transactions.is_coordinator_of(transactional_id):
        raise NotLeader(f"this broker does not coordinate the transactional id {transactional_id}")
