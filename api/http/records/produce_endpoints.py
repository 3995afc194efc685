"""Endpoint declarations of the requests that append records."""

from functools import partial
from typing import Final

from raftlog.api.http.bounds import NAME
from raftlog.api.http.openapi.parts import Json, ref, string
from raftlog.api.http.server.endpoint import LEADER, HttpEndpoint, in_query, parameter
from raftlog.api.http.server.media import JSON_TYPE, Format
from raftlog.api.http.server.permissions import IN_REQUEST, on_topic, on_transactional_id
from raftlog.security.permissions import AclOperation
from raftlog.values.records import ProducedBatches, ProducedRecords, ProducedStream, ProduceError

TOPIC_ID: Final[Json] = {"X-Raftlog-Topic-Id": string("The topic's uuid, as in `/v1/cluster_view`.")}
_QUERY: Final = (
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
    in_query(
        "transactional_id",
        NAME,
        "Transaction of the records, which are stored batches, or records with a producer id; acks must be `all`.",
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
_BATCHES: Final[Json] = {Format.BATCHES.value: {"schema": {"description": "Record batches v2, one after another."}}}
_LINES: Final[Json] = {
    "schema": string(
        "One JSON value on each line, read as `lines` selects; of any length, appended as it arrives; also gzip."
    ),
    "example": '{"value": {"total": 12.5}, "key": "alice"}\n{"value": "second"}\n',
}


def _body(suffix: str, **more: Json) -> Json:
    """Return the schemas of the body by content type; their names end with `suffix`."""
    json = {"schema": ref(f"JsonRecords{suffix}")}
    content = {
        JSON_TYPE: json,
        Format.JSON.value: json,
        Format.BINARY.value: {"schema": ref(f"BinaryRecords{suffix}")},
        Format.NDJSON.value: _LINES,
        Format.OCTETS.value: {"schema": string("The value of one record.", format="binary")},
    }
    return {"required": True, "content": content | more}


_produce = partial(
    HttpEndpoint,
    found=(ProducedRecords, ProducedBatches, ProducedStream),
    query=_QUERY,
    permissions=(*on_topic(AclOperation.WRITE), *on_transactional_id(AclOperation.WRITE, IN_REQUEST)),
    text="Result of each record; an entry with an error was not stored.",
    headers=LEADER | TOPIC_ID,
    streams={
        Format.NDJSON.value: string(
            "For an NDJSON body, when `Accept` requests it: progress after each block and at the end."
        )
    },
    error=ProduceError,
)
TO_TOPIC: Final = _produce(
    "POST /topics/{topic}",
    body=_body(""),
    name="produce",
    summary="Append records, the partition chosen by key or in turn.",
)
TO_PARTITION: Final = _produce(
    "POST /topics/{topic}/partitions/{partition}",
    body=_body("OfPartition", **_BATCHES),
    name="produceToPartition",
    summary="Append records or stored batches to one partition.",
)
