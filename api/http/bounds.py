"""Bounds of values in requests, and schemas derived from the constants that the code uses to check them.

The broker accepts every value that a schema allows; some schemas are stricter than the broker."""

from typing import Any, Final

from raftlog.api.http.openapi.parts import INT64_MAX, Json, array, integer, string
from raftlog.partitions.consumers.patterns import PATTERN_CHARACTERS_MAX
from raftlog.partitions.controller.machine.naming import INTERNAL_PREFIX, TOPIC_NAME_BYTES_MAX
from raftlog.partitions.controller.machine.security_commands import ENTITY_TYPES
from raftlog.partitions.groups.joins import PROTOCOLS_MAX, TEXT_MAX
from raftlog.partitions.groups.records import METADATA_BYTES_MAX
from raftlog.partitions.groups.settings import GroupSettings
from raftlog.partitions.transactions.settings import TransactionSettings
from raftlog.security.credentials import PASSWORD_BYTES_MAX, USER_NAME_BYTES_MAX
from raftlog.setting_bounds import bounds_of
from raftlog.topic_config import CLEANUP_POLICIES, UNBOUNDED, TopicConfig, kafka_name

INT32_MAX: Final = (1 << 31) - 1
TEXT_LENGTH_MAX: Final = 32_767
"""Length of a string, the same as Kafka's."""
ROWS_MAX: Final = 10_000
"""Length of a list of objects."""
PLACES_MAX: Final = 5_000
"""Topics or partitions in one request to a consumer instance."""
CHANGES_MAX: Final = 100
"""Settings of the cluster in one request."""
SETTING_TEXT_MAX: Final = 255
HEARTBEAT_WAIT_MS_MAX: Final = 30_000
_GROUP_SETTINGS: Final = GroupSettings()
_UTF8_BYTES_MAX: Final = 4

