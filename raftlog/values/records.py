"""Answers about records: results of a produce request, records as JSON, offsets of a log, and the body of every error.

Long lists of records are encoded by other code (`api.http.records`); these declarations define their form.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from raftlog.values.value import Count, NodeNumber, Value

ErrorCode: TypeAlias = Annotated[
    int, Meta(ge=400, le=59_999, description="The status, or five digits of which the first three are the status.")
]
Outcome: TypeAlias = Literal["failed", "unknown"]
"""`failed`: it definitely did not happen; `unknown`: it may have."""
FirstLine: TypeAlias = Annotated[int, Meta(ge=1, description="The first line that is not stored, or may not be.")]
Base64: TypeAlias = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
NoSchema: TypeAlias = None
"""Records have no schemas: the REST Proxy's fields for them are null."""


class UndecodableRange(Value, frozen=True):
    """Stored batch that cannot be decoded; reading can continue at `next_offset`."""

    base_offset: Count
    offset: Count
    next_offset: Count


class ErrorBody(Value, frozen=True, kw_only=True):
    """Body of every error: problem, place and remedy.

    The offsets are the bounds of the log, for an offset out of range. Two errors share their codes with others:
    `topic_exists` is true if a topic of that name exists, and `not_ready` if this broker starts or stops."""

    error_code: ErrorCode
    message: str
    outcome: Outcome
    beginning_offset: Count | UnsetType = UNSET
    end_offset: Count | UnsetType = UNSET
    undecodable: UndecodableRange | UnsetType = UNSET
    topic_exists: bool | UnsetType = UNSET
    not_ready: bool | UnsetType = UNSET


class ProducedRecord(Value, frozen=True):
    """Result for one record. `duplicate`: an idempotent producer sent it before, and this is its first offset."""

    partition: NodeNumber | None
    offset: Count | None
    error_code: Count | None = None
    error: str | None = None
    outcome: Outcome | UnsetType = UNSET
    duplicate: bool | UnsetType = UNSET


class ProducedRecords(Value, frozen=True, kw_only=True):
    """Results of a produce request: one entry for each record, in order."""

    offsets: Annotated[Sequence[ProducedRecord], Meta(min_length=1)]
    key_schema_id: NoSchema = None
    value_schema_id: NoSchema = None


class ProducedBatches(ProducedRecords, frozen=True, kw_only=True):
    """Results of a produce request with batches; also next offset, leader epoch and high watermark afterwards."""

    next_offset: Count | None
    leader_epoch: Count
    high_watermark: Annotated[int, Meta(ge=-1)]


class StreamedPartition(Value, frozen=True, kw_only=True):
    """Records of an NDJSON body that one partition has stored.

    `line`: the first line whose record it lacks, or may lack."""

    partition: NodeNumber
    records: Count
    first_offset: Count | None
    last_offset: Count | None
    line: FirstLine | UnsetType = UNSET
    error_code: ErrorCode | UnsetType = UNSET
    error: str | UnsetType = UNSET
    outcome: Outcome | UnsetType = UNSET


class ProducedStream(Value, frozen=True):
    """Result of an NDJSON body: its records that are stored."""

    records: Count
    partitions: Sequence[StreamedPartition]


class ProduceError(Value, frozen=True, kw_only=True):
    """Error with one entry for each record of a list, or with the stored records of an NDJSON body.

    `partial`, of an NDJSON body: the lines before `line` are stored, and none from there on."""

    error_code: ErrorCode
    message: str
    outcome: Literal["failed", "unknown", "partial"]
    offsets: Sequence[ProducedRecord] | UnsetType = UNSET
    records: Count | UnsetType = UNSET
    partitions: Sequence[StreamedPartition] | UnsetType = UNSET
    line: FirstLine | UnsetType = UNSET


class JsonHeader(Value, frozen=True):
    """Header of a record in a body in the JSON format."""

    name: str
    value: Base64 | None


class JsonEncodings(Value, frozen=True):
    """Encodings of key and value that differ from the encoding of the format."""

    key: Literal["json", "text", "base64"] | UnsetType = UNSET
    value: Literal["json", "text", "base64"] | UnsetType = UNSET


class RecordAsJson(Value, frozen=True, kw_only=True):
    """Stored record in the JSON or the binary format; -1 is the absence of a timestamp."""

    topic: str
    key: Any
    value: Any
    partition: NodeNumber
    offset: Count
    timestamp: Annotated[int, Meta(ge=-1)]
    headers: Sequence[JsonHeader]
    encoding: JsonEncodings | UnsetType = UNSET


class LogOffsets(Value, frozen=True):
    """Offsets of a log; for a request with a timestamp also the first record at or after it, or None."""

    beginning_offset: Count
    end_offset: Count
    offset: Count | UnsetType | None = UNSET
    timestamp: Count | UnsetType | None = UNSET


class RestoredBatches(Value, frozen=True):
    """End of a log after an append of restored batches."""

    next_offset: Count
    leader_epoch: Count
    high_watermark: Count


class LogStart(Value, frozen=True):
    """First offset of a log after the deletion of records."""

    log_start_offset: Count


class AllocatedProducer(Value, frozen=True):
    """Id of an idempotent producer, and its epoch."""

    producer_id: Count
    producer_epoch: Annotated[int, Meta(ge=0, le=32_767)]
