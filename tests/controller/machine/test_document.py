"""docs/CONTROLLER.md compared with the code: kinds, fields and their types, errors, the map, and the group id."""

import re
from collections.abc import Iterator

import msgpack  # type: ignore[import-untyped]  # it has no annotations

from raftlog.partitions.controller.machine import GroupName, encode_request, rows, snapshot_payloads
from raftlog.partitions.controller.machine.errors import NUMBERS
from raftlog.partitions.controller.machine.request import KINDS
from raftlog.partitions.controller.machine.schema import SchemaRecord, schema_fields
from raftlog.partitions.controller.machine.snapshot import HEADER
from raftlog.partitions.controller.machine.state import STATE_NUMBERS
from raftlog.types import Index
from tests.controller.machine.fleet import BOOTSTRAP, make_cluster, topic_id
from tests.layouts import DOCS, items_after

DOCUMENT = (DOCS / "CONTROLLER.md").read_text(encoding="utf-8")


def list_records() -> Iterator[type[SchemaRecord]]:
    yield from KINDS
    for value in vars(rows).values():
        if isinstance(value, type) and issubclass(value, SchemaRecord) and value.__module__ == rows.__name__:
            yield value


def test_every_record_is_described_field_by_field() -> None:
    described = re.findall(r"<!-- record: (.+) -->", DOCUMENT)
    assert described == [record.__name__ for record in list_records()]
    for record in list_records():
        fields = DOCUMENT.split(f"<!-- record: {record.__name__} -->\n")[1].split("\n\n")[0].replace("\n", " ")
        described_fields = re.findall(r"`(\w+)` \(([^)]+)\)", fields)
        assert described_fields == [(field.name, field.shape.name) for field in schema_fields(record)]


def test_documented_kinds_and_errors_match_the_code() -> None:
    kinds = [(head, level.removeprefix("level ") or "1") for head, level in items_after("command kinds", DOCUMENT)]
    assert kinds == [(f"{kind.number} {command.__name__}", str(kind.feature_level)) for command, kind in KINDS.items()]
    errors = [[number, name] for number, name in items_after("errors", DOCUMENT)]
    assert errors == [[str(number), error.__name__] for error, number in NUMBERS.items()]


def test_the_documented_envelope_and_map_match_the_code() -> None:
    scribe = make_cluster()
    [payload] = snapshot_payloads(scribe.state, Index(1))
    documented = [head for head, _ in items_after("snapshot map", DOCUMENT)]
    tables = [table.name for table in scribe.state.tables()]
    assert documented == ["version", *STATE_NUMBERS, "bootstrap", *tables, "state_hash"]
    written = list(msgpack.unpackb(payload[HEADER.size :]))
    assert written == [name for name in documented if name in written]
    assert len(items_after("request", DOCUMENT)) == len(msgpack.unpackb(encode_request(scribe.request(BOOTSTRAP))))


def test_the_example_of_a_group_id_is_correct() -> None:
    example = DOCUMENT.split("<!-- group id -->\n```\n")[1].split("\n")[0]
    assert str(GroupName(topic_id(1), 12).group_id) == example
