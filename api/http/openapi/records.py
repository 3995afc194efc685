"""Operations of records: append, fetch, delete; offsets of a log; ids of producers."""

from raftlog.api.http.openapi.derived import of
from raftlog.api.http.openapi.operation import LEADER, Method, in_query, parameter
from raftlog.api.http.openapi.parts import BOOLEAN, OFFSET, Json, integer, ref, string
from raftlog.api.http.records.tail import PATIENCE_MS_MAX
from raftlog.api.http.server.media import JSON_TYPE, Format
from raftlog.values.records import (
    AllocatedProducer,
    LogOffsets,
    LogStart,
    ProducedBatches,
    ProducedRecords,
    ProducedStream,
    ProduceError,
    RecordAsJson,
)

TAG = "records"
_PARTITION = "/topics/{topic}/partitions/{partition}"
_RECORDS = _PARTITION + "/records"
_TOPIC_ID = {"X-Raftlog-Topic-Id": string("The topic's uuid, as in `/v1/cluster_view`.")}
_BOUNDS = {
    "X-Raftlog-High-Watermark": integer(),
    "X-Raftlog-Log-Start": integer(),
    "X-Raftlog-Next-Offset": integer(text="Next offset to fetch."),
    "X-Raftlog-Leader-Epoch": integer(),
    **_TOPIC_ID,
}
_PRODUCE = (
    in_query(
        "acks",
        string(enum=["all", "-1", "1", "0"], default="all"),
        "`all` (or `-1`): answered when it is committed; `1`: when the leader has taken it; `0`: at once.",
    ),
    "timeout",
    in_query(
        "lines",
        string(enum=["records", "text-records", "values"], default="records"),
        "For an NDJSON body: every line is a record object; the same, with strings stored as their text; or every line "
        "is a value, stored as it stands.",
    ),
    in_query("key", string(), "For an octet-stream body: the record's key, any bytes, percent-encoded."),
    in_query("timestamp", string(), "For an octet-stream body: milliseconds since 1970, or RFC 3339 with a time zone."),
    parameter(
        "header",
        "X-Raftlog-Headers",
        string(),
        "For an octet-stream body: the record's headers, as the JSON list of a record object.",
    ),
)
_FETCH = (
    in_query(
        "offset",
        {"anyOf": [OFFSET, string(enum=["beginning", "end"])]},
        "First offset to return. Required, except for lines, which can begin at a timestamp or at either end.",
    ),
    in_query(
        "timeout", integer() | {"default": 1_000}, "Milliseconds to wait for `min_bytes`; for lines, without a leader."
    ),
    in_query("min_bytes", integer() | {"default": 1}, "Stored bytes to wait for."),
    in_query("max_bytes", integer(1) | {"default": 1 << 20}, "Bytes to answer at most, and at least one record."),
    "timestamp",
    in_query("follow", BOOLEAN | {"default": False}, "Lines: continue with new records."),
    in_query(
        "heartbeat", integer(0, PATIENCE_MS_MAX), "Lines: milliseconds without a record until an empty line is sent."
    ),
)
_PROGRESS = string("For an NDJSON body, when `Accept` requests it: progress after each block and at the end.")
_LINES = {
    Format.BATCHES.value: string("Bytes.", format="binary"),
    Format.NDJSON.value: string("A record on each line."),
}
_BATCHES = {Format.BATCHES.value: {"schema": {"description": "Record batches v2, one after another."}}}
_STREAMS: Json = {
    Format.NDJSON.value: {
        "schema": string(
            "One JSON value on each line, read as `lines` selects; of any length, appended as it arrives; also gzip."
        ),
        "example": '{"value": {"total": 12.5}, "key": "alice"}\n{"value": "second"}\n',
    },
    Format.OCTETS.value: {"schema": string("The value of one record.", format="binary")},
}


def _bodies(json: Json, binary: Json, **more: Json) -> Json:
    """Schemas by content type."""
    content = {
        JSON_TYPE: {"schema": json},
        Format.JSON.value: {"schema": json},
        Format.BINARY.value: {"schema": binary},
        **_STREAMS,
        **more,
    }
    return {"required": True, "content": content}


def _produce(route: str, summary: str, name: str, body: Json) -> Method:
    return Method(
        route,
        summary,
        name,
        {"anyOf": [of(kind) for kind in (ProducedRecords, ProducedBatches, ProducedStream)]},
        _PRODUCE,
        body,
        LEADER | _TOPIC_ID,
        "Result of each record; an entry with an error was not stored.",
        streams={Format.NDJSON.value: _PROGRESS},
        error=ProduceError,
    )


ROWS = (
    _produce(
        "POST /topics/{topic}",
        "Append records, the partition chosen by key or in turn.",
        "produce",
        _bodies(ref("JsonRecords"), ref("BinaryRecords")),
    ),
    _produce(
        f"POST {_PARTITION}",
        "Append records or stored batches to one partition.",
        "produceToPartition",
        _bodies(ref("JsonRecordsOfPartition"), ref("BinaryRecordsOfPartition"), **_BATCHES),
    ),
    Method(
        f"GET {_RECORDS}",
        "Fetch records from an offset on, with long poll; or read them as lines.",
        "fetch",
        list[RecordAsJson],
        _FETCH,
        headers=_BOUNDS | LEADER,
        text="Records, or as lines (the last can be an error body with `next_offset`), or as stored.",
        content_types=(JSON_TYPE, Format.JSON.value, Format.BINARY.value),
        streams=_LINES,
        fails=(400, 404, 406, 422, 429, 503),
    ),
    Method(
        f"DELETE {_RECORDS}",
        "Delete the records below an offset.",
        "deleteRecords",
        LogStart,
        (
            in_query("before", OFFSET, "The first offset that is kept, at most the end offset.", is_required=True),
            "timeout",
        ),
        text="The new log start offset.",
    ),
    Method(
        f"GET {_PARTITION}/offsets",
        "Return first and end offset, and the first record from a time on.",
        "offsets",
        LogOffsets,
        (
            "timeout",
            in_query(
                "linearizable", BOOLEAN | {"default": False}, "Include every record that was acknowledged before."
            ),
            "timestamp",
        ),
    ),
    Method(
        "POST /producers",
        "Allocate an id for an idempotent producer.",
        "newProducer",
        AllocatedProducer,
        (in_query("fresh", BOOLEAN, "Greater than every allocated id: for a producer that expired."), "timeout"),
        text="An id that no other producer has.",
    ),
)
