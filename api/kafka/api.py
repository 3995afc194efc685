"""Declaration of one API of the Kafka protocol: its key, its versions, its codec and its handler.

A package in `handlers` creates one `KafkaApi` for each API that it serves. `dispatcher` collects them, and ApiVersions
lists exactly these APIs."""

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from raftlog.partitions.caller import Caller
from raftlog.types import Buffer


class ApiKey(IntEnum):
    """API keys of Kafka's requests, with Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66


class RequestConnection(Protocol):
    """Connection of a request, for handlers that keep state for its client."""

    lost_callbacks: list[Callable[[], None]]
    """Functions that are called once the connection is lost."""
    opened_at: float
    """Loop time at which the connection was opened."""


class KafkaRequest(NamedTuple):
    """Decoded request of one connection.

    `message` is the result of the API's `decode`: of most APIs a message of `kafka.protocol`, with Kafka's field names
    in snake case."""

    key: ApiKey
    version: int
    message: Any
    caller: Caller
    login: Any = None
    """The connection's `KafkaLogin`; None where the listener requires none."""
    connection: RequestConnection | None = None
    """Connection of the request."""


Handler: TypeAlias = Callable[[KafkaRequest], Awaitable[Any]]
"""Handler of requests: returns the answer for the API's `encode`, or None if the client expects none (acks 0).

Errors belong into the answer, by `error_codes.code_of`. A `RaftlogError` that a handler raises becomes an answer of the
request's schema where it has a top-level error code, otherwise the connection ends."""


class KafkaApi(NamedTuple):
    """Declaration of one API that this listener serves."""

    key: ApiKey
    versions: tuple[int, int]
    """First and last version that ApiVersions lists."""
    handle: Handler
    served_from: int | None = None
    """First version that is served, where ApiVersions lists older ones that are refused (Produce 0 to 2)."""
    decode: Callable[[memoryview, int], Any] | None = None
    """Decoder of a request's body, given its version; raises `MalformedRequest`. None: the schema of `wire.schemas`."""
    encode: Callable[[Any, int], Sequence[Buffer]] | None = None
    """Encoder of an answer's body, given the version; None: the schema of `wire.schemas`."""
    is_pipelined: bool = False
    """Whether a request may begin before earlier requests of its connection are answered, if these are pipelined too.

    The handler must complete all steps that depend on the order of requests before its first `await`."""


NO_DEADLINE_MS: Final = 30_000
"""Time for a request whose schema has no timeout."""
