"""Messages of Maelstrom: one JSON object a line, with `src`, `dest` and a `body` that has a `type`.

The standard library's JSON is used, because values of clients must be returned unchanged, also integers of up to 4,300
digits and lone surrogates. Two values are the same if their `text_of` is the same: 1, 1.0 and true are three values."""

import json
from itertools import chain
from math import isfinite
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from raftlog.api.maelstrom.errors import Malformed

LINE_BYTES_MAX: Final = 16 << 20
"""A longer line is dropped."""
VALUE_CHARACTERS_MAX: Final = 1 << 18
"""Length of a key or a value as text."""
NESTED_MAX: Final = 200
"""Maximum nesting depth of lists and objects in a key or a value."""
_TOO_DEEP: Final = f"a value is nested too deeply; {NESTED_MAX} levels are the most"
_OFFSET_MAX: Final = (1 << 63) - 1
_T = TypeVar("_T")


class Message(NamedTuple):
    """Message with a sender, a receiver, and a body that has a type."""

    src: str
    dest: str
    body: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.body["type"])


def parse(line: bytes) -> Message:
    """Parse a message; raises `Malformed`."""
    try:
        found = json.loads(line, parse_constant=_refuse_constant, parse_float=_parse_finite)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from None
    match found:
        case {"src": str(src), "dest": str(dest), "body": {"type": str()} as body}:
            return Message(src, dest, body)
    raise Malformed("a message has src, dest, and a body with a type")


def encode_line(src: str, dest: str, body: dict[str, Any]) -> bytes:
    """Return a message encoded as a line; raises `Malformed` for a body that is nested too deeply."""
    try:
        text = json.dumps({"src": src, "dest": dest, "body": body}, separators=(",", ":"), allow_nan=False)
    except RecursionError as error:
        raise Malformed(f"it is nested too deeply: {error}") from None
    return text.encode() + b"\n"


def text_of(value: object) -> str:
    """Return the canonical text of a JSON value; raises `Malformed` if it is too large."""
    try:
        text = json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)
    except RecursionError:
        raise Malformed(_TOO_DEEP) from None
    # The interpreter's own bound depends on the call depth, and replicas must not differ.
    if text.count("[") + text.count("{") > NESTED_MAX and _is_nested_deeper(value, NESTED_MAX):
        raise Malformed(_TOO_DEEP)
    if len(text) > VALUE_CHARACTERS_MAX:
        raise Malformed(f"a value of {len(text)} characters; {VALUE_CHARACTERS_MAX} is the most")
    return text


def _is_nested_deeper(value: object, levels: int) -> bool:
    """Return whether lists and objects in a value are nested more than `levels` deep."""
    layer = [value]
    for _ in range(levels + 1):
        inside = [each.values() if isinstance(each, dict) else each for each in layer if isinstance(each, dict | list)]
        layer = list(chain.from_iterable(inside))
        if not inside:
            return False
    return True


def parse_value(text: str | bytes) -> Any:
    """Parse the text of a JSON value, which `text_of` made."""
    return json.loads(text)


def field(body: dict[str, Any], name: str, kind: type[_T]) -> _T:
    """Return a required field of a request; raises `Malformed` unless it has the type `kind` (object: any type)."""
    if name not in body:
        raise Malformed(f"{body['type']} needs {name}")
    value = body[name]
    if not isinstance(value, kind):
        raise Malformed(f"{name} of {body['type']} is not a {kind.__name__}")
    return value


def parse_offsets(body: dict[str, Any]) -> dict[str, int]:
    """Return the field `offsets` of a request, by key; raises `Malformed`."""
    offsets = field(body, "offsets", dict)
    for key, offset in offsets.items():
        if type(offset) is not int or not 0 <= offset <= _OFFSET_MAX:
            raise Malformed(f"{text_of(offset)[:40]} is not an offset of key {key!r}")
    return offsets


def _refuse_constant(name: str) -> NoReturn:
    """Raise `ValueError` for NaN and infinities, which JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _parse_finite(text: str) -> float:
    """Parse a number; raises `ValueError` if it exceeds the range of a double, which JSON output requires."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:40]} is too large a number")
    return value
