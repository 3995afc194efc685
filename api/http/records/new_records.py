"""Parser of records in request bodies: `{"records": [{"key", "value", "partition", "headers", "timestamp"}]}`.

In the JSON format a key or value is any JSON and is stored as compact JSON text, `null` as null; in the binary
format it is a base64 string. `raftlog.records.json_record` parses the objects. An idempotent producer also sends
`"producer_id"`, `"producer_epoch"` and `"sequence"`, that of the first record."""

from typing import Any, Final, NamedTuple

from msgspec.structs import astuple

from raftlog.api.codes import BAD_REQUEST, EMPTY_REQUEST, INVALID_JSON, TOO_LARGE
from raftlog.api.http.json_body import read, refuse_unknown
from raftlog.api.http.requests import ProducerFields
from raftlog.api.http.server.bodies import json_object
from raftlog.api.http.server.media import Format
from raftlog.api.http.server.problems import HttpProblem
from raftlog.partitions.results import ProducerSequence
from raftlog.records import NewRecord
from raftlog.records.json_record import Encode, decode_base64, json_text, read_partition, read_record

RECORDS_MAX = 200_000
"""Records in one JSON request: a bound on the objects that its bytes turn into."""
SCHEMAS_OF_RECORDS: Final = ("key_schema", "key_schema_id", "value_schema", "value_schema_id")
"""Members of the REST Proxy's bodies for records with schemas; in others they are null."""


PRODUCER_FIELDS: Final = ProducerFields.__struct_fields__


class ParsedRecords(NamedTuple):
    """Records of a request, their partitions if any record names one, and the numbers of an idempotent producer."""

    records: list[NewRecord]
    partitions: list[int | None] | None
    producer: ProducerSequence | None


def parse_records(body: bytes | bytearray, format_: Format) -> ParsedRecords:
    """Parse a body of records; raises `HttpProblem` 422, and 400 for invalid numbers of a producer."""
    parsed = json_object(body)
    producer = producer_of(parsed) if len(parsed) > 1 else None
    records = RecordList(format_)
    records.add_all(parsed.get("records"))
    return ParsedRecords(*records.result(), producer)


def producer_of(body: dict[str, Any]) -> ProducerSequence | None:
    """Return the producer id, epoch and sequence in a body; None if it has none of them.

    Raises `HttpProblem` for members that a body of records cannot have."""
    refuse_unknown(body, ("records", *PRODUCER_FIELDS, *SCHEMAS_OF_RECORDS))
    schema = next((name for name in SCHEMAS_OF_RECORDS if body.get(name) is not None), None)
    if schema is not None:
        raise HttpProblem(BAD_REQUEST, f"{schema!r} of the body must be null: records have no schemas here")
    given = {name: value for name in PRODUCER_FIELDS if (value := body.get(name)) is not None}
    return ProducerSequence(*astuple(read(given, ProducerFields))) if given else None


class RecordList:
    """Builder of the list of records of one request and of the partitions that they name."""

    __slots__ = ("_partitions", "_records", "encode")

    def __init__(self, format_: Format) -> None:
        self.encode: Encode = json_text if format_ is Format.JSON else decode_base64
        self._records: list[NewRecord] = []
        self._partitions: list[int | None] | None = None

    @property
    def count(self) -> int:
        return len(self._records)

    def add_all(self, objects: Any) -> None:
        """Add records from JSON objects. Raises `HttpProblem` 422 and 413."""
        if type(objects) is not list:
            raise HttpProblem(INVALID_JSON, 'the body has no list "records"')
        if len(self._records) + len(objects) > RECORDS_MAX:
            raise _too_many_error(len(self._records) + len(objects))
        encode, parsed = self.encode, self._records
        for record in objects:
            try:
                if type(record) is dict and len(record) == 1 and "value" in record:
                    value = record["value"]
                    parsed.append(NewRecord(None if value is None else encode(value)))
                    if self._partitions is not None:
                        self._partitions.append(None)
                    continue
                new, partition = read_record(record, encode), read_partition(record)
            except ValueError as error:
                raise HttpProblem(INVALID_JSON, f"record {len(parsed)}: {error}") from None
            self._append(new, partition)

    def add(self, record: NewRecord, partition: int | None) -> None:
        """Add one record. Raises `HttpProblem` 413."""
        if len(self._records) == RECORDS_MAX:
            raise _too_many_error(RECORDS_MAX + 1)
        self._append(record, partition)

    def result(self) -> tuple[list[NewRecord], list[int | None] | None]:
        """Return the records, and the partition of each; None for the partitions if no record names one.

        Raises `HttpProblem` 422 without records."""
        if not self._records:
            raise HttpProblem(EMPTY_REQUEST, 'the list "records" is empty')
        return self._records, self._partitions

    def _append(self, record: NewRecord, partition: int | None) -> None:
        """Append a record; partitions are listed only from the first record that names one on."""
        if partition is not None and self._partitions is None:
            self._partitions = [None] * len(self._records)
        self._records.append(record)
        if self._partitions is not None:
            self._partitions.append(partition)


def _too_many_error(count: int) -> HttpProblem:
    """Return the error for too many records in one request."""
    return HttpProblem(TOO_LARGE, f"{count} records or more in one request; send at most {RECORDS_MAX} at once")
