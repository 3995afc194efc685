"""Declared values: one declaration each, with JSON and schemas derived from it."""

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from raftlog.api.http.openapi.derived import schemas_of
from raftlog.client.calls import decode_value
from raftlog.errors import Unavailable
from raftlog.values.brokers import BrokerDescription, ClusterHealth, LogLevel
from raftlog.values.placement import RecoveryReplica
from raftlog.values.value import Value, to_json
from tests.api.described import DOCUMENT

ROOT = Path(__file__).parents[2]


def declared(path: Path) -> list[str]:
    return [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


def test_a_value_is_declared_once() -> None:
    """A second class of the same name would be a second definition, or another concept under its name."""
    rooms = [ROOT / name for name in ("raftlog", "api", "partitions", "membership", "pipeline")]
    files = {path.resolve() for room in rooms for path in room.rglob("*.py")}
    counts = Counter(name for path in files for name in declared(path))
    values = [name for path in (ROOT / "raftlog/values").glob("*.py") for name in declared(path)]
    assert values
    assert [name for name in values if counts[name] > 1] == []


def values() -> list[type[Value]]:
    assert DOCUMENT
    found, todo = [], Value.__subclasses__()
    while todo:
        kind = todo.pop()
        found.append(kind)
        todo += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith("raftlog.values.")]


@pytest.mark.parametrize("kind", values(), ids=lambda kind: kind.__name__)
def test_the_schema_of_a_value_has_all_its_fields(kind: type[Value]) -> None:
    schema = schemas_of(kind)[1][kind.__name__]
    fields = msgspec.structs.fields(kind)
    assert [*schema["properties"]] == [field.encode_name for field in fields]
    assert schema["required"] == [field.encode_name for field in fields if field.default is not UNSET]
    assert schema["additionalProperties"] is False


ROW: dict[str, Any] = {"node_id": 1, "is_alive": True}


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    found = decode_value(BrokerDescription, to_json(ROW | {"of_a_later_release": [1]}))
    assert (found.node_id, found.problem, found.in_maintenance) == (1, None, False)


@pytest.mark.parametrize("wrong", [{"node_id": "1"}, {"node_id": -1}, {"node_id": True}, {"is_alive": None}])
def test_the_error_for_an_invalid_answer_has_the_field(wrong: dict[str, Any]) -> None:
    with pytest.raises(Unavailable, match=next(iter(wrong))):
        decode_value(BrokerDescription, to_json(ROW | wrong))


def test_unset_fields_are_omitted() -> None:
    assert to_json(RecoveryReplica(node_id=3, reachable=False)) == b'{"node_id":3,"reachable":false}'
    assert to_json(LogLevel("raftlog", "info")) == b'{"name":"raftlog","level":"info","expires":null}'


def test_a_missing_controller_is_none() -> None:
    health = ClusterHealth(True, [], -1, [1], [], [], 0, [], 0)
    assert health.controller_id is None
    assert b'"controller_id":-1' in to_json(health)


def test_an_ipv6_address_of_a_broker_has_brackets() -> None:
    described = decode_value(BrokerDescription, to_json(ROW))
    assert described.copy_with(internal_rpc_address="::1", internal_rpc_port=9001).rpc == "[::1]:9001"
