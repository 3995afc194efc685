"""Schemas of bodies with rules beyond their declarations: alternatives, settings by name, and records.

The values of settings are those of the settings' tables. Records are parsed without a declaration
(`records.new_records`)."""

from raftlog.api.http.bounds import BASE64_PATTERN, NAME, TIMESTAMP, digits, topic_setting_schemas
from raftlog.api.http.openapi.derived import component_schema
from raftlog.api.http.openapi.parts import ANY, NODE, Json, array, nullable, obj, string
from raftlog.api.http.records.new_records import RECORDS_MAX, SCHEMAS_OF_RECORDS
from raftlog.api.http.requests import ProducerFields, ResetPoint, SubscribeBody
from raftlog.assignors import ASSIGNORS
from raftlog.partitions.consumers.settings import FETCH_MIN_BYTES_MAX, FORMATS, REQUEST_TIMEOUT_MS_MAX, RESETS

_BASE64 = string(contentEncoding="base64", pattern=BASE64_PATTERN)
_SETTINGS = topic_setting_schemas()
_ENCODING = string(enum=["json", "text", "base64"])


def _one_of(kind: type) -> Json:
    """Return the schema of an object that has exactly one of the fields of a declaration."""
    declared = component_schema(kind)
    choices = [obj({name: schema["anyOf"][0]}) for name, schema in declared["properties"].items()]
    return {"oneOf": choices, "description": declared["description"]}


def _list_setting_schemas(**more: Json) -> list[Json]:
    """Return one schema for each topic setting: its name with its possible values, and the fields in `more`."""
    return [
        obj({"name": {"const": name}, "value": each, **more}, optional=list(more)) for name, each in _SETTINGS.items()
    ]


def _record(content: Json, partition: Json) -> Json:
    """Return the schema of a record; `content` is that of its key and of its value."""
    fields: Json = {
        "key": content,
        "value": content,
        "headers": nullable(array(obj({"name": string(), "value": nullable(_BASE64)}, optional=["value"]))),
        "timestamp": nullable(TIMESTAMP)
        | {
            "description": "Milliseconds since 1970, or RFC 3339 with a time zone. Without one: the time of the append."
        },
        "partition": partition,
        "encoding": nullable(obj({"key": _ENCODING, "value": _ENCODING}, optional=["key", "value"])),
        "topic": ANY,
        "offset": ANY,
    }
    return obj(fields, fields, "`topic` and `offset` are ignored, so fetched records can be sent.")


def _records_body(value: Json, partition: Json) -> Json:
    """Return the schema of a body of records; the three members of an idempotent producer are all or none."""
    producer = component_schema(ProducerFields)["properties"]
    nothing: Json = {name: {"type": "null"} for name in SCHEMAS_OF_RECORDS}
    records = array(_record(value, partition), 1) | {"maxItems": RECORDS_MAX}
    body = obj({"records": records, **producer, **nothing}, optional=[*producer, *nothing])
    return body | {"dependentRequired": {name: [other for other in producer if other != name] for name in producer}}


_CONSUMER: Json = {
    "name": nullable(NAME),
    "format": {"enum": [*FORMATS, None]},
    "auto.offset.reset": {"enum": [*RESETS, None]},
    "auto.commit.enable": {"enum": [True, False, "true", "false", None]},
    "fetch.min.bytes": digits(FETCH_MIN_BYTES_MAX),
    "consumer.request.timeout.ms": digits(REQUEST_TIMEOUT_MS_MAX),
    "partition.assignment.strategy": {"enum": [*ASSIGNORS, None]},
}
_DELETED = obj({"name": {"enum": list(_SETTINGS)}, "value": ANY, "operation": {"const": "DELETE"}}, optional=["value"])

SCHEMAS: Json = {
    "NewConsumer": obj(_CONSUMER, optional=_CONSUMER),
    "SubscribeBody": _one_of(SubscribeBody),
    "ResetPoint": _one_of(ResetPoint),
    "SettingOfTopic": {"anyOf": _list_setting_schemas()},
    "SettingChange": {"anyOf": [*_list_setting_schemas(operation={"enum": ["SET", None]}), _DELETED]},
    "JsonRecords": _records_body(ANY, nullable(NODE)),
    "BinaryRecords": _records_body(nullable(_BASE64), nullable(NODE)),
    "JsonRecordsOfPartition": _records_body(ANY, {"type": "null"}),
    "BinaryRecordsOfPartition": _records_body(nullable(_BASE64), {"type": "null"}),
}