BASE64_PATTERN: Final = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
NEW_TOPIC_NAME: Json = string(
    f"Letters, digits, `.`, `_` and `-`; not beginning with `.` or `{INTERNAL_PREFIX}`.",
    pattern=r"^(?!\.|__)[a-zA-Z0-9._-]+$",
    minLength=1,
    maxLength=TOPIC_NAME_BYTES_MAX,
)
TEXT: Json = string(maxLength=TEXT_LENGTH_MAX)
GROUP_TEXT: Json = string(minLength=1, maxLength=TEXT_MAX)
CLIENT_ID: Json = string(maxLength=TEXT_MAX)
NAME_PATTERN: Final = r"^[^\x00-\x1f\x7f/]+$"
NAME: Json = string(pattern=NAME_PATTERN, minLength=1, maxLength=TEXT_MAX)
"""Name of a consumer group or a consumer instance."""
TOPIC_PATTERN: Json = string(minLength=1, maxLength=PATTERN_CHARACTERS_MAX)
OFFSET_METADATA: Json = {
    "anyOf": [
        string(pattern=r"^[\x00-\x7f]*$", maxLength=METADATA_BYTES_MAX),
        string(maxLength=METADATA_BYTES_MAX // _UTF8_BYTES_MAX),
        {"type": "null"},
    ],
    "description": f"At most {METADATA_BYTES_MAX} bytes of UTF-8.",
}
SUBSCRIPTION: Json = string(
    contentEncoding="base64",
    pattern=BASE64_PATTERN,
    maxLength=(_GROUP_SETTINGS.max_metadata_bytes // PROTOCOLS_MAX - TEXT_MAX) // 3 * 4,
)
"""Subscription for one protocol, so short that all protocols together fit the bound of a group member."""
SESSION_TIMEOUT: Json = integer(
    _GROUP_SETTINGS.min_session_timeout_ms,
    _GROUP_SETTINGS.max_session_timeout_ms,
    "Within the broker's `--group-min-session-timeout-ms` and `--group-max-session-timeout-ms`.",
)
REBALANCE_TIMEOUT: Json = integer(1, _GROUP_SETTINGS.max_rebalance_timeout_ms)
TRANSACTION_TIMEOUT: Json = integer(
    1, TransactionSettings().max_timeout_ms, "Within the broker's `--transaction-max-timeout-ms`."
)
DATE_TIME: Json = string(
    "RFC 3339 with a time zone, from 1971 on.",
    format="date-time",
    pattern=r"^(?:197[1-9]|19[89]\d|[2-9]\d{3})-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$",
)
TIMESTAMP: Json = {"anyOf": [integer(0, (1 << 62) - 1), DATE_TIME]}
SUBSCRIBED_TOPICS: Json = array(NEW_TOPIC_NAME, 1) | {"maxItems": PLACES_MAX}
PARTITIONS_COUNT: Json = integer(1, 10_000)
GROWN_PARTITIONS_COUNT: Json = integer(2, 10_000)
REPLICATION_FACTOR: Json = integer(1, 127)
FEATURE_LEVEL: Json = integer(1, 1_000)
CLUSTER_SETTINGS: Json = {
    "additionalProperties": {
        "type": ["string", "integer", "boolean"],
        "maxLength": SETTING_TEXT_MAX,
        "minimum": 0,
        "maximum": INT64_MAX,
    },
    "propertyNames": {"maxLength": SETTING_TEXT_MAX},
    "maxProperties": CHANGES_MAX // 2,
    "examples": [{"balancer.mode": "off"}],
}
CLUSTER_SETTING_NAMES: Json = array(string(maxLength=SETTING_TEXT_MAX)) | {"maxItems": CHANGES_MAX // 2}


def digits(high: int) -> dict[str, Any]:
    """Return the JSON schema of null, a whole number up to `high`, or its text with fewer digits than `high`."""
    return {"anyOf": [integer(0, high), string(pattern=f"^[0-9]{{1,{len(str(high)) - 1}}}$"), {"type": "null"}]}


def topic_setting_schemas() -> dict[str, Json]:
    """Return the schemas of all topic settings, as a number or as text."""
    found = {
        kafka_name(name): _setting_schema(int(low), int(high), is_unbounded=name in UNBOUNDED)
        for name, (low, high) in bounds_of(TopicConfig).items()
    }
    return found | {
        "cleanup.policy": {"enum": list(CLEANUP_POLICIES)},
        "min.cleanable.dirty.ratio": {
            "anyOf": [{"enum": [0, 1]}, string(pattern=r"^(?:0(?:\.[0-9]{1,9})?|1(?:\.0)?)$")]
        },
        "min.insync.replicas": {"enum": [1, "1"], "description": "Or more, up to the replication factor."},
    }


def _setting_schema(low: int, high: int, *, is_unbounded: bool) -> Json:
    """Return the schema of a topic setting with these bounds, as a number or as its text.

    The pattern of the text allows the two bounds, and each number whose digit count alone proves that it is between
    them. It therefore excludes some numbers that the broker accepts."""
    shortest = 0 if low <= 1 else len(str(low))
    between = f"[1-9][0-9]{{{shortest},{len(str(high)) - 2}}}"
    number = integer(low, high)
    text = string(pattern=f"^(?:{'-1|' if is_unbounded else ''}{low}|{high}|{between})$")
    return {"anyOf": [number, text, *([{"const": -1}] if is_unbounded else [])]}


USER_NAME: Json = string(pattern=r"^[^:\x00-\x1f\x7f]+$", minLength=1, maxLength=USER_NAME_BYTES_MAX)
PASSWORD: Json = string(minLength=1, maxLength=PASSWORD_BYTES_MAX)
ACL_NAME: Json = string(minLength=1, maxLength=255)
PRINCIPAL: Json = string(pattern="^User:", minLength=6, maxLength=320)
QUOTA_ENTITY: Json = {
    "type": "object",
    "propertyNames": {"enum": list(ENTITY_TYPES)},
    "additionalProperties": string(maxLength=320),
    "minProperties": 1,
}
QUOTAS_MAX: Final = 5
QUOTAS: Json = {
    "type": "object",
    "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "maximum": 1 << 53},
    "propertyNames": {"maxLength": SETTING_TEXT_MAX},
    "maxProperties": QUOTAS_MAX,
}
QUOTA_NAMES: Json = array(string(minLength=1, maxLength=SETTING_TEXT_MAX)) | {"maxItems": QUOTAS_MAX}
