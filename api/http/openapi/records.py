"""Paths of records: append, fetch, offsets."""

from raftlog.api.http.openapi.parts import (
    BOOLEAN,
    OFFSET,
    PARTITION,
    TIMEOUT,
    TOPIC,
    Json,
    answer,
    errors,
    in_header,
    in_query,
    integer,
    operation,
    ref,
    string,
)
from raftlog.api.http.records.tail import PATIENCE_MS_MAX
from raftlog.api.http.server.media import JSON_TYPE, Format

_TAG = "records"
_LEADER = {"X-Raftlog-Leader": string("HOST:PORT of the broker that leads, where it is another one.")}
_TOPIC_ID = {"X-Raftlog-Topic-Id": string("The topic's uuid, as in `/v1/cluster_view`.")}
_BOUNDS = {
    "X-Raftlog-High-Watermark": integer(),
    "X-Raftlog-Log-Start": integer(),
    "X-Raftlog-Next-Offset": integer(text="Where to go on."),
    "X-Raftlog-Leader-Epoch": integer(),
    **_TOPIC_ID,
}
_ACKS = in_query(
    "acks",
    string(enum=["all", "-1", "1", "0"], default="all"),
    "`all` (or `-1`): answered when it is committed; `1`: when the leader has taken it; `0`: at once.",
)
_LINES = in_query(
    "lines",
    string(enum=["records", "text-records", "values"], default="records"),
    "Of an NDJSON body: every line is a record object; the same, with strings stored as their text; or every line is a "
    "value, stored as it stands.",
)
_KEY = in_query("key", string(), "Of an octet-stream body: the record's key, any bytes, percent-encoded.")
_TIMESTAMP = in_query(
    "timestamp",
    string(),
    "Of an octet-stream body: milliseconds since 1970, or RFC 3339 with a time zone.",
)
_HEADERS = in_header(
    "X-Raftlog-Headers", string(), "Of an octet-stream body: the record's headers, as the JSON list of a record object."
)
_OCTETS = string("Bytes.", format="binary")
_PROGRESS = string("Of an NDJSON body, when `Accept` asks for it: what is stored, after each block and at the end.")
_OF_PARTITION = {
    JSON_TYPE: {"schema": ref("JsonRecordsOfPartition")},
    Format.JSON.value: {"schema": ref("JsonRecordsOfPartition")},
    Format.BINARY.value: {"schema": ref("BinaryRecordsOfPartition")},
}
_STORED_BATCHES = {Format.BATCHES.value: {"schema": {"description": "Record batches v2, one after another."}}}
_BODY: Json = {
    JSON_TYPE: {"schema": ref("JsonRecords")},
    Format.JSON.value: {"schema": ref("JsonRecords")},
    Format.BINARY.value: {"schema": ref("BinaryRecords")},
    Format.NDJSON.value: {
        "schema": string(
            "One JSON value on each line, as `lines` says; of any length, appended as it arrives; also gzip."
        ),
        "example": '{"value": {"total": 12.5}, "key": "alice"}\n{"value": "second"}\n',
    },
    Format.OCTETS.value: {"schema": string("The value of one record.", format="binary")},
}


def _produce(summary: str, name: str, where: list[Json], body: Json) -> Json:
    done = {"anyOf": [ref("Produced"), ref("ProducedBatches"), ref("ProducedStream")]}
    return operation(
        summary,
        _TAG,
        name,
        {
            "200": answer("What is stored; an entry with an error was not.", done, headers=_LEADER | _TOPIC_ID)
            | {"content": {JSON_TYPE: {"schema": done}, Format.NDJSON.value: {"schema": _PROGRESS}}},
            **errors(400, 404, 408, 409, 413, 415, 422, 429, 503, 504, 507, schema="ProduceError"),
        },
        [*where, _ACKS, TIMEOUT, _LINES, _KEY, _TIMESTAMP, _HEADERS],
        body,
    )


_FETCH = operation(
    "Fetch records from an offset on, with long poll; or read them as lines.",
    _TAG,
    "fetch",
    {
        "200": answer(
            "Records, or as lines (the last can be an error body with `next_offset`), or as stored.",
            ref("Fetched"),
            (JSON_TYPE, Format.JSON.value, Format.BINARY.value),
            _BOUNDS | _LEADER,
        ),
        **errors(400, 404, 406, 422, 429, 503, schema="FetchError"),
    },
    [
        TOPIC,
        PARTITION,
        in_query(
            "offset",
            {"anyOf": [OFFSET, string(enum=["beginning", "end"])]},
            "First offset wanted. Required, but for lines, which can begin at a timestamp or at either end.",
        ),
        in_query(
            "timeout",
            integer() | {"default": 1_000},
            "Milliseconds to wait for `min_bytes`; for lines, without a leader.",
        ),
        in_query("min_bytes", integer() | {"default": 1}, "Stored bytes to wait for."),
        in_query("max_bytes", integer(1) | {"default": 1 << 20}, "Bytes to answer at most, and at least one record."),
        in_query("timestamp", OFFSET, "Lines: begin at the first record with this time or a later one."),
        in_query("follow", BOOLEAN | {"default": False}, "Lines: go on with what comes."),
        in_query("heartbeat", integer(0, PATIENCE_MS_MAX), "Lines: an empty line after so many milliseconds of quiet."),
    ],
)
_FETCH["responses"]["200"]["content"] |= {
    Format.BATCHES.value: {"schema": _OCTETS},
    Format.NDJSON.value: {"schema": string("A record on each line.")},
}

PATHS: Json = {
    "/topics/{topic}": {
        "post": _produce("Append records, the partition chosen by key or in turn.", "produce", [TOPIC], _BODY)
    },
    "/topics/{topic}/partitions/{partition}": {
        "post": _produce(
            "Append records or stored batches to one partition.",
            "produceToPartition",
            [TOPIC, PARTITION],
            _BODY | _OF_PARTITION | _STORED_BATCHES,
        )
    },
    "/topics/{topic}/partitions/{partition}/records": {"get": _FETCH},
    "/topics/{topic}/partitions/{partition}/offsets": {
        "get": operation(
            "First offset and end offset; the first record from a time on.",
            _TAG,
            "offsets",
            {"200": answer("The offsets.", ref("Offsets")), **errors(400, 404, 503, 504)},
            [
                TOPIC,
                PARTITION,
                TIMEOUT,
                in_query("linearizable", BOOLEAN | {"default": False}, "Nothing acknowledged before is missing."),
                in_query("timestamp", OFFSET, "Milliseconds since 1970."),
            ],
        )
    },
}
