"""Schemas derived from declared values (`raftlog.values`).

`schema_of` returns the schema of a type and adds the components that it refers to to `COMPONENTS`, which the document
contains.
"""

from typing import Any, Final

import msgspec

from raftlog.api.http.openapi.parts import Json
from raftlog.values.value import UnsetType, Value

COMPONENTS: Final[Json] = {}
"""Schemas by name, of the values that the document refers to."""
_REF: Final = "#/components/schemas/{name}"


def schema_of(kind: Any) -> Json:
    """Return the schema of a type (value, body, list or mapping of them); add its components to `COMPONENTS`."""
    schema, components = schemas_of(kind)
    COMPONENTS.update(components)
    return schema


def component_schema(kind: type[msgspec.Struct]) -> Json:
    """Return the schema of a declaration itself, not a reference to it."""
    component: Json = schemas_of(kind)[1][kind.__name__]
    return component


def schemas_of(kind: Any) -> tuple[Json, Json]:
    """Return the schema of a type, and the components that it refers to, by name."""
    (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF)
    declared = {each.__name__: each for each in _subclasses_of(Value)}
    closed = {
        name: _forbid_other_fields(each, declared.get(name.partition("_")[0])) for name, each in components.items()
    }
    return _with_shown_bounds(schema), _with_shown_bounds(closed)


def _with_shown_bounds(schema: Any) -> Any:
    """Return the schema with the bounds for the document (`requests.with_schema`) instead of those of the parser."""
    if isinstance(schema, list):
        return [_with_shown_bounds(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _with_shown_bounds(each) for name, each in schema.items() if name != "shown"} | schema.get(
        "shown", {}
    )


def _forbid_other_fields(component: Json, kind: type[Value] | None) -> Json:
    """Return the schema of an object without its title, and with undeclared fields forbidden.

    `kind` is the declaration of an answer, whose fields are all required except those that can be unset; None for the
    body of a request."""
    found = {name: value for name, value in component.items() if name != "title"} | {"additionalProperties": False}
    if kind is not None:
        fields = msgspec.structs.fields(kind)
        found["required"] = [each.encode_name for each in fields if UnsetType not in getattr(each.type, "__args__", ())]
        for schema in found["properties"].values():
            schema.pop("default", None)
    return found


def _subclasses_of(kind: type[Value]) -> list[type[Value]]:
    """Return all direct and indirect subclasses of a type."""
    return [each for sub in kind.__subclasses__() for each in (sub, *_subclasses_of(sub))]
