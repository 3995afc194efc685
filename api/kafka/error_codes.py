"""Table from errors of raftlog to error codes of Kafka.

An error without a row of its own has that of its nearest base class. A produced batch that was definitely refused gets
a code that clients retry (6, 19, 56), or a permanent one. An unknown outcome is 7, which clients retry as well, with
the same sequence if they are idempotent. UNKNOWN_SERVER_ERROR (-1) is never sent for a produced batch."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from raftlog import errors
from raftlog.errors import RaftlogError
from raftlog.partitions.security.client_rates import QuotaExceeded


class ErrorCode(IntEnum):
    """Kafka's error codes that raftlog sends."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    TRANSACTIONAL_ID_NOT_FOUND = 105
    MISMATCHED_ENDPOINT_TYPE = 114


CODES: Final[Mapping[type[RaftlogError], ErrorCode]] = {
    errors.RaftlogError: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.RequestError: ErrorCode.INVALID_REQUEST,
    errors.InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidGroup: ErrorCode.INVALID_GROUP_ID,
    errors.PlacementImpossible: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.MissingKey: ErrorCode.INVALID_RECORD,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.InvalidBatch: ErrorCode.INVALID_RECORD,
    errors.CrcMismatch: ErrorCode.CORRUPT_MESSAGE,
    errors.RecordTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UnknownPartition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.UnknownGroup: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.StaleGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.FencedInstance: ErrorCode.FENCED_INSTANCE_ID,
    errors.InconsistentProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.ProducerFenced: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    errors.InvalidProducerMapping: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    errors.UnknownTransaction: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    errors.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    errors.FencedLeaderEpoch: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownUser: ErrorCode.RESOURCE_NOT_FOUND,
    errors.UserExists: ErrorCode.DUPLICATE_RESOURCE,
    errors.AuthenticationFailed: ErrorCode.SASL_AUTHENTICATION_FAILED,
    errors.NotAuthorized: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    errors.TopicNotAuthorized: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    errors.GroupNotAuthorized: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    errors.TransactionalIdNotAuthorized: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.EntriesTrimmed: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.Unavailable: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.Overloaded: ErrorCode.NOT_ENOUGH_REPLICAS,
    QuotaExceeded: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    errors.StorageFull: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.DescriptorsExhausted: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.UnknownLeaderEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.NoLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.OffsetNotAvailable: ErrorCode.OFFSET_NOT_AVAILABLE,
    errors.CoordinatorLoading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.ConcurrentTransactions: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.UnstableOffsets: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.LogDamaged: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.LogClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.SyncFailed: ErrorCode.REQUEST_TIMED_OUT,
    errors.OutcomeUnknown: ErrorCode.REQUEST_TIMED_OUT,
}


def code_of(error: RaftlogError) -> ErrorCode:
    """Return Kafka's error code of an error."""
    for kind in type(error).__mro__:
        found = CODES.get(kind)
        if found is not None:
            return found
    raise AssertionError(f"{type(error).__name__} is outside the tree")
