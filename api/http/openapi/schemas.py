"""The named schemas of the document."""

from raftlog.api.http.openapi.bounds import (
    BASE64_PATTERN,
    DATE_TIME,
    NEW_TOPIC_NAME,
    TIMESTAMP_MS,
    rows,
    topic_settings,
)
from raftlog.api.http.openapi.parts import (
    ANY,
    BOOLEAN,
    NODE,
    OFFSET,
    Json,
    array,
    integer,
    nullable,
    obj,
    ref,
    string,
)
from raftlog.api.http.records.new_records import RECORDS_MAX, SCHEMAS_OF_RECORDS

_ERROR_MEMBERS: Json = {
    "error_code": integer(400, 59_999, "The status, or five digits of which the first three are the status."),
    "message": string("What was wrong, where, and what to do."),
    "outcome": string("`failed`: it definitely did not happen; `unknown`: it may have.", enum=["failed", "unknown"]),
}
_BASE64 = string(contentEncoding="base64", pattern=BASE64_PATTERN)
_SETTINGS = topic_settings()


def _of_settings(**more: Json) -> Json:
    """One setting: its name with the values that it can have."""
    return {
        "anyOf": [
            obj({"name": {"const": name}, "value": value, **more}, optional=list(more))
            for name, value in _SETTINGS.items()
        ]
    }


_HEADERS = array(obj({"name": string(), "value": nullable(_BASE64)}, optional=["value"]))
_TIMESTAMP: Json = {
    "anyOf": [TIMESTAMP_MS, DATE_TIME, {"type": "null"}],
    "description": "Milliseconds since 1970, or RFC 3339 with a time zone. Without one: the time of the append.",
}
_ENCODING = string(enum=["json", "text", "base64"])


def _record(content: Json, partition: Json) -> Json:
    return obj(
        {
            "key": content,
            "value": content,
            "headers": nullable(_HEADERS),
            "timestamp": _TIMESTAMP,
            "partition": partition,
            "encoding": nullable(obj({"key": _ENCODING, "value": _ENCODING}, optional=["key", "value"])),
            "topic": ANY,
            "offset": ANY,
        },
        optional=["key", "value", "headers", "timestamp", "partition", "encoding", "topic", "offset"],
        text="`topic` and `offset` are not looked at, so what a fetch gives can be sent.",
    )


_PARTITION_OF_STREAM = obj(
    {
        "partition": NODE,
        "records": integer(),
        "first_offset": nullable(OFFSET),
        "last_offset": nullable(OFFSET),
        "line": integer(1, text="The first line that this partition lacks, or may lack."),
        "error_code": _ERROR_MEMBERS["error_code"],
        "error": string(),
        "outcome": _ERROR_MEMBERS["outcome"],
    },
    optional=["line", "error_code", "error", "outcome"],
)
_PRODUCER_MEMBERS: Json = {
    "producer_id": integer(0, (1 << 63) - 1, "Of `POST /producers`."),
    "producer_epoch": integer(0, 32_767),
    "sequence": integer(0, (1 << 31) - 1, "Of the first record: each partition has its own."),
}


def _records_body(value: Json, partition: Json) -> Json:
    """Records, and what an idempotent producer says: all three members or none."""
    names = list(_PRODUCER_MEMBERS)
    body = obj(
        {
            "records": rows(_record(value, partition), 1, RECORDS_MAX),
            **_PRODUCER_MEMBERS,
            **{name: {"type": "null"} for name in SCHEMAS_OF_RECORDS},
        },
        optional=[*names, *SCHEMAS_OF_RECORDS],
    )
    return body | {"dependentRequired": {name: [other for other in names if other != name] for name in names}}


