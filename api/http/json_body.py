"""Parser of JSON bodies into their declarations (`requests`), with errors that name the field.

A field of another type is 422 (42203), a value out of its bounds 400 (40002), an empty list that must have entries
422 (42208). An unknown field is 400, with the most similar known name; otherwise a misspelt field would be ignored.
"""

import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from raftlog.api.codes import BAD_REQUEST, EMPTY_REQUEST, INVALID_JSON
from raftlog.api.http.server.problems import HttpProblem
from raftlog.records.field_names import describe_unknown_field
from raftlog.records.json_record import shorten_json

T = TypeVar("T")

_MESSAGE: Final = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_STEP: Final = re.compile(r"\.(?P<name>\w+)|\[(?P<number>\d+)\]")
_WANTED: Final[Mapping[type[inspect.Type], str]] = {
    inspect.IntType: "a whole number",
    inspect.StrType: "a string",
    inspect.BoolType: "true or false",
    inspect.BytesType: "base64",
    inspect.DictType: "an object",
    inspect.StructType: "an object",
}
SECRET_FIELDS: Final = frozenset({"password"})
"""Names of fields whose values error messages never contain."""


class _Field(NamedTuple):
    """Field of a body that is being checked; `place` is the name of the object that contains the field."""

    kind: inspect.Type
    value: Any
    name: str = ""
    place: str = "the body"

    @property
    def label(self) -> str:
        """Name of the field with its place, for errors."""
        return f"{self.name!r} of {self.place}" if self.name else self.place


def read(
    values: Any,
    kind: type[T] | UnionType,
    *,
    mistyped: tuple[int, int] = INVALID_JSON,
    beyond: tuple[int, int] = BAD_REQUEST,
) -> T:
    """Convert a JSON value to a declared type; raises `HttpProblem`: `mistyped` for types, `beyond` for bounds."""
    try:
        found: T = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        whole = _Field(_strip_null(inspect.type_info(kind), values), values)
        _refuse_unknown_fields(whole)
        raise _problem(str(error), whole, mistyped, beyond) from None
    return found


def refuse_unknown(values: Mapping[str, Any], known: Sequence[str], place: str = "the body") -> None:
    """Raise `HttpProblem` 400 for an unknown member, with the nearest known name."""
    unknown = values.keys() - {*known}
    if unknown:
        raise HttpProblem(BAD_REQUEST, f"{place}: {describe_unknown_field(unknown, known)}")


def _refuse_unknown_fields(field: _Field) -> None:
    """Raise `HttpProblem` 400 if the field's value has an undeclared member at any depth."""
    if isinstance(field.kind, inspect.StructType) and type(field.value) is dict:
        refuse_unknown(field.value, [each.encode_name for each in field.kind.fields], field.label)
    if type(field.value) in (dict, list):
        for step in field.value if type(field.value) is dict else range(len(field.value)):
            inner = _child_of(field, step)
            if inner is not None:
                _refuse_unknown_fields(inner)


def _child_of(field: _Field, step: str | int) -> _Field | None:
    """Return the member `step` of an object, or the entry `step` of a list, as a `_Field`; None without it."""
    kind, value = field.kind, field.value
    if isinstance(kind, inspect.StructType) and type(value) is dict:
        place = repr(field.name) if field.name else field.place
        found = next((each.type for each in kind.fields if each.encode_name == step), None)
        return None if found is None else _Field(_strip_null(found, value.get(step)), value.get(step), str(step), place)
    if isinstance(kind, inspect.ListType) and type(value) is list:
        place = f"{field.name!r}[{step}]" if field.name else f"row {step} of {field.place}"
        return _Field(_strip_null(kind.item_type, value[int(step)]), value[int(step)], "", place)
    return None


def _strip_null(kind: inspect.Type, value: Any) -> inspect.Type:
    """Return the type without null; of a union the object type if the value is an object, else another type."""
    if isinstance(kind, inspect.Metadata):
        return _strip_null(kind.type, value)
    if not isinstance(kind, inspect.UnionType):
        return kind
    choices = [_strip_null(each, value) for each in kind.types if not isinstance(each, inspect.NoneType)]
    wants_object = type(value) is dict
    return next((each for each in choices if isinstance(each, inspect.StructType) == wants_object), choices[0])


def _problem(message: str, field: _Field, mistyped: tuple[int, int], beyond: tuple[int, int]) -> HttpProblem:
    """Return the error for a message of msgspec about `field`; it names the innermost field and the allowed type."""
    parts = _MESSAGE.fullmatch(message)
    assert parts is not None, f"msgspec says {message!r}"
    for step in _STEP.finditer(parts["path"] or ""):
        inner = _child_of(field, step["name"] or int(step["number"]))
        assert inner is not None, f"{message!r} is no place of the body"
        field = inner
    missing = _MISSING.fullmatch(parts["problem"])
    if missing is not None:
        inner = _child_of(field, missing[1])
        assert inner is not None, f"{message!r} is no field"
        return HttpProblem(mistyped, f"{inner.label} is missing; it must be {_describe_type(inner.kind)}")
    kind, value = field.kind, field.value
    if isinstance(kind, inspect.ListType) and type(value) is list:
        if not value:
            return HttpProblem(EMPTY_REQUEST, f"the list {field.label} is empty")
        return HttpProblem(beyond, f"{field.label} has {len(value):,} entries; it can have {kind.max_length:,}")
    if isinstance(kind, inspect.StrType) and type(value) is str:
        return HttpProblem(beyond, f"{field.label} has {len(value):,} characters; it can have {kind.max_length:,}")
    if isinstance(kind, inspect.IntType) and type(value) is int:
        return HttpProblem(beyond, f"{field.label} is {shorten_json(value)}; it can be {kind.ge} … {kind.le}")
    if isinstance(kind, inspect.LiteralType) and type(value) is str:
        return HttpProblem(
            beyond, f"{field.label} is {shorten_json(value)}; it can be {', '.join(map(str, kind.values))}"
        )
    code = mistyped if field.name else INVALID_JSON
    shown = "not shown here" if field.name in SECRET_FIELDS else shorten_json(value)
    return HttpProblem(code, f"{field.label} is {shown}; it must be {_describe_type(kind)}")


def _describe_type(kind: inspect.Type) -> str:
    """Return a description of the JSON value that a type accepts, for errors."""
    if isinstance(kind, inspect.ListType):
        is_of_objects = isinstance(_strip_null(kind.item_type, {}), inspect.StructType)
        return "a list of objects" if is_of_objects else "a list of strings"
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(map(str, kind.values))
    return _WANTED.get(type(kind), "a value")
