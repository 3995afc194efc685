"""Schemas derived from declared values (`raftlog.values`).

`of` returns the schema of a type and keeps the components that it refers to; the document takes all of `COMPONENTS`.
"""

from typing import Any, Final

import msgspec

from raftlog.api.http.openapi.parts import Json
from raftlog.values.value import UnsetType, Value

COMPONENTS: Final[Json] = {}
"""Schemas by name, of the values that the document refers to."""
_REF: Final = "#/components/schemas/{name}"


def of(kind: Any) -> Json:
    """Return the schema of a value, a body, or a list or mapping of them."""
    schema, components = schemas_of(kind)
    COMPONENTS.update(components)
    return schema


def of_component(kind: type[msgspec.Struct]) -> Json:
    """Return the schema of one declaration itself."""
    component: Json = schemas_of(kind)[1][kind.__name__]
    return component


def schemas_of(kind: Any) -> tuple[Json, Json]:
    """Return the schema of a type, and the components that it refers to, by name."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF)
    declared = {each.__name__: each for each in _below(Value)}
    closed = {name: _closed(each, declared.get(name.partition("_")[0])) for name, each in components.items()}
    return _shown(schema), _shown(closed)


def _shown(schema: Any) -> Any:
    """Return a schema with the closer bounds that `requests.shown_as` gives."""
    if isinstance(schema, list):
        return [_shown(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _shown(each) for name, each in schema.items() if name != "shown"} | schema.get("shown", {})


def _closed(component: Json, kind: type[Value] | None) -> Json:
    """Return the schema without undeclared fields; of an answer all fields are required except optional ones."""
    found = {name: value for name, value in component.items() if name != "title"} | {"additionalProperties": False}
    if kind is not None:
        fields = msgspec.structs.fields(kind)
        found["required"] = [each.encode_name for each in fields if UnsetType not in getattr(each.type, "__args__", ())]
        for schema in found["properties"].values():
            schema.pop("default", None)
    return found


def _below(kind: type[Value]) -> list[type[Value]]:
    return [each for sub in kind.__subclasses__() for each in (sub, *_below(sub))]