_PRODUCED = obj(
    {
        "partition": nullable(NODE),
        "offset": nullable(OFFSET),
        "error_code": nullable(integer()),
        "error": nullable(string()),
        "outcome": _ERROR_MEMBERS["outcome"],
        "duplicate": {
            "const": True,
            "description": "An idempotent producer sent it before; the offset is that of then.",
        },
    },
    optional=["outcome", "duplicate"],
)
_PRODUCED_MEMBERS: Json = {
    "offsets": array(_PRODUCED, 1),
    "key_schema_id": {"type": "null"},
    "value_schema_id": {"type": "null"},
}

SCHEMAS: Json = {
    "Error": obj(_ERROR_MEMBERS),
    "FetchError": obj(
        {**_ERROR_MEMBERS, "beginning_offset": OFFSET, "end_offset": OFFSET},
        optional=["beginning_offset", "end_offset"],
        text="With the log's bounds for an offset out of range.",
    ),
    "CreateTopicError": obj(
        {**_ERROR_MEMBERS, "topic_exists": BOOLEAN},
        optional=["topic_exists"],
        text="topic_exists is true where a topic of that name is there already; the code is that of any bad request.",
    ),
    "ProduceError": obj(
        {
            **_ERROR_MEMBERS,
            "outcome": string(
                "`partial`, of an NDJSON body: what stands before `line` is stored, and nothing from there on.",
                enum=["failed", "unknown", "partial"],
            ),
            "offsets": array(_PRODUCED),
            "records": integer(text="Records of an NDJSON body that are stored."),
            "partitions": array(_PARTITION_OF_STREAM),
            "line": integer(1, text="The first line that is not stored, or may not be."),
        },
        optional=["offsets", "records", "partitions", "line"],
        text="With one entry for each record of a list, or with what an NDJSON body left.",
    ),
    "JsonRecords": _records_body(ANY, nullable(NODE)),
    "BinaryRecords": _records_body(nullable(_BASE64), nullable(NODE)),
    "JsonRecordsOfPartition": _records_body(ANY, {"type": "null"}),
    "BinaryRecordsOfPartition": _records_body(nullable(_BASE64), {"type": "null"}),
    "Produced": obj(_PRODUCED_MEMBERS, text="One entry for each record, in their order."),
    "ProducedBatches": obj(
        {
            **_PRODUCED_MEMBERS,
            "next_offset": nullable(OFFSET),
            "leader_epoch": integer(),
            "high_watermark": integer(-1),
        }
    ),
    "ProducedStream": obj({"records": integer(), "partitions": array(_PARTITION_OF_STREAM)}),
    "Fetched": array(
        obj(
            {
                "topic": string(),
                "key": ANY,
                "value": ANY,
                "partition": NODE,
                "offset": OFFSET,
                "timestamp": integer(-1),
                "headers": _HEADERS,
                "encoding": obj({"key": _ENCODING, "value": _ENCODING}, optional=["key", "value"]),
            },
            optional=["encoding"],
        )
    ),
    "Offsets": obj(
        {"beginning_offset": OFFSET, "end_offset": OFFSET, "offset": nullable(OFFSET), "timestamp": nullable(OFFSET)},
        optional=["offset", "timestamp"],
    ),
    "NewTopic": obj(
        {
            "topic_name": NEW_TOPIC_NAME,
            "partitions_count": nullable(integer(1, 10_000)),
            "replication_factor": nullable(integer(1, 127)),
            "replicas_assignments": {"enum": [None, []], "description": "Brokers are chosen."},
            "configs": rows(ref("NewConfig")),
            "validate_only": BOOLEAN | {"default": False},
        },
        optional=["partitions_count", "replication_factor", "replicas_assignments", "configs", "validate_only"],
    ),
    "NewConfig": _of_settings(),
    "ConfigChanges": obj(
        {
            "data": rows(
                {
                    "anyOf": [
                        _of_settings(operation={"enum": ["SET", None]}),
                        obj(
                            {"name": {"enum": list(_SETTINGS)}, "value": ANY, "operation": {"const": "DELETE"}},
                            optional=["value"],
                        ),
                    ]
                }
            ),
            "validate_only": BOOLEAN | {"default": False},
        },
        optional=["validate_only"],
    ),
}
