"""Records out of request bodies: `{"records": [{"key", "value", "partition", "headers", "timestamp"}]}`.

In the JSON format a key or value is any JSON and is stored as compact JSON text, `null` as null; in the binary format
it is a base64 string. The objects themselves are read by `raftlog.records.json_record`. Beside the list an idempotent
producer says `"producer_id"`, `"producer_epoch"` and `"sequence"`, that of the first record.
"""

from typing import Any, Final, NamedTuple

from raftlog.api.codes import EMPTY_REQUEST, INVALID_JSON, TOO_LARGE
from raftlog.api.http.bodies import json_object
from raftlog.api.http.json_fields import INT32_MAX, INT64_MAX, JsonFields
from raftlog.api.http.media import Format
from raftlog.api.http.problems import HttpProblem
from raftlog.partitions.results import ProducerSequence
from raftlog.records import NewRecord
from raftlog.records.json_record import from_base64, json_text, partition_of, read_record

RECORDS_MAX = 200_000
"""Records in one JSON request: a bound on the objects that its bytes turn into."""
_PRODUCER: Final = (("producer_id", INT64_MAX), ("producer_epoch", 32_767), ("sequence", INT32_MAX))


class ParsedRecords(NamedTuple):
    """The records of a request; when any names one, the partition of each; and what an idempotent producer says."""

    records: list[NewRecord]
    partitions: list[int | None] | None
    producer: ProducerSequence | None


def parse_records(body: bytes | bytearray, format_: Format) -> ParsedRecords:
    """Raises `HttpProblem` 422, and 400 for numbers of a producer that cannot be."""
    parsed = json_object(body)
    producer = _producer(parsed) if len(parsed) > 1 else None
    return ParsedRecords(*_records(parsed.get("records"), format_), producer)


def _producer(body: dict[str, Any]) -> ProducerSequence | None:
    """All three members, or none."""
    fields = JsonFields(body)
    if not any(name in fields for name, _ in _PRODUCER):
        return None
    return ProducerSequence(*(fields.whole(name, 0, high) for name, high in _PRODUCER))


def _records(records: Any, format_: Format) -> tuple[list[NewRecord], list[int | None] | None]:
    if type(records) is not list:
        raise HttpProblem(INVALID_JSON, 'the body has no list "records"')
    if not records:
        raise HttpProblem(EMPTY_REQUEST, 'the list "records" is empty')
    if len(records) > RECORDS_MAX:
        raise HttpProblem(TOO_LARGE, f"{len(records)} records in one request; send at most {RECORDS_MAX} at once")
    encode = json_text if format_ is Format.JSON else from_base64
    parsed: list[NewRecord] = []
    partitions: list[int | None] | None = None
    for number, record in enumerate(records):
        try:
            if type(record) is dict and len(record) == 1 and "value" in record:
                value = record["value"]
                parsed.append(NewRecord(None if value is None else encode(value)))
                continue
            parsed.append(read_record(record, encode))
            partition = partition_of(record)
        except ValueError as error:
            raise HttpProblem(INVALID_JSON, f"record {number}: {error}") from None
        if partition is not None:
            partitions = partitions or [None] * len(records)
            partitions[number] = partition
    return parsed, partitions
