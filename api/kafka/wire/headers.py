"""Headers of Kafka's requests and answers.

    request  v1: key, version, correlation id, client id   v2: + tagged fields; v0 belongs to an API that is not served
    answer   v0: correlation id                            v1: + tagged fields

In a flexible version, requests have header v2 and answers v1. Answers to ApiVersions always have v0, because the client
does not know the broker's versions yet. The client id never has a compact length. Called by `connection`."""

from collections.abc import Mapping
from struct import Struct
from struct import error as struct_error
from typing import Final

from raftlog.api.kafka.api import ApiKey
from raftlog.api.kafka.wire.errors import MalformedRequest
from raftlog.api.kafka.wire.reader import RequestReader

NEVER: Final = 32_767
FLEXIBLE_FROM: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 6,
    ApiKey.METADATA: 9,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 6,
    ApiKey.FIND_COORDINATOR: 3,
    ApiKey.JOIN_GROUP: 6,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 4,
    ApiKey.SYNC_GROUP: 4,
    ApiKey.DESCRIBE_GROUPS: 5,
    ApiKey.LIST_GROUPS: 3,
    ApiKey.SASL_HANDSHAKE: NEVER,
    ApiKey.API_VERSIONS: 3,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.DELETE_TOPICS: 4,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.INIT_PRODUCER_ID: 2,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.END_TXN: 3,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.TXN_OFFSET_COMMIT: 3,
    ApiKey.DESCRIBE_ACLS: 2,
    ApiKey.CREATE_ACLS: 2,
    ApiKey.DELETE_ACLS: 2,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.ALTER_CONFIGS: 2,
    ApiKey.DESCRIBE_LOG_DIRS: 2,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.CREATE_PARTITIONS: 2,
    ApiKey.DELETE_GROUPS: 2,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: NEVER,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1,
    ApiKey.ALTER_CLIENT_QUOTAS: 1,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 0,
}
"""First flexible version of each API; flexible versions have compact lengths and tagged fields (KIP-482)."""

HEAD_BYTES: Final = 10
"""Size of the smallest request: header v1 with a null client id."""
_HEAD: Final = Struct(">hhih")
_ANSWER: Final = Struct(">ii")
_ANSWER_TAGGED: Final = Struct(">iib")
_CORRELATION_BYTES: Final = 4


def is_flexible(key: ApiKey, version: int) -> bool:
    """Return whether a version has compact lengths and tagged fields."""
    return version >= FLEXIBLE_FROM[key]


def read_head(frame: memoryview) -> tuple[int, int, int, bytes]:
    """Read the fields that have the same position in headers v1 and v2. Raises `MalformedRequest`.

    Returns key, version, correlation id and the bytes of the client id, which are empty if it is null."""
    try:
        key, version, correlation_id, length = _HEAD.unpack_from(frame)
    except struct_error:
        raise MalformedRequest(f"a request of {len(frame)} bytes, shorter than a header") from None
    if not -1 <= length <= len(frame) - HEAD_BYTES:
        raise MalformedRequest(f"a client id of {length} bytes in a request of {len(frame)}")
    return key, version, correlation_id, bytes(frame[HEAD_BYTES : HEAD_BYTES + max(0, length)])


def body_position(frame: memoryview, client_id: bytes, *, is_tagged: bool) -> int:
    """Return the position of the body in a request with header v1, or v2 if `is_tagged`. Raises `MalformedRequest`."""
    position = HEAD_BYTES + len(client_id)
    if not is_tagged:
        return position
    if position < len(frame) and frame[position] == 0:
        return position + 1
    reader = RequestReader(frame, position)
    reader.skip_tagged_fields()
    return reader.position


def decode_client_id(raw: bytes) -> str:
    """Decode a client id. Raises `MalformedRequest`."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise MalformedRequest("the client id is not UTF-8") from None


def answer_head(correlation_id: int, body_bytes: int, *, is_tagged: bool) -> bytes:
    """Encode the length and the header of an answer: v1 if `is_tagged`, without tags, else v0."""
    if is_tagged:
        return _ANSWER_TAGGED.pack(_CORRELATION_BYTES + 1 + body_bytes, correlation_id, 0)
    return _ANSWER.pack(_CORRELATION_BYTES + body_bytes, correlation_id)
